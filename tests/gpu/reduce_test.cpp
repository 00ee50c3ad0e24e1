// Reductions on the GPU: every reduction, compute type and layout class against exact arithmetic on the host.
#include "device_memory.h"
#include "core/shape.h"
#include "gpu/program/program.h"
#include "program/compute_type.h"

#include <facula/core/error.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>

namespace facula::testing {
namespace {

using Generator64 = std::mt19937_64;

// One array of a case: its memory on the host, and how the iteration space lies in it.
struct Array {
  ScalarType dtype = kFloat;
  std::vector<char> bytes;
  std::vector<int64_t> strides;
  int64_t first = 0;  // index of the element at the origin

  int64_t at(const std::vector<int64_t>& index) const {
    int64_t element = first;
    for (size_t d = 0; d < strides.size(); ++d) element += index[d] * strides[d];
    return element;
  }
  template <class T>
  T get(int64_t element) const {
    T value;
    std::memcpy(&value, &bytes[static_cast<size_t>(element) * sizeof(T)], sizeof(T));
    return value;
  }
};

// What a dtype holds, as a wide number. Complex numbers have tests of their own.
double number_at(const Array& a, int64_t e) {
  switch (a.dtype) {
    case kFloat: return static_cast<double>(a.get<float>(e));
    case kDouble: return a.get<double>(e);
    case kHalf: return static_cast<double>(static_cast<float>(a.get<Half>(e)));
    case kBFloat16: return static_cast<double>(static_cast<float>(a.get<BFloat16>(e)));
    case kByte: return a.get<uint8_t>(e);
    case kChar: return a.get<int8_t>(e);
    case kShort: return a.get<int16_t>(e);
    case kInt: return a.get<int32_t>(e);
    case kLong: return static_cast<double>(a.get<int64_t>(e));
    case kUInt64: return static_cast<double>(a.get<uint64_t>(e));
    case kBool: return a.get<uint8_t>(e);
    default: throw InternalError("no such dtype in this test");
  }
}

void set_number(Array& a, int64_t e, double value) {
  auto put = [&](auto v) { std::memcpy(&a.bytes[static_cast<size_t>(e) * sizeof v], &v, sizeof v); };
  switch (a.dtype) {
    case kFloat: put(static_cast<float>(value)); break;
    case kDouble: put(value); break;
    case kHalf: put(Half(static_cast<float>(value))); break;
    case kBFloat16: put(BFloat16(static_cast<float>(value))); break;
    case kByte: put(static_cast<uint8_t>(value)); break;
    case kChar: put(static_cast<int8_t>(value)); break;
    case kShort: put(static_cast<int16_t>(value)); break;
    case kInt: put(static_cast<int32_t>(value)); break;
    case kLong: put(static_cast<int64_t>(value)); break;
    case kUInt64: put(static_cast<uint64_t>(value)); break;
    case kBool: put(static_cast<uint8_t>(value != 0)); break;
    default: throw InternalError("no such dtype in this test");
  }
}

double epsilon_of(ScalarType t) {
  return t == kDouble ? 0x1p-53 : t == kHalf ? 0x1p-11 : t == kBFloat16 ? 0x1p-8 : t == kFloat ? 0x1p-24 : 0.0;
}

struct Layout {
  std::vector<int64_t> sizes;
  uint64_t reduced = 0;
  std::vector<size_t> order = {};   // of the input's dims in memory, slowest first; empty: as they are
  std::vector<int64_t> steps = {};  // an element of every so many, per dim; 0: broadcast; empty: all 1
  int64_t shift = 0;                // elements before the first
};

std::string text_of(const Layout& l) {
  std::string out = "sizes";
  for (int64_t n : l.sizes) out += str(" ", n);
  out += str(", reduced ", l.reduced, ", order");
  for (size_t d : l.order) out += str(" ", d);
  out += ", steps";
  for (int64_t n : l.steps) out += str(" ", n);
  return out + str(", shift ", l.shift);
}

int64_t numel_of(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

// Memory for the layout, filled by `value`.
Array make_array(const Layout& l, ScalarType dtype, const std::function<double()>& value) {
  Array a;
  a.dtype = dtype;
  a.first = l.shift;
  a.strides.assign(l.sizes.size(), 0);
  std::vector<size_t> order = l.order;
  if (order.empty())
    for (size_t d = 0; d < l.sizes.size(); ++d) order.push_back(d);
  int64_t step = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const size_t d = order[k];
    const int64_t skip = l.steps.empty() ? 1 : l.steps[d];
    a.strides[d] = step * skip;
    if (skip != 0) step *= std::max<int64_t>(l.sizes[d], 1) * skip;
  }
  a.bytes.resize(static_cast<size_t>(step + l.shift) * elementSize(dtype));
  for (int64_t e = 0; e < step + l.shift; ++e) set_number(a, e, value());
  return a;
}

// Calls f(index) for every index over the dims of `mask`; the others are 0.
template <class F>
void for_each(const std::vector<int64_t>& sizes, uint64_t mask, const F& f) {
  std::vector<int64_t> index(sizes.size(), 0);
  for (size_t d = 0; d < sizes.size(); ++d)
    if ((mask >> d & 1) != 0 && sizes[d] == 0) return;
  while (true) {
    f(index);
    size_t d = sizes.size();
    while (d-- > 0) {
      if ((mask >> d & 1) == 0) continue;
      if (++index[d] < sizes[d]) break;
      index[d] = 0;
    }
    if (d == SIZE_MAX) return;
  }
}

// The stores of a case: contiguous over the kept dims.
std::vector<int64_t> store_strides(const Layout& l) {
  std::vector<int64_t> strides(l.sizes.size(), 0);
  int64_t step = 1;
  for (size_t d = l.sizes.size(); d-- > 0;)
    if ((l.reduced >> d & 1) == 0) {
      strides[d] = step;
      step *= l.sizes[d];
    }
  return strides;
}

std::vector<std::vector<char>> run_on_gpu(const Program& program, const Layout& l,
                                          const std::vector<const Array*>& loads,
                                          const std::vector<ParamValue>& params) {
  const gpu::GpuProgram gpu_program(program);
  std::vector<std::unique_ptr<DeviceMemory>> inputs, outputs;
  std::vector<ArrayArg> load_args, store_args;
  for (const Array* a : loads) {
    inputs.push_back(std::make_unique<DeviceMemory>(a->bytes));
    load_args.push_back(
        {static_cast<char*>(inputs.back()->data()) + a->first * static_cast<int64_t>(elementSize(a->dtype)),
         a->strides.data()});
  }
  const std::vector<int64_t> strides = store_strides(l);
  int64_t count = 1;
  for (size_t d = 0; d < l.sizes.size(); ++d)
    if ((l.reduced >> d & 1) == 0) count *= l.sizes[d];
  for (const Program::Store& s : program.stores()) {
    outputs.push_back(std::make_unique<DeviceMemory>(
        std::vector<char>(static_cast<size_t>(count) * elementSize(s.dtype), char(0x5a))));
    store_args.push_back({outputs.back()->data(), strides.data()});
  }
  gpu_program.run_reduction(l.sizes, l.reduced, load_args, params, store_args, {"test", 0});
  std::vector<std::vector<char>> results;
  for (const auto& o : outputs) results.push_back(o->bytes());
  return results;
}

// ---- one reduction of one array, against the definition --------------------------------------------------------------------------

struct Expected {
  double value = 0, tolerance = 0;
  int64_t position = 0;
  double second = 0, second_tolerance = 0;
};

Expected expect_of(ReduceOp op, const std::vector<double>& x, double eps) {
  Expected e;
  const auto n = static_cast<double>(x.size());
  const double depth = x.empty() ? 1 : std::log2(n) + 4;
  const bool nan = std::any_of(x.begin(), x.end(), [](double v) { return v != v; });
  long double sum = 0, magnitude = 0;
  for (double v : x) {
    sum += static_cast<long double>(v);
    magnitude += std::fabs(static_cast<long double>(v));
  }
  switch (op) {
    case ReduceOp::Sum:
      e.value = static_cast<double>(sum);
      e.tolerance = eps * depth * static_cast<double>(magnitude);
      break;
    case ReduceOp::Prod: {
      long double product = 1;
      for (double v : x) product *= static_cast<long double>(v);
      e.value = static_cast<double>(product);
      e.tolerance = eps * (n + 2) * std::fabs(e.value);
      break;
    }
    case ReduceOp::Any: e.value = std::any_of(x.begin(), x.end(), [](double v) { return v != 0; }); break;
    case ReduceOp::All: e.value = std::all_of(x.begin(), x.end(), [](double v) { return v != 0; }); break;
    case ReduceOp::Max:
    case ReduceOp::Min:
    case ReduceOp::ArgMax:
    case ReduceOp::ArgMin:
    case ReduceOp::MaxWithIndex:
    case ReduceOp::MinWithIndex: {
      const bool largest = op == ReduceOp::Max || op == ReduceOp::ArgMax || op == ReduceOp::MaxWithIndex;
      if (x.empty()) break;  // the callers know
      size_t best = 0;
      for (size_t i = 1; i < x.size() && x[best] == x[best]; ++i)
        if (x[i] != x[i] || (largest ? x[i] > x[best] : x[i] < x[best])) best = i;
      e.value = x[best];
      e.position = static_cast<int64_t>(best);
      break;
    }
    case ReduceOp::Moments: {
      const long double mean = sum / static_cast<long double>(n);
      long double squares = 0;
      for (double v : x) squares += (static_cast<long double>(v) - mean) * (static_cast<long double>(v) - mean);
      e.value = x.empty() ? std::nan("") : static_cast<double>(mean);
      e.tolerance = 4 * eps * static_cast<double>(magnitude) / std::max(n, 1.0);
      e.second = x.empty() ? std::nan("") : static_cast<double>(squares);
      e.second_tolerance = 16 * eps * e.second + 1e-30;
      break;
    }
    case ReduceOp::LogSumExp: {
      double top = -std::numeric_limits<double>::infinity();
      for (double v : x) top = std::max(top, v);
      if (std::isinf(top) || x.empty()) {
        e.value = top;
      } else {
        long double terms = 0;
        for (double v : x) terms += std::exp(static_cast<long double>(v - top));
        e.value = top + static_cast<double>(std::log(terms));
        e.tolerance = eps * (std::fabs(top) + std::fabs(e.value) + 8);
      }
      break;
    }
    case ReduceOp::None: break;
  }
  if (nan && op != ReduceOp::Any && op != ReduceOp::All) e.value = std::nan("");
  if (nan) e.second = std::nan("");
  return e;
}

bool has_second(ReduceOp op) {
  return op == ReduceOp::MaxWithIndex || op == ReduceOp::MinWithIndex || op == ReduceOp::Moments;
}
bool gives_position(ReduceOp op) { return op == ReduceOp::ArgMax || op == ReduceOp::ArgMin; }

// The dtype of results: that of the compute type, so that stores round nothing.
ScalarType natural_dtype(CType type) {
  constexpr ScalarType kTypes[] = {kFloat, kDouble, kInt, kLong, kUInt64, kBool, kComplexFloat, kComplexDouble};
  return kTypes[static_cast<size_t>(type)];
}

bool close(double got, double wanted, double tolerance) {
  if (wanted != wanted) return got != got;
  return got == wanted || std::fabs(got - wanted) <= tolerance;
}

void check(ReduceOp op, const Layout& l, const Array& input) {
  SCOPED_TRACE(str(name_of(op), " of ", toString(input.dtype), ", ", text_of(l)));
  Program program;
  Value v = program.load(input.dtype);
  if (op == ReduceOp::Any || op == ReduceOp::All) v = program.cast(v, CType::B8);
  const CType type = v.type;
  const Value first = program.reduce(op, v);
  const ScalarType first_dtype = natural_dtype(first.type);
  const ScalarType second_dtype = op == ReduceOp::Moments ? natural_dtype(type) : kLong;
  program.store(first, first_dtype);
  if (has_second(op))
    program.store({static_cast<uint16_t>(first.id + 1), op == ReduceOp::Moments ? type : CType::I64}, second_dtype);
  const auto results = run_on_gpu(program, l, {&input}, {});

  Array out{first_dtype, results[0], store_strides(l), 0}, second;
  if (has_second(op)) second = {second_dtype, results[1], store_strides(l), 0};
  const double eps = epsilon_of(natural_dtype(type));
  int64_t wrong = 0;
  for_each(l.sizes, ~l.reduced, [&](const std::vector<int64_t>& index) {
    if (wrong >= 3) return;
    std::vector<double> x;
    for_each(l.sizes, l.reduced, [&](std::vector<int64_t> inner) {
      for (size_t d = 0; d < inner.size(); ++d)
        if ((l.reduced >> d & 1) == 0) inner[d] = index[d];
      x.push_back(number_at(input, input.at(inner)));
    });
    const Expected e = expect_of(op, x, eps);
    const double got = number_at(out, out.at(index));
    if (gives_position(op)) {
      if (got != static_cast<double>(e.position) && ++wrong)
        ADD_FAILURE() << "position " << got << " instead of " << e.position;
      return;
    }
    if (!close(got, e.value, e.tolerance) && ++wrong)
      ADD_FAILURE() << got << " instead of " << e.value << ", off by " << got - e.value << ", allowed " << e.tolerance;
    if (!has_second(op)) return;
    const double other = number_at(second, second.at(index));
    const double wanted = op == ReduceOp::Moments ? e.second : static_cast<double>(e.position);
    if (!close(other, wanted, e.second_tolerance) && ++wrong)
      ADD_FAILURE() << "second result " << other << " instead of " << wanted << ", allowed " << e.second_tolerance;
  });
}

struct Family {
  std::vector<ReduceOp> ops;
  std::vector<ScalarType> dtypes;
};
const std::vector<Family>& families() {
  static const auto* all = new std::vector<Family>{
      {{ReduceOp::Sum}, {kFloat, kDouble, kBFloat16, kHalf, kInt, kLong, kUInt64, kChar}},
      {{ReduceOp::Prod}, {kFloat, kDouble, kInt, kLong}},
      {{ReduceOp::Max, ReduceOp::Min}, {kFloat, kDouble, kBFloat16, kByte, kLong, kUInt64, kBool}},
      {{ReduceOp::Any, ReduceOp::All}, {kBool, kFloat, kInt}},
      {{ReduceOp::ArgMax, ReduceOp::ArgMin, ReduceOp::MaxWithIndex, ReduceOp::MinWithIndex},
       {kFloat, kDouble, kHalf, kShort, kLong, kUInt64, kBool}},
      {{ReduceOp::Moments, ReduceOp::LogSumExp}, {kFloat, kDouble, kBFloat16}}};
  return *all;
}

// Few different values, so that ties are common; products stay small.
std::function<double()> values_for(ReduceOp op, ScalarType dtype, Generator64& random) {
  const bool real = isFloatingType(dtype);
  if (op == ReduceOp::Prod)
    return [&random, real] {
      return real ? 1.0 + (static_cast<double>(random() % 2001) - 1000.0) * 1e-5 : random() % 8 ? 1.0 : -1.0;
    };
  if (op == ReduceOp::All) return [&random] { return random() % 500 ? 1.0 : 0.0; };
  if (op == ReduceOp::Any || dtype == kBool) return [&random] { return random() % 500 ? 0.0 : 1.0; };
  if (op == ReduceOp::Sum || op == ReduceOp::Moments || op == ReduceOp::LogSumExp)
    return [&random, real] {
      const double r = static_cast<double>(random() >> 11) * 0x1p-53;
      return real ? 6.0 * r - 2.0 : std::floor(100.0 * r);
    };
  return [&random] { return static_cast<double>(random() % 50); };
}

// Every reduction with some of its dtypes; the tests together have all of them in each class of layouts.
void check_all(const Layout& l, uint64_t seed) {
  Generator64 random(seed);
  for (const Family& family : families())
    for (size_t i = 0; i < family.ops.size(); ++i)
      for (size_t k = 0; k < 3; ++k) {
        const ReduceOp op = family.ops[i];
        const ScalarType dtype = family.dtypes[(3 * seed + i + k) % family.dtypes.size()];
        if (op == ReduceOp::Prod && numel_of(l.sizes) > 4000) continue;
        check(op, l, make_array(l, dtype, values_for(op, dtype, random)));
      }
}

TEST(GpuReduce, ContiguousRows) { check_all({{37, 96}, 0b10}, 1); }
TEST(GpuReduce, RowsThatBeginAnywhere) { check_all({{5, 1, 101}, 0b110}, 2); }
TEST(GpuReduce, ShortRows) { check_all({{700, 3}, 0b10}, 3); }
TEST(GpuReduce, Everything) { check_all({{11, 13, 17}, 0b111, {}, {}, 1}, 4); }
TEST(GpuReduce, Columns) { check_all({{64, 48}, 0b01}, 5); }
TEST(GpuReduce, FewColumns) { check_all({{900, 3}, 0b01}, 6); }
TEST(GpuReduce, MiddleDim) { check_all({{6, 20, 32}, 0b010}, 7); }
TEST(GpuReduce, FirstAndLast) { check_all({{7, 10, 6, 8}, 0b1101}, 8); }
TEST(GpuReduce, Permuted) { check_all({{12, 9, 16}, 0b101, {2, 0, 1}}, 9); }
TEST(GpuReduce, StridedAndBroadcast) { check_all({{10, 8, 12}, 0b100, {0, 1, 2}, {1, 0, 3}}, 10); }

// Long outputs go over several blocks and two kernels.
TEST(GpuReduce, SplitOverBlocks) {
  Generator64 random(11);
  for (const Layout& l : {Layout{{300000}, 1, {}, {}, 1}, Layout{{2, 70001}, 0b10}, Layout{{40000, 5}, 0b01},
                          Layout{{9000, 32}, 0b01}, Layout{{3, 30000, 4}, 0b010}})
    for (auto [op, dtype] : {std::pair{ReduceOp::Sum, kFloat},
                             {ReduceOp::MaxWithIndex, kFloat},
                             {ReduceOp::ArgMin, kHalf},
                             {ReduceOp::Moments, kFloat},
                             {ReduceOp::LogSumExp, kFloat},
                             {ReduceOp::Sum, kLong},
                             {ReduceOp::Any, kBool}})
      check(op, l, make_array(l, dtype, values_for(op, dtype, random)));
}

TEST(GpuReduce, AnyShapeStridesAndDims) {
  const uint64_t seed = std::random_device{}();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  Generator64 random(seed);
  constexpr int64_t kSizes[] = {1, 2, 3, 4, 5, 7, 8, 12, 16, 17, 31, 32, 33, 64, 100, 129, 257, 1000};
  for (int round = 0; round < 60; ++round) {
    Layout l;
    const size_t rank = random() % 6;
    int64_t total = 1;
    for (size_t d = 0; d < rank; ++d) {
      int64_t n = kSizes[random() % std::size(kSizes)];
      while (total * n > 20000) n = (n + 1) / 2;
      if (total * n > 20000) n = 1;
      if (random() % 40 == 0) n = 0;
      l.sizes.push_back(n);
      total *= std::max<int64_t>(n, 1);
      l.order.push_back(d);
      l.steps.push_back(random() % 8 == 0 ? 0 : random() % 6 == 0 ? 2 : 1);
    }
    if (random() % 2) std::shuffle(l.order.begin(), l.order.end(), random);
    l.reduced = rank == 0 ? 0 : random() % (uint64_t{1} << rank);
    l.shift = static_cast<int64_t>(random() % 4);
    const Family& family = families()[random() % families().size()];
    const ReduceOp op = family.ops[random() % family.ops.size()];
    const ScalarType dtype = family.dtypes[random() % family.dtypes.size()];
    int64_t elements = 1;
    for (size_t d = 0; d < rank; ++d)
      if ((l.reduced >> d & 1) != 0) elements *= l.sizes[d];
    const bool needs_elements = !(op == ReduceOp::Sum || op == ReduceOp::Prod || op == ReduceOp::Any ||
                                  op == ReduceOp::All || op == ReduceOp::Moments || op == ReduceOp::LogSumExp);
    if (elements == 0 && needs_elements) continue;
    check(op, l, make_array(l, dtype, values_for(op, dtype, random)));
  }
}

// ---- special values --------------------------------------------------------------------------------------------------------------

TEST(GpuReduce, NanInfinityAndTies) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  Generator64 random(12);
  for (const Layout& l : {Layout{{40, 130}, 0b10}, Layout{{130, 40}, 0b01}, Layout{{200, 3}, 0b10}})
    for (ScalarType dtype : {kFloat, kDouble, kBFloat16})
      for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin,
                          ReduceOp::MaxWithIndex, ReduceOp::MinWithIndex, ReduceOp::LogSumExp}) {
        Array a = make_array(l, dtype, values_for(ReduceOp::Max, dtype, random));
        const int64_t rows = l.reduced == 0b10 ? l.sizes[0] : l.sizes[1], length = numel_of(l.sizes) / rows;
        auto set = [&](int64_t row, int64_t i, double value) {
          set_number(a, l.reduced == 0b10 ? a.at({row, i}) : a.at({i, row}), value);
        };
        set(0, length / 2, nan);                  // one NaN
        set(1, 0, nan), set(1, length - 1, nan);  // the first of two
        for (int64_t i = 0; i < length; ++i) {
          set(2, i, -inf);  // nothing but -inf
          if (op != ReduceOp::Sum) set(rows - 1, i, inf);
        }
        if (op != ReduceOp::Sum) set(3 % rows, 1, inf), set(3 % rows, length - 1, -inf);
        check(op, l, a);
      }
}

