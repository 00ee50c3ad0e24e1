// Products of matrices by the definition.
#include "blas.h"
#include "library_abi.h"

#include <dlfcn.h>

#include <cmath>
#include <complex>
#include <cstdio>
#include <cstring>
#include <vector>

namespace simgpu {
namespace {

// The driver is there already when somebody multiplies: its library is found by its name.
#if defined(SIMGPU_SHAPE_HIP)
constexpr const char* kDriver = "libamdhip64.so.5";
#else
constexpr const char* kDriver = "libcuda.so.1";
#endif

struct Engine {
  decltype(&simgpu_enqueue) enqueue = nullptr;
  decltype(&simgpu_touch) touch = nullptr;
};
const Engine& engine() {
  static const Engine found = [] {
    Engine e;
    void* library = dlopen(kDriver, RTLD_NOW | RTLD_NOLOAD);
    if (!library) return e;
    e.enqueue = reinterpret_cast<decltype(e.enqueue)>(dlsym(library, "simgpu_enqueue"));
    e.touch = reinterpret_cast<decltype(e.touch)>(dlsym(library, "simgpu_touch"));
    return e;
  }();
  return found;
}

float float_of_bits(uint32_t bits) {
  float f;
  std::memcpy(&f, &bits, 4);
  return f;
}
uint32_t bits_of_float(float f) {
  uint32_t bits;
  std::memcpy(&bits, &f, 4);
  return bits;
}

double read_half(uint16_t h) {
  const int exponent = h >> 10 & 31, fraction = h & 1023;
  double value = exponent == 0    ? std::ldexp(fraction, -24)
                 : exponent == 31 ? (fraction ? NAN : INFINITY)
                                  : std::ldexp(1024 + fraction, exponent - 25);
  return h & 0x8000 ? -value : value;
}
uint16_t write_half(double x) {
  const uint16_t sign = std::signbit(x) ? 0x8000 : 0;
  if (std::isnan(x)) return 0x7e00;
  x = std::fabs(x);
  if (x == 0) return sign;
  if (x >= 65520.0) return static_cast<uint16_t>(sign | 0x7c00);
  int exponent = 0;
  std::frexp(x, &exponent);
  const int shift = exponent < -13 ? 24 : 11 - exponent;  // below the normal numbers steps are 2^-24
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(x, shift)));
  if (exponent < -13) return static_cast<uint16_t>(sign | steps);
  // A fraction that rounds up to 2048 carries into the exponent by itself.
  return static_cast<uint16_t>(sign | (((exponent + 14) << 10) + (steps - 1024)));
}
uint16_t write_bfloat(double x) {
  const uint32_t bits = bits_of_float(static_cast<float>(x));
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}
template <class T>
void store(void* at, T value) {
  std::memcpy(at, &value, sizeof value);
}

void write_element(Element type, void* at, std::complex<double> v) {
  switch (type) {
    case Element::F16: return store(at, write_half(v.real()));
    case Element::BF16: return store(at, write_bfloat(v.real()));
    case Element::F32: return store(at, static_cast<float>(v.real()));
    case Element::F64: return store(at, v.real());
    case Element::C32: return store(at, std::complex<float>(v));
    case Element::C64: return store(at, v);
    case Element::I8: return store(at, static_cast<int8_t>(v.real()));
    case Element::I32: return store(at, static_cast<int32_t>(static_cast<int64_t>(v.real())));
  }
}

const char* offset(const void* base, int64_t elements, Element type) {
  return static_cast<const char*>(base) + elements * static_cast<int64_t>(element_bytes(type));
}

double activated(Product::Activation activation, double x) {
  using enum Product::Activation;
  switch (activation) {
    case Relu: return std::fmax(x, 0.0);
    case GeluTanh: return x / 2 * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    default: return x;
  }
}

constexpr char kLabel[] = "matrix product";

// Whether the columns of a matrix may be touched.
int touch(void* device, const void* base, Element type, int64_t rows, int64_t columns, int64_t leading, bool write) {
  for (int64_t j = 0; j < columns; ++j)
    if (int code = engine().touch(device, offset(base, j * leading, type),
                                  static_cast<size_t>(rows) * element_bytes(type), write, kLabel))
      return code;
  return 0;
}

// op(X) as rows by columns of complex numbers, one row after the other.
std::vector<std::complex<double>> gather(const void* base, Element type, int64_t rows, int64_t columns, int64_t leading,
                                         bool transpose, bool conjugate) {
  std::vector<std::complex<double>> all(static_cast<size_t>(rows * columns));
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j) {
      double v[2];
      read_element(type, offset(base, transpose ? j + i * leading : i + j * leading, type), v);
      all[static_cast<size_t>(i * columns + j)] = {v[0], conjugate ? -v[1] : v[1]};
    }
  return all;
}

