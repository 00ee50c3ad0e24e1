// Drivers tried in a process of their own, and what is remembered of it.
#include "cpp/child.h"
#include "gpu/driver/library.h"
#include "gpu/driver/probe.h"
#include "scoped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace facula::testing {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

constexpr const char* kName[] = {"libfacula_library_test.so.1"};

TEST(GpuProbe, PassesOnWhatTheDriverSays) {
  const gpu::ProbeResult result = gpu::probe(
      [] {
        gpu::DriverOpening opening;
        opening.why_not = "words " + std::string(100000, 'x');
        gpu::find_library({.what = "looked for in the child", .sonames = kName});
        return opening;
      },
      "the driver", 60);
  EXPECT_FALSE(result.ok);
  EXPECT_FALSE(result.could_not_try);
  EXPECT_EQ(result.why_not, "words " + std::string(100000, 'x'));
  EXPECT_THAT(result.searches, HasSubstr("looked for in the child"));
  EXPECT_THAT(gpu::describe_library_searches(), Not(HasSubstr("looked for in the child")));
}

TEST(GpuProbe, SurvivesCrashes) {
  const auto why = [](gpu::DriverOpening (*open)()) {
    const gpu::ProbeResult result = gpu::probe(open, "the driver", 60);
    EXPECT_FALSE(result.ok);
    return result.why_not;
  };
  EXPECT_THAT(why([]() -> gpu::DriverOpening { std::abort(); }),
              HasSubstr("the driver crashes when it is started (Aborted"));
  EXPECT_THAT(why([]() -> gpu::DriverOpening {
                ::raise(SIGSEGV);
                return {};
              }),
              HasSubstr("the driver crashes when it is started (Segmentation fault"));
  EXPECT_THAT(why([]() -> gpu::DriverOpening { ::_exit(7); }),
              HasSubstr("the driver ends the process when it is started (exit code 7"));
  EXPECT_THAT(why([]() -> gpu::DriverOpening { throw 1; }), HasSubstr("exit code 3"));
}

TEST(GpuProbe, DoesNotWaitForEver) {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  const auto begin = std::chrono::steady_clock::now();
  const gpu::ProbeResult result = gpu::probe(
      []() -> gpu::DriverOpening {
        ::signal(SIGTERM, SIG_IGN);
        while (true) ::sleep(1);
      },
      "the driver", 0.3);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.why_not,
              AllOf(HasSubstr("the driver hangs: it did not start within 0.3"), HasSubstr("FACULA_GPU_PROBE_SECONDS")));
  EXPECT_GE(seconds, 0.3);
  EXPECT_LT(seconds, 20);
  // The child is gone, not left as a zombie. (A real driver may have children of its own.)
  EXPECT_LE(::waitpid(-1, nullptr, WNOHANG), 0);
}

TEST(GpuProbe, WorksWhereChildrenAreNotWaitedFor) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const gpu::ProbeResult crashed = gpu::probe([]() -> gpu::DriverOpening { std::abort(); }, "the driver", 60);
  EXPECT_THAT(crashed.why_not, HasSubstr("the driver crashes when it is started"));
  const gpu::ProbeResult fine = gpu::probe([] { return gpu::DriverOpening{nullptr, 0, "words"}; }, "the driver", 60);
  EXPECT_EQ(fine.why_not, "words");
  ::signal(SIGCHLD, before);
}

TEST(GpuProbe, DISABLED_Remembers) {
  const std::string file = std::getenv("PROBE_TEST_FILE");
  std::ofstream(file) << "one";
  EXPECT_FALSE(gpu::probed_before("a"));
  gpu::remember_probe("a", file);
  EXPECT_TRUE(gpu::probed_before("a"));
  EXPECT_FALSE(gpu::probed_before("b"));
  {
    const Variable hidden("CUDA_VISIBLE_DEVICES", "");
    EXPECT_FALSE(gpu::probed_before("a"));
  }
  {
    const Variable hidden("HIP_VISIBLE_DEVICES", "1");
    EXPECT_FALSE(gpu::probed_before("a"));
  }
  EXPECT_TRUE(gpu::probed_before("a"));
  std::ofstream(file) << "another";
  EXPECT_FALSE(gpu::probed_before("a"));
  gpu::remember_probe("a", file);
  EXPECT_TRUE(gpu::probed_before("a"));
  fs::rename(file, file + ".old");
  EXPECT_FALSE(gpu::probed_before("a"));
}

