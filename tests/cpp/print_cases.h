// The tensors that print_test.cpp prints. Written against what two libraries with one API share, so that the same list, with `lib` naming
// the other library's namespace, writes the golden files: each prints to a file NAME.txt.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

struct PrintCase {
  std::string name;
  std::function<lib::Tensor()> make;
  int64_t line_size = 80;
};

inline lib::Tensor values(std::vector<double> v, std::vector<int64_t> sizes, lib::ScalarType dtype) {
  return lib::from_blob(v.data(), sizes, lib::TensorOptions().dtype(lib::kDouble)).clone().to(dtype);
}

// Whole numbers that jump about, times a factor.
inline lib::Tensor pattern(std::vector<int64_t> sizes, double factor, lib::ScalarType dtype) {
  int64_t n = 1;
  for (int64_t s : sizes) n *= s;
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(i * 7919 % 1009 - 500) * factor);
  return values(v, sizes, dtype);
}

inline std::vector<PrintCase> print_cases() {
  using namespace lib;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  std::vector<PrintCase> cases;
  auto add = [&](std::string name, std::function<Tensor()> make, int64_t line_size = 80) {
    cases.push_back({std::move(name), std::move(make), line_size});
  };
  auto list = [&](std::string name, std::vector<double> v, ScalarType dtype = kFloat) {
    add(std::move(name), [v, dtype] { return values(v, {static_cast<int64_t>(v.size())}, dtype); });
  };

  add("undefined", [] { return Tensor(); });
  add("scalar_float", [] { return values({3.25}, {}, kFloat); });
  add("scalar_float_tenth", [] { return values({0.1}, {}, kFloat); });
  add("scalar_double_third", [] { return values({1.0 / 3}, {}, kDouble); });
  add("scalar_double_large", [] { return values({123456789.0}, {}, kDouble); });
  add("scalar_int", [] { return values({-7}, {}, kInt); });
  add("scalar_long_large", [] { return values({9007199254740991.0}, {}, kLong); });
  add("scalar_bool", [] { return values({1}, {}, kBool); });
  add("scalar_half", [] { return values({0.1}, {}, kHalf); });
  add("scalar_bfloat16", [] { return values({-2.75}, {}, kBFloat16); });
  add("scalar_inf", [inf] { return values({inf}, {}, kFloat); });
  add("scalar_nan", [nan] { return values({nan}, {}, kFloat); });

  list("whole", {1, 2, 3});
  list("fractions", {1.5, 2, 300});
  list("fraction_below_one", {0.25, 0.5, -0.125});
  list("small", {0.01, 0.02, 0.05});
  list("tiny", {1e-7, 2e-7});
  list("inf_nan", {1.5, inf, nan, -inf});
  list("whole_inf_nan", {1, inf, nan, -inf});
  list("only_inf_nan", {inf, nan});
  list("first_nan", {nan, 2.5, 1000.5});
  list("wide_range", {1e-5, 1});
  list("wider_range", {1e-9, 1e9});
  list("huge_range", {1e-120, 1e120}, kDouble);
  list("zeros", {0, 0, 0});
  list("zero_and_fraction", {0, 0.5});
  list("negative_zero", {-0.0, 1});
  list("large_whole", {1e9, 2e9});
  list("large_whole_scientific", {1e10, 2e10}, kDouble);
  list("nine_digits", {123456789, 1}, kDouble);
  list("scaled", {123456.5, 999999.25}, kDouble);
  list("scaled_mixed", {123456.5, 345.25}, kDouble);
  list("scaled_down", {0.0012, 0.0034}, kDouble);
  list("rounds_up", {0.99999, 9.99999, 99.99999}, kDouble);
  list("one", {42.42});
  list("ints", {1, -2, 30000}, kInt);
  list("longs", {4611686018427387904.0, -1}, kLong);
  list("shorts", {-32768, 32767}, kShort);
  list("chars", {-128, 127, 0}, kChar);
  list("bytes", {0, 255}, kByte);
  list("bools", {1, 0, 1}, kBool);
  list("halves", {0.1, 2.5, 65504}, kHalf);
  list("bfloats", {0.1, 2.5, 65504}, kBFloat16);
  list("doubles", {1.0 / 3, 2.0 / 3}, kDouble);

  // Of complex numbers the real part is shown.
  add("complex_list", [] { return lib::complex(values({1, 2.5}, {2}, kFloat), values({-3, 4}, {2}, kFloat)); });
  add("complex_matrix", [] { return lib::complex(pattern({2, 3}, 0.5, kDouble), pattern({2, 3}, 7, kDouble)); });

  add("matrix_int", [] { return pattern({2, 3}, 1, kInt); });
  add("matrix_float", [] { return pattern({3, 4}, 0.37, kFloat); });
  add("matrix_scaled", [] { return pattern({3, 4}, 12345.678, kDouble); });
  add("matrix_small", [] { return pattern({3, 4}, 1e-6, kDouble); });
  add("matrix_scientific", [] { return pattern({2, 7}, 1e-9, kFloat) + pattern({2, 7}, 1e3, kFloat); });
  add("matrix_bool", [] { return pattern({2, 5}, 1, kInt) > 0; });
  add("matrix_half", [] { return pattern({2, 3}, 0.5, kHalf); });
  add("matrix_column", [] { return pattern({4, 1}, 1.5, kFloat); });
  add("matrix_one", [] { return values({5}, {1, 1}, kFloat); });
  add("columns_int", [] { return pattern({2, 30}, 1, kInt); });
  add("columns_float", [] { return pattern({3, 25}, 0.37, kFloat); });
  add("columns_scaled", [] { return pattern({2, 25}, 98765.4321, kDouble); });
  add("columns_exact", [] { return pattern({2, 16}, 1, kInt); });
  add("columns_long_one_row", [] { return pattern({1, 100}, 1, kLong); });
  add(
      "columns_narrow_line",
      [] {
        return pattern({2, 30}, 1, kInt);
      },
      40);
  add(
      "columns_wide_line",
      [] {
        return pattern({2, 30}, 0.5, kFloat);
      },
      200);
  add("matrix_transposed", [] { return pattern({3, 4}, 0.25, kFloat).t(); });

  add("cube_int", [] { return pattern({2, 2, 3}, 1, kInt); });
  add("cube_float", [] { return pattern({3, 2, 4}, 0.37, kFloat); });
  add("cube_scaled", [] { return pattern({2, 2, 3}, 98765.4321, kDouble); });
  add("cube_columns", [] { return pattern({2, 2, 24}, 0.37, kFloat); });
  add("cube_mixed_slices", [] { return pattern({2, 2, 3}, 1, kFloat) * values({1, 0.001}, {2, 1, 1}, kFloat); });
  add("four_dims", [] { return pattern({2, 3, 2, 2}, 0.5, kFloat); });
  add("five_dims", [] { return pattern({1, 2, 2, 1, 3}, 1, kLong); });
  add("cube_slice", [] { return pattern({3, 4, 6}, 1.25, kFloat).slice(2, 0, 6, 2).transpose(0, 1); });

  add("empty", [] { return values({}, {0}, kFloat); });
  add("empty_rows", [] { return values({}, {0, 3}, kInt); });
  add("empty_columns", [] { return values({}, {2, 0}, kFloat); });
  add("empty_cube", [] { return values({}, {2, 0, 3}, kDouble); });
  add("empty_cube_first", [] { return values({}, {0, 2, 3}, kDouble); });
  return cases;
}
