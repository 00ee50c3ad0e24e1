// The gradient of embedding as an op. The lookup itself is in index.cpp.
#include "ops/index_checks.h"

namespace facula::meaning {

Tensor embedding_dense_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                                int64_t padding_idx, bool scale_grad_by_freq) {
  const char* op = "embedding_dense_backward";
  const TensorImpl& g = impl_of(grad_output, op);
  Tensor places = checked_index(indices, IndexTypes::LongOrInt, op);
  same_device({&grad_output, &indices}, op);
  FACULA_CHECK(num_weights >= 0, ValueError, op, ": num_weights must not be negative, got ", num_weights);
  FACULA_CHECK(g.dim() == places.dim() + 1 && IntArrayRef(g.sizes).slice(0, usize(places.dim())) == places.sizes(),
               ShapeError, op, ": a gradient of size ", to_text(IntArrayRef(g.sizes)), " does not fit indices of size ",
               to_text(places.sizes()), "; it must have one more dimension, that of the rows");
  FACULA_CHECK(is_computed_float(g.dtype) || isComplexType(g.dtype), DTypeError, op, ": not implemented for '",
               toString(g.dtype), "'");
  const int64_t width = g.sizes.back(), count = places.numel();
  const DimVector sizes = {num_weights, width};
  if (g.device.is_meta()) return new_tensor(sizes, g.dtype, g.device, op);
  const ScalarType work = isReducedFloatingType(g.dtype) ? kFloat : g.dtype;
  if (g.numel == 0) {
    Tensor zeros = new_tensor(sizes, g.dtype, g.device, op);
    fill_values(zeros, 0);
    return zeros;
  }
  places = as_contiguous(places).view({count});
  const Tensor rows = as_contiguous(grad_output).view({count, width});
  if (isFloatingType(g.dtype) && has_kernel(OpId::embedding_dense_backward, g.device.type())) {
    Tensor sums = new_tensor(sizes, work, g.device, op);
    call_kernel<void(const Tensor&, const Tensor&, int64_t, bool, const Tensor&)>(
        OpId::embedding_dense_backward, g.device.type(), rows, places, padding_idx, scale_grad_by_freq, sums);
    return as_dtype(sums, g.dtype);
  }
  Tensor parts = as_dtype(rows, work);
  if (padding_idx >= 0) parts = parts.masked_fill((places == padding_idx).unsqueeze(1), 0);
  if (scale_grad_by_freq) {
    const Tensor counts =
        facula::zeros({num_weights}, places.options()).index_add(0, places, facula::ones_like(places));
    parts = parts / counts.index_select(0, places).unsqueeze(1);
  }
  return as_dtype(facula::zeros(sizes, parts.options()).index_add(0, places, parts), g.dtype);
}

}  // namespace facula::meaning