TEST(GpuProbe, IsRememberedUntilSomethingChanges) {
  const Folder folder;
  const ChildResult result =
      run_in_child("GpuProbe.DISABLED_Remembers", "-u CUDA_VISIBLE_DEVICES -u HIP_VISIBLE_DEVICES FACULA_CACHE_DIR=" +
                                                      (folder / "cache") + " PROBE_TEST_FILE=" + (folder / "driver"));
  EXPECT_EQ(result.status, 0) << result.output;
}

// A child that marks its start and says so; with `ends` it ends then, the mark in place, and otherwise it waits to be killed.
pid_t start_and_stay(const char* what, bool ends) {
  int said[2];
  EXPECT_EQ(::pipe(said), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const gpu::StartMark mark(what);
    static_cast<void>(!::write(said[1], "x", 1));
    if (ends) ::_exit(1);
    while (true) ::pause();
  }
  char word = 0;
  EXPECT_EQ(::read(said[0], &word, 1), 1);
  ::close(said[0]);
  ::close(said[1]);
  return child;
}

TEST(GpuProbe, DISABLED_MarksStarts) {
  const std::string file = std::getenv("PROBE_TEST_FILE");
  const fs::path marks = fs::path(std::getenv("FACULA_CACHE_DIR")) / "starting";
  const auto count = [&] { return std::distance(fs::directory_iterator(marks), fs::directory_iterator()); };
  std::ofstream(file) << "one";
  gpu::remember_probe("a", file);
  std::string name;
  {
    const gpu::StartMark mark("a");
    ASSERT_EQ(count(), 1);
    name = fs::directory_iterator(marks)->path().filename().string();
    EXPECT_TRUE(gpu::probed_before("a"));  // who makes it lives
    EXPECT_EQ(count(), 1);
  }
  EXPECT_EQ(count(), 0);
  EXPECT_TRUE(gpu::probed_before("a"));

  // Another that lives does not count until it is gone, collected or not.
  for (const bool collected : {true, false}) {
    const pid_t other = start_and_stay("a", false);
    EXPECT_TRUE(gpu::probed_before("a"));
    ::kill(other, SIGKILL);
    siginfo_t info;
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(other), &info, collected ? WEXITED : WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(gpu::probed_before("a"));
    if (!collected) ::waitpid(other, nullptr, 0);
    EXPECT_EQ(count(), 0);
    EXPECT_FALSE(gpu::probed_before("a"));  // forgotten, not only doubted
    gpu::remember_probe("a", file);
    EXPECT_TRUE(gpu::probed_before("a"));
  }

  // The start of another driver says nothing of this one.
  ::waitpid(start_and_stay("b", true), nullptr, 0);
  EXPECT_TRUE(gpu::probed_before("a"));
  EXPECT_EQ(count(), 1);
  gpu::remember_probe("b", file);
  EXPECT_FALSE(gpu::probed_before("b"));

  // A process that has got the number of another did not make its mark.
  std::ofstream(marks / (name + "1"));
  EXPECT_FALSE(gpu::probed_before("a"));
  EXPECT_EQ(count(), 0);

  // Where no mark can be made, what was remembered holds.
  gpu::remember_probe("a", file);
  fs::remove(marks);
  std::ofstream(marks) << "in the way";
  const gpu::StartMark none("a");
  EXPECT_TRUE(gpu::probed_before("a"));
}

TEST(GpuProbe, IsForgottenWhenAStartEndsTheProcess) {
  const Folder folder;
  const ChildResult result =
      run_in_child("GpuProbe.DISABLED_MarksStarts",
                   "FACULA_CACHE_DIR=" + (folder / "cache") + " PROBE_TEST_FILE=" + (folder / "driver"));
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(GpuProbe, SaysTheCureItIsGiven) {
  const auto crashes = []() -> gpu::DriverOpening { std::abort(); };
  EXPECT_THAT(gpu::probe(crashes, "the driver", 60).why_not, EndsWith("; install it again"));
  EXPECT_THAT(gpu::probe(crashes, "the driver", 60, "plug it in").why_not, EndsWith("; plug it in"));
}

TEST(GpuProbe, NamesTheVariablesThatHipDoesNotTakeTogether) {
  const Variable ordinal("GPU_DEVICE_ORDINAL", "0"), visible("HIP_VISIBLE_DEVICES", "1,2");
  EXPECT_THAT(
      gpu::hip_crash_cure(),
      StartsWith("GPU_DEVICE_ORDINAL (\"0\") and HIP_VISIBLE_DEVICES (\"1,2\") are both set, and HIP takes only "
                 "one of them: unset GPU_DEVICE_ORDINAL"));
}

}  // namespace
}  // namespace facula::testing
