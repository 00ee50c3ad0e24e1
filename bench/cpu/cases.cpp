// The cases, one source for both libraries: what a user of either would write. Time is taken by the driver.

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fused_chain.h"
#include "gradient_cases.h"
#include "inputs.h"
#include "library.h"
#include "plugin.h"

namespace {

using lib::Tensor;

constexpr auto kF32 = lib::kFloat32;
constexpr auto kBF16 = lib::kBFloat16;
constexpr auto kI64 = lib::kInt64;

// A prepared case. `run` makes a fresh result each time and drops the one before, as `y = f(x)` in a loop does.
class Work {
 public:
  virtual ~Work() = default;
  virtual void run(int64_t iterations) = 0;
  virtual std::vector<Tensor> results() const = 0;
};

std::vector<Tensor> as_list(const Tensor& result) { return {result}; }
std::vector<Tensor> as_list(const std::tuple<Tensor, Tensor>& result) {
  return {std::get<0>(result), std::get<1>(result)};
}

template <class Step>
class WorkOf final : public Work {
 public:
  explicit WorkOf(Step step) : step_(std::move(step)) {}
  void run(int64_t iterations) override {
    for (int64_t i = 0; i < iterations; ++i) result_ = step_();
  }
  std::vector<Tensor> results() const override { return as_list(result_); }

 private:
  Step step_;
  std::decay_t<decltype(std::declval<Step&>()())> result_;
};

template <class Step>
std::unique_ptr<Work> work(Step step) {
  return std::make_unique<WorkOf<Step>>(std::move(step));
}

struct Case {
  std::string name;
  std::string group;
  std::function<std::unique_ptr<Work>()> prepare;
  int32_t check = kBenchSameValues;
  double tolerance = 0;   // when not that of the result's dtype
  bool gradient = false;  // records; all others run without the tape
};

struct Size {
  const char* name;
  int64_t count;  // of a vector
  int64_t side;   // of a square matrix with as many elements
};

constexpr Size kTiny{"tiny", 8, 0}, kMiddle{"middle", 1 << 16, 256}, kLarge{"large", 1 << 24, 4096};
constexpr Size kAllSizes[] = {kTiny, kMiddle, kLarge};
constexpr Size kBigSizes[] = {kMiddle, kLarge};

std::string dtype_label(lib::ScalarType dtype) {
  if (dtype == kF32) return "f32";
  if (dtype == kBF16) return "bf16";
  if (dtype == kI64) return "i64";
  if (dtype == lib::kFloat64) return "f64";
  return dtype == lib::kUInt8 ? "u8" : "bool";
}

class Book {
 public:
  // `make` gets nothing and returns the step to be timed.
  template <class Make>
  Case& add(std::string name, std::string group, Make make) {
    cases_.push_back({std::move(name), std::move(group), [make] { return work(make()); }});
    return cases_.back();
  }

  template <class Op>
  void unary(const std::string& op_name, lib::ScalarType dtype, const Size& size, Op op) {
    add(op_name + " " + size.name + " " + dtype_label(dtype), "pointwise",
        [=] { return [=, x = input({size.count}, dtype, 1, 4.0f)] { return op(x); }; });
  }

  template <class Op>
  void binary(const std::string& op_name, lib::ScalarType dtype, const Size& size, Op op) {
    add(op_name + " " + size.name + " " + dtype_label(dtype), "pointwise", [=] {
      const float scale = dtype == kI64 ? 1000.0f : 4.0f;
      return
          [=, x = input({size.count}, dtype, 1, scale), y = input({size.count}, dtype, 2, scale)] { return op(x, y); };
    });
  }

  // One matrix, rows by columns.
  template <class Op>
  Case& matrix(const std::string& name, const std::string& group, lib::ScalarType dtype, int64_t rows, int64_t columns,
               Op op) {
    return add(name, group, [=] { return [=, x = input({rows, columns}, dtype)] { return op(x); }; });
  }

  std::vector<Case>& cases() { return cases_; }
  std::vector<Case> take() { return std::move(cases_); }

