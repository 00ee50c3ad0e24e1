// Batch norm on a GPU and its gradients: which kernel of kernels/batch_norm.h a layout needs, and how its work is cut.
#include "cpu/batch_norm.h"

#include "core/kernel_table.h"
#include "gpu/primitives/rows.h"

namespace facula::gpu {
namespace {

constexpr int64_t kWidestTile = 32;     // packs of channels that a block has side by side
constexpr int64_t kSumBlocks = 512;     // blocks that look for statistics, if there is enough to do
constexpr int64_t kFinishChannels = 8;  // of a block, as in kernels/batch_norm.h
constexpr int64_t kStretch = 16384;     // places of a plane that are worth a block
constexpr int64_t kRowsOfAThread = 16;  // that it writes
constexpr int64_t kLoadsOfAThread = 4;

// The order of members is that of kernels/batch_norm.h.
struct Arguments {
  const void* in = nullptr;
  const void* grad = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  void* mean = nullptr;
  void* invstd = nullptr;
  void* running_mean = nullptr;
  void* running_var = nullptr;
  void* out = nullptr;
  void* to_weight = nullptr;
  void* to_bias = nullptr;
  void* partials = nullptr;
  void* slopes = nullptr;
  int64_t channels = 0, samples = 0, space = 1, sample_each = 0, space_each = 1;
  double eps = 0, momentum = 0;
  Divider64 by_channels = {};
  int32_t sample_parts = 1, space_parts = 1, tiles = 1, width_shift = 0;
};

void* data_of(const Tensor& t) { return t.defined() ? t.impl()->data() : nullptr; }
int log2_of(int64_t power) { return std::countr_zero(static_cast<uint64_t>(power)); }
int64_t power_above(int64_t n) { return static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(n))); }

enum Step : size_t { kPlaneSums, kRowSums, kFinish, kPlaneApply, kRowApply, kSteps };
enum Pass : size_t { kForward, kBackward, kBackwardFixed, kPasses };

const Kernel& kernel_of(Step step, ScalarType t, int pack, Pass pass) {
  static auto* table = new KernelTable<kSteps * 4 * 4 * kPasses>;
  const size_t number = ((step * 4 + float_number(t)) * 4 + static_cast<size_t>(log2_of(pack))) * kPasses + pass;
  return table->get(number, [&] {
    static constexpr const char* names[] = {"plane_sums", "row_sums", "channel_finish", "plane_apply", "row_apply"};
    static constexpr const char* passes[] = {"Forward", "Backward", "BackwardFixed"};
    const std::string last = step >= kPlaneApply ? str("facula::BatchNormPass::", passes[pass])
                                                 : std::string(pass == kForward ? "false" : "true");
    const std::string first =
        step == kFinish ? std::string(t == kDouble ? "double" : "float") : str(dtype_text(t), ", ", pack);
    return template_kernel("batch_norm.h", names[step], "BatchNormArgs", str(names[step], "<", first, ", ", last, ">"),
                           kTeamThreads);
  });
}

// One call: what follows from the layout, and the three launches.
class Call {
 public:
  Call(const Tensor& input, const Tensor& grad, const Tensor& output, const Work& work)
      : work_(work), dtype_(input.scalar_type()) {
    const TensorImpl* x = input.impl();
    args.in = x->data();
    args.grad = data_of(grad);
    args.out = data_of(output);
    args.channels = x->sizes[1];
    args.samples = x->sizes[0];
    args.space = x->numel / (args.samples * args.channels);
    args.by_channels = divider64(static_cast<uint64_t>(args.channels));
    rows_ = !x->contiguous || args.space == 1;
    if (rows_) lay_rows();
    else lay_planes();
  }

  // The two numbers of each channel, and what they say.
  void add_up(Pass pass) {
    Arguments a = args;
    if (rows_) cut_rows(a, std::max<int64_t>(1, kSumBlocks / a.tiles), kLoadsOfAThread);
    else cut_planes(a);
    const int64_t parts = static_cast<int64_t>(a.sample_parts) * a.space_parts;
    const size_t width = dtype_ == kDouble ? 8 : 4;
    DeviceScratch partials(work_.device, static_cast<size_t>(parts * 2 * a.channels) * width, work_.op);
    a.partials = partials.data();
    run(rows_ ? kRowSums : kPlaneSums, pass, a, parts * (rows_ ? a.tiles : a.channels));
    run(kFinish, pass, a, ceil_div(a.channels, kFinishChannels));
  }

  void apply(Pass pass) {
    Arguments a = args;
    if (rows_) {
      cut_rows(a, INT32_MAX, kRowsOfAThread);
      if (static_cast<int64_t>(a.sample_parts) * a.tiles < 2 * kSumBlocks) cut_rows(a, INT32_MAX, kLoadsOfAThread);
      return run(kRowApply, pass, a, static_cast<int64_t>(a.sample_parts) * a.tiles);
    }
    a.space_each = kStretch;
    a.space_parts = static_cast<int32_t>(ceil_div(a.space, kStretch));
    const int64_t teams = kTeamThreads >> a.width_shift;
    run(kPlaneApply, pass, a, ceil_div(a.samples * a.channels, teams) * a.space_parts);
  }

  Arguments args;

