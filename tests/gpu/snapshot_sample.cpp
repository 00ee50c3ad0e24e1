// Writes the page of a snapshot for snapshot_page_test.py, and says on standard output what must be found in it.
//   snapshot_sample FILE STEPS ENTRIES   (ENTRIES 0: no history)
#include "fake_driver.h"
#include "gpu/memory/allocator.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <random>
#include <vector>

namespace {

using namespace facula::gpu;

// Names and call sites that would end the script, open an element or end a string, if anybody let them.
constexpr const char* kOps[] = {
    "matmul", "conv2d", "relu", "</script><img src=x onerror=\"document.title='taken'\">", "add'\"\\", "<!--<script>"};
int line = 0;

std::string call_site() {
  return "train.py:" + std::to_string(10 + line % 17) +
         " step\nmodel.py:7 forward\n</script><script>document.title='taken'</script>";
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const int steps = std::atoi(argv[2]);
  const auto entries = static_cast<size_t>(std::atoll(argv[3]));
  fake::fake_driver().capacity = size_t{16} << 30;
  set_stack_source(call_site);
  if (entries) record_history({true, true, entries});
  std::mt19937 random(3);
  std::vector<Allocation> held;
  for (int i = 0; i < 30; ++i) {
    line = i;
    held.push_back(allocate(0, (1 + random() % 40) << 20, kOps[i % std::size(kOps)]));
  }
  for (int step = 0; step < steps; ++step) {
    line = static_cast<int>(random() % 100);
    if (step % 97 == 96) fake::set_fake_stream(0, reinterpret_cast<void*>(size_t{random() % 2} * 0x40));
    if (random() % 100 < (step / 200 % 2 ? 42u : 58u)) {
      held.push_back(allocate(0, size_t{1} << (9 + random() % 18), kOps[random() % std::size(kOps)]));
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      if (random() % 50 == 0) {
        fake::fake_driver().enqueue(reinterpret_cast<void*>(0x80));
        record_stream(held.back().block, {0, 2, reinterpret_cast<void*>(0x80)});
      }
      free(held.back().block);
      held.pop_back();
    }
    if (step == steps / 2) {
      try {
        allocate(0, size_t{40} << 30, "huge");
      } catch (const facula::OutOfMemoryError&) {
      }
    }
  }
  held.push_back(allocate(1, 5 << 20, "on the other device"));
  std::ofstream(argv[1]) << snapshot_html();
  const AllocatorStats now = stats(0);
  std::cout << "{\"allocated\": " << now.allocated_bytes[kAllPools].current
            << ", \"reserved\": " << now.reserved_bytes[kAllPools].current
            << ", \"active\": " << now.active_bytes[kAllPools].current
            << ", \"requested\": " << now.requested_bytes[kAllPools].current
            << ", \"blocks\": " << now.allocation[kAllPools].current
            << ", \"active_blocks\": " << now.active[kAllPools].current
            << ", \"peak\": " << now.allocated_bytes[kAllPools].peak << "}\n";
}