TEST(GpuReduce, Empty) {
  // Nothing to reduce: each result is what the CPU gives, the state over no element.
  const Layout l{{5, 0, 3}, 0b010};
  Array none{kFloat, {}, {0, 0, 1}, 0};
  auto result = [&](ReduceOp op, auto sample) {
    Program program;
    program.store(program.reduce(op, program.load(kFloat)), kFloat);
    const auto bytes = run_on_gpu(program, l, {&none}, {})[0];
    std::vector<decltype(sample)> values(15);
    std::memcpy(values.data(), bytes.data(), bytes.size());
    for (auto v : values) EXPECT_TRUE(v == values[0] || v != v);
    return values[0];
  };
  EXPECT_EQ(result(ReduceOp::Sum, 0.0f), 0.0f);
  EXPECT_FALSE(std::signbit(result(ReduceOp::Sum, 0.0f)));
  EXPECT_EQ(result(ReduceOp::Prod, 0.0f), 1.0f);
  EXPECT_EQ(result(ReduceOp::Max, 0.0f), -std::numeric_limits<float>::infinity());
  EXPECT_EQ(result(ReduceOp::Min, 0.0f), std::numeric_limits<float>::infinity());
  EXPECT_EQ(result(ReduceOp::LogSumExp, 0.0f), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(result(ReduceOp::Moments, 0.0f)));
  // No results: nothing is written, nothing is launched.
  Program program;
  program.store(program.reduce(ReduceOp::Sum, program.load(kFloat)), kFloat);
  EXPECT_TRUE(run_on_gpu(program, {{0, 4}, 0b10}, {&none}, {})[0].empty());
}

