// What optimizers have in common: groups, states, state dicts, files.
#include <facula/tensors.h>
#include <facula/optim/optimizer.h>
#include <facula/serialize.h>

#include "optim/fields.h"

#include <algorithm>
#include <unordered_set>

namespace facula::optim {

OptimizerParamState::~OptimizerParamState() = default;
void OptimizerParamState::visit_fields(FieldVisitor&) {}

OptimizerOptions::~OptimizerOptions() = default;
void OptimizerOptions::visit_fields(FieldVisitor&) {}
double OptimizerOptions::get_lr() const {
  throw NotSupportedError("OptimizerOptions::get_lr: these options have no learning rate; override get_lr and set_lr");
}
void OptimizerOptions::set_lr(double) {
  throw NotSupportedError("OptimizerOptions::set_lr: these options have no learning rate; override get_lr and set_lr");
}
void OptimizerOptions::set_momentum(double) {
  throw NotSupportedError("OptimizerOptions::set_momentum: these options have no momentum");
}

OptimizerParamGroup::OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
OptimizerParamGroup::OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
    : params_(std::move(params)), options_(std::move(options)) {}
OptimizerParamGroup::OptimizerParamGroup(const OptimizerParamGroup& other)
    : params_(other.params_), options_(other.has_options() ? other.options_->clone() : nullptr) {}
OptimizerParamGroup::OptimizerParamGroup(OptimizerParamGroup&&) noexcept = default;
OptimizerParamGroup& OptimizerParamGroup::operator=(const OptimizerParamGroup& other) {
  return *this = OptimizerParamGroup(other);
}
OptimizerParamGroup& OptimizerParamGroup::operator=(OptimizerParamGroup&&) noexcept = default;
OptimizerParamGroup::~OptimizerParamGroup() = default;
bool OptimizerParamGroup::has_options() const { return options_ != nullptr; }
void OptimizerParamGroup::set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
OptimizerOptions& OptimizerParamGroup::options() {
  FACULA_CHECK(options_ != nullptr, ValueError,
               "OptimizerParamGroup: this group has no options yet; it gets the defaults when an optimizer takes it");
  return *options_;
}
const OptimizerOptions& OptimizerParamGroup::options() const {
  return const_cast<OptimizerParamGroup*>(this)->options();
}

Optimizer::Optimizer(const std::vector<OptimizerParamGroup>& param_groups, std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  FACULA_CHECK(!param_groups.empty(), ValueError, "Optimizer: got an empty list of parameter groups");
  for (const OptimizerParamGroup& group : param_groups) add_param_group(group);
}
Optimizer::Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults)
    : Optimizer(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(parameters))}, std::move(defaults)) {}
Optimizer::Optimizer(Optimizer&&) noexcept = default;
OptimizerOptions& Optimizer::defaults() noexcept { return *defaults_; }
const OptimizerOptions& Optimizer::defaults() const noexcept { return *defaults_; }
Optimizer::~Optimizer() = default;

namespace {

// Refuses what cannot be optimized, and what is there already.
void check_parameters(const std::vector<Tensor>& fresh, const std::vector<OptimizerParamGroup>& groups) {
  std::unordered_set<const void*> seen;
  for (const OptimizerParamGroup& group : groups)
    for (const Tensor& p : group.params()) seen.insert(p.impl());
  for (const Tensor& p : fresh) {
    FACULA_CHECK(p.defined(), ValueError, "Optimizer: a parameter is undefined");
    FACULA_CHECK(p.is_leaf(), ValueError, "Optimizer: can't optimize a non-leaf Tensor of sizes ", to_text(p.sizes()),
                 "; give the parameter itself, or detach() what was computed");
    FACULA_CHECK(
        seen.insert(p.impl()).second, ValueError,
        "Optimizer: some parameters appear in more than one parameter group, or twice in one: a tensor of sizes ",
        to_text(p.sizes()));
  }
}

}  // namespace

void Optimizer::add_param_group(const OptimizerParamGroup& group) {
  check_parameters(group.params(), param_groups_);
  OptimizerParamGroup added(group);
  if (!added.has_options()) added.set_options(defaults_->clone());
  param_groups_.push_back(std::move(added));
}

