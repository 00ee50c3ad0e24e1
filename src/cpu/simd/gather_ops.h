// The inner loop of gathers: elements of 4 or 8 bytes picked by contiguous indices, checked and fetched in vectors.
#pragma once

#include <cstddef>
#include <cstdint>

namespace facula {

// other[j] = self[index[j]] for j below n. False when an index is outside [0, size); nothing is read out of range, and
// elements before the vector with the bad index are written.
bool gather_elements(const uint32_t* self, const int64_t* index, uint32_t* other, int64_t n, int64_t size);
bool gather_elements(const uint64_t* self, const int64_t* index, uint64_t* other, int64_t n, int64_t size);

}  // namespace facula
