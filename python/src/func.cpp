// Functions of functions, forward mode, gradient checks and checkpoints: C++ code that calls back into Python.
#include <facula/autograd/checkpoint.h>
#include <facula/autograd/forward.h>
#include <facula/autograd/gradcheck.h>
#include <facula/facula.h>
#include <facula/func.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <vector>

#include "autograd_nodes.h"
#include "errors.h"
#include "tensor_object.h"

namespace facula::python {
namespace nb = nanobind;
using autograd::DualLevel;
using autograd::variable_list;
using func::Fn;

namespace {

// A Python function that takes tensors and gives a tuple or list of them, as a C++ function for any thread.
Fn as_function(nb::handle callable) {
  auto held = std::make_shared<Held>(callable.ptr());
  return [held](const variable_list& tensors) {
    const Locked lock;
    const nb::object args = checked(tuple_of(tensors));
    const nb::object result = checked(PyObject_Call(held->get(), args.ptr(), nullptr));
    return tensors_or_one(result.ptr(), "the results of the function");
  };
}

nb::object as_tuple(const variable_list& tensors) { return checked(tuple_of(tensors)); }

// The levels of forward mode that Python has opened in this thread, outermost first.
std::vector<std::unique_ptr<DualLevel>>& dual_levels() {
  thread_local std::vector<std::unique_ptr<DualLevel>> levels;
  return levels;
}

int64_t enter_dual_level() {
  dual_levels().push_back(std::make_unique<DualLevel>());
  return static_cast<int64_t>(dual_levels().size()) - 1;
}
void exit_dual_level(int64_t level) {
  FACULA_CHECK(level >= 0 && level == static_cast<int64_t>(dual_levels().size()) - 1, Error,
               "Trying to exit a forward AD level that was not the last one that was created: level ", level, " of ",
               dual_levels().size(), "; leave them in the reverse of the order in which they were entered");
  dual_levels().pop_back();
}
const DualLevel& dual_level(int64_t level) {
  FACULA_CHECK(level >= 0 && level < static_cast<int64_t>(dual_levels().size()), Error,
               "Trying to use forward AD outside of a dual level; there are ", dual_levels().size(),
               " of them now. Compute inside of `with forward_ad.dual_level():`");
  return *dual_levels()[static_cast<size_t>(level)];
}

nb::object run_jvp(nb::handle f, nb::handle args, nb::handle tangents) {
  const variable_list primals = tensors_from(args.ptr(), "jvp: primals"),
                      directions = tensors_from(tangents.ptr(), "jvp: tangents");
  FACULA_CHECK(primals.size() == directions.size(), ValueError, "jvp: ", directions.size(), " tangents for ",
               primals.size(), " primals; give one for each");
  struct Level {
    int64_t number = enter_dual_level();
    ~Level() { dual_levels().resize(static_cast<size_t>(number)); }
  };
  const Level level;
  variable_list duals;
  for (size_t i = 0; i < primals.size(); ++i)
    duals.push_back(dual_level(level.number).make_dual(primals[i], directions[i]));
  variable_list values = as_function(f)(duals), derivatives;
  for (Tensor& value : values) {
    auto [primal, tangent] = dual_level(level.number).unpack_dual(value);
    derivatives.push_back(tangent.defined() ? tangent : zeros_like(primal));
    value = primal;
  }
  return nb::make_tuple(as_tuple(values), as_tuple(derivatives));
}

nb::object run_vjp(nb::handle f, nb::handle args) {
  const variable_list primals = tensors_from(args.ptr(), "vjp: primals");
  auto [results, pull] = func::detail::vjp(as_function(f), primals);
  const nb::object pullback = nb::cpp_function([pull = std::move(pull)](nb::handle grads) {
    const variable_list given = tensors_from(grads.ptr(), "vjp: cotangents");
    return as_tuple(run_engine([&] { return pull(given); }));
  });
  return nb::make_tuple(as_tuple(results), pullback);
}

// The batch goes to the front of every result.
nb::object run_vmap(nb::handle f, nb::handle args, std::vector<std::optional<int64_t>> in_dims,
                    const std::string& randomness) {
  const variable_list tensors = tensors_from(args.ptr(), "vmap: arguments");
  return as_tuple(func::detail::vmap(as_function(f), tensors,
                                     func::VmapOptions{.in_dims = std::move(in_dims), .randomness = randomness}));
}

// The number of the vmap that a tensor is a batch of; 0 for others. Inner ones have larger numbers.
uint32_t batch_level(const Tensor& t) {
  const autograd::Tape* tape = autograd::tape_of(t);
  return tape && tape->batch ? tape->batch->level : 0;
}

autograd::GradcheckOptions gradcheck_options(const nb::dict& given) {
  autograd::GradcheckOptions options;
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    const auto number = [&](double& to) { to = nb::cast<double>(value); };
    const auto truth = [&](bool& to) { to = nb::cast<bool>(value); };
    if (name == "eps") number(options.eps);
    else if (name == "atol") number(options.atol);
    else if (name == "rtol") number(options.rtol);
    else if (name == "raise_exception") truth(options.raise_exception);
    else if (name == "nondet_tol") number(options.nondet_tol);
    else if (name == "check_undefined_grad") truth(options.check_undefined_grad);
    else if (name == "check_grad_dtypes") truth(options.check_grad_dtypes);
    else if (name == "check_forward_ad") truth(options.check_forward_ad);
    else if (name == "check_backward_ad") truth(options.check_backward_ad);
    else if (name == "check_batched_grad") truth(options.check_batched_grad);
    else if (name == "check_fwd_over_rev") truth(options.check_fwd_over_rev);
    else if (name == "check_rev_over_rev") truth(options.check_rev_over_rev);
    else if (name == "gen_non_contig_grad_outputs") truth(options.gen_non_contig_grad_outputs);
    else if (name == "fast_mode") truth(options.fast_mode);
    else throw TypeMismatch(str("gradcheck() got an unexpected keyword argument '", name, "'"));
  }
  return options;
}

}  // namespace

