#include "core/sort_few.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "cpp/seed.h"

namespace {

TEST(SortFew, IsTheStableOrder) {
  SCOPED_TRACE(facula_test::seed_text());
  std::mt19937_64 rng(facula_test::test_seed());
  for (size_t n = 0; n < 40; ++n) {
    std::vector<std::pair<uint64_t, size_t>> few(n);  // few keys, so that many are equal, and where each stood
    for (size_t i = 0; i < n; ++i) few[i] = {rng() % 7, i};
    std::vector<std::pair<uint64_t, size_t>> wanted = few;
    auto larger = [](const auto& a, const auto& b) { return a.first > b.first; };
    std::stable_sort(wanted.begin(), wanted.end(), larger);
    facula::sort_few(few.begin(), few.end(), larger);
    EXPECT_EQ(few, wanted) << n << " elements";
  }
}

}  // namespace
