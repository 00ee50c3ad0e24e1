// Finding libraries at run time: which folders, in which order, and what is said when there is none.
#include "cpp/child.h"
#include "gpu/driver/library.h"
#include "scoped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace facula::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

constexpr const char* kName[] = {"libfacula_library_test.so.1"};

// A library that surely can be loaded, under the name of the test.
void put_library(const std::string& folder) {
  void* handle = ::dlopen("libm.so.6", RTLD_NOW);
  ASSERT_NE(handle, nullptr);
  link_map* map = nullptr;
  ASSERT_EQ(::dlinfo(handle, RTLD_DI_LINKMAP, &map), 0);
  fs::create_directories(folder);
  fs::copy_file(fs::canonical(map->l_name), folder + "/" + kName[0]);
  ::dlclose(handle);
}

TEST(GpuLibrary, IsNotInstalled) {
  const gpu::Library library = gpu::find_library({.what = "test of absence", .sonames = kName});
  EXPECT_FALSE(library);
  EXPECT_EQ(library.why_not(), "libfacula_library_test.so.1 is not installed");
  EXPECT_EQ(library.symbol("sin"), nullptr);
  EXPECT_THAT(gpu::describe_library_searches(),
              HasSubstr("test of absence: not found\n  libfacula_library_test.so.1: cannot open shared object file"));
}

TEST(GpuLibrary, IsTakenFromTheFirstFolderThatHasAGoodOne) {
  const Folder folder;
  fs::create_directory(folder / "broken");
  std::ofstream(folder / "broken/libfacula_library_test.so.1") << "no library";
  put_library(folder / "good");
  put_library(folder / "later");
  const Variable path("FACULA_GPU_LIBRARY_PATH",
                      (folder / "empty:") + (folder / "broken:") + (folder / "good:") + (folder / "later"));
  const gpu::Library library = gpu::find_library({.what = "test of order", .sonames = kName});
  ASSERT_TRUE(library) << library.why_not();
  EXPECT_EQ(library.path(), folder / "good/libfacula_library_test.so.1");
  EXPECT_EQ(library.name(), kName[0]);
  double (*sine)(double) = nullptr;
  ASSERT_TRUE(library.load(sine, "sin"));
  EXPECT_NEAR(sine(0.5), 0.479425538604203, 1e-15);
  EXPECT_FALSE(library.load(sine, "no_such_function_anywhere"));
  EXPECT_THAT(gpu::describe_library_searches(),
              AllOf(HasSubstr("test of order: " + (folder / "good/libfacula_library_test.so.1")),
                    HasSubstr((folder / "broken/libfacula_library_test.so.1") + ": ")));
}

TEST(GpuLibrary, ThatIsBrokenIsNamed) {
  const Folder folder;
  std::ofstream(folder / kName[0]) << "no library";
  const Variable path("FACULA_GPU_LIBRARY_PATH", folder / "");
  const gpu::Library library = gpu::find_library({.what = "test", .sonames = kName});
  EXPECT_FALSE(library);
  EXPECT_THAT(library.why_not(), AllOf(HasSubstr(kName[0]), HasSubstr("cannot be used: ")));
}

TEST(GpuLibrary, CanBeRefused) {
  const Folder folder;
  put_library(folder / "first");
  put_library(folder / "second");
  const Variable path("FACULA_GPU_LIBRARY_PATH", (folder / "first:") + (folder / "second"));
  const auto refuse_first = [](const gpu::Library& found) {
    return found.path().find("/first/") != std::string::npos ? std::string("it is too old") : std::string();
  };
  const gpu::Library library = gpu::find_library({.what = "test", .sonames = kName, .refuse = refuse_first});
  ASSERT_TRUE(library);
  EXPECT_THAT(library.path(), HasSubstr("/second/"));
  const auto refuse_all = [](const gpu::Library&) { return std::string("it is too old"); };
  const gpu::Library none = gpu::find_library({.what = "test", .sonames = kName, .refuse = refuse_all});
  EXPECT_FALSE(none);
  EXPECT_THAT(none.why_not(), HasSubstr("first/libfacula_library_test.so.1 cannot be used: it is too old"));
}

