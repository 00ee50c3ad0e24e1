// Tensors out of sizes, numbers and options: empty, filled, ranges, identity, index grids. Values from the user's
// memory are in from_data.cpp.
#include "ops/shape_checks.h"

#include "cpu/convert.h"
#include "cpu/parallel.h"
#include "gpu/program/copy.h"
#include "gpu/encoder.h"
#include "ops/transfer.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

namespace facula {

namespace {

constexpr int64_t kZeroGrain = 256 << 10;  // bytes
constexpr int64_t kRangeGrain = 32 << 10;  // elements
constexpr int64_t kBlock = 512;            // elements that are computed at a time before they are converted

template <class T>
double largest() {
  return static_cast<double>(std::numeric_limits<T>::max());
}

double largest_of(ScalarType dtype) {
  switch (toRealValueType(dtype)) {
    case kHalf: return static_cast<double>(static_cast<float>(std::numeric_limits<Half>::max()));
    case kBFloat16: return static_cast<double>(static_cast<float>(std::numeric_limits<BFloat16>::max()));
    case kFloat8_e4m3fn: return static_cast<double>(static_cast<float>(std::numeric_limits<Float8_e4m3fn>::max()));
    case kFloat8_e5m2: return static_cast<double>(static_cast<float>(std::numeric_limits<Float8_e5m2>::max()));
    case kFloat: return largest<float>();
    default: return largest<double>();
  }
}

Tensor empty_in(IntArrayRef size, const TensorOptions& options, const char* op);

Device device_of(const TensorOptions& options, const char* op) { return plain_device(options.device(), op); }

// The default dtype where the options name none; complex when a number is.
ScalarType range_dtype(const TensorOptions& options, std::initializer_list<const Scalar*> numbers) {
  if (options.has_dtype()) return options.dtype();
  for (const Scalar* s : numbers)
    if (s->isComplex())
      return toComplexType(get_default_dtype()) == ScalarType::Undefined ? kComplexFloat
                                                                         : toComplexType(get_default_dtype());
  return get_default_dtype();
}

// Page-locked memory; where there is no GPU that could copy from it, memory like any other.
Tensor empty_pinned(IntArrayRef size, const TensorOptions& options, MemoryFormat format, const char* op) {
  FACULA_CHECK(device_of(options, op).is_cpu(), DeviceError, op,
               ": Only dense CPU tensors can be pinned, the device is ", options.device().str());
  if (gpu::device_count() == 0) return empty_in(size, options.pinned_memory(false), op);
  const int64_t numel = checked_numel(size, elementSize(options.dtype()), op);
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(
      StorageImpl::allocate_pinned(usize(numel) * elementSize(options.dtype()), op), options.dtype(), Device(kCPU)));
  impl->set_geometry(size, strides_for(size, format, op), 0);
  return Tensor(std::move(impl));
}

Tensor empty_in(IntArrayRef size, const TensorOptions& options, const char* op) {
  MemoryFormat format = options.memory_format_opt().value_or(MemoryFormat::Contiguous);
  if (options.pinned_memory()) return empty_pinned(size, options, format, op);
  if (format == MemoryFormat::Contiguous) return new_tensor(size, options.dtype(), device_of(options, op), op);
  FACULA_CHECK(format != MemoryFormat::Preserve, ValueError, op,
               ": unsupported memory format Preserve: there is no tensor whose order could be kept");
  checked_numel(size, elementSize(options.dtype()), op);
  return new_tensor_strided(size, strides_for(size, format, op), options.dtype(), device_of(options, op), op);
}

Tensor empty_like_impl(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> memory_format,
                       const char* op) {
  const TensorImpl& i = impl_of(self, op);
  FACULA_CHECK(
      !(memory_format && options.has_memory_format()), ValueError, op,
      ": Cannot set memory_format both in TensorOptions and explicit argument; please delete the redundant setter.");
  ScalarType dtype = options.dtype_opt().value_or(i.dtype);
  Device device = plain_device(options.device_opt().value_or(i.device), op);
  MemoryFormat format = memory_format ? *memory_format : options.memory_format_opt().value_or(MemoryFormat::Preserve);
  if (format == MemoryFormat::Contiguous || (format == MemoryFormat::Preserve && i.contiguous))
    return new_tensor(i.sizes, dtype, device, op);
  if (format == MemoryFormat::Preserve)
    return new_tensor_strided(i.sizes, preserved_strides(i.sizes, i.strides), dtype, device, op);
  return new_tensor_strided(i.sizes, strides_for(i.sizes, format, op), dtype, device, op);
}

// A fresh tensor has its storage for itself: all of its bytes may be cleared, whatever the strides.
Tensor zeroed(Tensor t) {
  const TensorImpl* i = t.impl();
  if (i->device.is_meta() || i->storage->nbytes() == 0) return t;
  char* data = static_cast<char*>(i->storage->data());
  if (i->device.is_cuda()) {
    StorageImpl* storages[] = {i->storage.get()};
    gpu::fill_bytes(data, 0, i->storage->nbytes(), {"zeros", i->device.index(), storages});
    return t;
  }
  parallel_for(0, static_cast<int64_t>(i->storage->nbytes()), kZeroGrain,
               [&](int64_t b, int64_t e) { std::memset(data + b, 0, usize(e - b)); });
  return t;
}

Tensor filled(Tensor t, const Scalar& value, const char* op) {
  check_fits(value, t.scalar_type(), op);
  if (value.is_zero() && !(value.isFloatingPoint() && std::signbit(value.toDouble())) && !value.isComplex())
    return zeroed(std::move(t));
  fill_values(t, value);
  return t;
}

ScalarType fill_dtype(const Scalar& value) {
  if (value.isBoolean()) return kBool;
  if (value.isIntegral(false)) return value.type();
  if (value.isComplex()) return range_dtype({}, {&value});
  return get_default_dtype();
}

// out[i] = base + step * (i - anchor) for i in [begin, end), rounded once to the dtype of `out`.
template <class T>
void affine_loop(T* out, int64_t begin, int64_t end, double base, double step, int64_t anchor) {
  for (int64_t b = begin; b < end; b += kBlock) {
    // A double holds the block's start, and a 32-bit counter becomes a double in one SIMD instruction.
    const double first = static_cast<double>(b - anchor);
    const int n = static_cast<int>(std::min<int64_t>(kBlock, end - b));
    T* to = out + (b - begin);
    for (int k = 0; k < n; ++k) to[k] = static_cast<T>(base + step * (first + static_cast<double>(k)));
  }
}

void fill_affine(char* data, ScalarType dtype, int64_t begin, int64_t end, double base, double step, int64_t anchor) {
  if (begin >= end) return;
  char* to = data + usize(begin) * elementSize(dtype);
  if (dtype == kFloat) return affine_loop(reinterpret_cast<float*>(to), begin, end, base, step, anchor);
  if (dtype == kDouble) return affine_loop(reinterpret_cast<double*>(to), begin, end, base, step, anchor);
  ConvertFn convert = cast_store_fn(CType::F64, dtype);
  double block[kBlock];
  for (int64_t b = begin; b < end; b += kBlock) {
    int64_t n = std::min(kBlock, end - b);
    affine_loop(block, b, b + n, base, step, anchor);
    convert(block, data + usize(b) * elementSize(dtype), usize(n));
  }
}

template <class T>
void integer_loop(T* out, int64_t n, uint64_t start, uint64_t step) {
  for (int64_t k = 0; k < n; ++k) out[k] = static_cast<T>(start + step * static_cast<uint64_t>(k));
}

void fill_integers(char* data, ScalarType dtype, int64_t begin, int64_t end, int64_t start, int64_t step) {
  char* to = data + usize(begin) * elementSize(dtype);
  uint64_t first = static_cast<uint64_t>(start) + static_cast<uint64_t>(step) * static_cast<uint64_t>(begin),
           by = static_cast<uint64_t>(step);
  switch (elementSize(dtype)) {  // wrapping makes signs irrelevant
    case 1: return integer_loop(reinterpret_cast<uint8_t*>(to), end - begin, first, by);
    case 2: return integer_loop(reinterpret_cast<uint16_t*>(to), end - begin, first, by);
    case 4: return integer_loop(reinterpret_cast<uint32_t*>(to), end - begin, first, by);
    default: return integer_loop(reinterpret_cast<uint64_t*>(to), end - begin, first, by);
  }
}

// Segment-wise linspace: the first half counts from `start`, the second back from `end`, so that both ends are exact.
template <class Segment>
void spaced(int64_t steps, int64_t grain, double start, double end, Segment segment) {
  const double step = steps > 1 ? (end - start) / static_cast<double>(steps - 1) : 0.0;
  const int64_t half = steps == 1 ? 1 : steps / 2;
  parallel_for(0, steps, grain, [&](int64_t b, int64_t e) {
    segment(b, std::min(e, half), start, step, int64_t{0});
    segment(std::max(b, half), e, end, step, steps - 1);
  });
}

std::complex<double> complex_of(const Scalar& s) {
  auto z = s.toComplexDouble();
  return {z.real(), z.imag()};
}

// linspace or logspace for complex results, which nobody needs fast.
Tensor complex_spaced(const Scalar& start, const Scalar& end, int64_t steps, std::optional<double> base,
                      ScalarType dtype, Device device, const char* op) {
  Tensor wide = new_tensor(IntArrayRef(steps), kComplexDouble, device.is_cuda() ? Device(kCPU) : device, op);
  if (!device.is_meta()) {
    std::complex<double> a = complex_of(start), b = complex_of(end),
                         step = steps > 1 ? (b - a) / static_cast<double>(steps - 1) : 0.0;
    auto* out = reinterpret_cast<std::complex<double>*>(wide.impl()->data());
    for (int64_t k = 0; k < steps; ++k) {
      bool first_half = steps == 1 || k < steps / 2;
      std::complex<double> v =
          first_half ? a + step * static_cast<double>(k) : b - step * static_cast<double>(steps - 1 - k);
      out[k] = base ? std::pow(std::complex<double>(*base), v) : v;
    }
  }
  return carried_to(device, as_dtype(wide, dtype));
}

void check_range_dtype(ScalarType dtype, const char* op) {
  FACULA_CHECK(dtype != kBool && dtype != ScalarType::Undefined, DTypeError, op, ": dtype ", toString(dtype),
               " is not supported; use an integer or a float dtype");
}

Tensor range(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options) {
  bool integers = start.isIntegral(true) && end.isIntegral(true) && step.isIntegral(true);
  ScalarType dtype = options.has_dtype() ? options.dtype() : integers ? kLong : get_default_dtype();
  check_range_dtype(dtype, "arange");
  FACULA_CHECK(!isComplexType(dtype), DTypeError, "arange: dtype ", toString(dtype),
               " is not supported; use an integer or a float dtype");
  FACULA_CHECK(!start.isComplex() && !end.isComplex() && !step.isComplex(), DTypeError,
               "arange: complex numbers have no order; start, end and step must be real");
  double from = start.toDouble(), to = end.toDouble(), by = step.toDouble();
  FACULA_CHECK(std::isfinite(from) && std::isfinite(to) && std::isfinite(by), ValueError,
               "arange: unsupported range: ", from, " -> ", to, " with step ", by,
               std::isnan(from) || std::isnan(to) || std::isnan(by) ? " (NaN size argument)" : "",
               "; all three must be finite");
  int64_t count = 0;
  if (integers || dtype == kLong) {
    // Exact where doubles would not be.
    __int128 a = start.toLong(), b = end.toLong(), s = step.toLong();
    FACULA_CHECK(s != 0, ValueError, "arange: step must be nonzero, got ", step.str(),
                 dtype == kLong && by != 0 ? " in an int64 range" : "");
    FACULA_CHECK(s > 0 ? b >= a : b <= a, ValueError,
                 "arange: upper bound and larger bound inconsistent with step sign: start ", start.str(), ", end ",
                 end.str(), ", step ", step.str());
    __int128 span = s > 0 ? b - a : a - b, width = s > 0 ? s : -s, n = (span + width - 1) / width;
    FACULA_CHECK(n <= INT64_MAX, ShapeError, "arange: invalid size, possible overflow? start ", start.str(), ", end ",
                 end.str(), ", step ", step.str());
    count = static_cast<int64_t>(n);
  } else {
    FACULA_CHECK(by != 0, ValueError, "arange: step must be nonzero, got ", by);
    FACULA_CHECK(by > 0 ? to >= from : to <= from, ValueError,
                 "arange: upper bound and larger bound inconsistent with step sign: start ", from, ", end ", to,
                 ", step ", by);
    double n = std::ceil((to - from) / by);
    FACULA_CHECK(n >= 0 && n < 9.2e18, ShapeError, "arange: invalid size, possible overflow? start ", from, ", end ",
                 to, ", step ", by);
    count = static_cast<int64_t>(n);
  }
  Tensor out = new_tensor(IntArrayRef(count), dtype, device_of(options, "arange"), "arange");
  if (out.impl()->device.is_meta() || count == 0) return out;
  char* data = out.impl()->data();
  if (isIntegralType(dtype, false)) {
    int64_t a = start.toLong(), s = step.toLong();
    if (out.is_cuda()) {
      StorageImpl* storages[] = {out.impl()->storage.get()};
      gpu::fill_integers(data, dtype, count, a, s, {"arange", out.impl()->device.index(), storages});
      return out;
    }
    parallel_for(0, count, kRangeGrain, [&](int64_t b, int64_t e) { fill_integers(data, dtype, b, e, a, s); });
  } else if (out.is_cuda()) {
    StorageImpl* storages[] = {out.impl()->storage.get()};
    gpu::fill_affine(data, dtype, count, from, by, 0, {"arange", out.impl()->device.index(), storages});
  } else {
    parallel_for(0, count, kRangeGrain, [&](int64_t b, int64_t e) { fill_affine(data, dtype, b, e, from, by, 0); });
  }
  return out;
}

// How many places (r, c) of a matrix have c < r + shift, in as many steps however large it is; and the rows in which
// there are some but not all: before them none, behind them all.
struct Triangle {
  unsigned __int128 count = 0;
  int64_t begin, full;
  Triangle(int64_t row, int64_t col, int64_t shift) {
    const __int128 k = shift;
    begin = static_cast<int64_t>(std::clamp<__int128>(-k, 0, row));
    full = static_cast<int64_t>(std::clamp<__int128>(col - k, begin, row));
    if (full > begin)
      count =
          static_cast<unsigned __int128>(full - begin) * static_cast<unsigned __int128>(begin + k + full - 1 + k) / 2;
    count += static_cast<unsigned __int128>(row - full) * static_cast<unsigned __int128>(col);
  }
};

// Both rows of tril_indices or triu_indices: the places with c < r + shift, or all others.
Tensor triangle_indices(int64_t row, int64_t col, int64_t shift, bool lower, const TensorOptions& options,
                        const char* op) {
  FACULA_CHECK(row >= 0, ValueError, op, ": row must be non-negative, got ", row);
  FACULA_CHECK(col >= 0, ValueError, op, ": col must be non-negative, got ", col);
  ScalarType dtype = options.has_dtype() ? options.dtype() : kLong;
  FACULA_CHECK(isIntegralType(dtype, false), DTypeError, op, ": dtype ", toString(dtype),
               " cannot hold indices; use int64 or int32");
  shift = std::clamp(shift, -row, col);
  const Triangle below(row, col, shift);
  const unsigned __int128 places =
      lower ? below.count : static_cast<unsigned __int128>(row) * static_cast<unsigned __int128>(col) - below.count;
  FACULA_CHECK(places <= static_cast<unsigned __int128>(std::numeric_limits<int64_t>::max()), ShapeError, op,
               ": the number of indices of a matrix of ", row, " by ", col, " overflows 64 bits");
  const auto count = static_cast<int64_t>(places);
  const Device device = device_of(options, op);
  Tensor wide = new_tensor({2, count}, kLong, device.is_meta() ? device : Device(kCPU), op);
  if (!wide.impl()->device.is_meta() && count > 0) {
    auto* rows = reinterpret_cast<int64_t*>(wide.impl()->data());
    int64_t* cols = rows + count;
    for (int64_t r = lower ? below.begin : 0, end = lower ? row : below.full; r < end; ++r) {
      const int64_t cut = r < below.begin ? 0 : r >= below.full ? col : r + shift;
      for (int64_t c = lower ? 0 : cut, e = lower ? cut : col; c < e; ++c) {
        *rows++ = r;
        *cols++ = c;
      }
    }
  }
  return carried_to(device, as_dtype(wide, dtype));
}

}  // namespace

