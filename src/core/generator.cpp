// Random generators as users hold them. The state travels as a tensor, which src/ops/random_state.cpp makes and reads.
#include "core/generator_impl.h"

#include <facula/core/error.h>

#include <atomic>
#include <random>

namespace facula {

Generator::Generator() = default;
Generator::Generator(intrusive_ptr<GeneratorImpl> impl) : impl_(std::move(impl)) {}
Generator::Generator(const Generator& other) = default;
Generator::Generator(Generator&& other) noexcept = default;
Generator& Generator::operator=(const Generator& other) = default;
Generator& Generator::operator=(Generator&& other) noexcept = default;
Generator::~Generator() = default;

namespace {
GeneratorImpl& checked(GeneratorImpl* impl) {
  FACULA_CHECK(impl, ValueError, "this Generator is undefined; create one with make_generator(seed)");
  return *impl;
}
}  // namespace

void Generator::set_current_seed(uint64_t seed) { checked(impl_.get()).set(seed, 0); }
uint64_t Generator::current_seed() const { return checked(impl_.get()).seed(); }
uint64_t Generator::seed() {
  std::random_device device;
  uint64_t fresh = (static_cast<uint64_t>(device()) << 32) | device();
  set_current_seed(fresh);
  return fresh;
}
uint64_t Generator::offset() const { return checked(impl_.get()).offset(); }
void Generator::set_offset(uint64_t offset) {
  GeneratorImpl& g = checked(impl_.get());
  g.set(g.seed(), offset);
}
Generator Generator::clone() const {
  GeneratorImpl& g = checked(impl_.get());
  Generator copy = make_generator(g.seed(), g.device());
  copy.set_offset(g.offset());
  return copy;
}

Device Generator::device() const { return impl_ ? impl_->device() : Device(kCPU); }

Generator make_generator(uint64_t seed, Device device) {
  return Generator(intrusive_ptr<GeneratorImpl>::adopt(new GeneratorImpl(seed, device)));
}

namespace {

// The default generators: the cpu's, and one for each device that was asked for.
struct Defaults {
  static constexpr int kMost = 64;
  Generator cpu = make_generator(kDefaultSeed);
  std::mutex mutex;
  uint64_t seed = kDefaultSeed;  // what a device's generator begins with
  std::atomic<GeneratorImpl*> devices[kMost] = {};

  GeneratorImpl& of(int index) {
    FACULA_CHECK(index < kMost, DeviceError, "default_generator: there is no device cuda:", index);
    GeneratorImpl* found = devices[index].load(std::memory_order_acquire);
    if (found) return *found;
    std::lock_guard lock(mutex);
    found = devices[index].load(std::memory_order_relaxed);
    if (!found) {
      found = new GeneratorImpl(seed, Device(kCUDA, static_cast<DeviceIndex>(index)));
      found->retain();
      devices[index].store(found, std::memory_order_release);
    }
    return *found;
  }
};

Defaults& defaults() {
  static Defaults* all = new Defaults;
  return *all;
}

// What DefaultGeneratorGuard put in the place of the cpu's.
thread_local GeneratorImpl* of_this_thread = nullptr;

GeneratorImpl& default_impl(Device device) {
  if (of_this_thread && !device.is_cuda()) return *of_this_thread;
  return device.is_cuda() ? defaults().of(device.has_index() ? device.index() : 0) : *defaults().cpu.impl();
}

}  // namespace

Generator default_generator(Device device) {
  return Generator(intrusive_ptr<GeneratorImpl>::borrow(&default_impl(device)));
}

DefaultGeneratorGuard::DefaultGeneratorGuard(Generator generator)
    : generator_(std::move(generator)), before_(of_this_thread) {
  FACULA_CHECK(generator_.defined() && !generator_.device().is_cuda(), ValueError,
               "DefaultGeneratorGuard: expected a generator of the cpu; create one with make_generator(seed)");
  of_this_thread = generator_.impl();
}
DefaultGeneratorGuard::~DefaultGeneratorGuard() { of_this_thread = before_; }

void manual_seed(uint64_t seed) {
  Defaults& all = defaults();
  all.cpu.set_current_seed(seed);
  std::lock_guard lock(all.mutex);
  all.seed = seed;
  for (auto& slot : all.devices)
    if (GeneratorImpl* g = slot.load(std::memory_order_relaxed)) g->set(seed, 0);
}
uint64_t initial_seed() { return default_generator().current_seed(); }
uint64_t seed() {
  const uint64_t fresh = default_generator().seed();
  manual_seed(fresh);
  return fresh;
}

GeneratorImpl& generator_or_default(const std::optional<Generator>& generator, Device device, const char* op) {
  if (!generator || !generator->defined()) return default_impl(device);
  FACULA_CHECK(generator->device().type() == device.type(), DeviceError, op, ": Expected a '",
               Device(device.type()).str(), "' device type for generator but found '", generator->device().str(),
               "'. Make one with make_generator(seed, device)");
  return *generator->impl();
}

}  // namespace facula
