// What the files of cases share: their tensors, and how far a result is from a reference.
#pragma once

#include "cases.h"

#include <facula/facula.h>

#include <algorithm>
#include <cmath>

inline const facula::Device kGpu("cuda:0");

inline int64_t scaled(int64_t n) { return tiny_cases ? std::max<int64_t>(n / 128, 8) : n; }

inline facula::Tensor normal(facula::IntArrayRef sizes, facula::ScalarType dtype = facula::kFloat) {
  return facula::randn(sizes, facula::TensorOptions().device(kGpu)).to(dtype);
}

inline double relative_error(const facula::Tensor& result, const facula::Tensor& reference) {
  const facula::Tensor got = result.to(facula::kDouble), want = reference.to(facula::kDouble);
  if (got.sizes() != want.sizes()) return HUGE_VAL;
  const double off = (got - want).square().sum().sqrt().item<double>();
  const double size = want.square().sum().sqrt().item<double>();
  return std::isfinite(off) ? off / std::max(size, 1e-300) : HUGE_VAL;
}
