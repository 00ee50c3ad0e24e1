// One test for each public op: its derivatives are what differences say, over every gradient case that was drawn from
// its record, and what vmap makes of them is what a loop does. An op that is not differentiable must not pretend to be.
#include "cpp/case_file.h"
#include "cpp/gradient_properties.h"
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

class OpGradient : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("FACULA_CASES");
    ASSERT_NE(folder, nullptr) << "set FACULA_CASES to the folder that tests/truth/make_cases.py --out wrote";
    const std::string path = (std::filesystem::path(folder) / (GetParam() + ".gradients")).string();
    ASSERT_TRUE(std::filesystem::exists(path))
        << "op " << GetParam() << " has no record: write tests/records/" << GetParam() << ".py";
    file = read_case_file(path);
  }
  CaseFile file;
};

TEST_P(OpGradient, IsTheDerivative) {
  size_t wrong_cases = 0, shown = 0, compared = 0;
  bool must_compare = false;
  std::ostringstream report;
  for (const Case& one : file.cases) {
    GradientFindings findings;
    try {
      findings = check_gradients(file.op, one, file.seed);
    } catch (const std::exception& error) {
      findings.complaints = {std::string("exception: ") + error.what()};
    }
    if (findings.compared || !findings.complaints.empty()) ++compared;
    must_compare |= (one.flags & kDifferentiable) != 0 && (one.flags & kUnchecked) == 0;
    if (findings.complaints.empty()) continue;
    ++wrong_cases;
    for (const std::string& complaint : findings.complaints)
      if (shown++ < kShown) report << "\n" << one.title << "\n    " << complaint;
  }
  EXPECT_EQ(wrong_cases, 0u) << wrong_cases << " of " << file.cases.size() << " cases fail, seed " << file.seed
                             << report.str();
  RecordProperty("compared", static_cast<int>(compared));
  EXPECT_TRUE(compared > 0 || !must_compare)
      << "no case of " << GetParam() << " shows a derivative: give its record `gradient` calls with finite results";
}

// Every gradient case, and some of the others: those have all dtypes.
TEST_P(OpGradient, IsTheSameInABatch) {
  constexpr size_t kOthers = 40;
  std::vector<Case> cases = file.cases;
  const auto path = std::filesystem::path(std::getenv("FACULA_CASES")) / (GetParam() + ".cases");
  const CaseFile others = read_case_file(path.string());
  const size_t step = others.cases.size() / kOthers + 1;
  for (size_t i = 0; i < others.cases.size(); i += step) {
    if (others.cases[i].kind != CaseKind::kValues || (others.cases[i].flags & kUndefinedValues) != 0) continue;
    cases.push_back(others.cases[i]);
    cases.back().flags = 0;  // flags of a gradient case mean something else
  }
  size_t wrong_cases = 0, shown = 0;
  std::ostringstream report;
  for (const Case& one : cases) {
    std::vector<std::string> complaints;
    try {
      complaints = check_batches(file.op, one, file.seed);
    } catch (const std::exception& error) {
      complaints = {std::string("exception: ") + error.what()};
    }
    wrong_cases += !complaints.empty();
    for (const std::string& complaint : complaints)
      if (shown++ < kShown) report << "\n" << one.title << "\n    " << complaint;
  }
  EXPECT_EQ(wrong_cases, 0u) << wrong_cases << " of " << cases.size() << " cases fail, seed " << file.seed
                             << report.str();
}

INSTANTIATE_TEST_SUITE_P(Gradients, OpGradient, ::testing::ValuesIn(all_ops()),
                         [](const ::testing::TestParamInfo<std::string>& named) { return named.param; });

}  // namespace
}  // namespace facula::testing
