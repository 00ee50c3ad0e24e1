// facula/version.h without a GPU: these tests run with FACULA_GPU=none. tests/gpu has the same with one.
#include <facula/facula.h>

#include "cpu/simd/tile_ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

namespace facula {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST(Version, IsTheProjects) {
  const char* source = std::getenv("FACULA_SOURCE_DIR");
  ASSERT_NE(source, nullptr) << "set FACULA_SOURCE_DIR to the folder of the sources";
  std::ifstream in(std::string(source) + "/CMakeLists.txt");
  std::ostringstream text;
  text << in.rdbuf();
  const std::string lines = text.str();
  std::smatch found;
  ASSERT_TRUE(std::regex_search(lines, found, std::regex(R"(project\(Facula VERSION ([0-9.]+))")));
  EXPECT_EQ(version::library(), found[1]);
}

TEST(Version, ThereIsNoPlatformWithoutAGpu) {
  if (std::getenv("FACULA_GPU") == nullptr) GTEST_SKIP() << "FACULA_GPU=none is not set";
  EXPECT_EQ(version::cuda(), std::nullopt);
  EXPECT_EQ(version::hip(), std::nullopt);
  EXPECT_THAT(config(), HasSubstr("\nno GPU: FACULA_GPU=none turns GPUs off"));
}

TEST(Version, ConfigTellsAboutTheProcessor) {
  const int before = get_num_threads();
  set_num_threads(3);
  const std::string text = config();
  set_num_threads(before);
  EXPECT_THAT(text, StartsWith("Facula " + version::library() + ", compiled by "));
  EXPECT_THAT(text, HasSubstr(std::string("\nprocessor: ") + cpu::active_target()));
  EXPECT_THAT(text, HasSubstr("; 3 threads; oneDNN "));
  EXPECT_EQ(text.back(), '\n');
}

}  // namespace
}  // namespace facula
