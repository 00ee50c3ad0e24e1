// What the allocator did and what it holds: the history of events, and the snapshot of both as JSON and as a page.
#include "gpu/memory/allocator_impl.h"
#include "gpu/memory/snapshot_page.h"

#include "core/call_stack.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <unordered_map>
#include <unordered_set>

namespace facula::gpu {

std::atomic<bool> history_enabled{false};

namespace {

struct History {
  std::mutex mutex;
  bool call_sites = false;
  std::atomic<size_t> max_entries{0};
  std::atomic<std::string (*)()> source{nullptr};
  // Texts that are in use, by themselves.
  std::unordered_map<std::string_view, StackText> texts;
  size_t prune_at = 1024;
};

History& history() {
  static auto* one = new History;
  return *one;
}

// Without a source a stack is kept as its return addresses: to name them takes long, and most are never read. This byte, which no
// text of a source begins with, tells them apart.
constexpr char kAddresses = '\0';

// The stack from the caller of the function on that goes on at `inner`.
std::string address_stack(void* inner) {
  const std::vector<void*> addresses = facula::detail::return_addresses();
  const auto found = std::find(addresses.begin(), addresses.end(), inner);
  const size_t skipped = found == addresses.end() ? 0 : static_cast<size_t>(found - addresses.begin()) + 1;
  std::string text(1, kAddresses);
  text.append(reinterpret_cast<const char*>(addresses.data() + skipped), (addresses.size() - skipped) * sizeof(void*));
  return text;
}

std::vector<void*> callers_in(const std::string& stack, size_t most_frames) {
  std::vector<void*> addresses((stack.size() - 1) / sizeof(void*));
  if (!addresses.empty()) std::memcpy(addresses.data(), stack.data() + 1, addresses.size() * sizeof(void*));
  std::vector<void*> callers = facula::detail::callers_of_library(addresses);
  if (callers.size() > most_frames) callers.resize(most_frames);
  return callers;
}

constexpr const char* kActionNames[] = {"alloc",        "free_requested", "free_completed", "segment_alloc",
                                        "segment_free", "segment_map",    "segment_unmap",  "oom",
                                        "snapshot"};

// A writer of JSON. Texts may come from anywhere, also bytes that are no UTF-8; what could end a script element is
// escaped.
class JsonWriter {
 public:
  void raw(std::string_view text) { out_ += text; }
  void key(std::string_view name) {
    comma();
    out_ += '"';
    out_ += name;
    out_ += "\":";
    fresh_ = true;
  }
  void open(char bracket) {
    comma();
    out_ += bracket;
    fresh_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    fresh_ = false;
  }
  void number(uint64_t value) {
    comma();
    char text[24];
    out_.append(text, std::to_chars(text, text + sizeof text, value).ptr);
  }
  void real(double value) {
    comma();
    char text[40];
    out_.append(text, std::to_chars(text, text + sizeof text, value).ptr);
  }
  void boolean(bool value) {
    comma();
    out_ += value ? "true" : "false";
  }
  void text(std::string_view value) {
    comma();
    out_ += '"';
    while (!value.empty()) append_character(value);
    out_ += '"';
  }
  template <class Value>
  void field(std::string_view name, const Value& value) {
    key(name);
    if constexpr (std::is_same_v<Value, bool>) boolean(value);
    else if constexpr (std::is_floating_point_v<Value>) real(value);
    else if constexpr (std::is_pointer_v<Value> &&
                       !std::is_same_v<std::remove_cv_t<std::remove_pointer_t<Value>>, char>)
      number(reinterpret_cast<uint64_t>(value));
    else if constexpr (std::is_integral_v<Value>) number(static_cast<uint64_t>(value));
    else text(value);
  }
  std::string take() { return std::move(out_); }