 private:
  // (N S, C): packs that all rows have at their addresses.
  void lay_rows() {
    args.samples *= args.space;
    args.space = 1;
    const size_t bytes = elementSize(dtype_);
    const auto fits = [&](int64_t pack) {
      for (const void* data : {args.in, args.grad, static_cast<const void*>(args.out)})
        if (reinterpret_cast<uintptr_t>(data) % (static_cast<size_t>(pack) * bytes) != 0) return false;
      return args.channels % pack == 0;
    };
    pack_ = static_cast<int>(16 / bytes);
    while (pack_ > 1 && !fits(pack_)) pack_ /= 2;
    const int64_t width = std::min(kWidestTile, power_above(ceil_div(args.channels, pack_)));
    args.width_shift = log2_of(width);
    args.tiles = static_cast<int32_t>(ceil_div(args.channels, width * pack_));
  }
  // (N, C, S): as few threads as have something to do take a plane.
  void lay_planes() {
    pack_ = args.grad ? pack_of({{args.in, dtype_}, {args.grad, dtype_}, {args.out, dtype_}})
                      : pack_of({{args.in, dtype_}, {args.out, dtype_}});
    const int64_t packs = (std::min(args.space, kStretch) + 2 * pack_ - 2) / pack_;
    args.width_shift = log2_of(std::min<int64_t>(kTeamThreads, power_above(ceil_div(packs, kLoadsOfAThread / 2))));
  }

  // At most `parts` parts, and at least `least` rows for a thread.
  void cut_rows(Arguments& a, int64_t parts, int64_t least) const {
    const int64_t lanes = kTeamThreads >> a.width_shift;
    parts = std::min(parts, ceil_div(a.samples, lanes * least));
    a.sample_each = ceil_div(a.samples, parts);
    a.sample_parts = static_cast<int32_t>(ceil_div(a.samples, a.sample_each));
  }
  // First between samples, then within planes.
  static void cut_planes(Arguments& a) {
    const int64_t want = ceil_div(kSumBlocks, a.channels), teams = kTeamThreads >> a.width_shift;
    a.sample_each = ceil_div(a.samples, std::min(want, ceil_div(a.samples, teams)));
    a.sample_parts = static_cast<int32_t>(ceil_div(a.samples, a.sample_each));
    const int64_t stretches = std::min(ceil_div(want, a.sample_parts), ceil_div(a.space, kStretch));
    a.space_each = ceil_div(ceil_div(a.space, stretches), 16) * 16;
    a.space_parts = static_cast<int32_t>(ceil_div(a.space, a.space_each));
  }

  void run(Step step, Pass pass, const Arguments& a, int64_t blocks) const {
    const ScalarType t = step == kFinish && dtype_ != kDouble ? kFloat : dtype_;
    KernelArguments arguments;
    arguments.put(a);
    launch(kernel_of(step, t, step == kFinish ? 1 : pack_, pass), {blocks_for(blocks, 1, work_.op)}, {kTeamThreads}, 0,
           arguments.pointers(), work_);
  }

  const Work work_;
  const ScalarType dtype_;
  bool rows_ = false;
  int pack_ = 1;
};

void batch_norm_gpu(const Tensor& input, const Tensor& weight, const Tensor& bias, bool training, double eps,
                    const Tensor& mean, const Tensor& invstd, const RunningStatistics& running, const Tensor& output) {
  const TensorWork work("batch_norm",
                        {&input, &weight, &bias, &mean, &invstd, &running.mean, &running.variance, &output});
  Call call(input, Tensor(), output, work);
  Arguments& a = call.args;
  a.weight = data_of(weight);
  a.bias = data_of(bias);
  a.mean = data_of(mean);
  a.invstd = data_of(invstd);
  a.running_mean = data_of(running.mean);
  a.running_var = data_of(running.variance);
  a.eps = eps;
  a.momentum = running.momentum;
  if (training) call.add_up(kForward);
  call.apply(kForward);
}

void batch_norm_backward_gpu(const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& mean,
                             const Tensor& invstd, bool training, const Tensor& to_input, const Tensor& to_weight,
                             const Tensor& to_bias) {
  const TensorWork work("_batch_norm_backward",
                        {&grad, &input, &weight, &mean, &invstd, &to_input, &to_weight, &to_bias});
  Call call(input, grad, to_input, work);
  Arguments& a = call.args;
  const size_t width = input.scalar_type() == kDouble ? 8 : 4;
  DeviceScratch slopes(work.device(), static_cast<size_t>(3 * a.channels) * width, work.op());
  a.weight = data_of(weight);
  a.mean = data_of(mean);
  a.invstd = data_of(invstd);
  a.to_weight = data_of(to_weight);
  a.to_bias = data_of(to_bias);
  a.slopes = slopes.data();
  call.add_up(kBackward);
  call.apply(training ? kBackward : kBackwardFixed);
}

const KernelRegistration batch_norm_registration(OpId::native_batch_norm, DeviceType::CUDA, &batch_norm_gpu);
const KernelRegistration batch_norm_backward_registration(OpId::_batch_norm_backward, DeviceType::CUDA,
                                                          &batch_norm_backward_gpu);

}  // namespace
}  // namespace facula::gpu
