// Plans: a product's description, the algorithms that the library proposed for it and the one that is used. They are
// made once for each kind of product and found again by a few comparisons.
#include "gpu/libs/blas_lt.h"

#include "gpu/memory/allocator.h"
#include "gpu/matmul/matmul.h"

#include <facula/core/number_types.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace facula::gpu {
namespace {

constexpr int kProposals = 8;  // algorithms asked for
constexpr int kTries = 3, kUsesBeforeTuning = 3;
constexpr size_t kMostPlans = 16384;     // kept; about a kilobyte each
constexpr float kTimedFor = 0.2f;        // milliseconds
constexpr double kLargeWork = 1 << 21;   // multiplications from which on timing pays
constexpr int64_t kBeforeLeading = 8;    // of what the columns of `before` must be a multiple
constexpr uint8_t kBeforeAlignment = 4;  // as a power of two

// All that a plan depends on. Compared byte by byte: every byte is written.
struct PlanKey {
  int64_t m, n, k, batch, lda, ldb, ldd, stride_a, stride_b, stride_d;
  uint8_t dtype, out_dtype, flags, align_a, align_b, align_d, device, epilogue;
};
static_assert(std::has_unique_object_representations_v<PlanKey>);

// How well an address is aligned, as a power of two; more than 256 bytes are of no use to anybody.
uint8_t alignment(const void* pointer) {
  return static_cast<uint8_t>(std::min(std::countr_zero(reinterpret_cast<uintptr_t>(pointer) | 256), 8));
}

PlanKey key_of(const BlasProblem& p, int device) {
  return {p.m,
          p.n,
          p.k,
          p.batch,
          p.lda,
          p.ldb,
          p.ldd,
          p.batch > 1 ? p.stride_a : 0,
          p.batch > 1 ? p.stride_b : 0,
          p.batch > 1 ? p.stride_d : 0,
          static_cast<uint8_t>(p.dtype),
          static_cast<uint8_t>(p.out_dtype),
          static_cast<uint8_t>(p.transpose_a | p.transpose_b << 1 | p.tf32 << 2 | p.reduced << 3 | p.narrow_sums << 4 |
                               (p.bias != nullptr) << 5),
          alignment(p.a),
          alignment(p.b),
          alignment(p.d),
          static_cast<uint8_t>(device),
          static_cast<uint8_t>(static_cast<int>(p.activation) | (p.before != nullptr) << 2)};
}

uint64_t hash_of(const PlanKey& key) {
  uint64_t words[sizeof(PlanKey) / 8], h = 0x9e3779b97f4a7c15u;
  std::memcpy(words, &key, sizeof(key));
  for (uint64_t word : words) {
    h = (h ^ word) * 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  }
  return h;
}
struct KeyHash {
  size_t operator()(const PlanKey& key) const { return hash_of(key); }
};
struct KeyEqual {
  bool operator()(const PlanKey& a, const PlanKey& b) const { return std::memcmp(&a, &b, sizeof(PlanKey)) == 0; }
};

// A number in the type that a library scales with.
struct ScaleValue {
  alignas(16) unsigned char bytes[16] = {};
  template <class T>
  void put(const T& value) {
    std::memcpy(bytes, &value, sizeof(T));
  }
  ScaleValue(double value, const BlasProblem& p) {
    switch (p.dtype) {
      case ScalarType::Double:
      case ScalarType::ComplexDouble: put(value); break;  // an imaginary part of zero follows
      case ScalarType::Char: put(static_cast<int32_t>(value)); break;
      case ScalarType::Half:
        if (p.narrow_sums) {
          put(facula::Half(value));
          break;
        }
        [[fallthrough]];
      default: put(static_cast<float>(value));
    }
  }
};

// The library's descriptions, freed with the plan.
class Descriptions {
 public:
  explicit Descriptions(const LtApi& api) : api_(api) {}
  ~Descriptions() {
    if (product) api_.describe_destroy(product);
    for (void* layout : {a, b, d})
      if (layout) api_.layout_destroy(layout);
  }
  Descriptions(const Descriptions&) = delete;
  Descriptions& operator=(const Descriptions&) = delete;

  void *product = nullptr, *a = nullptr, *b = nullptr, *d = nullptr;

