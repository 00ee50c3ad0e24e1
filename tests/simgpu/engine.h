// The software GPU: devices, memory, streams, events, modules, graphs, in the words of no vendor. The two shapes (`cuda_shape.cpp`,
// `hip_shape.cpp`) give it the entry points of a driver. One lock guards everything but the work itself, which a thread for
// each device does.
#pragma once

#include "device_abi.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace simgpu {

// The numbers are the drivers' own; CUDA and HIP agree on them.
enum Code : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kDeinitialized = 4,
  kDeviceUnavailable = 46,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidImage = 200,
  kInvalidContext = 201,
  kNoBinaryForGpu = 209,
  kUnsupportedPtx = 222,
  kFileNotFound = 301,
  kInvalidHandle = 400,
  kIllegalState = 401,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kLaunchOutOfResources = 701,
  kPeerAccessAlreadyEnabled = 704,
  kPeerAccessNotEnabled = 705,
  kContextIsDestroyed = 709,
  kAssert = 710,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kIllegalInstruction = 715,
  kMisalignedAddress = 716,
  kLaunchFailed = 719,
  kNotPermitted = 800,
  kNotSupported = 801,
  kCaptureUnsupported = 900,
  kCaptureInvalidated = 901,
  kCaptureMerge = 902,
  kCaptureUnmatched = 903,
  kCaptureUnjoined = 904,
  kCaptureIsolation = 905,
  kCaptureImplicit = 906,
  kCapturedEvent = 907,
  kCaptureWrongThread = 908,
  kUnknown = 999
};

// What the environment says, read once.
struct Options {
  int devices = 2;
  int lanes = 32;
  size_t memory_bytes = size_t{2048} << 20;
  bool check_written = true;  // SIMGPU_CHECK_INIT
  bool check_races = true;    // SIMGPU_CHECK_RACES
  bool guard = true;          // SIMGPU_GUARD: the host cannot look into a device's memory
  int async = 1;              // 0: every call waits; 1: a thread works; 2: work starts only when somebody waits for it
  uint64_t seed = 1;
  std::string chip = "sm_90";
  std::string trace;  // a file that gets a line for each piece of work
  bool report_leaks = false;
  bool hip = false;
};
const Options& options();

struct Device;
struct Stream;
struct Capture;

// A piece of work on a stream.
struct Op {
  const char* kind = "";
  std::string label;
  std::function<Code(Device&)> run;  // done without the lock; nothing to do where it is empty
  std::vector<std::shared_ptr<Op>> after;
  bool on_host = false;  // a function of the program's, which must not hold up the device
  bool running = false, done = false, wanted = false;
  struct Stream* stream = nullptr;  // while it is queued
  double finished_at = 0;           // milliseconds
  Code code = kSuccess;
};
using OpPtr = std::shared_ptr<Op>;

struct Node {
  const char* kind;
  std::string label;
  std::function<Code(Device&)> run;
  bool on_host;
  std::vector<size_t> after;
};
struct Graph {
  std::vector<Node> nodes;
  int device = 0;
};

struct Event {
  int device = 0;
  unsigned flags = 0;
  OpPtr recorded;                  // the last record
  std::weak_ptr<Capture> capture;  // or where in a capture it was recorded
  std::vector<size_t> captured_nodes;
  bool captured = false;
};

enum class CaptureMode { Global, ThreadLocal, Relaxed };
struct Capture {
  uint64_t id = 0;
  CaptureMode mode = CaptureMode::Global;
  std::thread::id thread;
  Stream* origin = nullptr;
  std::set<Stream*> streams;
  Graph graph;
  bool broken = false;
};

struct Stream {
  Device* device = nullptr;
  bool blocking = true;  // waits for the default stream and is waited for by it
  int priority = 0;
  unsigned flags = 0;
  std::deque<OpPtr> queue;
  OpPtr last;
  bool closing = false;  // destroyed, with work left to do
  std::shared_ptr<Capture> capture;
  std::vector<size_t> capture_tail;
};

enum class RegionKind { Allocation, Mapping, Image, Host, RegisteredHost };
struct Physical {
  uint64_t handle = 0;
  int device = 0;
  size_t bytes = 0;
  int file = -1;
  int mappings = 0;
  bool mapped_before = false, released = false;
};
struct Region {
  RegionKind kind;
  uintptr_t base;
  size_t bytes;
  int device;
  uint64_t access = 0;  // devices that may touch it, besides peers
  std::shared_ptr<Physical> physical;
  unsigned flags = 0;
  bool contains(uintptr_t address, size_t n) const {
    return address >= base && n <= bytes && address - base <= bytes - n;
  }
};