TEST(GpuLibrary, MustHaveItsEntryPoints) {
  const Folder folder;
  put_library(folder / "");
  const Variable path("FACULA_GPU_LIBRARY_PATH", folder / "");
  double (*sine)(double) = nullptr;
  double (*power)(double, double) = nullptr;
  const gpu::EntryPoint both[] = {{sine, "sin"}, {power, "pow"}};
  ASSERT_TRUE(gpu::find_library({.what = "test", .sonames = kName, .entry_points = both}));
  EXPECT_NEAR(sine(0.5), 0.479425538604203, 1e-15);
  EXPECT_EQ(power(2, 10), 1024);
  const gpu::EntryPoint strange[] = {{sine, "sin"}, {power, "no_such_function_anywhere"}};
  const gpu::Library none = gpu::find_library({.what = "test", .sonames = kName, .entry_points = strange});
  EXPECT_FALSE(none);
  EXPECT_THAT(none.why_not(), HasSubstr("cannot be used: it has no no_such_function_anywhere"));
}

TEST(GpuLibrary, MayLieInPythonPackages) {
  const Folder folder;
  put_library(folder / "lib/python3.11/site-packages/nvidia/cu13/lib");
  {
    const Variable environment("VIRTUAL_ENV", folder / "");
    EXPECT_TRUE(gpu::find_library({.what = "test", .sonames = kName}));
    EXPECT_FALSE(gpu::find_library({.what = "test", .sonames = kName, .in_python_packages = false}));
  }
  {
    const Variable environment("PYTHONPATH", "relative:" + (folder / "lib/python3.11/site-packages"));
    EXPECT_TRUE(gpu::find_library({.what = "test", .sonames = kName}));
  }
  {
    // The python3 that is found first on PATH, through a link as in an environment of its own.
    fs::create_directory(folder / "bin");
    fs::create_symlink("/bin/true", folder / "bin/python3");
    const Variable environment("PATH", (folder / "bin:") + std::getenv("PATH"));
    EXPECT_TRUE(gpu::find_library({.what = "test", .sonames = kName}));
  }
  EXPECT_FALSE(gpu::find_library({.what = "test", .sonames = kName}));
}

TEST(GpuLibrary, DISABLED_LookedForHere) {
  const gpu::Library library = gpu::find_library({.what = "test", .sonames = kName});
  std::printf("%s\n%s", library ? "LOADED" : library.why_not().c_str(), gpu::describe_library_searches().c_str());
}

TEST(GpuLibrary, OfTheWorkingDirectoryIsNeverLoaded) {
  const Folder folder;
  put_library(folder / "here");
  put_library(folder / "here/nvidia/x/lib");
  put_library(folder / "here/lib/python3.11/site-packages/nvidia/x/lib");
  const std::string cd = "-C " + (folder / "here") + " ";
  // What the test itself was started with, so that it can be started again.
  const char* given = std::getenv("LD_LIBRARY_PATH");
  const std::string own = given ? std::string(":") + given : "";
  for (const char* variables :
       {"FACULA_GPU_LIBRARY_PATH=.", "FACULA_GPU_LIBRARY_PATH=:../here:", "VIRTUAL_ENV=.", "PYTHONPATH=.:", "HOME=.",
        "LD_LIBRARY_PATH=.", "LD_LIBRARY_PATH=:/nowhere", "LD_LIBRARY_PATH=../here"}) {
    const std::string more = std::string_view(variables).starts_with("LD_") ? own : "";
    const ChildResult result = run_in_child("GpuLibrary.DISABLED_LookedForHere", cd + variables + more);
    EXPECT_EQ(result.status, 0) << result.output;
    EXPECT_THAT(result.output, AllOf(Not(HasSubstr("LOADED")), HasSubstr("libfacula_library_test.so.1"))) << variables;
  }
  // Absolute folders of the same variable still serve.
  put_library(folder / "there");
  const ChildResult result =
      run_in_child("GpuLibrary.DISABLED_LookedForHere", cd + "LD_LIBRARY_PATH=.:" + (folder / "there") + own);
  EXPECT_THAT(result.output, AllOf(HasSubstr("LOADED"), HasSubstr("test: " + (folder / "there/")),
                                   HasSubstr("LD_LIBRARY_PATH names a folder relative to the working directory")));
}

}  // namespace
}  // namespace facula::testing
