// Tensors out of case files, element access by hand, and comparisons with the truth.
#include "cpp/record_values.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace facula::testing {
namespace {

std::vector<int64_t> contiguous_strides(IntArrayRef sizes) {
  std::vector<int64_t> strides(sizes.size());
  int64_t step = 1;
  for (size_t d = sizes.size(); d-- > 0;) {
    strides[d] = step;
    step *= std::max<int64_t>(sizes[d], 1);
  }
  return strides;
}

// Calls visit(position in elements from the tensor's data pointer) for every element in logical order.
template <class Visit>
void for_each_position(IntArrayRef sizes, IntArrayRef strides, Visit visit) {
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return;
  std::vector<int64_t> counter(sizes.size(), 0);
  int64_t position = 0;
  for (;;) {
    visit(position);
    size_t d = sizes.size();
    for (;;) {
      if (d == 0) return;
      --d;
      position += strides[d];
      if (++counter[d] < sizes[d]) break;
      position -= strides[d] * sizes[d];
      counter[d] = 0;
    }
  }
}

template <class T>
T read(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

std::complex<double> as_complex(ScalarType dtype, const std::byte* at) {
  switch (dtype) {
    case kHalf: return static_cast<float>(read<Half>(at));
    case kBFloat16: return static_cast<float>(read<BFloat16>(at));
    case kFloat8_e4m3fn: return static_cast<float>(read<Float8_e4m3fn>(at));
    case kFloat8_e5m2: return static_cast<float>(read<Float8_e5m2>(at));
    case kFloat: return read<float>(at);
    case kDouble: return read<double>(at);
    case kComplexHalf: return {static_cast<float>(read<Half>(at)), static_cast<float>(read<Half>(at + 2))};
    case kComplexFloat: return {read<float>(at), read<float>(at + 4)};
    case kComplexDouble: return {read<double>(at), read<double>(at + 8)};
    case kByte: return read<uint8_t>(at);
    case kChar: return read<int8_t>(at);
    case kShort: return read<int16_t>(at);
    case kInt: return read<int32_t>(at);
    case kLong: return static_cast<double>(read<int64_t>(at));
    case kUInt16: return read<uint16_t>(at);
    case kUInt32: return read<uint32_t>(at);
    case kUInt64: return static_cast<double>(read<uint64_t>(at));
    case kBool: return read<uint8_t>(at);
    default: throw std::runtime_error("a dtype that the record tests do not know");
  }
}

// Integers as the 64 bits that case files hold.
int64_t as_integer(ScalarType dtype, const std::byte* at) {
  switch (dtype) {
    case kLong: return read<int64_t>(at);
    case kUInt64: return static_cast<int64_t>(read<uint64_t>(at));
    default: return static_cast<int64_t>(as_complex(dtype, at).real());
  }
}

// The largest finite number of a floating dtype: what lies beyond it is infinite there.
double largest(ScalarType dtype) {
  switch (toRealValueType(dtype)) {
    case kHalf: return 65504.0;
    case kBFloat16: return std::ldexp(1.0 - std::ldexp(1.0, -8), 128);
    case kFloat8_e4m3fn: return 448.0;
    case kFloat8_e5m2: return 57344.0;
    case kFloat: return std::numeric_limits<float>::max();
    default: return std::numeric_limits<double>::max();
  }
}

// How far one part of a number is off, in units of what is allowed: at most 1 is right.
double part_error(double actual, double expected, double allowed, double rtol, double limit) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) == std::isnan(actual) ? 0.0 : HUGE_VAL;
  if (actual == expected) return 0.0;
  // Near the largest number either it or infinity is a fair answer.
  const double margin = limit * (1.0 - rtol);
  if (std::isinf(actual)) return std::abs(expected) >= margin && (actual > 0) == (expected > 0) ? 0.0 : HUGE_VAL;
  if (std::isinf(expected) || std::abs(expected) > limit)
    return std::abs(expected) <= limit * (1.0 + rtol) && std::abs(actual) >= margin && (actual > 0) == (expected > 0)
               ? 0.0
               : HUGE_VAL;
  const double off = std::abs(actual - expected);
  return allowed > 0 ? off / allowed : HUGE_VAL;
}

