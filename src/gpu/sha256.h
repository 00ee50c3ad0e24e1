// SHA-256 (FIPS 180-4): names and checks what is kept on disk.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace facula::gpu {

using Digest = std::array<uint8_t, 32>;

class Sha256 {
 public:
  Sha256& add(const void* data, size_t bytes);
  // A text with its length, so that texts side by side cannot be taken for others.
  Sha256& add_text(std::string_view text);
  // The digest of all that was added; nothing can be added after it.
  Digest finish();

 private:
  void add_block(const uint8_t* block);

  uint32_t state_[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  uint8_t pending_[64] = {};
  size_t pending_bytes_ = 0;
  uint64_t total_bytes_ = 0;
};

Digest sha256(const void* data, size_t bytes);
// Lower case, 64 characters.
std::string to_hex(const Digest& digest);

}  // namespace facula::gpu
