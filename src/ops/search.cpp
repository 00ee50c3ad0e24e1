// What searchsorted, bucketize, isin, bincount, histc and the unique family mean. Sorting lives in sort.cpp.
#include "core/function_ref.h"
#include "ops/common.h"
#include "ops/pointwise.h"
#include "ops/transfer.h"

#include <cmath>

namespace facula::meaning {

namespace {

void check_real(const Tensor& t, const char* op) {
  FACULA_CHECK(t.defined(), ValueError, op, ": the input tensor is undefined");
  FACULA_CHECK(!isComplexType(t.impl()->dtype), DTypeError, op, ": does not support complex dtypes, got ",
               toString(t.impl()->dtype));
}

// Sizes and values that depend on the data cannot be told for meta tensors.
void check_has_data(const Tensor& t, const char* op) {
  FACULA_CHECK(!t.impl()->device.is_meta(), NotSupportedError, op,
               ": the size of the result depends on the values, which a meta tensor does not have");
}

Tensor number_tensor(const Scalar& value, ScalarType dtype, Device device, const char* op) {
  Tensor t = new_tensor({}, dtype, device, op);
  fill_values(t, value);
  return t;
}

// ---- searchsorted ----------------------------------------------------------------------------------------------------------

bool wants_right(bool right, std::optional<std::string_view> side, const char* op) {
  if (!side) return right;
  FACULA_CHECK(*side == "left" || *side == "right", ValueError, op, ": side can only be 'left' or 'right' but got ",
               *side);
  FACULA_CHECK(*side == "right" || !right, ValueError, op,
               ": side and right can't be set to opposites, got side of left while right was True");
  return *side == "right";
}

void check_sorter(const Tensor& sequence, const Tensor& sorter, const char* op) {
  FACULA_CHECK(sorter.device() == sequence.device(), DeviceError, op,
               ": sorter and boundary tensor should have same device type, but got ", sorter.device().str(), " and ",
               sequence.device().str());
  FACULA_CHECK(sorter.sizes() == sequence.sizes(), ShapeError, op,
               ": boundary and sorter must have the same size, but got boundary ", to_text(sequence.sizes()),
               " and sorter ", to_text(sorter.sizes()));
  FACULA_CHECK(sorter.scalar_type() == kLong, DTypeError, op, ": sorter must be a tensor of long dtype but got dtype ",
               toString(sorter.scalar_type()));
}

void check_sorter_range(const Tensor& sorter, int64_t n, const char* op) {
  const int64_t* at = reinterpret_cast<const int64_t*>(sorter.impl()->data());
  for (int64_t i = 0; i < sorter.impl()->numel; ++i) {
    FACULA_CHECK(at[i] >= 0 && at[i] < n, IndexError, op, ": sorter index out of range: ", at[i], " is not in [0, ", n,
                 ")");
  }
}

Tensor search(const Tensor& sequence, const Tensor& values, bool out_int32, bool right,
              const std::optional<Tensor>& sorter, const char* op) {
  const TensorImpl *q = sequence.impl(), *v = values.impl();
  const bool sorted_by = sorter && sorter->defined();
  FACULA_CHECK(q->device == v->device, DeviceError, op,
               ": boundaries and input value tensors should have same device type, but got ", q->device.str(), " and ",
               v->device.str());
  FACULA_CHECK(q->dim() > 0, ShapeError, op, ": boundaries tensor should have positive dimension, but got 0 dimension");
  bool match = q->dim() == 1 || q->dim() == v->dim();
  for (int64_t d = 0; match && q->dim() > 1 && d + 1 < q->dim(); ++d) {
    match = q->sizes[static_cast<size_t>(d)] == v->sizes[static_cast<size_t>(d)];
  }
  FACULA_CHECK(match, ShapeError, op,
               ": boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries tensor and input "
               "value tensor must match, but got boundaries tensor ",
               to_text(q->sizes), " and input value tensor ", to_text(v->sizes));
  if (sorted_by) check_sorter(sequence, *sorter, op);
  FACULA_CHECK(!out_int32 || q->sizes.back() < INT32_MAX, ValueError, op,
               ": the size of boundaries' last dimension should be less than ", INT32_MAX, ", but got ",
               q->sizes.back(), "; leave out_int32 unset");
  Tensor out = new_tensor(v->sizes, out_int32 ? kInt : kLong, v->device, op);
  if (v->device.is_meta() || v->numel == 0) return out;
  const Tensor row_values = as_contiguous(values), row_sequence = as_contiguous(sequence);
  Tensor order;
  if (sorted_by) {
    order = as_contiguous(*sorter);
    if (!order.is_cuda()) check_sorter_range(order, q->sizes.back(), op);  // kernels of GPUs look for themselves
  }
  call_kernel<void(const Tensor&, const Tensor&, const Tensor*, bool, const Tensor&)>(
      OpId::searchsorted, v->device.type(), row_sequence, row_values, sorted_by ? &order : nullptr, right, out);
  return out;
}

Tensor search_tensor(const Tensor& sequence, const Tensor& values, bool out_int32, bool right,
                     const std::optional<Tensor>& sorter, const char* op) {
  check_real(sequence, op);
  check_real(values, op);
  FACULA_CHECK(sequence.scalar_type() == values.scalar_type(), DTypeError, op,
               ": input value tensor and boundary tensor should have same dtype, but got input value tensor dtype ",
               toString(values.scalar_type()), " and boundary tensor dtype ", toString(sequence.scalar_type()),
               "; convert one with .to()");
  return search(sequence, values, out_int32, right, sorter, op);
}

Tensor search_number(const Tensor& sequence, const Scalar& value, bool out_int32, bool right,
                     const std::optional<Tensor>& sorter, const char* op) {
  check_real(sequence, op);
  FACULA_CHECK(!value.isComplex(), DTypeError, op, ": does not support complex numbers");
  const Operand operands[] = {sequence, value};
  const ScalarType common = result_type(operands, op);
  return search(as_dtype(sequence, common), number_tensor(value, common, sequence.device(), op), out_int32, right,
                sorter, op);
}

// ---- unique ----------------------------------------------------------------------------------------------------------------

using Triple = std::tuple<Tensor, Tensor, Tensor>;

// The runs among n x m `items`. `inverse_sizes` is set where the inverse is wanted.
Triple find_runs(const Tensor& items, const Tensor* order, const IntArrayRef* inverse_sizes, bool return_counts,
                 const char* op) {
  const Device device = items.device();
  Tensor inverse = inverse_sizes ? new_tensor(*inverse_sizes, kLong, device, op) : new_tensor({0}, kLong, device, op);
  Tensor values, counts;
  const auto make = [&](int64_t runs) {
    values = new_tensor({runs, items.impl()->sizes[1]}, items.impl()->dtype, device, op);
    if (return_counts) counts = new_tensor({runs}, kLong, device, op);
    return std::pair<Tensor, Tensor>(values, counts);
  };
  call_kernel<void(const Tensor&, const Tensor*, const Tensor*, FunctionRef<std::pair<Tensor, Tensor>(int64_t)>)>(
      OpId::unique_consecutive, device.type(), items, order, inverse_sizes ? &inverse : nullptr, make);
  if (!return_counts) counts = new_tensor({0}, kLong, device, op);
  return {std::move(values), std::move(inverse), std::move(counts)};
}

// The slices along `dim` as the rows of a contiguous matrix.
Tensor slices_of(const Tensor& self, int64_t dim) {
  const int64_t n = self.size(dim);
  Tensor moved = as_contiguous(self.transpose(0, dim));
  return view_of(moved, {n, n == 0 ? 0 : moved.numel() / n}, {n == 0 ? 0 : moved.numel() / n, 1},
                 moved.storage_offset());
}

// The reverse: the rows of `items` as slices along `dim` of a tensor like `self`.
Tensor from_slices(const Tensor& items, const Tensor& self, int64_t dim) {
  DimVector sizes = self.impl()->sizes;
  std::swap(sizes[0], sizes[static_cast<size_t>(dim)]);
  sizes[0] = items.size(0);
  return as_contiguous(view_of(items, sizes, contiguous_strides(sizes), items.storage_offset()).transpose(0, dim));
}

void check_zero_sizes(const Tensor& self, int64_t dim, const char* op) {
  int64_t zeros = 0;
  for (const int64_t size : sizes_of(self)) zeros += size == 0;
  if (self.dim() == 0 || zeros == 0) return;
  FACULA_CHECK(
      self.size(dim) == 0, ShapeError, op,
      ": There are 0 sized dimensions, and they aren't selected, so unique cannot be applied: ", to_text(self.sizes()));
  FACULA_CHECK(
      zeros == 1, ShapeError, op,
      ": Number of zero sized dimensions is more than one, so unique cannot be applied: ", to_text(self.sizes()));
}

// No entries at all: nothing is found.
Triple nothing_unique(const Tensor& self, IntArrayRef inverse_sizes, bool return_inverse, const char* op) {
  Tensor values = new_tensor(self.impl()->sizes, self.impl()->dtype, self.device(), op);
  Tensor inverse =
      return_inverse ? new_tensor(inverse_sizes, kLong, self.device(), op) : new_tensor({0}, kLong, self.device(), op);
  return {std::move(values), std::move(inverse), new_tensor({0}, kLong, self.device(), op)};
}

Tensor flat_column(const Tensor& contiguous) {
  return view_of(contiguous, {contiguous.numel(), 1}, {1, 1}, contiguous.storage_offset());
}

}  // namespace

Tensor searchsorted(const Tensor& sorted_sequence, const Tensor& self, bool out_int32, bool right,
                    std::optional<std::string_view> side, const std::optional<Tensor>& sorter) {
  return search_tensor(sorted_sequence, self, out_int32, wants_right(right, side, "searchsorted"), sorter,
                       "searchsorted");
}

Tensor searchsorted(const Tensor& sorted_sequence, const Scalar& self, bool out_int32, bool right,
                    std::optional<std::string_view> side, const std::optional<Tensor>& sorter) {
  return search_number(sorted_sequence, self, out_int32, wants_right(right, side, "searchsorted"), sorter,
                       "searchsorted");
}

Tensor bucketize(const Tensor& self, const Tensor& boundaries, bool out_int32, bool right) {
  check_real(boundaries, "bucketize");
  FACULA_CHECK(boundaries.dim() == 1, ShapeError, "bucketize: boundaries tensor must be 1 dimension, but got dim(",
               boundaries.dim(), ")");
  return search_tensor(boundaries, self, out_int32, right, std::nullopt, "bucketize");
}

Tensor bucketize(const Scalar& self, const Tensor& boundaries, bool out_int32, bool right) {
  check_real(boundaries, "bucketize");
  FACULA_CHECK(boundaries.dim() == 1, ShapeError, "bucketize: boundaries tensor must be 1 dimension, but got dim(",
               boundaries.dim(), ")");
  return search_number(boundaries, self, out_int32, right, std::nullopt, "bucketize");
}

// Both ways of asking are answered by a search in the sorted test elements; that these are unique would spare nothing.
Tensor isin(const Tensor& elements, const Tensor& test_elements, bool, bool invert) {
  check_real(elements, "isin");
  check_real(test_elements, "isin");
  const Device device = same_device({&elements, &test_elements}, "isin");
  Tensor out = new_tensor(elements.impl()->sizes, kBool, elements.device(), "isin");
  if (device.is_meta() || out.numel() == 0) return out;
  const Operand operands[] = {elements, test_elements};
  const ScalarType common = result_type(operands, "isin");
  const Tensor tests = as_contiguous(as_dtype(test_elements, common));
  const Tensor flat = view_of(tests, {tests.numel()}, {1}, tests.storage_offset());
  const Tensor sorted = tests.numel() > 1 ? std::get<0>(meaning::sort(flat, 0, false)) : flat;
  call_kernel<void(const Tensor&, const Tensor&, bool, const Tensor&)>(
      OpId::isin, device.type(), as_contiguous(as_dtype(elements, common)), sorted, invert, out);
  return out;
}

Tensor isin(const Tensor& elements, const Scalar& test_element, bool assume_unique, bool invert) {
  check_real(elements, "isin");
  FACULA_CHECK(!test_element.isComplex(), DTypeError, "isin: does not support complex numbers");
  const Operand operands[] = {elements, test_element};
  const ScalarType common = result_type(operands, "isin");
  return meaning::isin(as_dtype(elements, common), number_tensor(test_element, common, elements.device(), "isin"),
                       assume_unique, invert);
}

Tensor isin(const Scalar& element, const Tensor& test_elements, bool assume_unique, bool invert) {
  check_real(test_elements, "isin");
  FACULA_CHECK(!element.isComplex(), DTypeError, "isin: does not support complex numbers");
  const Operand operands[] = {element, test_elements};
  const ScalarType common = result_type(operands, "isin");
  return meaning::isin(number_tensor(element, common, test_elements.device(), "isin"), as_dtype(test_elements, common),
                       assume_unique, invert);
}

Tensor bincount(const Tensor& self, const std::optional<Tensor>& weights, int64_t minlength) {
  check_real(self, "bincount");
  check_has_data(self, "bincount");
  FACULA_CHECK(isIntegralType(self.scalar_type(), false), DTypeError,
               "bincount: only supports 1-d non-negative integral inputs, got dtype ", toString(self.scalar_type()));
  FACULA_CHECK(self.dim() == 1, ShapeError, "bincount: only supports 1-d non-negative integral inputs, got sizes ",
               to_text(self.sizes()));
  FACULA_CHECK(minlength >= 0, ValueError, "bincount: minlength should be >= 0, got ", minlength);
  const bool weighted = weights && weights->defined();
  if (weighted) {
    check_real(*weights, "bincount");
    FACULA_CHECK(weights->dim() == 1 && weights->size(0) == self.size(0), ShapeError,
                 "bincount: weights should be 1-d and have the same length as input, got sizes ",
                 to_text(weights->sizes()), " and ", to_text(self.sizes()));
    FACULA_CHECK(weights->device() == self.device(), DeviceError, "bincount: weights are on ", weights->device().str(),
                 " and input is on ", self.device().str());
  }
  if (self.numel() == 0) {
    Tensor out = new_tensor({minlength}, kLong, self.device(), "bincount");
    fill_values(out, 0);
    return out;
  }
  FACULA_CHECK(self.scalar_type() != kUInt64, DTypeError,
               "bincount: not implemented for uint64; convert the input to int64");
  const Tensor indices = as_contiguous(as_dtype(self, kLong));
  const Tensor wide_weights = weighted ? as_contiguous(as_dtype(*weights, kDouble)) : Tensor();
  Tensor out;
  const auto make = [&](int64_t bins) {
    return out = new_tensor({bins}, weighted ? kDouble : kLong, self.device(), "bincount");
  };
  call_kernel<void(const Tensor&, const Tensor*, int64_t, FunctionRef<Tensor(int64_t)>)>(
      OpId::bincount, device_type(self), indices, weighted ? &wide_weights : nullptr, minlength, make);
  return weighted && weights->scalar_type() == kFloat ? as_dtype(out, kFloat) : out;
}

Tensor histc(const Tensor& self, int64_t bins, const Scalar& min, const Scalar& max) {
  check_real(self, "histc");
  FACULA_CHECK(isFloatingType(self.scalar_type()), DTypeError, "histc: not implemented for '",
               toString(self.scalar_type()), "'; convert the input to a floating point dtype");
  FACULA_CHECK(bins > 0, ValueError, "histc: bins must be > 0, got ", bins);
  const double low = min.toDouble(), high = max.toDouble();
  FACULA_CHECK(std::isfinite(low) && std::isfinite(high), ValueError, "histc: range of [", low, ", ", high,
               "] is not finite");
  FACULA_CHECK(low <= high, ValueError, "histc: max must be larger than min, got min ", low, " and max ", high);
  if (self.is_meta()) return new_tensor({bins}, self.scalar_type(), self.device(), "histc");
  const Tensor counts = new_tensor({bins}, kLong, self.device(), "histc");
  call_kernel<void(const Tensor&, double, double, const Tensor&)>(OpId::histc, device_type(self), as_contiguous(self),
                                                                  low, high, counts);
  return as_dtype(counts, self.scalar_type());
}

// Values always come sorted.
Triple unique(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  check_real(self, "unique");
  check_has_data(self, "unique");
  const IntArrayRef sizes = self.impl()->sizes;
  const Tensor all = as_contiguous(self);
  const Tensor flat = view_of(all, {all.numel()}, {1}, all.storage_offset());
  const auto [sorted, order] = meaning::sort(flat, 0, false);
  auto [values, inverse, counts] =
      find_runs(flat_column(sorted), &order, return_inverse ? &sizes : nullptr, return_counts, "unique");
  values.impl()->set_contiguous({values.size(0)});
  return {std::move(values), std::move(inverse), std::move(counts)};
}

Triple unique_dim(const Tensor& self, int64_t dim, bool, bool return_inverse, bool return_counts) {
  check_real(self, "unique_dim");
  check_has_data(self, "unique_dim");
  dim = wrap_dim(dim, self.dim(), "unique_dim");
  if (self.dim() == 0) return meaning::unique(self.reshape({1}), true, return_inverse, return_counts);
  check_zero_sizes(self, dim, "unique_dim");
  const int64_t n = self.size(dim);
  const int64_t inverse_size[] = {n};
  const IntArrayRef inverse_sizes(inverse_size);
  if (n == 0) return nothing_unique(self, inverse_sizes, return_inverse, "unique_dim");
  const Tensor items = slices_of(self, dim);
  const Tensor sorted = new_tensor(items.impl()->sizes, items.impl()->dtype, items.device(), "unique_dim");
  const Tensor order = new_tensor({n}, kLong, items.device(), "unique_dim");
  call_kernel<void(const Tensor&, const Tensor&, const Tensor&)>(OpId::unique_dim, device_type(self), items, order,
                                                                 sorted);
  auto [values, inverse, counts] =
      find_runs(sorted, &order, return_inverse ? &inverse_sizes : nullptr, return_counts, "unique_dim");
  return {from_slices(values, self, dim), std::move(inverse), std::move(counts)};
}

Triple unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts, std::optional<int64_t> dim) {
  FACULA_CHECK(self.defined(), ValueError, "unique_consecutive: the input tensor is undefined");
  check_has_data(self, "unique_consecutive");
  const IntArrayRef sizes = self.impl()->sizes;
  if (!dim || self.dim() == 0) {
    if (dim) wrap_dim(*dim, 0, "unique_consecutive");
    auto [values, inverse, counts] = find_runs(flat_column(as_contiguous(self)), nullptr,
                                               return_inverse ? &sizes : nullptr, return_counts, "unique_consecutive");
    values.impl()->set_contiguous({values.size(0)});
    return {std::move(values), std::move(inverse), std::move(counts)};
  }
  const int64_t d = wrap_dim(*dim, self.dim(), "unique_consecutive");
  check_zero_sizes(self, d, "unique_consecutive");
  const int64_t inverse_size[] = {self.size(d)};
  const IntArrayRef inverse_sizes(inverse_size);
  if (self.size(d) == 0) return nothing_unique(self, inverse_sizes, return_inverse, "unique_consecutive");
  auto [values, inverse, counts] = find_runs(slices_of(self, d), nullptr, return_inverse ? &inverse_sizes : nullptr,
                                             return_counts, "unique_consecutive");
  return {from_slices(values, self, d), std::move(inverse), std::move(counts)};
}

}  // namespace facula::meaning
