// One test for each public op on a GPU: the cases of its record, with the truth and the tolerances that hold for the CPU.
// Every op works there: one that says that it has no kernel fails like one with wrong results.
#include "cpp/case_file.h"
#include "cpp/record_calls.h"
#include "cpp/record_values.h"
#include "gpu/kernel.h"
#include "on_device.h"

#include <facula/core/generator.h>
#include <facula/cuda.h>

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iostream>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace facula::testing {
namespace {

using Complaints = std::vector<std::string>;

constexpr size_t kShown = 6;  // complaints printed for one op; the rest is counted
const Device kGpu("cuda:0");

std::vector<std::string> all_ops() {
  std::vector<std::string> names;
  std::set<std::string> seen;
  for (const BoxedOp& op : boxed_ops())
    if (seen.insert(op.op).second) names.emplace_back(op.op);
  return names;
}

bool has(const Case& one, CaseFlag flag) { return (one.flags & flag) != 0; }

void complain(Complaints& to, const std::string& what, const std::string& why) {
  if (!why.empty()) to.push_back(what + ": " + why);
}

template <class Body>
void guarded(Complaints& to, const std::string& what, Body body) {
  try {
    body();
  } catch (const Error& error) {
    to.push_back(what + ": " + error.type_name() + ": " + error.what());
  } catch (const std::exception& error) {
    to.push_back(what + ": exception: " + error.what());
  }
}

// A value written as a default in the op book.
BoxedValue default_value(std::string_view signature, const BoxedArg& arg) {
  const std::string name = std::string(" ") + arg.name + "=";
  const size_t at = signature.find(name);
  if (at == std::string_view::npos) return {};
  const std::string text(signature.substr(at + name.size()));
  if (text.starts_with("None") || text.starts_with("{}")) return {};
  if (std::string_view(arg.type) == "int") return static_cast<int64_t>(std::stoll(text));
  return std::stod(text);
}

// Ops without tensors are told where their result belongs.
Arguments with_device(const BoxedOp& op, Arguments args) {
  if (!tensors_of(args).empty()) return args;
  for (size_t i = 0; i < op.args.size(); ++i) {
    if (std::string_view(op.args[i].type) != "TensorOptions") continue;
    while (args.size() < i) args.push_back(default_value(op.signature, op.args[args.size()]));
    TensorOptions options;
    if (i < args.size()) {
      if (const auto* dtype = std::get_if<ScalarType>(&args[i])) options = options.dtype(*dtype);
    } else {
      args.emplace_back();
      if (std::string_view(op.signature).find("options=long") != std::string_view::npos) options = options.dtype(kLong);
    }
    args[i] = options.device(kGpu);
    break;
  }
  return args;
}

Arguments on_gpu(const Arguments& args) {
  return each_tensor(args, [](const Tensor& tensor) { return to_gpu(tensor); });
}

// The same for the arguments of an op; some must be on the CPU, as PyTorch wants them.
Arguments on_gpu(const BoxedOp& op, const Arguments& host) {
  Arguments args = with_device(op, on_gpu(host));
  for (size_t i = 0; i < host.size(); ++i)
    if (std::string_view(op.args[i].name) == "tensor_indices_or_sections") args[i] = host[i];
  return args;
}

Results to_host(const Results& results) {
  Results out = results;
  for (BoxedValue& value : out)
    if (auto* tensor = std::get_if<Tensor>(&value)) *tensor = testing::to_host(*tensor);
  return out;
}

// The op itself on arguments of the GPU; where only the in-place function exists, on a copy of the first.
Results call_on_gpu(const Variants& variants, const Arguments& args) {
  if (variants.function != nullptr) return call(*variants.function, args);
  Arguments copied = args;
  auto& self = std::get<Tensor>(copied.at(0));
  const Tensor host = testing::to_host(self);
  self = to_gpu(overlaps_itself(host) ? contiguous_copy(host) : host);
  return call(*variants.inplace, copied);
}

// Bytes and versions of the tensors among the arguments, to see later that nobody touched them.
class Untouched {
 public:
  Untouched(const Arguments& args, bool skip_first) {
    const auto tensors = tensors_of(args);
    for (size_t i = skip_first ? 1 : 0; i < tensors.size(); ++i)
      kept_.push_back({tensors[i], storage_bytes(testing::to_host(tensors[i])), tensors[i]._version()});
  }

  std::string words() const {
    for (const auto& [tensor, bytes, version] : kept_) {
      if (storage_bytes(testing::to_host(tensor)) != bytes) return "an input was changed: " + describe(tensor);
      if (tensor._version() != version) return "the version of an input was raised: " + describe(tensor);
    }
    return {};
  }

 private:
  struct Kept {
    Tensor tensor;
    std::vector<std::byte> bytes;
    int64_t version;
  };
  std::vector<Kept> kept_;
};

void check_places(Complaints& to, const std::string& what, const BoxedOp& op, const Results& results) {
  // The place in the random stream that attention keeps for its backward is the host's.
  const size_t on_gpu = std::string_view(op.name) == "_fused_attention" ? 2 : results.size();
  for (size_t i = 0; i < on_gpu; ++i) {
    const auto* tensor = std::get_if<Tensor>(&results[i]);
    if (tensor != nullptr && tensor->defined() && tensor->device() != kGpu)
      to.push_back(what + ": the result is on " + tensor->device().str());
  }
}

bool any_not_contiguous(const Arguments& args) {
  const auto tensors = tensors_of(args);
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return !t.is_contiguous(); });
}

