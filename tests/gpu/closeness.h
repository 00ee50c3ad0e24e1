// How results of a GPU are held against those of the CPU, and tensors that do not begin where memory does.
#pragma once

#include "cpp/seed.h"

#include <facula/facula.h>

#include <gtest/gtest.h>

#include <string>

namespace facula::testing {

using facula_test::seed_text;
using facula_test::test_seed;

inline const Device kGpu("cuda:0");

inline double tolerance(ScalarType t) {
  switch (t) {
    case kHalf: return 2e-3;
    case kBFloat16: return 1.6e-2;
    case kDouble: return 1e-11;
    default: return 2e-5;
  }
}

// Equal shapes, NaN where the other has one, and everything else within `scale` tolerances of the dtype.
inline void expect_close(const Tensor& got, const Tensor& expected, const std::string& what, double scale = 1) {
  SCOPED_TRACE(seed_text());
  const Tensor host = got.cpu();
  ASSERT_EQ(host.sizes(), expected.sizes()) << what;
  ASSERT_EQ(host.scalar_type(), expected.scalar_type()) << what;
  const Tensor a = host.to(kDouble), b = expected.to(kDouble);
  const Tensor same = (a == b).logical_or(a.isnan().logical_and(b.isnan()));
  const Tensor near = (a - b).abs() <= (b.abs() + 1) * (tolerance(got.scalar_type()) * scale);
  const Tensor wrong = same.logical_or(near).logical_not();
  const int64_t count = wrong.sum().item<int64_t>();
  if (count == 0) return;
  const int64_t at = wrong.reshape({-1}).to(kInt).argmax().item<int64_t>();
  ADD_FAILURE() << what << ": " << count << " of " << a.numel() << " entries differ, the first at " << at << ": "
                << a.reshape({-1})[at].item<double>() << " instead of " << b.reshape({-1})[at].item<double>();
}
inline void expect_equal(const Tensor& got, const Tensor& expected, const std::string& what) {
  SCOPED_TRACE(seed_text());
  const Tensor host = got.cpu();
  ASSERT_EQ(host.sizes(), expected.sizes()) << what;
  ASSERT_EQ(host.scalar_type(), expected.scalar_type()) << what;
  const Tensor a = host.to(kDouble), b = expected.to(kDouble);
  const Tensor wrong = (a == b).logical_or(a.isnan().logical_and(b.isnan())).logical_not();
  const int64_t count = wrong.sum().item<int64_t>();
  if (count == 0) return;
  const int64_t at = wrong.reshape({-1}).to(kInt).argmax().item<int64_t>();
  ADD_FAILURE() << what << ": " << count << " of " << a.numel() << " entries differ, the first at " << at << ": "
                << a.reshape({-1})[at].item<double>() << " instead of " << b.reshape({-1})[at].item<double>();
}

// Contiguous, but not where memory begins: `shift` elements later.
inline Tensor shifted(const Tensor& t, int64_t shift) {
  if (shift == 0) return t.contiguous();
  Tensor room = empty({t.numel() + shift}, t.options());
  Tensor there = room.slice(0, shift).view(t.sizes());
  there.copy_(t);
  return there;
}

inline Tensor real_parts(const Tensor& t) { return t.is_complex() ? view_as_real(t) : t; }

inline std::string words(const std::string& op, ScalarType t, IntArrayRef sizes, int64_t more = 0) {
  std::string text = op + " of " + toString(t) + " [";
  for (const int64_t s : sizes) text += std::to_string(s) + " ";
  return text + "], " + std::to_string(more);
}

}  // namespace facula::testing