  // False when the library refuses a part of it.
  bool describe(const BlasProblem& p, const LtApi::Types& types) {
    return describe_product(p, types) &&
           describe_layout(a, types.in, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch,
                           p.stride_a) &&
           describe_layout(b, types.in, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch,
                           p.stride_b) &&
           describe_layout(d, types.out, p.m, p.n, p.ldd, p.batch, p.stride_d);
  }
  bool describe_product(const BlasProblem& p, const LtApi::Types& types) {
    if (api_.describe_create(&product, types.compute, types.scale) != 0) return false;
    const int32_t how_a = p.transpose_a ? api_.transpose : api_.keep,
                  how_b = p.transpose_b ? api_.transpose : api_.keep;
    if (api_.describe_set(product, api_.set_transpose_a, &how_a, sizeof(how_a)) != 0 ||
        api_.describe_set(product, api_.set_transpose_b, &how_b, sizeof(how_b)) != 0)
      return false;
    const uint32_t epilogue =
        (p.bias ? api_.epilogue_bias : 0) | (p.activation == Activation::Relu ? api_.epilogue_relu : 0) |
        (p.activation == Activation::GeluTanh ? api_.epilogue_gelu : 0) | (p.before ? api_.epilogue_before : 0);
    return epilogue == 0 || (api_.describe_set(product, api_.set_epilogue, &epilogue, sizeof(epilogue)) == 0 &&
                             (!p.bias || describe_bias(p, types)) && (!p.before || describe_before(p)));
  }

 private:
  bool describe_bias(const BlasProblem& p, const LtApi::Types& types) {
    // It is of the result's type unless told otherwise; a library that cannot be told assumes that, too.
    const int32_t type = types.out;
    static_cast<void>(api_.describe_set(product, api_.set_bias_type, &type, sizeof(type)));
    return api_.describe_set(product, api_.set_bias, &p.bias, sizeof(p.bias)) == 0;
  }
  bool describe_before(const BlasProblem& p) {
    return api_.describe_set(product, api_.set_before, &p.before, sizeof(p.before)) == 0 &&
           api_.describe_set(product, api_.set_before_leading, &p.ldd, sizeof(p.ldd)) == 0;
  }
  bool describe_layout(void*& layout, int type, int64_t rows, int64_t columns, int64_t leading, int64_t batch,
                       int64_t stride) {
    if (api_.layout_create(&layout, type, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns), leading) != 0)
      return false;
    if (batch == 1) return true;
    const auto count = static_cast<int32_t>(batch);
    return api_.layout_set(layout, api_.layout_batch, &count, sizeof(count)) == 0 &&
           api_.layout_set(layout, api_.layout_batch_stride, &stride, sizeof(stride)) == 0;
  }

  const LtApi& api_;
};

struct Proposal {
  alignas(8) unsigned char algorithm[64];
  size_t workspace;
};

struct Plan {
  explicit Plan(const LtApi& api) : descriptions(api) {}
  PlanKey key;
  Descriptions descriptions;
  LtApi::Types types;
  std::vector<Proposal> proposals;  // none: the library cannot do it
  std::atomic<int> chosen{0};       // -1 once the library has refused to run it
  std::atomic<int> uses{0};         // negative when it was tuned
  std::mutex mutex;                 // around running it, where that writes to the descriptions
};

class LtBlas final : public Blas {
 public:
  explicit LtBlas(LtApi api) : api_(std::move(api)) {}
  const std::string& name() const override { return api_.name; }
  const std::string& path() const override { return api_.path; }
  bool supports(ScalarType dtype, int device) override { return api_.supports(dtype, device); }

  bool matmul(const BlasProblem& problem, const StreamRef& stream, const char* op) override {
    if (problem.batch > INT32_MAX) return false;
    if (problem.before && (problem.ldd % kBeforeLeading != 0 || alignment(problem.before) < kBeforeAlignment))
      return false;
    const PlanKey key = key_of(problem, stream.device);
    const uint64_t hash = hash_of(key);
    std::atomic<Plan*>& recent = recent_[hash % kRecent];
    Plan* plan = recent.load(std::memory_order_acquire);
    std::unique_ptr<Plan> unkept;
    if (!plan || !KeyEqual()(plan->key, key)) {
      plan = find_or_make(key, problem, stream, unkept);
      if (!plan) return false;
      if (!unkept) recent.store(plan, std::memory_order_release);
    }
    if (tune_blas() && plan->uses.load(std::memory_order_relaxed) >= 0) tune(*plan, problem, stream, op);
    const int chosen = plan->chosen.load(std::memory_order_relaxed);
    if (chosen < 0) return false;
    return run(*plan, plan->proposals[static_cast<size_t>(chosen)], problem, problem.d, stream, op);
  }

