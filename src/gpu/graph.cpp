// Captures of streams into graphs, their memory and their random numbers.
#include "gpu/graph.h"

#include "gpu/encoder.h"
#include "gpu/thread_state.h"

#include <algorithm>
#include <mutex>

namespace facula::gpu {

namespace {

// A generator that a graph draws from. Each launch reserves `blocks` and leaves
// the place in `pair` on the device.
struct RandomUse {
  intrusive_ptr<GeneratorImpl> generator;
  uint64_t* pair;
  uint64_t blocks = 0;
};

// Generators that one graph can draw from; their pairs fill the smallest block of memory.
constexpr size_t kMostGenerators = 32;

Driver& table() { return *entered_driver.load(std::memory_order_relaxed); }

}  // namespace

struct Graph::State {
  bool capturing = false;
  bool keep = false;
  bool holds_pool = false;
  int device = 0;
  StreamRef stream;       // that is captured
  StreamRef last_launch;  // where it was launched last
  bool launched = false;
  uint64_t id = 0;
  PoolId pool = 0;
  GraphHandle graph = nullptr;
  GraphExecHandle exec = nullptr;
  Allocation pairs{};  // {seed, offset} of each generator
  std::mutex mutex;    // of the random uses
  std::vector<RandomUse> random;

  void release() noexcept;
};

namespace {

struct Captures {
  std::mutex mutex;
  std::vector<Graph::State*> all;
};
Captures& captures() {
  static auto* list = new Captures;
  return *list;
}

void add_capture(Graph::State* state) {
  std::lock_guard lock(captures().mutex);
  captures().all.push_back(state);
}

void count_capture(int device, int change) {
  device_captures[device].fetch_add(change, std::memory_order_acq_rel);
  active_captures.fetch_add(change, std::memory_order_acq_rel);
}

void remove_capture(Graph::State* state) {
  {
    std::lock_guard lock(captures().mutex);
    std::erase(captures().all, state);
  }
  count_capture(state->device, -1);
}

Graph::State* capture_of(uint64_t id) {
  std::lock_guard lock(captures().mutex);
  for (Graph::State* state : captures().all)
    if (state->id == id) return state;
  return nullptr;
}

// A driver that cannot relax a capture for a moment gets relaxed ones, since
// memory may be asked for at any time.
CaptureMode possible_mode(CaptureMode wanted) {
  CaptureMode before = wanted;
  if (!table().exchange_capture_mode(before).ok()) return CaptureMode::Relaxed;
  check(table().exchange_capture_mode(before), "capture_begin");
  return wanted;
}

const Kernel& set_pair_kernel() {
  static auto* kernel = new Kernel("facula_set_random_place", R"(
extern "C" __global__ void facula_set_random_place(unsigned long long* pair, unsigned long long seed,
                                                   unsigned long long offset) {
  pair[0] = seed;
  pair[1] = offset;
}
)");
  return *kernel;
}

}  // namespace

// Gives back the graph, what it keeps on the device, and its pool. Not while it
// is captured.
void Graph::State::release() noexcept {
  if (!graph && !exec && !holds_pool) return;
  if (!forked_after_start() && entered_driver.load(std::memory_order_acquire)) {
    // The driver may be in trouble; then there is nothing to give back to.
    ThreadState& thread = thread_state();
    const bool entered = thread.driver_device == device || table().use_device(device).ok();
    if (entered) {
      thread.driver_device = device;
      RelaxedCapture relaxed;
      if (launched && device_captures[device].load(std::memory_order_acquire) == 0)
        static_cast<void>(table().synchronize_stream(last_launch.handle));
      if (exec) static_cast<void>(table().destroy_graph_exec(exec));
      if (graph) static_cast<void>(table().destroy_graph(graph));
    }
    if (pairs.block) gpu::free(pairs.block);
    if (holds_pool) release_pool(device, pool);
  }
  random.clear();
  pairs = {};
  graph = nullptr;
  exec = nullptr;
  holds_pool = launched = false;
  pool = 0;
}

Graph::Graph() : state_(std::make_unique<State>()) {}

Graph::~Graph() { reset(); }

void Graph::begin(PoolId pool, CaptureMode mode) {
  const char* const op = "capture_begin";
  State& s = *state_;
  FACULA_CHECK(!s.capturing, DeviceError, op, ": this graph is being captured already; call capture_end() first");
  FACULA_CHECK(!s.exec, DeviceError, op,
               ": this graph was captured before; call reset() first, or make "
               "another graph");
  const int device = current_device();
  enter(device, op);
  const StreamRef stream = current_stream(device);
  FACULA_CHECK(stream.handle, DeviceError, op,
               ": the default stream cannot be captured. Make another one current first "
               "(CUDAStreamGuard with "
               "getStreamFromPool(); in Python `with facula.cuda.graph(g):` does it)");
  FACULA_CHECK(!is_capturing(stream), DeviceError, op,
               ": the current stream is being captured into another graph; "
               "captures cannot be nested");
  fault_buffer(device);
  mode = possible_mode(mode);
  s.device = device;
  s.stream = stream;
  s.pool = pool ? pool : new_pool_id();
  // Not from the graph's pool: there it could be memory that an earlier part of the graph writes to at every launch.
  const Allocation pairs = allocate(device, kMostGenerators * 2 * sizeof(uint64_t), op);
  try {
    begin_pool(device, s.pool, &stream);
  } catch (...) {
    gpu::free(pairs.block);
    throw;
  }
  s.pairs = pairs;
  s.holds_pool = true;
  count_capture(device, +1);
  Status status = table().begin_capture(stream.handle, mode);
  CaptureStatus captured = CaptureStatus::None;
  if (status.ok()) {
    status = table().capture_status(stream.handle, captured, s.id);
    if (!status.ok() || captured != CaptureStatus::Active) {
      GraphHandle unused = nullptr;
      if (table().end_capture(stream.handle, unused).ok() && unused) static_cast<void>(table().destroy_graph(unused));
    }
  }
  if (!status.ok() || captured != CaptureStatus::Active) {
    count_capture(device, -1);
    end_pool(device, s.pool);
    s.release();
    check(status, op);
    throw DeviceError(str(op, ": the driver did not begin to capture the stream"));
  }
  if (s.id == 0) s.id = ~uint64_t{0};
  s.capturing = true;
  add_capture(&s);
}

namespace {

[[noreturn]] void capture_broken(int device, Status status) {
  fail_on(device, status, "capture_end",
          "The capture was broken by a call that is not allowed in it, such as "
          "one that waits for the GPU, allocates past "
          "Facula, or uses the default stream; or work that was forked to "
          "another stream was not joined again "
          "(wait_stream). Nothing was recorded; its memory was given back");
}

}  // namespace

void Graph::end() {
  const char* const op = "capture_end";
  State& s = *state_;
  FACULA_CHECK(s.capturing, DeviceError, op, ": this graph is not being captured; call capture_begin() first");
  enter(s.device, op);
  FACULA_CHECK(current_stream(s.device) == s.stream, DeviceError, op,
               ": must be called with the stream current that capture_begin() "
               "was called on");
  GraphHandle graph = nullptr;
  Status status = table().end_capture(s.stream.handle, graph);
  s.capturing = false;
  remove_capture(&s);
  end_pool(s.device, s.pool);
  if (!status.ok() || !graph) {
    s.release();
    capture_broken(s.device, status.ok() ? Status{status.code, Fault::Capture} : status);
  }
  s.graph = graph;
  status = table().instantiate(s.exec, graph);
  if (!status.ok()) {
    s.exec = nullptr;
    s.release();
    fail_on(s.device, status, op);
  }
  if (s.keep) return;
  s.graph = nullptr;
  check(table().destroy_graph(graph), op);
}

void Graph::replay() {
  const char* const op = "CUDAGraph.replay";
  State& s = *state_;
  FACULA_CHECK(s.exec, DeviceError, op,
               ": there is nothing to launch; capture first (capture_begin, "
               "capture_end)");
  enter(s.device, op);
  const StreamRef stream = current_stream(s.device);
  for (RandomUse& use : s.random) {
    GeneratorImpl::Reservation place = use.generator->reserve(use.blocks);
    void* arguments[] = {&use.pair, &place.seed, &place.offset};
    launch(set_pair_kernel(), {1, 1, 1}, {1, 1, 1}, 0, arguments, {op, s.device});
  }
  check(table().launch_graph(s.exec, stream.handle), op);
  s.last_launch = stream;
  s.launched = true;
  if (launch_blocking() && !is_capturing(stream)) synchronize(stream, op);
}

void Graph::reset() noexcept {
  State& s = *state_;
  if (s.capturing) {
    s.capturing = false;
    remove_capture(&s);
    if (!forked_after_start()) {
      GraphHandle unused = nullptr;
      if (table().end_capture(s.stream.handle, unused).ok() && unused) static_cast<void>(table().destroy_graph(unused));
      end_pool(s.device, s.pool);
    }
  }
  s.release();
}

PoolId Graph::pool() const {
  FACULA_CHECK(state_->holds_pool, DeviceError,
               "CUDAGraph.pool: there is no pool before the capture begins; "
               "take one from graph_pool_handle() to share it");
  return state_->pool;
}

int Graph::device() const { return state_->device; }
bool Graph::ready() const { return state_->exec != nullptr; }
void Graph::keep_description(bool keep) { state_->keep = keep; }

void Graph::write_dot(const std::string& path) const {
  const char* const op = "CUDAGraph.debug_dump";
  FACULA_CHECK(state_->graph, DeviceError, op,
               ": there is no description of the graph; call "
               "enable_debug_mode() before ",
               "the capture, and debug_dump() after it");
  enter(state_->device, op);
  check(table().graph_to_dot(state_->graph, path.c_str()), op);
}

RandomPlace random_place(GeneratorImpl& generator, uint64_t blocks, int device, const char* op) {
  const uint64_t id = capture_id(current_stream(device));
  if (id == 0) [[likely]] {
    const GeneratorImpl::Reservation place = generator.reserve(blocks);
    return {place.seed, place.offset, nullptr, 0};
  }
  Graph::State* state = capture_of(id);
  FACULA_CHECK(state, DeviceError, op,
               ": random numbers can be captured only by Facula's own graphs, "
               "which set the place to draw from at each "
               "launch; this stream is captured by somebody else");
  std::lock_guard lock(state->mutex);
  RandomUse* use = nullptr;
  for (RandomUse& known : state->random)
    if (known.generator.get() == &generator) use = &known;
  if (!use) {
    const size_t count = state->random.size();
    FACULA_CHECK(count < kMostGenerators, DeviceError, op, ": a graph can draw from ", kMostGenerators,
                 " generators at most; capture in several graphs, or use fewer generators");
    uint64_t* pair = static_cast<uint64_t*>(state->pairs.data) + 2 * count;
    state->random.push_back({intrusive_ptr<GeneratorImpl>::borrow(&generator), pair, 0});
    use = &state->random.back();
  }
  const uint64_t offset = use->blocks;
  use->blocks += blocks;
  return {0, 0, use->pair, offset};
}

}  // namespace facula::gpu
