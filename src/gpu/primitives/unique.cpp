// What unique, unique_dim and unique_consecutive need on a GPU: slices in order, and the runs of equal ones.
#include "core/function_ref.h"
#include "core/kernel_table.h"
#include "gpu/primitives/compact.h"
#include "gpu/primitives/radix.h"

#include <utility>

namespace facula::gpu {
namespace {

// The order of members is that of kernels/compact.h.
struct RunArguments {
  const void* items = nullptr;
  uint8_t* begins = nullptr;
  const int64_t* starts = nullptr;
  const int64_t* order = nullptr;
  void* values = nullptr;
  int64_t* counts = nullptr;
  int64_t* inverse = nullptr;
  int64_t n = 0, m = 0, runs = 0;
};

enum Step : size_t { kCounts, kInverse, kValues, kSteps = kValues + 5 };
const Kernel& step_kernel(size_t step) {
  static auto* table = new KernelTable<kSteps>;
  return table->get(step, [&] {
    const char* name = step == kCounts ? "run_counts" : step == kInverse ? "run_inverse" : "run_values";
    return template_kernel("compact.h", name, "RunArgs",
                           step < kValues ? std::string(name) : str(name, "<", 1 << (step - kValues), ">"),
                           kTeamThreads);
  });
}
const Kernel& begin_kernel(ScalarType t) {
  static auto* table = new KernelTable<kNumScalarTypes>;
  return table->get(index_of(t), [&] {
    return template_kernel("compact.h", "run_begins", "RunArgs", str("run_begins<", dtype_text(t), ">"), kTeamThreads);
  });
}
void run(const Kernel& kernel, const RunArguments& a, int64_t items, const Work& work) {
  if (items == 0) return;
  KernelArguments args;
  args.put(a);
  launch(kernel, {blocks_for(items, kTeamThreads, work.op)}, {kTeamThreads}, 0, args.pointers(), work);
}

int64_t* numbers_of(const Tensor* t) {
  return t && t->defined() ? reinterpret_cast<int64_t*>(t->impl()->data()) : nullptr;
}

// The contract of find_runs_cpu (cpu/unique.cpp).
void find_runs_gpu(const Tensor& items, const Tensor* order, const Tensor* inverse,
                   FunctionRef<std::pair<Tensor, Tensor>(int64_t)> make) {
  const TensorImpl* in = items.impl();
  const TensorWork work("unique_consecutive", {&items, order, inverse});
  RunArguments a;
  a.n = in->sizes[0];
  a.m = in->sizes[1];
  a.items = in->data();
  DeviceScratch begins(work.device(), static_cast<size_t>(a.n), work.op());
  a.begins = begins.as<uint8_t>();
  run(begin_kernel(in->dtype), a, a.n, work);
  const MaskTiles tiles(a.begins, a.n, work);
  a.runs = tiles.total();
  const auto [values, counts] = make(a.runs);
  DeviceScratch starts(work.device(), static_cast<size_t>(a.runs) * sizeof(int64_t), work.op());
  tiles.write_positions(starts.as<int64_t>());
  a.starts = starts.as<int64_t>();
  a.values = values.impl()->data();
  run(step_kernel(kValues + static_cast<size_t>(std::countr_zero(elementSize(in->dtype)))), a, a.runs * a.m, work);
  a.counts = numbers_of(&counts);
  if (a.counts) run(step_kernel(kCounts), a, a.runs, work);
  a.inverse = numbers_of(inverse);
  a.order = numbers_of(order);
  if (a.inverse) run(step_kernel(kInverse), a, a.n, work);
}

// ---- slices in order --------------------------------------------------------------------------------------------------------------

// The order of members is that of kernels/slices.h.
struct SliceArguments {
  const void* items = nullptr;
  const uint32_t* before = nullptr;
  const uint32_t* places = nullptr;
  uint32_t* after = nullptr;
  void* keys = nullptr;
  void* sorted = nullptr;
  int64_t* order = nullptr;
  int64_t n = 0, m = 0, column = 0;
};
enum SliceStep : size_t { kCompose, kWriteOrder, kWriteSlices, kSliceSteps = kWriteSlices + 4 };
const Kernel& slice_kernel(size_t step) {
  static auto* table = new KernelTable<kSliceSteps>;
  return table->get(step, [&] {
    const char* name = step == kCompose ? "slice_compose" : step == kWriteOrder ? "slice_order" : "slice_values";
    return template_kernel("slices.h", name, "SliceArgs",
                           step < kWriteSlices ? std::string(name) : str(name, "<", 1 << (step - kWriteSlices), ">"),
                           kTeamThreads);
  });
}
const Kernel& slice_key_kernel(ScalarType t) {
  static auto* table = new KernelTable<kNumScalarTypes>;
  return table->get(index_of(t), [&] {
    return template_kernel("slices.h", "slice_keys", "SliceArgs", str("slice_keys<", dtype_text(t), ">"), kTeamThreads);
  });
}
void run(const Kernel& kernel, const SliceArguments& a, int64_t items, const Work& work) {
  KernelArguments args;
  args.put(a);
  launch(kernel, {blocks_for(items, kTeamThreads, work.op)}, {kTeamThreads}, 0, args.pointers(), work);
}

// The contract of sort_slices_cpu: by the last entries first, since each sort keeps the order of equals.
void sort_slices_gpu(const Tensor& items, const Tensor& order, const Tensor& sorted) {
  const TensorImpl* in = items.impl();
  if (in->numel == 0) return;
  const TensorWork work("unique_dim", {&items, &order, &sorted});
  const size_t bytes = elementSize(in->dtype);
  SliceArguments a;
  a.items = in->data();
  a.n = in->sizes[0];
  a.m = in->sizes[1];
  a.order = numbers_of(&order);
  a.sorted = sorted.impl()->data();
  RadixSort sort(1, a.n, bytes == 8 ? 8 : 4, work);
  const size_t order_bytes = padded(static_cast<size_t>(a.n) * sizeof(uint32_t));
  DeviceScratch orders(work.device(), 2 * order_bytes, work.op());
  uint32_t* before = orders.as<uint32_t>();
  uint32_t* after = orders.as<uint32_t>(order_bytes);
  for (a.column = a.m - 1; a.column >= 0; --a.column) {
    a.keys = sort.start();
    run(slice_key_kernel(in->dtype), a, a.n, work);
    sort.run(in->dtype == kBool ? 1 : static_cast<int>(8 * bytes));
    a.places = sort.places();
    a.after = after;
    run(slice_kernel(kCompose), a, a.n, work);
    std::swap(before, after);
    a.before = before;
  }
  run(slice_kernel(kWriteOrder), a, a.n, work);
  run(slice_kernel(kWriteSlices + static_cast<size_t>(std::countr_zero(bytes))), a, a.n * a.m, work);
}

const KernelRegistration slices_registration(OpId::unique_dim, DeviceType::CUDA, &sort_slices_gpu);
const KernelRegistration runs_registration(OpId::unique_consecutive, DeviceType::CUDA, &find_runs_gpu);

}  // namespace
}  // namespace facula::gpu
