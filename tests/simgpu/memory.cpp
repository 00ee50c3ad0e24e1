// Memory of the software GPU: an arena of addresses for each device, with a note for each 512 bytes (how many belong to an
// allocation) and for each byte (whether it was written), page-locked host memory, and ranges that memory is mapped into.
#include "engine.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace simgpu {
namespace {

constexpr size_t kPage = 4096;
constexpr unsigned char kUnwrittenByte = 0xff;  // NaN in every floating type
// Where reservations begin in an arena: plain allocations live below.
constexpr size_t kReservationsFrom = kArenaBytes / 2;

size_t round_up(size_t n, size_t to) { return (n + to - 1) / to * to; }

unsigned short* granules_of(Device& device) { return const_cast<unsigned short*>(device.reach.granules); }

Device& device_at(uintptr_t address) {
  Engine& e = engine();
  return *e.devices[(address - e.arena) / kArenaBytes];
}

void* reserve_addresses(size_t bytes, int protection) {
  void* p = mmap(nullptr, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) {
    report("cannot reserve " + std::to_string(bytes >> 30) + " GiB of addresses");
    abort();
  }
  return p;
}

// Says which bytes of [offset, offset + bytes) belong to an allocation.
void set_granules(Device& device, size_t offset, size_t bytes, bool allocated) {
  unsigned short* granules = granules_of(device);
  for (size_t at = 0; at < bytes; at += kGranule)
    granules[(offset + at) / kGranule] =
        allocated ? static_cast<unsigned short>(std::min(kGranule, bytes - at)) : static_cast<unsigned short>(0);
}

bool page_is_free(Device& device, size_t page_offset) {
  const unsigned short* granules = granules_of(device) + page_offset / kGranule;
  return std::all_of(granules, granules + kPage / kGranule, [](unsigned short n) { return n == 0; });
}

// Forgets what was written there, and gives pages back to the host that hold nothing else.
void forget(Device& device, size_t offset, size_t bytes, bool drop_data) {
  size_t first = offset / kPage * kPage, last = round_up(offset + bytes, kPage);
  std::memset(device.reach.written + offset, 0, std::min(bytes, round_up(offset, kPage) - offset));
  size_t tail = (offset + bytes) / kPage * kPage;
  if (tail >= offset) std::memset(device.reach.written + tail, 0, offset + bytes - tail);
  if (first < last && !page_is_free(device, first)) first += kPage;
  if (first < last && !page_is_free(device, last - kPage)) last -= kPage;
  if (first >= last) return;
  madvise(device.reach.written + first, last - first, MADV_DONTNEED);
  if (drop_data) madvise(reinterpret_cast<void*>(device.arena + first), last - first, MADV_DONTNEED);
}

// A hole of `bytes` and a gap behind it, looked for upwards from where the last one was, so that addresses return late.
bool find_hole(Device& device, size_t bytes, size_t alignment, size_t& offset) {
  Engine& e = engine();
  const size_t gap = bytes >= 64 * kPage ? kPage : kGranule;
  for (int round = 0; round < 2; ++round) {
    size_t at = round_up(round == 0 ? device.next_address : kPage, alignment);
    while (at + bytes + gap <= kReservationsFrom) {
      auto next = e.regions.lower_bound(device.arena + at);
      if (next != e.regions.begin()) {
        const Region& before = std::prev(next)->second;
        uintptr_t end = before.base + before.bytes + kGranule;
        if (before.base >= device.arena && end > device.arena + at) {
          at = round_up(end - device.arena, alignment);
          continue;
        }
      }
      if (next != e.regions.end() && next->second.base < device.arena + at + bytes + gap) {
        at = round_up(next->second.base + next->second.bytes + gap - device.arena, alignment);
        continue;
      }
      offset = at;
      device.next_address = at + round_up(bytes, kGranule) + gap;
      return true;
    }
  }
  return false;
}

void remember_freed(const Region& region) {
  auto& freed = engine().freed;
  freed.push_back(region);
  if (freed.size() > 4096) freed.pop_front();
}

int arena_protection(const Engine& e) { return e.at_work > 0 || !options().guard ? PROT_READ | PROT_WRITE : PROT_NONE; }

}  // namespace

