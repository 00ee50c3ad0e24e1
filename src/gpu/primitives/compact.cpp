// nonzero, masked_select and masked_scatter on a GPU, over kernels/compact.h.
#include "gpu/primitives/compact.h"

#include "core/kernel_table.h"
#include "cpu/index.h"

#include <algorithm>

namespace facula::gpu {
namespace {

constexpr int64_t kTile = 4096;  // as in kernels/compact.h
constexpr size_t kMostDims = 12;
constexpr int kStartThreads = 1024;

// The order of members is that of kernels/compact.h.
struct Arguments {
  const void* mask = nullptr;
  int64_t n = 0;
  int64_t* starts = nullptr;
  int64_t tiles = 0;
  const void* from = nullptr;
  void* to = nullptr;
  int64_t row_step = 1, column_step = 0;
  Divider64 sizes[kMostDims] = {};
  int32_t dims = 0;
};

enum Step : size_t { kCount, kStarts, kPositions, kSelect, kScatter = kSelect + 5, kSteps = kScatter + 5 };
const Kernel& kernel_of(size_t step) {
  static auto* table = new KernelTable<kSteps>;
  return table->get(step, [&] {
    constexpr const char* kNames[] = {"compact_count", "compact_starts", "compact_positions"};
    std::string name = step <= kPositions ? kNames[step] : step < kScatter ? "compact_select" : "compact_scatter";
    std::string function = name;
    if (step >= kSelect) function += str("<", 1 << (step - (step < kScatter ? kSelect : kScatter)), ">");
    return template_kernel("compact.h", name, "CompactArgs", function, step == kStarts ? kStartThreads : kTeamThreads);
  });
}

void run(size_t step, const Arguments& a, int64_t blocks, const Work& work) {
  KernelArguments args;
  args.put(a);
  launch(kernel_of(step), {blocks_for(blocks, 1, work.op)},
         {static_cast<uint32_t>(step == kStarts ? kStartThreads : kTeamThreads)}, 0, args.pointers(), work);
}

size_t size_number(size_t bytes) { return static_cast<size_t>(std::countr_zero(bytes)); }

Arguments of_mask(const void* mask, int64_t n, int64_t tiles, int64_t* starts) {
  Arguments a;
  a.mask = mask;
  a.n = n;
  a.tiles = tiles;
  a.starts = starts;
  return a;
}

}  // namespace

MaskTiles::MaskTiles(const void* mask, int64_t n, const Work& work)
    : mask_(mask),
      n_(n),
      tiles_(ceil_div(n, kTile)),
      work_(work),
      starts_(work.device, n == 0 ? 0 : static_cast<size_t>(tiles_ + 1) * sizeof(int64_t), work.op) {
  if (n == 0) return;
  const Arguments a = of_mask(mask_, n_, tiles_, starts_.as<int64_t>());
  run(kCount, a, tiles_, work_);
  run(kStarts, a, 1, work_);
  read_small(&total_, a.starts + tiles_, sizeof(total_), work_);
}

void MaskTiles::write_positions(int64_t* to) const {
  if (total_ == 0) return;
  Arguments a = of_mask(mask_, n_, tiles_, starts_.as<int64_t>());
  a.to = to;
  run(kPositions, a, tiles_, work_);
}

void MaskTiles::write_coordinates(int64_t* to, int64_t row_step, int64_t column_step, IntArrayRef sizes) const {
  if (total_ == 0) return;
  FACULA_CHECK(sizes.size() <= kMostDims, NotSupportedError, work_.op, ": on a GPU at most ", kMostDims,
               " dimensions are possible, but the mask has ", sizes.size());
  Arguments a = of_mask(mask_, n_, tiles_, starts_.as<int64_t>());
  a.to = to;
  a.row_step = row_step;
  a.column_step = column_step;
  a.dims = static_cast<int32_t>(sizes.size());
  for (size_t d = 0; d < sizes.size(); ++d) a.sizes[d] = divider64(static_cast<uint64_t>(sizes[sizes.size() - 1 - d]));
  run(kPositions, a, tiles_, work_);
}

void MaskTiles::select(const void* from, void* to, size_t bytes) const {
  if (total_ == 0) return;
  Arguments a = of_mask(mask_, n_, tiles_, starts_.as<int64_t>());
  a.from = from;
  a.to = to;
  run(kSelect + size_number(bytes), a, tiles_, work_);
}

void MaskTiles::scatter(const void* from, void* to, size_t bytes) const {
  if (total_ == 0) return;
  Arguments a = of_mask(mask_, n_, tiles_, starts_.as<int64_t>());
  a.from = from;
  a.to = to;
  run(kScatter + size_number(bytes), a, tiles_, work_);
}

namespace {

Tensor masked_select_gpu(const Tensor& self, const Tensor& mask, FunctionRef<Tensor(int64_t)> make) {
  const TensorWork work("masked_select", {&self, &mask});
  const MaskTiles tiles(mask.impl()->data(), mask.impl()->numel, work);
  Tensor result = make(tiles.total());
  tiles.select(self.impl()->data(), result.impl()->data(), elementSize(self.impl()->dtype));
  return result;
}

void masked_scatter_gpu(const Tensor& self, const Tensor& mask, const Tensor& source) {
  const TensorWork work("masked_scatter", {&self, &mask, &source});
  const MaskTiles tiles(mask.impl()->data(), mask.impl()->numel, work);
  FACULA_CHECK(tiles.total() <= source.impl()->numel, ShapeError, "masked_scatter: the mask has ", tiles.total(),
               " true entries, but source has only ", source.impl()->numel, " elements");
  tiles.scatter(source.impl()->data(), self.impl()->data(), elementSize(self.impl()->dtype));
}

Tensor nonzero_gpu(const Tensor& mask, bool flat, FunctionRef<Tensor(int64_t)> make) {
  const TensorWork work("nonzero", {&mask});
  const TensorImpl* m = mask.impl();
  const MaskTiles tiles(m->data(), m->numel, work);
  Tensor result = make(tiles.total());
  const TensorImpl* r = result.impl();
  if (r->numel == 0) return result;
  auto* to = reinterpret_cast<int64_t*>(r->data());
  if (flat) tiles.write_positions(to);
  else tiles.write_coordinates(to, r->strides[0], r->strides[1], m->sizes);
  return result;
}

const KernelRegistration masked_select_registration(OpId::masked_select, DeviceType::CUDA, &masked_select_gpu);
const KernelRegistration masked_scatter_registration(OpId::masked_scatter, DeviceType::CUDA, &masked_scatter_gpu);
const KernelRegistration nonzero_registration(OpId::nonzero, DeviceType::CUDA, &nonzero_gpu);

}  // namespace
}  // namespace facula::gpu
