// A guided tour of the tensor: ten stops, each a few lines of code and what they print.
#include <facula/facula.h>

#include <chrono>
#include <cstdio>
#include <iostream>

using namespace facula;
using namespace facula::indexing;

namespace {

void stop(const char* title) { std::cout << "\n\033[1m" << title << "\033[0m\n"; }

double milliseconds(const std::function<void()>& work) {
  work();
  auto start = std::chrono::steady_clock::now();
  constexpr int kRounds = 5;
  for (int i = 0; i < kRounds; ++i) work();
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count() / kRounds;
}

}  // namespace

int main() {
  manual_seed(7);
  std::cout << "Facula, " << get_num_threads() << " threads\n";

  stop("1. A tensor is made from numbers, or by an op");
  Tensor a = tensor({{1.0, 2.0, 3.0}, {4.0, 5.0, 6.0}});
  std::cout << a << "\n";

  stop("2. Arithmetic broadcasts: a row is added to every row");
  std::cout << a + tensor({10.0, 20.0, 30.0}) << "\n";

  stop("3. Views share memory: writing into a column changes the tensor");
  a.index({Slice(), 1}) = 0;
  std::cout << a << "\n";

  stop("4. Masks and index tensors select");
  std::cout << a.index({a > 2}) << "\n";

  stop("5. Dtypes promote: an integer and a half make a half");
  std::cout << "int64 + float16 -> " << (arange(3) + ones({3}, kHalf)).dtype() << "\n";

  stop("6. Reductions take dims");
  std::cout << "sum over rows: " << a.sum(1) << "\n";

  stop("7. Matrix products go through oneDNN");
  Tensor m = randn({512, 512});
  std::printf("512 x 512 product: %.2f ms\n", milliseconds([&] { m.matmul(m); }));

  stop("8. The same seed gives the same numbers, on any number of threads");
  manual_seed(1);
  Tensor x = randn({4});
  manual_seed(1);
  std::cout << x << (x.equal(randn({4})) ? "\nequal\n" : "\nDIFFERENT\n");

  stop("9. Several pointwise ops can run as one pass over memory");
  Tensor p = randn({1 << 22}), q = randn({1 << 22});
  Fused f;
  auto u = f.input(kFloat), v = f.input(kFloat);
  f.output(f.apply("sub", {f.apply("mul", {f.apply("sigmoid", {f.apply("mul", {u, v})}), f.apply("tanh", {u})}), v}));
  double one_by_one = milliseconds([&] { sigmoid(p * q) * tanh(p) - q; });
  double fused = milliseconds([&] { f({p, q}); });
  std::printf("sigmoid(p * q) * tanh(p) - q over 4 M floats: %.1f ms op by op, %.1f ms fused\n", one_by_one, fused);

  stop("10. Mistakes are told in words");
  try {
    ones({2, 3}) + ones({4});
  } catch (const Error& e) {
    std::cout << e.type_name() << ": " << e.what() << "\n";
  }
  return 0;
}
