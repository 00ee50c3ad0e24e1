// The passes of a sort by digits of 8 bits: count, add up, place (kernels/sort.h).
#include "gpu/primitives/radix.h"

#include <algorithm>

namespace facula::gpu {
namespace {

// As in kernels/sort.h.
constexpr int kThreads = 256, kDigits = 256, kOffsetThreads = 1024;
constexpr int64_t kTile = kThreads * 16;

// The order of members is that of kernels/sort.h.
struct Arguments {
  const void* keys;
  const uint32_t* places;
  void* sorted_keys;
  uint32_t* sorted_places;
  uint32_t* counts;
  int64_t n;
  int32_t tiles, shift;
};

enum Step : size_t { kCount, kOffsets, kPlace };
const Kernel& kernel_of(Step step, bool wide) {
  static auto* table = new KernelTable<6>;
  return table->get(step * 2 + wide, [&] {
    constexpr const char* kNames[] = {"radix_count", "radix_offsets", "radix_place"};
    const std::string type = step == kOffsets ? "" : wide ? "<facula::uint64_t>" : "<facula::uint32_t>";
    return template_kernel("sort.h", kNames[step], "RadixArgs", kNames[step] + type,
                           step == kOffsets ? kOffsetThreads : kThreads);
  });
}

size_t keys_bytes(int64_t lines, int64_t n, size_t key) { return padded(static_cast<size_t>(lines * n) * key); }
size_t counts_bytes(int64_t lines, int64_t n) {
  return static_cast<size_t>(lines * kDigits * ceil_div(n, kTile)) * sizeof(uint32_t);
}

}  // namespace

RadixSort::RadixSort(int64_t lines, int64_t n, size_t key_bytes, const Work& work)
    : lines_(lines),
      n_(n),
      key_bytes_(key_bytes),
      work_(work),
      tiles_(ceil_div(n, kTile)),
      memory_(work.device,
              2 * keys_bytes(lines, n, key_bytes) + 2 * keys_bytes(lines, n, sizeof(uint32_t)) + counts_bytes(lines, n),
              work.op) {
  FACULA_CHECK(n <= INT32_MAX, NotSupportedError, work.op, ": ", n,
               " entries are too many to be sorted together on a GPU; split the tensor");
  char* at = memory_.data();
  for (void*& keys : keys_) {
    keys = at;
    at += keys_bytes(lines, n, key_bytes);
  }
  for (uint32_t*& places : places_) {
    places = reinterpret_cast<uint32_t*>(at);
    at += keys_bytes(lines, n, sizeof(uint32_t));
  }
  counts_ = reinterpret_cast<uint32_t*>(at);
}

void RadixSort::run(int bits) {
  const bool wide = key_bytes_ == 8;
  FACULA_CHECK(lines_ <= 65535, NotSupportedError, work_.op, ": ", lines_, " long lines are too many for one launch");
  const Dim3 grid{static_cast<uint32_t>(tiles_), static_cast<uint32_t>(lines_)};
  for (int shift = 0; shift == 0 || shift < bits; shift += 8) {
    const Arguments a{keys_[at_], shift == 0 ? nullptr : places_[at_], keys_[1 - at_], places_[1 - at_], counts_,
                      n_,         static_cast<int32_t>(tiles_),        shift};
    KernelArguments args;
    args.put(a);
    launch(kernel_of(kCount, wide), grid, {kThreads}, 0, args.pointers(), work_);
    launch(kernel_of(kOffsets, false), {static_cast<uint32_t>(lines_)}, {kOffsetThreads}, 0, args.pointers(), work_);
    launch(kernel_of(kPlace, wide), grid, {kThreads}, 0, args.pointers(), work_);
    at_ = 1 - at_;
  }
}

}  // namespace facula::gpu
