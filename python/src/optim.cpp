// Steps of optimizers: one call takes a whole group of parameters with their states, which are Python's dictionaries, and
// hands them to the rules in C++.
#include "optim.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <facula/facula.h>

#include "errors.h"
#include "ops/foreach.h"
#include "optim/lbfgs_step.h"
#include "optim/rules.h"
#include "references.h"
#include "tensor_object.h"
#include "values.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

// What is remembered of one parameter: a dictionary with PyTorch's names.
class ParameterState {
 public:
  explicit ParameterState(PyObject* dict) : dict_(dict) {}
  // Undefined where there is none, or None.
  Tensor get(const char* name) const {
    PyObject* value = PyDict_GetItemString(dict_, name);
    if (!value || value == Py_None) return {};
    if (!is_tensor(value))
      throw TypeMismatch(str("optimizer state: '", name, "' must be a Tensor, not ", Py_TYPE(value)->tp_name));
    return tensor_of(value);
  }
  void set(const char* name, const Tensor& tensor) const {
    if (PyDict_SetItemString(dict_, name, checked(wrap(tensor)).ptr()) < 0) throw nb::python_error();
  }
  // The tensor under a name, which is made as zeros like the parameter where there is none.
  Tensor zeros_at(const char* name, const Tensor& param) const {
    Tensor found = get(name);
    if (found.defined()) return found;
    found = zeros_like(param.detach());
    set(name, found);
    return found;
  }
  // The count of steps: on the cpu raised at once, on the parameter's device left to the rule.
  void count(const Tensor& param, bool on_device, std::vector<double>& counts, std::vector<Tensor>& tensors) const {
    Tensor step = get("step");
    if (!step.defined()) {
      step = zeros({}, TensorOptions().dtype(kFloat).device(on_device ? param.device() : Device(kCPU)));
      set("step", step);
    }
    if (on_device) {
      tensors.push_back(step);
      return;
    }
    const NoGradGuard no_grad;
    step.add_(1);
    counts.push_back(step.item<double>());
  }

 private:
  PyObject* dict_;
};

struct Group {
  std::vector<Tensor> params, grads;
  std::vector<ParameterState> states;

  // The parameters of a list that have gradients. Their states are made where they are missing.
  Group(nb::list list, nb::dict all_states) {
    const size_t count = list.size();
    params.reserve(count);
    grads.reserve(count);
    states.reserve(count);
    for (nb::handle item : list) {
      if (!is_tensor(item.ptr()))
        throw TypeMismatch(
            str("optimizer can only optimize Tensors, but one of the params is ", Py_TYPE(item.ptr())->tp_name));
      Tensor grad = tensor_of(item.ptr()).grad();
      if (!grad.defined()) continue;
      PyObject* state = PyDict_GetItemWithError(all_states.ptr(), item.ptr());
      if (!state) {
        if (PyErr_Occurred()) throw nb::python_error();
        const nb::dict made;
        if (PyDict_SetItem(all_states.ptr(), item.ptr(), made.ptr()) < 0) throw nb::python_error();
        state = made.ptr();
      }
      if (!PyDict_Check(state)) throw TypeMismatch("optimizer state: the state of a parameter must be a dict");
      params.push_back(tensor_of(item.ptr()));
      grads.push_back(std::move(grad));
      states.emplace_back(state);
    }
  }
  std::vector<Tensor> zeros_at(const char* name) const {
    std::vector<Tensor> column;
    column.reserve(params.size());
    for (size_t i = 0; i < params.size(); ++i) column.push_back(states[i].zeros_at(name, params[i]));
    return column;
  }
};

optim::Rate to_rate(nb::handle lr) {
  if (is_tensor(lr.ptr())) return {0, tensor_of(lr.ptr())};
  return {to_real(lr.ptr()), {}};
}

