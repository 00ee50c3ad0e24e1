#include "gpu/primitives/index_walk.h"

#include "core/sort_few.h"

#include <cstdlib>

namespace facula::gpu {

void EntryDims::normalise(int key) {
  sort_few(dims, dims + count,
           [key](const Dim& a, const Dim& b) { return std::abs(a.stride[key]) < std::abs(b.stride[key]); });
  int kept = 0;
  for (int i = 1; i < count; ++i) {
    Dim& inner = dims[kept];
    const Dim& outer = dims[i];
    bool joined = true;
    for (int k = 0; k < 3; ++k) joined &= outer.stride[k] == inner.stride[k] * inner.size;
    if (joined) inner.size *= outer.size;
    else dims[++kept] = outer;
  }
  if (count == 0) dims[0] = {1, {0, 0, 0}};
  count = kept + 1;
}

void EntryWalk::set_work(const WalkMemory& memory) {
  FACULA_INTERNAL_CHECK(memory.count > 0);
  work = {"index", memory.storages[0]->device().index(), {memory.storages, memory.count}};
}

EntryWalk::EntryWalk(const IndexWalk& walk)
    : self(walk.self),
      other(walk.value ? nullptr : walk.other),
      value(walk.value ? walk.other : nullptr),
      fault_name(walk.error.prefix),
      terms(walk.terms),
      wrap(walk.wrap),
      checked(walk.checked) {
  set_work(walk.memory);
  work.op = "index";
  FACULA_CHECK(terms <= kMostIndexTerms, NotSupportedError, "index: ", terms,
               " index tensors are more than a GPU takes at once; use at most ", kMostIndexTerms);
  for (int k = 0; k < terms; ++k)
    term[k] = {walk.term[k].values, walk.term[k].step, walk.term[k].size, walk.term[k].stride};
  entries.add(walk.count, 0, walk.other_step, 1);
  for (int d = 0; d < walk.rest.n; ++d) {
    const WalkDims::Dim& dim = walk.rest.dims[d];
    rest.add(dim.size, dim.stride[0], dim.stride[1], 0);
  }
}

EntryWalk::EntryWalk(const GatherWalk& walk)
    : self(walk.self),
      other(walk.value ? nullptr : walk.other),
      value(walk.value ? walk.other : nullptr),
      fault_name(walk.error.prefix),
      terms(1) {
  set_work(walk.memory);
  work.op = "gather";
  term[0] = {walk.index, 1, walk.size, walk.stride};
  entries.add(walk.length, 0, walk.other_step, walk.index_step);
  for (int d = 0; d < walk.rest.n; ++d) {
    const WalkDims::Dim& dim = walk.rest.dims[d];
    entries.add(dim.size, dim.stride[0], dim.stride[1], dim.stride[2]);
  }
}

}  // namespace facula::gpu
