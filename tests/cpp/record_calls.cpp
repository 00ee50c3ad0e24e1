// Calls of an op with the arguments of a case, and with those arguments changed.
#include "cpp/record_calls.h"

#include "cpp/record_values.h"

#include <stdexcept>
#include <type_traits>

namespace facula::testing {
namespace {

MemoryFormat memory_format(const std::string& name) {
  if (name == "contiguous") return MemoryFormat::Contiguous;
  if (name == "channels_last") return MemoryFormat::ChannelsLast;
  if (name == "channels_last_3d") return MemoryFormat::ChannelsLast3d;
  if (name == "preserve") return MemoryFormat::Preserve;
  throw std::runtime_error("unknown memory format " + name);
}

// Lists are ambiguous when empty or without holes, so the type in the op book decides.
BoxedValue box_value(const CaseValue& value, std::string_view type) {
  const bool optional_list = type.starts_with("Tensor?[");
  const bool tensor_list = type.starts_with("Tensor[");
  struct Box {
    bool optional_list;
    bool tensor_list;
    BoxedValue operator()(std::monostate) const { return {}; }
    BoxedValue operator()(const CaseTensor& x) const { return make_tensor(x); }
    BoxedValue operator()(int64_t x) const { return x; }
    BoxedValue operator()(double x) const { return x; }
    BoxedValue operator()(bool x) const { return x; }
    BoxedValue operator()(std::complex<double> x) const { return Scalar(complex<double>(x.real(), x.imag())); }
    BoxedValue operator()(const std::string& x) const { return x; }
    BoxedValue operator()(const std::vector<int64_t>& x) const {
      if (x.empty() && tensor_list) return std::vector<Tensor>();
      if (x.empty() && optional_list) return std::vector<std::optional<Tensor>>();
      return x;
    }
    BoxedValue operator()(const std::vector<double>&) const {
      throw std::runtime_error("no op takes a list of floats");
    }
    BoxedValue operator()(const std::vector<bool>&) const { throw std::runtime_error("no op takes a list of bools"); }
    BoxedValue operator()(const std::vector<CaseTensor>& x) const {
      std::vector<Tensor> tensors;
      for (const CaseTensor& each : x) tensors.push_back(make_tensor(each));
      if (!optional_list) return tensors;
      return std::vector<std::optional<Tensor>>(tensors.begin(), tensors.end());
    }
    BoxedValue operator()(const std::vector<std::optional<CaseTensor>>& x) const {
      std::vector<std::optional<Tensor>> tensors;
      for (const auto& each : x) tensors.push_back(each ? std::optional<Tensor>(make_tensor(*each)) : std::nullopt);
      return tensors;
    }
    BoxedValue operator()(CaseDType x) const { return scalar_type_of_code(x.code); }
    BoxedValue operator()(const CaseDevice& x) const { return Device(x.name); }
    BoxedValue operator()(const CaseMemoryFormat& x) const { return memory_format(x.name); }
  };
  return std::visit(Box{optional_list, tensor_list}, value);
}

}  // namespace

Arguments to_boxed(const Case& one, const BoxedOp& op) {
  Arguments out;
  for (size_t i = 0; i < one.args.size(); ++i) out.push_back(box_value(one.args[i], op.args.at(i).type));
  return out;
}

Results call(const BoxedOp& op, const Arguments& args) {
  Results out;
  for (BoxedValue& value : op.call(args)) {
    if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) out.insert(out.end(), list->begin(), list->end());
    else out.push_back(std::move(value));
  }
  return out;
}

Results call_plain(const Variants& variants, const Arguments& args) {
  if (variants.function != nullptr) return call(*variants.function, args);
  Arguments copied = args;
  auto& self = std::get<Tensor>(copied.at(0));
  if (!self.is_meta()) self = overlaps_itself(self) ? contiguous_copy(self) : strided_copy(self);
  return call(*variants.inplace, copied);
}

std::vector<Tensor> tensors_of(const Arguments& args) {
  std::vector<Tensor> out;
  each_tensor(args, [&](const Tensor& tensor) {
    if (tensor.defined()) out.push_back(tensor);
    return tensor;
  });
  return out;
}

Untouched::Untouched(const Arguments& args, bool skip_first) {
  const auto tensors = tensors_of(args);
  for (size_t i = skip_first ? 1 : 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    if (t.is_cpu()) kept_.push_back({t, t.sizes().vec(), storage_bytes(t), t._version()});
  }
}

std::string Untouched::words() const {
  for (const auto& [tensor, sizes, bytes, version] : kept_) {
    if (tensor.sizes().vec() != sizes) return "an input was resized: " + describe(tensor);
    if (storage_bytes(tensor) != bytes) return "an input was changed: " + describe(tensor);
    if (tensor._version() != version) return "the version of an input was raised: " + describe(tensor);
  }
  return {};
}

Arguments all_contiguous(const Arguments& args) { return each_tensor(args, contiguous_copy); }

Tensor on_meta(const Tensor& tensor) {
  return empty_strided(tensor.sizes(), tensor.strides(),
                       TensorOptions().dtype(tensor.scalar_type()).device(Device(kMeta)));
}

Arguments on_meta(const Arguments& args) {
  return each_tensor(args, [](const Tensor& tensor) { return on_meta(tensor); });
}

}  // namespace facula::testing