int multiply_one(const Product& p, int64_t index, void* device) {
  const void* a = offset(p.a, index * p.stride_a, p.in);
  const void* b = offset(p.b, index * p.stride_b, p.in);
  const void* c = p.c ? offset(p.c, index * p.stride_c, p.out) : nullptr;
  void* d = const_cast<char*>(offset(p.d, index * p.stride_d, p.out));
  const std::complex<double> alpha(p.alpha[0], p.alpha[1]), beta(p.beta[0], p.beta[1]);
  const bool adds = beta != 0.0;
  if (int code = touch(device, a, p.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, false))
    return code;
  if (int code = touch(device, b, p.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, false))
    return code;
  if (adds)
    if (int code = touch(device, c, p.out, p.m, p.n, p.ldc, false)) return code;
  if (p.bias)
    if (int code = touch(device, p.bias, p.out, p.m, 1, p.m, false)) return code;
  if (int code = touch(device, d, p.out, p.m, p.n, p.ldd, true)) return code;
  if (p.before)
    if (int code = touch(device, p.before, p.out, p.m, p.n, p.ld_before, true)) return code;
  const auto left = gather(a, p.in, p.m, p.k, p.lda, p.transpose_a, p.conjugate_a);
  const auto right = gather(b, p.in, p.n, p.k, p.ldb, !p.transpose_b, p.conjugate_b);  // its columns, as rows
  const bool complex = p.in == Element::C32 || p.in == Element::C64;
  for (int64_t j = 0; j < p.n; ++j)
    for (int64_t i = 0; i < p.m; ++i) {
      const std::complex<double>*x = left.data() + i * p.k, *y = right.data() + j * p.k;
      std::complex<double> sum = 0;
      if (complex) {
        for (int64_t l = 0; l < p.k; ++l) sum += x[l] * y[l];
      } else {
        double real = 0;
        for (int64_t l = 0; l < p.k; ++l) real += x[l].real() * y[l].real();
        sum = real;
      }
      sum *= alpha;
      double v[2];
      if (adds) {
        read_element(p.out, offset(c, i + j * p.ldc, p.out), v);
        sum += beta * std::complex<double>(v[0], v[1]);
      }
      if (p.bias) {
        read_element(p.out, offset(p.bias, i, p.out), v);
        sum += std::complex<double>(v[0], v[1]);
      }
      if (p.before) write_element(p.out, const_cast<char*>(offset(p.before, i + j * p.ld_before, p.out)), sum);
      if (p.activation != Product::Activation::None) sum = activated(p.activation, sum.real());
      write_element(p.out, const_cast<char*>(offset(d, i + j * p.ldd, p.out)), sum);
    }
  return 0;
}

int run(void* data, void* device) {
  const Product& p = *static_cast<const Product*>(data);
  if (p.workspace_bytes)
    if (int code = engine().touch(device, p.workspace, p.workspace_bytes, true, kLabel)) return code;
  for (int64_t i = 0; i < p.batch; ++i)
    if (int code = multiply_one(p, i, device)) return code;
  return 0;
}

}  // namespace

size_t element_bytes(Element type) {
  switch (type) {
    case Element::I8: return 1;
    case Element::F16:
    case Element::BF16: return 2;
    case Element::F32:
    case Element::I32: return 4;
    case Element::F64:
    case Element::C32: return 8;
    case Element::C64: return 16;
  }
  return 0;
}

void read_element(Element type, const void* at, double value[2]) {
  value[1] = 0;
  switch (type) {
    case Element::F16: value[0] = read_half(load<uint16_t>(at)); break;
    case Element::BF16: value[0] = float_of_bits(static_cast<uint32_t>(load<uint16_t>(at)) << 16); break;
    case Element::F32: value[0] = load<float>(at); break;
    case Element::F64: value[0] = load<double>(at); break;
    case Element::C32: value[0] = load<float>(at), value[1] = load<float>(static_cast<const float*>(at) + 1); break;
    case Element::C64: value[0] = load<double>(at), value[1] = load<double>(static_cast<const double*>(at) + 1); break;
    case Element::I8: value[0] = load<int8_t>(at); break;
    case Element::I32: value[0] = load<int32_t>(at); break;
  }
}

void write_real(Element type, void* at, double value) { write_element(type, at, value); }

int enqueue(void* stream, const char* label, int (*work)(void* data, void* device), void* data, void (*drop)(void*)) {
  if (engine().enqueue && engine().touch) return engine().enqueue(stream, label, work, data, drop);
  drop(data);
  return 3;  // not initialized
}
int touch(void* device, const void* address, size_t bytes, bool write, const char* label) {
  return engine().touch(device, address, bytes, write, label);
}

int multiply(const Product& p, void* stream) {
  char label[96];
  snprintf(label, sizeof label, "matrix product %lld x %lld x %lld, batch %lld", static_cast<long long>(p.m),
           static_cast<long long>(p.n), static_cast<long long>(p.k), static_cast<long long>(p.batch));
  return enqueue(stream, label, run, new Product(p), [](void* data) { delete static_cast<Product*>(data); });
}

}  // namespace simgpu
