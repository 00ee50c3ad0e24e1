// Autocast and the numbers of gradient scaling for Python.
#include <facula/amp.h>

#include "optim.h"
#include "tensor_object.h"
#include "value_types.h"
#include "values.h"

namespace facula::python {
namespace nb = nanobind;

void add_amp(nb::module_& module) {
  nb::module_ m = module.def_submodule("_amp");
  const auto kind = [](nb::handle device) { return to_device(device.ptr()).type(); };
  m.def("is_enabled", [kind](nb::handle device) { return autocast::is_autocast_enabled(kind(device)); });
  m.def("set_enabled",
        [kind](nb::handle device, bool enabled) { autocast::set_autocast_enabled(kind(device), enabled); });
  m.def("get_dtype",
        [kind](nb::handle device) { return nb::steal(from_dtype(autocast::get_autocast_dtype(kind(device)))); });
  m.def("set_dtype", [kind](nb::handle device, nb::handle dtype) {
    autocast::set_autocast_dtype(kind(device), to_dtype(dtype.ptr()));
  });
  m.def("is_cache_enabled", &autocast::is_autocast_cache_enabled);
  m.def("set_cache_enabled", &autocast::set_autocast_cache_enabled);
  m.def("clear_cache", &autocast::clear_cache);
  m.def("increment_nesting", &autocast::increment_nesting);
  m.def("decrement_nesting", &autocast::decrement_nesting);
  m.def("update_scale_", [](Tensor scale, Tensor growth_tracker, const Tensor& found_inf, double growth_factor,
                            double backoff_factor, int64_t growth_interval) {
    amp::update_scale_(scale, growth_tracker, found_inf, growth_factor, backoff_factor, growth_interval);
  });
}

}  // namespace facula::python
