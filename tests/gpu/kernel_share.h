// Which of the kernel texts a run of the tests gives to a vendor's compiler, where all of them would take too long.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace facula::gpu_tests {

// FNV-1a: the same numbers on every machine, which std::hash does not promise.
inline uint64_t share_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  // Its low bits alone are poor, and the remainder takes these.
  return (hash ^ (hash >> 32)) * 0x9e3779b97f4a7c15u >> 16;
}

// Every text belongs to one of `count` parts by its name, whatever other texts there are, and `drawn_by` chooses the part: the
// same word the same one, and many words all of them. Names hold the hash of the text, so a text that changes is drawn anew.
inline std::vector<std::string> share_of(const std::vector<std::string>& names, uint64_t count,
                                         std::string_view drawn_by) {
  if (count <= 1) return names;
  const uint64_t part = share_hash(drawn_by) % count;
  std::vector<std::string> some;
  for (const std::string& name : names)
    if (share_hash(name) % count == part) some.push_back(name);
  return some;
}

}  // namespace facula::gpu_tests
