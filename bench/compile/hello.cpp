// A first program, as users write it: what it costs to compile is measured, with either library's one header.

#ifdef BENCH_LIBTORCH
#include <torch/torch.h>
namespace lib = torch;
#else
#include <facula/facula.h>
namespace lib = facula;
#endif

#include <iostream>

int main() {
  lib::Tensor weights = lib::randn({4, 3});
  lib::Tensor input = lib::ones({3, 2});
  lib::Tensor output = lib::matmul(weights, input) + 1;
  std::cout << output << "\n" << output.sum() << "\n";
}
