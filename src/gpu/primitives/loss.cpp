// nll_loss and cross entropy on a GPU, over kernels/loss.h.
#include "gpu/primitives/loss.h"

#include "core/kernel_table.h"
#include "gpu/primitives/rows.h"

#include <facula/reduction.h>

namespace facula::gpu {
namespace {

constexpr int64_t kSumBlocks = 256;

// The order of members is that of kernels/loss.h.
struct NllArguments {
  const void* in = nullptr;
  const int64_t* target = nullptr;
  const void* weight = nullptr;
  void* out = nullptr;
  void* sums = nullptr;
  void* fault_record = nullptr;
  int64_t fault_op = 0;
  int64_t count = 0, inner = 1, classes = 0, class_stride = 0, batch_stride = 0, ignored = 0;
};
struct NllSumArguments {
  const void* sums;
  void* out;
  int64_t blocks;
  int32_t mean;
};
struct EntropyArguments {
  const void* logits = nullptr;
  const int64_t* target = nullptr;
  const void* weight = nullptr;
  void* losses = nullptr;
  void* shares = nullptr;
  void* log_sums = nullptr;
  const void* scale = nullptr;
  const void* total = nullptr;
  void* gradient = nullptr;
  void* fault_record = nullptr;
  int64_t fault_op = 0;
  int64_t rows = 0, n = 0, ignored = 0;
  double smoothing = 0;
  int64_t scale_step = 0;
};

int64_t name_of(const char* op) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(op)); }
void* data_of(const Tensor& t) { return t.defined() ? t.impl()->data() : nullptr; }

const Kernel& nll_kernel(bool sum, ScalarType t) {
  static auto* table = new KernelTable<8>;
  return table->get(float_number(t) * 2 + sum, [&] {
    const char* name = sum ? "nll_sum" : "nll_entries";
    return template_kernel("loss.h", name, sum ? "NllSumArgs" : "NllArgs", str(name, "<", dtype_text(t), ">"),
                           kTeamThreads);
  });
}

// The contract of nll_loss_cpu (cpu/nll_loss.cpp).
void nll_loss_gpu(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignored,
                  const Tensor& result) {
  const TensorImpl* x = self.impl();
  const TensorWork work("nll_loss", {&self, &target, &weight, &result});
  const bool one = x->dim() == 1, each = reduction == Reduction::None;
  NllArguments a;
  a.in = x->data();
  a.target = reinterpret_cast<const int64_t*>(target.impl()->data());
  a.weight = data_of(weight);
  a.fault_record = fault_buffer(work.device());
  a.fault_op = name_of(work.op());
  a.count = target.impl()->numel;
  a.classes = x->sizes[one ? 0 : 1];
  a.class_stride = x->strides[one ? 0 : 1];
  a.batch_stride = one ? 0 : x->strides[0];
  for (size_t d = 2; d < x->sizes.size(); ++d) a.inner *= x->sizes[d];
  a.ignored = ignored;
  if (each && a.count == 0) return;
  const auto blocks = static_cast<uint32_t>(std::max<int64_t>(
      1, each ? blocks_for(a.count, kTeamThreads, work.op()) : std::min(kSumBlocks, ceil_div(a.count, kTeamThreads))));
  DeviceScratch sums(work.device(), each ? 0 : blocks * 2 * sizeof(double), work.op());
  if (each) a.out = result.impl()->data();
  else a.sums = sums.data();
  KernelArguments args;
  args.put(a);
  launch(nll_kernel(false, x->dtype), {blocks}, {kTeamThreads}, 0, args.pointers(), work);
  if (each) return;
  KernelArguments last;
  last.put(NllSumArguments{sums.data(), result.impl()->data(), blocks, reduction == Reduction::Mean});
  launch(nll_kernel(true, x->dtype), {1}, {kTeamThreads}, 0, last.pointers(), work);
}

const KernelRegistration nll_loss_registration(OpId::nll_loss, DeviceType::CUDA, &nll_loss_gpu);

// Packs in registers: log2; rows of any length; the same kept in shared memory; the gradient alone. Each for packs of 16 bytes and of one
// element.
enum EntropyForm : size_t { kPacks = 0, kLong = 4, kKept = 5, kGradient = 6, kEntropyForms = 7 };
const Kernel& entropy_kernel(size_t form, ScalarType t, int pack) {
  static auto* table = new KernelTable<kEntropyForms * 2 * 4>;
  return table->get((form * 2 + (pack == 1)) * 4 + float_number(t), [&] {
    const bool walks = form == kLong || form == kKept;
    const char* name = form == kGradient ? "cross_entropy_backward" : walks ? "cross_entropy_long" : "cross_entropy";
    std::string rest = form < kLong ? str(", ", 1 << form) : walks ? str(", ", form == kKept ? "true" : "false") : "";
    return template_kernel("loss.h", name, "CrossEntropyArgs", str(name, "<", dtype_text(t), ", ", pack, rest, ">"),
                           walks ? kWalkBounds : "1024", short_exponential(t));
  });
}

