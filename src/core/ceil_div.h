#pragma once

#include <cstdint>

namespace facula {

// How many times b goes into a, the last time perhaps not wholly; a >= 0, b > 0.
inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace facula
