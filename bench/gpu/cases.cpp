// The cases on large tensors: pointwise work, copies, reductions, random numbers and matrix products.
#include "cases.h"
#include "checks.h"

#include <facula/cuda/matmul.h>

#include <cmath>
#include <type_traits>
#include <utility>

using namespace facula;

bool tiny_cases = false;

namespace {

int64_t many() { return tiny_cases ? int64_t{1} << 14 : int64_t{1} << 28; }
int64_t side() { return scaled(16384); }

// Some of a long row on the CPU, in double precision: its ends and its middle.
Tensor sample(const Tensor& row) {
  const int64_t n = row.numel(), length = std::min<int64_t>(n / 3, 1 << 16);
  const Tensor flat = row.view({n});
  return cat({flat.narrow(0, 0, length).cpu(), flat.narrow(0, n / 2, length).cpu(),
              flat.narrow(0, n - length, length).cpu()})
      .to(kDouble);
}

// A case whose inputs and result are rows of the same length: the same function on samples is the reference.
using Unary = std::function<Tensor(const Tensor&)>;
using Binary = std::function<Tensor(const Tensor&, const Tensor&)>;

BenchCase unary(std::string name, ScalarType dtype, double bytes, double tolerance, Unary f, Unary reference) {
  return {std::move(name), bytes * many(), 0, tolerance, false, [=] {
            const Tensor a = normal({many()}, dtype);
            return Prepared{[=] { f(a); }, [=] { return relative_error(sample(f(a)), reference(sample(a))); }};
          }};
}

BenchCase binary(std::string name, ScalarType first, ScalarType second, double bytes, double tolerance, Binary f,
                 Binary reference) {
  return {std::move(name), bytes * many(), 0, tolerance, false, [=] {
            const Tensor a = normal({many()}, first), b = normal({many()}, second);
            return Prepared{[=] { f(a, b); },
                            [=] { return relative_error(sample(f(a, b)), reference(sample(a), sample(b))); }};
          }};
}

Tensor chain(const Tensor& x, const Tensor& y) { return sigmoid(x * y + x) * tanh(y) - x; }

Tensor fused_chain(const Tensor& x, const Tensor& y) {
  static const Fused kChain = [] {
    Fused f;
    const auto a = f.input(kFloat), b = f.input(kFloat);
    const auto gate = f.apply("sigmoid", {f.apply("add", {f.apply("mul", {a, b}), a})});
    f.output(f.apply("sub", {f.apply("mul", {gate, f.apply("tanh", {b})}), a}));
    return f;
  }();
  return kChain({x, y});
}

// A case on a square of floats; the CPU computes the same on all of it.
BenchCase on_square(std::string name, double bytes, double tolerance, Unary f) {
  return {std::move(name), bytes * side() * side(), 0, tolerance, false, [=] {
            const Tensor m = normal({side(), side()});
            return Prepared{[=] { f(m); }, [=] { return relative_error(f(m).cpu(), f(m.cpu())); }};
          }};
}

// A reduction of a square along a dim: the CPU does it in double precision, on 64 rows or columns.
BenchCase reduction(std::string name, int64_t dim, double tolerance, Unary f) {
  return {std::move(name), 4.0 * side() * side(), 0, tolerance, false, [=] {
            const Tensor m = normal({side(), side()});
            return Prepared{[=] { f(m); },
                            [=] {
                              const Tensor some = m.cpu().narrow(1 - dim, side() / 3, 64).to(kDouble);
                              return relative_error(f(m).cpu().narrow(0, side() / 3, 64), f(some));
                            }};
          }};
}

Tensor out_tensor(int64_t n) { return full({n}, NAN, TensorOptions().dtype(kFloat).device(kGpu)); }

}  // namespace