 private:
  static constexpr size_t kRecent = 1024;

  void* handle(int device) {
    std::atomic<void*>& slot = handles_[device];
    if (void* there = slot.load(std::memory_order_acquire)) return there;
    std::lock_guard lock(mutex_);
    if (void* there = slot.load(std::memory_order_acquire)) return there;
    void* made = nullptr;
    RelaxedCapture relaxed;  // it asks for memory
    if (api_.create(&made) != 0) return nullptr;
    slot.store(made, std::memory_order_release);
    return made;
  }

  Plan* find_or_make(const PlanKey& key, const BlasProblem& problem, const StreamRef& stream,
                     std::unique_ptr<Plan>& unkept) {
    {
      std::lock_guard lock(mutex_);
      if (auto found = plans_.find(key); found != plans_.end()) return found->second;
    }
    auto plan = std::make_unique<Plan>(api_);
    plan->key = key;
    if (!ask(*plan, problem, stream.device)) plan->chosen.store(-1);
    std::lock_guard lock(mutex_);
    if (plans_.size() >= kMostPlans) {
      unkept = std::move(plan);
      return unkept.get();
    }
    auto [at, added] = plans_.emplace(key, plan.get());
    if (added) static_cast<void>(plan.release());
    return at->second;
  }

  // Fills in what the library proposes; false when that is nothing.
  bool ask(Plan& plan, const BlasProblem& problem, int device) {
    void* with = handle(device);
    const std::optional<LtApi::Types> types = api_.types(problem);
    if (!with || !types) return false;
    plan.types = *types;
    if (!plan.descriptions.describe(problem, *types)) return false;
    void* preference = nullptr;
    if (api_.preference_create(&preference) != 0) return false;
    const uint64_t workspace = properties(device).major >= 9 ? 32u << 20 : 4u << 20;
    api_.preference_set(preference, api_.prefer_workspace, &workspace, sizeof(workspace));
    if (api_.prefer_reduction >= 0 && !problem.reduced)
      api_.preference_set(preference, api_.prefer_reduction, &api_.exact_reductions, sizeof(api_.exact_reductions));
    const std::pair<int, uint8_t> alignments[] = {{api_.prefer_align_a, plan.key.align_a},
                                                  {api_.prefer_align_b, plan.key.align_b},
                                                  {api_.prefer_align_c, plan.key.align_d},
                                                  {api_.prefer_align_d, plan.key.align_d}};
    for (auto [attribute, power] : alignments) {
      const uint32_t bytes = 1u << power;
      if (attribute >= 0) api_.preference_set(preference, attribute, &bytes, sizeof(bytes));
    }
    std::vector<uint64_t> results(kProposals * api_.result_bytes / 8 + 1);
    int found = 0;
    const int status =
        api_.heuristic(with, plan.descriptions.product, plan.descriptions.a, plan.descriptions.b, plan.descriptions.d,
                       plan.descriptions.d, preference, kProposals, results.data(), &found);
    api_.preference_destroy(preference);
    if (status != 0) return false;
    for (int i = 0; i < found; ++i) {
      const auto* result =
          reinterpret_cast<const unsigned char*>(results.data()) + static_cast<size_t>(i) * api_.result_bytes;
      int state = 0;
      std::memcpy(&state, result + api_.algorithm_bytes + 8, sizeof(state));
      if (state != 0) continue;
      Proposal& proposal = plan.proposals.emplace_back();
      std::memcpy(proposal.algorithm, result, api_.algorithm_bytes);
      std::memcpy(&proposal.workspace, result + api_.algorithm_bytes, 8);
    }
    return !plan.proposals.empty();
  }

