// sort, topk and kthvalue on a GPU: short lines in one launch, long ones by digits of their keys.
#include "core/kernel_table.h"
#include "gpu/primitives/lines.h"
#include "gpu/primitives/radix.h"

#include <algorithm>

namespace facula::gpu {
namespace {

constexpr int64_t kShortLine = 4096;
constexpr int64_t kBlockRoom = 1024;    // entries of a block, where lines are shorter
constexpr int64_t kKeyBytes = 1 << 28;  // keys that long lines have at a time

// The order of members is that of kernels/sort.h.
struct Arguments {
  Lines lines;
  const uint32_t* places = nullptr;
  void* keys = nullptr;
  int64_t first = 0, count = 0, first_line = 0;
  int32_t length_shift = 0, room = 0, descending = 0;
};

const Kernel& typed_kernel(bool in_shared, ScalarType t) {
  static auto* table = new KernelTable<2 * kNumScalarTypes>;
  return table->get(index_of(t) * 2 + in_shared, [&] {
    const char* name = in_shared ? "sort_short" : "sort_keys";
    return template_kernel("sort.h", name, "SortArgs", str(name, "<", dtype_text(t), ">"),
                           in_shared ? 1024 : kTeamThreads);
  });
}
const Kernel& result_kernel(size_t bytes) {
  static auto* table = new KernelTable<4>;
  return table->get(static_cast<size_t>(std::countr_zero(bytes)), [&] {
    return template_kernel("sort.h", "sort_results", "SortArgs", str("sort_results<", bytes, ">"), kTeamThreads);
  });
}

void sort_short(Arguments& a, ScalarType t, const Work& work) {
  const int64_t length = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(a.lines.n)));
  a.length_shift = std::countr_zero(static_cast<uint64_t>(length));
  a.room = static_cast<int32_t>(std::max(kBlockRoom, length));
  const size_t key = elementSize(t) == 8 ? 8 : 4;
  const auto threads = static_cast<uint32_t>(std::min<int64_t>(1024, a.room / 2));
  KernelArguments args;
  args.put(a);
  launch(typed_kernel(true, t), {blocks_for(a.lines.count, a.room / length, work.op)}, {threads},
         static_cast<uint32_t>(static_cast<size_t>(a.room) * (key + 4)), args.pointers(), work);
}

// `lines` lines of the tensors, from a.first_line on.
void sort_long(Arguments a, ScalarType t, int64_t lines, const Work& work) {
  const size_t bytes = elementSize(t);
  RadixSort sort(lines, a.lines.n, bytes == 8 ? 8 : 4, work);
  a.keys = sort.start();
  const Dim3 all{blocks_for(a.lines.n, kTeamThreads, work.op), static_cast<uint32_t>(lines)};
  KernelArguments keys;
  keys.put(a);
  launch(typed_kernel(false, t), all, {kTeamThreads}, 0, keys.pointers(), work);
  sort.run(t == kBool ? 1 : static_cast<int>(8 * bytes));
  a.places = sort.places();
  KernelArguments results;
  results.put(a);
  launch(result_kernel(bytes), {blocks_for(a.count, kTeamThreads, work.op), static_cast<uint32_t>(lines)},
         {kTeamThreads}, 0, results.pointers(), work);
}

// Writes entries [first, first + count) of each sorted line.
void run(const char* op, const Tensor& self, int64_t dim, bool descending, int64_t first, int64_t count,
         const Tensor& values, const Tensor& indices) {
  if (values.impl()->numel == 0) return;
  const detail::RowWalk walk({&self, &values, &indices}, dim);
  Arguments a{Lines(walk, op)};
  a.first = first;
  a.count = count;
  a.descending = descending;
  const TensorWork work(op, {&self, &values, &indices});
  const ScalarType t = self.impl()->dtype;
  if (a.lines.n <= kShortLine) return sort_short(a, t, work);
  const int64_t most = std::clamp<int64_t>(kKeyBytes / (a.lines.n * 4), 1, 65535);
  const int64_t all = a.lines.count;
  for (int64_t line = 0; line < all; line += most) {
    a.first_line = line;
    sort_long(a, t, std::min(most, all - line), work);
  }
}

void sort_gpu(const Tensor& self, int64_t dim, bool descending, const Tensor& values, const Tensor& indices) {
  const int64_t n = self.impl()->dim() == 0 ? 1 : self.impl()->sizes[static_cast<size_t>(dim)];
  run("sort", self, dim, descending, 0, n, values, indices);
}
void topk_gpu(const Tensor& self, int64_t k, int64_t dim, bool largest, const Tensor& values, const Tensor& indices) {
  run("topk", self, dim, largest, 0, k, values, indices);
}
void kthvalue_gpu(const Tensor& self, int64_t k, int64_t dim, const Tensor& values, const Tensor& indices) {
  run("kthvalue", self, dim, false, k - 1, 1, values, indices);
}

const KernelRegistration sort_registration(OpId::sort, DeviceType::CUDA, &sort_gpu);
const KernelRegistration topk_registration(OpId::topk, DeviceType::CUDA, &topk_gpu);
const KernelRegistration kthvalue_registration(OpId::kthvalue, DeviceType::CUDA, &kthvalue_gpu);

}  // namespace
}  // namespace facula::gpu
