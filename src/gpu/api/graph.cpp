// The public graphs.
#include "gpu/memory/allocator.h"
#include "gpu/api/api.h"
#include "gpu/graph.h"

#include <facula/cuda/graph.h>
#include <facula/cuda/memory.h>

#include <exception>

namespace facula::cuda {

struct CUDAGraph::State {
  gpu::Graph graph;
};

CUDAGraph::CUDAGraph() : state_(std::make_unique<State>()) {}
CUDAGraph::~CUDAGraph() = default;
CUDAGraph::CUDAGraph(CUDAGraph&&) noexcept = default;
CUDAGraph& CUDAGraph::operator=(CUDAGraph&&) noexcept = default;

void CUDAGraph::capture_begin(MempoolId_t pool, CaptureMode mode) {
  state_->graph.begin(pool.second, static_cast<gpu::CaptureMode>(mode));
}
void CUDAGraph::capture_end() { state_->graph.end(); }
void CUDAGraph::replay() { state_->graph.replay(); }
void CUDAGraph::reset() { state_->graph.reset(); }
MempoolId_t CUDAGraph::pool() const { return {0, state_->graph.pool()}; }
void CUDAGraph::enable_debug_mode() { state_->graph.keep_description(true); }
void CUDAGraph::debug_dump(const std::string& path) { state_->graph.write_dot(path); }

MempoolId_t graph_pool_handle() { return {0, gpu::new_pool_id()}; }

bool is_current_stream_capturing() {
  if (gpu::active_captures.load(std::memory_order_acquire) == 0) return false;
  return gpu::is_capturing(gpu::current_stream(gpu::current_device()));
}

namespace {

// Captures of a device take turns on one stream, so that graphs which share a pool find each other's free memory in it.
CUDAStream capture_stream() {
  static std::atomic<int64_t> ids[gpu::kMaxDevices] = {};
  const int device = device_index(-1, "graph");
  int64_t id = ids[device].load(std::memory_order_acquire);
  if (id == 0) {
    const int64_t fresh = gpu::stream_from_pool(device, 0).id;
    id = ids[device].compare_exchange_strong(id, fresh, std::memory_order_acq_rel) ? fresh : id;
  }
  return wrap(gpu::stream_from_id(device, id));
}

}  // namespace

GraphCapture::GraphCapture(CUDAGraph& graph, MempoolId_t pool, CaptureMode mode)
    : graph_(graph), exceptions_(std::uncaught_exceptions()) {
  // Nothing that was queued before may be waited for inside, and the pool should find the memory that is kept.
  synchronize();
  empty_cache();
  guard_ = std::make_unique<CUDAStreamGuard>(capture_stream());
  graph_.capture_begin(pool, mode);
}

GraphCapture::~GraphCapture() noexcept(false) {
  if (std::uncaught_exceptions() > exceptions_) {
    graph_.reset();
    return;
  }
  graph_.capture_end();
}

}  // namespace facula::cuda
