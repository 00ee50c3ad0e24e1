// Meanings of the random ops: arguments, the place in the generator's stream, and composites over one fill kernel.
#include "core/generator_impl.h"
#include "cpu/convert.h"
#include "cpu/random.h"
#include "gpu/graph.h"
#include "gpu/program/random.h"
#include "ops/common.h"
#include "ops/pointwise.h"
#include "ops/shape_checks.h"
#include "ops/transfer.h"
#include "program/random_bits.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace facula {
namespace {

using MaybeGenerator = std::optional<Generator>;

// Draws into `self`, element by element in row-major order whatever its strides are.
void draw_into(const Tensor& self, RandomFill fill, const MaybeGenerator& generator, const char* op) {
  check_no_internal_overlap(self, op);
  if (self.is_meta() || self.numel() == 0) return;
  ScalarType dtype = self.scalar_type();
  const Device device = self.impl()->device;
  GeneratorImpl& source = generator_or_default(generator, device, op);
  const uint64_t blocks = random_blocks(fill, dtype, self.numel());
  Tensor target = self.is_contiguous() ? self : new_tensor(self.sizes(), dtype, self.device(), op);
  if (device.is_cuda()) {
    StorageImpl* storages[] = {target.impl()->storage.get()};
    const gpu::RandomPlace place = gpu::random_place(source, blocks, device.index(), op);
    gpu::random_fill(fill, dtype, target.impl()->data(), self.numel(), {op, device.index(), storages}, place);
  } else {
    const auto place = source.reserve(blocks);
    fill.seed = place.seed;
    fill.offset = place.offset;
    call_kernel<void(const RandomFill&, ScalarType, void*, int64_t)>(OpId::uniform_, device.type(), fill, dtype,
                                                                     target.impl()->data(), self.numel());
  }
  if (!self.is_contiguous()) copy_values(self, target);
}

void written(const Tensor& self) { self.impl()->bump_version(); }

void check_floating(const Tensor& self, const char* op) {
  FACULA_CHECK(self.is_floating_point(), DTypeError, op, ": expected a floating-point tensor, got ",
               toString(self.scalar_type()));
}

ScalarType float_option(const TensorOptions& options, const char* op, bool complex_too) {
  ScalarType t = options.dtype();
  FACULA_CHECK(isFloatingType(t) || (complex_too && isComplexType(t)), DTypeError, op, ": \"", op,
               "\" not implemented for '", toString(t), "'. Use randint for integers");
  return t;
}

TensorOptions like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  TensorOptions merged = self.options().merge_in(options);
  return format ? merged.memory_format(format) : merged;
}

Tensor empty_for_random(IntArrayRef size, const TensorOptions& options, ScalarType dtype, const char* op) {
  checked_numel(size, elementSize(dtype), op);
  return facula::empty(size, options.dtype(dtype));
}

// Complex numbers are pairs of reals; a standard complex normal has variance one in all.
Tensor reals_of(const Tensor& t) { return t.is_complex() ? facula::view_as_real(t) : t; }

double largest_span(ScalarType t) {
  bool wide = t == ScalarType::Double || t == ScalarType::ComplexDouble;
  return wide ? std::numeric_limits<double>::max() : static_cast<double>(std::numeric_limits<float>::max());
}

RandomFill uniform_fill(double from, double to) { return {.distribution = Distribution::Uniform, .a = from, .b = to}; }
RandomFill normal_fill(double mean, double deviation) {
  return {.distribution = Distribution::Normal, .a = mean, .b = deviation};
}

}  // namespace

Tensor Generator::get_state() const {
  FACULA_CHECK(impl_, ValueError, "Generator::get_state: this Generator is undefined");
  Tensor state = new_tensor({16}, kByte, kCPU);
  uint64_t words[] = {impl_->seed(), impl_->offset()};
  std::memcpy(state.impl()->data(), words, 16);
  return state;
}

