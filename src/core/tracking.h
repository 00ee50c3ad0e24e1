// Whether calls on a tensor must be watched: flags on the tensor and a mask of the thread. A call on plain tensors pays for
// one test of their flags. Who watches (the tape, dual numbers, batches) is in src/autograd.
#pragma once

#include <atomic>
#include <cstdint>

namespace facula::detail {

enum Tracking : uint8_t {
  kTracksGrad = 1,        // requires a gradient
  kTracksView = 2,        // a view: what happened to its base may concern it
  kTracksTangent = 4,     // carries tangents of forward mode
  kTracksBatch = 8,       // a batch that looks like one of its entries
  kTracksInference = 16,  // was made in inference mode
  kTracksPending = 64     // a gradient that is not computed yet: it has a geometry and no memory
};

// The flags of one tensor. Threads may read them while another one finds out that a view requires a gradient; nobody else
// writes to the flags of a shared tensor, so that plain stores do.
class Flags {
 public:
  constexpr Flags(uint8_t value = 0) : value_(value) {}
  Flags(const Flags&) = delete;
  operator uint8_t() const { return value_.load(std::memory_order_relaxed); }
  Flags& operator=(uint8_t value) {
    value_.store(value, std::memory_order_relaxed);
    return *this;
  }
  Flags& operator=(const Flags& other) { return *this = uint8_t(other); }
  Flags& operator|=(int flags) { return *this = static_cast<uint8_t>(*this | flags); }
  Flags& operator&=(int flags) { return *this = static_cast<uint8_t>(*this & flags); }

 private:
  std::atomic<uint8_t> value_;
};

struct ThreadModes {
  uint8_t mask = 0xff;  // flags that count in this thread
  bool grad = true;     // whether the tape records
  bool inference = false;
  uint8_t outer_mask = 0xff;  // `mask` and `grad` outside of the innermost Below
  bool outer_grad = true;
  uint32_t tangent_limit = UINT32_MAX;  // tangents of this level and above do not count
  uint32_t tangent_floor = 0;           // nor do those of levels below this one
};

// The library is loaded at start or with room to spare for a few bytes, so the quick model is safe.
extern constinit thread_local ThreadModes thread_modes __attribute__((tls_model("initial-exec")));

// While it lives, modes of this thread can change; they are put back at the end.
class KeepModes {
 public:
  KeepModes() : saved_(thread_modes) {}
  ~KeepModes() { thread_modes = saved_; }
  KeepModes(const KeepModes&) = delete;
  KeepModes& operator=(const KeepModes&) = delete;

 protected:
  ThreadModes saved_;
};

// Inside the computation of one op the tape and forward mode have done their part; batches are still taken apart.
class Below : KeepModes {
 public:
  Below() {
    thread_modes.outer_mask = saved_.mask;
    thread_modes.outer_grad = saved_.grad;
    thread_modes.mask &= kTracksBatch;
    thread_modes.grad = false;
  }
};

// Inside a batch rule: what the entries are made of may be tracked on its own.
class Above : KeepModes {
 public:
  Above() {
    if (saved_.mask == 0xff || saved_.mask != (saved_.mask & kTracksBatch)) return;
    thread_modes.mask = saved_.outer_mask;
    thread_modes.grad = saved_.outer_grad;
  }
};

}  // namespace facula::detail
