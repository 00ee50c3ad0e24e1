// The part of the software GPU that is linked into every compiled kernel: the variables of a thread's place, and the checks that
// the compiler calls before each load and store. Compiled without those checks.
#include "device_abi.h"

#define HIDDEN extern "C" __attribute__((visibility("hidden")))
#define EXPORTED extern "C" __attribute__((visibility("default")))

extern "C" {
__attribute__((visibility("hidden"))) simgpu_place simgpu_here;
}
extern "C" {
__attribute__((visibility("hidden"))) const simgpu_services* simgpu_engine;
}
static simgpu_reach* reach;
static thread_local unsigned char shared_anchor;

EXPORTED simgpu_place* simgpu_attach(const simgpu_services* services, simgpu_reach* where) {
  simgpu_engine = services;
  reach = where;
  return &simgpu_here;
}

// Makes the shared variables of this thread exist.
EXPORTED void* simgpu_touch_shared() {
  asm volatile("" : : "r"(&shared_anchor) : "memory");
  return &shared_anchor;
}

namespace {

template <unsigned kBytes>
inline bool all_written(const unsigned char* written) {
  if constexpr (kBytes == 1) return *written;
  if constexpr (kBytes == 2) return *reinterpret_cast<const unsigned short*>(written) == 0x0101u;
  if constexpr (kBytes == 4) return *reinterpret_cast<const unsigned*>(written) == 0x01010101u;
  if constexpr (kBytes >= 8) {
    auto* words = reinterpret_cast<const unsigned long*>(written);
    return words[0] == 0x0101010101010101ul && (kBytes == 8 || words[1] == 0x0101010101010101ul);
  }
}

template <unsigned kBytes>
inline void mark_written(unsigned char* written) {
  __builtin_memset(written, 1, kBytes);
}

inline bool lies_in(unsigned long base, unsigned long size, unsigned long address, unsigned long bytes) {
  return address - base < size && size - (address - base) >= bytes;
}

// Whether another thread's access at `stamp` was not followed by a barrier that both took part in.
inline bool is_unordered(const simgpu_races& r, unsigned stamp) {
  const unsigned other = stamp & ((1u << SIMGPU_STAMP_THREAD_BITS) - 1), time = stamp >> SIMGPU_STAMP_THREAD_BITS;
  if (time < r.block_began || other == r.thread) return false;
  const unsigned warp = r.thread / r.lanes;
  return other / r.lanes != warp || time >= r.warp_began[warp];
}

__attribute__((noinline)) void check_race(simgpu_races& r, unsigned long at, unsigned long bytes, bool write,
                                          unsigned long address) {
  const unsigned stamp = r.now << SIMGPU_STAMP_THREAD_BITS | r.thread;
  const unsigned mask = (1u << SIMGPU_STAMP_THREAD_BITS) - 1;
  for (unsigned long i = at; i < at + bytes; ++i) {
    if (is_unordered(r, r.writes[i])) simgpu_engine->race(address, bytes, write, r.writes[i] & mask, true);
    if (write && is_unordered(r, r.reads[i])) simgpu_engine->race(address, bytes, write, r.reads[i] & mask, false);
    (write ? r.writes : r.reads)[i] = stamp;
  }
}

// The thread's stack, the block's shared memory, the library's own variables.
inline bool is_nearby(unsigned long address, unsigned long bytes, bool write, bool atomic) {
  if (lies_in(reach->stack_base, reach->stack_bytes, address, bytes)) return true;
  const bool dynamic = lies_in(reach->dynamic_base, reach->dynamic_bytes, address, bytes);
  if (dynamic || lies_in(reach->shared_base, reach->shared_bytes, address, bytes)) {
    if (reach->races && !atomic)
      check_race(*reach->races,
                 dynamic ? address - reach->dynamic_base + SIMGPU_STATIC_SHARED_MAX : address - reach->shared_base,
                 bytes, write, address);
    return true;
  }
  return lies_in(reach->image_base, reach->image_bytes, address, bytes);
}

template <unsigned kBytes, bool kWrite>
inline void check(unsigned long address) {
  unsigned long offset = address - reach->arena_base;
  if (__builtin_expect(offset < reach->arena_bytes, 1)) {
    // Sixteen bytes are often two eights (a struct of two doubles); what is smaller sits on its own alignment.
    unsigned long alignment = kBytes == 16 ? 8 : kBytes;
    if (__builtin_expect((offset & 511) + kBytes <= reach->granules[offset >> 9] && offset % alignment == 0, 1)) {
      unsigned char* written = reach->written + offset;
      if constexpr (kWrite) {
        mark_written<kBytes>(written);
        return;
      } else if (__builtin_expect(all_written<kBytes>(written) || !reach->check_written, 1)) {
        return;
      }
    }
  } else if (is_nearby(address, kBytes, kWrite, false)) {
    return;
  }
  simgpu_engine->check(address, kBytes, kWrite, true);
}

}  // namespace

#define SIMGPU_CHECKS(bytes)                                                                        \
  HIDDEN void __asan_load##bytes##_noabort(unsigned long address) { check<bytes, false>(address); } \
  HIDDEN void __asan_store##bytes##_noabort(unsigned long address) { check<bytes, true>(address); }
SIMGPU_CHECKS(1)
SIMGPU_CHECKS(2)
SIMGPU_CHECKS(4)
SIMGPU_CHECKS(8)
SIMGPU_CHECKS(16)
#undef SIMGPU_CHECKS

HIDDEN void __asan_loadN_noabort(unsigned long address, unsigned long bytes) {
  if (!is_nearby(address, bytes, false, false)) simgpu_engine->check(address, bytes, false, false);
}
HIDDEN void __asan_storeN_noabort(unsigned long address, unsigned long bytes) {
  if (!is_nearby(address, bytes, true, false)) simgpu_engine->check(address, bytes, true, false);
}
HIDDEN void __asan_handle_no_return() {}

// Atomic operations read and write, and never race with each other.
HIDDEN void simgpu_check_atomic(unsigned long address, unsigned long bytes) {
  if (is_nearby(address, bytes, true, true)) return;
  simgpu_engine->check(address, bytes, false, true);
  simgpu_engine->check(address, bytes, true, true);
}

// For copies that the compiler leaves as calls.
HIDDEN void* simgpu_copy_bytes(void* to, const void* from, unsigned long bytes) {
  if (bytes == 0) return to;
  __asan_loadN_noabort(reinterpret_cast<unsigned long>(from), bytes);
  __asan_storeN_noabort(reinterpret_cast<unsigned long>(to), bytes);
  return __builtin_memmove(to, from, bytes);
}
HIDDEN void* simgpu_fill_bytes(void* to, int value, unsigned long bytes) {
  if (bytes == 0) return to;
  __asan_storeN_noabort(reinterpret_cast<unsigned long>(to), bytes);
  return __builtin_memset(to, value, bytes);
}

HIDDEN unsigned long long simgpu_active_lanes() { return simgpu_engine->active_lanes(); }
HIDDEN void* simgpu_dynamic_shared() { return simgpu_engine->dynamic_shared(); }
HIDDEN long long simgpu_clock() { return simgpu_engine->clock(); }
HIDDEN void simgpu_assert_failed(const char* condition, const char* file, int line) {
  simgpu_engine->assert_failed(condition, file, line);
}
HIDDEN void simgpu_trap() { simgpu_engine->trap(); }