// As on the CPU: a sum is -0 where all its terms are, whoever adds them.
TEST(GpuReduce, SumsOfZerosKeepTheirSign) {
  Generator64 random(15);
  for (const Layout& l :
       {Layout{{37, 96}, 0b10}, Layout{{5, 101}, 0b10, {}, {}, 1}, Layout{{700, 3}, 0b10}, Layout{{64, 48}, 0b01},
        Layout{{48, 64}, 0b10, {1, 0}}, Layout{{900, 3}, 0b01}, Layout{{2, 70001}, 0b10}, Layout{{40000, 5}, 0b01}})
    for (ScalarType dtype : {kFloat, kDouble, kBFloat16, kHalf}) {
      SCOPED_TRACE(str(toString(dtype), ", ", text_of(l)));
      Array x = make_array(l, dtype, [] { return -0.0; });
      const bool rows = l.reduced == 0b10;
      const int64_t results = l.sizes[rows ? 0 : 1], terms = l.sizes[rows ? 1 : 0];
      std::vector<bool> negative(static_cast<size_t>(results), true);
      for (int64_t r = 0; r < results; ++r) {
        if (random() % 2 != 0) continue;
        const int64_t term = static_cast<int64_t>(random() % static_cast<uint64_t>(terms));
        set_number(x, x.at(rows ? std::vector{r, term} : std::vector{term, r}), 0.0);
        negative[static_cast<size_t>(r)] = false;
      }
      Program program;
      program.store(program.reduce(ReduceOp::Sum, program.load(dtype)), kDouble);
      const auto bytes = run_on_gpu(program, l, {&x}, {})[0];
      std::vector<double> sums(bytes.size() / sizeof(double));
      std::memcpy(sums.data(), bytes.data(), bytes.size());
      ASSERT_EQ(sums.size(), negative.size());
      for (size_t r = 0; r < sums.size(); ++r) {
        ASSERT_EQ(sums[r], 0.0);
        ASSERT_EQ(std::signbit(sums[r]), negative[r]) << "result " << r;
      }
    }
}

