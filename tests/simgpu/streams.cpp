// Streams and events. Each device has a thread that takes the first piece of work of any stream that is ready, in an order drawn
// from the seed: what a program did not order happens in another order every time the seed changes.
#include "engine.h"

#include <algorithm>
#include <cstring>

namespace simgpu {
namespace {

bool is_ready(const Op& op) {
  return std::all_of(op.after.begin(), op.after.end(), [](const OpPtr& before) { return before->done; });
}

// In lazy mode nothing starts before somebody waits for it: marks what `op` needs.
void want(const OpPtr& op) {
  if (!op || op->done || op->wanted) return;
  op->wanted = true;
  if (op->stream)
    for (const OpPtr& before : op->stream->queue) {
      if (before == op) break;
      want(before);
    }
  for (const OpPtr& before : op->after) want(before);
}

OpPtr choose(Device& device, bool on_host) {
  std::vector<Stream*> ready;
  for (Stream* stream : device.streams) {
    if (stream->queue.empty()) continue;
    const Op& op = *stream->queue.front();
    if (op.running || op.on_host != on_host || !is_ready(op)) continue;
    if (options().async == 2 && !op.wanted && device.lost == kSuccess && !stream->closing) continue;
    ready.push_back(stream);
  }
  if (ready.empty()) return nullptr;
  return ready[device.random() % ready.size()]->queue.front();
}

void finish(Device& device, const OpPtr& op, Code code) {
  Stream* stream = op->stream;
  op->finished_at = now_ms();
  op->code = code;
  op->done = true;
  op->running = false;
  op->run = nullptr;
  op->after.clear();
  op->stream = nullptr;
  stream->queue.pop_front();
  if (code != kSuccess && device.lost == kSuccess) device.lost = code;
  if (stream->closing && stream->queue.empty()) {
    device.streams.erase(stream);
    delete stream;
  }
}

void work(Device* device, bool on_host) {
  Engine& e = engine();
  Lock lock(e.mutex);
  while (true) {
    OpPtr op = choose(*device, on_host);
    if (!op) {
      e.changed.wait(lock);
      continue;
    }
    op->running = true;
    Code code = kSuccess;
    if (op->run && device->lost == kSuccess) {
      auto run = std::move(op->run);
      if (!on_host) open_arenas(lock);
      lock.unlock();
      trace("device " + std::to_string(device->index) + " " + op->kind + " " + op->label);
      code = run(*device);
      run = nullptr;
      lock.lock();
      if (!on_host) close_arenas(lock);
    }
    finish(*device, op, code);
    e.changed.notify_all();
  }
}

bool is_pageable(uintptr_t address) { return !find_region(address); }

}  // namespace

void start_threads(Device& device) {
  if (device.started) return;
  device.started = true;
  std::thread(work, &device, false).detach();
  std::thread(work, &device, true).detach();
}

Stream* find_stream(Lock&, int device, void* handle) {
  Engine& e = engine();
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (device >= 0 && (number == 0 || number == 1)) return &e.devices[static_cast<size_t>(device)]->default_stream;
  for (Device* d : e.devices) {
    auto it = d->streams.find(static_cast<Stream*>(handle));
    if (it != d->streams.end() && !(*it)->closing) return *it;
  }
  return nullptr;
}

Code create_stream(int device, Stream*& stream, unsigned flags, int priority) {
  Engine& e = engine();
  Lock lock(e.mutex);
  stream = new Stream;
  stream->device = e.devices[static_cast<size_t>(device)];
  stream->flags = flags;
  stream->blocking = (flags & 1) == 0;
  stream->priority = std::clamp(priority, -5, 0);
  stream->device->streams.insert(stream);
  return kSuccess;
}

Code destroy_stream(Stream* stream) {
  Engine& e = engine();
  Lock lock(e.mutex);
  if (!find_stream(lock, -1, stream) || stream == &stream->device->default_stream) return kInvalidHandle;
  if (stream->capture) {
    stream->capture->broken = true;
    stream->capture->streams.erase(stream);
    if (stream->capture->origin == stream) {
      for (Stream* other : stream->capture->streams) other->capture = nullptr;
      e.captures.erase(stream->capture);
    }
    stream->capture = nullptr;
  }
  if (stream->queue.empty()) {
    stream->device->streams.erase(stream);
    delete stream;
  } else {
    for (const OpPtr& op : stream->queue) want(op);
    stream->closing = true;
  }
  e.changed.notify_all();
  return kSuccess;
}

Code enqueue(Lock& lock, Stream* stream, const char* kind, std::string label, std::function<Code(Device&)> run,
             bool on_host, OpPtr* queued) {
  Engine& e = engine();
  Device& device = *stream->device;
  if (device.lost) return device.lost;
  if (stream->capture) return capture_node(stream, kind, std::move(label), std::move(run), on_host);
  auto op = std::make_shared<Op>();
  op->kind = kind;
  op->label = std::move(label);
  op->run = std::move(run);
  op->on_host = on_host;
  op->stream = stream;
  if (stream == &device.default_stream) {
    for (Stream* other : device.streams) {
      if (other == stream || !other->blocking) continue;
      if (other->capture) {
        other->capture->broken = true;
        return kCaptureImplicit;
      }
      if (other->last && !other->last->done) op->after.push_back(other->last);
    }
  } else if (stream->blocking && device.default_stream.last && !device.default_stream.last->done) {
    op->after.push_back(device.default_stream.last);
  }
  stream->queue.push_back(op);
  stream->last = op;
  start_threads(device);
  if (stream->queue.size() > 1024) want(op);
  e.changed.notify_all();
  if (queued) *queued = op;
  if (options().async == 0) return wait_for(lock, op);
  return kSuccess;
}

Code wait_for(Lock& lock, const OpPtr& op) {
  if (!op) return kSuccess;
  Device* device = op->stream ? op->stream->device : nullptr;
  if (!op->done) {
    want(op);
    engine().changed.notify_all();
    engine().changed.wait(lock, [&] { return op->done; });
  }
  if (device && device->lost) return device->lost;
  return op->code;
}

Code synchronize_stream(Lock& lock, Stream* stream) {
  if (stream->capture) {
    stream->capture->broken = true;
    return kCaptureUnsupported;
  }
  Device& device = *stream->device;
  if (stream == &device.default_stream)
    for (Stream* other : device.streams)
      if (other->blocking && other->capture) {
        other->capture->broken = true;
        return kCaptureImplicit;
      }
  // The default stream has what the blocking streams were given before.
  std::vector<OpPtr> last = {stream->last};
  if (stream == &device.default_stream)
    for (Stream* other : device.streams)
      if (other->blocking) last.push_back(other->last);
  for (const OpPtr& op : last) wait_for(lock, op);
  return device.lost;
}

Code synchronize_device(Lock& lock, int index) {
  Device& device = *engine().devices[static_cast<size_t>(index)];
  Code refused = kSuccess;
  for (Stream* stream : device.streams)
    if (stream->capture) {
      stream->capture->broken = true;
      refused = kCaptureUnsupported;
    }
  if (refused) return refused;
  std::vector<OpPtr> last;
  for (Stream* stream : device.streams) last.push_back(stream->last);
  for (const OpPtr& op : last) wait_for(lock, op);
  return device.lost;
}

Code quiet_for_free(Lock& lock, int index) {
  if (Code code = forbid_in_capture(lock, index)) return code;
  std::vector<OpPtr> last;
  for (Device* device : engine().devices)
    if (index < 0 || device->index == index)
      for (Stream* stream : device->streams) last.push_back(stream->last);
  for (const OpPtr& op : last) wait_for(lock, op);
  return kSuccess;
}

Code query_stream(Lock&, Stream* stream) {
  if (stream->capture) {
    stream->capture->broken = true;
    return kCaptureUnsupported;
  }
  if (stream->device->lost) return stream->device->lost;
  if (stream->queue.empty()) return kSuccess;
  want(stream->last);
  engine().changed.notify_all();
  return kNotReady;
}

Code create_event(int device, Event*& event, unsigned flags) {
  Lock lock(engine().mutex);
  event = new Event;
  event->device = device;
  event->flags = flags;
  engine().events.insert(event);
  return kSuccess;
}

Code destroy_event(Event* event) {
  Lock lock(engine().mutex);
  if (!engine().events.erase(event)) return kInvalidHandle;
  delete event;
  return kSuccess;
}

Code record_event(Lock& lock, Event* event, Stream* stream) {
  if (!engine().events.count(event)) return kInvalidHandle;
  if (event->device != stream->device->index) return kInvalidHandle;
  if (stream->capture) {
    if (stream->capture->broken) return kCaptureInvalidated;
    event->capture = stream->capture;
    event->captured_nodes = stream->capture_tail;
    event->captured = true;
    event->recorded = nullptr;
    return kSuccess;
  }
  OpPtr op;
  if (Code code = enqueue(lock, stream, "record", "", nullptr, false, &op)) return code;
  event->captured = false;
  event->capture.reset();
  event->recorded = op;
  return kSuccess;
}

Code wait_event(Lock& lock, Stream* stream, Event* event) {
  if (!engine().events.count(event)) return kInvalidHandle;
  if (event->captured) {
    auto capture = event->capture.lock();
    if (!capture) return kCapturedEvent;
    if (stream->capture && stream->capture != capture) {
      stream->capture->broken = capture->broken = true;
      return kCaptureMerge;
    }
    if (stream == &stream->device->default_stream) {
      capture->broken = true;
      return kCaptureImplicit;
    }
    if (!stream->capture) {
      stream->capture = capture;
      stream->capture_tail.clear();
      capture->streams.insert(stream);
    }
    for (size_t node : event->captured_nodes)
      if (std::find(stream->capture_tail.begin(), stream->capture_tail.end(), node) == stream->capture_tail.end())
        stream->capture_tail.push_back(node);
    return kSuccess;
  }
  if (!event->recorded) return kSuccess;  // never recorded: nothing to wait for
  if (stream->capture) {
    stream->capture->broken = true;
    return kCaptureIsolation;
  }
  OpPtr before = event->recorded, op;
  if (before->done) return stream->device->lost;
  // The lock is held, so the device's thread has not seen the new piece of work yet. With async off it would be waited for
  // too early, but then nothing is ever pending.
  if (Code code = enqueue(lock, stream, "wait", "", nullptr, false, &op)) return code;
  op->after.push_back(before);
  return kSuccess;
}

Code query_event(Lock&, Event* event) {
  if (!engine().events.count(event)) return kInvalidHandle;
  if (event->captured) return kCapturedEvent;
  Device& device = *engine().devices[static_cast<size_t>(event->device)];
  if (device.lost) return device.lost;
  if (!event->recorded || event->recorded->done) return kSuccess;
  want(event->recorded);
  engine().changed.notify_all();
  return kNotReady;
}

Code synchronize_event(Lock& lock, Event* event) {
  if (!engine().events.count(event)) return kInvalidHandle;
  if (event->captured) return kCapturedEvent;
  if (Code code = wait_for(lock, event->recorded)) return code;
  return engine().devices[static_cast<size_t>(event->device)]->lost;
}

Code elapsed(Lock&, Event* start, Event* end, float& milliseconds, bool needs_timing_flag) {
  auto& events = engine().events;
  if (!events.count(start) || !events.count(end)) return kInvalidHandle;
  constexpr unsigned kDisableTiming = 2;
  if (needs_timing_flag && ((start->flags | end->flags) & kDisableTiming)) return kInvalidHandle;
  if (!start->recorded || !end->recorded || start->device != end->device) return kInvalidHandle;
  if (Code lost = engine().devices[static_cast<size_t>(start->device)]->lost) return lost;
  if (!start->recorded->done || !end->recorded->done) {
    want(end->recorded);
    engine().changed.notify_all();
    return kNotReady;
  }
  milliseconds = static_cast<float>(end->recorded->finished_at - start->recorded->finished_at);
  return kSuccess;
}

Code copy(int device, uintptr_t to, uintptr_t from, size_t bytes, void* handle, bool async) {
  Engine& e = engine();
  Lock lock(e.mutex);
  Stream* stream = find_stream(lock, device, handle);
  if (!stream) return kInvalidHandle;
  if (bytes == 0) return kSuccess;
  for (uintptr_t address : {to, from}) {
    if (address == 0) return kInvalidValue;
    const bool known = is_device_address(address) || find_region(address);
    if (known && !is_covered(address, bytes)) return kInvalidValue;
  }
  if (!async)
    if (Code code = forbid_in_capture(lock, device)) return code;
  const bool from_pageable = is_pageable(from), to_pageable = is_pageable(to);
  const char* kind = is_device_address(to) ? (is_device_address(from) ? "copy_on_device" : "copy_to_device")
                                           : (is_device_address(from) ? "copy_to_host" : "copy_on_host");
  // Pageable memory that is read is taken at once, as drivers do: the program may change it when the call returns.
  std::shared_ptr<std::vector<char>> staged;
  if (from_pageable && async && !stream->capture) {
    const auto* bytes_from = reinterpret_cast<const char*>(from);
    staged = std::make_shared<std::vector<char>>(bytes_from, bytes_from + bytes);
  }
  auto run = [to, from, bytes, staged](Device&) {
    if (double ms = slow_copies_ms(); ms > 0)
      std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(ms));
    return move_bytes(to, staged ? reinterpret_cast<uintptr_t>(staged->data()) : from, bytes);
  };
  const bool captured = stream->capture != nullptr;
  OpPtr op;
  if (Code code = enqueue(lock, stream, kind, std::to_string(bytes) + " bytes", run, false, &op)) return code;
  // Pageable memory that is written is ready when the call returns.
  if (!captured && (!async || to_pageable || (from_pageable && !staged))) return wait_for(lock, op);
  return kSuccess;
}

