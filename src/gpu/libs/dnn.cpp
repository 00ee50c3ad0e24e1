// Looks for the vendor's library once, and keeps what was found out about every shape.
#include "gpu/libs/dnn.h"

#include "core/env.h"
#include "gpu/cache.h"
#include "gpu/memory/allocator.h"

#include <facula/core/error.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <type_traits>
#include <unordered_map>

namespace facula::gpu {
namespace {

constexpr int kTries = 3;
constexpr float kTimedFor = 0.5f;                       // milliseconds
constexpr uint64_t kMostWorkspace = uint64_t{1} << 30;  // bytes that an algorithm may ask for
constexpr size_t kMostPlans = 4096;

static_assert(std::has_unique_object_representations_v<DnnShape>);
struct ShapeHash {
  size_t operator()(const DnnShape& shape) const {
    uint64_t h = 0x9e3779b97f4a7c15u;
    unsigned char bytes[sizeof(DnnShape)];
    std::memcpy(bytes, &shape, sizeof(shape));
    for (size_t i = 0; i < sizeof(bytes); i += 4) {
      uint32_t word;
      std::memcpy(&word, bytes + i, 4);
      h = (h ^ word) * 0xff51afd7ed558ccdu;
      h ^= h >> 32;
    }
    return h;
  }
};
struct ShapeEqual {
  bool operator()(const DnnShape& a, const DnnShape& b) const { return std::memcmp(&a, &b, sizeof(DnnShape)) == 0; }
};

std::atomic<int64_t> tuned_count{0}, remembered_count{0};

// What the disk cache keeps of a shape: the chosen algorithm. Another version of the library chooses anew.
Digest cache_key(const DnnShape& shape, const std::string& library, int device) {
  const DeviceProperties& chip = properties(device);
  Sha256 hash;
  hash.add_text("convolution 1").add_text(library).add_text(chip.chip).add_text(chip.name).add(&shape, sizeof(shape));
  return hash.finish();
}
struct Kept {
  int64_t number, math;
  uint64_t workspace;
};

}  // namespace

struct Dnn::Plan {
  std::unique_ptr<DnnVendor::Description> description;
  std::vector<DnnAlgorithm> algorithms;  // the chosen one first; none: the library cannot do it
  bool settled = false;                  // whether the first one is known to be the fastest
};

struct Dnn::PerDevice {
  std::mutex mutex;  // handles are for one thread at a time
  void* handle = nullptr;
  bool failed = false;  // the library does not start on this device
  std::unordered_map<DnnShape, Plan, ShapeHash, ShapeEqual> plans;
};

Dnn::Dnn(std::unique_ptr<DnnVendor> vendor)
    : vendor_(std::move(vendor)), devices_(std::make_unique<PerDevice[]>(kMaxDevices)) {}
Dnn::~Dnn() = default;

bool Dnn::convolve(const DnnProblem& problem, const StreamRef& stream, const char* op) {
  PerDevice& device = devices_[static_cast<size_t>(stream.device)];
  std::lock_guard lock(device.mutex);
  if (device.failed) return false;
  if (!device.handle) {
    RelaxedCapture relaxed;  // it asks for memory
    if (vendor_->create(device.handle, stream.handle) != 0) {
      device.failed = true;
      return false;
    }
  }
  Plan& plan = plan_of(device, problem.shape, stream, op);
  if (!plan.settled && plan.algorithms.size() > 1 && !is_capturing(stream)) tune(device, plan, problem, stream, op);
  // Those that the library takes back when it comes to it are left out from then on. Those for which there is no memory
  // right now may have their turn another time.
  for (size_t i = 0; i < plan.algorithms.size();) {
    const Ran ran = run(device, plan, plan.algorithms[i], problem, stream, op);
    if (ran == Ran::Yes) return true;
    if (ran == Ran::NoMemory) ++i;
    else plan.algorithms.erase(plan.algorithms.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return false;
}

Dnn::Plan& Dnn::plan_of(PerDevice& device, const DnnShape& shape, const StreamRef& stream, const char*) {
  if (const auto found = device.plans.find(shape); found != device.plans.end()) return found->second;
  if (device.plans.size() >= kMostPlans) device.plans.clear();
  RelaxedCapture relaxed;
  Plan plan;
  plan.description = vendor_->describe(shape);
  if (plan.description) {
    plan.algorithms = vendor_->algorithms(device.handle, *plan.description, shape);
    std::erase_if(plan.algorithms, [](const DnnAlgorithm& a) { return a.workspace > kMostWorkspace; });
  }
  if (plan.algorithms.size() > 1) {
    if (const auto bytes = disk_cache().read(cache_key(shape, vendor_->name(), stream.device));
        bytes && bytes->size() == sizeof(Kept)) {
      Kept kept;
      std::memcpy(&kept, bytes->data(), sizeof(kept));
      const auto known = std::find_if(plan.algorithms.begin(), plan.algorithms.end(), [&](const DnnAlgorithm& a) {
        return a.number == kept.number && a.math == kept.math && a.workspace == kept.workspace;
      });
      if (known != plan.algorithms.end()) {
        std::rotate(plan.algorithms.begin(), known, known + 1);
        plan.settled = true;
        remembered_count.fetch_add(1, std::memory_order_relaxed);
      }
    }
  }
  return device.plans.emplace(shape, std::move(plan)).first->second;
}

Dnn::Ran Dnn::run(PerDevice& device, Plan& plan, const DnnAlgorithm& algorithm, const DnnProblem& problem,
                  const StreamRef& stream, const char* op) {
  // Blocks are reused in the order of the stream: this one is ours until the convolution is done.
  Allocation workspace;
  try {
    workspace = allocate(stream.device, algorithm.workspace, op);
  } catch (const OutOfMemoryError&) {
    return Ran::NoMemory;  // another algorithm, or our own kernels, need less
  }
  int status;
  {
    RelaxedCapture relaxed;  // kernels are loaded when they are first used
    status = vendor_->run(device.handle, stream.handle, *plan.description, algorithm, problem, workspace.data);
  }
  if (workspace.block) gpu::free(workspace.block);
  if (status == 0) return Ran::Yes;
  const DnnShape& s = problem.shape;
  const auto sizes = [&](const int32_t* from) {
    std::string text = str("[", from[0]);
    for (int d = 1; d < s.space + 2; ++d) text += str(", ", from[d]);
    return text + "]";
  };
  const char* text = vendor_->error_text(status);
  FACULA_CHECK(vendor_->is_refusal(status), DeviceError, op, ": ", vendor_->name(), " failed with ",
               text ? text : str("status ", status), " for an input of size ", sizes(s.input), " and a weight of size ",
               sizes(s.weight), " in ", toString(problem.dtype()), ". FACULA_DNN=none computes without the library");
  return Ran::Refused;
}

void Dnn::tune(PerDevice& device, Plan& plan, const DnnProblem& problem, const StreamRef& stream, const char* op) {
  Driver& driver = need_driver(op);
  struct Event {
    Driver& driver;
    EventHandle handle = nullptr;
    bool made = driver.create_event(handle, true, false, false).ok();
    ~Event() {
      if (made) static_cast<void>(driver.destroy_event(handle));
    }
  };
  const Event start{driver}, end{driver};
  plan.settled = true;
  if (!start.made || !end.made) return;  // then in the order that the library proposes
  std::vector<std::pair<float, DnnAlgorithm>> timed;
  std::vector<DnnAlgorithm> waiting;  // for memory
  for (const DnnAlgorithm& algorithm : plan.algorithms) {
    Ran ran = Ran::Yes;
    float time = time_of(device, plan, algorithm, problem, stream, op, start.handle, end.handle, ran);
    if (ran == Ran::NoMemory) waiting.push_back(algorithm);
    if (ran != Ran::Yes) continue;
    // The first one is the library's favourite: others must be clearly faster.
    if (timed.empty()) time *= 0.98f;
    timed.emplace_back(time, algorithm);
  }
  std::stable_sort(timed.begin(), timed.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  plan.algorithms.clear();
  for (const auto& [time, algorithm] : timed) plan.algorithms.push_back(algorithm);
  plan.algorithms.insert(plan.algorithms.end(), waiting.begin(), waiting.end());
  tuned_count.fetch_add(1, std::memory_order_relaxed);
  if (timed.empty() || !waiting.empty()) return;  // a choice made in want of memory is none to keep
  const DnnAlgorithm& best = plan.algorithms.front();
  const Kept kept{best.number, best.math, best.workspace};
  char bytes[sizeof(kept)];
  std::memcpy(bytes, &kept, sizeof(kept));
  disk_cache().write(cache_key(problem.shape, vendor_->name(), stream.device), bytes);
}

// Milliseconds of one run, the best of a few; `ran` says when it does not run. Short ones are timed several at a time.
float Dnn::time_of(PerDevice& device, Plan& plan, const DnnAlgorithm& algorithm, const DnnProblem& problem,
                   const StreamRef& stream, const char* op, EventHandle start, EventHandle end, Ran& ran) {
  Driver& driver = need_driver(op);
  float best = 0;
  int runs = 1;
  for (int i = 0; i <= kTries; ++i) {
    check(driver.record_event(start, stream.handle), op);
    for (int j = 0; j < runs; ++j) {
      ran = run(device, plan, algorithm, problem, stream, op);
      if (ran != Ran::Yes) return 0;
    }
    check(driver.record_event(end, stream.handle), op);
    check(driver.synchronize_event(end), op);
    float time = 0;
    check(driver.elapsed_ms(start, end, time), op);
    time = std::max(time, 1e-3f) / static_cast<float>(runs);
    if (i == 0) runs = std::clamp(static_cast<int>(kTimedFor / time), 1, 10);  // the first one loads the kernel, too
    else if (best == 0 || time < best) best = time;
  }
  return best;
}

// ---- which library --------------------------------------------------------------------------------------------------

namespace {

struct Found {
  std::unique_ptr<Dnn> dnn;
  std::string why_not;
};

Found look() {
  Found found;
  const std::string_view wish = env(EnvVar::Dnn).value_or("vendor");
  FACULA_CHECK(wish == "vendor" || wish == "none", ValueError,
               "environment variable FACULA_DNN must be vendor or none, got \"", wish, "\"");
  if (wish == "none") {
    found.why_not = "FACULA_DNN=none";
    return found;
  }
  Driver* with = driver();
  if (!with) {
    found.why_not = why_no_driver();
    return found;
  }
  auto vendor = with->vendor() == Vendor::Cuda ? find_dnn_cuda(found.why_not) : find_dnn_hip(found.why_not);
  if (vendor) found.dnn = std::make_unique<Dnn>(std::move(vendor));
  return found;
}

const Found& found() {
  static const auto* once = new Found(look());
  return *once;
}

std::atomic<bool>& allowed() {
  static std::atomic<bool> value{true};
  return value;
}

}  // namespace

Dnn* dnn() { return found().dnn.get(); }
const std::string& why_no_dnn() { return found().why_not; }
bool allow_dnn() { return allowed().load(std::memory_order_relaxed); }
void set_allow_dnn(bool allow) { allowed().store(allow, std::memory_order_relaxed); }
DnnStats dnn_stats() { return {tuned_count.load(), remembered_count.load()}; }

}  // namespace facula::gpu