// A mean far from zero costs the second moment nothing.
TEST(GpuReduce, MomentsFarFromZero) {
  Generator64 random(13);
  for (double mean : {1e3, 1e5, 1e6})
    for (const Layout& l : {Layout{{3, 5000}, 0b10}, Layout{{5000, 8}, 0b01}})
      check(ReduceOp::Moments, l, make_array(l, kFloat, [&] {
              return mean + static_cast<double>(static_cast<float>(static_cast<double>(random() >> 11) * 0x1p-53 * 8));
            }));
}

// A sum of many numbers that a running sum would get wrong in the fourth digit.
TEST(GpuReduce, SumsArePairwise) {
  const Layout rows{{1, 1 << 19}, 0b10}, columns{{1 << 17, 4}, 0b01};
  for (const Layout& l : {rows, columns}) check(ReduceOp::Sum, l, make_array(l, kFloat, [] { return 0.1; }));
}

// ---- programs --------------------------------------------------------------------------------------------------------------------

// sqrt(sum(x * y) / count) and its double, for loads of different dtypes and strides: prologue, parameters, epilogue, two stores.
TEST(GpuReduce, PrologueAndEpilogue) {
  Generator64 random(14);
  for (const auto& [sizes, reduced] : {std::pair<std::vector<int64_t>, uint64_t>{{24, 40}, 0b10},
                                       {{40, 24}, 0b01},
                                       {{6, 8, 10, 4}, 0b1010},
                                       {{33, 7, 5}, 0b110}})
    for (int variant = 0; variant < 4; ++variant) {
      Layout l{sizes, reduced};
      Layout other = l;
      if (variant == 1) std::iota(other.order.begin(), other.order.end(), 0), other.order = {};
      if (variant == 2) {
        for (size_t d = sizes.size(); d-- > 0;) other.order.push_back(d);
      }
      if (variant == 3) other.steps.assign(sizes.size(), 1), other.steps.back() = 0;
      l.shift = variant;
      SCOPED_TRACE(str(text_of(l), "; ", text_of(other)));
      auto positive = [&] { return 0.5 + static_cast<double>(random() % 1000) * 1e-3; };
      const Array x = make_array(l, kFloat, positive), y = make_array(other, kBFloat16, positive);
      Program p;
      const Value a = p.load(kFloat), b = p.load(kBFloat16), count = p.param(CType::F32);
      const Value root =
          p.apply(ScalarOp::sqrt, p.apply(ScalarOp::div, p.reduce(ReduceOp::Sum, p.apply(ScalarOp::mul, a, b)), count));
      p.store(root, kFloat);
      p.store(p.apply(ScalarOp::add, root, root), kDouble);
      ParamValue param;
      param.f32 = 12.5f;
      const auto results = run_on_gpu(p, l, {&x, &y}, {param});
      const Array first{kFloat, results[0], store_strides(l), 0}, second{kDouble, results[1], store_strides(l), 0};
      for_each(l.sizes, ~l.reduced, [&](const std::vector<int64_t>& index) {
        double sum = 0;
        for_each(l.sizes, l.reduced, [&](std::vector<int64_t> inner) {
          for (size_t d = 0; d < inner.size(); ++d)
            if ((l.reduced >> d & 1) == 0) inner[d] = index[d];
          sum += number_at(x, x.at(inner)) * number_at(y, y.at(inner));
        });
        const double wanted = std::sqrt(sum / 12.5);
        EXPECT_NEAR(number_at(first, first.at(index)), wanted, 2e-6 * wanted);
        EXPECT_EQ(number_at(second, second.at(index)), 2 * number_at(first, first.at(index)));
      });
    }
}