double error_of(std::complex<double> actual, std::complex<double> expected, const CaseTruth& truth, ScalarType dtype,
                bool signed_zero) {
  const double limit = largest(dtype);
  // The length, or where that is no number the larger of the parts that are.
  double size = std::abs(expected);
  if (!std::isfinite(size)) {
    size = 0;
    for (const double part : {expected.real(), expected.imag()})
      if (std::isfinite(part)) size = std::max(size, std::abs(part));
  }
  const double allowed = truth.atol + truth.rtol * (isComplexType(dtype) ? size : std::abs(expected.real()));
  double worst = part_error(actual.real(), expected.real(), allowed, truth.rtol, limit);
  if (isComplexType(dtype))
    worst = std::max(worst, part_error(actual.imag(), expected.imag(), allowed, truth.rtol, limit));
  if (signed_zero && !isComplexType(dtype) && expected.real() == 0 &&
      std::signbit(actual.real()) != std::signbit(expected.real()))
    return HUGE_VAL;
  return worst;
}

std::string coordinates(int64_t flat, IntArrayRef sizes) {
  std::vector<int64_t> at(sizes.size());
  for (size_t d = sizes.size(); d-- > 0;) {
    at[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return to_words(at);
}

template <class T>
void print_number(std::ostream& out, T value) {
  out.precision(17);
  out << value;
}

void print_number(std::ostream& out, std::complex<double> value) {
  out.precision(17);
  out << value.real();
  if (value.imag() != 0) out << (value.imag() < 0 ? " - " : " + ") << std::abs(value.imag()) << "i";
}

// What went wrong over all elements: how many, and the worst one.
template <class T>
class Tally {
 public:
  void add(int64_t index, T actual, T expected, double error) {
    if (error <= 1.0) return;
    if (wrong_ == 0 || error > worst_) {
      worst_ = error;
      index_ = index;
      actual_ = actual;
      expected_ = expected;
    }
    ++wrong_;
  }

  std::string words(IntArrayRef sizes, int64_t numel, const CaseTruth& truth) const {
    if (wrong_ == 0) return {};
    std::ostringstream out;
    out << wrong_ << " of " << numel << " elements are wrong; the worst is at " << coordinates(index_, sizes)
        << ": got ";
    print_number(out, actual_);
    out << ", must be ";
    print_number(out, expected_);
    out.precision(3);
    if (std::isfinite(worst_)) out << ", off by " << worst_ << " times what is allowed";
    out << " (rtol " << truth.rtol << ", atol " << truth.atol << ")";
    return out.str();
  }

 private:
  int64_t wrong_ = 0;
  int64_t index_ = 0;
  double worst_ = 0;
  T actual_{};
  T expected_{};
};

}  // namespace

ScalarType scalar_type_of_code(uint8_t code) {
  switch (code) {
    case 0: return kByte;
    case 1: return kChar;
    case 2: return kShort;
    case 3: return kInt;
    case 4: return kLong;
    case 5: return kHalf;
    case 6: return kFloat;
    case 7: return kDouble;
    case 8: return kComplexHalf;
    case 9: return kComplexFloat;
    case 10: return kComplexDouble;
    case 11: return kBool;
    case 15: return kBFloat16;
    case 23: return kFloat8_e5m2;
    case 24: return kFloat8_e4m3fn;
    case 27: return kUInt16;
    case 28: return kUInt32;
    case 29: return kUInt64;
    default: throw std::runtime_error("unknown dtype code in a case file");
  }
}

std::string to_words(IntArrayRef sizes) {
  std::string out = "[";
  for (size_t i = 0; i < sizes.size(); ++i) out += (i == 0 ? "" : ", ") + std::to_string(sizes[i]);
  return out + "]";
}

Tensor make_tensor(const CaseTensor& source) {
  const ScalarType dtype = scalar_type_of_code(source.dtype);
  const auto bytes = source.storage.size();
  auto* memory = new std::byte[bytes];
  if (bytes != 0) std::memcpy(memory, source.storage.data(), bytes);
  const auto length = static_cast<int64_t>(bytes / elementSize(dtype));
  const Tensor whole = from_blob(
      memory, {length}, [memory](void*) { delete[] memory; }, TensorOptions().dtype(dtype));
  return whole.as_strided(source.sizes, source.strides, source.storage_offset);
}

Tensor make_filled(ScalarType dtype, IntArrayRef sizes, bool gaps) {
  CaseTensor source;
  for (uint8_t code = 0; code < 30; ++code)
    if ((code <= 11 || code == 15 || code == 23 || code == 24 || code >= 27) && scalar_type_of_code(code) == dtype)
      source.dtype = code;
  source.sizes = sizes.vec();
  std::vector<int64_t> room = source.sizes;
  if (gaps)
    for (auto& size : room) size += 1;
  source.strides = contiguous_strides(room);
  int64_t length = 1;
  for (const auto size : room) length *= std::max<int64_t>(size, 1);
  if (gaps) {
    for (auto& stride : source.strides) stride *= 2;
    length = 2 * length + 1;
    source.storage_offset = 1;
  }
  source.storage.assign(static_cast<size_t>(length) * elementSize(dtype),
                        std::byte{dtype == kBool ? uint8_t{1} : uint8_t{0x71}});
  return make_tensor(source);
}

std::vector<std::byte> element_bytes(const Tensor& tensor) {
  const size_t width = elementSize(tensor.scalar_type());
  std::vector<std::byte> out(static_cast<size_t>(tensor.numel()) * width);
  if (out.empty()) return out;
  const auto* base = static_cast<const std::byte*>(tensor.data_ptr());
  std::byte* to = out.data();
  for_each_position(tensor.sizes(), tensor.strides(), [&](int64_t position) {
    std::memcpy(to, base + position * static_cast<int64_t>(width), width);
    to += width;
  });
  return out;
}

std::vector<std::byte> storage_bytes(const Tensor& tensor) {
  const Storage storage = tensor.storage();
  std::vector<std::byte> out(storage.nbytes());
  if (!out.empty()) std::memcpy(out.data(), storage.data(), out.size());
  return out;
}

Tensor contiguous_copy(const Tensor& tensor) {
  Tensor out = make_filled(tensor.scalar_type(), tensor.sizes(), false);
  const auto bytes = element_bytes(tensor);
  if (!bytes.empty()) std::memcpy(out.data_ptr(), bytes.data(), bytes.size());
  return out;
}

Tensor strided_copy(const Tensor& tensor) {
  const auto bytes = storage_bytes(tensor);
  auto* memory = new std::byte[bytes.size()];
  if (!bytes.empty()) std::memcpy(memory, bytes.data(), bytes.size());
  const auto length = static_cast<int64_t>(bytes.size() / elementSize(tensor.scalar_type()));
  const Tensor whole = from_blob(
      memory, {length}, [memory](void*) { delete[] memory; }, TensorOptions().dtype(tensor.scalar_type()));
  return whole.as_strided(tensor.sizes(), tensor.strides(), tensor.storage_offset());
}

bool overlaps_itself(const Tensor& tensor) {
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.size(d) > 1 && tensor.stride(d) == 0) return true;
  return false;
}

