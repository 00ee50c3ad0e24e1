// Attention on a GPU and its gradients: which kernel of kernels/attention*.h a call needs, and in which tiles. All
// choices follow from sizes, dtypes and addresses, so that a chip gives the same bits for the same call, whatever else
// it does.
#include "cpu/attention.h"

#include "core/kernel_table.h"
#include "core/philox.h"
#include "gpu/primitives/rows.h"

#include <algorithm>
#include <bit>
#include <numbers>

namespace facula::gpu {
namespace {

constexpr int64_t kShortQueries = 64;            // up to here a tile of 128 queries would be more than half empty
constexpr int64_t kMostRows = int64_t{1} << 30;  // kernels for tensor cores count queries and keys in 32 bits
constexpr int kWidths[] = {32, 64, 96, 128, 192, 256};  // that kernels for tensor cores are made for
constexpr size_t kNumWidths = std::size(kWidths);

// The order of members is that of kernels/attention_params.h.
struct Array {
  void* data = nullptr;
  int64_t batch = 0, head = 0, row = 0;
};
struct Arguments {
  Array query, key, value, out, grad, to_query, to_key, to_value;
  const void* mask = nullptr;
  int64_t mask_strides[4] = {};
  void* logsumexp = nullptr;
  void* levels = nullptr;
  int64_t batches = 0, heads = 0, key_heads = 0, length = 0, keys = 0, tiles = 0;
  uint64_t offset = 0;
  double scale = 1, keep_scale = 1, level_factor = 1;
  PhiloxKeys philox{};
  float keep_bound = 1;
  int32_t width = 0, wide = 0, causal = 0, mask_kind = 0, dropout = 0;
};

Array array_of(const Tensor& t) {
  const TensorImpl& i = *t.impl();
  return {i.data(), i.strides[0], i.strides[1], i.strides[2]};
}

Arguments arguments_of(const AttentionArgs& call, const Tensor& output, const Tensor& logsumexp) {
  const TensorImpl &q = *call.query.impl(), &k = *call.key.impl(), &v = *call.value.impl();
  Arguments a;
  a.query = array_of(call.query);
  a.key = array_of(call.key);
  a.value = array_of(call.value);
  a.out = array_of(output);
  if (call.mask.defined()) {
    const TensorImpl& m = *call.mask.impl();
    a.mask = m.data();
    std::copy_n(m.strides.data(), 4, a.mask_strides);
    a.mask_kind = m.dtype == kBool ? 1 : 2;
  }
  a.logsumexp = logsumexp.impl()->data();
  a.batches = q.sizes[0];
  a.heads = q.sizes[1];
  a.key_heads = k.sizes[1];
  a.length = q.sizes[2];
  a.keys = k.sizes[2];
  a.scale = call.scale;
  a.width = static_cast<int32_t>(q.sizes[3]);
  a.wide = static_cast<int32_t>(v.sizes[3]);
  a.causal = call.causal;
  if (call.dropout > 0) {
    a.dropout = 1;
    a.keep_bound = static_cast<float>(1 - call.dropout);
    a.keep_scale = call.dropout < 1 ? 1 / (1 - call.dropout) : 0;
    a.philox = philox_keys(call.seed);
    a.offset = call.offset;
  }
  return a;
}

void launch_with(const Kernel& kernel, Dim3 grid, int threads, uint32_t shared, const Arguments& a, const Work& work) {
  KernelArguments args;
  args.put(a);
  launch(kernel, grid, {static_cast<uint32_t>(threads)}, shared, args.pointers(), work);
}

enum Pass : size_t { kForward, kKeyGradients, kQueryGradients, kPasses };
constexpr const char* kNames[kPasses] = {"attention_forward", "attention_key_gradients", "attention_query_gradients"};

// Lays `count` rows of each of `heads` heads over blocks of `each`.
Dim3 lay_tiles(Arguments& a, int64_t count, int64_t each, int64_t heads, int64_t shares, const char* op) {
  a.tiles = ceil_div(count, each);
  return {blocks_for(a.batches * heads * a.tiles, 1, op), static_cast<uint32_t>(shares)};
}
Dim3 lay_pass(Arguments& a, Pass pass, int64_t each, int64_t shares, const char* op) {
  return pass == kKeyGradients ? lay_tiles(a, a.keys, each, a.key_heads, shares, op)
                               : lay_tiles(a, a.length, each, a.heads, shares, op);
}

// ---- plain arithmetic -----------------------------------------------------------------------------------------------

const Kernel& plain_kernel(Pass pass, ScalarType t, int columns) {
  static auto* table = new KernelTable<kPasses * 4 * 3>;
  const auto width = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(columns / 32)));
  static constexpr const char* kFunctions[kPasses] = {"forward", "key_gradients", "query_gradients"};
  return table->get((pass * 4 + float_number(t)) * 3 + width, [&] {
    return template_kernel("attention.h", kNames[pass], "attention_kernels::Args",
                           str("attention_kernels::", kFunctions[pass], "<", dtype_text(t), ", ", columns, ">"),
                           kTeamThreads);
  });
}

