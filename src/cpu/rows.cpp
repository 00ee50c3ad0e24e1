// Where the rows of tensors along a dimension lie. What is done with them lives in sort.cpp, topk.cpp and scan.cpp.
#include "cpu/rows.h"

namespace facula::detail {

RowWalk::RowWalk(std::initializer_list<const Tensor*> tensors, int64_t dim) {
  for (const Tensor* t : tensors) {
    const TensorImpl* impl = t->impl();
    data[operands] = impl->data();
    elem[operands] = static_cast<int64_t>(elementSize(impl->dtype));
    length[operands] = impl->dim() == 0 ? 1 : impl->sizes[static_cast<size_t>(dim)];
    along[operands] = length[operands] <= 1 ? 1 : impl->strides[static_cast<size_t>(dim)];
    ++operands;
  }
  const TensorImpl* first = (*tensors.begin())->impl();
  const auto magnitude = [](int64_t s) { return s < 0 ? -s : s; };
  for (int64_t d = 0; d < first->dim(); ++d) {
    const size_t u = static_cast<size_t>(d);
    const int64_t size = first->sizes[u];
    if (d == dim || size == 1) continue;
    rows *= size;
    size_t at = sizes.size();
    while (at > 0 && magnitude(strides[0][at - 1]) < magnitude(first->strides[u])) --at;
    sizes.insert(at, size);
    int i = 0;
    for (const Tensor* t : tensors) strides[i++].insert(at, t->impl()->strides[u]);
  }
  for (size_t d = sizes.size(); d-- > 1;) {
    bool joined = true;
    for (int i = 0; i < operands; ++i) joined = joined && strides[i][d - 1] == strides[i][d] * sizes[d];
    if (!joined) continue;
    sizes[d - 1] *= sizes[d];
    sizes.erase(d);
    for (int i = 0; i < operands; ++i) strides[i].erase(d - 1);
  }
  if (sizes.empty()) {
    sizes.push_back(1);
    for (int i = 0; i < operands; ++i) strides[i].push_back(length[i]);
  }
}

RowBlock row_block(const RowWalk& walk, int64_t block_rows, int64_t index) {
  const int64_t per_inner = (walk.inner() + block_rows - 1) / block_rows;
  RowBlock block;
  block.first = index % per_inner * block_rows;
  block.rows = std::min(block_rows, walk.inner() - block.first);
  int64_t rest = index / per_inner;
  int64_t offset[RowWalk::kMaxOperands];
  for (int i = 0; i < walk.operands; ++i) offset[i] = block.first * walk.row_stride(i);
  for (size_t d = walk.sizes.size() - 1; d-- > 0;) {
    const int64_t at = rest % walk.sizes[d];
    rest /= walk.sizes[d];
    for (int i = 0; i < walk.operands; ++i) offset[i] += at * walk.strides[i][d];
  }
  for (int i = 0; i < walk.operands; ++i) block.data[i] = walk.data[i] + offset[i] * walk.elem[i];
  return block;
}

}  // namespace facula::detail