void check_inplace(Complaints& to, const BoxedOp& inplace, const Arguments& host, const Case& one) {
  const Tensor* self = host.empty() ? nullptr : std::get_if<Tensor>(&host[0]);
  if (self == nullptr || one.truth.size() != 1 || one.truth[0].number) return;
  const CaseTruth& truth = one.truth[0];
  if (scalar_type_of_code(truth.dtype) != self->scalar_type() || to_words(self->sizes()) != to_words(truth.sizes))
    return;
  for (const bool strided : {false, true}) {
    if (strided && (self->is_contiguous() || overlaps_itself(*self))) continue;
    const std::string what = strided ? "in place on strided memory" : "in place";
    guarded(to, what, [&] {
      Arguments changed = on_gpu(host);
      const Tensor copy = to_gpu(strided ? *self : contiguous_copy(*self));
      changed[0] = copy;
      const Untouched others(changed, true);
      const int64_t version = copy._version();
      const Results results = call(inplace, changed);
      check_results(to, what, to_host(Results{BoxedValue(copy)}), one);
      if (results.empty() || !std::get<Tensor>(results[0]).is_same(copy))
        to.push_back(what + ": must return the tensor itself");
      if (inplace.kind != OpKind::View && copy._version() <= version)
        to.push_back(what + ": the version was not raised");
      complain(to, what, others.words());
    });
  }
}

void check_out(Complaints& to, const BoxedOp& out, const Arguments& host, const Case& one, bool all_layouts) {
  for (const CaseTruth& truth : one.truth)
    if (truth.number) return;
  for (const std::string kind : {"empty", "of the right size", "with gaps"}) {
    if (kind == "with gaps" && !all_layouts) continue;
    const std::string what = "into an out tensor " + kind;
    guarded(to, what, [&] {
      Arguments with_outs;
      for (const CaseTruth& truth : one.truth) {
        const std::vector<int64_t> sizes = kind == "empty" ? std::vector<int64_t>{0} : truth.sizes;
        with_outs.emplace_back(to_gpu(make_filled(scalar_type_of_code(truth.dtype), sizes, kind == "with gaps")));
      }
      const size_t count = with_outs.size();
      const auto* first = count == 0 ? nullptr : &std::get<Tensor>(with_outs[0]);
      const void* memory = first == nullptr ? nullptr : first->data_ptr();
      const Arguments args = on_gpu(host);
      with_outs.insert(with_outs.end(), args.begin(), args.end());
      const Untouched inputs(args, false);
      call(out, with_outs);
      const Results results(with_outs.begin(), with_outs.begin() + static_cast<std::ptrdiff_t>(count));
      check_results(to, what, to_host(results), one);
      if (count != 0 && kind != "empty" && std::get<Tensor>(with_outs[0]).data_ptr() != memory)
        to.push_back(what + ": the tensor must keep its memory");
      complain(to, what, inputs.words());
    });
  }
}

