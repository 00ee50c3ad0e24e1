// Graphs: work of a stream, recorded once and launched many times with one call. Memory that is asked for while recording comes
// from a pool of the graph's own; random numbers go on from launch to launch.
#pragma once

#include "core/generator_impl.h"
#include "gpu/memory/allocator.h"
#include "gpu/runtime.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace facula::gpu {

// Where in a generator's stream a kernel reads its random numbers. Outside of a capture the place is fixed: `seed`, `offset`.
// Inside, it is known only when the graph is launched: the kernel reads {seed, offset} from `device_pair` and adds
// `offset_in_graph`. Kernels take all four: place = device_pair ? {pair[0], pair[1] + offset_in_graph} : {seed, offset}.
struct RandomPlace {
  uint64_t seed = 0;
  uint64_t offset = 0;
  const uint64_t* device_pair = nullptr;  // in device memory; nullptr outside of a capture
  uint64_t offset_in_graph = 0;
};
// Reserves `blocks` blocks (GeneratorImpl::reserve) for a kernel on the current stream of `device`.
RandomPlace random_place(GeneratorImpl& generator, uint64_t blocks, int device, const char* op);

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Records what this thread queues on the current stream, which must not be the default one. Pool 0 makes a new pool.
  void begin(PoolId pool = 0, CaptureMode mode = CaptureMode::Global);
  // Ends it and makes the graph ready for launches. A capture that was broken on the way throws, after all was put back.
  void end();
  // Launches it on the current stream of its device.
  void replay();
  // Lets go of the graph and of its memory.
  void reset() noexcept;

  PoolId pool() const;
  int device() const;
  bool ready() const;  // whether it can be launched
  // Keeps the description after end(), which costs memory; `write_dot` then writes it in GraphViz's language.
  void keep_description(bool keep);
  void write_dot(const std::string& path) const;

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace facula::gpu
