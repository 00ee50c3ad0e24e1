// Sums, products and extremes at indices on a GPU: entries are sorted by their place, then folded in order (kernels/index_fold.h).
#include "core/kernel_table.h"
#include "gpu/primitives/index_walk.h"
#include "gpu/primitives/radix.h"
#include "program/compute_type.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace facula::gpu {
namespace {

constexpr int64_t kPiece = 64;  // as in kernels/index_fold.h
constexpr const char* kCombines[] = {"Set", "Add", "Mul", "Max", "Min"};

// The order of members is that of kernels/index_fold.h.
struct KeyArguments {
  IndexArgs<int64_t> walk;
  void* keys;
  uint64_t none;
  Divider64 unit;
};
struct Arguments {
  void* self;
  const void* other;
  const void* keys;
  const uint32_t* places;
  void* partials;
  uint64_t none, skipped;
  int64_t unit, entries, rest;
  IndexDims<int64_t> walk, inner;
  ElementBytes value;
  int32_t walk_dims, inner_dims, width_shift, by_frequency;
};

const Kernel& key_kernel(bool wide) {
  static auto* table = new KernelTable<2>;
  return table->get(wide, [&] {
    return template_kernel("index_fold.h", "fold_keys", "FoldKeyArgs",
                           str("fold_keys<facula::uint", wide ? 64 : 32, "_t>"), kTeamThreads);
  });
}
// `from` differs from `t` only where half types are added to floats.
const Kernel& fold_kernel(bool pieces, ScalarType t, ScalarType from, Combine combine, bool wide, int pack) {
  static auto* table = new KernelTable<kNumScalarTypes * 7 * 8>;
  const size_t form = t == from ? static_cast<size_t>(combine) : from == kHalf ? 5 : 6;
  const size_t number = ((index_of(t) * 7 + form) * 2 + pieces) * 4 + static_cast<size_t>(wide) * 2 + (pack > 1);
  return table->get(number, [&] {
    const char* name = pieces ? "fold_pieces" : "fold_entries";
    return template_kernel("index_fold.h", name, "FoldArgs",
                           str(name, "<", dtype_text(t), pieces ? "" : ", " + dtype_text(from),
                               ", facula::Combine::", kCombines[static_cast<size_t>(combine)], ", facula::uint",
                               wide ? 64 : 32, "_t, ", pack, ">"),
                           kTeamThreads);
  });
}

// Elements that are folded together, where those of the rest are neighbours on both sides.
int pack_of(const EntryWalk& walk, const EntryDims& rest, int64_t unit, ScalarType t) {
  const auto element = static_cast<int64_t>(elementSize(t)), pack = 16 / element;
  const EntryDims::Dim& inner = rest.dims[0];
  bool fits = !walk.value && inner.stride[0] == 1 && inner.stride[1] == 1 && inner.size % pack == 0 &&
              unit % pack == 0 && reinterpret_cast<uintptr_t>(walk.self) % 16 == 0 &&
              reinterpret_cast<uintptr_t>(walk.other) % 16 == 0;
  for (int d = 0; d < walk.entries.count; ++d) fits &= walk.entries.dims[d].stride[1] % pack == 0;
  for (int d = 1; d < rest.count; ++d) fits &= rest.dims[d].stride[0] % pack == 0 && rest.dims[d].stride[1] % pack == 0;
  return fits ? static_cast<int>(pack) : 1;
}

}  // namespace