std::vector<double> elements_as_double(const Tensor& tensor) {
  const auto bytes = element_bytes(tensor);
  const size_t width = elementSize(tensor.scalar_type());
  std::vector<double> out;
  out.reserve(bytes.size() / width);
  for (size_t at = 0; at < bytes.size(); at += width)
    out.push_back(as_complex(tensor.scalar_type(), bytes.data() + at).real());
  return out;
}

std::string difference(const Tensor& actual, const CaseTruth& truth, bool signed_zero, bool compare_values) {
  if (!actual.defined()) return "the result is an undefined tensor";
  const ScalarType dtype = scalar_type_of_code(truth.dtype);
  if (actual.scalar_type() != dtype)
    return std::string("the dtype is ") + dtype_name(actual.scalar_type()) + ", must be " + dtype_name(dtype);
  const IntArrayRef sizes(truth.sizes);
  if (!std::equal(sizes.begin(), sizes.end(), actual.sizes().begin(), actual.sizes().end()))
    return "the shape is " + to_words(actual.sizes()) + ", must be " + to_words(sizes);
  if (!compare_values || actual.is_meta()) return {};

  const auto bytes = element_bytes(actual);
  const size_t width = elementSize(dtype);
  const int64_t numel = actual.numel();
  const std::byte* got = bytes.data();
  if (isIntegralType(dtype, true)) {
    const size_t step = dtype == kBool ? 1 : 8;
    Tally<int64_t> tally;
    for (int64_t i = 0; i < numel; ++i) {
      const std::byte* want = truth.values.data() + static_cast<size_t>(i) * step;
      const int64_t expected = step == 1 ? read<uint8_t>(want) : read<int64_t>(want);
      const int64_t value = as_integer(dtype, got + static_cast<size_t>(i) * width);
      if (value != expected) tally.add(i, value, expected, HUGE_VAL);
    }
    return tally.words(sizes, numel, truth);
  }
  const size_t step = isComplexType(dtype) ? 16 : 8;
  Tally<std::complex<double>> tally;
  for (int64_t i = 0; i < numel; ++i) {
    const std::byte* want = truth.values.data() + static_cast<size_t>(i) * step;
    const std::complex<double> expected(read<double>(want), step == 16 ? read<double>(want + 8) : 0.0);
    const auto value = as_complex(dtype, got + static_cast<size_t>(i) * width);
    tally.add(i, value, expected, error_of(value, expected, truth, dtype, signed_zero));
  }
  return tally.words(sizes, numel, truth);
}