EntropyArguments arguments(const CrossEntropy& what, const CrossEntropyGradient* gradient, const char* op, int device) {
  const TensorImpl* x = what.logits.impl();
  EntropyArguments a;
  a.logits = x->data();
  a.target = reinterpret_cast<const int64_t*>(what.target.impl()->data());
  a.weight = data_of(what.weight);
  a.fault_record = fault_buffer(device);
  a.fault_op = name_of(op);
  a.rows = x->sizes[0];
  a.n = x->sizes[1];
  a.ignored = what.ignore_index;
  a.smoothing = what.label_smoothing;
  if (gradient) {
    a.scale = data_of(gradient->scale);
    a.scale_step = !gradient->scale.defined() || gradient->scale.impl()->numel == 1 ? 0 : 1;
    a.total = data_of(gradient->total);
    a.gradient = gradient->to_logits.impl()->data();
  }
  return a;
}

int entropy_pack(const EntropyArguments& a, ScalarType t) {
  return a.gradient ? pack_of({{a.logits, t}, {a.gradient, t}}) : pack_of({{a.logits, t}});
}
uint32_t entropy_threads(int64_t packs) {
  return static_cast<uint32_t>(std::clamp<int64_t>(std::bit_ceil(static_cast<uint64_t>(packs)), 32, 1024));
}

// Losses, shares and logarithms of rows, and the gradient where there is one: only then rows are worth keeping. Longer ones than four packs
// a thread would leave room for a single row on a multiprocessor, which could then not read one while it writes another.
void run_rows(const EntropyArguments& a, ScalarType t, const Work& work) {
  const int pack = entropy_pack(a, t);
  const int64_t packs = (a.n + 2 * pack - 2) / pack;
  uint32_t threads = entropy_threads(ceil_div(packs, 4)), bytes = 0;
  size_t form =
      kPacks + static_cast<size_t>(std::countr_zero(std::bit_ceil(static_cast<uint64_t>(ceil_div(packs, threads)))));
  if (!a.gradient || form > 2) {
    threads = std::min<uint32_t>(threads, kWalkThreads);
    if (a.gradient) bytes = kept_bytes(a.n, pack, elementSize(t), static_cast<int>(threads), work.device);
    form = bytes > 0 ? kKept : kLong;
  }
  KernelArguments args;
  args.put(a);
  launch(entropy_kernel(form, t, pack), {blocks_for(a.rows, 1, work.op)}, {threads}, bytes, args.pointers(), work);
}

}  // namespace

void cross_entropy(const CrossEntropy& what, const Tensor& losses, const Tensor& shares, const Tensor& log_sums,
                   const CrossEntropyGradient* gradient) {
  const ScalarType t = what.logits.impl()->dtype;
  const TensorWork work("cross_entropy", {&what.logits, &what.target, &what.weight, &losses, &shares, &log_sums,
                                          gradient ? &gradient->scale : nullptr, gradient ? &gradient->total : nullptr,
                                          gradient ? &gradient->to_logits : nullptr});
  EntropyArguments a = arguments(what, gradient, work.op(), work.device());
  if (a.rows == 0) return;
  a.losses = data_of(losses);
  a.shares = data_of(shares);
  a.log_sums = data_of(log_sums);
  run_rows(a, t, work);
}

void cross_entropy_backward(const CrossEntropy& what, const Tensor& log_sums, const CrossEntropyGradient& gradient) {
  const ScalarType t = what.logits.impl()->dtype;
  const TensorWork work("cross_entropy_backward", {&what.logits, &what.target, &what.weight, &log_sums, &gradient.scale,
                                                   &gradient.total, &gradient.to_logits});
  EntropyArguments a = arguments(what, &gradient, work.op(), work.device());
  if (a.rows == 0 || a.n == 0) return;
  a.log_sums = data_of(log_sums);
  const int pack = entropy_pack(a, t);
  KernelArguments args;
  args.put(a);
  launch(entropy_kernel(kGradient, t, pack), {blocks_for(a.rows, 1, work.op())},
         {entropy_threads(ceil_div(ceil_div(a.n, pack), 4))}, 0, args.pointers(), work);
}

