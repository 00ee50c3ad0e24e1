// Settings of the caching allocator: "key:value,key:value", in the words that PyTorch's users know.
#include "gpu/memory/allocator_impl.h"

#include <charconv>
#include <deque>
#include <mutex>

#include "core/env.h"

namespace facula::gpu {

namespace {

constexpr const char* kKnown =
    "expandable_segments (True or False), max_split_size_mb (a number from 20), garbage_collection_threshold (between "
    "0 and 1), "
    "roundup_power2_divisions (a power of two, or a list like [256:1,512:2,>:4]) and per_process_memory_fraction (from "
    "0 to 1)";

// Settings of PyTorch that have no meaning here. They do no harm, since the variable may be meant for both libraries.
constexpr std::string_view kWithoutEffect[] = {"backend",
                                               "pinned_use_cuda_host_register",
                                               "pinned_num_register_threads",
                                               "pinned_use_background_threads",
                                               "pinned_reserve_segment_size_mb",
                                               "release_lock_on_cudamalloc",
                                               "release_lock_on_hipmalloc",
                                               "graph_capture_record_stream_reuse",
                                               "max_non_split_rounding_mb"};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

class ConfigReader {
 public:
  ConfigReader(std::string_view text, std::string_view source) : rest_(text), source_(source) {
    config_.text = std::string(text);
  }

  AllocatorConfig read() {
    while (!trimmed(rest_).empty()) {
      const std::string_view entry = next_entry();
      if (entry.empty()) continue;
      const size_t colon = entry.find(':');
      if (colon == std::string_view::npos) complain(str("\"", entry, "\" has no value (\"key:value\" is expected)"));
      set(trimmed(entry.substr(0, colon)), trimmed(entry.substr(colon + 1)));
    }
    return config_;
  }

 private:
  [[noreturn]] void complain(const std::string& what) const {
    throw ValueError(str(source_, ": ", what, "; known settings are ", kKnown));
  }

  // Up to the next comma that is not inside brackets.
  std::string_view next_entry() {
    int depth = 0;
    size_t end = 0;
    for (; end < rest_.size(); ++end) {
      if (rest_[end] == '[') ++depth;
      if (rest_[end] == ']') --depth;
      if (rest_[end] == ',' && depth <= 0) break;
    }
    const std::string_view entry = trimmed(rest_.substr(0, end));
    rest_.remove_prefix(end == rest_.size() ? end : end + 1);
    return entry;
  }

  template <class Number>
  Number number(std::string_view key, std::string_view text) const {
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      complain(str(key, " must be a number, got \"", text, "\""));
    return value;
  }

  uint32_t divisions(std::string_view text) const {
    const auto value = number<uint32_t>("roundup_power2_divisions", text);
    // 0 and 1 mean that sizes are not rounded.
    if (value > 1 && (!std::has_single_bit(value) || value > 1024))
      complain(str("roundup_power2_divisions must be a power of two up to 1024, got ", value));
    return value;
  }

  void set(std::string_view key, std::string_view value) {
    if (key == "expandable_segments") {
      if (value != "True" && value != "False" && value != "true" && value != "false" && value != "1" && value != "0")
        complain(str("expandable_segments must be True or False, got \"", value, "\""));
      config_.expandable_segments = value == "True" || value == "true" || value == "1";
    } else if (key == "max_split_size_mb") {
      const auto megabytes = number<int64_t>(key, value);
      if (megabytes == -1) return;  // no limit
      if (megabytes < static_cast<int64_t>(kLargeSegment / kMiB) || megabytes > (int64_t{1} << 30))
        complain(str("max_split_size_mb must be at least ", kLargeSegment / kMiB, ", got ", megabytes));
      config_.max_split_size = static_cast<size_t>(megabytes) * kMiB;
    } else if (key == "garbage_collection_threshold") {
      const auto threshold = number<double>(key, value);
      if (!(threshold > 0 && threshold < 1))
        complain(str("garbage_collection_threshold must be between 0 and 1, got ", threshold));
      config_.garbage_collection_threshold = threshold;
    } else if (key == "per_process_memory_fraction") {
      const auto fraction = number<double>(key, value);
      if (!(fraction >= 0 && fraction <= 1))
        complain(str("per_process_memory_fraction must be from 0 to 1, got ", fraction));
      config_.memory_fraction = fraction;
    } else if (key == "roundup_power2_divisions") {
      set_divisions(value);
    } else {
      for (const std::string_view harmless : kWithoutEffect)
        if (key == harmless) return;
      complain(str("\"", key, "\" is not a setting of the allocator"));
    }
  }

