// The calls of ops.py in C++, so that what Python adds can be told: prints a name, a tab and nanoseconds for each.
#include <facula/facula.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

namespace {

template <class F>
void measure(const char* name, F&& call) {
  std::vector<double> times;
  for (int round = 0; round < 41; ++round) {
    constexpr int kCount = 10000;
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCount; ++i) call();
    times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
                    kCount);
  }
  std::nth_element(times.begin(), times.begin() + 20, times.end());
  std::printf("%s\t%.1f\n", name, times[20]);
}

}  // namespace

int main() {
  using namespace facula;
  set_num_threads(1);
  const Tensor a = tensor({1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f, 7.0f, 8.0f});
  const Tensor b = tensor({8.0f, 7.0f, 6.0f, 5.0f, 4.0f, 3.0f, 2.0f, 1.0f});
  const Tensor matrix = ones({8, 8});
  measure("a + b", [&] { return a + b; });
  measure("a * 2.0", [&] { return a * 2.0; });
  measure("a.sum()", [&] { return a.sum(); });
  measure("a[0]", [&] { return a[0]; });
  measure("a.view(2, 4)", [&] { return a.view({2, 4}); });
  measure("zeros(8)", [&] { return zeros({8}); });
  measure("exp", [&] { return a.exp(); });
  measure("matrix @ matrix", [&] { return matrix.matmul(matrix); });
  return 0;
}
