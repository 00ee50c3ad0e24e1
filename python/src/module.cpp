// The native module facula._native: the types, the ops and the settings. The package's Python files give it its shape.
#include <facula/facula.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "arguments.h"
#include "autograd.h"
#include "cuda.h"
#include "errors.h"
#include "exchange.h"
#include "files.h"
#include "from_python.h"
#include "op_table.h"
#include "optim.h"
#include "references.h"
#include "tensor_object.h"
#include "value_types.h"
#include "values.h"
#include "warnings.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

void add_ops(nb::module_& module) {
  // The table belongs to the module for good.
  static std::vector<PyMethodDef> functions;
  for (const PyMethodDef* f = op_functions(); f->ml_name; ++f) functions.push_back(*f);
  functions.push_back({nullptr, nullptr, 0, nullptr});
  if (PyModule_AddFunctions(module.ptr(), functions.data()) < 0) throw nb::python_error();
  // For facula.return_types.
  module.def("_return_types", [] {
    nb::dict types;
    for (NamedResult* each : op_results()) types[each->name] = nb::borrow(reinterpret_cast<PyObject*>(type_of(*each)));
    return types;
  });
}

void add_settings(nb::module_& m) {
  m.def("get_default_dtype", [] { return nb::steal(from_dtype(get_default_dtype())); });
  m.def(
      "set_default_dtype", [](nb::handle dtype) { set_default_dtype(to_dtype(dtype.ptr())); }, nb::arg("d"));
  m.def("get_num_threads", &get_num_threads);
  m.def(
      "set_num_threads", [](int count) { set_num_threads(count); }, nb::arg("int"));
  m.def(
      "manual_seed",
      [](nb::handle seed) {
        manual_seed(to_seed(seed.ptr()));
        return default_generator();
      },
      nb::arg("seed") = nb::none());
  m.def("seed", [] { return seed(); });
  m.def("initial_seed", [] { return initial_seed(); });
  m.def("get_rng_state", [] { return default_generator().get_state(); });
  m.def(
      "set_rng_state", [](const Tensor& state) { default_generator().set_state(state); }, nb::arg("new_state"));
  m.def(
      "promote_types",
      [](nb::handle a, nb::handle b) {
        const ScalarType x = to_dtype(a.ptr()), y = to_dtype(b.ptr()), made = promoteTypes(x, y);
        FACULA_CHECK(made != ScalarType::Undefined, DTypeError, "promote_types(): ", dtype_name(x), " and ",
                     dtype_name(y), " have no common type; convert one of them first");
        return nb::steal(from_dtype(made));
      },
      nb::arg("type1"), nb::arg("type2"));
  m.def(
      "can_cast", [](nb::handle from, nb::handle to) { return canCast(to_dtype(from.ptr()), to_dtype(to.ptr())); },
      nb::arg("from_"), nb::arg("to"));
  m.def(
      "result_type",
      [](nb::handle a, nb::handle b) {
        auto is = [](nb::handle h) { return is_tensor(h.ptr()); };
        if (is(a) && is(b)) return nb::steal(from_dtype(result_type(tensor_of(a.ptr()), tensor_of(b.ptr()))));
        if (is(a)) return nb::steal(from_dtype(result_type(tensor_of(a.ptr()), to_scalar(b.ptr()))));
        if (is(b)) return nb::steal(from_dtype(result_type(to_scalar(a.ptr()), tensor_of(b.ptr()))));
        return nb::steal(from_dtype(result_type(to_scalar(a.ptr()), to_scalar(b.ptr()))));
      },
      nb::arg("tensor1"), nb::arg("tensor2"));
}

}  // namespace
}  // namespace facula::python

NB_MODULE(_native, m) {
  using namespace facula::python;
  nanobind::set_leak_warnings(false);  // dtypes and their like live as long as the process
  nanobind::register_exception_translator([](const std::exception_ptr& error, void*) {
    try {
      std::rethrow_exception(error);
    } catch (const facula::Error&) {
      set_python_error();
    }
  });
  watch_for_the_end();
  pass_on_warnings();
  add_errors(m);
  add_value_types(m);
  add_tensor_type(m);
  add_ops(m);
  add_settings(m);
  add_from_python(m);
  add_exchange(m);
  add_autograd(m);
  add_cuda(m);
  add_optim(m);
  add_amp(m);
  add_files(m);
}
