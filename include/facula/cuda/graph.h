// Graphs: work that is recorded once and then launched with one call. The memory of what was recorded stays where it is, so
// that inputs are copied into the tensors that were there, and results are read from the tensors that came out.
#pragma once

#include <facula/cuda/stream.h>
#include <facula/tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace facula::cuda {

// Graphs that share a pool share memory: they must be launched in the order of their capture, one at a time.
using CaptureId_t = uint64_t;
using MempoolId_t = std::pair<CaptureId_t, CaptureId_t>;
FACULA_API MempoolId_t graph_pool_handle();

// Who is held to the rules of captures meanwhile: every thread, this one, or nobody.
enum class CaptureMode : uint8_t { Global, ThreadLocal, Relaxed };

class FACULA_API CUDAGraph {
 public:
  CUDAGraph();
  ~CUDAGraph();
  CUDAGraph(CUDAGraph&&) noexcept;
  CUDAGraph& operator=(CUDAGraph&&) noexcept;

  // Records what is queued on the current stream, which must not be the default one, until capture_end().
  void capture_begin(MempoolId_t pool = {0, 0}, CaptureMode mode = CaptureMode::Global);
  void capture_end();
  // Launches it on the current stream.
  void replay();
  // Lets go of the graph and its memory.
  void reset();
  MempoolId_t pool() const;
  // Before the capture: keeps what debug_dump() writes, in GraphViz's language.
  void enable_debug_mode();
  void debug_dump(const std::string& path);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Captures for the time of a scope, on a stream of its own, after the device has done all that was queued.
class FACULA_API GraphCapture {
 public:
  explicit GraphCapture(CUDAGraph& graph, MempoolId_t pool = {0, 0}, CaptureMode mode = CaptureMode::Global);
  ~GraphCapture() noexcept(false);
  GraphCapture(const GraphCapture&) = delete;
  GraphCapture& operator=(const GraphCapture&) = delete;

 private:
  CUDAGraph& graph_;
  std::unique_ptr<CUDAStreamGuard> guard_;
  int exceptions_;
};

FACULA_API bool is_current_stream_capturing();

using TensorFunction = std::function<std::vector<Tensor>(const std::vector<Tensor>&)>;
struct GraphedOptions {
  int num_warmup_iters = 3;
  std::vector<Tensor> parameters;   // tensors besides the inputs that get gradients
  bool allow_unused_input = false;  // whether inputs may have no part in the result
  MempoolId_t pool = {0, 0};
};
// A function that launches graphs of `function` instead of calling it. Inputs must have the shapes, dtypes and devices of the
// samples; results are overwritten by the next call. Where samples or parameters require gradients, backward is a graph too.
FACULA_API TensorFunction make_graphed_callable(TensorFunction function, std::vector<Tensor> sample_inputs,
                                                GraphedOptions options = {});

}  // namespace facula::cuda