  void set_divisions(std::string_view value) {
    auto& table = config_.roundup_divisions;
    config_.rounds_up = true;
    if (value.empty() || value.front() != '[') {
      table.fill(divisions(value));
      return;
    }
    if (value.back() != ']') complain(str("the list of roundup_power2_divisions has no end: \"", value, "\""));
    value = value.substr(1, value.size() - 2);
    bool first = true;
    size_t last = 0;
    while (!value.empty()) {
      const size_t comma = value.find(',');
      const std::string_view entry = trimmed(value.substr(0, comma));
      value.remove_prefix(comma == std::string_view::npos ? value.size() : comma + 1);
      const size_t colon = entry.find(':');
      if (colon == std::string_view::npos)
        complain(str("roundup_power2_divisions: \"", entry, "\" is not \"megabytes:divisions\""));
      const std::string_view from = trimmed(entry.substr(0, colon));
      const uint32_t count = divisions(trimmed(entry.substr(colon + 1)));
      if (from == ">") {
        for (size_t i = last + 1; i < table.size(); ++i) table[i] = count;
        continue;
      }
      const auto megabytes = number<uint64_t>("roundup_power2_divisions", from);
      if (!std::has_single_bit(megabytes) || megabytes > (uint64_t{1} << 20))
        complain(str("roundup_power2_divisions: sizes must be powers of two in megabytes, got ", megabytes));
      last = static_cast<size_t>(std::bit_width(megabytes)) - 1 + 20;
      // The first entry holds for all smaller sizes too.
      for (size_t i = first ? 0 : last; i <= last; ++i) table[i] = count;
      first = false;
    }
  }

  AllocatorConfig config_;
  std::string_view rest_, source_;
};

std::atomic<const AllocatorConfig*> current_config{nullptr};

// All that ever held are kept: somebody may be reading one of them.
const AllocatorConfig& publish(AllocatorConfig config) {
  static auto* all = new std::deque<AllocatorConfig>;
  static auto* writing = new std::mutex;
  std::lock_guard lock(*writing);
  const AllocatorConfig& kept = all->emplace_back(std::move(config));
  current_config.store(&kept, std::memory_order_release);
  return kept;
}

const AllocatorConfig& config_of_environment() {
  constexpr std::pair<EnvVar, const char*> kSources[] = {{EnvVar::CudaAllocConf, "FACULA_CUDA_ALLOC_CONF"},
                                                         {EnvVar::TorchCudaAllocConf, "PYTORCH_CUDA_ALLOC_CONF"},
                                                         {EnvVar::TorchAllocConf, "PYTORCH_ALLOC_CONF"}};
  static auto* reading = new std::mutex;
  std::lock_guard lock(*reading);
  if (const AllocatorConfig* config = current_config.load(std::memory_order_acquire)) return *config;
  for (const auto& [variable, name] : kSources)
    if (const auto text = env(variable)) return publish(parse_allocator_config(*text, name));
  return publish({});
}

}  // namespace

AllocatorConfig parse_allocator_config(std::string_view text, std::string_view source) {
  return ConfigReader(text, source).read();
}

const AllocatorConfig& allocator_config() {
  const AllocatorConfig* config = current_config.load(std::memory_order_acquire);
  return config ? *config : config_of_environment();
}

void set_allocator_settings(const std::string& text) {
  publish(parse_allocator_config(text, "set_allocator_settings"));
}

}  // namespace facula::gpu
