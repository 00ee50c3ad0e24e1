// Sorting of keys that lie in device memory, by their digits: what sort and accumulating writes are made of.
#pragma once

#include "gpu/primitives/launching.h"

namespace facula::gpu {

// Lines of n keys each, unsigned integers of 4 or 8 bytes. At most 2^31 - 1 keys a line.
class RadixSort {
 public:
  RadixSort(int64_t lines, int64_t n, size_t key_bytes, const Work& work);

  // Where the caller writes the keys; what was sorted before is given up.
  void* start() {
    at_ = 0;
    return keys_[0];
  }
  // Sorts by the lowest `bits` bits; equal keys keep their order.
  void run(int bits);
  // Afterwards: the keys, and which key of its line each of them was.
  const void* sorted_keys() const { return keys_[at_]; }
  const uint32_t* places() const { return places_[at_]; }

 private:
  int64_t lines_, n_;
  size_t key_bytes_;
  Work work_;
  int64_t tiles_;
  DeviceScratch memory_;
  void* keys_[2];
  uint32_t* places_[2];
  uint32_t* counts_;
  int at_ = 0;
};

}  // namespace facula::gpu