struct Module {
  int device = 0;
  void* library = nullptr;
  simgpu_image_header header = {};
  simgpu_place* place = nullptr;
  uintptr_t image_base = 0, image_bytes = 0;
  void* (*touch_shared)() = nullptr;  // makes the shared variables of the calling thread exist, and gives one of them
  uintptr_t touched_at = 0;           // where that one is among them
  int shared_bytes = 0;
  bool waits = false;  // whether its threads can wait for each other
  std::map<std::string, struct Function*> functions;
};
struct Function {
  Module* module = nullptr;
  const simgpu_kernel* kernel = nullptr;
  std::string name;
  int max_dynamic_shared = 48 << 10;
};

struct BlockRunner;

struct Device {
  int index = 0;
  uintptr_t arena = 0;      // addresses of this device
  size_t next_address = 0;  // where to look for the next hole
  size_t used = 0;
  uint64_t peers = 0;    // devices whose memory this one may touch
  Code lost = kSuccess;  // after a fault every call says this
  simgpu_reach reach = {};
  Stream default_stream;
  std::set<Stream*> streams;  // the default stream too
  std::mt19937_64 random;
  BlockRunner* runner = nullptr;
  bool started = false;  // its threads run
  int context_count = 0;
  unsigned context_flags = 0;
};

struct Engine {
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<Device*> devices;
  std::map<uintptr_t, Region> regions;
  std::deque<Region> freed;  // the last ones, to tell of use after free
  std::set<Event*> events;
  std::set<Module*> modules;
  std::set<Function*> functions;
  std::set<Graph*> graphs, graph_execs;
  std::map<uintptr_t, size_t> reservations;
  std::map<uint64_t, std::shared_ptr<Physical>> physicals;
  std::set<std::shared_ptr<Capture>> captures;
  uint64_t next_capture = 1, next_physical = 1;
  uintptr_t arena = 0;
  bool initialized = false;
  int at_work = 0;  // threads of devices that run something: the arenas are open
  int pid = 0;
  unsigned char* written = nullptr;
};
Engine& engine();
using Lock = std::unique_lock<std::mutex>;

// ---- cuda_shape.cpp, hip_shape.cpp
int current_device_of_thread();  // -1 where none is

// ---- engine.cpp
Code initialize();
// What every entry point does first: counts the call, injects faults, refuses after a fork. `device` may be -1.
Code enter(const char* kind, int device);
Code device_state(int device);         // kSuccess, or why it is lost
void report(const std::string& text);  // a line on stderr
double now_ms();
void trace(const std::string& line);
// Live things, one line each: allocations, streams, events, modules, graphs.
std::string leaks();
size_t leak_count();

// ---- memory.cpp: lock held by the callee unless it says otherwise.
constexpr size_t kArenaBytes = size_t{1} << 36;
constexpr size_t kGranule = 512;
constexpr size_t kMapGranularity = size_t{2} << 20;
void create_arenas(Engine& e);
// The memory of devices is open to the process only while one of them works: a host that reads or writes it as if it were its own
// dies, as it does with a real GPU. Called around each piece of work.
void open_arenas(Lock& lock);
void close_arenas(Lock& lock);
Code allocate(int device, uintptr_t& address, size_t bytes);
Code free_memory(uintptr_t address);
Code allocate_host(void*& address, size_t bytes, unsigned flags);
Code free_host(void* address);
Code register_host(void* address, size_t bytes, unsigned flags);
Code unregister_host(void* address);
Code reserve(int device, uintptr_t& address, size_t bytes);
Code unreserve(uintptr_t address, size_t bytes);
Code create_physical(uint64_t& handle, size_t bytes, int device);
Code release_physical(uint64_t handle);
Code map_physical(uintptr_t address, size_t bytes, size_t offset, uint64_t handle);
Code unmap(uintptr_t address, size_t bytes);
Code set_access(uintptr_t address, size_t bytes, int device, bool allow);
// With the lock held: the region of an address, or nullptr.
const Region* find_region(uintptr_t address);
const Region* find_freed(uintptr_t address, size_t bytes);
// Whether all these bytes are there; several mappings side by side are one piece.
bool is_covered(uintptr_t address, size_t bytes);
bool is_device_address(uintptr_t address);
std::string describe_address(uintptr_t address);
// Without the lock, while a device works: bytes with what is known of them.
Code move_bytes(uintptr_t to, uintptr_t from, size_t bytes);
Code fill_pattern(uintptr_t to, uint32_t value, int width, size_t count);
// Whether a kernel of `device` may touch these bytes; marks them as written. Gives kSuccess or a fault with `why`.
Code check_access(Device& device, uintptr_t address, size_t bytes, bool write, bool exact, std::string& why);