void Generator::set_state(const Tensor& state) {
  FACULA_CHECK(impl_, ValueError, "Generator::set_state: this Generator is undefined");
  FACULA_CHECK(
      state.defined() && state.is_cpu() && state.scalar_type() == kByte && state.dim() == 1 && state.numel() == 16,
      ValueError,
      "Generator::set_state: RNG state must be a uint8 tensor of 16 elements on cpu, as get_state returns it");
  Tensor bytes = as_contiguous(state);
  uint64_t words[2];
  std::memcpy(words, bytes.impl()->data(), 16);
  impl_->set(words[0], words[1]);
}

namespace meaning {

Tensor rand(IntArrayRef size, MaybeGenerator generator, const TensorOptions& options) {
  Tensor t = empty_for_random(size, options, float_option(options, "rand", true), "rand");
  draw_into(reals_of(t), uniform_fill(0, 1), generator, "rand");
  return t;
}
Tensor rand(IntArrayRef size, const TensorOptions& options) { return meaning::rand(size, std::nullopt, options); }
Tensor rand_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  TensorOptions o = like(self, options, format);
  Tensor t = facula::empty_like(self, o, format);
  float_option(o, "rand_like", true);
  draw_into(reals_of(t), uniform_fill(0, 1), std::nullopt, "rand_like");
  return t;
}

Tensor randn(IntArrayRef size, MaybeGenerator generator, const TensorOptions& options) {
  Tensor t = empty_for_random(size, options, float_option(options, "randn", true), "randn");
  draw_into(reals_of(t), normal_fill(0, t.is_complex() ? std::sqrt(0.5) : 1), generator, "randn");
  return t;
}
Tensor randn(IntArrayRef size, const TensorOptions& options) { return meaning::randn(size, std::nullopt, options); }
Tensor randn_like(const Tensor& self, const TensorOptions& options, std::optional<MemoryFormat> format) {
  TensorOptions o = like(self, options, format);
  float_option(o, "randn_like", true);
  Tensor t = facula::empty_like(self, o, format);
  draw_into(reals_of(t), normal_fill(0, t.is_complex() ? std::sqrt(0.5) : 1), std::nullopt, "randn_like");
  return t;
}

namespace {

// The integers [low, high) must fit the dtype: a float counts exactly up to its mantissa.
void check_range(ScalarType t, int64_t low, int64_t high, const char* op) {
  FACULA_CHECK(low < high, ValueError, op, ": expects 'from' to be less than 'to', but got from=", low,
               " >= to=", high);
  double lowest = -9.3e18, highest = 1.9e19;
  switch (t) {
    case ScalarType::Byte: lowest = 0, highest = 255; break;
    case ScalarType::Char: lowest = -128, highest = 127; break;
    case ScalarType::Short: lowest = -32768, highest = 32767; break;
    case ScalarType::UInt16: lowest = 0, highest = 65535; break;
    case ScalarType::Int: lowest = -2147483648.0, highest = 2147483647.0; break;
    case ScalarType::UInt32: lowest = 0, highest = 4294967295.0; break;
    case ScalarType::UInt64: lowest = 0; break;
    case ScalarType::Bool: lowest = 0, highest = 1; break;
    case ScalarType::Half: lowest = -65504, highest = 65504; break;
    case ScalarType::Float8_e4m3fn: lowest = -448, highest = 448; break;
    case ScalarType::Float8_e5m2: lowest = -57344, highest = 57344; break;
    default: break;
  }
  FACULA_CHECK(static_cast<double>(low) >= lowest && static_cast<double>(high - 1) <= highest, ValueError, op,
               ": the range [", low, ", ", high, ") is out of bounds for ", toString(t));
}

RandomFill integer_fill(int64_t low, int64_t high) {
  return {.distribution = Distribution::Integer,
          .low = low,
          .range = static_cast<uint64_t>(high) - static_cast<uint64_t>(low)};
}

}  // namespace