 private:
  void comma() {
    if (!fresh_) out_ += ',';
    fresh_ = false;
  }
  void escape(unsigned code) {
    constexpr char kDigits[] = "0123456789abcdef";
    const char text[] = {
        '\\', 'u', kDigits[code >> 12], kDigits[code >> 8 & 15], kDigits[code >> 4 & 15], kDigits[code & 15]};
    out_.append(text, sizeof text);
  }
  // Moves one character from the front of `rest` to the output.
  void append_character(std::string_view& rest) {
    const auto first = static_cast<unsigned char>(rest[0]);
    if (first < 0x80) {
      if (first == '"' || first == '\\' || first == '<' || first == '>' || first == '&' || first < 0x20 ||
          first == 0x7f)
        escape(first);
      else out_ += rest[0];
      return rest.remove_prefix(1);
    }
    const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
    unsigned code = first & (0x7fu >> length);
    bool good = first >= 0xc2 && first <= 0xf4 && rest.size() >= length;
    for (size_t i = 1; good && i < length; ++i) {
      const auto next = static_cast<unsigned char>(rest[i]);
      good = (next & 0xc0) == 0x80;
      code = code << 6 | (next & 0x3fu);
    }
    // Overlong forms, halves of surrogate pairs and what lies beyond Unicode are no characters.
    good = good && !(length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000))) &&
           !(length == 4 && (code < 0x10000 || code > 0x10ffff));
    if (!good) {
      escape(0xfffd);
      return rest.remove_prefix(1);
    }
    if (code == 0x2028 || code == 0x2029) escape(code);
    else out_ += rest.substr(0, length);
    rest.remove_prefix(length);
  }

  std::string out_;
  bool fresh_ = true;
};

// Call sites are written once and referred to by number.
class StackTable {
 public:
  void field(JsonWriter& json, const StackText& stack) {
    if (!stack || stack->empty()) return;
    const auto [found, is_new] = numbers_.try_emplace(stack.get(), stacks_.size());
    if (is_new) stacks_.push_back(stack);
    json.field("stack", found->second);
  }
  void write(JsonWriter& json) const {
    std::vector<const std::string*> stacks;
    for (const StackText& stack : stacks_) stacks.push_back(stack.get());
    json.open('[');
    for (const std::string& stack : readable_stacks(stacks)) {
      json.open('[');
      std::string_view lines = stack;
      while (!lines.empty()) {
        const size_t end = lines.find('\n');
        const std::string_view line = lines.substr(0, end);
        lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
        if (!line.empty()) write_frame(json, line);
      }
      json.close(']');
    }
    json.close(']');
  }

 private:
  // "file:line function"; a line of another form becomes the name of a frame without a place.
  static void write_frame(JsonWriter& json, std::string_view line) {
    std::string_view file, name = line;
    uint64_t number = 0;
    for (size_t colon = line.find(':'); colon != std::string_view::npos; colon = line.find(':', colon + 1)) {
      const char* end = line.data() + line.size();
      const auto [after, error] = std::from_chars(line.data() + colon + 1, end, number);
      if (error == std::errc() && (after == end || *after == ' ')) {
        file = line.substr(0, colon);
        name = after == end ? std::string_view() : line.substr(static_cast<size_t>(after + 1 - line.data()));
        break;
      }
      number = 0;
    }
    json.open('{');
    json.field("filename", file);
    json.field("line", number);
    json.field("name", name);
    json.close('}');
  }

  std::unordered_map<const std::string*, size_t> numbers_;
  std::vector<StackText> stacks_;
};

const char* state_name(BlockState state) {
  switch (state) {
    case BlockState::Allocated: return "active_allocated";
    case BlockState::Pending: return "active_pending_free";
    default: return "inactive";
  }
}