// Twice the same bits: a sum must not depend on which block came first.
void check_same_again(Complaints& to, const Results& first, const Results& second) {
  for (size_t i = 0; i < first.size() && i < second.size(); ++i) {
    const auto* a = std::get_if<Tensor>(&first[i]);
    const auto* b = std::get_if<Tensor>(&second[i]);
    if (a != nullptr && b != nullptr && a->defined() && b->defined())
      complain(to, "the same call again", bit_difference(testing::to_host(*b), testing::to_host(*a)));
  }
}

Complaints check_values(const Variants& variants, const Case& one, bool all_forms, bool all_layouts) {
  Complaints to;
  const BoxedOp& op = variants.plain();
  const Arguments host = to_boxed(one, op);
  const Arguments args = on_gpu(op, host);
  Results plain;
  guarded(to, "plainly", [&] {
    const Untouched inputs(args, variants.function == nullptr);
    plain = call_on_gpu(variants, args);
    check_places(to, "plainly", op, plain);
    check_results(to, "plainly", to_host(plain), one);
    complain(to, "plainly", inputs.words());
  });
  if (!to.empty()) return to;  // a wrong result makes the rest noise

  if (has(one, kAliasesSelf) && !args.empty()) {
    const auto* self = std::get_if<Tensor>(&args[0]);
    for (const BoxedValue& result : plain)
      if (self != nullptr && !std::get<Tensor>(result).is_alias_of(*self))
        to.push_back("the result must be a view of its input");
  }
  if (!all_forms) return to;
  if (has(one, kCheckThreads) && !has(one, kUndefinedValues))
    guarded(to, "the same call again", [&] { check_same_again(to, plain, call_on_gpu(variants, args)); });
  if (has(one, kCheckLayouts) && any_not_contiguous(host))
    guarded(to, "with contiguous inputs", [&] {
      check_results(to, "with contiguous inputs", to_host(call_on_gpu(variants, on_gpu(all_contiguous(host)))), one);
    });
  if (has(one, kCheckInplace) && variants.inplace != nullptr && variants.function != nullptr)
    check_inplace(to, *variants.inplace, host, one);
  if (has(one, kCheckOut) && variants.out != nullptr) check_out(to, *variants.out, host, one, all_layouts);
  return to;
}

// What a kernel finds out about its data is told by the next call that waits for it, so results are read as well.
Complaints check_error(const Variants& variants, const Case& one) {
  Complaints to;
  const BoxedOp& op = variants.plain();
  const Arguments args = on_gpu(op, to_boxed(one, op));
  const Untouched inputs(args, variants.function == nullptr);
  try {
    to_host(call(op, args));
    to.push_back("must fail with " + one.error_type + ", but succeeded");
  } catch (const Error& error) {
    if (one.error_type != error.type_name()) {
      to.push_back("must fail with " + one.error_type + ", but failed with " + error.type_name() + ": " + error.what());
    } else if (std::string(error.what()).find(one.error_text) == std::string::npos) {
      to.push_back("the text must contain \"" + one.error_text + "\", but is: " + error.what());
    }
  } catch (const std::exception& error) {
    to.push_back("must fail with " + one.error_type + ", but failed with another exception: " + error.what());
  }
  complain(to, "after the failure", inputs.words());
  return to;
}