Tensor randint(int64_t low, int64_t high, IntArrayRef size, MaybeGenerator generator, const TensorOptions& options) {
  ScalarType t = options.has_dtype() ? options.dtype() : kLong;
  FACULA_CHECK(!isComplexType(t), DTypeError, "randint: not implemented for '", toString(t), "'");
  check_range(t, low, high, "randint");
  Tensor r = empty_for_random(size, options, t, "randint");
  draw_into(r, integer_fill(low, high), generator, "randint");
  return r;
}
Tensor randint(int64_t low, int64_t high, IntArrayRef size, const TensorOptions& options) {
  return meaning::randint(low, high, size, std::nullopt, options);
}
Tensor randint(int64_t high, IntArrayRef size, const TensorOptions& options) {
  return meaning::randint(0, high, size, std::nullopt, options);
}
Tensor randint(int64_t high, IntArrayRef size, MaybeGenerator generator, const TensorOptions& options) {
  return meaning::randint(0, high, size, generator, options);
}
Tensor randint_like(const Tensor& self, int64_t low, int64_t high, const TensorOptions& options,
                    std::optional<MemoryFormat> format) {
  TensorOptions o = like(self, options, format);
  check_range(o.dtype(), low, high, "randint_like");
  Tensor t = facula::empty_like(self, o, format);
  draw_into(t, integer_fill(low, high), std::nullopt, "randint_like");
  return t;
}
Tensor randint_like(const Tensor& self, int64_t high, const TensorOptions& options,
                    std::optional<MemoryFormat> format) {
  return meaning::randint_like(self, 0, high, options, format);
}

Tensor randperm(int64_t n, MaybeGenerator generator, const TensorOptions& options) {
  FACULA_CHECK(n >= 0, ValueError, "randperm: n must be non-negative, got ", n);
  ScalarType t = options.has_dtype() ? options.dtype() : kLong;
  FACULA_CHECK(!isComplexType(t) && t != kBool, DTypeError, "randperm: not implemented for '", toString(t), "'");
  if (n > 1) check_range(t, 0, n, "randperm");
  const Device device = plain_device(options.device(), "randperm");
  Tensor order = new_tensor({n}, kLong, device.is_meta() ? device : Device(kCPU), "randperm");
  if (order.is_meta()) return as_dtype(order, t);
  // Fisher and Yates, from the end; step i uses word i of the stream.
  auto place = generator_or_default(generator, device, "randperm").reserve((static_cast<uint64_t>(n) + 1) / 2);
  auto* p = reinterpret_cast<int64_t*>(order.impl()->data());
  for (int64_t i = 0; i < n; ++i) p[i] = i;
  for (int64_t i = 0; i + 1 < n; ++i) {
    auto block = philox4x32_10(place.seed, place.offset + static_cast<uint64_t>(i / 2));
    uint64_t word =
        i % 2 ? static_cast<uint64_t>(block[3]) << 32 | block[2] : static_cast<uint64_t>(block[1]) << 32 | block[0];
    int64_t last = n - 1 - i;
    std::swap(p[last], p[random_bits::below(word, static_cast<uint64_t>(last) + 1)]);
  }
  return carried_to(device, as_dtype(order, t));
}
Tensor randperm(int64_t n, const TensorOptions& options) { return meaning::randperm(n, std::nullopt, options); }

namespace {

Tensor shifted_normal(const Tensor& standard, const Operand& mean, const Operand& deviation) {
  return pointwise(ScalarOp::add_alpha, {mean, standard, deviation}, Out::fresh(), "normal");
}

void check_deviation(const Tensor& deviation) {
  FACULA_CHECK(!deviation.is_complex(), DTypeError, "normal: expects standard deviation to be non-complex");
  FACULA_CHECK(deviation.is_meta() || deviation.numel() == 0 || deviation.ge(0).all().item<bool>(), ValueError,
               "normal: expects all elements of std >= 0.0");
}

Tensor standard_normal(IntArrayRef sizes, ScalarType t, Device device, const MaybeGenerator& generator) {
  Tensor z = new_tensor(sizes, t, device, "normal");
  check_floating(z, "normal");
  draw_into(z, normal_fill(0, 1), generator, "normal");
  return z;
}

}  // namespace

