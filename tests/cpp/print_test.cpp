// Tensors print as libtorch prints them: every case of print_cases.h against its golden file, and what has no golden file.
#include <facula/facula.h>

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iomanip>
#include <sstream>

namespace lib = facula;
#include "cpp/print_cases.h"

namespace facula {
namespace {

std::string golden(const std::string& name) {
  const char* root = std::getenv("FACULA_SOURCE_DIR");
  std::ifstream file(std::string(root ? root : ".") + "/tests/golden/print/" + name + ".txt", std::ios::binary);
  EXPECT_TRUE(file.good()) << "no golden file for " << name << "; set FACULA_SOURCE_DIR to the root of the sources";
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Print, MatchesGoldenFiles) {
  for (const PrintCase& c : print_cases()) {
    std::ostringstream out;
    print(out, c.make(), c.line_size);
    EXPECT_EQ(out.str(), golden(c.name)) << c.name;
  }
}

TEST(Print, LeavesTheFormatOfTheStream) {
  std::ostringstream out;
  out << std::setprecision(3) << std::fixed << tensor({1.0f, 2.5f}) << ' ' << 1.23456;
  EXPECT_EQ(out.str(), " 1.0000\n 2.5000\n[ CPUFloatType{2} ] 1.235");
}

TEST(Print, MetaTensorsHaveNoData) {
  EXPECT_EQ(to_text(empty({2, 3}, TensorOptions().dtype(kFloat).device(kMeta))), "[ MetaFloatType{2,3} ]");
}

TEST(Print, IndicesAndOptions) {
  using namespace indexing;
  std::ostringstream out;
  out << std::vector<TensorIndex>{None, "...", 0, true, Slice(1, None, 2), tensor({1, 2}, kLong)};
  EXPECT_EQ(out.str(), "(None, ..., 0, true, 1:9223372036854775807:2,  1\n 2\n[ CPULongType{2} ])");
  std::ostringstream options;
  options << TensorOptions(kFloat).requires_grad(true);
  EXPECT_EQ(options.str(),
            "TensorOptions(dtype=Float, device=cpu (default), layout=Strided (default), requires_grad=true, "
            "pinned_memory=false (default), memory_format=(nullopt))");
}

TEST(Print, EveryDtypeHasText) {
  for (int t = 0; t < kNumScalarTypes; ++t) {
    const ScalarType dtype = static_cast<ScalarType>(t);
    const Tensor x = tensor({1.0, 0.0}).to(dtype);
    EXPECT_EQ(to_text(x), str(" 1\n 0\n[ CPU", toString(dtype), "Type{2} ]"));
    EXPECT_EQ(x.toString(), str("CPU", toString(dtype), "Type"));
  }
  EXPECT_EQ(Tensor().toString(), "UndefinedType");
}

TEST(Print, ShortFormGoesToStandardError) {
  testing::internal::CaptureStderr();
  zeros({2, 3}).print();
  Tensor().print();
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "[CPUFloatType [2, 3]]\n[UndefinedTensor]\n");
}

TEST(Print, LineSizeBelowOneColumnStillPrints) {
  std::ostringstream out;
  print(out, arange(4).reshape({2, 2}), 1);
  EXPECT_EQ(out.str(), "Columns 1 to 1 0\n 2\n\nColumns 2 to 2 1\n 3\n[ CPULongType{2,2} ]");
}

}  // namespace
}  // namespace facula
