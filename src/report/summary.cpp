// Tables of modules.
#include <facula/nn/module.h>
#include <facula/nn/summary.h>
#include <facula/progress.h>

#include "report/text_width.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <unordered_set>

namespace facula::nn {
namespace {

using Row = std::array<std::string, 4>;

std::string with_separators(int64_t number) {
  std::string digits = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0; at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

std::string memory_text(int64_t bytes) {
  const char* const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < std::size(units)) {
    value /= 1024;
    ++unit;
  }
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return buffer;
}

std::string shapes_of(const Module& module) {
  std::string text;
  const auto add = [&](const NamedTensors& named) {
    for (const auto& item : named) text += str(text.empty() ? "" : ", ", item.key(), " ", to_text(item->sizes()));
  };
  add(module.named_parameters(false));
  add(module.named_buffers(false));
  return text;
}

}  // namespace

ModuleSize module_size(const Module& module) {
  ModuleSize size;
  for (const Tensor& each : module.parameters()) {
    size.parameters += each.numel();
    if (each.requires_grad()) size.trainable += each.numel();
    size.bytes += static_cast<int64_t>(each.nbytes());
  }
  for (const Tensor& each : module.buffers()) {
    size.buffers += each.numel();
    size.bytes += static_cast<int64_t>(each.nbytes());
  }
  return size;
}

std::string summary(const Module& module) {
  std::vector<Row> rows = {{"module", "type", "tensors", "parameters"}};
  std::unordered_set<const void*> counted;
  module.apply(Module::ConstNamedModuleApplyFunction([&](const std::string& path, const Module& each) {
    const size_t depth = path.empty() ? 0 : 1 + static_cast<size_t>(std::count(path.begin(), path.end(), '.'));
    const std::string name = path.empty() ? "(all)" : path.substr(path.rfind('.') + 1);
    int64_t own = 0;
    bool is_shared = false;
    for (const Tensor& parameter : each.parameters(false)) {
      if (counted.insert(parameter.impl()).second) own += parameter.numel();
      else is_shared = true;
    }
    const bool has_own = !each.parameters(false).empty();
    rows.push_back({std::string(2 * depth, ' ') + report::printable(name), report::printable(each.name()),
                    report::printable(shapes_of(each)),
                    has_own ? with_separators(own) + (is_shared ? " (shared)" : "") : ""});
  }));

  std::array<int, 4> widths{};
  for (const Row& row : rows)
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], display_width(row[i]));
  std::string rule(static_cast<size_t>(widths[0] + widths[1] + widths[2] + widths[3] + 6), '-');
  std::string out;
  for (size_t r = 0; r < rows.size(); ++r) {
    std::string line;
    for (size_t i = 0; i < 3; ++i) line += report::fit_to_width(rows[r][i], widths[i]) + "  ";
    const int space = widths[3] - display_width(rows[r][3]);
    line += std::string(static_cast<size_t>(space), ' ') + rows[r][3];
    while (!line.empty() && line.back() == ' ') line.pop_back();
    out += line + "\n";
    if (r == 0) out += rule + "\n";
  }
  const ModuleSize size = module_size(module);
  out += rule + "\n";
  out += str("parameters: ", with_separators(size.parameters), " (trainable: ", with_separators(size.trainable), ")\n");
  if (size.buffers > 0) out += str("numbers in buffers: ", with_separators(size.buffers), "\n");
  out += "memory: " + memory_text(size.bytes) + "\n";
  return out;
}

}  // namespace facula::nn
