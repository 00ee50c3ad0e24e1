// The state of autocast, the casts, and the copies of parameters that are kept for a region.
#include "autograd/autocast.h"

#include "core/tensor_impl.h"

#include <facula/amp/autocast.h>
#include <facula/autograd/modes.h>
#include <facula/core/warning.h>
#include <facula/tensors.h>

#include <unordered_map>

namespace facula {
namespace detail {
namespace {

// A narrow copy of a parameter. It is good while the parameter is the same memory at the same version, and for a tape that
// records only when it was recorded itself.
struct Kept {
  Tensor parameter, copy;
  StorageImpl* storage;
  uint32_t version;
  ScalarType dtype;
};

struct ThreadState {
  ScalarType dtypes[2] = {kBFloat16, kHalf};
  bool cache = true;
  int nesting = 0;
  std::unordered_map<const TensorImpl*, Kept> kept;
};
// On the heap: what is thread-local in the library must be small, or a program that is running cannot load it.
ThreadState& thread_state() {
  thread_local const std::unique_ptr<ThreadState> state(new ThreadState);
  return *state;
}

size_t index_of(DeviceType type, const char* what) {
  FACULA_CHECK(type == DeviceType::CPU || type == DeviceType::CUDA, DeviceError, what,
               ": autocast exists for cpu and cuda, not for ", Device(type).str());
  return type == DeviceType::CUDA;
}
uint8_t bit_of(DeviceType type) { return type == DeviceType::CPU ? 1 : type == DeviceType::CUDA ? 2 : 0; }

// Parameters are worth keeping: they are cast once and used in a whole forward pass, maybe several times.
bool worth_keeping(const Tensor& t, ScalarType target) {
  return target != kFloat && t.scalar_type() == kFloat && t.is_leaf() && t.requires_grad() && !t.is_view() &&
         (t.impl()->tracking & (kTracksBatch | kTracksTangent)) == 0;
}

}  // namespace

AutocastModes autocast_modes() {
  const ThreadState& s = thread_state();
  return {autocast_devices, {s.dtypes[0], s.dtypes[1]}, s.cache};
}

namespace {
void take_modes(const AutocastModes& modes) {
  ThreadState& s = thread_state();
  autocast_devices = modes.devices;
  s.dtypes[0] = modes.dtypes[0];
  s.dtypes[1] = modes.dtypes[1];
  s.cache = modes.cache;
}
}  // namespace

WithAutocast::WithAutocast(const AutocastModes& modes) : before_(autocast_modes()) { take_modes(modes); }
WithAutocast::~WithAutocast() { take_modes(before_); }

void AutocastCall::look(const Tensor& t) {
  if (t.defined()) seen_ |= bit_of(t.device().type());
}

void AutocastCall::choose(CastPolicy cpu, CastPolicy gpu) {
  const auto here = static_cast<uint8_t>(seen_ & before_);
  if (here == 0) return;
  const bool on_gpu = (here & 2) != 0;
  device_ = on_gpu ? DeviceType::CUDA : DeviceType::CPU;
  policy_ = on_gpu ? gpu : cpu;
  target_ = policy_ == CastPolicy::Lower || policy_ == CastPolicy::Promote ? thread_state().dtypes[on_gpu] : kFloat;
}

bool AutocastCall::eligible(const Tensor& t) const {
  if (!t.defined() || t.device().type() != device_) return false;
  const ScalarType dtype = t.scalar_type();
  return dtype == kFloat || dtype == kHalf || dtype == kBFloat16;
}

void AutocastCall::widen(const Tensor& t) {
  // Two narrow types have float as the narrowest that holds both.
  if (eligible(t) && t.scalar_type() != target_) target_ = kFloat;
}

Tensor AutocastCall::cast(const Tensor& t) const {
  if (!eligible(t) || t.scalar_type() == target_) return t;
  ThreadState& s = thread_state();
  if (!s.cache || s.nesting == 0 || !worth_keeping(t, target_)) return t.to(target_);
  const TensorImpl* impl = t.impl();
  Kept& kept = s.kept[impl];
  const bool good = kept.copy.defined() && kept.dtype == target_ && kept.storage == impl->storage.get() &&
                    kept.version == impl->version() && (kept.copy.requires_grad() || !GradMode::is_enabled());
  if (!good) kept = {t, t.to(target_), impl->storage.get(), impl->version(), target_};
  return kept.copy;
}

std::vector<Tensor> AutocastCall::operator()(TensorList list) const {
  std::vector<Tensor> all;
  all.reserve(list.size());
  for (const Tensor& t : list) all.push_back((*this)(t));
  return all;
}
std::vector<std::optional<Tensor>> AutocastCall::operator()(ArrayRef<std::optional<Tensor>> list) const {
  std::vector<std::optional<Tensor>> all;
  all.reserve(list.size());
  for (const auto& t : list) all.push_back((*this)(t));
  return all;
}

std::optional<ScalarType> AutocastCall::dtype(std::optional<ScalarType> given, const Tensor& self) const {
  if (policy_ != CastPolicy::Dtype || given || !eligible(self)) return given;
  return kFloat;
}

}  // namespace detail

namespace autocast {

using detail::thread_state;

bool is_autocast_enabled(DeviceType type) {
  return (detail::autocast_devices >> detail::index_of(type, "is_autocast_enabled") & 1) != 0;
}
void set_autocast_enabled(DeviceType type, bool enabled) {
  const auto bit = static_cast<uint8_t>(1u << detail::index_of(type, "set_autocast_enabled"));
  uint8_t& all = detail::autocast_devices;
  all = static_cast<uint8_t>(enabled ? all | bit : all & ~bit);
}
ScalarType get_autocast_dtype(DeviceType type) {
  return thread_state().dtypes[detail::index_of(type, "get_autocast_dtype")];
}
void set_autocast_dtype(DeviceType type, ScalarType dtype) {
  FACULA_CHECK(dtype == kHalf || dtype == kBFloat16 || dtype == kFloat, DTypeError,
               "set_autocast_dtype: autocast computes in float16 or bfloat16, not in ", facula::toString(dtype));
  thread_state().dtypes[detail::index_of(type, "set_autocast_dtype")] = dtype;
}
bool is_autocast_cache_enabled() { return thread_state().cache; }
void set_autocast_cache_enabled(bool enabled) { thread_state().cache = enabled; }
void clear_cache() { thread_state().kept.clear(); }
int increment_nesting() { return ++thread_state().nesting; }
int decrement_nesting() { return --thread_state().nesting; }

}  // namespace autocast

namespace amp {

autocast::autocast(DeviceType device_type, std::optional<ScalarType> dtype, bool enabled,
                   std::optional<bool> cache_enabled)
    : device_type_(device_type),
      dtype_before_(facula::autocast::get_autocast_dtype(device_type)),
      enabled_before_(facula::autocast::is_autocast_enabled(device_type)),
      cache_before_(facula::autocast::is_autocast_cache_enabled()) {
  const ScalarType target = dtype.value_or(dtype_before_);
  if (enabled && target != kHalf && target != kBFloat16) {
    warn(Warning({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                 str("autocast: the target dtype ", facula::toString(target),
                     " is not supported, only float16 and bfloat16 are; autocast stays off in this region")));
    enabled = false;
  }
  facula::autocast::set_autocast_enabled(device_type, enabled);
  if (enabled) facula::autocast::set_autocast_dtype(device_type, target);
  facula::autocast::set_autocast_cache_enabled(cache_enabled.value_or(cache_before_));
  facula::autocast::increment_nesting();
}

autocast::~autocast() {
  if (facula::autocast::decrement_nesting() == 0) facula::autocast::clear_cache();
  facula::autocast::set_autocast_enabled(device_type_, enabled_before_);
  facula::autocast::set_autocast_dtype(device_type_, dtype_before_);
  facula::autocast::set_autocast_cache_enabled(cache_before_);
}

}  // namespace amp
}  // namespace facula