void open_arenas(Lock&) {
  Engine& e = engine();
  if (e.at_work++ == 0 && options().guard)
    mprotect(reinterpret_cast<void*>(e.arena), e.devices.size() * kArenaBytes, arena_protection(e));
}

void close_arenas(Lock&) {
  Engine& e = engine();
  if (--e.at_work == 0 && options().guard)
    mprotect(reinterpret_cast<void*>(e.arena), e.devices.size() * kArenaBytes, arena_protection(e));
}

void create_arenas(Engine& e) {
  const size_t devices = e.devices.size();
  e.arena = reinterpret_cast<uintptr_t>(reserve_addresses(devices * kArenaBytes, arena_protection(e)));
  e.written = static_cast<unsigned char*>(reserve_addresses(devices * kArenaBytes, PROT_READ | PROT_WRITE));
  auto* granules = static_cast<unsigned short*>(
      reserve_addresses(devices * kArenaBytes / kGranule * sizeof(unsigned short), PROT_READ | PROT_WRITE));
  for (size_t i = 0; i < devices; ++i) {
    Device& device = *e.devices[i];
    device.arena = e.arena + i * kArenaBytes;
    device.next_address = kPage;
    device.reach.arena_base = device.arena;
    device.reach.arena_bytes = kArenaBytes;
    device.reach.granules = granules + i * (kArenaBytes / kGranule);
    device.reach.written = e.written + i * kArenaBytes;
    device.reach.check_written = options().check_written;
  }
}

bool is_device_address(uintptr_t address) {
  Engine& e = engine();
  return address - e.arena < e.devices.size() * kArenaBytes;
}

const Region* find_region(uintptr_t address) {
  Engine& e = engine();
  auto after = e.regions.upper_bound(address);
  if (after == e.regions.begin()) return nullptr;
  const Region& region = std::prev(after)->second;
  return region.contains(address, 1) ? &region : nullptr;
}

bool is_covered(uintptr_t address, size_t bytes) {
  while (true) {
    const Region* region = find_region(address);
    if (!region) return bytes == 0;
    const size_t here = region->base + region->bytes - address;
    if (bytes <= here) return true;
    if (region->kind != RegionKind::Mapping) return false;
    address += here;
    bytes -= here;
  }
}

const Region* find_freed(uintptr_t address, size_t bytes) {
  auto& freed = engine().freed;
  for (auto it = freed.rbegin(); it != freed.rend(); ++it)
    if (it->contains(address, bytes)) return &*it;
  return nullptr;
}

std::string describe_address(uintptr_t address) {
  Engine& e = engine();
  char text[256];
  if (const Region* region = find_region(address)) {
    snprintf(text, sizeof text, "%zu bytes into %zu bytes at 0x%zx on device %d", address - region->base, region->bytes,
             region->base, region->device);
    return text;
  }
  if (const Region* region = find_freed(address, 1)) {
    snprintf(text, sizeof text, "%zu bytes into %zu bytes at 0x%zx on device %d, which were freed",
             address - region->base, region->bytes, region->base, region->device);
    return text;
  }
  auto after = e.regions.upper_bound(address);
  const Region* before = after == e.regions.begin() ? nullptr : &std::prev(after)->second;
  const Region* behind = after == e.regions.end() ? nullptr : &after->second;
  if (before && (!behind || address - before->base - before->bytes <= behind->base - address)) {
    snprintf(text, sizeof text, "%zu bytes behind %zu bytes at 0x%zx on device %d",
             address - before->base - before->bytes, before->bytes, before->base, before->device);
  } else if (behind) {
    snprintf(text, sizeof text, "%zu bytes before %zu bytes at 0x%zx on device %d", behind->base - address,
             behind->bytes, behind->base, behind->device);
  } else {
    snprintf(text, sizeof text, "nothing is allocated");
  }
  return text;
}

Code allocate(int index, uintptr_t& address, size_t bytes) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (bytes == 0) return kInvalidValue;
  if (Code code = forbid_in_capture(lock, index)) return code;
  Device& device = *e.devices[static_cast<size_t>(index)];
  const size_t rounded = round_up(bytes, kGranule);
  if (rounded < bytes || rounded > options().memory_bytes - device.used) return kOutOfMemory;
  size_t offset = 0;
  if (!find_hole(device, bytes, bytes >= 64 * kPage ? kPage : kGranule, offset)) return kOutOfMemory;
  device.used += rounded;
  address = device.arena + offset;
  e.regions[address] = {RegionKind::Allocation, address, bytes, index, uint64_t{1} << index, nullptr, 0};
  set_granules(device, offset, bytes, true);
  return kSuccess;
}

