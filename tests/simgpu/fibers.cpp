// How a kernel runs: the threads of a block are fibers of the device's thread, each with a stack of its own, which give way to each
// other where they wait. Kernels in which no thread waits run as plain calls. A fault leaves all fibers behind.
#include "engine.h"
#include "fiber_switch.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstring>

namespace simgpu {
namespace {

constexpr size_t kStackBytes = 128 << 10;
constexpr size_t kGuardBytes = 4096;
constexpr unsigned kMaxThreads = 1024;
constexpr unsigned char kSharedPoison = 0xff;
constexpr int kMaxLanes = 64;

enum class State : uint8_t { Fresh, Ready, AtBarrier, AtWarp, Done };

struct Thread {
  void* stack_pointer = nullptr;
  State state = State::Fresh;
  int op = 0;
  int predicate = 0;
  int answer = 0;
  // A warp operation: what this lane gives and what it gets.
  uint64_t mask = 0;
  int bytes = 0, argument = 0, width = 0;
  unsigned char value[16], result[16];
  uint64_t bits = 0;
};

}  // namespace

struct BlockRunner {
  Device* device = nullptr;
  char* stacks = nullptr;
  std::vector<bool> guarded = std::vector<bool>(kMaxThreads);
  std::vector<Thread> threads = std::vector<Thread>(kMaxThreads);
  std::vector<unsigned char> dynamic_shared;
  void* scheduler = nullptr;
  simgpu_races races = {};
  std::vector<unsigned> stamps, warp_began;