Code fill(int device, uintptr_t to, uint32_t value, int width, size_t count, void* handle, bool async) {
  Engine& e = engine();
  Lock lock(e.mutex);
  Stream* stream = find_stream(lock, device, handle);
  if (!stream) return kInvalidHandle;
  if (count == 0) return kSuccess;
  if (to % static_cast<size_t>(width) != 0 || !is_covered(to, count * static_cast<size_t>(width))) return kInvalidValue;
  if (!async)
    if (Code code = forbid_in_capture(lock, device)) return code;
  OpPtr op;
  auto run = [=](Device&) { return fill_pattern(to, value, width, count); };
  const std::string label = std::to_string(count) + " x " + std::to_string(width) + " bytes";
  if (Code code = enqueue(lock, stream, "fill", label, run, false, &op)) return code;
  return async ? kSuccess : wait_for(lock, op);
}

Code host_function(int device, void* handle, void (*function)(void*), void* argument) {
  Lock lock(engine().mutex);
  Stream* stream = find_stream(lock, device, handle);
  if (!stream) return kInvalidHandle;
  if (!function) return kInvalidValue;
  return enqueue(
      lock, stream, "host_function", "",
      [=](Device&) {
        function(argument);
        return kSuccess;
      },
      true);
}

}  // namespace simgpu
