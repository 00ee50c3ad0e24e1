// Lists of names in messages about modules.
#pragma once

#include <string>
#include <vector>

namespace facula::nn {

inline std::string quoted(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& each : names) text += (text.empty() ? "\"" : ", \"") + each + '"';
  return text;
}

}  // namespace facula::nn