// The same seed gives the same numbers as on the CPU, bit for bit; a second call continues the stream.
Complaints check_random_on_gpu(const Variants& variants, const Case& one, uint64_t seed) {
  Complaints to;
  const BoxedOp& op = variants.plain();
  const Arguments host = to_boxed(one, op);
  const Arguments args = on_gpu(op, host);
  guarded(to, "plainly", [&] {
    manual_seed(seed);
    const Results on_cpu = call_plain(variants, host);
    const Results next_on_cpu = call_plain(variants, host);
    manual_seed(seed);
    const Results drawn = call_on_gpu(variants, args);
    const Results next = call_on_gpu(variants, args);
    check_places(to, "plainly", variants.plain(), drawn);
    const auto compare = [&](const std::string& what, const Results& gpu, const Results& cpu) {
      for (size_t i = 0; i < cpu.size(); ++i)
        complain(to, what, bit_difference(std::get<Tensor>(to_host(gpu).at(i)), std::get<Tensor>(cpu[i])));
    };
    compare("against the CPU", drawn, on_cpu);
    compare("the second call against the CPU", next, next_on_cpu);
  });
  return to;
}

// The dtype that a case was drawn with, which its title names before the sample: "add(...), float32, sample 3".
std::string drawn_dtype(const Case& one) {
  const size_t end = one.title.rfind(", sample ");
  if (end == std::string::npos) return {};
  const size_t begin = one.title.rfind(", ", end - 1);
  return begin == std::string::npos ? std::string() : one.title.substr(begin + 2, end - begin - 2);
}

// Every dtype and every class of layouts costs kernels of their own, which the software GPU compiles slowly. Formulas and the ways
// to elements in memory are different parts of a kernel, so not every op must meet every layout. What is tested always: float32 (or
// what the record has instead) and one other dtype, on contiguous inputs of one shape. All layouts and forms: ops that move
// elements, and of programs some, which change with the seed and the vendor. FACULA_TEST_RECORDS=all tests everything.
struct Plan {
  std::string main_dtype;  // with all forms of a call; the others only plainly
  std::set<std::string> dtypes;
  bool thorough = true;
};
Plan plan_for(const CaseFile& file) {
  const char* wish = std::getenv("FACULA_TEST_RECORDS");
  const bool everything = wish != nullptr && std::string_view(wish) == "all";
  const char* vendor = std::getenv("FACULA_GPU");
  const size_t turn =
      file.seed + std::hash<std::string>()(file.op) + (vendor != nullptr && std::string_view(vendor) == "hip" ? 1 : 0);
  Plan plan;
  const OpKind kind = find_variants(file.op, file.cases.at(0).schema).plain().kind;
  if (kind == OpKind::Pointwise) plan.thorough = everything || turn % 8 == 0;
  if (kind == OpKind::Reduction) plan.thorough = everything || turn % 4 == 0;

  std::vector<std::string> dtypes;
  for (const Case& one : file.cases) {
    const std::string dtype = drawn_dtype(one);
    if (!dtype.empty() && std::find(dtypes.begin(), dtypes.end(), dtype) == dtypes.end()) dtypes.push_back(dtype);
  }
  if (dtypes.empty()) return plan;
  auto main = std::find(dtypes.begin(), dtypes.end(), "float32");
  if (main == dtypes.end()) main = dtypes.begin();
  plan.main_dtype = *main;
  plan.dtypes.insert(*main);
  dtypes.erase(main);
  if (everything) plan.dtypes.insert(dtypes.begin(), dtypes.end());
  else if (!dtypes.empty()) plan.dtypes.insert(dtypes[turn / 8 % dtypes.size()]);
  return plan;
}

// All tensors contiguous and of one shape, numbers aside.
bool is_plain(const Case& one) {
  std::set<std::vector<int64_t>> shapes;
  bool contiguous = true;
  const auto look = [&](const CaseTensor& tensor) {
    int64_t numel = 1;
    for (const int64_t size : tensor.sizes) numel *= size;
    if (numel > 1) shapes.insert(tensor.sizes);
    int64_t step = 1;
    for (size_t d = tensor.sizes.size(); d-- > 0; step *= tensor.sizes[d])
      contiguous = contiguous && (tensor.sizes[d] <= 1 || tensor.strides[d] == step);
    contiguous = contiguous && tensor.storage_offset == 0;
  };
  for (const CaseValue& value : one.args) {
    if (const auto* tensor = std::get_if<CaseTensor>(&value)) look(*tensor);
    else if (const auto* list = std::get_if<std::vector<CaseTensor>>(&value))
      std::for_each(list->begin(), list->end(), look);
  }
  return contiguous && shapes.size() <= 1;
}

