// index, index_put, gather and scatter on a GPU: elements that move as they are. Those that are folded are in index_fold.cpp.
#include "core/kernel_table.h"
#include "gpu/primitives/index_walk.h"

#include <algorithm>
#include <cstring>

namespace facula::gpu {
namespace {

// The dims of entries and rest together, in the order of memory.
EntryDims all_dims(const EntryWalk& walk) {
  EntryDims all = walk.entries;
  for (int d = 0; d < walk.rest.count; ++d) all.dims[all.count++] = walk.rest.dims[d];
  all.normalise(walk.value ? 0 : 1);
  return all;
}

// Elements of the innermost dim that move as one, where they are neighbours on both sides.
int64_t unit_of(const EntryWalk& walk, const EntryDims& all, size_t element) {
  const EntryDims::Dim& inner = all.dims[0];
  if (walk.value || inner.stride[0] != 1 || inner.stride[1] != 1 || inner.stride[2] != 0) return 1;
  for (auto unit = static_cast<int64_t>(16 / element); unit > 1; unit /= 2) {
    const size_t bytes = static_cast<size_t>(unit) * element;
    bool fits = inner.size % unit == 0 && reinterpret_cast<uintptr_t>(walk.self) % bytes == 0 &&
                reinterpret_cast<uintptr_t>(walk.other) % bytes == 0;
    for (int d = 1; d < all.count; ++d) fits &= all.dims[d].stride[0] % unit == 0 && all.dims[d].stride[1] % unit == 0;
    for (int k = 0; k < walk.terms; ++k) fits &= walk.term[k].stride % unit == 0;
    if (fits) return unit;
  }
  return 1;
}

// Dims that kernels are made for one by one; the rest go through one for any number.
constexpr int kExactDims = 4;

const Kernel& move_kernel(size_t bytes, bool wide, int dims, bool one_term, bool put) {
  static auto* table = new KernelTable<5 * 2 * (kExactDims + 1) * 2 * 2>;
  const int shown = dims <= kExactDims ? dims : kMostIndexDims;
  const size_t form = static_cast<size_t>(std::min(dims, kExactDims + 1)) - 1;
  const size_t number =
      (((static_cast<size_t>(std::countr_zero(bytes)) * 2 + wide) * (kExactDims + 1) + form) * 2 + one_term) * 2 + put;
  return table->get(number, [&] {
    const char* index = wide ? "facula::int64_t" : "facula::int32_t";
    return template_kernel("index.h", put ? "index_put" : "index_get", str("IndexArgs<", index, ">"),
                           str("index_move<", bytes, ", ", index, ", ", shown, ", ", one_term ? 1 : kMostIndexTerms,
                               ", ", put ? "true" : "false", ">"),
                           kIndexThreads);
  });
}

// Who is written last where entries meet.
struct Claims {
  const int32_t* winners = nullptr;
  const uint32_t* slots = nullptr;
  bool by_position = false;
};

template <class Index>
void move_as(const EntryWalk& walk, EntryDims all, size_t element, bool put, const Claims& claims) {
  const int64_t unit = claims.by_position ? 1 : unit_of(walk, all, element);
  IndexArgs<Index> a;
  a.set(walk);
  if (unit > 1) {
    all.dims[0].size /= unit;
    for (int d = 1; d < all.count; ++d)
      for (int k = 0; k < 2; ++k) all.dims[d].stride[k] /= unit;
    for (int k = 0; k < walk.terms; ++k) a.terms[k].stride /= unit;
  }
  a.set_dims(all, walk.work.op);
  if (walk.value) std::memcpy(a.value.bytes, walk.value, element);
  a.winners = claims.winners;
  a.slots = claims.slots;
  a.by_position = claims.by_position;
  KernelArguments args;
  args.put(a);
  launch(move_kernel(element * static_cast<size_t>(unit), sizeof(Index) == 8, all.count, walk.terms == 1, put),
         {blocks_for(all.numel(), kIndexThreads * kIndexTogether, walk.work.op)}, {kIndexThreads}, 0, args.pointers(),
         walk.work);
}

void move(const EntryWalk& walk, size_t element, bool put, const Claims& claims) {
  const EntryDims all = all_dims(walk);
  int64_t self_reach = all.reach(0);
  for (int k = 0; k < walk.terms; ++k) self_reach += std::max<int64_t>(walk.term[k].size - 1, 0) * walk.term[k].stride;
  const int64_t most = std::max({all.numel() + kIndexThreads * kIndexTogether, self_reach, all.reach(1), all.reach(2)});
  if (most < INT32_MAX) move_as<int32_t>(walk, all, element, put, claims);
  else move_as<int64_t>(walk, all, element, put, claims);
}

// The order of members is that of kernels/index.h.
struct ClaimArgs {
  IndexArgs<int64_t> walk;
  uint64_t* keys;
  int32_t* winners;
  uint32_t* slots;
  uint32_t mask;
};

const Kernel& claim_kernel() {
  static auto* table = new KernelTable<1>;
  return table->get(0,
                    [] { return template_kernel("index.h", "index_claim", "ClaimArgs", "index_claim", kTeamThreads); });
}

void put_set(EntryWalk walk, size_t element) {
  const int64_t entries = walk.entries.numel();
  const bool gather = walk.rest.count == 0;
  // One entry meets nobody, and equal values may be written in any order.
  if (entries <= 1 || walk.value) return move(walk, element, true, {});
  FACULA_CHECK(entries < (int64_t{1} << 30), NotSupportedError, walk.work.op, ": ", entries,
               " indices are too many for one call on a GPU; split the call");
  // Entries of a walk without rest are numbered as the walk that moves them goes.
  EntryDims dims = gather ? all_dims(walk) : walk.entries;
  if (!gather) dims.normalise(1);
  const auto room = std::bit_ceil(static_cast<uint64_t>(2 * entries));
  const size_t key_bytes = padded(room * sizeof(uint64_t)), winner_bytes = padded(room * sizeof(int32_t));
  DeviceScratch memory(walk.work.device, key_bytes + winner_bytes + static_cast<size_t>(entries) * sizeof(uint32_t),
                       walk.work.op);
  fill_bytes(memory.data(), 0xff, key_bytes + winner_bytes, walk.work);
  ClaimArgs a{};
  a.walk.set(walk);
  a.walk.set_dims(dims, walk.work.op);
  a.keys = memory.as<uint64_t>();
  a.winners = memory.as<int32_t>(key_bytes);
  a.slots = memory.as<uint32_t>(key_bytes + winner_bytes);
  a.mask = static_cast<uint32_t>(room - 1);
  KernelArguments args;
  args.put(a);
  launch(claim_kernel(), {blocks_for(entries, kTeamThreads, walk.work.op)}, {kTeamThreads}, 0, args.pointers(),
         walk.work);
  move(walk, element, true, {a.winners, a.slots, gather});
}

bool is_empty(const EntryWalk& walk) { return walk.entries.numel() == 0 || walk.rest.numel() == 0; }

void index_gpu(const IndexWalk& walk, size_t element) {
  EntryWalk w(walk);
  w.work.op = "index";
  if (!is_empty(w)) move(w, element, false, {});
}
void gather_gpu(const GatherWalk& walk, size_t element) {
  EntryWalk w(walk);
  w.work.op = "gather";
  if (!is_empty(w)) move(w, element, false, {});
}
void index_put_gpu(const IndexWalk& walk, ScalarType dtype, Combine combine) {
  EntryWalk w(walk);
  w.work.op = "index_put_";
  if (is_empty(w)) return;
  if (combine == Combine::Set) put_set(w, elementSize(dtype));
  else fold_at_indices(w, dtype, combine);
}
void scatter_gpu(const GatherWalk& walk, ScalarType dtype, Combine combine) {
  EntryWalk w(walk);
  w.work.op = "scatter_";
  if (is_empty(w)) return;
  if (combine == Combine::Set) put_set(w, elementSize(dtype));
  else fold_at_indices(w, dtype, combine);
}

const KernelRegistration index_registration(OpId::index, DeviceType::CUDA, &index_gpu);
const KernelRegistration index_put_registration(OpId::index_put, DeviceType::CUDA, &index_put_gpu);
const KernelRegistration gather_registration(OpId::gather, DeviceType::CUDA, &gather_gpu);
const KernelRegistration scatter_registration(OpId::scatter, DeviceType::CUDA, &scatter_gpu);

}  // namespace
}  // namespace facula::gpu
