// Operations on operands that are broadcast or lie in rows apart, large enough for several tiles, against the same
// operation on contiguous copies.
#include <facula/facula.h>
#include <gtest/gtest.h>

#include <vector>

namespace {

using namespace facula;

std::vector<Tensor> operands(int64_t rows, int64_t cols, ScalarType t) {
  auto draw = [&](IntArrayRef sizes) { return (rand(sizes) + 0.5).to(t); };
  return {draw({rows, cols}),
          draw({rows, 1}).expand({rows, cols}),
          draw({1, cols}).expand({rows, cols}),
          draw({1, 1}).expand({rows, cols}),
          draw({rows, cols + 5}).narrow(1, 2, cols),
          draw({2 * rows, cols}).slice(0, 0, 2 * rows, 2),
          draw({cols, rows}).t()};
}

void expect_agreement() {
  for (ScalarType t : {kFloat, kDouble, kBFloat16})
    for (auto [rows, cols] :
         {std::pair<int64_t, int64_t>{150, 130}, {2, 17000}, {300, 64}, {300, 63}, {41, 1000}, {9, 16400}}) {
      const std::vector<Tensor> all = operands(rows, cols, t);
      for (size_t i = 0; i < all.size(); ++i)
        for (size_t j = 0; j < all.size(); ++j) {
          const Tensor &a = all[i], &b = all[j];
          const Tensor sum = a.contiguous() + b.contiguous(), quotient = a.contiguous() / b.contiguous();
          EXPECT_TRUE(equal(a + b, sum)) << t << " " << rows << " x " << cols << ", operands " << i << ", " << j;
          EXPECT_TRUE(equal(a / b, quotient)) << t << " " << rows << " x " << cols << ", operands " << i << ", " << j;
          Tensor in_place = a.contiguous().clone();
          in_place.div_(b);
          EXPECT_TRUE(equal(in_place, quotient))
              << t << " " << rows << " x " << cols << ", operands " << i << ", " << j;
          // Into rows with a gap, which stays as it is.
          Tensor wide = zeros({rows, cols + 3}, t), out = wide.narrow(1, 1, cols);
          div_out(out, a, b);
          EXPECT_TRUE(equal(out, quotient)) << t << " " << rows << " x " << cols << ", operands " << i << ", " << j;
          EXPECT_EQ(wide.select(1, 0).to(kDouble).abs().sum().item<double>(), 0);
          EXPECT_EQ(wide.narrow(1, cols + 1, 2).to(kDouble).abs().sum().item<double>(), 0);
        }
    }
}

TEST(BroadcastTiles, AgreeWithContiguousOperands) {
  const int threads = get_num_threads();
  for (int n : {1, 2}) {
    set_num_threads(n);
    expect_agreement();
  }
  set_num_threads(threads);
}

}  // namespace