void run_plain(Pass pass, ScalarType t, Arguments& a, const Work& work) {
  const int64_t most = pass == kForward ? a.wide : pass == kQueryGradients ? a.width : std::max(a.width, a.wide);
  const int columns = most <= 32 ? 32 : most <= 64 ? 64 : 128;
  const Dim3 grid = lay_pass(a, pass, t == kDouble ? 32 : 64, ceil_div(most, columns), work.op);
  launch_with(plain_kernel(pass, t, columns), grid, kTeamThreads, 0, a, work);
}

const Kernel& level_kernel(ScalarType t) {
  static auto* table = new KernelTable<4>;
  return table->get(float_number(t), [&] {
    return template_kernel("attention.h", "attention_levels", "attention_kernels::Args",
                           str("attention_kernels::levels<", dtype_text(t), ">"), kTeamThreads);
  });
}

// ---- tensor cores ---------------------------------------------------------------------------------------------------

// A warp has `blocks` times 16 rows of the block's tile, which meets `step` rows of the other side at a time. Of
// `stages`, one is fetched while another is multiplied. The gradients of keys come in `shares` of their columns, so
// that sums fit into registers.
struct Shape {
  int width, blocks, warps, step, stages, shares, blocks_at_once;
  int rows() const { return blocks * warps * 16; }
  int threads() const { return warps * 32; }
  // As the kernels cut up shared memory: rows with 16 bytes between them; levels lie behind queries.
  uint32_t shared(Pass pass) const {
    const int pitch = 2 * width + 16;
    const int own = (pass == kForward ? 1 : 2) * rows() * pitch;
    const int other = stages * step * (2 * pitch + (pass == kKeyGradients ? 8 : 0));
    return static_cast<uint32_t>(own + other);
  }
};

Shape usual_shape(Pass pass, int width) {
  const bool narrow = width <= 64, wide = width > 128;
  switch (pass) {
    case kForward: return wide ? Shape{width, 1, 8, 64, 1, 1, 1} : Shape{width, 2, 4, narrow ? 128 : 64, 1, 1, 2};
    case kKeyGradients:
      return narrow ? Shape{width, 2, 4, 32, 2, 1, 2} : Shape{width, 1, 8, 64, wide ? 1 : 2, wide ? 2 : 1, 1};
    default: return wide ? Shape{width, 1, 8, 32, 2, 1, 1} : Shape{width, 2, 4, narrow ? 64 : 32, 2, 1, 2};
  }
}
// For few rows, and for chips with less shared memory.
Shape small_shape(Pass pass, int width) {
  return {width, 1, 4, pass == kForward ? 32 : 16, 1, pass == kKeyGradients && width > 128 ? 2 : 1, 1};
}

// What a kernel's text says between the angle brackets.
std::string shape_text(Pass pass, const Shape& s) {
  if (pass == kForward) return str(s.width, ", ", s.blocks, ", ", s.warps, ", ", s.step);
  const std::string rest = str(s.blocks, ", ", s.warps, ", ", s.step, ", ", s.stages);
  return pass == kKeyGradients ? str(s.width, ", ", s.width / s.shares, ", ", rest) : str(s.width, ", ", rest);
}

size_t core_number(Pass pass, ScalarType t, const Shape& s, bool small, bool extras) {
  const auto width = static_cast<size_t>(std::find(std::begin(kWidths), std::end(kWidths), s.width) - kWidths);
  return (((pass * 2 + (t == kHalf)) * kNumWidths + width) * 2 + small) * 2 + extras;
}
constexpr size_t kCoreKernels = kPasses * 2 * kNumWidths * 2 * 2, kGroupKernels = kPasses * 2 * 2;

