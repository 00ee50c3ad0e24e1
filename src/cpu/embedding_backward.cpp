// The CPU kernel of the gradient of embedding: rows added up by index. Each thread owns a range of indices and goes through all of them in order, so that the
// sums do not depend on the number of threads.
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"

#include <facula/core/error.h>
#include <facula/tensor.h>

#include <algorithm>
#include <vector>

namespace facula {
namespace {

// `grad` is (count, width), `result` (rows, width) in the compute type.
template <class T>
void add_rows(const Tensor& grad, const int64_t* indices, int64_t padding_idx, const int64_t* counts,
              const Tensor& result) {
  const TensorImpl &g = *grad.impl(), &out = *result.impl();
  const int64_t count = g.sizes[0], width = g.sizes[1], rows = out.sizes[0];
  const ConvertFn load = load_fn(g.dtype);
  const int64_t bytes = width * static_cast<int64_t>(elementSize(g.dtype));
  T* sums = reinterpret_cast<T*>(out.data());
  const int64_t grain = std::max<int64_t>(1, rows * 16384 / std::max<int64_t>(count * width + rows * width, 1));
  parallel_for(0, rows, grain, [&](int64_t begin, int64_t end) {
    detail::Scratch scratch(load ? static_cast<size_t>(width) * sizeof(T) : 0);
    std::fill_n(sums + begin * width, (end - begin) * width, T(0));
    for (int64_t i = 0; i < count; ++i) {
      const int64_t at = indices[i];
      if (at < begin || at >= end || at == padding_idx) continue;
      const char* from = g.data() + i * bytes;
      const T* row = reinterpret_cast<const T*>(from);
      if (load) {
        load(from, scratch.data(), static_cast<size_t>(width));
        row = scratch.as<T>();
      }
      T* to = sums + at * width;
      if (counts) {
        const T by = static_cast<T>(counts[at]);
        for (int64_t k = 0; k < width; ++k) to[k] += row[k] / by;
      } else {
        for (int64_t k = 0; k < width; ++k) to[k] += row[k];
      }
    }
  });
}

void embedding_backward_cpu(const Tensor& grad, const Tensor& indices, int64_t padding_idx, bool scale,
                            const Tensor& result) {
  const int64_t rows = result.impl()->sizes[0], count = indices.impl()->numel;
  const auto* at = reinterpret_cast<const int64_t*>(indices.impl()->data());
  for (int64_t i = 0; i < count; ++i)
    FACULA_CHECK(at[i] >= 0 && at[i] < rows, IndexError, "embedding_dense_backward: index out of range: ", at[i],
                 " among ", rows, " rows");
  std::vector<int64_t> counts(scale ? static_cast<size_t>(rows) : 0);
  if (scale)
    for (int64_t i = 0; i < count; ++i) ++counts[static_cast<size_t>(at[i])];
  const int64_t* each = scale ? counts.data() : nullptr;
  if (result.scalar_type() == kDouble) add_rows<double>(grad, at, padding_idx, each, result);
  else add_rows<float>(grad, at, padding_idx, each, result);
}

const KernelRegistration embedding_backward_registration(OpId::embedding_dense_backward, DeviceType::CPU,
                                                         &embedding_backward_cpu);

}  // namespace
}  // namespace facula