Tensor normal(const Tensor& mean, double std, MaybeGenerator generator) {
  FACULA_CHECK(std >= 0, ValueError, "normal: expects std >= 0.0, but found std ", std);
  Tensor z = standard_normal(mean.sizes(), mean.scalar_type(), mean.device(), generator);
  return shifted_normal(z, mean, Scalar(std));
}
Tensor normal(double mean, const Tensor& std, MaybeGenerator generator) {
  check_deviation(std);
  Tensor z = standard_normal(std.sizes(), std.scalar_type(), std.device(), generator);
  return z.mul(std).add(mean);
}
Tensor normal(const Tensor& mean, const Tensor& std, MaybeGenerator generator) {
  check_deviation(std);
  Operand both[] = {mean, std};
  DimVector sizes = broadcast_sizes(mean.sizes(), std.sizes(), "normal");
  Tensor z = standard_normal(sizes, result_type(both, "normal"), common_device({&mean, &std}, "normal"), generator);
  return shifted_normal(z, mean, std);
}
Tensor normal(double mean, double std, IntArrayRef size, MaybeGenerator generator, const TensorOptions& options) {
  FACULA_CHECK(std >= 0, ValueError, "normal: expects std >= 0.0, but found std ", std);
  Tensor t = empty_for_random(size, options, float_option(options, "normal", false), "normal");
  draw_into(t, normal_fill(mean, std), generator, "normal");
  return t;
}

void bernoulli_(Tensor& self, double p, MaybeGenerator generator) {
  FACULA_CHECK(p >= 0 && p <= 1, ValueError, "bernoulli_: expects p to be in [0, 1], but got p=", p);
  draw_into(self, {.distribution = Distribution::Bernoulli, .a = p}, generator, "bernoulli_");
  written(self);
}
void bernoulli_(Tensor& self, const Tensor& p, MaybeGenerator generator) {
  FACULA_CHECK(p.is_meta() || p.numel() == 0 || p.ge(0).logical_and(p.le(1)).all().item<bool>(), ValueError,
               "bernoulli_: expects all elements of p to be in [0, 1]");
  // Probabilities are compared in double: one draw of 53 bits each.
  Tensor u = new_tensor(self.sizes(), kDouble, self.device(), "bernoulli_");
  draw_into(u, uniform_fill(0, 1), generator, "bernoulli_");
  Tensor hits = u.lt(p.to(kDouble).expand(self.sizes()));
  check_no_internal_overlap(self, "bernoulli_");
  copy_values(self, hits);
  written(self);
}
Tensor bernoulli(const Tensor& self, MaybeGenerator generator) {
  Tensor r = facula::empty_like(self);
  meaning::bernoulli_(r, self, generator);
  return r;
}
Tensor bernoulli(const Tensor& self, double p, MaybeGenerator generator) {
  Tensor r = facula::empty_like(self);
  meaning::bernoulli_(r, p, generator);
  return r;
}