const Kernel& core_kernel(size_t number, Pass pass, ScalarType t, const Shape& s, bool extras) {
  static auto* table = new KernelTable<kCoreKernels>;
  static constexpr const char* kFunctions[kPasses] = {"core_forward", "core_key_gradients", "core_query_gradients"};
  return table->get(number, [&] {
    return new Kernel(
        kNames[pass],
        str("#include \"gpu/kernels/", pass == kForward ? "attention_mma.h" : "attention_mma_backward.h",
            "\"\nextern \"C\" __global__ void __launch_bounds__(", s.threads(), ", ", s.blocks_at_once, ") ",
            kNames[pass], "(const facula::attention_kernels::Args args) {\n  FACULA_DYNAMIC_SHARED(char, shared);\n",
            "  facula::attention_kernels::", kFunctions[pass], "<", dtype_text(t), ", ", shape_text(pass, s), ", ",
            extras ? "true" : "false", ">(args, shared);\n}\n"));
  });
}

// Every row begins where 16 bytes may be fetched at once.
bool wide_rows(const Array& array) {
  return reinterpret_cast<uintptr_t>(array.data) % 16 == 0 && array.batch % 8 == 0 && array.head % 8 == 0 &&
         array.row % 8 == 0;
}

bool cores_fit(ScalarType t, const Arguments& a, std::initializer_list<const Array*> arrays, int device) {
  if (t != kHalf && t != kBFloat16) return false;
  const DeviceProperties& chip = properties(device);
  if (!chip.chip.starts_with("sm_") || chip.major < 8) return false;
  if (a.width % 8 != 0 || a.wide % 8 != 0 || std::max(a.width, a.wide) > kWidths[kNumWidths - 1]) return false;
  if (a.length > kMostRows || a.keys > kMostRows) return false;
  return std::all_of(arrays.begin(), arrays.end(), [](const Array* array) { return wide_rows(*array); });
}

// Whether the chip has room for the tiles of this pass; if so, it was launched.
bool run_on_warps(Pass pass, ScalarType t, Arguments& a, const Work& work) {
  const int most = std::max(a.width, a.wide);
  const int width = *std::find_if(std::begin(kWidths), std::end(kWidths), [&](int w) { return w >= most; });
  const auto room = static_cast<uint32_t>(properties(work.device).shared_memory_per_block_optin);
  Shape s = usual_shape(pass, width);
  const bool small = (pass == kKeyGradients ? a.keys : a.length) <= kShortQueries || s.shared(pass) > room;
  if (small) s = small_shape(pass, width);
  const uint32_t shared = s.shared(pass);
  if (shared > room) return false;
  // Scores of the plain form are compared before they are scaled, which must not turn their order around.
  const bool extras = a.mask_kind != 0 || a.dropout != 0 || !(a.scale > 0);
  const size_t number = core_number(pass, t, s, small, extras);
  const Kernel& kernel = core_kernel(number, pass, t, s, extras);
  const Dim3 grid = lay_pass(a, pass, s.rows(), s.shares, work.op);
  launch_with(kernel, grid, s.threads(), shared, a, work);
  return true;
}

// ---- warpgroups of Hopper chips -------------------------------------------------------------------------------------

// Two warpgroups have kGroupRows rows and meet so many rows of the other side at a time.
constexpr int kGroupRows = 128, kGroupThreads = 256;
int group_step(Pass pass) { return pass == kKeyGradients ? 64 : 128; }

// As the kernels cut up shared memory: their own rows, two stages of the other side's, levels, and what brings it all
// to a multiple of 1024 bytes.
uint32_t group_shared(Pass pass, int width) {
  const int own = (pass == kForward ? 1 : 2) * kGroupRows, other = 2 * 2 * group_step(pass);
  return static_cast<uint32_t>((own + other) * width * 2 + (pass == kKeyGradients ? 2 * group_step(pass) * 8 : 0) +
                               1024);
}

const Kernel& group_kernel(size_t number, Pass pass, ScalarType t, int width) {
  static auto* table = new KernelTable<kGroupKernels>;
  static constexpr const char* kFunctions[kPasses] = {"forward", "key_gradients", "query_gradients"};
  // A compiler that knows older chips only gives a kernel that the driver translates: the same rows on tensor cores.
  const std::string older = pass == kForward        ? "1, 8, 64, false"
                            : pass == kKeyGradients ? str(width, ", 1, 8, 32, 1, false")
                                                    : "1, 8, 32, 1, false";
  return table->get(number, [&] {
    const std::string types = str("<", dtype_text(t), ", ", width);
    return new Kernel(
        kNames[pass],
        str("#include \"gpu/kernels/", pass == kForward ? "attention_wgmma.h" : "attention_wgmma_backward.h",
            "\"\nextern \"C\" __global__ void __launch_bounds__(", kGroupThreads, ", 1) ", kNames[pass],
            "(const facula::attention_kernels::Args args) {\n  FACULA_DYNAMIC_SHARED(char, shared);\n",
            "#if FACULA_WARPGROUPS\n  facula::attention_kernels::group_", kFunctions[pass], types,
            pass == kKeyGradients ? "" : str(", ", group_step(pass)), ">(args, shared);\n",
            "#else\n  facula::attention_kernels::core_", kFunctions[pass], types, ", ", older,
            ">(args, shared);\n#endif\n}\n"),
        {kOptionChipSpecific});
  });
}

