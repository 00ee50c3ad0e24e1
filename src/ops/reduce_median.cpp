// Medians: the middle entry of every row, found by partial ordering, on a GPU by sorting. Other reductions need no order
// and are in reduce.cpp.
#include "ops/common.h"
#include "ops/reduce_helpers.h"

#include "cpu/convert.h"
#include "cpu/parallel.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace facula::meaning {
namespace {

// The index of the lower median of n values; of equal ones the order of indices decides. The first NaN where there is
// one.
template <class T>
int64_t median_index(const void* values, int64_t n, std::vector<int64_t>& order) {
  const T* v = static_cast<const T*>(values);
  order.resize(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    if (v[i] != v[i]) return i;
    order[static_cast<size_t>(i)] = i;
  }
  auto middle = order.begin() + (n - 1) / 2;
  std::nth_element(order.begin(), middle, order.end(),
                   [v](int64_t a, int64_t b) { return v[a] < v[b] || (v[a] == v[b] && a < b); });
  return *middle;
}

// The same without indices: ordering the values themselves is faster.
template <class T>
void median_value(void* values, int64_t n, void* out) {
  T* v = static_cast<T*>(values);
  T result{};
  const T* nan = std::find_if(v, v + n, [](T x) { return x != x; });
  if (nan != v + n) {
    result = *nan;
  } else {
    std::nth_element(v, v + (n - 1) / 2, v + n);
    result = v[(n - 1) / 2];
  }
  std::memcpy(out, &result, sizeof(T));
}

template <class F>
decltype(auto) with_type(CType type, const F& f) {
  switch (type) {
    case CType::F32: return f(float{});
    case CType::F64: return f(double{});
    case CType::I32: return f(int32_t{});
    case CType::I64: return f(int64_t{});
    case CType::U64: return f(uint64_t{});
    default: return f(uint8_t{});
  }
}

void check_median(const Tensor& self) {
  check_defined(self, "median");
  FACULA_CHECK(!self.is_complex(), DTypeError, "median: \"median\" not implemented for '", toString(self.scalar_type()),
               "': complex numbers have no order. Take the median of abs(), real or imag instead");
}

// Sorting is stable and takes both zeros for equal, so that the entry in the middle is the one that the CPU finds. NaN
// comes last there, but is the greatest of all to `max`, which tells the first one.
std::tuple<Tensor, Tensor> median_on_gpu(const Tensor& self, int64_t dim, bool keepdim) {
  const int64_t n = self.dim() == 0 ? 1 : self.size(dim), middle = (n + 1) / 2;
  if (!self.is_floating_point()) return meaning::kthvalue(self, middle, dim, keepdim);
  const auto [greatest, first] = meaning::max(self, dim, true);
  Tensor indices =
      facula::where(facula::isnan(greatest), first, std::get<1>(meaning::kthvalue(self, middle, dim, true)));
  Tensor values = meaning::gather(self, dim, indices, false);
  if (!keepdim) {
    const DimVector sizes = reduced_sizes(self, reduced_dims(self, dim, "median"), false);
    values.impl()->set_contiguous(sizes);
    indices.impl()->set_contiguous(sizes);
  }
  return {values, indices};
}

}  // namespace

Tensor median(const Tensor& self) {
  check_median(self);
  const TensorImpl* t = self.impl();
  Tensor result = new_tensor({}, t->dtype, t->device, "median");
  if (t->device.is_meta()) return result;
  if (t->numel == 0) {
    fill_values(result, isFloatingType(t->dtype) ? Scalar(std::numeric_limits<double>::quiet_NaN()) : Scalar(0));
    return result;
  }
  if (t->device.is_cuda()) return std::get<0>(median_on_gpu(meaning::reshape(self, {-1}), 0, false));
  const CType type = compute_type(t->dtype);
  const Tensor dense = as_contiguous(self);
  std::vector<char> values(static_cast<size_t>(t->numel) * ctype_size(type));
  load_block(dense.impl()->data(), t->dtype, 1, t->numel, 0, 1, values.data());
  alignas(16) char middle[16];
  with_type(type, [&](auto zero) { median_value<decltype(zero)>(values.data(), t->numel, middle); });
  store_block(middle, t->dtype, 1, 1, 1, 1, result.impl()->data());
  return result;
}

std::tuple<Tensor, Tensor> median(const Tensor& self, int64_t dim, bool keepdim) {
  check_median(self);
  const TensorImpl* t = self.impl();
  const uint64_t mask = reduced_dims(self, dim, "median");
  check_not_empty(self, mask, false, "median");
  if (t->device.is_cuda() && t->numel > 0) return median_on_gpu(self, dim, keepdim);
  const DimVector sizes = reduced_sizes(self, mask, keepdim);
  Tensor values = new_tensor(sizes, t->dtype, t->device, "median");
  Tensor indices = new_tensor(sizes, kLong, t->device, "median");
  const int64_t outputs = values.numel();
  if (t->device.is_meta() || outputs == 0) return {values, indices};

  const size_t along = static_cast<size_t>(wrap_dim(dim, t->dim(), "median"));
  const int64_t n = t->dim() == 0 ? 1 : t->sizes[along], stride = t->dim() == 0 ? 1 : t->strides[along];
  const CType type = compute_type(t->dtype);
  const size_t width = elementSize(t->dtype);
  auto* positions = reinterpret_cast<int64_t*>(indices.impl()->data());
  parallel_for(0, outputs, std::max<int64_t>(1, 4096 / n), [&](int64_t first, int64_t last) {
    std::vector<int64_t> order;
    std::vector<char> row(static_cast<size_t>(n) * ctype_size(type));
    for (int64_t i = first; i < last; ++i) {
      int64_t rest = i, offset = 0;
      for (size_t d = t->sizes.size(); d-- > 0;) {
        if (d == along) continue;
        offset += rest % t->sizes[d] * t->strides[d];
        rest /= t->sizes[d];
      }
      const char* source = t->data() + offset * static_cast<int64_t>(width);
      load_block(source, t->dtype, 1, n, 0, stride, row.data());
      positions[i] = with_type(type, [&](auto zero) { return median_index<decltype(zero)>(row.data(), n, order); });
      std::memcpy(values.impl()->data() + i * static_cast<int64_t>(width),
                  source + positions[i] * stride * static_cast<int64_t>(width), width);
    }
  });
  return {values, indices};
}

}  // namespace facula::meaning