TEST(GpuReduce, Complex) {
  Generator64 random(15);
  const int64_t rows = 9, length = 77;
  for (bool columns : {false, true})
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod}) {
      std::vector<std::complex<float>> x(static_cast<size_t>(rows * length));
      for (auto& v : x) {
        const double angle = static_cast<double>(random() % 6283) * 1e-3;
        v = {static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))};
      }
      Array a{kComplexFloat, std::vector<char>(x.size() * 8),
              columns ? std::vector<int64_t>{1, rows} : std::vector<int64_t>{length, 1}, 0};
      std::memcpy(a.bytes.data(), x.data(), a.bytes.size());
      Program p;
      p.store(p.reduce(op, p.load(kComplexFloat)), kComplexDouble);
      const auto bytes = run_on_gpu(p, {{rows, length}, 0b10}, {&a}, {})[0];
      for (int64_t r = 0; r < rows; ++r) {
        std::complex<double> wanted = op == ReduceOp::Sum ? 0.0 : 1.0, got;
        for (int64_t i = 0; i < length; ++i) {
          const std::complex<double> v = x[static_cast<size_t>(r * a.strides[0] + i * a.strides[1])];
          wanted = op == ReduceOp::Sum ? wanted + v : wanted * v;
        }
        std::memcpy(&got, &bytes[static_cast<size_t>(r) * 16], 16);
        EXPECT_LT(std::abs(got - wanted), 2e-5) << r;
      }
    }
}

