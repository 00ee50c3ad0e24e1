// A user's program against an installed Facula: includes the one public header, computes, and checks what it got.
#include <facula/facula.h>

#include <cmath>
#include <cstdio>

int main() {
  const facula::Tensor x = facula::arange(6, facula::kFloat).reshape({2, 3});
  const facula::Tensor y = facula::softmax(x, 1);
  const double total = y.sum().item<double>();
  const double gram = facula::matmul(x, x.t()).sum().item<double>();
  // Two rows of probabilities; x x^T = [[5, 14], [14, 50]].
  if (std::abs(total - 2.0) > 1e-6 || gram != 83.0) {
    std::printf("wrong values: %.9g and %.9g\n", total, gram);
    return 1;
  }
  try {
    facula::matmul(x, x);
    std::printf("a product of unfit shapes was accepted\n");
    return 1;
  } catch (const facula::Error& error) {
    std::printf("refused, as it should be: %s\n", error.what());
  }
  return 0;
}