void add_func(nb::module_& module) {
  module.def("_vjp", run_vjp);
  module.def("_jvp", run_jvp);
  module.def("_vmap", run_vmap);
  module.def("_batch_level", batch_level);
  module.def("_enter_dual_level", enter_dual_level);
  module.def("_exit_dual_level", exit_dual_level);
  module.def("_dual_levels", [] { return static_cast<int64_t>(dual_levels().size()); });
  module.def("_make_dual", [](const Tensor& primal, const Tensor& tangent, int64_t level) {
    return dual_level(level).make_dual(primal, tangent);
  });
  module.def("_unpack_dual", [](const Tensor& dual, int64_t level) {
    const auto [primal, tangent] = dual_level(level).unpack_dual(dual);
    return as_tuple({primal, tangent});
  });
  module.def("_gradcheck", [](nb::handle f, nb::handle inputs, const nb::dict& options) {
    const variable_list tensors = tensors_from(inputs.ptr(), "gradcheck: inputs");
    const autograd::GradcheckOptions all = gradcheck_options(options);
    const Fn fn = as_function(f);
    return without_lock([&] { return autograd::gradcheck(fn, tensors, all); });
  });
  module.def("_gradgradcheck", [](nb::handle f, nb::handle inputs, nb::handle grads, const nb::dict& options) {
    const variable_list tensors = tensors_from(inputs.ptr(), "gradgradcheck: inputs"),
                        outputs = tensors_from(grads.ptr(), "gradgradcheck: grad_outputs");
    const autograd::GradcheckOptions all = gradcheck_options(options);
    const Fn fn = as_function(f);
    return without_lock([&] { return autograd::gradgradcheck(fn, tensors, outputs, all); });
  });
  module.def("_checkpoint", [](nb::handle f, nb::handle inputs, bool preserve_rng_state) {
    const variable_list tensors = tensors_from(inputs.ptr(), "checkpoint: arguments");
    const Fn fn = as_function(f);
    return as_tuple(without_lock([&] { return autograd::checkpoint(fn, tensors, preserve_rng_state); }));
  });
}

}  // namespace facula::python