Code free_memory(uintptr_t address) {
  Engine& e = engine();
  Lock lock(e.mutex);
  auto it = e.regions.find(address);
  if (it == e.regions.end() || it->second.kind != RegionKind::Allocation) return kInvalidValue;
  const int index = it->second.device;
  if (Code code = quiet_for_free(lock, index)) return code;
  it = e.regions.find(address);
  if (it == e.regions.end()) return kInvalidValue;
  Region region = it->second;
  Device& device = *e.devices[static_cast<size_t>(index)];
  e.regions.erase(it);
  remember_freed(region);
  device.used -= round_up(region.bytes, kGranule);
  set_granules(device, address - device.arena, region.bytes, false);
  forget(device, address - device.arena, region.bytes, true);
  return kSuccess;
}

Code allocate_host(void*& address, size_t bytes, unsigned flags) {
  if (bytes == 0) return kInvalidValue;
  Engine& e = engine();
  Lock lock(e.mutex);
  if (Code code = forbid_in_capture(lock, -1)) return code;
  // A page of its own at either end, which nobody may touch.
  const size_t inner = round_up(bytes, kPage);
  auto* p = static_cast<char*>(mmap(nullptr, inner + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  if (p == MAP_FAILED) return kOutOfMemory;
  if (mprotect(p + kPage, inner, PROT_READ | PROT_WRITE) != 0) {
    munmap(p, inner + 2 * kPage);
    return kOutOfMemory;
  }
  address = p + kPage;
  const auto base = reinterpret_cast<uintptr_t>(address);
  e.regions[base] = {RegionKind::Host, base, bytes, 0, ~uint64_t{0}, nullptr, flags};
  return kSuccess;
}

Code free_host(void* address) {
  Engine& e = engine();
  Lock lock(e.mutex);
  auto it = e.regions.find(reinterpret_cast<uintptr_t>(address));
  if (it == e.regions.end() || it->second.kind != RegionKind::Host) return kInvalidValue;
  if (Code code = quiet_for_free(lock, -1)) return code;
  it = e.regions.find(reinterpret_cast<uintptr_t>(address));
  if (it == e.regions.end()) return kInvalidValue;
  munmap(static_cast<char*>(address) - kPage, round_up(it->second.bytes, kPage) + 2 * kPage);
  remember_freed(it->second);
  e.regions.erase(it);
  return kSuccess;
}

Code register_host(void* address, size_t bytes, unsigned flags) {
  Engine& e = engine();
  Lock lock(e.mutex);
  const auto base = reinterpret_cast<uintptr_t>(address);
  if (!address || bytes == 0 || is_device_address(base)) return kInvalidValue;
  if (Code code = forbid_in_capture(lock, -1)) return code;
  auto next = e.regions.lower_bound(base);
  if (find_region(base) || (next != e.regions.end() && next->second.base < base + bytes))
    return kHostMemoryAlreadyRegistered;
  e.regions[base] = {RegionKind::RegisteredHost, base, bytes, 0, ~uint64_t{0}, nullptr, flags};
  return kSuccess;
}

Code unregister_host(void* address) {
  Engine& e = engine();
  Lock lock(e.mutex);
  auto it = e.regions.find(reinterpret_cast<uintptr_t>(address));
  if (it == e.regions.end() || it->second.kind != RegionKind::RegisteredHost) return kHostMemoryNotRegistered;
  if (Code code = quiet_for_free(lock, -1)) return code;
  e.regions.erase(reinterpret_cast<uintptr_t>(address));
  return kSuccess;
}

Code reserve(int device, uintptr_t& address, size_t bytes) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (bytes == 0 || bytes % kMapGranularity != 0) return kInvalidValue;
  // In the arena of the device that is current, whose kernels reach it fast; any device's memory can be mapped there.
  const uintptr_t arena = e.devices[static_cast<size_t>(device)]->arena;
  uintptr_t at = round_up(arena + kReservationsFrom, kMapGranularity);
  for (auto it = e.reservations.lower_bound(at); it != e.reservations.end(); ++it) {
    if (it->first >= at + bytes + kMapGranularity) break;
    at = it->first + it->second + kMapGranularity;
  }
  if (at + bytes > arena + kArenaBytes) return kOutOfMemory;
  e.reservations[at] = bytes;
  address = at;
  return kSuccess;
}

Code unreserve(uintptr_t address, size_t bytes) {
  Engine& e = engine();
  Lock lock(e.mutex);
  auto it = e.reservations.find(address);
  if (it == e.reservations.end() || it->second != bytes) return kInvalidValue;
  auto mapped = e.regions.lower_bound(address);
  if (mapped != e.regions.end() && mapped->first < address + bytes) return kInvalidValue;
  e.reservations.erase(it);
  return kSuccess;
}

Code create_physical(uint64_t& handle, size_t bytes, int index) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (index < 0 || static_cast<size_t>(index) >= e.devices.size()) return kInvalidDevice;
  if (bytes == 0 || bytes % kMapGranularity != 0) return kInvalidValue;
  if (Code code = forbid_in_capture(lock, index)) return code;
  Device& device = *e.devices[static_cast<size_t>(index)];
  if (bytes > options().memory_bytes - device.used) return kOutOfMemory;
  auto physical = std::make_shared<Physical>();
  physical->file = memfd_create("simgpu-memory", MFD_CLOEXEC);
  if (physical->file < 0 || ftruncate(physical->file, static_cast<off_t>(bytes)) != 0) {
    if (physical->file >= 0) close(physical->file);
    return kOutOfMemory;
  }
  physical->handle = handle = e.next_physical++;
  physical->device = index;
  physical->bytes = bytes;
  device.used += bytes;
  e.physicals[handle] = physical;
  return kSuccess;
}