void check_fits(const Scalar& value, ScalarType dtype, const char* op) {
  auto refuse = [&] {
    throw ValueError(str(op, ": value ", value.str(), " cannot be converted to type ", toString(dtype),
                         " without overflow. Give one that fits, or convert the tensor with .to(dtype)"));
  };
  if (dtype == kBool) return;
  if (value.isComplex()) {
    auto z = value.toComplexDouble();
    if (!isComplexType(dtype)) {
      if (z.imag() != 0) refuse();
      return check_fits(Scalar(z.real()), dtype, op);
    }
    double most = largest_of(dtype);
    if ((std::isfinite(z.real()) && std::abs(z.real()) > most) ||
        (std::isfinite(z.imag()) && std::abs(z.imag()) > most))
      refuse();
    return;
  }
  if (!isIntegralType(dtype, false)) {
    double v = value.toDouble();
    if (std::isfinite(v) && std::abs(v) > largest_of(dtype)) refuse();
    return;
  }
  int bits = static_cast<int>(elementSize(dtype)) * 8;
  bool is_signed = isSignedType(dtype);
  if (value.isFloatingPoint()) {
    // Unsigned dtypes take the negatives of what they hold, and wrap.
    double v = value.toDouble(), above = std::ldexp(1.0, is_signed ? bits - 1 : bits),
           below = std::ldexp(-1.0, is_signed ? bits - 1 : bits);
    if (!(is_signed ? v >= below && v < above : v > below && v < above)) refuse();
    return;
  }
  if (value.tag() == Scalar::Tag::UInt) {
    if (dtype != kUInt64) refuse();
    return;
  }
  if (bits == 64) return;
  int64_t v = value.toLong(), most = is_signed ? (int64_t{1} << (bits - 1)) - 1 : (int64_t{1} << bits) - 1;
  if (v > most || v < (is_signed ? -most - 1 : -most)) refuse();
}