namespace {

struct EntropySumArguments {
  const void *losses, *shares;
  void *out, *total;
  int64_t rows;
  int32_t reduction;
};

const Kernel& entropy_sum_kernel(ScalarType t) {
  static auto* table = new KernelTable<4>;
  return table->get(float_number(t), [&] {
    return template_kernel("loss.h", "cross_entropy_sum", "EntropySumArgs",
                           str("cross_entropy_sum<", dtype_text(t), ">"), 1024);
  });
}

void sum_up(const EntropyArguments& a, int64_t reduction, const Tensor& loss, const Tensor& total, const Work& work) {
  KernelArguments args;
  args.put(EntropySumArguments{a.losses, a.shares, loss.impl()->data(), total.impl()->data(), a.rows,
                               reduction == Reduction::None   ? 0
                               : reduction == Reduction::Mean ? 1
                                                              : 2});
  launch(entropy_sum_kernel(loss.scalar_type()), {1}, {1024}, 0, args.pointers(), work);
}

// `loss` is of the logits' dtype or of the compute type, as the others are.
void cross_entropy_gpu(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                       int64_t ignored, double smoothing, const Tensor& loss, const Tensor& log_sums,
                       const Tensor& total) {
  const TensorImpl* x = self.impl();
  const TensorWork work("cross_entropy_loss", {&self, &target, &weight, &loss, &log_sums, &total});
  const int64_t rows = x->sizes[0];
  const size_t bytes = padded(static_cast<size_t>(rows) * elementSize(total.impl()->dtype));
  DeviceScratch memory(work.device(), 2 * bytes, work.op());
  EntropyArguments a = arguments({self, target, weight, ignored, smoothing}, nullptr, work.op(), work.device());
  a.losses = memory.data();
  a.shares = memory.data() + bytes;
  a.log_sums = log_sums.impl()->data();
  run_rows(a, x->dtype, work);
  sum_up(a, reduction, loss, total, work);
}

const Kernel& entropy_total_kernel(ScalarType compute) {
  static auto* table = new KernelTable<2>;
  return table->get(compute == kDouble, [&] {
    return template_kernel("loss.h", "cross_entropy_total", "CrossEntropyArgs",
                           str("cross_entropy_total<", compute == kDouble ? "double" : "float", ">"), 1024);
  });
}

// The same and the gradient, whose divisor comes from the labels alone.
void cross_entropy_with_slope_gpu(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                                  int64_t ignored, double smoothing, const Tensor& loss, const Tensor& log_sums,
                                  const Tensor& total, const Tensor& slope) {
  const TensorImpl* x = self.impl();
  const TensorWork work("cross_entropy_loss", {&self, &target, &weight, &loss, &log_sums, &total, &slope});
  const CrossEntropyGradient gradient{Tensor(), reduction == Reduction::Mean ? total : Tensor(), slope};
  DeviceScratch losses(work.device(), static_cast<size_t>(x->sizes[0]) * elementSize(total.scalar_type()), work.op());
  EntropyArguments a = arguments({self, target, weight, ignored, smoothing}, &gradient, work.op(), work.device());
  a.shares = total.impl()->data();
  KernelArguments args;
  args.put(a);
  launch(entropy_total_kernel(total.scalar_type()), {1}, {1024}, 0, args.pointers(), work);
  a.shares = nullptr;
  a.losses = losses.data();
  a.log_sums = log_sums.impl()->data();
  run_rows(a, x->dtype, work);
  sum_up(a, reduction, loss, total, work);
}

void cross_entropy_backward_gpu(const Tensor& grad, const Tensor& self, const Tensor& target, const Tensor& weight,
                                const Tensor& log_sums, const Tensor& total, int64_t reduction, int64_t ignored,
                                double smoothing, const Tensor& result) {
  cross_entropy_backward({self, target, weight, ignored, smoothing}, log_sums,
                         {grad, reduction == Reduction::Mean ? total : Tensor(), result});
}

const KernelRegistration cross_entropy_registration(OpId::_cross_entropy, DeviceType::CUDA, &cross_entropy_gpu);
const KernelRegistration cross_entropy_with_slope_registration(OpId::_cross_entropy_with_slope, DeviceType::CUDA,
                                                               &cross_entropy_with_slope_gpu);
const KernelRegistration cross_entropy_backward_registration(OpId::_cross_entropy_backward, DeviceType::CUDA,
                                                             &cross_entropy_backward_gpu);

const Kernel& unless_one_kernel(ScalarType t, ScalarType by, int pack) {
  static auto* table = new KernelTable<4 * 4 * 2>;
  return table->get((float_number(t) * 4 + float_number(by)) * 2 + (pack == 1), [&] {
    return template_kernel("loss.h", "multiply_unless_one", "UnlessOneArgs",
                           str("multiply_unless_one<", dtype_text(t), ", ", dtype_text(by), ", ", pack, ">"),
                           kTeamThreads);
  });
}
struct UnlessOneArguments {
  void* data;
  const void* by;
  int64_t count;
};

}  // namespace

void multiply_unless_one(const Tensor& tensor, const Tensor& by) {
  const TensorImpl* t = tensor.impl();
  if (t->numel == 0) return;
  const TensorWork work("_cross_entropy_backward", {&tensor, &by});
  const int pack = pack_of({{t->data(), t->dtype}});
  const int64_t blocks = std::min<int64_t>(2048, ceil_div(t->numel, static_cast<int64_t>(kTeamThreads) * pack) + 1);
  KernelArguments args;
  args.put(UnlessOneArguments{t->data(), by.impl()->data(), t->numel});
  launch(unless_one_kernel(t->dtype, by.scalar_type(), pack), {static_cast<uint32_t>(blocks)}, {kTeamThreads}, 0,
         args.pointers(), work);
}

}  // namespace facula::gpu
