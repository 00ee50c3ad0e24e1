// The vendors' libraries for ranges that profilers show.
#pragma once

namespace facula::gpu {

struct RangeFunctions {
  int (*push)(const char* text) = nullptr;
  int (*pop)() = nullptr;
  void (*mark)(const char* text) = nullptr;
};

// What was found, looked for once; members are nullptr where there is nothing. Never throws.
const RangeFunctions& range_functions();

}  // namespace facula::gpu