std::vector<BenchCase> pointwise_cases() {
  std::vector<BenchCase> cases;
  cases.push_back({"copy_f32_2^28", 8.0 * many(), 0, 0, false, [] {
                     const Tensor a = normal({many()}), o = out_tensor(many());
                     return Prepared{[=] { o.copy_(a); }, [=] { return relative_error(sample(o), sample(a)); }};
                   }});
  cases.push_back({"add_f32_2^28", 12.0 * many(), 0, 1e-6, false, [] {
                     const Tensor a = normal({many()}), b = normal({many()});
                     Tensor o = out_tensor(many());
                     return Prepared{[=]() mutable { add_out(o, a, b); },
                                     [=] { return relative_error(sample(o), sample(a) + sample(b)); }};
                   }});
  const Unary gelu_of = [](const Tensor& x) { return gelu(x); };
  const auto plus = [](const Tensor& x, const Tensor& y) { return x + y; };
  const auto times = [](const Tensor& x, const Tensor& y) { return x * y; };
  cases.push_back(unary("gelu_f32_2^28", kFloat, 8, 1e-6, gelu_of, gelu_of));
  cases.push_back(binary("mul_bf16_2^28", kBFloat16, kBFloat16, 6, 4e-3, times, times));
  cases.push_back(unary("gelu_bf16_2^28", kBFloat16, 4, 4e-3, gelu_of, gelu_of));
  cases.push_back(unary(
      "cast_f32_bf16_2^28", kFloat, 6, 4e-3, [](const Tensor& x) { return x.to(kBFloat16); },
      [](const Tensor& x) { return x; }));
  cases.push_back(unary(
      "cast_bf16_f32_2^28", kBFloat16, 6, 0, [](const Tensor& x) { return x.to(kFloat); },
      [](const Tensor& x) { return x; }));
  cases.push_back(binary("add_mixed_f32_bf16_2^28", kFloat, kBFloat16, 10, 1e-6, plus, plus));
  cases.push_back(binary("chain6_f32_eager", kFloat, kFloat, 12, 1e-6, chain, chain));
  cases.push_back(binary("chain6_f32_compile", kFloat, kFloat, 12, 1e-6, fused_chain, chain));
  cases.push_back(on_square("transpose_copy_f32_16384", 8, 0, [](const Tensor& m) { return m.t().contiguous(); }));
  cases.push_back({"bcast_add_f32_16384", 8.0 * side() * side(), 0, 1e-6, false, [] {
                     const Tensor m = normal({side(), side()}), v = normal({side()});
                     return Prepared{[=] { m + v; }, [=] { return relative_error((m + v).cpu(), m.cpu() + v.cpu()); }};
                   }});
  cases.push_back(on_square("strided_slice_mul_f32", 6, 0, [](const Tensor& m) {
    return m.index({indexing::Slice(), indexing::Slice(indexing::None, indexing::None, 2)}) * 2;
  }));
  const auto permute_case = [&](std::string name, std::vector<int64_t> sizes, std::vector<int64_t> order) {
    double numel = 1;
    for (const int64_t size : sizes) numel *= static_cast<double>(size);
    cases.push_back({std::move(name), 8 * numel, 0, 0, false, [=] {
                       const Tensor x = normal(sizes);
                       const auto f = [=](const Tensor& t) { return t.permute(order).contiguous(); };
                       return Prepared{[=] { f(x); }, [=] { return relative_error(f(x).cpu(), f(x.cpu())); }};
                     }});
  };
  const int64_t images = tiny_cases ? 2 : 32;
  permute_case("permute_nhwc_f32", {images, 64, 56, 56}, {0, 2, 3, 1});
  permute_case("permute_heads_f32", {images, scaled(1024), 16, 64}, {0, 2, 1, 3});
  cases.push_back({"randn_f32_2^28", 4.0 * many(), 0, tiny_cases ? 0.1 : 1.5e-2, false, [] {
                     const auto draw = [] { return randn({many()}, TensorOptions().device(kGpu)); };
                     return Prepared{[=] { draw(); },
                                     [=] {
                                       const Tensor x = sample(draw());
                                       return std::abs(x.mean().item<double>()) +
                                              std::abs(x.square().mean().item<double>() - 1) / 2;
                                     }};
                   }});
  const int64_t half = many() / 2;
  cases.push_back({"dropout_fwd_bf16_2^27", 5.0 * half, 0, tiny_cases ? 0.1 : 1e-2, false, [=] {
                     const Tensor x = normal({half}, kBFloat16);
                     return Prepared{[=] { dropout(x, 0.1, true); },
                                     [=] {
                                       const Tensor y = sample(dropout(x, 0.1, true)), from = sample(x);
                                       const Tensor kept = y.ne(0).to(kDouble);
                                       return std::abs(kept.mean().item<double>() - 0.9) +
                                              relative_error(y, from * kept / 0.9);
                                     }};
                   }});
  return cases;
}