// A stretch of memory without holes: a segment, or a mapped part of a growing one.
void write_stretch(JsonWriter& json, StackTable& stacks, const Segment& segment, const Block* first, const Block* end) {
  size_t total = 0, allocated = 0, active = 0, requested = 0;
  for (const Block* block = first; block != end; block = block->after) {
    total += block->size;
    if (block->state == BlockState::Allocated) allocated += block->size;
    if (block->state != BlockState::Free) {
      active += block->size;
      requested += block->requested;
    }
  }
  const Pool& pool = *segment.pool;
  json.open('{');
  json.field("device", pool.stream.device);
  json.field("address", static_cast<const void*>(first->data));
  json.field("total_size", total);
  json.field("allocated_size", allocated);
  json.field("active_size", active);
  json.field("requested_size", requested);
  json.field("stream", pool.stream.handle);
  json.field("segment_type", pool.kind == kSmallPool ? "small" : "large");
  json.key("segment_pool_id");
  json.open('[');
  json.number(0);
  json.number(pool.owner ? pool.owner->id : 0);
  json.close(']');
  json.field("is_expandable", segment.growing);
  stacks.field(json, segment.stack);
  json.key("blocks");
  json.open('[');
  for (const Block* block = first; block != end; block = block->after) {
    json.open('{');
    json.field("address", static_cast<const void*>(block->data));
    json.field("size", block->size);
    json.field("requested_size", block->state == BlockState::Free ? 0 : block->requested);
    json.field("state", state_name(block->state));
    if (block->op) json.field("op", block->op);
    stacks.field(json, block->stack);
    json.close('}');
  }
  json.close(']');
  json.close('}');
}

void write_segments(JsonWriter& json, StackTable& stacks, const DeviceHeap& heap) {
  std::vector<const Segment*> segments(heap.segments.begin(), heap.segments.end());
  std::sort(segments.begin(), segments.end(), [](const Segment* a, const Segment* b) { return a->data < b->data; });
  for (const Segment* segment : segments) {
    const Block* block = segment->first;
    while (block) {
      if (block->state == BlockState::Unmapped) {
        block = block->after;
        continue;
      }
      const Block* end = block;
      while (end && end->state != BlockState::Unmapped) end = end->after;
      write_stretch(json, stacks, *segment, block, end);
      block = end;
    }
  }
}

void write_trace(JsonWriter& json, StackTable& stacks, const DeviceHeap& heap) {
  const size_t count = heap.trace.size();
  for (size_t i = 0; i < count; ++i) {
    const TraceEntry& entry = heap.trace[(heap.trace_next + i) % count];
    json.open('{');
    json.field("action", kActionNames[static_cast<int>(entry.action)]);
    if (entry.action == TraceAction::OutOfMemory) json.field("device_free", entry.device_free);
    else json.field("addr", entry.data);
    json.field("size", entry.size);
    json.field("stream", entry.stream);
    json.field("device", heap.device);
    json.field("time_us", entry.time_us);
    if (entry.op) json.field("op", entry.op);
    stacks.field(json, entry.stack);
    json.close('}');
  }
}

void write_settings(JsonWriter& json) {
  const AllocatorConfig& config = allocator_config();
  json.open('{');
  json.field("PYTORCH_CUDA_ALLOC_CONF", config.text);
  json.field("max_split_size",
             config.max_split_size == SIZE_MAX ? std::string("unlimited") : str(config.max_split_size));
  json.field("garbage_collection_threshold", config.garbage_collection_threshold);
  json.field("expandable_segments", config.expandable_segments);
  json.field("per_process_memory_fraction", config.memory_fraction);
  json.field("caching", caching());
  json.key("roundup_power2_divisions");
  json.open('{');
  for (size_t i = 20; i < 37; ++i) json.field(str(1u << (i - 20)), config.roundup_divisions[i]);
  json.close('}');
  json.close('}');
}

}  // namespace

std::vector<std::string> readable_stacks(std::span<const std::string* const> stacks, size_t most_frames) {
  const auto has_addresses = [](const std::string& stack) { return !stack.empty() && stack[0] == kAddresses; };
  // All names are asked for together: each question costs a process.
  std::unordered_set<void*> known;
  std::vector<void*> addresses;
  for (const std::string* stack : stacks) {
    if (!has_addresses(*stack)) continue;
    for (void* address : callers_in(*stack, most_frames))
      if (known.insert(address).second) addresses.push_back(address);
  }
  const std::vector<facula::detail::CodePlace> places = facula::detail::places_of(addresses);
  std::unordered_map<void*, std::string> lines;
  for (size_t i = 0; i < addresses.size(); ++i) {
    const auto& [program, function, line] = places[i];
    const std::string_view name = function.empty() ? std::string_view("an unnamed function") : function;
    lines[addresses[i]] = line.empty() ? str(name, " (", program, ")\n") : str(line, " ", name, "\n");
  }
  std::vector<std::string> texts;
  for (const std::string* stack : stacks) {
    std::string& text = texts.emplace_back();
    if (!has_addresses(*stack)) text = *stack;
    else
      for (void* address : callers_in(*stack, most_frames)) text += lines[address];
  }
  return texts;
}

