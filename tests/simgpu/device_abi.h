// What the engine and a compiled kernel know of each other. Read by the engine, by the prelude of kernels and by the small
// runtime that is linked into each of them; includes nothing, since kernels must not see system headers.
#pragma once

extern "C" {

struct simgpu_dim3 {
  unsigned x, y, z;
};

// The variables that a kernel reads as threadIdx and so on. They live in the kernel's library; the engine writes them.
struct simgpu_place {
  simgpu_dim3 thread, block, block_size, grid_size;
};

// Who touched each byte of a block's shared memory last, and when: to find threads that do so without a barrier between them. A
// stamp is a time and a thread; time goes on with each barrier.
struct simgpu_races {
  unsigned *writes, *reads;    // stamps: first for the static part of shared memory, then for the dynamic one
  unsigned now;                // the time
  unsigned block_began;        // when all threads of the block last waited for each other
  const unsigned* warp_began;  // and those of each warp
  unsigned thread, lanes;      // who runs
};
enum { SIMGPU_STATIC_SHARED_MAX = 64 << 10, SIMGPU_DYNAMIC_SHARED_MAX = 256 << 10, SIMGPU_STAMP_THREAD_BITS = 10 };

// Where a kernel may look. The engine keeps one for each device; the fast path of every load and store reads it.
struct simgpu_reach {
  unsigned long arena_base, arena_bytes;    // this device's memory
  const unsigned short* granules;           // for each 512 bytes of it, how many belong to an allocation
  unsigned char* written;                   // for each byte of it, 1 when something was stored there
  unsigned long stack_base, stack_bytes;    // of the thread that runs
  unsigned long shared_base, shared_bytes;  // of the block that runs
  unsigned long dynamic_base, dynamic_bytes;
  unsigned long image_base, image_bytes;  // variables and constants of the kernel's library
  bool check_written;
  simgpu_races* races;  // nullptr: not looked for
};

enum simgpu_warp_op {
  SIMGPU_SHUFFLE,
  SIMGPU_SHUFFLE_UP,
  SIMGPU_SHUFFLE_DOWN,
  SIMGPU_SHUFFLE_XOR,
  SIMGPU_BALLOT,
  SIMGPU_ANY,
  SIMGPU_ALL,
  SIMGPU_MATCH,
  SIMGPU_SYNC_WARP
};

enum simgpu_barrier_op { SIMGPU_BARRIER, SIMGPU_BARRIER_COUNT, SIMGPU_BARRIER_AND, SIMGPU_BARRIER_OR };

// What the engine does for a kernel.
struct simgpu_services {
  int lanes;
  // Looks closely at an access that the fast path did not allow; does not return when it is a fault.
  void (*check)(unsigned long address, unsigned long bytes, bool write, bool exact);
  // Two threads touched the same shared memory with no barrier between them. Does not return.
  void (*race)(unsigned long address, unsigned long bytes, bool write, unsigned other, bool other_wrote);
  int (*barrier)(int op, int predicate);
  // Joins the lanes of `mask` (0: the lanes that are there) and gives this lane its share. `value` has `bytes` <= 16.
  unsigned long long (*warp)(int op, unsigned long long mask, const void* value, void* result, int bytes, int lane,
                             int width);
  unsigned long long (*active_lanes)();
  void* (*dynamic_shared)();
  long long (*clock)();
  void (*assert_failed)(const char* condition, const char* file, int line);
  void (*trap)();
};

// One for each kernel of a library, found by its name.
struct simgpu_kernel {
  const char* name;
  void (*run)(void** arguments);  // one thread
  // The threads of a block one after the other, for kernels in which threads do not wait for each other.
  void (*run_block)(void** arguments);
  int arguments;
  const unsigned* sizes;
  int max_threads;  // __launch_bounds__, 0 where none was given
};

}  // extern "C"

// In front of a compiled kernel's bytes. The magic word changes with anything above: a kernel that was kept from another day is refused.
#define SIMGPU_MAGIC "SIMGPU2"
struct simgpu_image_header {
  char magic[8];
  unsigned long long bytes;
  unsigned lanes;
  unsigned version;  // of the compiler, 12040 is 12.4
  unsigned ptx;      // text for a driver to finish (PTX) instead of a finished binary
  unsigned reserved;
  char chip[64];
};