std::vector<BenchCase> reduction_cases() {
  std::vector<BenchCase> cases;
  const auto whole = [&](std::string name, double tolerance, Unary f) {
    cases.push_back(
        {std::move(name), 4.0 * many(), 0, tolerance, false, [=] {
           const Tensor a = normal({many()}) + 1;
           return Prepared{[=] { f(a); }, [=] { return relative_error(f(a).cpu(), f(a.cpu().to(kDouble))); }};
         }});
  };
  whole("sum_all_f32_2^28", 1e-6, [](const Tensor& x) { return x.sum(); });
  whole("mean_all_f32_2^28", 1e-6, [](const Tensor& x) { return x.mean(); });
  whole("argmax_all_f32_2^28", 0, [](const Tensor& x) { return x.argmax(); });
  whole("var_all_f32_2^28", 1e-5, [](const Tensor& x) { return x.var(); });
  whole("logsumexp_all_f32_2^28", 1e-6, [](const Tensor& x) { return x.logsumexp(0); });
  // The axis between two others: the CPU does it on two of the blocks.
  const auto middle = [&](std::string name, double tolerance, Unary f) {
    const int64_t blocks = scaled(256), width = scaled(1024);
    cases.push_back({std::move(name), 4.0 * static_cast<double>(blocks * width * width), 0, tolerance, false, [=] {
                       const Tensor m = normal({blocks, width, width});
                       return Prepared{[=] { f(m); },
                                       [=] {
                                         return relative_error(f(m).narrow(0, blocks - 2, 2).cpu(),
                                                               f(m.narrow(0, blocks - 2, 2).cpu().to(kDouble)));
                                       }};
                     }});
  };
  middle("sum_middle_f32", 1e-5, [](const Tensor& m) { return m.sum(1); });
  middle("mean_middle_f32", 1e-5, [](const Tensor& m) { return m.mean(1); });
  middle("argmax_middle_f32", 0, [](const Tensor& m) { return m.argmax(1); });
  middle("var_middle_f32", 1e-5, [](const Tensor& m) { return m.var(1); });
  middle("logsumexp_middle_f32", 1e-6, [](const Tensor& m) { return m.logsumexp(1); });
  const std::pair<const char*, int64_t> kAxes[] = {{"rows", 1}, {"cols", 0}};
  for (const auto& [axis, dim] : kAxes) {
    const auto name = [axis = axis](const char* op) { return std::string(op) + "_" + axis + "_f32"; };
    cases.push_back(reduction(name("sum"), dim, 1e-5, [dim = dim](const Tensor& m) { return m.sum(dim); }));
    cases.push_back(reduction(name("mean"), dim, 1e-5, [dim = dim](const Tensor& m) { return m.mean(dim); }));
    cases.push_back(reduction(name("argmax"), dim, 0, [dim = dim](const Tensor& m) { return m.argmax(dim); }));
    cases.push_back(reduction(name("var"), dim, 1e-5, [dim = dim](const Tensor& m) { return m.var(dim); }));
    cases.push_back(reduction(name("logsumexp"), dim, 1e-6, [dim = dim](const Tensor& m) { return m.logsumexp(dim); }));
  }
  cases.push_back({"cumsum_rows_f32", 8.0 * many(), 0, 1e-5, false, [] {
                     const Tensor m = normal({side(), side()});
                     return Prepared{[=] { m.cumsum(1); },
                                     [=] {
                                       return relative_error(m.cumsum(1).narrow(0, 0, 64).cpu(),
                                                             m.narrow(0, 0, 64).cpu().to(kDouble).cumsum(1));
                                     }};
                   }});
  const std::pair<int64_t, int64_t> kSoftmax[] = {{16384, 4096}, {131072, 512}, {8192, 50304}};
  for (const auto& [rows, columns] : kSoftmax) {
    const std::string name = "softmax_bf16_" + std::to_string(rows) + "x" + std::to_string(columns);
    cases.push_back({name, 4.0 * rows * columns, 0, 4e-3, false, [rows = rows, columns = columns] {
                       const Tensor x = normal({scaled(rows), scaled(columns)}, kBFloat16);
                       return Prepared{[=] { x.softmax(1); },
                                       [=] {
                                         return relative_error(x.softmax(1).narrow(0, 0, 8).cpu(),
                                                               x.narrow(0, 0, 8).cpu().to(kDouble).softmax(1));
                                       }};
                     }});
  }
  return cases;
}