// A host that touches memory of a device dies; the log must say in which test.
[[maybe_unused]] void name_the_test(int number) {
  if (const auto* test = ::testing::UnitTest::GetInstance()->current_test_info()) {
    const std::string words = std::string("gpu: crashed in ") + test->test_suite_name() + "." + test->name() + "\n";
    if (write(2, words.data(), words.size()) < 0) std::abort();
  }
  std::signal(number, SIG_DFL);  // and happens again
}

class Summary : public ::testing::Environment {
 public:
  void SetUp() override {
#if !defined(FACULA_ASAN) && !defined(FACULA_TSAN)
    std::signal(SIGSEGV, name_the_test);
#endif
  }

  void TearDown() override {
    const gpu::CacheStats kernels = gpu::cache_stats();
    std::cout << "gpu: " << kernels.compiled << " kernels compiled, " << kernels.disk_hits << " found on disk"
              << std::endl;
  }
};
const ::testing::Environment* const kSummary = ::testing::AddGlobalTestEnvironment(new Summary);

class GpuOp : public ::testing::TestWithParam<std::string> {
 protected:
  // The software GPU knows which memory was never written by a device, and memory that is given out again was. So it gets fresh
  // memory for every tensor: an op that computes on the host by mistake shows.
  void SetUp() override {
    if (std::getenv("FACULA_GPU_LIBRARY_PATH") != nullptr) cuda::caching_allocator_enable(false);
  }
  void TearDown() override { cuda::caching_allocator_enable(caching_); }

 private:
  const bool caching_ = cuda::caching_allocator_is_enabled();
};

TEST_P(GpuOp, HoldsItsRecord) {
  const char* folder = std::getenv("FACULA_CASES");
  ASSERT_NE(folder, nullptr) << "set FACULA_CASES to the folder that tests/truth/make_cases.py --out wrote";
  const CaseFile file = read_case_file((std::filesystem::path(folder) / (GetParam() + ".cases")).string());
  ASSERT_EQ(file.op, GetParam());
  ASSERT_FALSE(file.cases.empty());
  const Plan plan = plan_for(file);

  size_t wrong_cases = 0, checked = 0, shown = 0;
  std::ostringstream report;
  for (const Case& one : file.cases) {
    const std::string dtype = drawn_dtype(one);
    if (!dtype.empty() && (!plan.dtypes.contains(dtype) || !(plan.thorough || is_plain(one)))) continue;
    ++checked;
    const Variants variants = find_variants(file.op, one.schema);
    Complaints complaints;
    try {
      switch (one.kind) {
        case CaseKind::kValues:
          complaints = check_values(variants, one, dtype == plan.main_dtype, plan.thorough);
          break;
        case CaseKind::kError: complaints = check_error(variants, one); break;
        case CaseKind::kRandom: complaints = check_random_on_gpu(variants, one, file.seed); break;
      }
    } catch (const std::exception& error) {
      complaints = {std::string("exception: ") + error.what()};
    }
    if (complaints.empty()) continue;
    ++wrong_cases;
    for (const std::string& complaint : complaints)
      if (shown++ < kShown) report << "\n" << one.title << "\n    " << complaint;
  }
  EXPECT_GT(checked, 0u) << "no case of the record was tried";
  EXPECT_EQ(wrong_cases, 0u) << wrong_cases << " of " << checked << " cases fail, seed " << file.seed << report.str();
}

INSTANTIATE_TEST_SUITE_P(Records, GpuOp, ::testing::ValuesIn(all_ops()),
                         [](const ::testing::TestParamInfo<std::string>& named) { return named.param; });

}  // namespace
}  // namespace facula::testing
