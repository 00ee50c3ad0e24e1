#include "gpu/program/layout.h"

#include <facula/core/error.h>

#include <algorithm>
#include <bit>

namespace facula::gpu {

void Space::fix(size_t d, int64_t at) {
  count /= sizes[d];
  for (size_t a = 0; a < arrays; ++a) {
    data[a] = static_cast<char*>(data[a]) + at * strides[a][d] * widths[a];
    std::copy(strides[a] + d + 1, strides[a] + dims, strides[a] + d);
  }
  std::copy(sizes + d + 1, sizes + dims, sizes + d);
  --dims;
}

void Space::move_dim(size_t d, size_t to) {
  auto move = [&](int64_t* values) {
    if (to <= d) std::rotate(values + to, values + d, values + d + 1);
    else std::rotate(values + d, values + d + 1, values + to + 1);
  };
  move(sizes);
  for (size_t a = 0; a < arrays; ++a) move(strides[a]);
}

int64_t Space::reach() const {
  int64_t most = 0;
  for (size_t a = 0; a < arrays; ++a) {
    int64_t sum = 0;
    for (size_t d = 0; d < dims; ++d) sum += (sizes[d] - 1) * (strides[a][d] < 0 ? -strides[a][d] : strides[a][d]);
    most = std::max(most, sum);
  }
  return most;
}

void build_space(Space& s, const Program& program, IntArrayRef sizes, std::span<const ArrayArg> loads,
                 std::span<const ArrayArg> stores) {
  FACULA_CHECK(loads.size() + stores.size() <= kMaxArrays, NotSupportedError, "a program may use at most ", kMaxArrays,
               " arrays, this one has ", loads.size() + stores.size(), "; split it");
  s.dims = 0;
  s.arrays = loads.size() + stores.size();
  s.count = 1;
  for (int64_t n : sizes) s.count *= n;
  if (s.count == 0) return;

  const int64_t* raw[kMaxArrays];
  for (size_t a = 0; a < s.arrays; ++a) {
    const bool load = a < loads.size();
    const ArrayArg& array = load ? loads[a] : stores[a - loads.size()];
    raw[a] = array.strides;
    s.data[a] = array.data;
    s.widths[a] =
        static_cast<uint8_t>(elementSize(load ? program.loads()[a] : program.stores()[a - loads.size()].dtype));
  }
  // From the innermost: the later dim comes first among equals. Few dims, so that insertion is the fastest sort.
  const int64_t* key = raw[loads.size()];
  auto far = [&](size_t d) { return key[d] < 0 ? -key[d] : key[d]; };
  size_t order[kMaxDims], n = 0;
  for (size_t d = sizes.size(); d-- > 0;) {
    if (sizes[d] == 1) continue;
    size_t place = n++;
    for (; place > 0 && far(order[place - 1]) > far(d); --place) order[place] = order[place - 1];
    order[place] = d;
  }
  for (size_t k = 0; k < n; ++k) {
    const size_t d = order[k];
    bool merge = s.dims > 0;
    for (size_t a = 0; merge && a < s.arrays; ++a) merge = raw[a][d] == s.strides[a][s.dims - 1] * s.sizes[s.dims - 1];
    if (merge) {
      s.sizes[s.dims - 1] *= sizes[d];
      continue;
    }
    s.sizes[s.dims] = sizes[d];
    for (size_t a = 0; a < s.arrays; ++a) s.strides[a][s.dims] = raw[a][d];
    ++s.dims;
  }
  if (s.dims == 0) {
    s.dims = 1;
    s.sizes[0] = 1;
    for (size_t a = 0; a < s.arrays; ++a) s.strides[a][0] = 1;
  }
}

Divider32 divider32(uint32_t divisor) {
  const auto shift = static_cast<uint32_t>(std::bit_width(divisor - 1));
  const uint64_t above = (uint64_t{1} << shift) - divisor;
  return {divisor, static_cast<uint32_t>((above << 32) / divisor + 1), shift};
}

Divider64 divider64(uint64_t divisor) {
  const auto shift = static_cast<uint64_t>(std::bit_width(divisor - 1));
  const unsigned __int128 above = (static_cast<unsigned __int128>(1) << shift) - divisor;
  return {divisor, static_cast<uint64_t>((above << 64) / divisor + 1), shift};
}

}  // namespace facula::gpu
