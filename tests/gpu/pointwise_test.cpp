// Pointwise programs on the GPU against the CPU: every scalar operation, every conversion, every kind of layout.
#include "gpu/program/copy.h"
#include "gpu/device_run.h"
#include "gpu/program/layout.h"
#include "gpu/random_layout.h"
#include "gpu/runtime.h"

#include "cpu/convert.h"

#include <facula/core/error.h>

#include <array>
#include <cstdlib>

namespace facula::testing {
namespace {

constexpr ScalarType kAllTypes[] = {kByte,     kChar,        kShort,         kInt,          kLong,          kHalf,
                                    kFloat,    kDouble,      kComplexHalf,   kComplexFloat, kComplexDouble, kBool,
                                    kBFloat16, kFloat8_e5m2, kFloat8_e4m3fn, kUInt16,       kUInt32,        kUInt64};

TestArray contiguous(ScalarType dtype, std::vector<char> bytes, int64_t first = 0) {
  TestArray a;
  a.dtype = dtype;
  a.bytes = std::move(bytes);
  a.first = first;
  a.strides = {1};
  return a;
}

// ---- operations ----------------------------------------------------------------------------------------------------------------------

// What two good implementations may differ by, in steps of the type: polynomials and libraries differ in the last bits, special
// functions in a few more.
double tolerance_of(ScalarOp op, CType type) {
  const bool is_float = (ctype_bit(type) & (kLanesFloat | kLanesComplex)) != 0;
  if (!is_float) return 0;
  const double step = type == CType::F32 || type == CType::C64 ? 1.2e-7 : 2.3e-16;
  const bool is_complex = (ctype_bit(type) & kLanesComplex) != 0;
  if (op < ScalarOp::exp && !is_complex) return op == ScalarOp::lerp ? 4 * step : 0;
  if (op >= ScalarOp::erf) return 400 * step;
  return (is_complex ? 200 : 40) * step;
}

class EveryOp : public ::testing::TestWithParam<CType> {};

// All operations of a compute type, some to a program: each has a store of its own.
TEST_P(EveryOp, AgreesWithTheCpu) {
  const CType type = GetParam();
  const ScalarType dtype = dtype_of(type);
  constexpr int64_t kCount = 1531;  // not a multiple of any pack
  Values random(test_seed() + static_cast<uint64_t>(type));
  std::vector<TestArray> loads = {
      contiguous(dtype, random.fill(dtype, kCount)), contiguous(dtype, random.fill(dtype, kCount)),
      contiguous(dtype, random.fill(dtype, kCount)), contiguous(kBool, random.fill(kBool, kCount))};
  std::vector<ScalarOp> ops;
  for (size_t k = 0; k < kScalarOpCount; ++k)
    if (kScalarOps[k].exists_for(type)) ops.push_back(static_cast<ScalarOp>(k));
  bool faulted = false;
  constexpr size_t kTogether = 16;
  for (size_t begin = 0; begin < ops.size(); begin += kTogether) {
    const size_t end = std::min(ops.size(), begin + kTogether);
    Program p;
    const Value a = p.load(dtype), b = p.load(dtype), c = p.load(dtype), condition = p.load(kBool);
    std::vector<TestArray> stores;
    for (size_t k = begin; k < end; ++k) {
      const ScalarOpInfo& i = info(ops[k]);
      const bool orders = ops[k] == ScalarOp::polygamma;  // takes small whole numbers
      const Value second = orders ? p.apply(ScalarOp::abs, p.apply(ScalarOp::trunc, b)) : b;
      const Value r = i.arity == 1                ? p.apply(ops[k], a)
                      : i.arity == 2              ? p.apply(ops[k], a, second)
                      : ops[k] == ScalarOp::where ? p.apply(ops[k], condition, a, b)
                                                  : p.apply(ops[k], a, b, c);
      const ScalarType out = dtype_of(r.type);
      p.store(r, out);
      stores.push_back(contiguous(out, std::vector<char>(kCount * elementSize(out), 0x55)));
    }
    const RunResult result = run_both(p, {kCount}, loads, {}, stores);
    faulted |= result.faulted;
    for (size_t k = begin; k < end; ++k)
      EXPECT_TRUE(same_buffers(result.gpu[k - begin], result.cpu[k - begin], stores[k - begin].dtype,
                               tolerance_of(ops[k], type)))
          << info(ops[k]).name << "." << name_of(type) << ", " << seed_text();
  }
  // Zero divisors were among the integers.
  EXPECT_EQ(faulted, (ctype_bit(type) & kLanesInt) != 0);
}
INSTANTIATE_TEST_SUITE_P(Types, EveryOp,
                         ::testing::Values(CType::F32, CType::F64, CType::I32, CType::I64, CType::U64, CType::B8,
                                           CType::C64, CType::C128),
                         [](const auto& i) { return std::string(name_of(i.param)); });

TEST(GpuProgram, ReportsADivisionByZeroOnceAndGivesZero) {
  Program p;
  const Value a = p.load(kInt), b = p.load(kInt);
  p.store(p.apply(ScalarOp::div_floor, a, b), kInt);
  const int32_t x[] = {7, 8, 9}, y[] = {2, 0, -2};
  std::vector<char> xs(12), ys(12);
  std::memcpy(xs.data(), x, 12);
  std::memcpy(ys.data(), y, 12);
  const RunResult result =
      run_both(p, {3}, {contiguous(kInt, xs), contiguous(kInt, ys)}, {}, {contiguous(kInt, std::vector<char>(12, 1))});
  int32_t out[3];
  std::memcpy(out, result.gpu[0].data(), 12);
  EXPECT_EQ(out[0], 3);
  EXPECT_EQ(out[1], 0);
  EXPECT_EQ(out[2], -5);
  EXPECT_TRUE(result.faulted);
  EXPECT_NO_THROW(gpu::synchronize_device(0));
}

// ---- conversions ---------------------------------------------------------------------------------------------------------------------

// All values of a dtype of up to 16 bits; edges and random bits of the wider ones.
std::vector<char> telling_values(ScalarType dtype, Values& random) {
  const size_t width = elementSize(dtype);
  std::vector<char> out;
  auto add = [&](uint64_t low, uint64_t high = 0) {
    char bytes[16];
    std::memcpy(bytes, &low, 8);
    std::memcpy(bytes + 8, &high, 8);
    out.insert(out.end(), bytes, bytes + width);
  };
  if (dtype == kBool) {
    for (uint64_t k = 0; k < 200; ++k) add(k % 2);
    return out;
  }
  if (width <= 2) {
    for (uint64_t k = 0; k < uint64_t{1} << (8 * width); ++k) add(k);
    return out;
  }
  if (dtype == kFloat || dtype == kDouble || isComplexType(dtype)) {
    const ScalarType part = toRealValueType(dtype);
    std::vector<double> edges;
    // Around the ends of every integer and narrow float, and their halves, where rounding turns.
    for (double e : {0.0,
                     1.0,
                     128.0,
                     255.0,
                     448.0,
                     464.0,
                     480.0,
                     57344.0,
                     61440.0,
                     65504.0,
                     65520.0,
                     65536.0,
                     2147483648.0,
                     4294967296.0,
                     9223372036854775808.0,
                     18446744073709551616.0,
                     1e30,
                     3.4e38,
                     1e-7,
                     5.96e-8,
                     2.98e-8,
                     1.5e-5,
                     7.6e-6,
                     1.95e-3,
                     9.8e-4,
                     1.2e-38,
                     1e-40,
                     0.5,
                     1.5,
                     2.5})
      for (double f : {1.0, 1.0 - 6e-8, 1.0 + 6e-8, 1.0 - 1e-3, 1.0 + 1e-3, 1.00390625, 1.01171875, 1.0 + 1e-12})
        edges.insert(edges.end(), {e * f, -e * f});
    edges.insert(edges.end(), {INFINITY, -INFINITY, NAN, -NAN});
    std::vector<uint64_t> bits;
    for (double e : edges) {
      uint64_t u = 0;
      if (part == kDouble) {
        std::memcpy(&u, &e, 8);
      } else {
        const auto f = static_cast<float>(e);
        std::memcpy(&u, &f, 4);
        if (part == kHalf) u = Half(static_cast<float>(e)).x;
      }
      bits.push_back(u);
    }
    for (int k = 0; k < 2000; ++k) bits.push_back(random.bits());
    const size_t part_bits = 8 * elementSize(part);
    const uint64_t mask = part_bits == 64 ? ~uint64_t{0} : (uint64_t{1} << part_bits) - 1;
    for (uint64_t u : bits) {
      const uint64_t other = bits[static_cast<size_t>(random.below(static_cast<int64_t>(bits.size())))] & mask;
      if (!isComplexType(dtype)) add(u & mask);
      else if (part == kDouble) add(u, other);
      else add((u & mask) | other << part_bits);
    }
    return out;
  }
  for (int shift = 0; shift < 64; ++shift)
    for (uint64_t near : {0ull, 1ull, ~0ull}) add((uint64_t{1} << shift) + near), add(~(uint64_t{1} << shift) + near);
  for (int k = 0; k < 2000; ++k) add(random.bits() >> random.below(64));
  return out;
}

class EveryConversion : public ::testing::TestWithParam<ScalarType> {};

TEST_P(EveryConversion, HasTheBitsOfTheCpu) {
  const ScalarType from = GetParam();
  Values random(test_seed() + 100 + static_cast<uint64_t>(from));
  std::vector<char> values = telling_values(from, random);
  const auto count = static_cast<int64_t>(values.size() / elementSize(from));
  Program p;
  const Value v = p.load(from);
  std::vector<TestArray> stores;
  for (ScalarType to : kAllTypes) {
    p.store(v, to);
    stores.push_back(contiguous(to, std::vector<char>(static_cast<size_t>(count) * elementSize(to), 0x55)));
  }
  const RunResult result = run_both(p, {count}, {contiguous(from, values)}, {}, stores);
  for (size_t k = 0; k < stores.size(); ++k)
    EXPECT_TRUE(same_buffers(result.gpu[k], result.cpu[k], stores[k].dtype, 0))
        << dtype_name(from) << " to " << dtype_name(stores[k].dtype) << ", " << seed_text();
}
INSTANTIATE_TEST_SUITE_P(Types, EveryConversion, ::testing::ValuesIn(kAllTypes),
                         [](const auto& i) { return std::string(dtype_name(i.param)); });

// Casts between all pairs of compute types.
TEST(GpuProgram, CastsBetweenComputeTypesAsTheCpu) {
  Values random(test_seed() + 200);
  for (size_t from = 0; from < kCTypeCount; ++from) {
    const ScalarType dtype = dtype_of(static_cast<CType>(from));
    std::vector<char> values = telling_values(dtype, random);
    const auto count = static_cast<int64_t>(values.size() / elementSize(dtype));
    Program p;
    const Value v = p.load(dtype);
    std::vector<TestArray> stores;
    for (size_t to = 0; to < kCTypeCount; ++to) {
      const ScalarType out = dtype_of(static_cast<CType>(to));
      p.store(p.cast(v, static_cast<CType>(to)), out);
      stores.push_back(contiguous(out, std::vector<char>(static_cast<size_t>(count) * elementSize(out), 0x55)));
    }
    const RunResult result = run_both(p, {count}, {contiguous(dtype, values)}, {}, stores);
    for (size_t to = 0; to < kCTypeCount; ++to)
      EXPECT_TRUE(same_buffers(result.gpu[to], result.cpu[to], stores[to].dtype, 0))
          << name_of(static_cast<CType>(from)) << " to " << name_of(static_cast<CType>(to));
  }
}

// ---- layouts -------------------------------------------------------------------------------------------------------------------------

struct LayoutCase {
  const char* name;
  Program program;
};

Program add_floats() {
  Program p;
  const Value a = p.load(kFloat), b = p.load(kFloat);
  p.store(p.apply(ScalarOp::add, a, b), kFloat);
  return p;
}
Program mixed_types() {
  Program p;
  const Value a = p.load(kBFloat16), c = p.load(kBool), b = p.load(kFloat);
  const Value x = p.param(CType::F32);
  const Value r = p.apply(ScalarOp::where, c, p.apply(ScalarOp::mul, a, x), b);
  p.store(r, kHalf);
  p.store(p.cast(a, CType::I32), kChar);
  return p;
}
Program copy_of(ScalarType dtype) {
  Program p;
  p.store(p.load(dtype), dtype);
  return p;
}

void check_layouts(const Program& p, const LayoutStyle& style, int draws, uint64_t salt) {
  for (int draw = 0; draw < draws; ++draw) {
    const uint64_t seed = test_seed() + salt * 1000003 + static_cast<uint64_t>(draw);
    Values random(seed);
    const std::vector<int64_t> sizes = random_sizes(random, style);
    std::vector<TestArray> loads, stores;
    for (ScalarType t : p.loads()) loads.push_back(random_array(random, t, sizes, true));
    for (const Program::Store& s : p.stores()) stores.push_back(random_array(random, s.dtype, sizes, false));
    std::vector<ParamValue> params(p.params().size());
    for (ParamValue& v : params) v.f32 = 1.75f;
    const RunResult result = run_both(p, sizes, loads, params, stores);
    std::vector<TestArray> all = loads;
    all.insert(all.end(), stores.begin(), stores.end());
    for (size_t k = 0; k < stores.size(); ++k)
      ASSERT_TRUE(same_buffers(result.gpu[k], result.cpu[k], stores[k].dtype, 0))
          << "draw " << draw << ", " << layout_text(sizes, all) << ", " << seed_text();
  }
}

// Every new kind of layout is a kernel to compile; more draws on demand.
int draws(int usual) {
  const char* given = std::getenv("FACULA_TEST_DRAWS");
  return given ? std::atoi(given) : usual;
}

TEST(GpuLayouts, RandomShapesOfAnAddition) { check_layouts(add_floats(), {}, draws(25), 1); }
TEST(GpuLayouts, RandomShapesOfMixedTypes) { check_layouts(mixed_types(), {}, draws(15), 2); }
TEST(GpuLayouts, ManyDims) {
  LayoutStyle style;
  style.max_rank = 15;
  check_layouts(copy_of(kShort), style, draws(8), 3);
}
TEST(GpuLayouts, TilesOfEveryWidth) {
  LayoutStyle style;
  style.max_rank = 3;
  style.max_elements = 20000;
  style.large_inner = true;
  uint64_t salt = 10;
  for (ScalarType t : {kChar, kShort, kInt, kLong, kComplexDouble}) check_layouts(copy_of(t), style, draws(5), ++salt);
}

// A transposition as it comes up most: whole tiles and parts of tiles, aligned and not.
TEST(GpuLayouts, Transpositions) {
  Values random(test_seed() + 300);
  for (ScalarType t : {kByte, kBFloat16, kFloat, kDouble, kComplexDouble})
    for (auto [rows, columns] : {std::pair<int64_t, int64_t>{128, 192}, {130, 70}, {77, 201}, {64, 132}}) {
      const std::vector<int64_t> sizes = {2, rows, columns};
      TestArray from = contiguous(t, random.fill(t, 2 * rows * columns)),
                to = contiguous(t, std::vector<char>(static_cast<size_t>(2 * rows * columns) * elementSize(t), 0x11));
      from.strides = {rows * columns, 1, rows};
      to.strides = {rows * columns, columns, 1};
      const RunResult result = run_both(copy_of(t), sizes, {from}, {}, {to});
      EXPECT_TRUE(same_buffers(result.gpu[0], result.cpu[0], t, 0)) << dtype_name(t) << " " << rows << " x " << columns;
    }
}

// One load turned, one that repeats along the tile, one that jumps, stores of two widths.
TEST(GpuLayouts, TurnedLoadsBesideOthers) {
  Program p;
  const Value a = p.load(kFloat), b = p.load(kBFloat16), c = p.load(kFloat), d = p.load(kHalf);
  const Value r = p.apply(ScalarOp::add, p.apply(ScalarOp::mul, a, b), p.apply(ScalarOp::sub, c, d));
  p.store(r, kFloat);
  p.store(r, kBFloat16);
  Values random(test_seed() + 301);
  const std::vector<int64_t> sizes = {96, 160};
  auto array = [&](ScalarType t, std::vector<int64_t> strides, int64_t count) {
    TestArray x = contiguous(t, random.fill(t, count));
    x.strides = std::move(strides);
    return x;
  };
  const RunResult result = run_both(p, sizes,
                                    {array(kFloat, {1, 96}, 96 * 160), array(kBFloat16, {1, 96}, 96 * 160),
                                     array(kFloat, {0, 1}, 160), array(kHalf, {320, 2}, 96 * 320)},
                                    {}, {array(kFloat, {160, 1}, 96 * 160), array(kBFloat16, {160, 1}, 96 * 160)});
  EXPECT_TRUE(same_buffers(result.gpu[0], result.cpu[0], kFloat, 0));
  EXPECT_TRUE(same_buffers(result.gpu[1], result.cpu[1], kBFloat16, 0));
}

TEST(GpuLayouts, InPlace) {
  Program p;
  p.store(p.apply(ScalarOp::square, p.load(kFloat)), kFloat);
  Values random(test_seed() + 302);
  const std::vector<char> bytes = random.fill(kFloat, 30 * 50);
  std::vector<char> host = bytes;
  const int64_t strides[] = {1, 30};
  const ArrayArg cpu_array{host.data(), strides};
  CpuProgram(p).run({30, 50}, {&cpu_array, 1}, {}, {&cpu_array, 1});
  DeviceBuffer device(bytes);
  const ArrayArg gpu_array{device.data(), strides};
  gpu::GpuProgram(p).run({30, 50}, {&gpu_array, 1}, {}, {&gpu_array, 1}, {"test", 0});
  EXPECT_TRUE(same_buffers(device.read(), host, kFloat, 0));
}

TEST(GpuLayouts, TooManyArraysAreRefused) {
  Program p;
  const Value v = p.load(kFloat);
  for (int k = 0; k < 32; ++k) p.store(v, kFloat);
  EXPECT_THROW(gpu::GpuProgram{p}, NotSupportedError);
}

TEST(GpuLayouts, DividersDivide) {
  Values random(test_seed() + 303);
  for (int k = 0; k < 20000; ++k) {
    const auto d = static_cast<uint32_t>(k < 3000 ? k + 1 : (random.bits() >> (33 + random.below(30))) + 1);
    const auto n = static_cast<uint32_t>(random.bits() >> (33 + random.below(20)));
    const gpu::Divider32 m = gpu::divider32(d);
    for (uint32_t x : {n, n / d * d, n / d * d + (d - 1), 0x7fffffffu}) {
      if (x > 0x7fffffffu) continue;
      const auto high = static_cast<uint32_t>((uint64_t{x} * m.magic) >> 32);
      ASSERT_EQ((high + x) >> m.shift, x / d) << x << " / " << d;
    }
    const uint64_t d64 = (random.bits() >> (1 + random.below(62))) + 1, n64 = random.bits() >> (1 + random.below(40));
    const gpu::Divider64 w = gpu::divider64(d64);
    const auto high = static_cast<uint64_t>((static_cast<unsigned __int128>(n64) * w.magic) >> 64);
    ASSERT_EQ((high + n64) >> w.shift, n64 / d64) << n64 << " / " << d64;
  }
}

// What the collapsed space names is what the given one names, element by element.
TEST(GpuLayouts, CollapsingKeepsEveryElement) {
  Program p = add_floats();
  LayoutStyle style;
  style.max_rank = 8;
  style.max_elements = 2000;
  for (int draw = 0; draw < 300; ++draw) {
    Values random(test_seed() + 400 + static_cast<uint64_t>(draw));
    const std::vector<int64_t> sizes = random_sizes(random, style);
    std::vector<TestArray> arrays;
    for (int a = 0; a < 3; ++a) arrays.push_back(random_array(random, kFloat, sizes, a < 2));
    std::vector<ArrayArg> args;
    for (TestArray& a : arrays) args.push_back({a.bytes.data() + 4 * a.first, a.strides.data()});
    gpu::Space space;
    gpu::build_space(space, p, sizes, {args.data(), 2}, {args.data() + 2, 1});
    auto offsets = [](auto sizes_at, auto stride_at, size_t dims, int64_t count) {
      std::vector<std::array<int64_t, 3>> out;
      for (int64_t i = 0; i < count; ++i) {
        std::array<int64_t, 3> sum{};
        int64_t rest = i;
        for (size_t d = 0; d < dims; ++d) {
          for (size_t a = 0; a < 3; ++a) sum[a] += rest % sizes_at(d) * stride_at(a, d);
          rest /= sizes_at(d);
        }
        out.push_back(sum);
      }
      std::sort(out.begin(), out.end());
      return out;
    };
    int64_t count = 1;
    for (int64_t n : sizes) count *= n;
    ASSERT_EQ(space.count, count);
    if (count == 0) continue;
    const auto given = offsets([&](size_t d) { return sizes[d]; },
                               [&](size_t a, size_t d) { return arrays[a].strides[d]; }, sizes.size(), count);
    const auto made =
        offsets([&](size_t d) { return space.sizes[d]; },
                [&](size_t a, size_t d) { return space.sizes[d] == 1 ? 0 : space.strides[a][d]; }, space.dims, count);
    ASSERT_EQ(given, made) << layout_text(sizes, arrays) << ", " << seed_text();
  }
}

// ---- copies, fills, sequences --------------------------------------------------------------------------------------------------------

TEST(GpuCopy, MovesBitsOfEveryDtypeAndLayout) {
  LayoutStyle style;
  style.max_rank = 4;
  for (int draw = 0; draw < draws(30); ++draw) {
    Values random(test_seed() + 500 + static_cast<uint64_t>(draw));
    const ScalarType t = kAllTypes[random.below(std::size(kAllTypes))];
    std::vector<int64_t> sizes = random_sizes(random, style);
    TestArray from = random_array(random, t, sizes, true), to = random_array(random, t, sizes, false);
    for (char& byte : from.bytes) byte = static_cast<char>(random.bits());
    std::vector<char> expected = to.bytes;
    const size_t width = elementSize(t);
    int64_t count = 1;
    for (int64_t n : sizes) count *= n;
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, source = from.first, target = to.first;
      for (size_t d = 0; d < sizes.size(); ++d) {
        source += rest % sizes[d] * from.strides[d];
        target += rest % sizes[d] * to.strides[d];
        rest /= sizes[d];
      }
      std::memcpy(expected.data() + static_cast<size_t>(target) * width,
                  from.bytes.data() + static_cast<size_t>(source) * width, width);
    }
    DeviceBuffer a(from.bytes), b(to.bytes);
    gpu::copy_strided(b.data() + static_cast<size_t>(to.first) * width, to.strides.data(), t,
                      a.data() + static_cast<size_t>(from.first) * width, from.strides.data(), t, sizes, {"test", 0});
    ASSERT_EQ(b.read(), expected) << layout_text(sizes, {from, to}) << ", " << seed_text();
  }
}

TEST(GpuCopy, InnermostDimOfFewBytesMovesAsOneElement) {
  // Pixels of four bytes, transposed.
  const int64_t sizes[] = {90, 70, 4}, to_strides[] = {280, 4, 1}, from_strides[] = {4, 360, 1};
  Values random(test_seed() + 600);
  std::vector<char> bytes = random.fill(kByte, 90 * 70 * 4), expected(bytes.size());
  for (size_t i = 0; i < 90; ++i)
    for (size_t j = 0; j < 70; ++j) std::memcpy(&expected[i * 280 + j * 4], &bytes[i * 4 + j * 360], 4);
  DeviceBuffer from(bytes), to(std::vector<char>(bytes.size(), 0));
  gpu::copy_strided(to.data(), to_strides, kByte, from.data(), from_strides, kByte, sizes, {"test", 0});
  EXPECT_EQ(to.read(), expected);
}

TEST(GpuCopy, ConvertsWhileItMoves) {
  const int64_t sizes[] = {33, 70}, to_strides[] = {70, 1}, from_strides[] = {1, 33};
  Values random(test_seed() + 601);
  const std::vector<char> values = random.fill(kComplexFloat, 33 * 70);
  std::vector<char> expected(33 * 70 * 2);
  for (size_t i = 0; i < 33; ++i)
    for (size_t j = 0; j < 70; ++j)
      cast_store_fn(CType::C64, kHalf)(values.data() + (i + 33 * j) * 8, expected.data() + (i * 70 + j) * 2, 1);
  DeviceBuffer from(values), to(std::vector<char>(expected.size(), 0));
  gpu::copy_strided(to.data(), to_strides, kHalf, from.data(), from_strides, kComplexFloat, sizes, {"test", 0});
  EXPECT_TRUE(same_buffers(to.read(), expected, kHalf, 0));
}

TEST(GpuCopy, Fills) {
  Values random(test_seed() + 700);
  for (ScalarType t : kAllTypes)
    for (bool strided : {false, true}) {
      if (strided && elementSize(t) != 4) continue;
      const size_t width = elementSize(t);
      const int64_t sizes[] = {13, 21}, strides[] = {strided ? 45 : 21, strided ? 2 : 1};
      std::vector<char> element = random.fill(t, 1), before = random.fill(t, 13 * 45 + 3), expected = before;
      const size_t first = strided ? 3 : 0;
      for (int64_t i = 0; i < 13; ++i)
        for (int64_t j = 0; j < 21; ++j)
          std::memcpy(&expected[(first + static_cast<size_t>(i * strides[0] + j * strides[1])) * width], element.data(),
                      width);
      DeviceBuffer to(before);
      gpu::fill_strided(to.data() + first * width, strides, t, sizes, element.data(), {"test", 0});
      EXPECT_EQ(to.read(), expected) << dtype_name(t) << (strided ? " strided" : "");
    }
}

TEST(GpuCopy, SequencesHaveTheBitsOfTheCpu) {
  constexpr int64_t kCount = 1003;
  for (ScalarType t : kAllTypes) {
    if (t == kBool) continue;
    const size_t width = elementSize(t);
    std::vector<char> expected(kCount * width);
    const double base = -17.3, step = 0.37;
    const int64_t anchor = 5;
    for (int64_t i = 0; i < kCount; ++i) {
      const double x = base + step * static_cast<double>(i - anchor);
      cast_store_fn(CType::F64, t)(&x, expected.data() + static_cast<size_t>(i) * width, 1);
    }
    for (size_t first : {size_t{0}, size_t{1}}) {
      DeviceBuffer to(std::vector<char>((kCount + 1) * width, 0));
      gpu::fill_affine(to.data() + first * width, t, kCount, base, step, anchor, {"test", 0});
      const std::vector<char> got = to.read();
      EXPECT_TRUE(same_buffers({got.begin() + static_cast<long>(first * width),
                                got.begin() + static_cast<long>(first * width + expected.size())},
                               expected, t, 0))
          << dtype_name(t);
    }
    if (!isIntegralType(t)) continue;
    for (int64_t i = 0; i < kCount; ++i) {
      const uint64_t x = static_cast<uint64_t>(-3) + static_cast<uint64_t>(1) * 7919 * static_cast<uint64_t>(i);
      std::memcpy(expected.data() + static_cast<size_t>(i) * width, &x, width);
    }
    DeviceBuffer to(std::vector<char>(kCount * width, 0));
    gpu::fill_integers(to.data(), t, kCount, -3, 7919, {"test", 0});
    EXPECT_EQ(to.read(), expected) << dtype_name(t);
  }
}

}  // namespace
}  // namespace facula::testing