 private:
  std::vector<Case> cases_;
};

void add_pointwise(Book& book) {
  const auto plus = [](const Tensor& x, const Tensor& y) { return lib::add(x, y); };
  const auto times = [](const Tensor& x, const Tensor& y) { return lib::mul(x, y); };
  const auto less = [](const Tensor& x, const Tensor& y) { return lib::lt(x, y); };
  const auto exponential = [](const Tensor& x) { return lib::exp(x); };
  const auto logistic = [](const Tensor& x) { return lib::sigmoid(x); };
  const auto gelu = [](const Tensor& x) { return lib::gelu(x); };
  const auto tanh = [](const Tensor& x) { return lib::tanh(x); };

  for (const Size& size : kAllSizes) {
    book.binary("add", kF32, size, plus);
    book.binary("mul", kF32, size, times);
    book.binary("lt", kF32, size, less);
    book.unary("exp", kF32, size, exponential);
    book.unary("tanh", kF32, size, tanh);
    book.unary("sigmoid", kF32, size, logistic);
    book.unary("gelu", kF32, size, gelu);
    book.add(std::string("where ") + size.name + " f32", "pointwise", [=] {
      return [c = input({size.count}, lib::kBool, 3), x = input({size.count}, kF32, 1),
              y = input({size.count}, kF32, 2)] { return lib::where(c, x, y); };
    });
    book.unary("mul scalar", kF32, size, [](const Tensor& x) { return lib::mul(x, 1.5); });
    book.binary("add", kBF16, size, plus);
    book.unary("exp", kBF16, size, exponential);
    book.unary("gelu", kBF16, size, gelu);
    book.binary("add", kI64, size, plus);
  }
  for (const Size& size : kBigSizes) {
    book.binary("mul", kBF16, size, times);
    book.binary("mul", kI64, size, times);
    book.binary("lt", kI64, size, less);
  }
}

void add_into_existing(Book& book) {
  for (const Size& size : kAllSizes) {
    book.add(std::string("add_out ") + size.name + " f32", "pointwise", [=] {
      return [x = input({size.count}, kF32, 1), y = input({size.count}, kF32, 2),
              out = lib::empty(Sizes{size.count}, kF32)]() mutable { return lib::add_out(out, x, y); };
    });
  }
  book.add("exp_out large f32", "pointwise", [] {
    return [x = input({kLarge.count}, kF32), out = lib::empty(Sizes{kLarge.count}, kF32)]() mutable {
      return lib::exp_out(out, x);
    };
  });
  book.add("copy_ large f32", "copy", [] {
    return [x = input({kLarge.count}, kF32), out = lib::empty(Sizes{kLarge.count}, kF32)]() mutable {
      return out.copy_(x);
    };
  });
}

void add_casts(Book& book) {
  const auto cast = [&](lib::ScalarType from, lib::ScalarType to, const Size& size) {
    book.add("cast " + dtype_label(from) + "->" + dtype_label(to) + " " + size.name, "cast",
             [=] { return [to, x = input({size.count}, from, 1, 200.0f)] { return x.to(to); }; });
  };
  for (const Size& size : kBigSizes) {
    cast(kF32, kBF16, size);
    cast(kBF16, kF32, size);
    cast(kI64, kF32, size);
    cast(kF32, kI64, size);
  }
  cast(lib::kUInt8, kF32, kLarge);
  cast(kF32, lib::kFloat64, kLarge);
}

void add_layouts(Book& book) {
  for (const Size& size : kBigSizes) {
    const int64_t side = size.side;
    book.add(std::string("add row ") + size.name + " f32", "broadcast", [=] {
      return [x = input({side, side}, kF32, 1), y = input({side}, kF32, 2)] { return lib::add(x, y); };
    });
    book.add(std::string("add column ") + size.name + " f32", "broadcast", [=] {
      return [x = input({side, side}, kF32, 1), y = input({side, 1}, kF32, 2)] { return lib::add(x, y); };
    });
    book.matrix(std::string("copy transposed ") + size.name + " f32", "copy", kF32, side, side,
                [](const Tensor& x) { return x.t().contiguous(); });
  }
  book.matrix("copy transposed large bf16", "copy", kBF16, kLarge.side, kLarge.side,
              [](const Tensor& x) { return x.t().contiguous(); });
  book.matrix("copy every second column large f32", "copy", kF32, kLarge.side, 2 * kLarge.side,
              [](const Tensor& x) { return x.slice(1, 0, 2 * kLarge.side, 2).contiguous(); });
  book.matrix("add transposed large f32", "broadcast", kF32, kLarge.side, kLarge.side,
              [](const Tensor& x) { return lib::add(x, x.t()); });
  book.add("copy permuted 0231 large f32", "copy", [] {
    return [x = input({16, 64, 128, 128}, kF32)] { return x.permute({0, 2, 3, 1}).contiguous(); };
  });
}

void add_reductions(Book& book) {
  book.matrix("sum all tiny f32", "reduction", kF32, 1, 8, [](const Tensor& x) { return x.sum(); });
  for (const Size& size : kBigSizes) {
    const std::string tail = std::string(" ") + size.name + " f32";
    const int64_t n = size.side;
    book.matrix("sum dim 0" + tail, "reduction", kF32, n, n, [](const Tensor& x) { return x.sum(0); });
    book.matrix("sum dim 1" + tail, "reduction", kF32, n, n, [](const Tensor& x) { return x.sum(1); });
    // Numbers of both signs cancel: the order of the sum shows in more digits than elsewhere.
    book.matrix("sum all" + tail, "reduction", kF32, n, n, [](const Tensor& x) { return x.sum(); }).tolerance = 2e-3;
    book.matrix("var dim 1" + tail, "reduction", kF32, n, n, [](const Tensor& x) { return x.var({1}, true); });
    book.matrix("argmax dim 1" + tail, "reduction", kF32, n, n, [](const Tensor& x) { return x.argmax(1); });
  }
  const int64_t n = kLarge.side;
  book.matrix("mean dim 0 large f32", "reduction", kF32, n, n, [](const Tensor& x) { return x.mean(0); });
  book.matrix("mean dim 1 large bf16", "reduction", kBF16, n, n, [](const Tensor& x) { return x.mean(1); });
  book.matrix("sum all large i64", "reduction", kI64, n, n, [](const Tensor& x) { return x.sum(); });
  book.matrix("amax dim 0 large f32", "reduction", kF32, n, n, [](const Tensor& x) { return x.amax({0}); });
  book.matrix("max dim 1 large f32", "reduction", kF32, n, n, [](const Tensor& x) { return x.max(1); });
  book.matrix("max all large f32", "reduction", kF32, n, n, [](const Tensor& x) { return x.max(); });
  book.matrix("var all large f32", "reduction", kF32, n, n, [](const Tensor& x) { return x.var(true); });
  book.matrix("argmax dim 0 large f32", "reduction", kF32, n, n, [](const Tensor& x) { return x.argmax(0); });
  book.matrix("argmax all large f32", "reduction", kF32, n, n, [](const Tensor& x) { return x.argmax(); });
}

void add_rows(Book& book) {
  const auto softmax = [](const Tensor& x) { return lib::softmax(x, -1); };
  book.matrix("softmax tiny f32", "rows", kF32, 1, 8, softmax);
  book.matrix("softmax middle f32", "rows", kF32, 256, 256, softmax);
  book.matrix("softmax large f32", "rows", kF32, 4096, 4096, softmax);
  book.matrix("softmax large bf16", "rows", kBF16, 4096, 4096, softmax);
  book.matrix("log_softmax large f32", "rows", kF32, 4096, 4096,
              [](const Tensor& x) { return lib::log_softmax(x, -1); });
  const auto layer_norm = [&](const Size& size, lib::ScalarType dtype) {
    book.add(std::string("layer_norm ") + size.name + " " + dtype_label(dtype), "rows", [=] {
      const int64_t n = size.side;
      return [n, x = input({n, n}, dtype, 1), w = input({n}, dtype, 2), b = input({n}, dtype, 3)] {
        return lib::layer_norm(x, {n}, w, b, 1e-5);
      };
    });
  };
  layer_norm(kMiddle, kF32);
  layer_norm(kLarge, kF32);
  layer_norm(kLarge, kBF16);
  book.matrix("cumsum dim 1 middle f32", "rows", kF32, 256, 256, [](const Tensor& x) { return lib::cumsum(x, 1); });
  book.matrix("cumsum dim 1 large f32", "rows", kF32, 4096, 4096, [](const Tensor& x) { return lib::cumsum(x, 1); });
  book.matrix("cumsum dim 0 large f32", "rows", kF32, 4096, 4096, [](const Tensor& x) { return lib::cumsum(x, 0); });
}

void add_indexing(Book& book) {
  const auto cat = [&](const std::string& name, Sizes sizes, int64_t dim) {
    book.add(name, "indexing", [=] {
      return [dim, x = input(sizes, kF32, 1), y = input(sizes, kF32, 2)] { return lib::cat({x, y}, dim); };
    });
  };
  cat("cat tiny f32", {4}, 0);
  cat("cat dim 0 large f32", {2048, 4096}, 0);
  cat("cat dim 1 large f32", {4096, 2048}, 1);
  for (const Size& size : kBigSizes) {
    book.add(std::string("gather dim 1 ") + size.name + " f32", "indexing", [=] {
      const int64_t n = size.side;
      return [x = input({n, n}, kF32, 1), index = input({n, n}, kI64, 2, static_cast<float>(n))] {
        return lib::gather(x, 1, index);
      };
    });
  }
  book.add("index_select rows large f32", "indexing", [] {
    return [x = input({4096, 4096}, kF32, 1), index = input({4096}, kI64, 2, 4096.0f)] {
      return lib::index_select(x, 0, index);
    };
  });
  const auto sort = [](const Tensor& x) { return lib::sort(x, -1); };
  book.matrix("sort middle f32", "sorting", kF32, 256, 256, sort);
  book.matrix("sort large f32", "sorting", kF32, 4096, 4096, sort);
  book.matrix("topk 8 middle f32", "sorting", kF32, 256, 256, [](const Tensor& x) { return lib::topk(x, 8, -1); });
  book.matrix("topk 16 large f32", "sorting", kF32, 4096, 4096, [](const Tensor& x) { return lib::topk(x, 16, -1); });
}

void add_matmul(Book& book) {
  const auto matmul = [&](int64_t n, lib::ScalarType dtype) -> Case& {
    return book.add("matmul " + std::to_string(n) + " " + dtype_label(dtype), "matmul", [=] {
      return [x = input({n, n}, dtype, 1), y = input({n, n}, dtype, 2)] { return lib::matmul(x, y); };
    });
  };
  for (int64_t n : {64, 128, 256, 512, 1024, 2048}) matmul(n, kF32);
  // The products are rounded to bfloat16 in one library's order or the other's.
  for (int64_t n : {512, 1024}) matmul(n, kBF16).tolerance = 2e-2;
  book.add("matmul transposed 512 f32", "matmul", [] {
    return [x = input({512, 512}, kF32, 1), y = input({512, 512}, kF32, 2)] { return lib::matmul(x, y.t()); };
  });
  book.add("matmul vector 4096 f32", "matmul", [] {
    return [x = input({4096, 4096}, kF32, 1), y = input({4096}, kF32, 2)] { return lib::matmul(x, y); };
  });
  book.add("bmm 64x128 f32", "matmul", [] {
    return [x = input({64, 128, 128}, kF32, 1), y = input({64, 128, 128}, kF32, 2)] { return lib::bmm(x, y); };
  });
}

void add_random(Book& book) {
  for (const Size& size : kAllSizes) {
    const int64_t n = size.count;
    book.add(std::string("randn ") + size.name + " f32", "random", [n] { return [n] { return lib::randn({n}); }; })
        .check = kBenchNormal;
  }
  book.add("rand large f32", "random", [] { return [] { return lib::rand({kLarge.count}); }; }).check = kBenchUniform;
}

void add_chain(Book& book) {
  for (const Size& size : kAllSizes) {
    book.add(std::string("chain of six ") + size.name + " f32", "chain", [=] {
      return [x = input({size.count}, kF32, 1), y = input({size.count}, kF32, 2)] { return fused_chain(x, y); };
    });
  }
}

void add_gradients(Book& book) {
  book.add("mul sum backward tiny f32", "gradient", [] {
    return [a = parameter({8}, 1, 2.0f), b = parameter({8}, 2, 2.0f)] {
      forget_gradients({a, b});
      (a * b).sum().backward();
      return a.grad();
    };
  });
  book.add("mlp 8x64 step f32", "gradient", [] {
    return [model = Mlp(), x = input({16, 64}, kF32, 3, 1.0f)] {
      forget_gradients(model.all);
      model.loss(x).backward();
      return model.weights[0].grad();
    };
  });
  book.add("transformer 4 layers step f32", "gradient",
           [] {
             return [model = Transformer(),
                     x = input({Transformer::kBatch, Transformer::kTime, Transformer::kWidth}, kF32, 3, 1.0f)] {
               forget_gradients(model.all);
               model.loss(x).backward();
               return model.layers[0].qkv_weight.grad();
             };
           })
      .tolerance = 1e-3;
  for (const Size& size : kAllSizes) {
    book.add(std::string("chain backward ") + size.name + " f32", "gradient", [=] {
      return [x = parameter({size.count}, 1, 2.0f), g = input({size.count}, kF32, 2)] {
        forget_gradients({x});
        lib::tanh(lib::sigmoid(lib::exp(lib::sin(x)))).backward(g);
        return x.grad();
      };
    });
  }
  for (const auto& [name, count] : {std::pair<const char*, int64_t>{"64K", 1 << 16}, {"1M", 1 << 20}}) {
    const auto chain = [&, count = count](const std::string& what, bool both) {
      book.add("chain of eight " + what + " " + name + " f32", "gradient", [=] {
        return [x = parameter({count}, 1, 2.0f), w = input({count}, kF32, 2).requires_grad_(both),
                g = input({count}, kF32, 3)] {
          forget_gradients({x, w});
          chain_of_eight(x, w).backward(g);
          return x.grad();
        };
      });
    };
    chain("step", false);
    chain("two parameters step", true);
  }
  for (Case& item : book.cases())
    if (item.group == "gradient") item.gradient = true;
}

const std::vector<Case>& all_cases() {
  static const std::vector<Case> cases = [] {
    Book book;
    add_pointwise(book);
    add_into_existing(book);
    add_chain(book);
    add_casts(book);
    add_layouts(book);
    add_reductions(book);
    add_rows(book);
    add_indexing(book);
    add_matmul(book);
    add_random(book);
    add_gradients(book);
    return book.take();
  }();
  return cases;
}

// State of the one prepared case.
struct Current {
  std::unique_ptr<Work> work;
  double tolerance = 0;
  bool gradient = false;
  std::string message;
};

Current& current() {
  static Current state;
  return state;
}

// Runs `body`; no exception leaves the plugin.
template <class Body>
const char* guarded(Body body) {
  try {
    std::optional<NoAutograd> no_autograd;
    if (!current().gradient) no_autograd.emplace();
    body();
    return nullptr;
  } catch (const std::exception& error) {
    current().message = error.what();
  } catch (...) {
    current().message = "unknown exception";
  }
  return current().message.c_str();
}

BenchCaseInfo case_info(int32_t index) {
  const Case& item = all_cases()[static_cast<size_t>(index)];
  return {item.name.c_str(), item.group.c_str(), item.check};
}

const char* prepare(int32_t index) {
  const Case& item = all_cases()[static_cast<size_t>(index)];
  current().gradient = item.gradient;
  return guarded([&] {
    current().work = nullptr;
    current().tolerance = item.tolerance;
    current().work = item.prepare();
  });
}

const char* run(int64_t iterations) {
  return guarded([&] { current().work->run(iterations); });
}

const char* sample_result(int32_t which, BenchSamples* samples) {
  return guarded([&] {
    sample(current().work->results().at(static_cast<size_t>(which)), *samples);
    if (current().tolerance > 0) samples->tolerance = current().tolerance;
  });
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const BenchPlugin* facula_bench_plugin() {
  static const BenchPlugin plugin = {
      library_name,
      [] { return static_cast<int32_t>(all_cases().size()); },
      case_info,
      [](int32_t threads) { return guarded([&] { lib::set_num_threads(threads); }); },
      prepare,
      run,
      [] { return static_cast<int32_t>(current().work->results().size()); },
      sample_result,
      [] { current().work = nullptr; },
  };
  return &plugin;
}
