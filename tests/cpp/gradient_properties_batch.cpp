// Batches (vmap) against loops, over the gradient cases of records: the op itself with every tensor argument batched alone
// and all at once, its in-place form, gradients of many weights at once (vmap of the backward pass), gradients and tangents
// of a batch of inputs (vmap of vjp and of jvp).
#include "cpp/gradient_properties.h"

#include "cpp/record_calls.h"
#include "cpp/record_values.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <random>
#include <sstream>

namespace facula::testing {
namespace {

using Tensors = std::vector<Tensor>;
using func::VmapOptions;

constexpr int64_t kEntries = 3;

std::vector<std::complex<double>> numbers(const Tensor& t) {
  const NoGradGuard quiet;
  const Tensor plain = t.detach().to(kComplexDouble).contiguous();
  const auto* data = reinterpret_cast<const std::complex<double>*>(plain.data_ptr());
  return {data, data + plain.numel()};
}

bool same_number(double a, double b, double tolerance, double unit) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  return a == b || std::abs(a - b) <= tolerance * (unit + std::abs(b));
}

// In words, how what a batch gave differs from what the loop gave; empty when it does not.
std::string difference(const Tensor& got, const Tensor& want, bool values) {
  if (got.sizes() != want.sizes())
    return "sizes " + to_words(got.sizes()) + ", the loop gives " + to_words(want.sizes());
  if (got.scalar_type() != want.scalar_type())
    return std::string("dtype ") + toString(got.scalar_type()) + ", the loop gives " + toString(want.scalar_type());
  if (!values) return {};
  const auto tolerance = [](ScalarType t) {
    if (!isDifferentiableType(t)) return 0.0;
    if (t == kDouble || t == kComplexDouble) return 1e-10;
    return t == kFloat || t == kComplexFloat ? 1e-4 : elementSize(t) > 1 ? 2e-2 : 0.3;
  }(want.scalar_type());
  const auto a = numbers(got), b = numbers(want);
  // Small results of narrow types may be what is left of large sums: they are rounded like the others.
  double unit = 1;
  if (elementSize(want.scalar_type()) <= 2)
    for (const auto& each : b)
      if (std::isfinite(std::abs(each))) unit = std::max(unit, std::abs(each));
  const auto same = [&](double x, double y) { return same_number(x, y, tolerance, unit); };
  for (size_t i = 0; i < a.size(); ++i) {
    if (same(a[i].real(), b[i].real()) && same(a[i].imag(), b[i].imag())) continue;
    std::ostringstream text;
    text.precision(12);
    text << a[i] << " at " << i << ", the loop gives " << b[i];
    return text.str();
  }
  return {};
}

class BatchCase {
 public:
  BatchCase(const std::string& op, const Case& one, uint64_t seed)
      : variants_(find_variants(op, one.schema)),
        flags_(one.flags),
        random_(seed ^ std::hash<std::string>{}(one.title) ^ 0x5eed),
        args_(to_boxed(one, variants_.plain())),
        tensors_(tensors_of(args_)),
        uninitialised_(op.find("empty") != std::string::npos),
        reads_(op == "narrow" || op == "tensor_split") {}

  std::vector<std::string> run() {
    if (tensors_.empty()) return {};
    try {
      if (call_plain(variants_, args_).empty()) return {};
    } catch (const Error&) {
      return {};  // the plain test complains
    }
    if (variants_.plain().kind == OpKind::Random) {
      check_random();
      return complaints_;
    }
    for (size_t k = 0; k < tensors_.size(); ++k) compare({k});
    if (tensors_.size() > 1) compare(all());
    if (variants_.function != nullptr && variants_.inplace != nullptr && std::holds_alternative<Tensor>(args_.at(0)) &&
        std::get<Tensor>(args_.at(0)).defined()) {
      in_place_ = true;
      if (takes({}, {})) {
        compare({0});
        if (tensors_.size() > 1) compare(all());
      }
      in_place_ = false;
    }
    if ((flags_ & kDifferentiable) != 0) check_derivatives();
    return complaints_;
  }

 private:
  using Places = std::vector<size_t>;

  void complain(const std::string& what, const std::string& why) {
    if (!why.empty()) complaints_.push_back(what + ": " + why);
  }
  Places all() const {
    Places places(tensors_.size());
    for (size_t k = 0; k < places.size(); ++k) places[k] = k;
    return places;
  }
  std::string name(const Places& places) const {
    std::string text = in_place_ ? "vmap in place over tensor" : "vmap over tensor";
    for (const size_t k : places) text += " " + std::to_string(k);
    return text;
  }

  // The op with other tensors at `places`.
  Results call_with(const Places& places, const Tensors& given) const {
    size_t seen = 0, next = 0;
    Arguments args = each_tensor(args_, [&](const Tensor& t) {
      if (!t.defined()) return t;
      const bool chosen = next < places.size() && places[next] == seen;
      ++seen;
      return chosen ? given.at(next++) : t;
    });
    if (!in_place_ && variants_.function != nullptr) return call(*variants_.function, args);
    auto& self = std::get<Tensor>(args.at(0));
    self = self.clone();
    return call(*variants_.inplace, args);
  }