// Runs, and numbers of threads or blocks at work, change no bit.
TEST(GpuReduce, EveryRunGivesTheSameBits) {
  Generator64 random(16);
  const Layout l{{3, 40000}, 0b10};
  const Array a = make_array(l, kFloat, values_for(ReduceOp::Sum, kFloat, random));
  Program p;
  p.store(p.reduce(ReduceOp::Sum, p.load(kFloat)), kFloat);
  const auto first = run_on_gpu(p, l, {&a}, {})[0];
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first, run_on_gpu(p, l, {&a}, {})[0]);
}

// Positions and offsets beyond 32 bits. Needs memory that the software GPU does not have.
TEST(GpuReduce, MoreElementsThanInt32Counts) {
  constexpr int64_t kRows = 3, kLength = (int64_t{1} << 30) + 5, kCount = kRows * kLength;
  if (gpu::properties(0).total_memory < uint64_t{8} << 30) GTEST_SKIP() << "the device has too little memory";
  const gpu::Allocation memory = gpu::allocate(0, static_cast<size_t>(kCount), "test");
  auto* bytes = static_cast<char*>(memory.data);
  gpu::fill_bytes(bytes, 1, static_cast<size_t>(kCount), {"test", 0});
  const uint8_t two = 2;
  gpu::copy_to_device(bytes + kCount - 3, &two, 1, true, {"test", 0});
  auto run = [&](ReduceOp op, std::vector<int64_t> sizes, std::vector<int64_t> strides, uint64_t reduced,
                 int64_t results) {
    Program p;
    Value v = p.load(kByte);
    if (op == ReduceOp::Sum) v = p.cast(v, CType::I64);
    p.store(p.reduce(op, v), kLong);
    std::vector<int64_t> out(static_cast<size_t>(results), -1), out_strides(sizes.size(), 1);
    const DeviceMemory target(out.data(), out.size() * 8);
    const ArrayArg load{bytes, strides.data()}, store{target.data(), out_strides.data()};
    gpu::GpuProgram(p).run_reduction(sizes, reduced, {&load, 1}, {}, {&store, 1}, {"test", 0});
    const std::vector<char> got = target.bytes();
    std::memcpy(out.data(), got.data(), got.size());
    return out;
  };
  using Longs = std::vector<int64_t>;
  EXPECT_EQ(run(ReduceOp::Sum, {kCount}, {1}, 1, 1), Longs{kCount + 1});
  EXPECT_EQ(run(ReduceOp::ArgMax, {kCount}, {1}, 1, 1), Longs{kCount - 3});
  EXPECT_EQ(run(ReduceOp::Sum, {kRows, kLength}, {kLength, 1}, 0b10, kRows), (Longs{kLength, kLength, kLength + 1}));
  EXPECT_EQ(run(ReduceOp::ArgMax, {kRows, kLength}, {kLength, 1}, 0b10, kRows), (Longs{0, 0, kLength - 3}));
  EXPECT_EQ(run(ReduceOp::Sum, {kLength, kRows}, {kRows, 1}, 0b01, kRows), (Longs{kLength + 1, kLength, kLength}));
  EXPECT_EQ(run(ReduceOp::ArgMax, {kLength, kRows}, {kRows, 1}, 0b01, kRows), (Longs{kLength - 1, 0, 0}));
  gpu::free(memory.block);
}

// More kept dims than a kernel takes.
TEST(GpuReduce, ManyDims) {
  Layout l;
  for (size_t d = 0; d < 12; ++d) {
    l.sizes.push_back(2);
    l.steps.push_back(d % 2 ? 1 : 2);
  }
  l.reduced = 0b010000000001;
  Generator64 random(17);
  check(ReduceOp::Sum, l, make_array(l, kFloat, values_for(ReduceOp::Sum, kFloat, random)));
  check(ReduceOp::ArgMax, l, make_array(l, kInt, values_for(ReduceOp::ArgMax, kInt, random)));
}

}  // namespace
}  // namespace facula::testing
