// searchsorted, isin, bincount and histc on a GPU, over kernels/search.h.
#include "core/kernel_table.h"
#include "core/function_ref.h"
#include "gpu/primitives/index_walk.h"

#include <algorithm>
#include <cmath>

namespace facula::gpu {
namespace {

constexpr int64_t kCountBlocks = 1024;  // of a launch that counts: each takes many elements
constexpr int64_t kSharedBins = 4096;   // that a block counts in shared memory
constexpr int kLastThreads = 256;

// The order of members is that of kernels/search.h.
struct SearchArguments {
  const void* sequence = nullptr;
  const int64_t* sorter = nullptr;
  const void* values = nullptr;
  void* out = nullptr;
  int64_t n = 0, row = 1, total = 0;
  void* fault = nullptr;
  int64_t op = 0;
  int32_t right = 0, invert = 0;
};
struct CountArguments {
  const void* in = nullptr;
  int64_t n = 0;
  void* out = nullptr;
  int64_t bins = 0;
  double low = 0, high = 0;
  int32_t in_shared = 0;
};

void searchsorted_gpu(const Tensor& sequence, const Tensor& values, const Tensor* sorter, bool right,
                      const Tensor& out) {
  const TensorImpl *q = sequence.impl(), *v = values.impl();
  if (v->numel == 0) return;
  const TensorWork work("searchsorted", {&sequence, &values, sorter, &out});
  const bool narrow = out.impl()->dtype == kInt;
  static auto* table = new KernelTable<kNumScalarTypes * 4>;
  const Kernel& kernel = table->get(index_of(q->dtype) * 4 + narrow * 2 + (sorter != nullptr), [&] {
    return template_kernel("search.h", "search_sorted", "SearchArgs",
                           str("search_sorted<", dtype_text(q->dtype), ", facula::int", narrow ? 32 : 64, "_t, ",
                               sorter ? "true" : "false", ">"),
                           kTeamThreads);
  });
  SearchArguments a;
  a.sequence = q->data();
  if (sorter) a.sorter = reinterpret_cast<const int64_t*>(sorter->impl()->data());
  a.values = v->data();
  a.out = out.impl()->data();
  a.n = q->sizes.back();
  a.row = q->dim() == 1 ? v->numel : v->sizes.back();
  a.total = v->numel;
  a.right = right;
  a.fault = fault_buffer(work.device());
  a.op = static_cast<int64_t>(reinterpret_cast<intptr_t>("searchsorted: sorter"));
  KernelArguments args;
  args.put(a);
  launch(kernel, {blocks_for(a.total, kTeamThreads, work.op())}, {kTeamThreads}, 0, args.pointers(), work);
}

void isin_gpu(const Tensor& elements, const Tensor& sorted, bool invert, const Tensor& out) {
  const TensorImpl* e = elements.impl();
  if (e->numel == 0) return;
  const TensorWork work("isin", {&elements, &sorted, &out});
  static auto* table = new KernelTable<kNumScalarTypes>;
  const Kernel& kernel = table->get(index_of(e->dtype), [&] {
    return template_kernel("search.h", "is_in", "SearchArgs", str("is_in<", dtype_text(e->dtype), ">"), kTeamThreads);
  });
  SearchArguments a;
  a.sequence = sorted.impl()->data();
  a.values = e->data();
  a.out = out.impl()->data();
  a.n = sorted.impl()->numel;
  a.total = e->numel;
  a.invert = invert;
  KernelArguments args;
  args.put(a);
  launch(kernel, {blocks_for(a.total, kTeamThreads, work.op())}, {kTeamThreads}, 0, args.pointers(), work);
}

uint32_t count_blocks(int64_t n) {
  return static_cast<uint32_t>(std::min(kCountBlocks, ceil_div(n, kTeamThreads * 4)));
}

// The least and the greatest element, as int64 or double. Waits for the GPU.
template <class V>
std::pair<V, V> extremes(const TensorImpl* t, const Work& work) {
  static auto* table = new KernelTable<kNumScalarTypes + 1>;
  const char* type = sizeof(V) == sizeof(double) && std::is_floating_point_v<V> ? "double" : "facula::int64_t";
  const Kernel& first = table->get(index_of(t->dtype), [&] {
    return template_kernel("search.h", "extremes_of", "CountArgs",
                           str("extremes_of<", dtype_text(t->dtype), ", ", type, ">"), kTeamThreads);
  });
  const Kernel& second = table->get(kNumScalarTypes, [&] {
    return template_kernel("search.h", "extremes_of_blocks", "CountArgs", str("extremes_of_blocks<", type, ">"),
                           kLastThreads);
  });
  const uint32_t blocks = count_blocks(t->numel);
  DeviceScratch memory(work.device, (blocks + 1) * 2 * sizeof(V), work.op);
  CountArguments a;
  a.in = t->data();
  a.n = t->numel;
  a.out = memory.data();
  KernelArguments args;
  args.put(a);
  launch(first, {blocks}, {kTeamThreads}, 0, args.pointers(), work);
  a.in = memory.data();
  a.n = blocks;
  a.out = memory.data() + blocks * 2 * sizeof(V);
  KernelArguments last;
  last.put(a);
  launch(second, {1}, {kLastThreads}, 0, last.pointers(), work);
  V found[2];
  read_small(found, a.out, sizeof(found), work);
  return {found[0], found[1]};
}

void count_into(const Kernel& kernel, CountArguments a, const Work& work) {
  fill_bytes(a.out, 0, static_cast<size_t>(a.bins) * sizeof(int64_t), work);
  if (a.n == 0) return;
  a.in_shared = a.bins <= kSharedBins;
  KernelArguments args;
  args.put(a);
  launch(kernel, {count_blocks(a.n)}, {kTeamThreads},
         a.in_shared ? static_cast<uint32_t>(a.bins) * static_cast<uint32_t>(sizeof(uint32_t)) : 0, args.pointers(),
         work);
}

// Sums of weights at numbers, in their order.
void sum_weights(const Tensor& numbers, const Tensor& weights, const Tensor& out) {
  const TensorImpl* o = out.impl();
  IndexWalk w;
  w.error.prefix = "bincount: ";
  w.memory.add({&out, &numbers, &weights});
  w.self = o->data();
  w.other = weights.impl()->data();
  w.count = numbers.impl()->numel;
  w.other_step = 1;
  w.rest.normalise(0);
  w.terms = 1;
  w.term[0] = {reinterpret_cast<const int64_t*>(numbers.impl()->data()), 1, o->numel, 1, 0};
  EntryWalk walk(w);
  walk.work.op = "bincount";
  fill_bytes(o->data(), 0, static_cast<size_t>(o->numel) * sizeof(double), walk.work);
  fold_at_indices(walk, kDouble, Combine::Add);
}

void bincount_gpu(const Tensor& self, const Tensor* weights, int64_t minlength, FunctionRef<Tensor(int64_t)> make) {
  const TensorWork work("bincount", {&self, weights});
  const auto [low, high] = extremes<int64_t>(self.impl(), work);
  FACULA_CHECK(low >= 0, ValueError,
               "bincount: only supports 1-d non-negative integral inputs, but the smallest entry is ", low);
  const Tensor out = make(std::max(high + 1, minlength));
  if (weights) return sum_weights(self, *weights, out);
  static auto* table = new KernelTable<1>;
  const Kernel& kernel = table->get(
      0, [] { return template_kernel("search.h", "count_numbers", "CountArgs", "count_numbers", kTeamThreads); });
  CountArguments a;
  a.in = self.impl()->data();
  a.n = self.impl()->numel;
  a.out = out.impl()->data();
  a.bins = out.impl()->numel;
  count_into(kernel, a, work);
}

void histc_gpu(const Tensor& self, double low, double high, const Tensor& counts) {
  const TensorImpl* t = self.impl();
  const TensorWork work("histc", {&self, &counts});
  if (low == high && t->numel > 0) std::tie(low, high) = extremes<double>(t, work);
  FACULA_CHECK(std::isfinite(low) && std::isfinite(high), ValueError, "histc: range of [", low, ", ", high,
               "] is not finite; give min and max");
  if (low == high) {
    low -= 1;
    high += 1;
  }
  static auto* table = new KernelTable<kNumScalarTypes>;
  const Kernel& kernel = table->get(index_of(t->dtype), [&] {
    return template_kernel("search.h", "histogram", "CountArgs", str("histogram<", dtype_text(t->dtype), ">"),
                           kTeamThreads);
  });
  CountArguments a;
  a.in = t->data();
  a.n = t->numel;
  a.out = counts.impl()->data();
  a.bins = counts.impl()->numel;
  a.low = low;
  a.high = high;
  count_into(kernel, a, work);
}

const KernelRegistration searchsorted_registration(OpId::searchsorted, DeviceType::CUDA, &searchsorted_gpu);
const KernelRegistration isin_registration(OpId::isin, DeviceType::CUDA, &isin_gpu);
const KernelRegistration bincount_registration(OpId::bincount, DeviceType::CUDA, &bincount_gpu);
const KernelRegistration histc_registration(OpId::histc, DeviceType::CUDA, &histc_gpu);

}  // namespace
}  // namespace facula::gpu
