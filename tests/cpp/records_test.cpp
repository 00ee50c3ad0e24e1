// One test for each public op: its record exists, and every property holds over every case that was drawn from it. The
// case files are named by the environment variable FACULA_CASES; tests/truth/make_cases.py writes them.
#include "cpp/case_file.h"
#include "cpp/record_properties.h"
#include "generated/boxed_calls.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <set>
#include <sstream>
#include <string>
#include <vector>

namespace facula::testing {
namespace {

constexpr size_t kShown = 6;  // complaints printed for one op; the rest is counted

std::vector<std::string> all_ops() {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const BoxedOp& op : boxed_ops())
    if (seen.insert(op.op).second) names.emplace_back(op.op);
  return names;
}

std::string cases_folder() {
  const char* folder = std::getenv("FACULA_CASES");
  return folder == nullptr ? std::string() : std::string(folder);
}

class Op : public ::testing::TestWithParam<std::string> {};

TEST_P(Op, HoldsItsRecord) {
  const std::string folder = cases_folder();
  ASSERT_FALSE(folder.empty()) << "set FACULA_CASES to the folder that tests/truth/make_cases.py --out wrote";
  const std::string path = (std::filesystem::path(folder) / (GetParam() + ".cases")).string();
  ASSERT_TRUE(std::filesystem::exists(path))
      << "op " << GetParam() << " has no record: write tests/records/" << GetParam() << ".py";
  const CaseFile file = read_case_file(path);
  ASSERT_EQ(file.op, GetParam());
  ASSERT_FALSE(file.cases.empty()) << "the record of " << GetParam() << " has no samples";

  size_t wrong_cases = 0, shown = 0;
  std::ostringstream report;
  for (const Case& one : file.cases) {
    std::vector<std::string> complaints;
    try {
      complaints = check_case(file.op, one, file.seed);
    } catch (const std::exception& error) {
      complaints = {std::string("exception: ") + error.what()};
    }
    if (complaints.empty()) continue;
    ++wrong_cases;
    for (const std::string& complaint : complaints)
      if (shown++ < kShown) report << "\n" << one.title << "\n    " << complaint;
  }
  EXPECT_EQ(wrong_cases, 0u) << wrong_cases << " of " << file.cases.size() << " cases fail, seed " << file.seed
                             << report.str();
}

INSTANTIATE_TEST_SUITE_P(Records, Op, ::testing::ValuesIn(all_ops()),
                         [](const ::testing::TestParamInfo<std::string>& named) { return named.param; });

}  // namespace
}  // namespace facula::testing