void uniform_(Tensor& self, double from, double to, MaybeGenerator generator) {
  FACULA_CHECK(self.is_floating_point() || self.is_complex(), DTypeError,
               "uniform_: expected a floating-point tensor, got ", toString(self.scalar_type()));
  FACULA_CHECK(from <= to, ValueError, "uniform_: expects to return a [from, to) range, but found from=", from,
               " > to=", to);
  FACULA_CHECK(std::isfinite(from) && std::isfinite(to) && to - from <= largest_span(self.scalar_type()), ValueError,
               "uniform_: expects to-from to be finite, but found to=", to, " and from=", from);
  draw_into(reals_of(self), uniform_fill(from, to), generator, "uniform_");
  written(self);
}
void normal_(Tensor& self, double mean, double std, MaybeGenerator generator) {
  FACULA_CHECK(std >= 0, ValueError, "normal_: expects std >= 0.0, but found std ", std);
  FACULA_CHECK(self.is_floating_point() || self.is_complex(), DTypeError,
               "normal_: expected a floating-point tensor, got ", toString(self.scalar_type()));
  if (self.is_complex()) {
    Tensor parts = reals_of(self);
    draw_into(parts, normal_fill(0, std * std::sqrt(0.5)), generator, "normal_");
    if (mean != 0) parts.select(-1, 0).add_(mean);
  } else {
    draw_into(self, normal_fill(mean, std), generator, "normal_");
  }
  written(self);
}
void exponential_(Tensor& self, double lambd, MaybeGenerator generator) {
  FACULA_CHECK(lambd > 0, ValueError, "exponential_: expects lambda > 0.0, but found lambda=", lambd);
  check_floating(self, "exponential_");
  draw_into(self, {.distribution = Distribution::Exponential, .a = lambd}, generator, "exponential_");
  written(self);
}
void random_(Tensor& self, int64_t from, std::optional<int64_t> to, MaybeGenerator generator) {
  RandomFill fill{.distribution = Distribution::Integer, .low = from, .range = 0};
  if (to) {
    check_range(self.scalar_type(), from, *to, "random_");
    fill = integer_fill(from, *to);
  } else {
    // Up to the largest value of the dtype; floats up to what they count exactly.
    uint64_t last = INT64_MAX;
    switch (self.scalar_type()) {
      case ScalarType::Byte: last = 255; break;
      case ScalarType::Char: last = 127; break;
      case ScalarType::Short: last = 32767; break;
      case ScalarType::UInt16: last = 65535; break;
      case ScalarType::Int: last = INT32_MAX; break;
      case ScalarType::UInt32: last = UINT32_MAX; break;
      case ScalarType::Bool: last = 1; break;
      case ScalarType::Half: last = 2048; break;
      case ScalarType::BFloat16: last = 256; break;
      case ScalarType::Float8_e4m3fn: last = 16; break;
      case ScalarType::Float8_e5m2: last = 8; break;
      case ScalarType::Float: last = uint64_t{1} << 24; break;
      case ScalarType::Double: last = uint64_t{1} << 53; break;
      default: break;
    }
    FACULA_CHECK(from <= static_cast<int64_t>(last), ValueError, "random_: from=", from, " is out of bounds for ",
                 toString(self.scalar_type()));
    fill.range = last - static_cast<uint64_t>(from) + 1;
  }
  draw_into(self, fill, generator, "random_");
  written(self);
}
void random_(Tensor& self, int64_t to, MaybeGenerator generator) { meaning::random_(self, 0, to, generator); }
void random_(Tensor& self, MaybeGenerator generator) { meaning::random_(self, 0, std::nullopt, generator); }
void geometric_(Tensor& self, double p, MaybeGenerator generator) {
  FACULA_CHECK(p > 0 && p < 1, ValueError, "geometric_: expects p to be in (0, 1), but got p=", p);
  draw_into(self, {.distribution = Distribution::Geometric, .a = p}, generator, "geometric_");
  written(self);
}
void cauchy_(Tensor& self, double median, double sigma, MaybeGenerator generator) {
  FACULA_CHECK(sigma > 0, ValueError, "cauchy_: expects sigma > 0.0, but found sigma=", sigma);
  check_floating(self, "cauchy_");
  draw_into(self, {.distribution = Distribution::Cauchy, .a = median, .b = sigma}, generator, "cauchy_");
  written(self);
}
void log_normal_(Tensor& self, double mean, double std, MaybeGenerator generator) {
  FACULA_CHECK(std > 0, ValueError, "log_normal_: expects std > 0.0, but found std=", std);
  check_floating(self, "log_normal_");
  draw_into(self, {.distribution = Distribution::LogNormal, .a = mean, .b = std}, generator, "log_normal_");
  written(self);
}

Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement, MaybeGenerator generator) {
  FACULA_CHECK(self.dim() == 1 || self.dim() == 2, ShapeError, "multinomial: prob_dist must be 1 or 2 dim, got shape ",
               to_text(self.sizes()));
  check_floating(self, "multinomial");
  int64_t categories = self.size(-1);
  FACULA_CHECK(num_samples > 0, ValueError, "multinomial: cannot sample n_sample <= 0 samples, got ", num_samples);
  FACULA_CHECK(replacement || num_samples <= categories, ValueError,
               "multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement (", num_samples,
               " > ", categories, ")");
  DimVector sizes(self.sizes());
  sizes.back() = num_samples;
  if (self.is_meta()) return new_tensor(sizes, kLong, self.device(), "multinomial");
  Tensor p = self.to(kDouble);
  FACULA_CHECK(p.isfinite().logical_and(p.ge(0)).all().item<bool>(), ValueError,
               "multinomial: probability tensor contains either `inf`, `nan` or element < 0");
  FACULA_CHECK(p.sum(-1).gt(0).all().item<bool>(), ValueError,
               "multinomial: invalid multinomial distribution (sum of probabilities <= 0)");
  if (!replacement) {
    // Races of exponential clocks: the first to ring have the right joint distribution. Zero weights never ring.
    Tensor clocks = new_tensor(p.sizes(), kDouble, self.device());
    draw_into(clocks, {.distribution = Distribution::Exponential, .a = 1}, generator, "multinomial");
    Tensor scores = facula::where(p.gt(0), p.div(clocks), Scalar(-1.0));
    FACULA_CHECK(p.gt(0).sum(-1).ge(num_samples).all().item<bool>(), ValueError,
                 "multinomial: invalid multinomial distribution (with replacement=False, not enough non-negative "
                 "category to sample)");
    return std::get<1>(scores.topk(num_samples, -1));
  }
  Tensor edges = p.cumsum(-1);
  Tensor total = edges.narrow(-1, categories - 1, 1);
  Tensor u = new_tensor(sizes, kDouble, self.device());
  draw_into(u, uniform_fill(0, 1), generator, "multinomial");
  // Rounding may carry u * total to the end: the last category with weight takes it.
  Tensor picked = facula::searchsorted(edges, u.mul(total), false, true);
  Tensor last = facula::searchsorted(edges, total.contiguous(), false, false);
  return facula::minimum(picked, last);
}