namespace {
// Memory lives until its handle is released and nothing maps it.
void drop_if_unused(Engine& e, const std::shared_ptr<Physical>& physical) {
  if (!physical->released || physical->mappings > 0) return;
  close(physical->file);
  e.devices[static_cast<size_t>(physical->device)]->used -= physical->bytes;
}
}  // namespace

Code release_physical(uint64_t handle) {
  Engine& e = engine();
  Lock lock(e.mutex);
  auto it = e.physicals.find(handle);
  if (it == e.physicals.end()) return kInvalidValue;
  auto physical = it->second;
  e.physicals.erase(it);
  physical->released = true;
  drop_if_unused(e, physical);
  return kSuccess;
}

Code map_physical(uintptr_t address, size_t bytes, size_t offset, uint64_t handle) {
  Engine& e = engine();
  Lock lock(e.mutex);
  auto it = e.physicals.find(handle);
  if (it == e.physicals.end() || bytes == 0 || bytes % kMapGranularity || address % kGranule || offset != 0 ||
      bytes != it->second->bytes)
    return kInvalidValue;
  auto range = e.reservations.upper_bound(address);
  if (range == e.reservations.begin()) return kInvalidValue;
  --range;
  if (address + bytes > range->first + range->second) return kInvalidValue;
  auto next = e.regions.lower_bound(address);
  if (find_region(address) || (next != e.regions.end() && next->first < address + bytes)) return kInvalidValue;
  auto physical = it->second;
  void* at = reinterpret_cast<void*>(address);
  if (mmap(at, bytes, arena_protection(e), MAP_SHARED | MAP_FIXED, physical->file, 0) == MAP_FAILED)
    return kOutOfMemory;
  e.regions[address] = {RegionKind::Mapping, address, bytes, physical->device, 0, physical, 0};
  // Bytes that were mapped elsewhere before may have been written there.
  if (physical->mapped_before) std::memset(e.written + (address - e.arena), 1, bytes);
  physical->mapped_before = true;
  ++physical->mappings;
  return kSuccess;
}

Code unmap(uintptr_t address, size_t bytes) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (Code code = quiet_for_free(lock, -1)) return code;
  // Whole mappings only, as many as the range covers.
  uintptr_t at = address;
  while (at < address + bytes) {
    auto it = e.regions.find(at);
    if (it == e.regions.end() || it->second.kind != RegionKind::Mapping) return kInvalidValue;
    at += it->second.bytes;
  }
  if (at != address + bytes) return kInvalidValue;
  at = address;
  while (at < address + bytes) {
    auto it = e.regions.find(at);
    Region region = it->second;
    Device& arena_owner = device_at(at);
    e.regions.erase(it);
    remember_freed(region);
    set_granules(arena_owner, at - arena_owner.arena, region.bytes, false);
    forget(arena_owner, at - arena_owner.arena, region.bytes, false);
    mmap(reinterpret_cast<void*>(at), region.bytes, arena_protection(e),
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    --region.physical->mappings;
    drop_if_unused(e, region.physical);
    at += region.bytes;
  }
  return kSuccess;
}

