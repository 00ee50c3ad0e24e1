// Pictures as PNG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace facula::report {

// 8 bits a channel, rows from the top; 1 channel is gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha.
std::string encode_png(std::string_view pixels, uint32_t width, uint32_t height, int channels);

}  // namespace facula::report
