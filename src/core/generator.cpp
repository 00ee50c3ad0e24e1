// Random generators as users hold them. The state travels as a tensor, which src/ops/random_state.cpp makes and reads.
#include "core/generator_impl.h"

#include <facula/core/error.h>

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
  Generator copy = make_generator(g.seed());
  copy.set_offset(g.offset());
  return copy;
}

Generator make_generator(uint64_t seed) {
  return Generator(intrusive_ptr<GeneratorImpl>::adopt(new GeneratorImpl(seed)));
}

Generator default_generator() {
  static Generator* generator = new Generator(make_generator(kDefaultSeed));
  return *generator;
}
void manual_seed(uint64_t seed) { default_generator().set_current_seed(seed); }
uint64_t initial_seed() { return default_generator().current_seed(); }
uint64_t seed() { return default_generator().seed(); }

GeneratorImpl& generator_or_default(const std::optional<Generator>& generator) {
  if (generator && generator->defined()) return *generator->impl();
  static GeneratorImpl* shared = default_generator().impl();
  return *shared;
}

}  // namespace facula
