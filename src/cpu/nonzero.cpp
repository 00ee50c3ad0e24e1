// CPU kernels that follow the true entries of a mask: nonzero, masked_select, masked_scatter. The mask is cut into
// blocks of fixed length; their counts, summed up, tell every block where its entries begin, so blocks are
// independent.
#include "cpu/index.h"

#include "core/kernel_table.h"
#include "cpu/accumulate.h"
#include "cpu/parallel.h"
#include "cpu/rows.h"

#include <algorithm>
#include <cstring>

namespace facula {
namespace {

using namespace detail;

constexpr int64_t kBlock = 16384;
constexpr int64_t kStep = 1024;  // entries that are compacted into a buffer on the stack at a time

constexpr uint64_t kOnes = 0x0101'0101'0101'0101u;

// One in every byte that was not zero.
uint64_t nonzero_bytes(uint64_t x) {
  constexpr uint64_t kLow = 0x7f7f'7f7f'7f7f'7f7fu;
  return (((((x & kLow) + kLow) | x) & ~kLow) >> 7) & kOnes;
}

uint64_t load8(const uint8_t* p) {
  uint64_t x;
  std::memcpy(&x, p, 8);
  return x;
}

int64_t count_true(const uint8_t* mask, int64_t n) {
  int64_t count = 0, i = 0;
  while (i + 8 <= n) {
    // Sums of up to 255 words fit the bytes they are kept in.
    const int64_t words = std::min<int64_t>(255, (n - i) / 8);
    uint64_t sums = 0;
    for (int64_t k = 0; k < words; ++k) sums += nonzero_bytes(load8(mask + i + 8 * k));
    const uint64_t pairs = (sums & 0x00ff'00ff'00ff'00ffu) + ((sums >> 8) & 0x00ff'00ff'00ff'00ffu);
    count += static_cast<int64_t>((pairs * 0x0001'0001'0001'0001u) >> 48);
    i += 8 * words;
  }
  for (; i < n; ++i) count += mask[i] != 0;
  return count;
}

// The number of true entries before each block, and in all.
class BlockStarts {
 public:
  BlockStarts(const uint8_t* mask, int64_t n)
      : blocks_((n + kBlock - 1) / kBlock), scratch_(static_cast<size_t>(blocks_ + 1) * sizeof(int64_t)) {
    int64_t* counts = scratch_.as<int64_t>();
    parallel_for(0, blocks_, 4, [&](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b) counts[b] = count_true(mask + b * kBlock, std::min(kBlock, n - b * kBlock));
    });
    int64_t sum = 0;
    for (int64_t b = 0; b < blocks_; ++b) sum += std::exchange(counts[b], sum);
    counts[blocks_] = sum;
  }
  int64_t total() const { return scratch_.as<int64_t>()[blocks_]; }
  // Calls f(begin, end, start) for pieces of at most kStep entries of the mask; `start` true entries lie before the
  // piece. f returns how many lie in it.
  template <class F>
  void for_steps(int64_t n, F&& f) const {
    const int64_t* starts = scratch_.as<int64_t>();
    parallel_for(0, blocks_, 1, [&](int64_t first, int64_t last) {
      for (int64_t b = first; b < last; ++b) {
        int64_t start = starts[b];
        if (start == starts[b + 1]) continue;
        const int64_t end = std::min(n, (b + 1) * kBlock);
        for (int64_t i = b * kBlock; i < end; i += kStep) start += f(i, std::min(i + kStep, end), start);
      }
    });
  }

 private:
  int64_t blocks_;
  Scratch scratch_;
};

// Positions in [0, n) of true entries. Writes without branching on single entries; `out` needs room for n.
template <class I>
int64_t true_positions(const uint8_t* mask, int64_t n, I* out) {
  int64_t k = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint64_t bits = nonzero_bytes(load8(mask + i));
    if (bits == 0) continue;
    if (bits == kOnes) {
      for (int64_t b = 0; b < 8; ++b) out[k + b] = static_cast<I>(i + b);
      k += 8;
      continue;
    }
    for (int64_t b = 0; b < 8; ++b) {
      out[k] = static_cast<I>(i + b);
      k += static_cast<int64_t>((bits >> (8 * b)) & 1);
    }
  }
  for (; i < n; ++i) {
    out[k] = static_cast<I>(i);
    k += mask[i] != 0;
  }
  return k;
}

template <class T>
int64_t select_true(const T* values, const uint8_t* mask, int64_t n, T* out) {
  int64_t k = 0, i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint64_t bits = nonzero_bytes(load8(mask + i));
    if (bits == 0) continue;
    if (bits == kOnes) {
      std::memcpy(out + k, values + i, 8 * sizeof(T));
      k += 8;
      continue;
    }
    for (int64_t b = 0; b < 8; ++b) {
      out[k] = values[i + b];
      k += static_cast<int64_t>((bits >> (8 * b)) & 1);
    }
  }
  for (; i < n; ++i) {
    out[k] = values[i];
    k += mask[i] != 0;
  }
  return k;
}

const uint8_t* mask_bytes(const Tensor& mask) { return reinterpret_cast<const uint8_t*>(mask.impl()->data()); }

Tensor masked_select_cpu(const Tensor& self, const Tensor& mask, FunctionRef<Tensor(int64_t)> make) {
  const int64_t n = mask.impl()->numel;
  const uint8_t* bytes = mask_bytes(mask);
  const BlockStarts starts(bytes, n);
  Tensor result = make(starts.total());
  dispatch_size(elementSize(self.impl()->dtype), [&]<class T>() {
    const T* values = reinterpret_cast<const T*>(self.impl()->data());
    T* out = reinterpret_cast<T*>(result.impl()->data());
    starts.for_steps(n, [&](int64_t begin, int64_t end, int64_t start) {
      T buffer[kStep];
      const int64_t k = select_true(values + begin, bytes + begin, end - begin, buffer);
      std::memcpy(out + start, buffer, static_cast<size_t>(k) * sizeof(T));
      return k;
    });
  });
  return result;
}

void masked_scatter_cpu(const Tensor& self, const Tensor& mask, const Tensor& source) {
  const int64_t n = mask.impl()->numel;
  const uint8_t* bytes = mask_bytes(mask);
  const BlockStarts starts(bytes, n);
  FACULA_CHECK(starts.total() <= source.impl()->numel, ShapeError, "masked_scatter: the mask has ", starts.total(),
               " true entries, but source has only ", source.impl()->numel, " elements");
  dispatch_size(elementSize(self.impl()->dtype), [&]<class T>() {
    T* values = reinterpret_cast<T*>(self.impl()->data());
    const T* from = reinterpret_cast<const T*>(source.impl()->data());
    starts.for_steps(n, [&](int64_t begin, int64_t end, int64_t start) {
      uint16_t places[kStep];
      const int64_t k = true_positions(bytes + begin, end - begin, places);
      for (int64_t j = 0; j < k; ++j) values[begin + places[j]] = from[start + j];
      return k;
    });
  });
}

// Coordinates of ascending flat positions. Within a row of the last dim only the last coordinate changes.
class Coordinates {
 public:
  explicit Coordinates(IntArrayRef sizes) : sizes_(sizes), at_(sizes.size()), width_(sizes.back()) {}
  void write(int64_t position, int64_t* out, int64_t step) {
    if (position >= row_end_) move_to(position);
    const int64_t last = static_cast<int64_t>(sizes_.size()) - 1;
    for (int64_t d = 0; d < last; ++d) out[d * step] = at_[static_cast<size_t>(d)];
    out[last * step] = position - (row_end_ - width_);
  }