// ---- streams.cpp
Stream* find_stream(Lock& lock, int device, void* handle);  // nullptr: no such stream
Code create_stream(int device, Stream*& stream, unsigned flags, int priority);
Code destroy_stream(Stream* stream);
// Queues work or puts it into the graph that the stream captures.
Code enqueue(Lock& lock, Stream* stream, const char* kind, std::string label, std::function<Code(Device&)> run,
             bool on_host = false, OpPtr* queued = nullptr);
Code wait_for(Lock& lock, const OpPtr& op);
Code synchronize_stream(Lock& lock, Stream* stream);
Code synchronize_device(Lock& lock, int device);
Code query_stream(Lock& lock, Stream* stream);
Code create_event(int device, Event*& event, unsigned flags);
Code destroy_event(Event* event);
Code record_event(Lock& lock, Event* event, Stream* stream);
Code wait_event(Lock& lock, Stream* stream, Event* event);
Code query_event(Lock& lock, Event* event);
Code synchronize_event(Lock& lock, Event* event);
Code elapsed(Lock& lock, Event* start, Event* end, float& milliseconds, bool needs_timing_flag);
// Copies: `async` is whether the call may return before the bytes have moved.
Code copy(int device, uintptr_t to, uintptr_t from, size_t bytes, void* stream, bool async);
Code fill(int device, uintptr_t to, uint32_t value, int width, size_t count, void* stream, bool async);
Code host_function(int device, void* stream, void (*function)(void*), void* argument);
// Waits for all work of all devices: what freeing memory does. Refuses during captures.
Code quiet_for_free(Lock& lock, int device);
void start_threads(Device& device);

// ---- graphs.cpp
Code begin_capture(Lock& lock, Stream* stream, CaptureMode mode);
Code end_capture(Lock& lock, Stream* stream, Graph*& graph);
// A call that is not allowed while a graph is captured: breaks the captures that it disturbs.
Code forbid_in_capture(Lock& lock, int device);
Code capture_node(Stream* stream, const char* kind, std::string label, std::function<Code(Device&)> run, bool on_host);
Code instantiate(Lock& lock, Graph* graph, Graph*& exec);
Code launch_graph(Lock& lock, Graph* exec, Stream* stream);
Code destroy_graph(Lock& lock, Graph* graph);
Code graph_to_dot(Lock& lock, Graph* graph, const char* path);
CaptureMode exchange_capture_mode(CaptureMode mode);  // of this thread

// ---- kernels.cpp
Code load_module(int device, const void* image, Module*& module);
Code unload_module(Module* module);
Code get_function(Module* module, const char* name, Function*& function);
Code get_global(Module* module, const char* name, uintptr_t& address, size_t& bytes);
struct LaunchShape {
  unsigned grid[3], block[3], shared_bytes;
};
Code launch(int device, Function* function, const LaunchShape& shape, void* stream, void** arguments, void** extra);
int static_shared_bytes(const Function& function);
int max_shared_optin();  // the most that a block can have
int occupancy(const Function& function, int block_threads, size_t shared_bytes);

// ---- fibers.cpp
const simgpu_services& kernel_services();
BlockRunner* create_runner(Device& device);
// Runs a kernel's blocks on this thread, which is the device's.
Code run_kernel(Device& device, const Function& function, const LaunchShape& shape, void** arguments);

// ---- faults.cpp
// Counts a call of `kind` and says what it is to return: kSuccess, or the code of a fault that was asked for.
Code inject(const char* kind, int device);
// What the launch that this thread is making is to end with, while it runs.
Code take_launch_fault();
double slow_copies_ms();
int forced_count();    // number of devices, -1 where nothing was said
int forced_version();  // of the driver, 0 where nothing was said
const char* control(const char* command);

}  // namespace simgpu