void check_fits_integers(const Scalar& value, ScalarType dtype, const char* op) {
  if (isIntegralType(dtype, false)) check_fits(value, dtype, op);
}

namespace meaning {

Tensor empty(IntArrayRef size, const TensorOptions& options, std::optional<MemoryFormat> memory_format) {
  FACULA_CHECK(!(memory_format && options.has_memory_format()), ValueError,
               "empty: Cannot set memory_format both in TensorOptions and explicit argument; please delete the "
               "redundant setter.");
  return empty_in(size, memory_format ? options.memory_format(memory_format) : options, "empty");
}

Tensor empty_strided(IntArrayRef size, IntArrayRef stride, const TensorOptions& options) {
  FACULA_CHECK(size.size() == stride.size(), ShapeError, "empty_strided: dimensionality of sizes (", size.size(),
               ") must match dimensionality of strides (", stride.size(), ")");
  for (int64_t s : stride)
    FACULA_CHECK(s >= 0, ValueError,
                 "empty_strided: Negative strides are not supported, got strides: ", to_text(stride));
  FACULA_CHECK(options.dtype() != ScalarType::Undefined, DTypeError, "empty_strided: the dtype is undefined");
  return new_tensor_strided(size, stride, options.dtype(), device_of(options, "empty_strided"), "empty_strided");
}

Tensor empty_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> memory_format) {
  return empty_like_impl(self, options, memory_format, "empty_like");
}

