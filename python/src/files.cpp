// Files, data loading and reports for Python.
#include "files.h"

#include <facula/data/workers.h>
#include <facula/facula.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cpu/parallel.h"
#include "references.h"
#include "tensor_object.h"
#include "values.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace facula::python {
namespace nb = nanobind;
using nb::literals::operator""_a;

namespace {

nb::dict dict_of(const safetensors::Metadata& metadata) {
  nb::dict made;
  for (const auto& item : metadata)
    made[nb::str(item.key().c_str(), item.key().size())] = nb::str(item->c_str(), item->size());
  return made;
}

nb::dict dict_of(const safetensors::Tensors& tensors) {
  nb::dict made;
  for (const auto& item : tensors) made[nb::str(item.key().c_str(), item.key().size())] = nb::cast(*item);
  return made;
}

std::string text_of(nb::handle object, const char* what) {
  if (!PyUnicode_Check(object.ptr())) throw nb::type_error(str(what, " must be texts").c_str());
  return nb::cast<std::string>(object);
}

safetensors::Tensors tensors_of(const nb::dict& given) {
  safetensors::Tensors made;
  for (const auto [name, tensor] : given) {
    std::string key = text_of(name, "save_file(): names of tensors");
    if (!is_tensor(tensor.ptr()))
      throw nb::type_error(
          str("save_file(): '", key, "' is a ", Py_TYPE(tensor.ptr())->tp_name, ", not a tensor").c_str());
    made.insert(std::move(key), tensor_of(tensor.ptr()));
  }
  return made;
}

safetensors::Metadata metadata_of(const std::optional<nb::dict>& given) {
  safetensors::Metadata made;
  if (given)
    for (const auto [key, value] : *given)
      made.insert(text_of(key, "save_file(): keys of metadata"), text_of(value, "save_file(): values of metadata"));
  return made;
}

void add_safetensors(nb::module_& m) {
  nb::class_<safetensors::File>(m, "_SafetensorsFile")
      .def(nb::init<const std::string&>(), "path"_a)
      .def("keys",
           [](const safetensors::File& file) {
             nb::list names;
             for (const auto& info : file.tensors()) names.append(nb::str(info.name.c_str(), info.name.size()));
             return names;
           })
      .def("metadata", [](const safetensors::File& file) { return dict_of(file.metadata()); })
      .def(
          "info",
          [](const safetensors::File& file) {
            nb::list all;
            for (const auto& info : file.tensors())
              all.append(nb::make_tuple(nb::str(info.name.c_str(), info.name.size()), nb::steal(from_dtype(info.dtype)),
                                        nb::steal(from_sizes(info.shape)), info.begin, info.end));
            return all;
          })
      .def("tensor", &safetensors::File::tensor, "name"_a)
      .def("all", [](const safetensors::File& file) { return dict_of(file.all()); });
  m.def(
      "_safetensors_load",
      [](const nb::bytes& bytes) {
        const std::string_view view(bytes.c_str(), bytes.size());
        return dict_of(safetensors::load(view));
      },
      "data"_a);
  m.def(
      "_safetensors_metadata",
      [](const nb::bytes& bytes) {
        return dict_of(safetensors::metadata({bytes.c_str(), bytes.size()}));
      },
      "data"_a);
  m.def(
      "_safetensors_save_file",
      [](const nb::dict& tensors, const std::string& path, const std::optional<nb::dict>& metadata) {
        const safetensors::Tensors all = tensors_of(tensors);
        const safetensors::Metadata notes = metadata_of(metadata);
        without_lock([&] { safetensors::save_file(all, path, notes); });
      },
      "tensors"_a, "path"_a, "metadata"_a.none() = nb::none());
  m.def(
      "_safetensors_save",
      [](const nb::dict& tensors, const std::optional<nb::dict>& metadata) {
        const safetensors::Tensors all = tensors_of(tensors);
        const safetensors::Metadata notes = metadata_of(metadata);
        const std::string bytes = without_lock([&] { return safetensors::save(all, notes); });
        return nb::bytes(bytes.data(), bytes.size());
      },
      "tensors"_a, "metadata"_a.none() = nb::none());
}

// The random numbers of one batch, and computing alone, while a `with` block runs.
class JobContext {
 public:
  JobContext(uint64_t seed, uint64_t number, bool alone) : seed_(seed), number_(number), alone_(alone) {}
  void enter() {
    generator_ = std::make_unique<DefaultGeneratorGuard>(make_generator(data::detail::job_seed(seed_, number_)));
    if (alone_) threads_ = std::make_unique<SingleThreadGuard>();
  }
  void exit() {
    threads_.reset();
    generator_.reset();
  }