// Plain scores of many rows on a chip that has warpgroups; whether it was launched. Half of each product would be
// wasted on the narrowest heads.
bool run_on_groups(Pass pass, ScalarType t, Arguments& a, const Work& work) {
  const DeviceProperties& chip = properties(work.device);
  const int most = std::max(a.width, a.wide), width = most <= 64 ? 64 : 128;
  const bool plain = a.mask_kind == 0 && a.dropout == 0 && a.scale > 0;
  if (chip.major != 9 || !plain || most <= kWidths[0] || most > width || std::min(a.length, a.keys) <= kShortQueries)
    return false;
  const uint32_t shared = group_shared(pass, width);
  if (shared > static_cast<uint32_t>(chip.shared_memory_per_block_optin)) return false;
  const size_t number = (pass * 2 + (width == 128)) * 2 + (t == kHalf);
  const Kernel& kernel = group_kernel(number, pass, t, width);
  const Dim3 grid = lay_pass(a, pass, kGroupRows, 1, work.op);
  launch_with(kernel, grid, kGroupThreads, shared, a, work);
  return true;
}

bool run_on_cores(Pass pass, ScalarType t, Arguments& a, const Work& work) {
  return run_on_groups(pass, t, a, work) || run_on_warps(pass, t, a, work);
}

// ---- the primitives -------------------------------------------------------------------------------------------------

void attention_gpu(const AttentionArgs& call, const Tensor& output, const Tensor& logsumexp) {
  const TensorWork work("_fused_attention", {&call.query, &call.key, &call.value, &call.mask, &output, &logsumexp});
  const ScalarType t = call.query.scalar_type();
  Arguments a = arguments_of(call, output, logsumexp);
  if (cores_fit(t, a, {&a.query, &a.key, &a.value, &a.out}, work.device()) && run_on_cores(kForward, t, a, work))
    return;
  run_plain(kForward, t, a, work);
}

void attention_backward_gpu(const AttentionArgs& call, const Tensor& grad_output, const Tensor& output,
                            const Tensor& logsumexp, const Tensor& grad_query, const Tensor& grad_key,
                            const Tensor& grad_value) {
  const char* op = "_fused_attention_backward";
  const TensorWork work(op, {&call.query, &call.key, &call.value, &call.mask, &grad_output, &output, &logsumexp,
                             &grad_query, &grad_key, &grad_value});
  const ScalarType t = call.query.scalar_type();
  Arguments a = arguments_of(call, output, logsumexp);
  a.grad = array_of(grad_output);
  a.to_query = array_of(grad_query);
  a.to_key = array_of(grad_key);
  a.to_value = array_of(grad_value);
  const bool cores =
      cores_fit(t, a, {&a.query, &a.key, &a.value, &a.grad, &a.to_query, &a.to_key, &a.to_value}, work.device());
  const int64_t rows = a.batches * a.heads * a.length;
  DeviceScratch levels(work.device(), static_cast<size_t>(rows) * 2 * (t == kDouble ? 8 : 4), op);
  a.levels = levels.data();
  const auto find_levels = [&](double factor) {
    a.level_factor = factor;
    launch_with(level_kernel(t), {blocks_for(rows, kTeamThreads / 16, op)}, kTeamThreads, 0, a, work);
  };
  // Both passes need levels in the same units: a chip that has no room for one of them does both in plain arithmetic.
  if (cores) {
    find_levels(std::numbers::log2e);
    if (run_on_cores(kKeyGradients, t, a, work) && run_on_cores(kQueryGradients, t, a, work)) return;
  }
  find_levels(1);
  run_plain(kKeyGradients, t, a, work);
  run_plain(kQueryGradients, t, a, work);
}

const KernelRegistration attention_registration(OpId::_fused_attention, DeviceType::CUDA, &attention_gpu);
const KernelRegistration attention_backward_registration(OpId::_fused_attention_backward, DeviceType::CUDA,
                                                         &attention_backward_gpu);

}  // namespace
}  // namespace facula::gpu