Tensor zeros(IntArrayRef size, const TensorOptions& options) { return zeroed(empty_in(size, options, "zeros")); }
Tensor zeros_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> memory_format) {
  return zeroed(empty_like_impl(self, options, memory_format, "zeros_like"));
}

Tensor ones(IntArrayRef size, const TensorOptions& options) {
  return filled(empty_in(size, options, "ones"), Scalar(1), "ones");
}
Tensor ones_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> memory_format) {
  return filled(empty_like_impl(self, options, memory_format, "ones_like"), Scalar(1), "ones_like");
}

Tensor full(IntArrayRef size, const Scalar& fill_value, const TensorOptions& options) {
  TensorOptions chosen = options.has_dtype() ? options : options.dtype(fill_dtype(fill_value));
  return filled(empty_in(size, chosen, "full"), fill_value, "full");
}
Tensor full_like(const Tensor& self, const Scalar& fill_value, const TensorOptions& options,
                 std::optional<MemoryFormat> memory_format) {
  return filled(empty_like_impl(self, options, memory_format, "full_like"), fill_value, "full_like");
}

Tensor scalar_tensor(const Scalar& s, const TensorOptions& options) {
  FACULA_CHECK(options.has_dtype() || !s.isComplex(), DTypeError,
               "scalar_tensor: a complex number needs a complex dtype in the options");
  return filled(new_tensor({}, options.dtype(), device_of(options, "scalar_tensor"), "scalar_tensor"), s,
                "scalar_tensor");
}