void fold_at_indices(const EntryWalk& walk, ScalarType dtype, Combine combine, const FoldOptions& options) {
  const char* op = walk.work.op;
  EntryDims entries = walk.entries, rest = walk.rest;
  entries.normalise(1);
  rest.normalise(walk.value ? 0 : 1);
  // Offsets of entries in self are multiples of `unit`.
  int64_t unit = 0, reach = entries.reach(0);
  for (int d = 0; d < entries.count; ++d) unit = std::gcd(unit, entries.dims[d].stride[0]);
  for (int k = 0; k < walk.terms; ++k) {
    unit = std::gcd(unit, walk.term[k].stride);
    reach += std::max<int64_t>(walk.term[k].size - 1, 0) * walk.term[k].stride;
  }
  unit = std::max<int64_t>(unit, 1);
  const uint64_t none = static_cast<uint64_t>(reach / unit) + 1;
  const int bits = static_cast<int>(std::bit_width(none));
  const bool wide = bits > 32;
  const int64_t count = entries.numel();
  RadixSort sort(1, count, wide ? 8 : 4, walk.work);
  KeyArguments k{};
  k.walk.set(walk);
  k.walk.set_dims(entries, op);
  k.keys = sort.start();
  k.none = none;
  k.unit = divider64(static_cast<uint64_t>(unit));
  KernelArguments key_args;
  key_args.put(k);
  launch(key_kernel(wide), {blocks_for(count, kTeamThreads, op)}, {kTeamThreads}, 0, key_args.pointers(), walk.work);
  sort.run(bits);

  const ScalarType from = options.from == ScalarType::Undefined ? dtype : options.from;
  const int pack = pack_of(walk, rest, unit, dtype);
  if (pack > 1) {
    rest.dims[0].size /= pack;
    for (int d = 1; d < rest.count; ++d)
      for (int64_t& stride : rest.dims[d].stride) stride /= pack;
  }
  Arguments a{};
  a.self = walk.self;
  a.other = walk.other;
  a.keys = sort.sorted_keys();
  a.places = sort.places();
  a.none = none;
  a.skipped = options.skipped_index < 0 ? UINT64_MAX : static_cast<uint64_t>(options.skipped_index);
  a.by_frequency = options.by_frequency;
  a.unit = unit;
  a.entries = count;
  a.rest = rest.numel();
  a.walk.set(entries, op);
  a.inner.set(rest, op);
  a.walk_dims = entries.count;
  a.inner_dims = rest.count;
  if (walk.value) std::memcpy(a.value.bytes, walk.value, elementSize(dtype));
  a.width_shift = std::min(5, static_cast<int>(std::bit_width(static_cast<uint64_t>(a.rest))) - 1);
  const bool pieces = count > kPiece;
  const size_t compute = size_of(compute_type(dtype));
  DeviceScratch partials(walk.work.device,
                         pieces ? static_cast<size_t>(2 * (count / kPiece + 1) * a.rest * pack) * compute : 0, op);
  a.partials = partials.data();
  KernelArguments args;
  args.put(a);
  const Dim3 grid{blocks_for(count, kTeamThreads >> a.width_shift, op)};
  launch(fold_kernel(false, dtype, from, combine, wide, pack), grid, {kTeamThreads}, 0, args.pointers(), walk.work);
  if (pieces)
    launch(fold_kernel(true, dtype, from, combine, wide, pack), grid, {kTeamThreads}, 0, args.pointers(), walk.work);
}

namespace {

// Rows of `grad` (count, width) added up by their index into `sums` (rows, width) of the compute type.
void embedding_backward_gpu(const Tensor& grad, const Tensor& indices, int64_t padding_idx, bool by_frequency,
                            const Tensor& sums) {
  const TensorImpl *g = grad.impl(), *to = sums.impl();
  IndexWalk w;
  w.error.prefix = "embedding_dense_backward: index out of range: ";
  w.wrap = false;
  w.memory.add({&sums, &grad, &indices});
  w.self = to->data();
  w.other = g->data();
  w.count = g->sizes[0];
  w.other_step = g->sizes[1];
  w.rest.add(g->sizes[1], 1, 1);
  w.rest.normalise(0);
  w.terms = 1;
  w.term[0] = {reinterpret_cast<const int64_t*>(indices.impl()->data()), 1, to->sizes[0], to->sizes[1], 0};
  EntryWalk walk(w);
  walk.work.op = "embedding_dense_backward";
  fill_bytes(to->data(), 0, static_cast<size_t>(to->numel) * elementSize(to->dtype), walk.work);
  fold_at_indices(walk, to->dtype, Combine::Add, {g->dtype, padding_idx, by_frequency});
}

const KernelRegistration embedding_backward_registration(OpId::embedding_dense_backward, DeviceType::CUDA,
                                                         &embedding_backward_gpu);

}  // namespace
}  // namespace facula::gpu