std::vector<BenchCase> matmul_cases() {
  std::vector<BenchCase> cases;
  // Some rows of a product, computed on the CPU.
  const auto some_rows = [](const Tensor& result, const Tensor& a, const Tensor& b) {
    const int64_t rows = std::min<int64_t>(a.size(0), 8), from = (a.size(0) - rows) / 2;
    return relative_error(result.narrow(0, from, rows).cpu(),
                          matmul(a.narrow(0, from, rows).cpu().to(kDouble), b.cpu().to(kDouble)));
  };
  const auto square = [&](std::string name, int64_t size, ScalarType dtype, double tolerance) {
    const int64_t n = scaled(size);
    cases.push_back({std::move(name), 0, 2.0 * std::pow(n, 3), tolerance, false, [=] {
                       const Tensor a = normal({n, n}, dtype), b = normal({n, n}, dtype);
                       return Prepared{[=] { matmul(a, b); }, [=] { return some_rows(matmul(a, b), a, b); }};
                     }});
  };
  for (const int64_t n : {512, 1024, 2048, 4096, 8192}) square("mm_bf16_" + std::to_string(n), n, kBFloat16, 4e-3);
  square("mm_f32_4096", 4096, kFloat, 4e-6);  // sums of 4096 products that are rounded one by one
  square("mm_f64_4096", 4096, kDouble, 1e-13);
  square("mm_tf32_4096", 4096, kFloat, 1e-3);
  cases.back().prepare = [plain = cases.back().prepare] {
    const Prepared prepared = plain();
    const auto allowed = [](const auto& f) {
      return [f] {
        cuda::set_allow_tf32(true);
        if constexpr (std::is_void_v<decltype(f())>) {
          f();
          cuda::set_allow_tf32(false);
        } else {
          const auto result = f();
          cuda::set_allow_tf32(false);
          return result;
        }
      };
    };
    return Prepared{allowed(prepared.run), allowed(prepared.check)};
  };
  cases.push_back({"bmm_bf16_512x256", 0, 512 * 2.0 * std::pow(256, 3), 4e-3, false, [=] {
                     const Tensor a = normal({scaled(512), 256, 256}, kBFloat16);
                     return Prepared{
                         [=] { matmul(a, a); },
                         [=] { return some_rows(matmul(a, a).select(0, -1), a.select(0, -1), a.select(0, -1)); }};
                   }});
  const double linear_flops = 2.0 * 16384 * 4096 * 16384;
  const auto linear_case = [&](std::string name, bool with_gelu) {
    cases.push_back({std::move(name), 0, linear_flops, 4e-3, false, [=] {
                       const int64_t m = scaled(16384), k = scaled(4096);
                       const Tensor x = normal({m, k}, kBFloat16);
                       // As a layer is initialised, so that results are of the order of one.
                       const Tensor w = (normal({m, k}) / 64).to(kBFloat16), bias = normal({m}, kBFloat16);
                       const auto f = [=](const Tensor& of) {
                         const Tensor y = linear(of, w, bias);
                         return with_gelu ? gelu(y) : y;
                       };
                       return Prepared{[=] { f(x); },
                                       [=] {
                                         const Tensor few = x.narrow(0, m / 3, 8);
                                         const Tensor y =
                                             linear(few.cpu().to(kDouble), w.cpu().to(kDouble), bias.cpu().to(kDouble));
                                         return relative_error(f(x).narrow(0, m / 3, 8).cpu(), with_gelu ? gelu(y) : y);
                                       }};
                     }});
  };
  linear_case("linear_bias_bf16_16384x4096x16384", false);
  linear_case("linear_gelu_bf16_16384x4096x16384", true);
  const auto addmm_gelu = [&](std::string name, double flops, bool backward) {
    cases.push_back(
        {std::move(name), 0, flops, 4e-3, false, [=] {
           const int64_t m = scaled(16384), k = scaled(4096);
           Tensor x = normal({m, k}, kBFloat16), w = (normal({m, k}) / 64).to(kBFloat16), bias = normal({m}, kBFloat16);
           const auto f = [](const Tensor& b, const Tensor& of, const Tensor& by) {
             return _addmm_activation(b, of, by.t(), 1, 1, /*use_gelu=*/true);
           };
           const Tensor g = backward ? normal({m, m}, kBFloat16) : Tensor();
           if (backward)
             for (Tensor* t : {&x, &w, &bias}) t->requires_grad_();
           const auto run = [=] {
             const Tensor y = f(bias, x, w);
             if (backward) autograd::grad({y}, {x, w, bias}, {g});
           };
           // Some rows, and the gradient of x in them, which depends on no others.
           return Prepared{run, [=] {
                             const auto some = [&](const Tensor& t) { return t.detach().narrow(0, m / 3, 8).cpu(); };
                             const Tensor few = some(x).to(kDouble).requires_grad_(backward);
                             const Tensor y = f(bias, x, w);
                             const Tensor want = f(bias.detach().cpu().to(kDouble), few, w.detach().cpu().to(kDouble));
                             double worst = relative_error(some(y), want.detach());
                             if (backward)
                               worst = std::max(
                                   worst, relative_error(some(autograd::grad({y}, {x}, {g})[0]),
                                                         autograd::grad({want}, {few}, {some(g).to(kDouble)})[0]));
                             return worst;
                           }};
         }});
  };
  addmm_gelu("addmm_gelu_bf16_16384x4096x16384", linear_flops, false);
  addmm_gelu("addmm_gelu_fwdbwd_bf16_16384x4096x16384", 3 * linear_flops, true);
  cases.push_back({"int_mm_4096", 0, 2.0 * std::pow(4096, 3), 0, false, [=] {
                     const TensorOptions bytes = TensorOptions().dtype(kChar).device(kGpu);
                     const Tensor a = randint(-127, 127, {scaled(4096), scaled(4096)}, bytes);
                     const Tensor b = a.t().contiguous().t();
                     return Prepared{[=] { _int_mm(a, b); }, [=] { return some_rows(_int_mm(a, b), a, b); }};
                   }});
  for (const int64_t m : {1, 8, 64}) {
    // The matrix is what must be read.
    cases.push_back(
        {"gemv_bf16_" + std::to_string(m) + "x8192x8192", 2.0 * 8192 * 8192, 0, 4e-3, false, [=] {
           const int64_t n = scaled(8192);
           const Tensor x = normal({m, n}, kBFloat16), w = normal({n, n}, kBFloat16);
           return Prepared{[=] { matmul(x, w.t()); }, [=] { return some_rows(matmul(x, w.t()), x, w.t()); }};
         }});
  }
  return cases;
}