void record_history(const HistoryOptions& options) {
  History& one = history();
  {
    std::lock_guard lock(one.mutex);
    one.call_sites = options.call_sites;
    one.max_entries.store(options.enabled ? std::max<size_t>(options.max_entries, 1) : 0, std::memory_order_relaxed);
    history_enabled.store(options.enabled, std::memory_order_relaxed);
  }
  if (forked_after_start()) return;
  for (int device = 0; device < kMaxDevices; ++device) {
    DeviceHeap* heap = existing_heap(device, "record_memory_history");
    if (!heap) continue;
    std::lock_guard lock(heap->mutex);
    heap->trace = {};
    heap->trace_next = 0;
  }
}

void set_stack_source(std::string (*source)()) { history().source.store(source, std::memory_order_release); }

StackText current_stack() {
  History& one = history();
  const auto source = one.source.load(std::memory_order_acquire);
  {
    std::lock_guard lock(one.mutex);
    if (!one.call_sites) return nullptr;
  }
  auto text = std::make_shared<const std::string>(source ? source() : address_stack(__builtin_return_address(0)));
  std::lock_guard lock(one.mutex);
  if (one.texts.size() >= one.prune_at) {
    std::erase_if(one.texts, [](const auto& item) { return item.second.use_count() == 1; });
    one.prune_at = std::max<size_t>(1024, 2 * one.texts.size());
  }
  return one.texts.try_emplace(*text, text).first->second;
}

void DeviceHeap::remember(TraceAction action, const void* data, size_t size, StreamHandle stream, const char* op,
                          const StackText& stack, size_t device_free) {
  if (!history_enabled.load(std::memory_order_relaxed)) return;
  const size_t most = history().max_entries.load(std::memory_order_relaxed);
  if (most == 0) return;
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  const int64_t now = std::chrono::duration_cast<std::chrono::microseconds>(since).count();
  TraceEntry entry{action, data, size, stream, now, device_free, op, stack};
  if (trace.size() < most) {
    trace.push_back(std::move(entry));
    return;
  }
  trace[trace_next] = std::move(entry);
  trace_next = (trace_next + 1) % trace.size();
}

std::string snapshot_json() {
  JsonWriter segments, traces;
  StackTable stacks;
  segments.open('[');
  traces.open('[');
  int last = -1;
  for (int device = 0; device < kMaxDevices; ++device) {
    DeviceHeap* heap = forked_after_start() ? nullptr : existing_heap(device, "memory_snapshot");
    if (!heap) continue;
    for (; last < device - 1; ++last) traces.open('['), traces.close(']');
    last = device;
    std::lock_guard lock(heap->mutex);
    heap->remember(TraceAction::Snapshot, nullptr, 0, nullptr, nullptr, nullptr);
    write_segments(segments, stacks, *heap);
    traces.open('[');
    write_trace(traces, stacks, *heap);
    traces.close(']');
  }
  segments.close(']');
  traces.close(']');
  JsonWriter json;
  json.open('{');
  json.key("segments");
  json.raw(segments.take());
  json.raw(",\"device_traces\":");
  json.raw(traces.take());
  json.raw(",\"allocator_settings\":");
  write_settings(json);
  json.raw(",\"stacks\":");
  JsonWriter table;
  stacks.write(table);
  json.raw(table.take());
  json.close('}');
  return json.take();
}

std::string snapshot_html() { return str(kSnapshotPageHead, snapshot_json(), kSnapshotPageTail); }

}  // namespace facula::gpu