 private:
  uint64_t seed_, number_;
  bool alone_;
  std::unique_ptr<DefaultGeneratorGuard> generator_;
  std::unique_ptr<SingleThreadGuard> threads_;
};

void add_data(nb::module_& m) {
  m.def("_draw_epoch_seed", &data::detail::draw_epoch_seed);
  nb::class_<JobContext>(m, "_JobContext")
      .def(nb::init<uint64_t, uint64_t, bool>(), "seed"_a, "number"_a, "alone"_a)
      .def("__enter__", &JobContext::enter)
      .def("__exit__", [](JobContext& self, const nb::args&) { self.exit(); });
}

void add_reports(nb::module_& m) {
  m.def(
      "_progress_line",
      [](std::string label, int64_t done, int64_t total, double seconds, double rate, std::string unit,
         std::vector<std::pair<std::string, double>> values, int columns, bool utf8) {
        const ProgressState state{std::move(label), done, total, seconds, rate, std::move(unit), std::move(values)};
        return progress_line(state, columns, utf8);
      },
      "label"_a, "done"_a, "total"_a, "seconds"_a, "rate"_a, "unit"_a, "values"_a, "columns"_a, "utf8"_a);
  m.def(
      "_display_width", [](const std::string& text) { return display_width(text); }, "text"_a);

  nb::class_<LossCurve>(m, "_LossCurve")
      .def(
          "__init__",
          [](LossCurve* self, std::string title, std::string x_label, std::string y_label, int width, int height,
             bool log_y) {
            new (self)
                LossCurve(PlotOptions{std::move(title), std::move(x_label), std::move(y_label), width, height, log_y});
          },
          "title"_a, "x_label"_a, "y_label"_a, "width"_a, "height"_a, "log_y"_a)
      .def("add", &LossCurve::add, "name"_a, "x"_a, "y"_a)
      .def("save", &LossCurve::save, "path"_a)
      .def("svg", &LossCurve::svg)
      .def("png", [](const LossCurve& curve) {
        const std::string bytes = curve.png();
        return nb::bytes(bytes.data(), bytes.size());
      });

  using tensorboard::SummaryWriter;
  nb::class_<SummaryWriter>(m, "_SummaryWriter")
      .def(nb::init<const std::string&, const std::string&>(), "log_dir"_a, "filename_suffix"_a)
      .def("add_scalar", &SummaryWriter::add_scalar, "tag"_a, "value"_a, "step"_a, "wall_time"_a.none())
      .def("add_histogram", &SummaryWriter::add_histogram, "tag"_a, "values"_a, "step"_a, "wall_time"_a.none())
      .def("add_histogram_raw", &SummaryWriter::add_histogram_raw, "tag"_a, "min"_a, "max"_a, "count"_a, "sum"_a,
           "sum_squares"_a, "limits"_a, "counts"_a, "step"_a, "wall_time"_a.none())
      .def("add_text", &SummaryWriter::add_text, "tag"_a, "text"_a, "step"_a, "wall_time"_a.none())
      .def("add_image", &SummaryWriter::add_image, "tag"_a, "image"_a, "step"_a, "wall_time"_a.none())
      .def("flush", &SummaryWriter::flush)
      .def("close", &SummaryWriter::close)
      .def("path", &SummaryWriter::path);
}

}  // namespace

void add_files(nb::module_& module) {
  add_safetensors(module);
  add_data(module);
  add_reports(module);
}

}  // namespace facula::python
