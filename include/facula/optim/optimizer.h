// The base of optimizers: groups of parameters with their options, what is remembered of each parameter, and both as data that
// can be saved. How a step changes a parameter is in the classes that derive from it.
//
//   optim::Adam adam(net->parameters(), optim::AdamOptions(1e-3));
//   adam.zero_grad();
//   loss(net, batch).backward();
//   adam.step();
#pragma once

#include <facula/nn/module.h>
#include <facula/nn/options.h>
#include <facula/tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

namespace facula {
namespace serialize {
class InputArchive;
class OutputArchive;
}  // namespace serialize

namespace optim {

// Is shown every field of options and states by name: from this, copies, saving and loading follow.
class FACULA_API FieldVisitor {
 public:
  virtual ~FieldVisitor() = default;
  virtual void field(const char* name, Tensor& value) = 0;
  virtual void field(const char* name, std::vector<Tensor>& value) = 0;
  virtual void field(const char* name, double& value) = 0;
  virtual void field(const char* name, int64_t& value) = 0;
  virtual void field(const char* name, bool& value) = 0;
  virtual void field(const char* name, std::tuple<double, double>& value) = 0;
  virtual void field(const char* name, std::optional<int64_t>& value) = 0;
  virtual void field(const char* name, std::optional<std::string>& value) = 0;
};

// What is remembered of one parameter between steps.
class FACULA_API OptimizerParamState {
 public:
  OptimizerParamState() = default;
  OptimizerParamState(const OptimizerParamState&) = default;
  OptimizerParamState& operator=(const OptimizerParamState&) = default;
  virtual ~OptimizerParamState();
  virtual std::unique_ptr<OptimizerParamState> clone() const = 0;
  virtual void visit_fields(FieldVisitor& visitor);
};
template <class Self>
class OptimizerCloneableParamState : public OptimizerParamState {
 public:
  std::unique_ptr<OptimizerParamState> clone() const override {
    return std::make_unique<Self>(static_cast<const Self&>(*this));
  }
};

// The options of a group of parameters.
class FACULA_API OptimizerOptions {
 public:
  OptimizerOptions() = default;
  OptimizerOptions(const OptimizerOptions&) = default;
  OptimizerOptions& operator=(const OptimizerOptions&) = default;
  virtual ~OptimizerOptions();
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual void visit_fields(FieldVisitor& visitor);
  // What schedulers set. Options without a learning rate refuse.
  virtual double get_lr() const;
  virtual void set_lr(double lr);
  // The momentum that schedulers may cycle, as SGD's `momentum` or Adam's first beta; nothing where there is none.
  virtual std::optional<double> get_momentum() const { return std::nullopt; }
  virtual void set_momentum(double momentum);

  // Where a scheduler that was made for this optimizer began.
  std::optional<double> initial_lr;
};
template <class Self>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Self>(static_cast<const Self&>(*this));
  }
  double get_lr() const override {
    if constexpr (requires(const Self& self) { self.lr(); }) return static_cast<const Self*>(this)->lr();
    else return OptimizerOptions::get_lr();
  }
  void set_lr(double lr) override {
    if constexpr (requires(Self & self) { self.lr(lr); }) static_cast<Self*>(this)->lr(lr);
    else OptimizerOptions::set_lr(lr);
  }
};

// Parameters that share their options. Without options they take the optimizer's.
class FACULA_API OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params);
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options);
  OptimizerParamGroup(const OptimizerParamGroup& other);
  OptimizerParamGroup(OptimizerParamGroup&&) noexcept;
  OptimizerParamGroup& operator=(const OptimizerParamGroup& other);
  OptimizerParamGroup& operator=(OptimizerParamGroup&&) noexcept;
  ~OptimizerParamGroup();

  bool has_options() const;
  OptimizerOptions& options();
  const OptimizerOptions& options() const;
  void set_options(std::unique_ptr<OptimizerOptions> options);
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

class FACULA_API Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;

  Optimizer(const std::vector<OptimizerParamGroup>& param_groups, std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(std::vector<Tensor> parameters, std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(const Optimizer&) = delete;
  Optimizer(Optimizer&&) noexcept;
  virtual ~Optimizer();

  // Adds a group; a parameter may be in one group only, and must be a leaf.
  void add_param_group(const OptimizerParamGroup& group);
  // To the first group.
  void add_parameters(const std::vector<Tensor>& parameters);

  // Changes the parameters by their gradients; those without a gradient stay. With a closure, which computes the loss and its
  // gradients, calls it first and gives its loss back.
  virtual Tensor step(LossClosure closure = nullptr) = 0;

  // Lets gradients go, or fills them with zeros.
  void zero_grad(bool set_to_none = true);

  // Of the first group.
  std::vector<Tensor>& parameters() noexcept;
  const std::vector<Tensor>& parameters() const noexcept;
  // How many parameters there are in all groups.
  size_t size() const noexcept;
  OptimizerOptions& defaults() noexcept;
  const OptimizerOptions& defaults() const noexcept;
  std::vector<OptimizerParamGroup>& param_groups() noexcept { return param_groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const noexcept { return param_groups_; }
  // By the address of a parameter's impl().
  using States = std::unordered_map<void*, std::unique_ptr<OptimizerParamState>>;
  States& state() noexcept { return state_; }
  const States& state() const noexcept { return state_; }

  // Everything but the parameters themselves: "state.3.exp_avg" is what is remembered of parameter 3, counted over all groups,
  // "param_groups.0.lr" an option. Numbers are tensors of no dims. Tensors share memory with the optimizer.
  nn::NamedTensors state_dict() const;
  // Takes values over. Groups, names and sizes must fit; when something does not, the error lists everything that is wrong and
  // the optimizer is as before. Tensors are copied, to the device of their parameter.
  void load_state_dict(const nn::NamedTensors& state);

  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

 protected:
  // An empty state, to be filled from a file.
  virtual std::unique_ptr<OptimizerParamState> new_state() const = 0;
  // Whether tensors of a state have the sizes of their parameter, or are numbers.
  virtual bool states_are_shaped() const { return true; }

  std::vector<OptimizerParamGroup> param_groups_;
  States state_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

}  // namespace optim
}  // namespace facula