std::tuple<Tensor, Tensor> native_dropout(const Tensor& input, double p, std::optional<bool> train) {
  FACULA_CHECK(p >= 0 && p <= 1, ValueError, "dropout: dropout probability has to be between 0 and 1, but got ", p);
  if (!train.value_or(true)) return {meaning::clone(input, std::nullopt), facula::ones_like(input, kBool)};
  Tensor mask = new_tensor(input.sizes(), kBool, input.device(), "dropout");
  draw_into(mask, {.distribution = Distribution::Bernoulli, .a = 1 - p}, std::nullopt, "dropout");
  ScalarType t = input.scalar_type();
  FACULA_CHECK(isFloatingType(t) || isComplexType(t), DTypeError,
               "dropout: result type Float can't be cast to the input's type ", toString(t));
  // x * mask * scale in one pass; a dropped element is zero even where x is not finite.
  Program program;
  Value x = program.load(t), keep = program.load(kBool), scale = program.param(x.type), zero = program.param(x.type);
  program.store(program.apply(ScalarOp::where, keep, program.apply(ScalarOp::mul, x, scale), zero), t);
  Tensor out =
      run_program(program, {input, mask}, {Scalar(p < 1 ? 1 / (1 - p) : 0.0), Scalar(0.0)}, Out::fresh(), "dropout");
  return {out, mask};
}

Tensor dropout(const Tensor& input, double p, bool train) {
  FACULA_CHECK(p >= 0 && p <= 1, ValueError, "dropout: dropout probability has to be between 0 and 1, but got ", p);
  if (!train || p == 0 || input.numel() == 0) return input;
  return std::get<0>(facula::native_dropout(input, p, true));
}

}  // namespace meaning
}  // namespace facula