void Optimizer::add_parameters(const std::vector<Tensor>& parameters) {
  check_parameters(parameters, param_groups_);
  auto& own = param_groups_[0].params();
  own.insert(own.end(), parameters.begin(), parameters.end());
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const OptimizerParamGroup& group : param_groups_)
    for (const Tensor& p : group.params()) {
      if (set_to_none) {
        p.set_grad(Tensor());
      } else if (Tensor grad = p.grad(); grad.defined()) {
        grad = grad.detach();
        grad.zero_();
        p.set_grad(grad);
      }
    }
}

std::vector<Tensor>& Optimizer::parameters() noexcept { return param_groups_[0].params(); }
const std::vector<Tensor>& Optimizer::parameters() const noexcept { return param_groups_[0].params(); }

size_t Optimizer::size() const noexcept {
  size_t count = 0;
  for (const OptimizerParamGroup& group : param_groups_) count += group.params().size();
  return count;
}

nn::NamedTensors Optimizer::state_dict() const {
  nn::NamedTensors state;
  size_t index = 0;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const OptimizerParamGroup& group = param_groups_[g];
    const std::string prefix = str("param_groups.", g, ".");
    const auto first = static_cast<int64_t>(index);
    for (const Tensor& p : group.params()) {
      const auto found = state_.find(p.impl());
      if (found != state_.end()) {
        FieldWriter writer(state, str("state.", index, "."));
        found->second->visit_fields(writer);
      }
      ++index;
    }
    FieldWriter writer(state, prefix);
    const_cast<OptimizerOptions&>(group.options()).visit_fields(writer);
    if (group.options().initial_lr)
      state.insert(prefix + "initial_lr", scalar_tensor(*group.options().initial_lr, kDouble));
    state.insert(prefix + "params", arange(first, static_cast<int64_t>(index), kLong));
  }
  return state;
}

void Optimizer::load_state_dict(const nn::NamedTensors& given) {
  std::vector<std::string> problems;
  std::vector<std::unique_ptr<OptimizerOptions>> options;
  States states;
  size_t index = 0;
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    const OptimizerParamGroup& group = param_groups_[g];
    const std::string prefix = str("param_groups.", g, ".");
    auto& own = options.emplace_back(group.options().clone());
    FieldReader reader(given, prefix, kCPU, problems);
    own->visit_fields(reader);
    const Tensor* first_rate = given.find(prefix + "initial_lr");
    own->initial_lr = first_rate ? std::optional(first_rate->item<double>()) : std::nullopt;
    const Tensor* members = given.find(prefix + "params");
    if (members && members->numel() != static_cast<int64_t>(group.params().size()))
      problems.push_back(str("wrong size: parameter group ", g, " has ", group.params().size(),
                             " parameters, the state ", members->numel()));
    for (const Tensor& p : group.params()) {
      const std::string own_prefix = str("state.", index++, ".");
      const bool known =
          std::any_of(given.begin(), given.end(), [&](const auto& item) { return item.key().starts_with(own_prefix); });
      if (!known) continue;
      for (const auto& item : given)
        if (states_are_shaped() && item.key().starts_with(own_prefix) && item->dim() > 0 && item->sizes() != p.sizes())
          problems.push_back(
              str("wrong size: ", item.key(), " has ", to_text(item->sizes()), ", its parameter ", to_text(p.sizes())));
      auto& state = states[p.impl()];
      state = new_state();
      FieldReader state_reader(given, own_prefix, p.device(), problems);
      state->visit_fields(state_reader);
    }
  }
  if (given.contains(str("param_groups.", param_groups_.size(), ".params")))
    problems.push_back(str("the state has more parameter groups than the optimizer, which has ", param_groups_.size()));
  if (!problems.empty()) {
    std::string text = "load_state_dict: the state does not fit this optimizer, which is as before:";
    for (const std::string& problem : problems) text += str("\n  ", problem);
    throw ValueError(text);
  }
  for (size_t g = 0; g < options.size(); ++g) param_groups_[g].set_options(std::move(options[g]));
  state_ = std::move(states);
}

void Optimizer::save(serialize::OutputArchive& archive) const {
  for (const auto& item : state_dict()) archive.write(item.key(), *item);
}

void Optimizer::load(serialize::InputArchive& archive) { load_state_dict(archive.tensors()); }

}  // namespace facula::optim
