// Scans on a GPU: how lines are cut, and which kernel of kernels/scan.h walks them.
#include "core/kernel_table.h"
#include "gpu/primitives/lines.h"

#include <algorithm>
#include <cstdlib>

namespace facula::gpu {
namespace {

enum class ScanOp : uint8_t { Sum, Prod, Max, Min, LogSumExp };
constexpr const char* kNames[] = {"Sum", "Prod", "Max", "Min", "LogSumExp"};

constexpr int64_t kEnoughBlocks = 512;
constexpr int64_t kMostChunks = 256;
constexpr int64_t kTileChunk = 16384;  // the shortest chunk of a line that a block walks
constexpr int64_t kColumnChunk = 512;  // that one thread walks
constexpr size_t kStateBytes = 16;     // the largest state

// The order of members is that of kernels/scan.h.
struct Arguments {
  Lines lines;
  void* totals = nullptr;
  int64_t chunk = 0;
  int32_t chunks = 1, packed = 0;
};

struct Form {
  ScanOp op;
  ScalarType from, to;
  int pack;       // entries of a thread; 0: columns
  bool packed16;  // packs of 16 bytes rather than of one entry
  bool totals;
};

const Kernel& kernel_of(const Form& f) {
  static auto* table = new KernelTable<5 * kNumScalarTypes * kNumScalarTypes * 6>;
  const size_t kind = (f.pack == 0 ? 0 : f.packed16 ? 1 : 2) * 2 + f.totals;
  const size_t number =
      ((static_cast<size_t>(f.op) * kNumScalarTypes + index_of(f.from)) * kNumScalarTypes + index_of(f.to)) * 6 + kind;
  return table->get(number, [&] {
    const char* name = f.pack == 0 ? "scan_columns" : "scan_tiles";
    return template_kernel(
        "scan.h", name, "ScanArgs",
        str(name, "<facula::ScanOp::", kNames[static_cast<size_t>(f.op)], ", ", dtype_text(f.from), ", ",
            dtype_text(f.to), f.pack ? str(", ", f.pack) : "", ", ", f.totals ? "true" : "false", ">"),
        kTeamThreads);
  });
}

bool aligned_for(const void* data, size_t bytes, const Lines& lines, int array) {
  if (reinterpret_cast<uintptr_t>(data) % bytes != 0 || lines.along[array] != 1) return false;
  const auto pack = static_cast<int64_t>(bytes);
  for (int d = 0; d < lines.dims; ++d)
    if (lines.strides[array][d] % pack != 0) return false;  // more than is needed, and simple
  return true;
}

void run(const char* name, ScanOp op, const Tensor& self, int64_t dim, const Tensor& values, const Tensor* indices) {
  if (self.impl()->numel == 0) return;
  const detail::RowWalk walk =
      indices ? detail::RowWalk({&self, &values, indices}, dim) : detail::RowWalk({&self, &values}, dim);
  Arguments a{Lines(walk, name)};
  const TensorWork work(name, {&self, &values, indices});
  const ScalarType from = self.impl()->dtype, to = values.impl()->dtype;
  // Lines side by side: the next line is nearer than the next entry.
  const bool columns = walk.inner() >= 8 && std::abs(walk.row_stride(0)) < std::abs(walk.along[0]);
  Form form{op, from, to, 0, false, false};
  int64_t shortest = kColumnChunk, blocks = ceil_div(a.lines.count, kTeamThreads);
  if (!columns) {
    const size_t widest = std::max(elementSize(from), elementSize(to));
    const int pack = static_cast<int>(16 / widest);
    a.packed = pack > 1 && !indices &&
               aligned_for(a.lines.data[0], static_cast<size_t>(pack) * elementSize(from), a.lines, 0) &&
               aligned_for(a.lines.data[1], static_cast<size_t>(pack) * elementSize(to), a.lines, 1);
    form.packed16 = a.packed != 0;
    form.pack = form.packed16 ? pack : 4;
    shortest = kTileChunk;
    blocks = a.lines.count;
  }
  const int64_t wanted = std::min(kMostChunks, ceil_div(kEnoughBlocks, blocks));
  a.chunk = std::max(shortest, ceil_div(a.lines.n, wanted));
  if (!columns) a.chunk = ceil_div(a.chunk, 1024) * 1024;  // whole packs
  a.chunks = static_cast<int32_t>(ceil_div(a.lines.n, a.chunk));
  const Dim3 grid{columns ? blocks_for(a.lines.count, kTeamThreads, name) : blocks_for(a.lines.count, 1, name),
                  static_cast<uint32_t>(a.chunks)};
  DeviceScratch totals(work.device(), a.chunks > 1 ? static_cast<size_t>(a.lines.count * a.chunks) * kStateBytes : 0,
                       name);
  a.totals = totals.data();
  for (const bool first : {true, false}) {
    if (first && a.chunks == 1) continue;
    form.totals = first;
    KernelArguments args;
    args.put(a);
    launch(kernel_of(form), grid, {kTeamThreads}, 0, args.pointers(), work);
  }
}

void cumsum_gpu(const Tensor& self, int64_t dim, const Tensor& out) {
  run("cumsum", ScanOp::Sum, self, dim, out, nullptr);
}
void cumprod_gpu(const Tensor& self, int64_t dim, const Tensor& out) {
  run("cumprod", ScanOp::Prod, self, dim, out, nullptr);
}
void logcumsumexp_gpu(const Tensor& self, int64_t dim, const Tensor& out) {
  run("logcumsumexp", ScanOp::LogSumExp, self, dim, out, nullptr);
}
void cummax_gpu(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
  run("cummax", ScanOp::Max, self, dim, values, &indices);
}
void cummin_gpu(const Tensor& self, int64_t dim, const Tensor& values, const Tensor& indices) {
  run("cummin", ScanOp::Min, self, dim, values, &indices);
}

const KernelRegistration cumsum_registration(OpId::cumsum, DeviceType::CUDA, &cumsum_gpu);
const KernelRegistration cumprod_registration(OpId::cumprod, DeviceType::CUDA, &cumprod_gpu);
const KernelRegistration logcumsumexp_registration(OpId::logcumsumexp, DeviceType::CUDA, &logcumsumexp_gpu);
const KernelRegistration cummax_registration(OpId::cummax, DeviceType::CUDA, &cummax_gpu);
const KernelRegistration cummin_registration(OpId::cummin, DeviceType::CUDA, &cummin_gpu);

}  // namespace
}  // namespace facula::gpu
