// The share of kernel texts that the vendors' compilers get in a run of the tests (kernel_share.h). Needs no GPU.
#include "gpu/kernel_share.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace facula::gpu_tests {
namespace {

std::vector<std::string> some_names(size_t count) {
  std::vector<std::string> names;
  for (size_t i = 0; i < count; ++i)
    names.push_back("add_float32-" + std::to_string(i * 2654435761u % 4294967296u) + ".cu");
  return names;
}

TEST(KernelShare, IsThePartThatItIsCalled) {
  const auto names = some_names(3000);
  for (const uint64_t count : {5, 15}) {
    const double expected = 3000.0 / static_cast<double>(count);
    for (const char* word : {"7f3a", "7f3b", "0"}) {
      const auto some = share_of(names, count, word);
      EXPECT_GT(static_cast<double>(some.size()), 0.7 * expected) << count << " " << word;
      EXPECT_LT(static_cast<double>(some.size()), 1.3 * expected) << count << " " << word;
      EXPECT_EQ(share_of(names, count, word), some) << "the same word draws the same texts";
    }
  }
  EXPECT_EQ(share_of(names, 1, "7f3a"), names);
}

TEST(KernelShare, ManyCommitsSeeEveryText) {
  const auto names = some_names(3000);
  std::set<std::string> seen, shares;
  for (int commit = 0; commit < 150; ++commit) {
    const auto some = share_of(names, 15, "sm_80 " + std::to_string(commit));
    seen.insert(some.begin(), some.end());
    shares.insert(some.front());
  }
  EXPECT_EQ(seen.size(), names.size());
  EXPECT_EQ(shares.size(), 15u) << "parts do not overlap";
}

TEST(KernelShare, DoesNotDependOnOtherTexts) {
  auto names = some_names(300);
  const auto before = share_of(names, 5, "commit");
  names.insert(names.begin(), "another.cu");
  auto after = share_of(names, 5, "commit");
  std::erase(after, "another.cu");
  EXPECT_EQ(after, before);
}

}  // namespace
}  // namespace facula::gpu_tests