Tensor new_empty(const Tensor& self, IntArrayRef size, const TensorOptions& options) {
  impl_of(self, "new_empty");
  return empty_in(size, self.options().merge_in(options), "new_empty");
}
Tensor new_zeros(const Tensor& self, IntArrayRef size, const TensorOptions& options) {
  impl_of(self, "new_zeros");
  return zeroed(empty_in(size, self.options().merge_in(options), "new_zeros"));
}
Tensor new_ones(const Tensor& self, IntArrayRef size, const TensorOptions& options) {
  impl_of(self, "new_ones");
  return filled(empty_in(size, self.options().merge_in(options), "new_ones"), Scalar(1), "new_ones");
}
Tensor new_full(const Tensor& self, IntArrayRef size, const Scalar& fill_value, const TensorOptions& options) {
  impl_of(self, "new_full");
  return filled(empty_in(size, self.options().merge_in(options), "new_full"), fill_value, "new_full");
}

Tensor arange(const Scalar& end, const TensorOptions& options) { return range(Scalar(0), end, Scalar(1), options); }
Tensor arange(const Scalar& start, const Scalar& end, const TensorOptions& options) {
  return range(start, end, Scalar(1), options);
}
Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, const TensorOptions& options) {
  return range(start, end, step, options);
}

Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, const TensorOptions& options) {
  FACULA_CHECK(steps >= 0, ValueError, "linspace: number of steps must be non-negative, got ", steps);
  ScalarType dtype = range_dtype(options, {&start, &end});
  check_range_dtype(dtype, "linspace");
  if (isComplexType(dtype))
    return complex_spaced(start, end, steps, std::nullopt, dtype, device_of(options, "linspace"), "linspace");
  double from = start.toDouble(), to = end.toDouble();
  Tensor out = new_tensor(IntArrayRef(steps), dtype, device_of(options, "linspace"), "linspace");
  if (out.impl()->device.is_meta() || steps == 0) return out;
  char* data = out.impl()->data();
  if (out.is_cuda()) {
    StorageImpl* storages[] = {out.impl()->storage.get()};
    const gpu::Work work{"linspace", out.impl()->device.index(), storages};
    const double step = steps > 1 ? (to - from) / static_cast<double>(steps - 1) : 0.0;
    const int64_t half = steps == 1 ? 1 : steps / 2;
    gpu::fill_affine(data, dtype, half, from, step, 0, work);
    gpu::fill_affine(data + usize(half) * elementSize(dtype), dtype, steps - half, to, step, steps - 1 - half, work);
    return out;
  }
  spaced(steps, kRangeGrain, from, to, [&](int64_t b, int64_t e, double base, double step, int64_t anchor) {
    fill_affine(data, dtype, b, e, base, step, anchor);
  });
  return out;
}

Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base, const TensorOptions& options) {
  FACULA_CHECK(steps >= 0, ValueError, "logspace: number of steps must be non-negative, got ", steps);
  ScalarType dtype = range_dtype(options, {&start, &end});
  check_range_dtype(dtype, "logspace");
  const Device device = device_of(options, "logspace");
  if (isComplexType(dtype)) return complex_spaced(start, end, steps, base, dtype, device, "logspace");
  double from = start.toDouble(), to = end.toDouble();
  Tensor out = new_tensor(IntArrayRef(steps), dtype, device.is_meta() ? device : Device(kCPU), "logspace");
  if (out.impl()->device.is_meta()) return out;
  if (steps == 0) return carried_to(device, out);
  char* data = out.impl()->data();
  ConvertFn convert = dtype == kDouble ? nullptr : cast_store_fn(CType::F64, dtype);
  spaced(steps, 2048, from, to, [&](int64_t b, int64_t e, double first, double step, int64_t anchor) {
    double block[kBlock];
    for (; b < e; b += kBlock) {
      int64_t n = std::min(kBlock, e - b);
      affine_loop(block, b, b + n, first, step, anchor);
      for (int64_t k = 0; k < n; ++k) block[k] = std::pow(base, block[k]);
      char* target = data + usize(b) * elementSize(dtype);
      if (convert) convert(block, target, usize(n));
      else std::memcpy(target, block, usize(n) * sizeof(double));
    }
  });
  return carried_to(device, out);
}