CaseTruth as_truth(const Tensor& tensor, const CaseTruth& like) {
  CaseTruth truth = like;
  truth.sizes = tensor.sizes().vec();
  truth.values.clear();
  const ScalarType dtype = tensor.scalar_type();
  const auto put = [&](const auto& value) {
    const auto* bytes = reinterpret_cast<const std::byte*>(&value);
    truth.values.insert(truth.values.end(), bytes, bytes + sizeof(value));
  };
  const auto bytes = element_bytes(tensor);
  for (size_t at = 0; at < bytes.size(); at += elementSize(dtype)) {
    const std::byte* element = bytes.data() + at;
    if (dtype == kBool) put(static_cast<uint8_t>(as_integer(dtype, element)));
    else if (isIntegralType(dtype, true)) put(as_integer(dtype, element));
    else if (isComplexType(dtype)) put(as_complex(dtype, element));
    else put(as_complex(dtype, element).real());
  }
  return truth;
}

std::string bit_difference(const Tensor& actual, const Tensor& expected) {
  if (actual.scalar_type() != expected.scalar_type())
    return std::string("the dtype is ") + dtype_name(actual.scalar_type()) + ", plainly it is " +
           dtype_name(expected.scalar_type());
  if (to_words(actual.sizes()) != to_words(expected.sizes()))
    return "the shape is " + to_words(actual.sizes()) + ", plainly it is " + to_words(expected.sizes());
  const auto a = element_bytes(actual), b = element_bytes(expected);
  if (a == b) return {};
  const ScalarType dtype = actual.scalar_type();
  const size_t width = elementSize(dtype);
  for (size_t at = 0; at < a.size(); at += width) {
    if (std::memcmp(a.data() + at, b.data() + at, width) == 0) continue;
    const auto x = as_complex(dtype, a.data() + at), y = as_complex(dtype, b.data() + at);
    const auto same = [](double p, double q) {
      return std::isnan(p) ? std::isnan(q) : p == q && std::signbit(p) == std::signbit(q);
    };
    if (same(x.real(), y.real()) && same(x.imag(), y.imag()) && !isIntegralType(dtype, true)) continue;
    std::ostringstream out;
    out << "at " << coordinates(static_cast<int64_t>(at / width), actual.sizes()) << " there is ";
    print_number(out, x);
    out << ", plainly it is ";
    print_number(out, y);
    return out.str();
  }
  return {};
}

}  // namespace facula::testing
