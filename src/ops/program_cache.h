// The cache of programs that are known by a number: one op over given dtypes. Programs that users write are kept by what
// they hold, in pointwise.cpp.
#pragma once

#include "ops/executable.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace facula {

// The program of `key`, which `make()` gives when it is asked for the first time. Every place that calls this has a cache of
// its own, since every lambda has a type of its own. 2^kRecentBits programs are found again without a lock. UINT64_MAX is no
// key.
template <int kRecentBits, class Make>
const Executable& cached_program(uint64_t key, const Make& make) {
  struct Entry {
    uint64_t key = UINT64_MAX;
    const Executable* program = nullptr;
  };
  // On the heap: what is thread-local in the library must be small, or a program that is running cannot load it.
  thread_local const std::unique_ptr<Entry[]> recent(new Entry[size_t{1} << kRecentBits]);
  Entry& entry = recent[(key * 0x9e3779b97f4a7c15ULL) >> (64 - kRecentBits)];
  if (entry.key == key) [[likely]]
    return *entry.program;
  static std::mutex mutex;
  // Never destroyed: other threads may still run when static objects go.
  static auto* programs = new std::unordered_map<uint64_t, std::unique_ptr<Executable>>;
  std::lock_guard lock(mutex);
  auto& slot = (*programs)[key];
  if (!slot) slot = std::make_unique<Executable>(make());
  entry = {key, slot.get()};
  return *slot;
}

}  // namespace facula