Code set_access(uintptr_t address, size_t bytes, int device, bool allow) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (device < 0 || static_cast<size_t>(device) >= e.devices.size()) return kInvalidDevice;
  for (uintptr_t at = address; at < address + bytes;) {
    auto it = e.regions.find(at);
    if (it == e.regions.end() || it->second.kind != RegionKind::Mapping) return kInvalidValue;
    Region& region = it->second;
    if (allow) region.access |= uint64_t{1} << device;
    else region.access &= ~(uint64_t{1} << device);
    // The fast path of loads and stores is the arena's owner; others ask for the region.
    Device& arena_owner = device_at(at);
    set_granules(arena_owner, at - arena_owner.arena, region.bytes, region.access >> arena_owner.index & 1);
    at += region.bytes;
  }
  return kSuccess;
}

Code move_bytes(uintptr_t to, uintptr_t from, size_t bytes) {
  Engine& e = engine();
  const bool to_device = is_device_address(to), from_device = is_device_address(from);
  std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  unsigned char* to_written = to_device ? e.written + (to - e.arena) : nullptr;
  const unsigned char* from_written = from_device ? e.written + (from - e.arena) : nullptr;
  if (to_device && from_device) {
    std::memmove(to_written, from_written, bytes);
  } else if (to_device) {
    std::memset(to_written, 1, bytes);
  } else if (from_device && std::memchr(from_written, 0, bytes)) {
    // What nobody wrote arrives as something that nobody takes for a result.
    for (size_t i = 0; i < bytes; ++i)
      if (!from_written[i]) reinterpret_cast<unsigned char*>(to)[i] = kUnwrittenByte;
  }
  return kSuccess;
}

Code fill_pattern(uintptr_t to, uint32_t value, int width, size_t count) {
  Engine& e = engine();
  if (width == 1) std::memset(reinterpret_cast<void*>(to), static_cast<int>(value), count);
  if (width == 2) std::fill_n(reinterpret_cast<uint16_t*>(to), count, static_cast<uint16_t>(value));
  if (width == 4) std::fill_n(reinterpret_cast<uint32_t*>(to), count, value);
  if (is_device_address(to)) std::memset(e.written + (to - e.arena), 1, count * static_cast<size_t>(width));
  return kSuccess;
}

Code check_access(Device& device, uintptr_t address, size_t bytes, bool write, bool exact, std::string& why) {
  Engine& e = engine();
  Lock lock(e.mutex);
  const Region* region = find_region(address);
  if (!region || !is_covered(address, bytes)) {
    why = "illegal address, " + describe_address(address);
    return kIllegalAddress;
  }
  const bool in_arena = is_device_address(address);
  if (exact && bytes <= 8 && address % bytes != 0) {
    why = "misaligned address, " + describe_address(address);
    return kMisalignedAddress;
  }
  if (!in_arena) {
    if (region->kind == RegionKind::Image && region->device != device.index) {
      why = "variable of another device";
      return kIllegalAddress;
    }
    return kSuccess;
  }
  const bool own = region->access >> device.index & 1;
  const bool peer = region->kind == RegionKind::Allocation && (device.peers >> region->device & 1);
  if (!own && !peer) {
    why = region->device == device.index ? "memory that is mapped without access, " + describe_address(address)
                                         : "memory of another device without peer access, " + describe_address(address);
    return kIllegalAddress;
  }
  unsigned char* written = e.written + (address - e.arena);
  if (write) {
    std::memset(written, 1, bytes);
  } else if (options().check_written) {
    if (const void* hole = std::memchr(written, 0, bytes)) {
      why = "memory that was never written, " +
            describe_address(address + static_cast<size_t>(static_cast<const unsigned char*>(hole) - written));
      return kIllegalAddress;
    }
  }
  return kSuccess;
}

}  // namespace simgpu
