// Runs one test of this program in a process of its own, for what cannot be undone: environments, lost devices.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <array>
#include <cstdio>
#include <string>

namespace facula::testing {

struct ChildResult {
  int status = -1;
  std::string output;
};

// A tool that watches this program (compute-sanitizer) does not watch the child, which may do wrong on purpose.
// `name` is a disabled test, SUITE.DISABLED_NAME; `environment` goes to env(1): "-u HOME A=1 B=2".
inline ChildResult run_in_child(const std::string& name, const std::string& environment) {
  const std::string command =
      "env -u LD_PRELOAD -u CUDA_INJECTION64_PATH -u GTEST_TOTAL_SHARDS -u GTEST_SHARD_INDEX -u GTEST_FILTER " +
      environment + " \"$(readlink /proc/" + std::to_string(getpid()) +
      "/exe)\" --gtest_also_run_disabled_tests --gtest_filter=" + name + " 2>&1";
  ChildResult result;
  std::FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return result;
  std::array<char, 4096> buffer{};
  while (size_t n = std::fread(buffer.data(), 1, buffer.size(), pipe)) result.output.append(buffer.data(), n);
  result.status = pclose(pipe);
  return result;
}

}  // namespace facula::testing