 private:
  void move_to(int64_t position) {
    int64_t row = position / width_;
    row_end_ = (row + 1) * width_;
    for (size_t d = sizes_.size() - 1; d-- > 0;) {
      at_[d] = row % sizes_[d];
      row /= sizes_[d];
    }
  }

  IntArrayRef sizes_;
  DimVector at_;
  int64_t width_;
  int64_t row_end_ = -1;
};

Tensor nonzero_cpu(const Tensor& mask, bool flat, FunctionRef<Tensor(int64_t)> make) {
  const TensorImpl* m = mask.impl();
  const int64_t n = m->numel;
  const uint8_t* bytes = mask_bytes(mask);
  const BlockStarts starts(bytes, n);
  Tensor result = make(starts.total());
  if (starts.total() == 0 || result.impl()->numel == 0) return result;
  const TensorImpl* r = result.impl();
  int64_t* out = reinterpret_cast<int64_t*>(r->data());
  const int64_t row_step = r->strides[0], column_step = flat ? 0 : r->strides[1];
  const bool one_column = flat || m->dim() == 1;
  starts.for_steps(n, [&](int64_t begin, int64_t end, int64_t start) {
    uint16_t places[kStep];
    const int64_t k = true_positions(bytes + begin, end - begin, places);
    int64_t* to = out + start * row_step;
    if (one_column) {
      for (int64_t j = 0; j < k; ++j) to[j * row_step] = begin + places[j];
    } else {
      Coordinates coordinates(m->sizes);
      for (int64_t j = 0; j < k; ++j) coordinates.write(begin + places[j], to + j * row_step, column_step);
    }
    return k;
  });
  return result;
}

const KernelRegistration masked_select_registration(OpId::masked_select, DeviceType::CPU, &masked_select_cpu);
const KernelRegistration masked_scatter_registration(OpId::masked_scatter, DeviceType::CPU, &masked_scatter_cpu);
const KernelRegistration nonzero_registration(OpId::nonzero, DeviceType::CPU, &nonzero_cpu);

}  // namespace
}  // namespace facula
