// layer_norm and rms_norm on a GPU, and their gradients: which kernel of kernels/norm.h a shape needs.
#include "core/kernel_table.h"
#include "gpu/primitives/rows.h"

namespace facula::gpu {
namespace {

constexpr int kLongThreads = 1024;
constexpr int64_t kMostSumBlocks = 256;  // blocks that leave sums of the gradients of weight and bias

// The order of members is that of kernels/norm.h.
struct Arguments {
  const void* in = nullptr;
  const void* grad = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  void* partials = nullptr;
  void* stats = nullptr;
  int64_t rows = 0, n = 0;
  double eps = 0;
  int32_t width_shift = 0, aligned = 0;
};
struct SumArguments {
  const void* in;
  void *first, *second;
  int64_t rows, columns;
};

const void* data_of(const Tensor& t) { return t.defined() ? t.impl()->data() : nullptr; }
void* target_of(const Tensor& t) { return t.defined() ? t.impl()->data() : nullptr; }

bool aligned_16(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// Packs in registers: log2, and whether they have one element, for three sizes of blocks; then long rows; the same for gradients; in the end
// rows that are walked, with up to four packs in three sizes of blocks.
enum Form : size_t { kRows = 0, kLong = 24, kBackward = 26, kBackwardLong = 34, kWalk = 36, kForms = 45 };
size_t team_form(size_t form, const RowTeam& team) {
  return form + static_cast<size_t>(std::countr_zero(static_cast<unsigned>(team.packs))) * 2 + (team.pack == 1);
}

// Weights are of the input's dtype or of the compute type; without any, it does not matter.
bool has_wide_weights(ScalarType t, const Tensor& weight, const Tensor& bias) {
  const Tensor& one = weight.defined() ? weight : bias;
  return one.defined() && one.impl()->dtype != t;
}
const Kernel& kernel_of(size_t form, const char* function, ScalarType t, bool wide, int pack, int packs, bool center,
                        const char* bounds = "1024") {
  static auto* table = new KernelTable<kForms * 4 * 2 * 2>;
  return table->get(((form * 4 + float_number(t)) * 2 + wide) * 2 + center, [&] {
    return template_kernel("norm.h", function, "NormArgs",
                           str(function, "<", dtype_text(t), ", ", dtype_text(wide ? kFloat : t), ", ", pack,
                               packs ? str(", ", packs) : "", ", ", center ? "true" : "false", ">"),
                           bounds);
  });
}

void launch_with(const Kernel& kernel, uint32_t blocks, int threads, uint32_t shared, const Arguments& a,
                 const Work& work) {
  KernelArguments args;
  args.put(a);
  launch(kernel, {blocks}, {static_cast<uint32_t>(threads)}, shared, args.pointers(), work);
}

// Teams whose threads have registers for their packs of a row, of the next one and of the weights; no packs: there are none.
constexpr int kMostWalkThreads = 512;
RowTeam walking_team(int64_t n, int pack) {
  const RowTeam team = row_team(n, pack, true, 2 * pack);
  if (team.packs > 0 && team.threads() <= kMostWalkThreads / 2) return team;
  const RowTeam large = row_team(n, pack, true, 4 * pack);
  return large.threads() <= kMostWalkThreads ? large : RowTeam{pack, 0, 0};
}
// As many blocks as are there at once walk over all rows.
void walk(const RowTeam& team, ScalarType t, bool wide, bool center, Arguments& a, const Work& work) {
  a.width_shift = team.width_shift;
  const size_t size = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(team.threads() / kRowThreads)));
  const int at_once = (team.packs <= 2 ? 896 : 512) / team.threads();
  const size_t form = kWalk + size * 3 + static_cast<size_t>(std::countr_zero(static_cast<unsigned>(team.packs)));
  const uint32_t blocks = team.blocks(a.rows, work.op),
                 most = static_cast<uint32_t>(at_once * std::max(1, properties(work.device).multiprocessors));
  launch_with(
      kernel_of(form, "norm_walk", t, wide, team.pack, team.packs, center, str(team.threads(), ", ", at_once).c_str()),
      std::min(blocks, most), team.threads(), 0, a, work);
}

// Rows of `n` entries; input and result are contiguous and of one dtype, weight and bias contiguous and of that dtype or both of the compute
// type, or undefined.
void forward(const char* op, const Tensor& input, int64_t n, const Tensor& weight, const Tensor& bias, double eps,
             const Tensor& result, bool center) {
  const TensorImpl *in = input.impl(), *out = result.impl();
  if (out->numel == 0) return;
  const TensorWork work(op, {&input, &weight, &bias, &result});
  const ScalarType t = in->dtype;
  Arguments a;
  a.in = in->data();
  a.weight = data_of(weight);
  a.bias = data_of(bias);
  a.out = out->data();
  a.rows = in->numel / n;
  a.n = n;
  a.eps = eps;
  const int pack = pack_of({{a.in, t}, {a.out, t}});
  const bool aligned = rows_aligned(a.in, t, n, pack);
  a.aligned = aligned && aligned_16(a.weight) && aligned_16(a.bias);
  const bool wide = has_wide_weights(t, weight, bias);
  if (a.aligned && pack > 1) {
    if (const RowTeam team = walking_team(n, pack); team.packs > 0) return walk(team, t, wide, center, a, work);
  }
  const RowTeam team = row_team(n, pack, aligned, t == kDouble ? 16 : 32);
  if (team.packs == 0)
    return launch_with(kernel_of(kLong + (pack == 1), "norm_long", t, wide, pack, 0, center), blocks_for(a.rows, 1, op),
                       kLongThreads, 0, a, work);
  a.width_shift = team.width_shift;
  // As many blocks at once as leave the registers that a row takes.
  constexpr const char* kBounds[] = {"128, 7", "256, 3", "1024"};
  const size_t size = team.threads() <= kRowThreads ? 0 : team.threads() <= 2 * kRowThreads ? 1 : 2;
  launch_with(
      kernel_of(team_form(kRows + 8 * size, team), "norm_rows", t, wide, pack, team.packs, center, kBounds[size]),
      team.blocks(a.rows, op), team.threads(), 0, a, work);
}

void layer_norm_gpu(const Tensor& input, int64_t n, const Tensor& weight, const Tensor& bias, double eps,
                    const Tensor& result) {
  forward("layer_norm", input, n, weight, bias, eps, result, true);
}
void rms_norm_gpu(const Tensor& input, int64_t n, const Tensor& weight, double eps, const Tensor& result) {
  forward("rms_norm", input, n, weight, Tensor(), eps, result, false);
}

const KernelRegistration layer_norm_registration(OpId::layer_norm, DeviceType::CUDA, &layer_norm_gpu);
const KernelRegistration rms_norm_registration(OpId::rms_norm, DeviceType::CUDA, &rms_norm_gpu);

// A thread holds input, gradient, weight and two sums of each of its elements, and what comes next: the registers for twice as many
// elements are there only in blocks of half the size. Packs need rows that all begin where packs may.
constexpr int kManyThreads = 512;
int few_values(ScalarType t) { return t == kDouble ? 4 : 8; }
bool has_many(const RowTeam& team, ScalarType t) { return team.pack * team.packs > few_values(t); }
RowTeam backward_team(int64_t n, ScalarType t, int pack) {
  const RowTeam team = row_team(n, pack, true, 2 * few_values(t));
  const bool fits = team.packs > 0 && !(has_many(team, t) && team.threads() > kManyThreads);
  return fits ? team : row_team(n, pack, true, few_values(t));
}

const Kernel& sum_kernel(ScalarType compute) {
  static auto* table = new KernelTable<2>;
  return table->get(compute == kDouble, [&] {
    return template_kernel("norm.h", "column_sums", "ColumnSumArgs",
                           str("column_sums<", compute == kDouble ? "double" : "float", ">"), kTeamThreads);
  });
}

const Kernel& column_kernel(ScalarType t) {
  static auto* table = new KernelTable<4>;
  return table->get(float_number(t), [&] {
    return template_kernel("norm.h", "norm_columns", "NormArgs", str("norm_columns<", dtype_text(t), ">"),
                           kTeamThreads);
  });
}

void add_up(const DeviceScratch& partials, int64_t blocks, int64_t n, ScalarType compute, const Tensor& to_weight,
            const Tensor& to_bias, const Work& work) {
  KernelArguments args;
  args.put(SumArguments{partials.data(), target_of(to_weight), target_of(to_bias), blocks, 2 * n});
  launch(sum_kernel(compute), {blocks_for(2 * n, 32, work.op)}, {kTeamThreads}, 0, args.pointers(), work);
}

// Rows that do not fit into registers: first the gradient of the input, then sums over columns.
void backward_long(Arguments& a, ScalarType t, bool wide, int pack, bool center, const Tensor& to_weight,
                   const Tensor& to_bias, const Work& work) {
  const ScalarType compute = t == kDouble ? kDouble : kFloat;
  const size_t width = elementSize(compute);
  DeviceScratch stats(work.device, static_cast<size_t>(a.rows) * 2 * width, work.op);
  a.stats = stats.data();
  launch_with(kernel_of(kBackwardLong + (pack == 1), "norm_backward_long", t, wide, pack, 0, center),
              blocks_for(a.rows, 1, work.op), kLongThreads, 0, a, work);
  const int64_t shares = std::min<int64_t>(32, a.rows);
  DeviceScratch partials(work.device, static_cast<size_t>(shares * 2 * a.n) * width, work.op);
  a.partials = partials.data();
  KernelArguments args;
  args.put(a);
  launch(column_kernel(t), {blocks_for(a.n, kTeamThreads, work.op), static_cast<uint32_t>(shares)}, {kTeamThreads}, 0,
         args.pointers(), work);
  add_up(partials, shares, a.n, compute, to_weight, to_bias, work);
}

// `grad`, `input` and `to_input` are contiguous and of one dtype, the weight of that dtype, too, or of the compute type, in which the others
// are; it may be undefined, and so may the gradient of the bias.
void backward(const char* op, const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
              const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias, bool center) {
  const TensorImpl* in = input.impl();
  const TensorWork work(op, {&grad, &input, &weight, &to_input, &to_weight, &to_bias});
  const ScalarType t = in->dtype, compute = t == kDouble ? kDouble : kFloat;
  Arguments a;
  a.in = in->data();
  a.grad = grad.impl()->data();
  a.weight = data_of(weight);
  a.out = target_of(to_input);
  a.rows = in->numel / n;
  a.n = n;
  a.eps = eps;
  int pack = pack_of({{a.in, t}, {a.grad, t}, {a.out, t}});
  if (!rows_aligned(a.in, t, n, pack)) pack = 1;
  a.aligned = aligned_16(a.weight);
  const bool wide = has_wide_weights(t, weight, Tensor());
  const RowTeam team = backward_team(n, t, pack);
  if (team.packs == 0) return backward_long(a, t, wide, pack, center, to_weight, to_bias, work);
  a.width_shift = team.width_shift;
  const int64_t teams = team.threads() >> team.width_shift;
  const int64_t blocks = std::min(kMostSumBlocks, ceil_div(a.rows, teams));
  const size_t width = elementSize(compute);
  DeviceScratch partials(work.device(), static_cast<size_t>(blocks * 2 * n) * width, op);
  a.partials = partials.data();
  const size_t shared = teams > 1 ? static_cast<size_t>(2 * n) * width : 0;
  launch_with(kernel_of(team_form(kBackward, team), "norm_backward", t, wide, pack, team.packs, center,
                        has_many(team, t) ? "512" : "1024"),
              static_cast<uint32_t>(blocks), team.threads(), static_cast<uint32_t>(shared), a, work);
  add_up(partials, blocks, n, compute, to_weight, to_bias, work);
}

void layer_norm_backward_gpu(const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
                             const Tensor& to_input, const Tensor& to_weight, const Tensor& to_bias) {
  backward("_layer_norm_backward", grad, input, n, weight, eps, to_input, to_weight, to_bias, true);
}
void rms_norm_backward_gpu(const Tensor& grad, const Tensor& input, int64_t n, const Tensor& weight, double eps,
                           const Tensor& to_input, const Tensor& to_weight) {
  backward("_rms_norm_backward", grad, input, n, weight, eps, to_input, to_weight, Tensor(), false);
}

const KernelRegistration layer_norm_backward_registration(OpId::_layer_norm_backward, DeviceType::CUDA,
                                                          &layer_norm_backward_gpu);
const KernelRegistration rms_norm_backward_registration(OpId::_rms_norm_backward, DeviceType::CUDA,
                                                        &rms_norm_backward_gpu);

}  // namespace
}  // namespace facula::gpu
