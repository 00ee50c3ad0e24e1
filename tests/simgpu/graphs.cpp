// Graphs: what a stream captures instead of doing it, and doing it later. A graph runs its nodes in an order drawn from the seed
// among those that its dependencies allow.
#include "engine.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace simgpu {
namespace {

thread_local CaptureMode thread_mode = CaptureMode::Global;

// Leaves the capture: its streams do work again.
void close(Capture& capture) {
  for (Stream* stream : capture.streams) {
    stream->capture = nullptr;
    stream->capture_tail.clear();
  }
}

bool is_joined(const Capture& capture) {
  std::vector<bool> reached(capture.graph.nodes.size());
  std::vector<size_t> open = capture.origin->capture_tail;
  while (!open.empty()) {
    size_t node = open.back();
    open.pop_back();
    if (reached[node]) continue;
    reached[node] = true;
    for (size_t before : capture.graph.nodes[node].after) open.push_back(before);
  }
  for (Stream* stream : capture.streams)
    for (size_t node : stream->capture_tail)
      if (!reached[node]) return false;
  return true;
}

Code run_graph(const Graph& graph, Device& device) {
  std::vector<size_t> missing(graph.nodes.size());
  std::vector<std::vector<size_t>> followers(graph.nodes.size());
  std::vector<size_t> ready;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    missing[i] = graph.nodes[i].after.size();
    for (size_t before : graph.nodes[i].after) followers[before].push_back(i);
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[device.random() % ready.size()], ready.back());
    size_t node = ready.back();
    ready.pop_back();
    trace("device " + std::to_string(device.index) + " graph: " + graph.nodes[node].kind + " " +
          graph.nodes[node].label);
    if (graph.nodes[node].run)
      if (Code code = graph.nodes[node].run(device)) return code;
    for (size_t next : followers[node])
      if (--missing[next] == 0) ready.push_back(next);
  }
  return kSuccess;
}

}  // namespace

CaptureMode exchange_capture_mode(CaptureMode mode) { return std::exchange(thread_mode, mode); }

Code forbid_in_capture(Lock&, int) {
  if (thread_mode == CaptureMode::Relaxed) return kSuccess;
  Code code = kSuccess;
  for (const auto& capture : engine().captures) {
    const bool mine = capture->thread == std::this_thread::get_id();
    const bool disturbed = mine ? capture->mode != CaptureMode::Relaxed
                                : capture->mode == CaptureMode::Global && thread_mode == CaptureMode::Global;
    if (!disturbed) continue;
    capture->broken = true;
    code = kCaptureUnsupported;
  }
  return code;
}

Code capture_node(Stream* stream, const char* kind, std::string label, std::function<Code(Device&)> run, bool on_host) {
  Capture& capture = *stream->capture;
  if (capture.broken) return kCaptureInvalidated;
  capture.graph.nodes.push_back({kind, std::move(label), std::move(run), on_host, stream->capture_tail});
  stream->capture_tail = {capture.graph.nodes.size() - 1};
  return kSuccess;
}

Code begin_capture(Lock&, Stream* stream, CaptureMode mode) {
  if (stream == &stream->device->default_stream) return kCaptureUnsupported;
  if (stream->capture) return kIllegalState;
  auto capture = std::make_shared<Capture>();
  capture->id = engine().next_capture++;
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->origin = stream;
  capture->streams = {stream};
  capture->graph.device = stream->device->index;
  stream->capture = capture;
  stream->capture_tail.clear();
  engine().captures.insert(capture);
  return kSuccess;
}

Code end_capture(Lock&, Stream* stream, Graph*& graph) {
  graph = nullptr;
  auto capture = stream->capture;
  if (!capture) return kIllegalState;
  if (capture->origin != stream) {
    capture->broken = true;
    return kCaptureUnmatched;
  }
  if (capture->mode != CaptureMode::Relaxed && capture->thread != std::this_thread::get_id())
    return kCaptureWrongThread;
  const bool joined = is_joined(*capture);
  close(*capture);
  engine().captures.erase(capture);
  if (capture->broken) return kCaptureInvalidated;
  if (!joined) return kCaptureUnjoined;
  graph = new Graph(std::move(capture->graph));
  engine().graphs.insert(graph);
  return kSuccess;
}

Code instantiate(Lock& lock, Graph* graph, Graph*& exec) {
  if (!engine().graphs.count(graph)) return kInvalidValue;
  if (Code code = forbid_in_capture(lock, graph->device)) return code;
  exec = new Graph(*graph);
  engine().graph_execs.insert(exec);
  return kSuccess;
}

Code launch_graph(Lock& lock, Graph* exec, Stream* stream) {
  if (!engine().graph_execs.count(exec)) return kInvalidValue;
  // The graph may be destroyed while it runs.
  auto copy = std::make_shared<Graph>(*exec);
  return enqueue(lock, stream, "graph", std::to_string(exec->nodes.size()) + " nodes",
                 [copy](Device& device) { return run_graph(*copy, device); });
}

Code destroy_graph(Lock&, Graph* graph) {
  if (!engine().graphs.erase(graph) && !engine().graph_execs.erase(graph)) return kInvalidValue;
  delete graph;
  return kSuccess;
}

Code graph_to_dot(Lock&, Graph* graph, const char* path) {
  if (!engine().graphs.count(graph)) return kInvalidValue;
  FILE* file = fopen(path, "w");
  if (!file) return kInvalidValue;
  fprintf(file, "digraph graph_1 {\n");
  for (size_t i = 0; i < graph->nodes.size(); ++i) {
    fprintf(file, "  node_%zu [label=\"%s %s\"];\n", i, graph->nodes[i].kind, graph->nodes[i].label.c_str());
    for (size_t before : graph->nodes[i].after) fprintf(file, "  node_%zu -> node_%zu;\n", before, i);
  }
  fprintf(file, "}\n");
  fclose(file);
  return kSuccess;
}

}  // namespace simgpu