Tensor eye(int64_t n, const TensorOptions& options) { return meaning::eye(n, n, options); }

Tensor eye(int64_t n, int64_t m, const TensorOptions& options) {
  FACULA_CHECK(n >= 0, ValueError, "eye: n must be greater or equal to 0, got ", n);
  FACULA_CHECK(m >= 0, ValueError, "eye: m must be greater or equal to 0, got ", m);
  Tensor out = zeroed(empty_in({n, m}, options, "eye"));
  fill_values(meaning::diagonal(out, 0, 0, 1), Scalar(1));
  return out;
}

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options) {
  const int64_t shift = offset == std::numeric_limits<int64_t>::max() ? offset : offset + 1;
  return triangle_indices(row, col, shift, true, options, "tril_indices");
}

Tensor triu_indices(int64_t row, int64_t col, int64_t offset, const TensorOptions& options) {
  return triangle_indices(row, col, offset, false, options, "triu_indices");
}

std::vector<Tensor> meshgrid(TensorList tensors) { return meaning::meshgrid(tensors, "ij"); }

std::vector<Tensor> meshgrid(TensorList tensors, std::string_view indexing) {
  FACULA_CHECK(!tensors.empty(), ValueError, "meshgrid: meshgrid expects a non-empty TensorList");
  FACULA_CHECK(indexing == "ij" || indexing == "xy", ValueError,
               "meshgrid: indexing must be one of \"xy\" or \"ij\", but received: ", indexing);
  bool swap = indexing == "xy" && tensors.size() >= 2;
  auto place = [&](size_t k) { return swap && k < 2 ? 1 - k : k; };
  DimVector sizes(tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    const TensorImpl &t = impl_of(tensors[k], "meshgrid"), &first = *tensors[0].impl();
    FACULA_CHECK(t.dim() <= 1, ShapeError, "meshgrid: Expected 0D or 1D tensor in the tensor list but got sizes ",
                 to_text(t.sizes), " at position ", k);
    FACULA_CHECK(t.dtype == first.dtype, DTypeError,
                 "meshgrid: meshgrid expects all tensors to have the same dtype, got ", toString(first.dtype), " and ",
                 toString(t.dtype));
    FACULA_CHECK(t.device == first.device, DeviceError,
                 "meshgrid: meshgrid expects all tensors to have the same device, got ", first.device.str(), " and ",
                 t.device.str());
    sizes[place(k)] = t.numel;
  }
  checked_numel(sizes, elementSize(tensors[0].impl()->dtype), "meshgrid");
  std::vector<Tensor> grids;
  grids.reserve(tensors.size());
  for (size_t k = 0; k < tensors.size(); ++k) {
    DimVector row(sizes.size(), 1);
    row[place(k)] = sizes[place(k)];
    grids.push_back(tensors[k].view(row).expand(sizes));
  }
  return grids;
}