  // A tensor like `t` that the op takes as well: the same numbers at other places, floating point ones moved a little.
  Tensor other(const Tensor& t) {
    const NoGradGuard quiet;
    std::vector<int64_t> dims;
    for (int64_t d = 0; d < t.dim(); ++d) dims.push_back(d);
    const Tensor turned = t.dim() == 0 ? t.clone() : t.flip(dims);
    return isDifferentiableType(t.scalar_type()) ? nudged(turned) : turned;
  }
  Tensor nudged(const Tensor& t) {
    std::uniform_real_distribution<double> range(-1e-3, 1e-3);
    Tensor drawn = empty(t.sizes(), kDouble);
    auto* data = drawn.data_ptr<double>();
    for (int64_t i = 0; i < drawn.numel(); ++i) data[i] = range(random_);
    return t + drawn.to(t.scalar_type());
  }
  bool takes(const Places& places, const Tensors& given) const {
    try {
      call_with(places, given);
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  // Entries for `places`: the tensors of the case and others.
  std::vector<Tensors> entries(const Places& places) {
    std::vector<Tensors> made(kEntries);
    for (const size_t k : places)
      for (int64_t i = 0; i < kEntries; ++i)
        made[static_cast<size_t>(i)].push_back(i == 1 ? other(tensors_[k]) : tensors_[k].clone().contiguous());
    for (size_t j = 0; j < places.size() && !takes(places, made[1]); ++j) made[1][j] = made[0][j].clone();
    return made;
  }
  // The batches of entries and where they are.
  Tensors batches(const std::vector<Tensors>& entries, func::InDims& dims) {
    Tensors made;
    for (size_t j = 0; j < entries[0].size(); ++j) {
      // Views depend on how entries lie in memory.
      const uint64_t choices =
          variants_.plain().kind == OpKind::View ? 1 : static_cast<uint64_t>(entries[0][j].dim() + 1);
      const auto dim = static_cast<int64_t>(random_() % choices);
      Tensors parts;
      for (const Tensors& entry : entries) parts.push_back(entry[j]);
      made.push_back(stack(parts, dim));
      dims.emplace_back(dim);
    }
    return made;
  }

  // Tensors among results; none where something else is.
  static std::optional<Tensors> only_tensors(const Results& results) {
    Tensors found;
    for (const BoxedValue& value : results) {
      const auto* t = std::get_if<Tensor>(&value);
      if (t == nullptr || !t->defined()) return std::nullopt;
      found.push_back(*t);
    }
    return found;
  }

  // `f` over batches of `entries` against `f` over each.
  void against_loop(const std::string& what, const func::Fn& f, const std::vector<Tensors>& entries) {
    std::vector<Tensors> want;
    for (const Tensors& entry : entries) want.push_back(f(entry));
    bool fits = true;
    for (const Tensors& one : want) {
      fits = fits && one.size() == want[0].size();
      for (size_t j = 0; fits && j < one.size(); ++j) fits = one[j].sizes() == want[0][j].sizes();
    }
    VmapOptions options;
    const Tensors batched = batches(entries, options.in_dims);
    try {
      const Tensors got = func::detail::vmap(f, batched, options);
      if (!fits) return complain(what, "results of different sizes must be refused");
      if (got.size() != want[0].size()) return complain(what, "another number of results than the loop");
      for (size_t j = 0; j < got.size(); ++j) {
        Tensors each;
        for (const Tensors& one : want) each.push_back(one[j]);
        const std::string why = difference(got[j], stack(each), !uninitialised_);
        if (!why.empty()) complain(what, "result " + std::to_string(j) + ": " + why);
      }
    } catch (const NotSupportedError& error) {
      if (fits && !reads_) complain(what, error.what());
    } catch (const Error& error) {
      complain(what, std::string(error.type_name()) + ": " + error.what());
    }
  }

  void compare(const Places& places) {
    // What is written to must be batched.
    if ((in_place_ || variants_.function == nullptr) && places[0] != 0) return;
    const std::vector<Tensors> each = entries(places);
    if (!only_tensors(call_with(places, each[0]))) {
      // A number for the whole batch cannot be right.
      VmapOptions options;
      const Tensors batched = batches(each, options.in_dims);
      const func::Fn f = [&](const Tensors& given) {
        call_with(places, given);
        return Tensors{given[0]};
      };
      try {
        for (const BoxedValue& value : call_with(places, each[0]))
          if (const auto* t = std::get_if<Tensor>(&value); t != nullptr && !t->defined()) return;
        func::detail::vmap(f, batched, options);
        complain(name(places), "gives something that is no tensor without refusing");
      } catch (const NotSupportedError&) {
      }
      return;
    }
    against_loop(
        name(places), [&](const Tensors& given) { return *only_tensors(call_with(places, given)); }, each);
  }

  void check_random() {
    VmapOptions options;
    const Tensors batched = batches(entries({0}), options.in_dims);
    const func::Fn f = [&](const Tensors& given) { return *only_tensors(call_with({0}, given)); };
    // Calls that draw nothing (dropout without training) are not refused.
    const auto state = default_generator().offset();
    call_plain(variants_, args_);
    const bool draws = default_generator().offset() != state;
    try {
      func::detail::vmap(f, batched, options);
      if (draws) complain("vmap", "random ops must be refused unless a randomness is chosen");
    } catch (const NotSupportedError& error) {
      if (!draws || std::string(error.what()).find("randomness") == std::string::npos) complain("vmap", error.what());
    }
    options.randomness = "different";
    try {
      const Tensors got = func::detail::vmap(f, batched, options);
      const auto want = only_tensors(call_plain(variants_, args_));
      for (size_t j = 0; want && j < got.size(); ++j)
        complain("vmap", difference(got[j].select(0, 0), (*want)[j], false));
    } catch (const Error& error) {
      complain("vmap with different randomness", error.what());
    }
  }

  // The tensors that gradients flow to, as places.
  Places moving() const {
    Places places;
    size_t wide = 0;
    for (size_t k = 0; k < tensors_.size(); ++k) {
      const ScalarType dtype = tensors_[k].scalar_type();
      if (dtype != kDouble && dtype != kComplexDouble) continue;
      if ((flags_ & (kFirstHeld << wide++)) == 0) places.push_back(k);
    }
    return places;
  }
  static Tensors differentiable(const Results& results) {
    Tensors chosen;
    for (const BoxedValue& value : results)
      if (const auto* t = std::get_if<Tensor>(&value); t != nullptr && t->defined())
        if (isDifferentiableType(t->scalar_type())) chosen.push_back(*t);
    return chosen;
  }
  Tensor weight_like(const Tensor& t) {
    std::uniform_real_distribution<double> range(-1, 1);
    Tensor drawn = empty(t.sizes(), t.is_complex() ? kComplexDouble : kDouble);
    auto* data = static_cast<double*>(drawn.data_ptr());
    for (int64_t i = 0; i < drawn.numel() * (t.is_complex() ? 2 : 1); ++i) data[i] = range(random_);
    return drawn.to(t.scalar_type());
  }

  void check_derivatives() {
    const Places places = moving();
    if (places.empty()) return;
    const func::Fn f = [&](const Tensors& given) { return differentiable(call_with(places, given)); };
    Tensors at;
    for (const size_t k : places) at.push_back(tensors_[k].clone());
    const Tensors outputs = f(at);
    if (outputs.empty()) return;
    try {
      check_weights(f, at, outputs);
      check_inputs(f, places, outputs);
    } catch (const Error& error) {
      complain("derivatives of a batch", std::string(error.type_name()) + ": " + error.what());
    }
  }

  // One backward pass for many weights of the results.
  void check_weights(const func::Fn& f, const Tensors& at, const Tensors& outputs) {
    std::vector<Tensors> weights(kEntries);
    for (Tensors& each : weights)
      for (const Tensor& y : outputs) each.push_back(weight_like(y));
    Tensors leaves;
    for (const Tensor& t : at) leaves.push_back(t.clone().requires_grad_());
    const Tensors recorded = f(leaves);
    const func::Fn backward = [&](const Tensors& given) {
      Tensors found = autograd::grad(recorded, leaves, given, true, false, true);
      for (size_t i = 0; i < found.size(); ++i)
        if (!found[i].defined()) found[i] = zeros_like(leaves[i].detach());
      return found;
    };
    for (const Tensor& y : recorded)
      if (!y.requires_grad()) return;  // the plain test complains
    against_loop("vmap over weights of backward", backward, weights);
  }

  // Gradients and tangents of a batch of inputs, by both modes.
  void check_inputs(const func::Fn& f, const Places& places, const Tensors& outputs) {
    Tensors weights, directions;
    for (const Tensor& y : outputs) weights.push_back(weight_like(y));
    for (const size_t k : places) directions.push_back(weight_like(tensors_[k]));
    const std::vector<Tensors> each = entries(places);
    against_loop(
        "vmap over vjp", [&](const Tensors& given) { return func::detail::vjp(f, given).second(weights); }, each);
    against_loop(
        "vmap over jvp", [&](const Tensors& given) { return func::detail::jvp(f, given, directions).second; }, each);
  }

  Variants variants_;
  uint32_t flags_;
  std::mt19937_64 random_;
  Arguments args_;
  Tensors tensors_;
  bool uninitialised_;
  bool reads_;  // sizes from an argument that is a tensor, which a batch cannot give
  bool in_place_ = false;
  std::vector<std::string> complaints_;
};

}  // namespace

std::vector<std::string> check_batches(const std::string& op, const Case& one, uint64_t seed) {
  return BatchCase(op, one, seed).run();
}

}  // namespace facula::testing