  // Queues the product with one of the proposals, into `d`. False when the library refuses.
  bool run(Plan& plan, const Proposal& proposal, const BlasProblem& problem, void* d, const StreamRef& stream,
           const char* op) {
    const ScaleValue alpha(problem.alpha, problem), beta(problem.beta, problem);
    // Bias and `before` are addresses inside of the description, which other threads may be using.
    std::optional<Descriptions> own;
    void* product = plan.descriptions.product;
    if (problem.bias || problem.before) {
      own.emplace(api_);
      if (!own->describe_product(problem, plan.types)) return false;
      product = own->product;
    }
    // Blocks are reused in the order of the stream: this one is ours until the product is done.
    const Allocation workspace = allocate(stream.device, proposal.workspace, op);
    std::unique_lock lock(plan.mutex, std::defer_lock);
    if (api_.description_is_written) lock.lock();
    RelaxedCapture relaxed;  // kernels are loaded when they are first used
    const int status =
        api_.matmul(handle(stream.device), product, alpha.bytes, problem.a, plan.descriptions.a, problem.b,
                    plan.descriptions.b, beta.bytes, problem.d, plan.descriptions.d, d, plan.descriptions.d,
                    proposal.algorithm, workspace.data, proposal.workspace, stream.handle);
    if (workspace.block) gpu::free(workspace.block);
    if (status == 0) return true;
    FACULA_CHECK(api_.is_refusal(status), DeviceError, op, ": ", api_.name, " failed with ", api_.status_name(status),
                 " for a product of ", problem.n, "x", problem.k, " and ", problem.k, "x", problem.m, " (batch ",
                 problem.batch, ") in ", toString(problem.dtype), ". FACULA_BLAS=none computes without the library");
    plan.chosen.store(-1, std::memory_order_relaxed);
    return false;
  }

  // Times the proposals once a plan has been used a few times, and keeps the fastest.
  void tune(Plan& plan, const BlasProblem& problem, const StreamRef& stream, const char* op) {
    const double work = static_cast<double>(problem.m) * static_cast<double>(problem.n) *
                        static_cast<double>(problem.k) * static_cast<double>(problem.batch);
    if (plan.proposals.size() < 2 || work < kLargeWork || is_capturing(stream)) return;
    if (plan.uses.fetch_add(1, std::memory_order_relaxed) + 1 != kUsesBeforeTuning) return;
    // With beta every try would change what the next one adds to: they write elsewhere.
    Allocation scratch;
    if (problem.beta != 0) {
      const int64_t last = (problem.batch - 1) * problem.stride_d + (problem.n - 1) * problem.ldd + problem.m;
      try {
        scratch = allocate(stream.device, static_cast<size_t>(last) * elementSize(problem.out_dtype), op);
      } catch (const OutOfMemoryError&) {
        plan.uses.store(-1, std::memory_order_relaxed);
        return;
      }
    }
    void* d = scratch.block ? scratch.data : problem.d;
    Driver& driver = need_driver(op);
    EventHandle start = nullptr, end = nullptr;
    float best = 0;
    int winner = 0;
    if (driver.create_event(start, true, false, false).ok() && driver.create_event(end, true, false, false).ok()) {
      for (size_t i = 0; i < plan.proposals.size(); ++i) {
        const float time = time_of(plan, plan.proposals[i], problem, d, stream, op, driver, start, end);
        // The first proposal is the library's favourite: others must be clearly faster.
        if (time > 0 && (best == 0 || time < best * 0.98f)) {
          best = time;
          winner = static_cast<int>(i);
        }
      }
    }
    if (start) static_cast<void>(driver.destroy_event(start));
    if (end) static_cast<void>(driver.destroy_event(end));
    if (scratch.block) gpu::free(scratch.block);
    plan.uses.store(-1, std::memory_order_relaxed);
    plan.chosen.store(best > 0 ? winner : 0, std::memory_order_relaxed);
  }

  // Milliseconds of one run, the best of a few; 0 when it does not run. Short ones are timed several at a time.
  float time_of(Plan& plan, const Proposal& proposal, const BlasProblem& problem, void* d, const StreamRef& stream,
                const char* op, Driver& driver, EventHandle start, EventHandle end) {
    float best = 0;
    int runs = 1;
    for (int i = 0; i <= kTries; ++i) {
      check(driver.record_event(start, stream.handle), op);
      for (int j = 0; j < runs; ++j)
        if (!run(plan, proposal, problem, d, stream, op)) return 0;
      check(driver.record_event(end, stream.handle), op);
      check(driver.synchronize_event(end), op);
      float time = 0;
      check(driver.elapsed_ms(start, end, time), op);
      time = std::max(time, 1e-3f) / static_cast<float>(runs);
      if (i == 0) runs = std::clamp(static_cast<int>(kTimedFor / time), 1,
                                    20);  // the first one loads the kernel, too
      else if (best == 0 || time < best) best = time;
    }
    return best;
  }

  LtApi api_;
  std::atomic<void*> handles_[kMaxDevices] = {};
  std::atomic<Plan*> recent_[kRecent] = {};
  std::mutex mutex_;
  std::unordered_map<PlanKey, Plan*, KeyHash, KeyEqual> plans_;
};

}  // namespace

std::unique_ptr<Blas> make_lt_blas(LtApi api) { return std::make_unique<LtBlas>(std::move(api)); }

}  // namespace facula::gpu
