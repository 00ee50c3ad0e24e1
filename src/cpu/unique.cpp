// The CPU kernels behind unique, unique_dim and unique_consecutive: sorting whole slices, and finding the runs of equal ones.
#include "core/function_ref.h"
#include "core/kernel_table.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"
#include "cpu/sort_keys.h"

#include <facula/tensor.h>

#include <algorithm>
#include <cstring>

namespace facula {
namespace {

using namespace detail;

// A slice in sorting: the first 64 bits of its keys decide most comparisons.
struct Slice {
  uint64_t prefix;
  int64_t index;
};

template <class K>
void sort_slices_typed(const Tensor& items, const Tensor& order, const Tensor& sorted) {
  const ScalarType t = items.impl()->dtype;
  const int64_t n = items.impl()->sizes[0], m = items.impl()->sizes[1];
  const size_t key_bytes = round_up_64(static_cast<size_t>(n * m) * sizeof(K));
  Scratch scratch(key_bytes + static_cast<size_t>(n) * sizeof(Slice));
  K* keys = scratch.as<K>();
  Slice* slices = scratch.as<Slice>(key_bytes);
  load_keys(t, items.impl()->data(), n * m, false, keys);
  for (int64_t i = 0; i < n; ++i) {
    const K* k = keys + i * m;
    uint64_t prefix = m > 0 ? k[0] : 0;
    if constexpr (sizeof(K) == 4) prefix = (prefix << 32) | (m > 1 ? k[1] : 0);
    slices[i] = {prefix, i};
  }
  std::sort(slices, slices + n, [&](const Slice& a, const Slice& b) {
    if (a.prefix != b.prefix) return a.prefix < b.prefix;
    const K *x = keys + a.index * m, *y = keys + b.index * m;
    for (int64_t j = 1; j < m; ++j)
      if (x[j] != y[j]) return x[j] < y[j];
    return a.index < b.index;
  });
  const size_t row_bytes = static_cast<size_t>(m) * elementSize(t);
  int64_t* to = reinterpret_cast<int64_t*>(order.impl()->data());
  for (int64_t i = 0; i < n; ++i) {
    to[i] = slices[i].index;
    std::memcpy(sorted.impl()->data() + static_cast<size_t>(i) * row_bytes,
                items.impl()->data() + static_cast<size_t>(slices[i].index) * row_bytes, row_bytes);
  }
}

// Puts the n slices of `items` (n x m, contiguous) in ascending order, entry after entry, into `sorted`; `order` says which each was.
void sort_slices_cpu(const Tensor& items, const Tensor& order, const Tensor& sorted) {
  if (items.impl()->numel == 0) return;
  if (has_wide_keys(items.impl()->dtype)) sort_slices_typed<uint64_t>(items, order, sorted);
  else sort_slices_typed<uint32_t>(items, order, sorted);
}

template <class T>
bool slices_equal(const char* a, const char* b, int64_t m) {
  const T *x = reinterpret_cast<const T*>(a), *y = reinterpret_cast<const T*>(b);
  for (int64_t j = 0; j < m; ++j)
    if (!(x[j] == y[j])) return false;
  return true;
}

// Equality of values: both zeros are equal, NaN equals nothing. Integers are compared by their bits.
using EqualFn = bool (*)(const char*, const char*, int64_t);
EqualFn equal_fn(ScalarType t) {
  switch (t) {
    case ScalarType::Float: return &slices_equal<float>;
    case ScalarType::Double: return &slices_equal<double>;
    case ScalarType::Half: return &slices_equal<Half>;
    case ScalarType::BFloat16: return &slices_equal<BFloat16>;
    case ScalarType::Float8_e5m2: return &slices_equal<Float8_e5m2>;
    case ScalarType::Float8_e4m3fn: return &slices_equal<Float8_e4m3fn>;
    case ScalarType::ComplexFloat:
      return [](const char* a, const char* b, int64_t m) { return slices_equal<float>(a, b, 2 * m); };
    case ScalarType::ComplexDouble:
      return [](const char* a, const char* b, int64_t m) { return slices_equal<double>(a, b, 2 * m); };
    case ScalarType::ComplexHalf:
      return [](const char* a, const char* b, int64_t m) { return slices_equal<Half>(a, b, 2 * m); };
    default: break;
  }
  switch (elementSize(t)) {
    case 1: return &slices_equal<uint8_t>;
    case 2: return &slices_equal<uint16_t>;
    case 4: return &slices_equal<uint32_t>;
    default: return &slices_equal<uint64_t>;
  }
}

// Finds runs of equal neighbours among the n slices of `items` (n x m, contiguous). `make` gives the tensor for the first slice of each
// run and the one for the lengths of the runs, or an undefined one where lengths are not wanted, once their number is known. `inverse`,
// where given, gets the run of each slice; with `order` slice i is the one that was number order[i].
void find_runs_cpu(const Tensor& items, const Tensor* order, const Tensor* inverse,
                   FunctionRef<std::pair<Tensor, Tensor>(int64_t)> make) {
  const TensorImpl* in = items.impl();
  const int64_t n = in->sizes[0], m = in->sizes[1];
  const int64_t row_bytes = m * static_cast<int64_t>(elementSize(in->dtype));
  const EqualFn equal = equal_fn(in->dtype);
  Scratch scratch(static_cast<size_t>(n));
  char* begins = scratch.data();
  parallel_for(0, n, std::max<int64_t>(1, 16384 / std::max<int64_t>(m, 1)), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const char* row = in->data() + i * row_bytes;
      begins[i] = i == 0 || !equal(row - row_bytes, row, m);
    }
  });
  const int64_t runs = std::count(begins, begins + n, char{1});
  const auto [values, counts] = make(runs);
  char* value = values.impl()->data();
  int64_t* count = counts.defined() ? reinterpret_cast<int64_t*>(counts.impl()->data()) : nullptr;
  int64_t* places = inverse ? reinterpret_cast<int64_t*>(inverse->impl()->data()) : nullptr;
  const int64_t* numbers = order ? reinterpret_cast<const int64_t*>(order->impl()->data()) : nullptr;
  int64_t run = -1;
  for (int64_t i = 0, start = 0; i < n; ++i) {
    if (begins[i]) {
      if (count && run >= 0) count[run] = i - start;
      ++run;
      start = i;
      if (row_bytes > 0)
        std::memcpy(value + run * row_bytes, in->data() + i * row_bytes, static_cast<size_t>(row_bytes));
    }
    if (places) places[numbers ? numbers[i] : i] = run;
    if (count && i + 1 == n) count[run] = n - start;
  }
}

const KernelRegistration slices_registration(OpId::unique_dim, DeviceType::CPU, &sort_slices_cpu);
const KernelRegistration runs_registration(OpId::unique_consecutive, DeviceType::CPU, &find_runs_cpu);

}  // namespace
}  // namespace facula