void sgd(nb::list params, nb::dict states, nb::handle lr, double momentum, double dampening, double weight_decay,
         bool nesterov, bool maximize) {
  const Group group(params, states);
  const optim::SGDRule rule{to_rate(lr), momentum, dampening, weight_decay, nesterov, maximize};
  std::vector<Tensor> buffers;
  if (momentum != 0)
    for (const ParameterState& s : group.states) buffers.push_back(s.get("momentum_buffer"));
  const std::vector<Tensor> before = buffers;
  without_lock([&] { optim::sgd_step(group.params, group.grads, buffers, rule); });
  if (momentum != 0)
    for (size_t i = 0; i < buffers.size(); ++i)
      if (!before[i].is_same(buffers[i])) group.states[i].set("momentum_buffer", buffers[i]);
}

void adam(nb::list params, nb::dict states, nb::handle lr, double beta1, double beta2, double eps, double weight_decay,
          bool amsgrad, bool maximize, bool capturable, bool decoupled) {
  const Group group(params, states);
  const optim::AdamRule rule{to_rate(lr), beta1, beta2, eps, weight_decay, maximize, decoupled};
  std::vector<double> counts;
  std::vector<Tensor> device_steps;
  for (size_t i = 0; i < group.params.size(); ++i)
    group.states[i].count(group.params[i], capturable, counts, device_steps);
  const std::vector<Tensor> exp_avgs = group.zeros_at("exp_avg"), exp_avg_sqs = group.zeros_at("exp_avg_sq");
  const std::vector<Tensor> largest = amsgrad ? group.zeros_at("max_exp_avg_sq") : std::vector<Tensor>();
  without_lock([&] {
    optim::adam_step(group.params, group.grads, exp_avgs, exp_avg_sqs, largest, {counts, device_steps}, rule);
  });
}

void rmsprop(nb::list params, nb::dict states, nb::handle lr, double alpha, double eps, double weight_decay,
             double momentum, bool centered, bool maximize, bool capturable) {
  const Group group(params, states);
  const optim::RMSpropRule rule{to_rate(lr), alpha, eps, weight_decay, momentum, maximize};
  std::vector<double> counts;
  std::vector<Tensor> device_steps;
  for (size_t i = 0; i < group.params.size(); ++i)
    group.states[i].count(group.params[i], capturable, counts, device_steps);
  const std::vector<Tensor> squares = group.zeros_at("square_avg");
  const std::vector<Tensor> buffers = momentum > 0 ? group.zeros_at("momentum_buffer") : std::vector<Tensor>();
  const std::vector<Tensor> means = centered ? group.zeros_at("grad_avg") : std::vector<Tensor>();
  without_lock([&] {
    optim::count_up(device_steps);
    optim::rmsprop_step(group.params, group.grads, squares, means, buffers, rule);
  });
}

void adagrad(nb::list params, nb::dict states, nb::handle lr, double lr_decay, double eps, double weight_decay,
             bool maximize) {
  const Group group(params, states);
  const optim::AdagradRule rule{to_rate(lr), lr_decay, eps, weight_decay, maximize};
  std::vector<double> counts;
  std::vector<Tensor> none;
  for (size_t i = 0; i < group.params.size(); ++i) group.states[i].count(group.params[i], false, counts, none);
  const std::vector<Tensor> sums = group.zeros_at("sum");
  without_lock([&] { optim::adagrad_step(group.params, group.grads, sums, {counts, {}}, rule); });
}

