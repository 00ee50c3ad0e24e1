// Figures of the caching allocator, and how they are told: the table of `summary` and the text of OutOfMemoryError.
#include "gpu/memory/allocator_impl.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string_view>

namespace facula::gpu {

namespace {

// All figures that have a peak and totals.
template <class Function>
void for_each_stat(AllocatorStats& counts, Function function) {
  for (auto* group :
       {&counts.allocation, &counts.segment, &counts.active, &counts.inactive_split, &counts.allocated_bytes,
        &counts.reserved_bytes, &counts.active_bytes, &counts.inactive_split_bytes, &counts.requested_bytes})
    for (Stat& stat : *group) function(stat);
  function(counts.oversize_allocations);
  function(counts.oversize_segments);
}

std::string padded(const std::string& text, size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

// The next unit only from 750 of it on: columns of numbers are compared, and digits tell more than units.
std::string in_units(int64_t value, int64_t step, std::initializer_list<const char*> units) {
  auto unit = units.begin();
  while (value >= 750 * step && unit + 1 != units.end()) {
    value /= step;
    ++unit;
  }
  return str(value, " ", *unit);
}
std::string column_bytes(int64_t bytes) { return in_units(bytes, 1024, {"B  ", "KiB", "MiB", "GiB", "TiB", "PiB"}); }
std::string column_count(int64_t count) { return in_units(count, 1000, {" ", "K", "M", "G"}); }

}  // namespace

std::string bytes_text(size_t bytes) {
  if (bytes < 1024) return str(bytes, bytes == 1 ? " byte" : " bytes");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (unit < 3 && value >= 1024) {
    value /= 1024;
    ++unit;
  }
  char text[40];
  std::snprintf(text, sizeof text, "%.2f %s", value, kUnits[unit]);
  return text;
}

void DeviceHeap::reset_peaks() {
  for_each_stat(counts, [](Stat& stat) { stat.peak = stat.current; });
}

void DeviceHeap::reset_totals() {
  for_each_stat(counts, [](Stat& stat) { stat.allocated = stat.freed = 0; });
  counts.num_alloc_retries = counts.num_ooms = counts.num_sync_all_streams = 0;
  counts.num_device_alloc = counts.num_device_free = 0;
}

AllocatorStats stats(int device) {
  DeviceHeap* heap = existing_heap(device, "memory_stats");
  AllocatorStats counts;
  if (heap && !forked_after_start()) {
    std::lock_guard lock(heap->mutex);
    counts = heap->counts;
  }
  const size_t max_split = allocator_config().max_split_size;
  counts.max_split_size = max_split == SIZE_MAX ? -1 : static_cast<int64_t>(max_split);
  return counts;
}

void reset_peak_stats(int device) {
  DeviceHeap* heap = existing_heap(device, "reset_peak_memory_stats");
  if (!heap || forked_after_start()) return;
  std::lock_guard lock(heap->mutex);
  heap->reset_peaks();
}

void reset_accumulated_stats(int device) {
  DeviceHeap* heap = existing_heap(device, "reset_accumulated_memory_stats");
  if (!heap || forked_after_start()) return;
  std::lock_guard lock(heap->mutex);
  heap->reset_totals();
}

// Who holds the memory: blocks with the same op and call site together.
std::string DeviceHeap::out_of_memory_text(const Request& request, const Pool& pool, size_t device_free) {
  const auto now = [](const Stat(&stat)[3]) { return bytes_text(static_cast<size_t>(stat[kAllPools].current)); };
  std::string text = str(request.op, ": out of memory on cuda:", device, ". ", bytes_text(request.bytes),
                         " were asked for; the device has ", bytes_text(total_memory), ", of which ",
                         bytes_text(device_free), " are free. This process has reserved ", now(counts.reserved_bytes));
  if (fraction < 1) text += str(" (it may reserve ", bytes_text(limit), ", a fraction of ", fraction, ")");
  const int64_t idle = counts.reserved_bytes[kAllPools].current - counts.active_bytes[kAllPools].current;
  text += str(": ", now(counts.allocated_bytes), " are allocated, ", bytes_text(static_cast<size_t>(idle)),
              " are reserved but unused, ", now(counts.inactive_split_bytes),
              " of them as pieces between allocated blocks (fragmentation).");

  struct Holder {
    size_t bytes = 0, blocks = 0;
  };
  std::map<std::pair<std::string_view, const std::string*>, Holder> holders;
  for (const Segment* segment : segments) {
    for (const Block* block = segment->first; block; block = block->after) {
      if (block->state != BlockState::Allocated && block->state != BlockState::Pending) continue;
      Holder& holder = holders[{block->op ? block->op : "?", block->stack.get()}];
      holder.bytes += block->size;
      ++holder.blocks;
    }
  }
  std::vector<std::pair<std::pair<std::string_view, const std::string*>, Holder>> ranked(holders.begin(),
                                                                                         holders.end());
  const size_t shown = std::min<size_t>(ranked.size(), 5);
  std::partial_sort(ranked.begin(), ranked.begin() + static_cast<std::ptrdiff_t>(shown), ranked.end(),
                    [](const auto& a, const auto& b) { return a.second.bytes > b.second.bytes; });
  constexpr size_t kShownFrames = 3;  // the innermost ones tell enough
  std::vector<const std::string*> stacks;
  for (size_t i = 0; i < shown; ++i)
    if (const std::string* stack = ranked[i].first.second) stacks.push_back(stack);
  const std::vector<std::string> stack_texts = readable_stacks(stacks, kShownFrames);
  auto stack_text = stack_texts.begin();
  if (shown > 0) text += "\nLargest holders:";
  for (size_t i = 0; i < shown; ++i) {
    const auto& [who, holder] = ranked[i];
    text += str("\n  ", i + 1, ". ", bytes_text(holder.bytes), " in ", holder.blocks,
                holder.blocks == 1 ? " block" : " blocks", " of ", who.first);
    if (!who.second) continue;
    std::string_view lines = *stack_text++;
    for (size_t line = 0; line < kShownFrames && !lines.empty(); ++line) {
      const size_t end = lines.find('\n');
      text += str(line == 0 ? ", called at " : "\n       from ", lines.substr(0, end));
      lines.remove_prefix(end == std::string_view::npos ? lines.size() : end + 1);
    }
  }
  text += "\nWhat helps: a smaller batch, dropping tensors that are no longer needed, checkpointing";
  if (pool.owner) {
    text +=
        "; memory was asked for while a graph was captured, when caches cannot be emptied: empty_cache() before the "
        "capture";
  } else if (!captures()) {
    text += "; empty_cache() was done already";
  } else {
    text += "; caches cannot be emptied while a graph is captured: empty_cache() before the capture";
  }
  if (counts.inactive_split_bytes[kAllPools].current >= static_cast<int64_t>(request.size) &&
      !allocator_config().expandable_segments && maps_memory)
    text += "; FACULA_CUDA_ALLOC_CONF=expandable_segments:True against the fragmentation";
  if (fraction < 1) text += "; a larger set_per_process_memory_fraction";
  if (!history_enabled.load(std::memory_order_relaxed))
    text += "; record_memory_history() tells where in the program each block was asked for";
  return text + ".";
}

std::string summary(int device, bool abbreviated) {
  const AllocatorStats counts = stats(device);
  struct Row {
    const char* name;
    const Stat* stat;  // [3], or one
    bool bytes, pools;
  };
  const Row rows[] = {{"Allocated memory", counts.allocated_bytes, true, true},
                      {"Active memory", counts.active_bytes, true, true},
                      {"Requested memory", counts.requested_bytes, true, true},
                      {"GPU reserved memory", counts.reserved_bytes, true, true},
                      {"Non-releasable memory", counts.inactive_split_bytes, true, true},
                      {"Allocations", counts.allocation, false, true},
                      {"Active allocs", counts.active, false, true},
                      {"GPU reserved segments", counts.segment, false, true},
                      {"Non-releasable allocs", counts.inactive_split, false, true},
                      {"Oversize allocations", &counts.oversize_allocations, false, false},
                      {"Oversize GPU segments", &counts.oversize_segments, false, false}};
  constexpr size_t kNameWidth = 23, kColumnWidth = 12, kWidth = 2 + kNameWidth + 4 * (kColumnWidth + 3) + 1;
  const std::string rule = "|" + std::string(kWidth - 2, '=') + "|\n";
  const std::string thin_rule = "|" + std::string(kWidth - 2, '-') + "|\n";
  const auto line = [&](const std::string& name, std::initializer_list<std::string> columns) {
    std::string text = "| " + name + std::string(kNameWidth - name.size(), ' ');
    for (const std::string& column : columns) text += "| " + padded(column, kColumnWidth) + " ";
    return text + "|\n";
  };
  const auto centred = [&](const std::string& text) {
    const size_t room = kWidth - 2 - std::min(kWidth - 2, text.size());
    return "|" + std::string(room / 2, ' ') + text + std::string(room - room / 2, ' ') + "|\n";
  };

  std::string table = rule + centred(str("Facula CUDA memory summary, device ID ", device)) + thin_rule +
                      centred(str("OOMs: ", counts.num_ooms, "   allocation retries: ", counts.num_alloc_retries)) +
                      rule + line("Metric", {"Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"});
  for (const Row& row : rows) {
    table += thin_rule;
    constexpr const char* kPoolNames[] = {nullptr, "      from small pool", "      from large pool"};
    for (const int pool : {kAllPools, kLargePool, kSmallPool}) {
      if (pool != kAllPools && (abbreviated || !row.pools)) continue;
      const Stat& stat = row.stat[pool];
      const auto text = [&](int64_t value) { return row.bytes ? column_bytes(value) : column_count(value); };
      table += line(pool == kAllPools ? row.name : kPoolNames[pool],
                    {text(stat.current), text(stat.peak), text(stat.allocated), text(stat.freed)});
    }
  }
  return table + rule;
}

}  // namespace facula::gpu
