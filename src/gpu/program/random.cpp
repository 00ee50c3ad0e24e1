// Which kernel of kernels/random.h fills which dtype with which distribution, and what it is told.
#include "gpu/program/random.h"

#include "core/philox.h"
#include "gpu/program/render.h"

#include <facula/core/error.h>

#include <bit>
#include <cmath>
#include <limits>
#include <mutex>

namespace facula::gpu {
namespace {

// As in kernels/random.h.
constexpr int kThreads = 256, kRepeat = 4;

// The members of RandomParams.
struct Params {
  double a = 0, b = 0, c = 0;
  float fa = 0, fb = 0, fc = 0;
  int64_t low = 0;
  uint64_t range = 0;
};

// A struct of kernels/random.h, and how many numbers it makes of a block.
struct Draw {
  const char* name;
  int count;
  Params params;
};

Draw draw_of(const RandomFill& f, ScalarType dtype) {
  const bool wide = wide_draws(f, dtype);
  Draw d{"", wide ? 2 : 4, {}};
  Params& p = d.params;
  p.a = f.a;
  p.b = f.b;
  p.fa = static_cast<float>(f.a);
  p.fb = static_cast<float>(f.b);
  switch (f.distribution) {
    case Distribution::Uniform:
      d.name = wide ? "WideUniformDraw" : "UniformDraw";
      p.b = f.b - f.a;
      p.fb = static_cast<float>(p.b);
      p.c = f.a < f.b ? std::nextafter(f.b, f.a) : std::numeric_limits<double>::infinity();
      p.fc = !wide && f.a < f.b && (f.a != 0 || f.b != 1 || elementSize(dtype) < 4)
                 ? largest_below(dtype, f.b)
                 : std::numeric_limits<float>::infinity();
      break;
    case Distribution::Normal:
      d.name = wide                                         ? "WideNormalDraw"
               : f.a == 0 && !std::signbit(f.a) && f.b == 1 ? "NormalDraw<true>"
                                                            : "NormalDraw<false>";
      break;
    case Distribution::Exponential:
      d.name = wide ? "WideExponentialDraw" : "ExponentialDraw";
      p.a = 1 / f.a;
      p.fa = static_cast<float>(p.a);
      break;
    case Distribution::Bernoulli:
      d.name = "BernoulliDraw";
      p.range = static_cast<uint64_t>(std::ldexp(f.a, 32));
      break;
    case Distribution::Integer:
      d.name = wide ? "WideIntegerDraw" : "IntegerDraw";
      p.low = f.low;
      p.range = f.range;
      break;
    case Distribution::Geometric:
      d.name = "GeometricDraw";
      p.a = std::log1p(-f.a);
      break;
    case Distribution::Cauchy: d.name = "CauchyDraw"; break;
    case Distribution::LogNormal: d.name = "LogNormalDraw"; break;
  }
  return d;
}

// Kernels by distribution, dtype and kind of place; made once, never destroyed.
constexpr size_t kDistributions = static_cast<size_t>(Distribution::LogNormal) + 1;
std::atomic<const Kernel*> kernels[kDistributions][3][kNumScalarTypes][2] = {};

const Kernel& kernel_of(Distribution distribution, const Draw& draw, ScalarType dtype, bool captured) {
  // Three draws of one distribution at most: narrow, wide, and the standard normal.
  const size_t form = draw.count == 2 ? 1 : std::string_view(draw.name) == "NormalDraw<true>" ? 2 : 0;
  auto& slot = kernels[static_cast<size_t>(distribution)][form][static_cast<size_t>(dtype)][captured];
  if (const Kernel* known = slot.load(std::memory_order_acquire)) [[likely]]
    return *known;
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  if (const Kernel* known = slot.load(std::memory_order_relaxed)) return *known;
  const char* place = captured ? "GraphPlace" : "FixedPlace";
  // One block is enough: packs that are computed side by side are worth more than blocks, for which compilers save registers.
  std::string source = str("#include \"gpu/kernels/random.h\"\nextern \"C\" __global__ void __launch_bounds__(",
                           kThreads, ", 1) facula_random(const facula::RandomArgs<facula::", place,
                           "> args) {\n  facula::fill_random<facula::", draw.name, ", facula::DType::", toString(dtype),
                           ">(args);\n}\n");
  const auto* made = new Kernel("facula_random", std::move(source));
  slot.store(made, std::memory_order_release);
  return *made;
}

}  // namespace

void random_fill(const RandomFill& fill, ScalarType dtype, void* data, int64_t count, const Work& work,
                 const RandomPlace& place) {
  if (count == 0) return;
  const Draw draw = draw_of(fill, dtype);
  const bool captured = place.device_pair != nullptr;
  const Kernel& kernel = kernel_of(fill.distribution, draw, dtype, captured);
  // A pack is whole blocks that fill 16 bytes; it is written at once where memory is aligned for that.
  const auto width = static_cast<int64_t>(elementSize(dtype));
  const int64_t pack = std::max<int64_t>(draw.count, 16 / width);
  const int64_t alignment = std::min<int64_t>(16, pack * width);
  const bool aligned = reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(alignment) == 0;
  KernelArguments args;
  args.put(data);
  args.put(count);
  if (captured) {
    args.put(place.device_pair);
    args.put(place.offset_in_graph);
  } else {
    args.put(philox_keys(place.seed));
    args.put(place.offset);
  }
  args.put(draw.params);
  args.put(static_cast<int32_t>(aligned));
  const int64_t each = pack * kThreads * kRepeat, blocks = (count + each - 1) / each;
  FACULA_CHECK(blocks <= INT32_MAX, NotSupportedError, work.op, ": ", count,
               " random numbers are more than one launch gives; split the tensor");
  launch(kernel, {static_cast<uint32_t>(blocks)}, {kThreads}, 0, args.pointers(), work);
}

}  // namespace facula::gpu
