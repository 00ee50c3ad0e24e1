#include "core/host_allocator.h"

#include "core/env.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <vector>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FACULA_HOST_CACHE_OFF 1  // reuse would hide use-after-free from the sanitizer
#endif

namespace facula {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kCachedFrom = size_t{32} << 10;
constexpr size_t kMappedFrom = size_t{1} << 20;
constexpr size_t kHugePage = size_t{2} << 20;

size_t physical_memory() {
  return static_cast<size_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<size_t>(sysconf(_SC_PAGE_SIZE));
}

// Eight size classes per power of two: at most an eighth is wasted, and blocks find reuse among similar sizes.
size_t size_class(size_t nbytes) {
  int shift = std::bit_width(nbytes) - 4;
  size_t step = size_t{1} << (shift > 6 ? shift : 6);
  return (nbytes + step - 1) & ~(step - 1);
}

// Arrays that lie alike within a page slow each other down: a store seems to hit the loads that follow it, and rows of two
// matrices fall into the same cache sets (a product of 128 x 128 floats took twice its time). So neighbours are staggered
// by an odd number of cache lines.
constexpr size_t kStagger = 5 * kAlignment, kPage = 4096, kColours = 8;

void* system_allocate(size_t nbytes) {
  if (nbytes < kMappedFrom) {
    size_t room = nbytes < kCachedFrom ? nbytes : nbytes + kStagger;
    return std::aligned_alloc(kAlignment, (room + kAlignment - 1) & ~(kAlignment - 1));
  }
  // Over-committing kernels grant more than the machine has and kill the process later.
  static const size_t physical = physical_memory();
  if (nbytes > physical) return nullptr;
  void* p = mmap(nullptr, nbytes + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  if (nbytes >= 2 * kHugePage) madvise(p, nbytes, MADV_HUGEPAGE);
  static std::atomic<size_t> colour{0};
  return static_cast<char*>(p) + colour.fetch_add(1, std::memory_order_relaxed) % kColours * kStagger;
}

void system_free(void* p, size_t nbytes) {
  if (nbytes < kMappedFrom) return std::free(p);
  // The stagger is less than a page, so that the start of the mapping is the start of this one.
  auto start = reinterpret_cast<uintptr_t>(p) & ~(kPage - 1);
  munmap(reinterpret_cast<void*>(start), nbytes + kPage);
}

class HostCache {
 public:
  static HostCache& instance() {
    // Never destroyed: tensors in static variables may be freed after any destructor of ours.
    static HostCache* cache = new HostCache;
    return *cache;
  }

  void* take(size_t block) {
    std::lock_guard lock(mutex_);
    auto found = free_.find(block);
    if (found == free_.end() || found->second.empty()) return nullptr;
    void* p = found->second.back();
    found->second.pop_back();
    cached_ -= block;
    in_use_ += block;
    return p;
  }
  void note_allocated(size_t block) {
    std::lock_guard lock(mutex_);
    in_use_ += block;
  }
  // False when the block is not kept and must go back to the system.
  bool put(void* p, size_t block) {
    std::lock_guard lock(mutex_);
    in_use_ -= block;
    if (cached_ + block > limit_) return false;
    free_[block].push_back(p);
    cached_ += block;
    return true;
  }
  void clear() {
    std::map<size_t, std::vector<void*>> blocks;
    {
      std::lock_guard lock(mutex_);
      blocks.swap(free_);
      cached_ = 0;
    }
    for (auto& [block, pointers] : blocks)
      for (void* p : pointers) system_free(p, block);
  }
  HostMemoryStats stats() {
    std::lock_guard lock(mutex_);
    return {in_use_, cached_, limit_};
  }

 private:
  HostCache() {
    limit_ = physical_memory() / 8;
    if (auto text = env(EnvVar::HostCacheMb)) {
      size_t megabytes = 0;
      auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), megabytes);
      if (error == std::errc() && end == text->data() + text->size()) limit_ = megabytes << 20;
    }
#ifdef FACULA_HOST_CACHE_OFF
    limit_ = 0;
#endif
  }

  std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  size_t in_use_ = 0, cached_ = 0, limit_ = 0;
};

}  // namespace

void* host_allocate(size_t nbytes) noexcept {
  if (nbytes < kCachedFrom) return system_allocate(nbytes);
  if (nbytes > (size_t{1} << 62)) return nullptr;
  size_t block = size_class(nbytes);
  HostCache& cache = HostCache::instance();
  if (void* p = cache.take(block)) return p;
  void* p = system_allocate(block);
  if (!p) {
    cache.clear();
    p = system_allocate(block);
  }
  if (p) cache.note_allocated(block);
  return p;
}

void host_free(void* data, size_t nbytes) noexcept {
  if (!data) return;
  if (nbytes < kCachedFrom) return system_free(data, nbytes);
  size_t block = size_class(nbytes);
  if (!HostCache::instance().put(data, block)) system_free(data, block);
}

HostMemoryStats host_memory_stats() { return HostCache::instance().stats(); }
void empty_host_cache() { HostCache::instance().clear(); }

}  // namespace facula