Tensor one_hot(const Tensor& self, int64_t num_classes) {
  const TensorImpl& i = impl_of(self, "one_hot");
  FACULA_CHECK(i.dtype == kLong, DTypeError,
               "one_hot: one_hot is only applicable to index tensor of type LongTensor, got ", toString(i.dtype));
  FACULA_CHECK(num_classes >= -1, ValueError, "one_hot: num_classes must be positive, or -1 to infer it, got ",
               num_classes);
  DimVector sizes(i.sizes);
  if (i.numel == 0) {
    FACULA_CHECK(num_classes > 0, ValueError, "one_hot: Can not infer total number of classes from empty tensor.");
    sizes.push_back(num_classes);
    return new_tensor(sizes, kLong, i.device, "one_hot");
  }
  if (i.device.is_meta()) {
    FACULA_CHECK(num_classes > 0, NotSupportedError,
                 "one_hot: a meta tensor has no values to infer the number of classes from; pass num_classes");
    sizes.push_back(num_classes);
    return new_tensor(sizes, kLong, i.device, "one_hot");
  }
  if (i.device.is_cuda()) return carried_to(i.device, meaning::one_hot(self.cpu(), num_classes));
  Tensor source = as_contiguous(self);
  const auto* index = reinterpret_cast<const int64_t*>(source.impl()->data());
  auto [low, high] = std::minmax_element(index, index + i.numel);
  FACULA_CHECK(*low >= 0, ValueError, "one_hot: Class values must be non-negative, got ", *low);
  FACULA_CHECK(num_classes == -1 || *high < num_classes, ValueError,
               "one_hot: Class values must be smaller than num_classes: got ", *high, " with num_classes ",
               num_classes);
  FACULA_CHECK(*high < INT64_MAX, ShapeError, "one_hot: class value ", *high, " makes too many classes");
  int64_t classes = num_classes == -1 ? *high + 1 : num_classes;
  sizes.push_back(classes);
  Tensor out = zeroed(new_tensor(sizes, kLong, i.device, "one_hot"));
  auto* to = reinterpret_cast<int64_t*>(out.impl()->data());
  parallel_for(0, i.numel, kRangeGrain, [&](int64_t b, int64_t e) {
    for (int64_t k = b; k < e; ++k) to[k * classes + index[k]] = 1;
  });
  return out;
}

}  // namespace meaning
}  // namespace facula
