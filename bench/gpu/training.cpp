// The cases that networks and their training are made of: gradients of softmax, norms, losses, optimizers, and rows at
// indices; and sorts, selections and unique values.
#include "cases.h"
#include "checks.h"

#include <facula/autograd/autograd.h>
#include <facula/nn/utils.h>
#include <facula/optim/adam.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

using namespace facula;

namespace {

constexpr int64_t kSome = 8;  // rows that are checked
constexpr double kNormEps = 1e-6;

int64_t pick(int64_t large, int64_t tiny) { return tiny_cases ? tiny : large; }
double product(int64_t a, int64_t b) { return static_cast<double>(a) * static_cast<double>(b); }

// Some rows on the CPU, in double precision.
Tensor some(const Tensor& rows) { return rows.detach().narrow(0, rows.size(0) / 3, kSome).cpu().to(kDouble); }

Tensor integers(int64_t below, IntArrayRef sizes, ScalarType dtype = kLong) {
  return randint(below, sizes, TensorOptions(kLong).device(kGpu)).to(dtype);
}

Tensor standardized(const Tensor& x, int64_t dim) {
  return (x - x.mean(dim, true)) / (x.var(dim, false, true) + kNormEps).sqrt();
}

// ---- rows ---------------------------------------------------------------------------------------------------------------------

BenchCase softmax_backward(int64_t given_rows, int64_t given_columns) {
  const int64_t rows = scaled(given_rows), columns = scaled(given_columns);
  return {"softmax_bwd_bf16_" + std::to_string(given_rows) + "x" + std::to_string(given_columns),
          6 * product(rows, columns),
          0,
          4e-3,
          false,
          [=] {
            const Tensor y = normal({rows, columns}, kBFloat16).softmax(1), g = normal({rows, columns}, kBFloat16);
            const auto run = [=] { return _softmax_backward_data(g, y, 1, kBFloat16); };
            return Prepared{[=] { run(); },
                            [=] {
                              const Tensor slopes = some(g), shares = some(y);
                              return relative_error(some(run()), shares * (slopes - (slopes * shares).sum(1, true)));
                            }};
          }};
}

void add_norms(std::vector<BenchCase>& cases) {
  const int64_t rows = scaled(32768), n = scaled(4096);
  const auto weight = [=] { return (normal({n}) / 8 + 1).to(kBFloat16); };
  cases.push_back({"layernorm_fwd_bf16_32768x4096", 4 * product(rows, n), 0, 4e-3, false, [=] {
                     const Tensor x = normal({rows, n}, kBFloat16), w = weight(), b = normal({n}, kBFloat16);
                     const auto run = [=] { return layer_norm(x, {n}, w, b, kNormEps); };
                     return Prepared{[=] { run(); },
                                     [=] {
                                       const Tensor want =
                                           standardized(some(x), 1) * w.cpu().to(kDouble) + b.cpu().to(kDouble);
                                       return relative_error(some(run()), want);
                                     }};
                   }});
  cases.push_back({"layernorm_bwd_bf16_32768x4096", 6 * product(rows, n), 0, 4e-3, false, [=] {
                     const Tensor x = normal({rows, n}, kBFloat16), g = normal({rows, n}, kBFloat16), w = weight();
                     const auto run = [=] { return _layer_norm_backward(g, x, {n}, w, kNormEps); };
                     const auto check = [=] {
                       const auto [to_input, to_weight, to_bias] = run();
                       const Tensor rows_of_x = some(x), unit = standardized(rows_of_x, 1);
                       const Tensor slopes = some(g) * w.cpu().to(kDouble);
                       const Tensor centred = slopes - slopes.mean(1, true) - unit * (slopes * unit).mean(1, true);
                       const Tensor want = centred / (rows_of_x.var(1, false, true) + kNormEps).sqrt();
                       double worst = relative_error(some(to_input), want);
                       // Some columns of all rows, whose statistics are those of whole rows.
                       const auto columns = [](const Tensor& t) { return t.narrow(-1, 0, kSome).cpu().to(kDouble); };
                       const Tensor units = columns(standardized(x.to(kDouble), 1)), own = columns(g);
                       worst = std::max(worst, relative_error(columns(to_weight), (own * units).sum(0)));
                       return std::max(worst, relative_error(columns(to_bias), own.sum(0)));
                     };
                     return Prepared{[=] { run(); }, check};
                   }});
  cases.push_back({"rmsnorm_fwd_bf16_32768x4096", 4 * product(rows, n), 0, 4e-3, false, [=] {
                     const Tensor x = normal({rows, n}, kBFloat16), w = weight();
                     const auto run = [=] { return rms_norm(x, {n}, w, kNormEps); };
                     return Prepared{[=] { run(); },
                                     [=] {
                                       const Tensor from = some(x);
                                       const Tensor size = (from.square().mean(1, true) + kNormEps).sqrt();
                                       return relative_error(some(run()), from / size * w.cpu().to(kDouble));
                                     }};
                   }});
}

BenchCase cross_entropy() {
  const int64_t rows = scaled(8192), classes = scaled(50304);
  return {"cross_entropy_fwdbwd_bf16_8192x50304", 4 * product(rows, classes), 0, 4e-3, false, [=] {
            const Tensor x = normal({rows, classes}, kBFloat16).requires_grad_(), y = integers(classes, {rows});
            const auto run = [=] { return autograd::grad({cross_entropy_loss(x, y)}, {x})[0]; };
            return Prepared{[=] { run(); },
                            [=] {
                              const Tensor labels = y.narrow(0, rows / 3, kSome).cpu().unsqueeze(1);
                              const Tensor hits = zeros({kSome, classes}, kDouble).scatter_(1, labels, 1.0);
                              return relative_error(some(run()),
                                                    (some(x).softmax(1) - hits) / static_cast<double>(rows));
                            }};
          }};
}

BenchCase batch_norm_case() {
  const int64_t images = pick(64, 2), channels = pick(256, 8), size = pick(56, 4);
  return {"batchnorm_train_fwd_bf16_nhwc", 4 * product(images * size * size, channels), 0, 4e-3, false, [=] {
            const TensorOptions gpu = TensorOptions().device(kGpu);
            const Tensor x = normal({images, channels, size, size}, kBFloat16).contiguous(MemoryFormat::ChannelsLast);
            const Tensor w = ones({channels}, gpu), b = zeros({channels}, gpu);
            const Tensor mean = zeros({channels}, gpu), var = ones({channels}, gpu);
            const auto run = [=] { return batch_norm(x, w, b, mean, var, true, 0.1, kNormEps); };
            return Prepared{[=] { run(); },
                            [=] {
                              const auto channel = [](const Tensor& t) {
                                return t.select(1, 1).cpu().to(kDouble).reshape({1, -1});
                              };
                              return relative_error(channel(run()), standardized(channel(x), 1));
                            }};
          }};
}

// ---- all parameters of a network ----------------------------------------------------------------------------------------------

int64_t parameter_side() { return pick(1024, 64); }

std::vector<Tensor> parameters_with_gradients() {
  const int64_t side = parameter_side();
  std::vector<Tensor> all;
  for (int64_t i = 0; i < pick(150, 3); ++i) {
    all.push_back(normal({side, side}).requires_grad_());
    all.back().mutable_grad() = normal({side, side});
  }
  return all;
}

double parameter_count() { return static_cast<double>(pick(150, 3)) * product(parameter_side(), parameter_side()); }

BenchCase adamw() {
  return {"adamw_fused_157M_f32", 28 * parameter_count(), 0, 1e-6, false, [] {
            const std::vector<Tensor> all = parameters_with_gradients();
            const optim::AdamWOptions options = optim::AdamWOptions(1e-3);
            const auto stepper = std::make_shared<optim::AdamW>(all, options);
            // The first step of an optimizer divides each gradient by its own size.
            const auto check = [options] {
              const std::vector<Tensor> fresh = parameters_with_gradients();
              const Tensor before = some(fresh[1]), g = some(fresh[1].grad());
              optim::AdamW(fresh, options).step();
              const Tensor kept = before * (1 - options.lr() * options.weight_decay());
              return relative_error(some(fresh[1]), kept - options.lr() * g / (g.abs() + options.eps()));
            };
            return Prepared{[all, stepper] { stepper->step(); }, check};
          }};
}

BenchCase clip() {
  return {"clip_grad_norm_157M", 8 * parameter_count(), 0, 1e-5, false, [] {
            const std::vector<Tensor> all = parameters_with_gradients();
            // The limit shrinks, so that every call has something to clip.
            const auto limit = std::make_shared<double>(1.0);
            const auto check = [] {
              const std::vector<Tensor> fresh = parameters_with_gradients();
              double squares = 0;
              for (const Tensor& p : fresh) squares += p.grad().cpu().to(kDouble).square().sum().item<double>();
              const Tensor before = some(fresh[1].grad());
              const double norm = nn::utils::clip_grad_norm_(fresh, 1.0);
              return std::max(std::abs(norm / std::sqrt(squares) - 1),
                              relative_error(some(fresh[1].grad()), before / std::sqrt(squares)));
            };
            return Prepared{[=] { nn::utils::clip_grad_norm_(all, *limit *= 0.99); }, check};
          }};
}

// ---- rows at indices ----------------------------------------------------------------------------------------------------------

void add_rows_at_indices(std::vector<BenchCase>& cases) {
  const int64_t rows = pick(1 << 20, 1 << 8), width = 128;
  cases.push_back(
      {"index_select_f32_2^20x128", 8 * product(rows, width) + 8.0 * static_cast<double>(rows), 0, 0, false, [=] {
         const Tensor table = normal({rows, width}), index = integers(rows, {rows});
         return Prepared{[=] { table.index_select(0, index); },
                         [=] {
                           const Tensor places = index.narrow(0, rows / 3, kSome).cpu();
                           return relative_error(some(table.index_select(0, index)),
                                                 table.cpu().index_select(0, places));
                         }};
       }});
  cases.push_back(
      {"index_add_f32_2^20x128", 12 * product(rows, width) + 8.0 * static_cast<double>(rows), 0, 1e-6, false, [=] {
         const Tensor from = normal({rows, width}), index = integers(rows, {rows});
         const Tensor to = zeros({rows, width}, TensorOptions().device(kGpu));
         return Prepared{[=]() mutable { to.index_add_(0, index, from); },
                         [=] {
                           const Tensor got = zeros_like(from).index_add_(0, index, from);
                           const Tensor columns = from.narrow(1, 0, 4).cpu().to(kDouble);
                           return relative_error(got.narrow(1, 0, 4).cpu(),
                                                 zeros_like(columns).index_add_(0, index.cpu(), columns));
                         }};
       }});
  // Forward and backward, as the peer's: rows are read and written, their gradients read, a table of gradients written.
  const int64_t words = pick(50304, 100), tokens = pick(32768, 256), size = pick(1024, 16);
  cases.push_back({"embedding_bwd_50304x1024_32768", 2 * product(3 * tokens + words, size), 0, 4e-3, false, [=] {
                     const Tensor table = normal({words, size}, kBFloat16).requires_grad_();
                     const Tensor index = integers(words, {tokens}), g = normal({tokens, size}, kBFloat16);
                     const auto run = [=] { return autograd::grad({embedding(table, index)}, {table}, {g})[0]; };
                     return Prepared{
                         [=] { run(); },
                         [=] {
                           const Tensor columns = g.narrow(1, 0, 4).cpu().to(kDouble);
                           const Tensor want = zeros({words, 4}, kDouble).index_add_(0, index.cpu(), columns);
                           return relative_error(run().narrow(1, 0, 4).cpu(), want);
                         }};
                   }});
}

// ---- order --------------------------------------------------------------------------------------------------------------------

// 0 when `values` are those of the vector at `places`, in order, with every place once.
double sort_error(const Tensor& of, const Tensor& values, const Tensor& places) {
  const int64_t n = of.numel();
  const bool ordered = (values.narrow(0, 0, n - 1) <= values.narrow(0, 1, n - 1)).all().item<bool>();
  const Tensor met = zeros({n}, of.options().dtype(kBool)).index_fill_(0, places, true);
  return ordered && met.all().item<bool>() && of.index_select(0, places).equal(values) ? 0.0 : 1.0;
}

BenchCase sort_of_all(std::string name, ScalarType dtype) {
  const int64_t n = pick(1 << 26, 1 << 13);
  return {std::move(name), 16.0 * static_cast<double>(n), 0, 0, false, [=] {
            const Tensor x = dtype == kInt ? integers(1 << 30, {n}, kInt) : normal({n}, dtype);
            return Prepared{[=] { sort(x); },
                            [=] {
                              const auto [values, places] = sort(x);
                              return sort_error(x, values, places);
                            }};
          }};
}

void add_orders(std::vector<BenchCase>& cases) {
  cases.push_back(sort_of_all("sort_pairs_f32_2^26", kFloat));
  cases.push_back(sort_of_all("sort_pairs_i32_2^26", kInt));
  const int64_t rows = scaled(4096), columns = pick(32768, 512), best = 50;
  cases.push_back(
      {"topk50_4096x32768", 4 * product(rows, columns) + 12 * product(rows, best), 0, 0, false, [=] {
         const Tensor m = normal({rows, columns});
         return Prepared{
             [=] { topk(m, best); },
             [=] { return relative_error(some(std::get<0>(topk(m, best))), std::get<0>(topk(some(m), best))); }};
       }});
  cases.push_back({"sort_rows_4096x4096", 16 * product(rows, rows), 0, 0, false, [=] {
                     const Tensor m = normal({rows, rows});
                     return Prepared{
                         [=] { sort(m); },
                         [=] { return relative_error(some(std::get<0>(sort(m))), std::get<0>(sort(some(m)))); }};
                   }});
}

// ---- results whose size depends on values -------------------------------------------------------------------------------------

void add_selections(std::vector<BenchCase>& cases) {
  const int64_t n = pick(1 << 26, 1 << 13), numbers = pick(1 << 24, 1 << 12), values = pick(100000, 100);
  const auto half = [=] { return rand({n}, TensorOptions().device(kGpu)) > 0.5; };
  cases.push_back(
      {"masked_select_2^26", 7.0 * static_cast<double>(n), 0, 0, false, [=] {
         const Tensor x = normal({n}), mask = half();
         return Prepared{
             [=] { masked_select(x, mask); },
             [=] { return relative_error(masked_select(x, mask).cpu(), masked_select(x.cpu(), mask.cpu())); }};
       }});
  cases.push_back({"nonzero_2^26", 5.0 * static_cast<double>(n), 0, 0, false, [=] {
                     const Tensor mask = half();
                     return Prepared{[=] { nonzero(mask); },
                                     [=] { return relative_error(nonzero(mask).cpu(), nonzero(mask.cpu())); }};
                   }});
  cases.push_back({"unique_2^24", 4.0 * static_cast<double>(numbers + values), 0, 0, false, [=] {
                     const Tensor x = integers(values, {numbers}, kInt);
                     return Prepared{
                         [=] { unique(x); },
                         [=] { return relative_error(std::get<0>(unique(x)).cpu(), std::get<0>(unique(x.cpu()))); }};
                   }});
}

}  // namespace

std::vector<BenchCase> training_cases() {
  std::vector<BenchCase> cases;
  const std::pair<int64_t, int64_t> kSoftmax[] = {{16384, 4096}, {131072, 512}, {8192, 50304}};
  for (const auto& [rows, columns] : kSoftmax) cases.push_back(softmax_backward(rows, columns));
  add_norms(cases);
  cases.push_back(cross_entropy());
  cases.push_back(batch_norm_case());
  cases.push_back(adamw());
  cases.push_back(clip());
  return cases;
}

std::vector<BenchCase> index_cases() {
  std::vector<BenchCase> cases;
  add_rows_at_indices(cases);
  add_orders(cases);
  add_selections(cases);
  return cases;
}
