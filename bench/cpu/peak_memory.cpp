// How much memory one forward and backward step of the transformer takes beyond its parameters: the highest resident size of
// the process during steps, less that before them. One process for each library; run.sh memory runs both.
#include "gradient_cases.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <malloc.h>

namespace {

// A field of /proc/self/status in kilobytes.
long status_kb(const char* field) {
  std::FILE* file = std::fopen("/proc/self/status", "r");
  if (!file) return -1;
  char line[256];
  long found = -1;
  while (std::fgets(line, sizeof line, file))
    if (std::strncmp(line, field, std::strlen(field)) == 0) found = std::atol(line + std::strlen(field));
  std::fclose(file);
  return found;
}

void reset_peak() {
  if (std::FILE* file = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", file);
    std::fclose(file);
  }
}

}  // namespace

int main() {
  const Transformer model;
  const lib::Tensor x = input({Transformer::kBatch, Transformer::kTime, Transformer::kWidth}, lib::kFloat32, 7, 1.0f);
  // Libraries, threads and packed weights come to life with a step on a tenth of the input's scale; what it freed stays.
  {
    Mlp warm;
    warm.loss(input({16, 64}, lib::kFloat32, 5, 1.0f)).backward();
  }
  malloc_trim(0);
  const long before = status_kb("VmRSS:");
  reset_peak();
  float value = 0;
  for (int step = 0; step < 3; ++step) {
    forget_gradients(model.all);
    const lib::Tensor loss = model.loss(x);
    loss.backward();
    value = loss.item<float>();
  }
  std::printf("{\"library\": \"%s\", \"loss\": %.6g, \"peak_kb\": %ld}\n", library_name(), static_cast<double>(value),
              status_kb("VmHWM:") - before);
  return 0;
}