  const Function* function = nullptr;
  simgpu_place* place = nullptr;
  void** arguments = nullptr;
  unsigned count = 0, live = 0, at_barrier = 0, current = 0;
  bool plain = false;
  Code fault = kSuccess;
  std::string why;
};

namespace {

thread_local BlockRunner* running = nullptr;  // the kernel that this thread runs

// ---- leaving

[[noreturn]] void leave_with_fault(Code code, const std::string& why) {
  running->fault = code;
  running->why = why;
  void* dead = nullptr;
  simgpu_switch(&dead, running->scheduler);
  __builtin_unreachable();
}

std::string text(const char* format, ...) {
  char buffer[512];
  va_list list;
  va_start(list, format);
  vsnprintf(buffer, sizeof buffer, format, list);
  va_end(list);
  return buffer;
}

void give_way(BlockRunner& r) { simgpu_switch(&r.threads[r.current].stack_pointer, r.scheduler); }

// ---- waiting

int lanes() { return options().lanes; }

// Time is counted in few bits; a block that outlives it is no longer looked at.
void tick(BlockRunner& r, unsigned& began) {
  began = ++r.races.now;
  if (began >= (1u << (32 - SIMGPU_STAMP_THREAD_BITS)) - 2) r.device->reach.races = nullptr;
}

void release_barrier(BlockRunner& r) {
  int number = 0, op = -1;
  bool all = true, any = false;
  for (unsigned i = 0; i < r.count; ++i) {
    const Thread& t = r.threads[i];
    if (t.state != State::AtBarrier) continue;
    if (op >= 0 && t.op != op)
      leave_with_fault(kLaunchFailed, "threads of a block wait at barriers of different kinds");
    op = t.op;
    number += t.predicate != 0;
    all = all && t.predicate;
    any = any || t.predicate;
  }
  for (unsigned i = 0; i < r.count; ++i) {
    Thread& t = r.threads[i];
    if (t.state != State::AtBarrier) continue;
    t.state = State::Ready;
    t.answer = op == SIMGPU_BARRIER_COUNT ? number : op == SIMGPU_BARRIER_AND ? all : any;
  }
  r.at_barrier = 0;
  tick(r, r.races.block_began);
}

uint64_t live_lanes(BlockRunner& r, unsigned first) {
  uint64_t mask = 0;
  for (unsigned i = 0; i < static_cast<unsigned>(lanes()) && first + i < r.count; ++i)
    if (r.threads[first + i].state != State::Done) mask |= uint64_t{1} << i;
  return mask;
}

// Gives the lanes of `group` what each of them asked for.
void answer_warp(BlockRunner& r, unsigned first, uint64_t group) {
  tick(r, r.warp_began[first / static_cast<unsigned>(lanes())]);
  uint64_t ballot = 0;
  for (int i = 0; i < kMaxLanes; ++i) {
    if (!(group >> i & 1)) continue;
    int predicate;
    std::memcpy(&predicate, r.threads[first + static_cast<unsigned>(i)].value, sizeof predicate);
    if (predicate) ballot |= uint64_t{1} << i;
  }
  for (int i = 0; i < kMaxLanes; ++i) {
    if (!(group >> i & 1)) continue;
    Thread& t = r.threads[first + static_cast<unsigned>(i)];
    const int base = i & ~(t.width - 1), end = base + t.width;
    int source = i;
    switch (t.op) {
      case SIMGPU_SHUFFLE: source = base + (t.argument & (t.width - 1)); break;
      case SIMGPU_SHUFFLE_UP: source = i - t.argument < base ? i : i - t.argument; break;
      case SIMGPU_SHUFFLE_DOWN: source = i + t.argument >= end ? i : i + t.argument; break;
      case SIMGPU_SHUFFLE_XOR: source = (i ^ t.argument) >= end ? i : i ^ t.argument; break;
      case SIMGPU_BALLOT: t.bits = ballot; break;
      case SIMGPU_ANY: t.bits = ballot != 0; break;
      case SIMGPU_ALL: t.bits = ballot == group; break;
      case SIMGPU_MATCH:
        t.bits = 0;
        for (int j = 0; j < kMaxLanes; ++j)
          if ((group >> j & 1) && std::memcmp(t.value, r.threads[first + static_cast<unsigned>(j)].value,
                                              static_cast<size_t>(t.bytes)) == 0)
            t.bits |= uint64_t{1} << j;
        break;
      default: break;
    }
    if (t.op <= SIMGPU_SHUFFLE_XOR) {
      // What a lane gives that is not there is not defined: it gets what nobody takes for a result.
      if (source >= 0 && source < kMaxLanes && (group >> source & 1))
        std::memcpy(t.result, r.threads[first + static_cast<unsigned>(source)].value, static_cast<size_t>(t.bytes));
      else std::memset(t.result, kSharedPoison, sizeof t.result);
    }
  }
  for (int i = 0; i < kMaxLanes; ++i)
    if (group >> i & 1) r.threads[first + static_cast<unsigned>(i)].state = State::Ready;
}

// Lets lanes go on when all that `lane` waits for have come.
void try_warp(BlockRunner& r, unsigned first, unsigned lane) {
  const Thread& t = r.threads[first + lane];
  const uint64_t there = live_lanes(r, first);
  const uint64_t group = t.mask ? t.mask & there : there;
  for (unsigned i = 0; i < static_cast<unsigned>(lanes()); ++i) {
    if (!(group >> i & 1)) continue;
    const Thread& other = r.threads[first + i];
    if (other.state != State::AtWarp || other.op != t.op || other.mask != t.mask) return;
  }
  answer_warp(r, first, group);
}

void thread_finished(BlockRunner& r) {
  r.threads[r.current].state = State::Done;
  --r.live;
  if (r.live > 0 && r.at_barrier == r.live) release_barrier(r);
  const unsigned first = r.current / static_cast<unsigned>(lanes()) * static_cast<unsigned>(lanes());
  for (unsigned i = 0; i < static_cast<unsigned>(lanes()) && first + i < r.count; ++i)
    if (r.threads[first + i].state == State::AtWarp) try_warp(r, first, i);
}

// ---- services for kernels

void service_check(unsigned long address, unsigned long bytes, bool write, bool exact) {
  std::string why;
  if (Code code = check_access(*running->device, address, bytes, write, exact, why))
    leave_with_fault(code, text("%s of %lu bytes at 0x%lx: ", write ? "store" : "load", bytes, address) + why);
}

void service_race(unsigned long address, unsigned long bytes, bool write, unsigned other, bool other_wrote) {
  const simgpu_reach& reach = running->device->reach;
  const bool dynamic = address - reach.dynamic_base < reach.dynamic_bytes;
  const unsigned long offset = address - (dynamic ? reach.dynamic_base : reach.shared_base);
  leave_with_fault(
      kLaunchFailed,
      text("race in shared memory: %s of %lu bytes at byte %lu of the %s part, which thread %u of the block %s "
           "with no barrier between",
           write ? "store" : "load", bytes, offset, dynamic ? "dynamic" : "static", other,
           other_wrote ? "stored to" : "loaded from"));
}

int service_barrier(int op, int predicate) {
  BlockRunner& r = *running;
  if (r.plain) return op == SIMGPU_BARRIER_COUNT ? predicate != 0 : predicate;
  Thread& t = r.threads[r.current];
  t.state = State::AtBarrier;
  t.op = op;
  t.predicate = predicate;
  if (++r.at_barrier == r.live) release_barrier(r);
  else give_way(r);
  return t.answer;
}

unsigned long long service_warp(int op, unsigned long long mask, const void* value, void* result, int bytes, int lane,
                                int width) {
  BlockRunner& r = *running;
  Thread& t = r.threads[r.current];
  const unsigned first = r.current / static_cast<unsigned>(lanes()) * static_cast<unsigned>(lanes());
  const unsigned self = r.current - first;
  if (mask && !(mask >> self & 1))
    leave_with_fault(kLaunchFailed,
                     text("lane %u calls a warp operation with the mask 0x%llx, which leaves it out", self, mask));
  if (width <= 0 || width > lanes() || (width & (width - 1)))
    leave_with_fault(kLaunchFailed,
                     text("a shuffle of width %d; it must be a power of two, at most %d", width, lanes()));
  t.state = State::AtWarp;
  t.op = op;
  t.mask = mask;
  t.bytes = bytes;
  t.argument = lane;
  t.width = width;
  std::memset(t.value, 0, sizeof t.value);
  std::memcpy(t.value, value, static_cast<size_t>(bytes));
  try_warp(r, first, self);
  if (t.state != State::Ready) give_way(r);
  if (result) std::memcpy(result, t.result, static_cast<size_t>(bytes));
  return t.bits;
}

unsigned long long service_active_lanes() {
  BlockRunner& r = *running;
  const unsigned width = static_cast<unsigned>(lanes());
  return r.plain ? 1 : live_lanes(r, r.current / width * width);
}

void* service_dynamic_shared() { return reinterpret_cast<void*>(running->device->reach.dynamic_base); }

long long service_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void service_assert(const char* condition, const char* file, int line) {
  leave_with_fault(kAssert, text("%s:%d: assertion failed: %s", file, line, condition));
}

void service_trap() { leave_with_fault(kIllegalInstruction, "trap"); }

// ---- fibers

char* stack_of(BlockRunner& r, unsigned index) { return r.stacks + index * kStackBytes; }

void enter_thread(BlockRunner& r, unsigned index) {
  r.current = index;
  r.races.thread = index;
  simgpu_reach& reach = r.device->reach;
  reach.stack_base = reinterpret_cast<unsigned long>(stack_of(r, index)) + kGuardBytes;
  reach.stack_bytes = kStackBytes - kGuardBytes;
  const simgpu_dim3& size = r.place->block_size;
  r.place->thread = {index % size.x, index / size.x % size.y, index / size.x / size.y};
}

void fiber_main() {
  BlockRunner& r = *running;
  if (r.plain) {
    r.function->kernel->run_block(r.arguments);
    r.threads[0].state = State::Done;
  } else {
    r.function->kernel->run(r.arguments);
    thread_finished(r);
  }
  give_way(r);
  __builtin_unreachable();
}

void prepare(BlockRunner& r, unsigned index) {
  char* stack = stack_of(r, index);
  if (!r.guarded[index]) {
    mprotect(stack, kGuardBytes, PROT_NONE);
    r.guarded[index] = true;
  }
  r.threads[index].state = State::Fresh;
  r.threads[index].stack_pointer = simgpu_new_fiber(stack + kStackBytes, fiber_main);
}

std::string where(BlockRunner& r) {
  const simgpu_place& p = *r.place;
  return text("kernel %s, block (%u, %u, %u), thread (%u, %u, %u)", r.function->name.c_str(), p.block.x, p.block.y,
              p.block.z, p.thread.x, p.thread.y, p.thread.z);
}

// Nobody can go on. Operations without a mask are for the lanes that come: the first group that waits is let go.
bool release_those_that_came(BlockRunner& r) {
  const unsigned width = static_cast<unsigned>(lanes());
  for (unsigned first = 0; first < r.count; first += width) {
    uint64_t group = 0;
    const Thread* leader = nullptr;
    for (unsigned i = 0; i < width && first + i < r.count; ++i) {
      const Thread& t = r.threads[first + i];
      if (t.state != State::AtWarp || t.mask != 0) continue;
      if (!leader) leader = &t;
      if (t.op == leader->op && t.width == leader->width) group |= uint64_t{1} << i;
    }
    if (!group) continue;
    answer_warp(r, first, group);
    return true;
  }
  return false;
}

std::string describe_deadlock(BlockRunner& r) {
  unsigned barrier = 0, warp = 0;
  const Thread* at_warp = nullptr;
  unsigned warp_thread = 0;
  for (unsigned i = 0; i < r.count; ++i) {
    if (r.threads[i].state == State::AtBarrier) ++barrier;
    if (r.threads[i].state == State::AtWarp) {
      ++warp;
      if (!at_warp) {
        at_warp = &r.threads[i];
        warp_thread = i;
      }
    }
  }
  std::string all = text("divergence: of %u threads %u wait at a barrier", r.live, barrier);
  if (!at_warp) return all;
  const unsigned width = static_cast<unsigned>(lanes());
  const uint64_t there = live_lanes(r, warp_thread / width * width);
  static const char* const kNames[] = {"shuffle", "shuffle up", "shuffle down", "shuffle xor", "ballot",
                                       "any",     "all",        "match",        "warp barrier"};
  return all +
         text(
             " and %u at a warp operation; thread %u waits in a %s with the mask 0x%llx for lanes that do not come "
             "(lanes that live: 0x%llx)",
             warp, warp_thread, kNames[at_warp->op], static_cast<unsigned long long>(at_warp->mask),
             static_cast<unsigned long long>(there));
}

void run_block(BlockRunner& r) {
  if (r.plain) {
    prepare(r, 0);
    enter_thread(r, 0);
    simgpu_switch(&r.scheduler, r.threads[0].stack_pointer);
    return;
  }
  r.live = r.count;
  r.at_barrier = 0;
  for (unsigned i = 0; i < r.count; ++i) prepare(r, i);
  // Forwards or backwards: what a kernel gives must not depend on it.
  bool backwards = r.device->random() & 1;
  while (r.live > 0) {
    bool moved = false;
    for (unsigned n = 0; n < r.count; ++n) {
      const unsigned i = backwards ? r.count - 1 - n : n;
      if (r.threads[i].state != State::Fresh && r.threads[i].state != State::Ready) continue;
      moved = true;
      enter_thread(r, i);
      simgpu_switch(&r.scheduler, r.threads[i].stack_pointer);
      if (r.fault) return;
    }
    if (moved || r.live == 0) continue;
    if (release_those_that_came(r)) continue;
    r.fault = kLaunchFailed;
    r.why = describe_deadlock(r);
    return;
  }
}

// ---- faults that the processor finds

struct sigaction before_segv, before_bus, before_fpe;

void signal_fault() {
  leave_with_fault(kIllegalAddress, "the processor found a bad address, or the thread's stack is full");
}

void pass_on(int number, siginfo_t* info, void* context, const struct sigaction& before) {
  if (before.sa_flags & SA_SIGINFO) return before.sa_sigaction(number, info, context);
  if (before.sa_handler == SIG_IGN) return;
  if (before.sa_handler != SIG_DFL) return before.sa_handler(number);
  signal(number, SIG_DFL);  // and happens again
}

void on_signal(int number, siginfo_t* info, void* context) {
  if (!running) {
    constexpr char kWords[] = "simgpu: the host touched memory of a device\n";
    if (is_device_address(reinterpret_cast<uintptr_t>(info->si_addr))) (void)!write(2, kWords, sizeof kWords - 1);
    return pass_on(number, info, context, number == SIGFPE ? before_fpe : number == SIGBUS ? before_bus : before_segv);
  }
  auto* machine = static_cast<ucontext_t*>(context);
  if (number == SIGFPE && simgpu_skip_division(machine)) return;
  simgpu_resume_at(machine, stack_of(*running, running->current) + kStackBytes, signal_fault);
}

void install_handlers() {
  static std::once_flag once;
  std::call_once(once, [] {
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, &before_segv);
    sigaction(SIGBUS, &action, &before_bus);
    sigaction(SIGFPE, &action, &before_fpe);
  });
  // Signals are handled on a stack of their own: the kernel's may be full.
  thread_local bool done = false;
  if (done) return;
  done = true;
  stack_t alternate = {};
  alternate.ss_size = 64 << 10;
  alternate.ss_sp = mmap(nullptr, alternate.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  sigaltstack(&alternate, nullptr);
}

constexpr unsigned kLastTime = (1u << (32 - SIMGPU_STAMP_THREAD_BITS)) - 1;

void begin_looking_for_races(BlockRunner& r, size_t static_bytes) {
  r.device->reach.races = nullptr;
  if (r.plain || !options().check_races || static_bytes > SIMGPU_STATIC_SHARED_MAX) return;
  constexpr size_t kStamps = SIMGPU_STATIC_SHARED_MAX + SIMGPU_DYNAMIC_SHARED_MAX;
  r.stamps.resize(2 * kStamps);
  r.races.writes = r.stamps.data();
  r.races.reads = r.stamps.data() + kStamps;
  r.races.warp_began = r.warp_began.data();
  r.races.lanes = static_cast<unsigned>(lanes());
  r.device->reach.races = &r.races;
}

// Time goes on from block to block, so that stamps of the last one are old; near its end all stamps are wiped.
void next_block(BlockRunner& r) {
  if (r.races.now > kLastTime / 2) {
    std::fill(r.stamps.begin(), r.stamps.end(), 0);
    std::fill(r.warp_began.begin(), r.warp_began.end(), 0);
    r.races.now = 0;
  }
  r.races.block_began = ++r.races.now;
}

}  // namespace

const simgpu_services& kernel_services() {
  static const simgpu_services services = {
      options().lanes,      service_check,          service_race,  service_barrier, service_warp,
      service_active_lanes, service_dynamic_shared, service_clock, service_assert,  service_trap};
  return services;
}

BlockRunner* create_runner(Device& device) {
  auto* r = new BlockRunner;
  r->device = &device;
  void* stacks = mmap(nullptr, kMaxThreads * kStackBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stacks == MAP_FAILED) {
    report("no memory for the stacks of threads");
    abort();
  }
  r->stacks = static_cast<char*>(stacks);
  r->dynamic_shared.resize(SIMGPU_DYNAMIC_SHARED_MAX);
  r->warp_began.resize(kMaxThreads / 32);
  return r;
}

Code run_kernel(Device& device, const Function& function, const LaunchShape& shape, void** arguments) {
  install_handlers();
  if (!device.runner) device.runner = create_runner(device);
  BlockRunner& r = *device.runner;
  const Module& module = *function.module;
  r.function = &function;
  r.place = module.place;
  r.arguments = arguments;
  r.plain = !module.waits;
  r.count = shape.block[0] * shape.block[1] * shape.block[2];
  r.fault = kSuccess;

  // The shared variables of a library are its thread-local ones.
  simgpu_reach& reach = device.reach;
  reach.shared_base = reinterpret_cast<unsigned long>(module.touch_shared()) - module.touched_at;
  reach.shared_bytes = static_cast<unsigned long>(module.shared_bytes);
  reach.dynamic_base = (reinterpret_cast<unsigned long>(r.dynamic_shared.data()) + 1023) / 1024 * 1024;
  reach.dynamic_bytes = shape.shared_bytes;
  reach.image_base = module.image_base;
  reach.image_bytes = module.image_bytes;

  begin_looking_for_races(r, reach.shared_bytes);

  r.place->block_size = {shape.block[0], shape.block[1], shape.block[2]};
  r.place->grid_size = {shape.grid[0], shape.grid[1], shape.grid[2]};
  running = &r;
  for (unsigned z = 0; z < shape.grid[2] && !r.fault; ++z)
    for (unsigned y = 0; y < shape.grid[1] && !r.fault; ++y)
      for (unsigned x = 0; x < shape.grid[0] && !r.fault; ++x) {
        r.place->block = {x, y, z};
        next_block(r);
        std::memset(reinterpret_cast<void*>(reach.shared_base), kSharedPoison, reach.shared_bytes);
        if (shape.shared_bytes)
          std::memset(reinterpret_cast<void*>(reach.dynamic_base), kSharedPoison, shape.shared_bytes);
        run_block(r);
      }
  running = nullptr;
  if (r.fault) report(where(r) + ": " + r.why);
  return r.fault;
}

}  // namespace simgpu