// Reads the state of the first parameter from its dictionary, runs a step, and writes it back.
class LBFGSDictionary final : public optim::FieldVisitor {
 public:
  LBFGSDictionary(nb::dict dict, bool writes) : dict_(dict), writes_(writes) {}
  void field(const char* name, Tensor& value) override {
    if (writes_) dict_[name] = nb::steal(wrap(value));
    else if (dict_.contains(name) && is_tensor(nb::object(dict_[name]).ptr())) value = nb::cast<Tensor>(dict_[name]);
    else if (dict_.contains(name) && !nb::object(dict_[name]).is_none())
      value = scalar_tensor(nb::cast<double>(dict_[name]), kFloat);  // H_diag may be a number
  }
  void field(const char* name, std::vector<Tensor>& value) override { both(name, value); }
  void field(const char* name, double& value) override {
    if (!writes_ && dict_.contains(name)) value = to_real(nb::object(dict_[name]).ptr());
    else if (writes_) dict_[name] = value;
  }
  void field(const char* name, int64_t& value) override { both(name, value); }
  void field(const char* name, bool& value) override { both(name, value); }
  void field(const char*, std::tuple<double, double>&) override {}
  void field(const char*, std::optional<int64_t>&) override {}
  void field(const char*, std::optional<std::string>&) override {}

 private:
  template <class T>
  void both(const char* name, T& value) {
    if (writes_) dict_[name] = value;
    else if (dict_.contains(name)) value = nb::cast<T>(dict_[name]);
  }
  nb::dict dict_;
  bool writes_;
};

nb::object lbfgs(nb::list params, nb::dict state, double lr, int64_t max_iter, int64_t max_eval, double tolerance_grad,
                 double tolerance_change, int64_t history_size, std::optional<std::string> line_search_fn,
                 nb::callable closure) {
  const auto options = optim::LBFGSOptions(lr)
                           .max_iter(max_iter)
                           .max_eval(max_eval)
                           .tolerance_grad(tolerance_grad)
                           .tolerance_change(tolerance_change)
                           .history_size(history_size)
                           .line_search_fn(line_search_fn);
  optim::LBFGSParamState native;
  LBFGSDictionary reader(state, false), writer(state, true);
  native.visit_fields(reader);
  const std::vector<Tensor> tensors = tensors_from(params.ptr(), "params");
  nb::object first;  // the closure may give a number instead of a tensor
  optim::lbfgs_step(tensors, options, native, [&] {
    nb::object loss = closure();
    if (!first.is_valid()) first = loss;
    return is_tensor(loss.ptr()) ? tensor_of(loss.ptr()).detach() : scalar_tensor(to_real(loss.ptr()), kDouble);
  });
  native.visit_fields(writer);
  return first;
}

}  // namespace

void add_optim(nb::module_& module) {
  nb::module_ m = module.def_submodule("_optim");
  m.def("sgd", &sgd);
  m.def("adam", &adam);
  m.def("rmsprop", &rmsprop);
  m.def("adagrad", &adagrad);
  m.def("lbfgs", &lbfgs, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg().none(), nb::arg());
  m.def("zero_grad", [](nb::list params, bool set_to_none) {
    const NoGradGuard no_grad;
    for (const Tensor& p : tensors_from(params.ptr(), "params")) {
      if (set_to_none) {
        p.set_grad(Tensor());
      } else if (Tensor grad = p.grad(); grad.defined()) {
        grad.detach_();
        grad.zero_();
      }
    }
  });
  // The norm of all tensors together; all tensors times one number; the same while looking for infinities and NaN.
  m.def("norm", [](nb::list tensors, double ord) {
    const std::vector<Tensor> list = tensors_from(tensors.ptr(), "tensors");
    return without_lock([&] { return foreach_norm(list, ord, "clip_grad_norm_"); });
  });
  m.def("scale_", [](nb::list tensors, const Tensor& factor) {
    const std::vector<Tensor> list = tensors_from(tensors.ptr(), "tensors");
    without_lock([&] { foreach_scale_(list, factor, "clip_grad_norm_"); });
  });
  m.def("unscale_", [](nb::list tensors, const Tensor& found_inf, const Tensor& factor) {
    const std::vector<Tensor> list = tensors_from(tensors.ptr(), "tensors");
    without_lock([&] { foreach_unscale_(list, found_inf, factor, "GradScaler"); });
  });
}

}  // namespace facula::python
