// Tensors of counted numbers, and their values read by hand: what tests of the tensor itself use, so that they lean on few
// ops.
#pragma once

#include <facula/facula.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace facula_test {

using Shape = std::vector<int64_t>;
using Values = std::vector<double>;

// 0, 1, 2 and so on in row-major order.
inline facula::Tensor numbers(const Shape& shape, facula::ScalarType dtype = facula::kFloat) {
  int64_t n = 1;
  for (int64_t s : shape) n *= s;
  Values v(static_cast<size_t>(n));
  std::iota(v.begin(), v.end(), 0.0);
  return facula::from_blob(v.data(), shape, facula::kDouble).clone().to(dtype);
}

// In logical order, read through strides by hand.
inline Values values_of(const facula::Tensor& t) {
  const facula::Tensor d = t.to(facula::kDouble);
  Values out;
  for (int64_t k = 0; k < d.numel(); ++k) {
    int64_t rest = k, at = 0;
    for (int64_t i = d.dim(); i-- > 0; rest /= d.size(i)) at += rest % d.size(i) * d.stride(i);
    out.push_back(d.data_ptr<double>()[at]);
  }
  return out;
}

}  // namespace facula_test
