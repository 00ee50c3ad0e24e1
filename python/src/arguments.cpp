// From a Python call to a C++ call: reading signatures, matching arguments, saying what did not fit.
#include "arguments.h"

#include <facula/facula.h>

#include <cstring>
#include <string>

namespace facula::python {
namespace nb = nanobind;

namespace {

enum class Kind : uint8_t {
  Tensor,
  TensorList,
  OptionalTensorList,
  Scalar,
  Integer,
  IntegerList,
  Real,
  Boolean,
  Text,
  Dtype,
  Layout,
  Device,
  Format,
  Generator,
  Outs,
};

struct KindName {
  const char* schema;
  Kind kind;
  const char* shown;  // in messages
};
constexpr KindName kKinds[] = {
    {"Tensor", Kind::Tensor, "Tensor"},
    {"Tensor[]", Kind::TensorList, "tuple of Tensors"},
    {"Tensor?[]", Kind::OptionalTensorList, "tuple of Tensors"},
    {"Scalar", Kind::Scalar, "Number"},
    {"int", Kind::Integer, "int"},
    {"int[]", Kind::IntegerList, "tuple of ints"},
    {"float", Kind::Real, "float"},
    {"bool", Kind::Boolean, "bool"},
    {"str", Kind::Text, "str"},
    {"ScalarType", Kind::Dtype, "facula.dtype"},
    {"Layout", Kind::Layout, "facula.layout"},
    {"Device", Kind::Device, "facula.device"},
    {"MemoryFormat", Kind::Format, "facula.memory_format"},
    {"Generator", Kind::Generator, "facula.Generator"},
    {"Outs", Kind::Outs, "tuple of Tensors"},
};

struct Param {
  Kind kind;
  bool optional;  // None means that nothing was given
  bool required;
  bool written;
  size_t count;  // of the tensors of `out`, where there are several
  const char* shown;
  std::string name;
  std::string default_text;
  PyObject* interned;
};

// NumPy's names for the same arguments, which PyTorch takes too.
const char* numpy_name(std::string_view name) {
  if (name == "dim") return "axis";
  if (name == "keepdim") return "keepdims";
  if (name == "input") return "x";
  if (name == "other") return "x2";
  return nullptr;
}

}  // namespace

class Signature {
 public:
  Signature(const Overload& overload, bool method);

  // Fills `arguments`; false when the call does not fit. With `why` set, writes there what does not fit.
  bool match(Arguments& arguments, PyObject* self, PyObject* const* given, size_t count, PyObject* keywords,
             Lenient lenient, std::string* why) const;
  PyObject* call(Arguments& arguments) const { return call_(arguments); }
  std::string text() const;
  bool is_method() const;

 private:
  bool fits(const Param& param, PyObject* object, Lenient lenient) const;
  bool bind_keywords(Arguments& arguments, PyObject* const* given, size_t count, PyObject* keywords,
                     std::string* why) const;

  PyObject* (*call_)(Arguments&);
  std::vector<Param> params_;
  static constexpr size_t kNone = SIZE_MAX;

  size_t positional_ = 0;  // how many may be given without their name, with the object of a method
  size_t self_ = kNone;    // the place of the object of a method
  size_t spread_ = kNone;  // the list that `f(1, 2)` means, as if it were `f((1, 2))`
};

Signature::Signature(const Overload& overload, bool method) : call_(overload.call) {
  std::string_view text(overload.signature);
  text = text.substr(1, text.size() - 2);
  bool keyword_only = false;
  auto add = [&](std::string_view part) {
    if (part == "*") {
      keyword_only = true;
      return;
    }
    Param param{};
    const size_t space = part.find(' ');
    std::string_view type = part.substr(0, space), rest = part.substr(space + 1);
    const size_t equals = rest.find('=');
    param.required = equals == std::string_view::npos;
    param.name = std::string(rest.substr(0, equals));
    if (!param.required) param.default_text = std::string(rest.substr(equals + 1));
    // `self` may be a number in some overloads, which then are no methods.
    if (param.name == "self" && method && (type == "Tensor" || type == "Tensor!")) self_ = params_.size();
    if (param.name == "self" && !method) param.name = "input";
    if (type.ends_with('?')) {
      param.optional = true;
      type.remove_suffix(1);
    }
    param.optional |= param.default_text == "None";
    if (type.ends_with('!')) {
      param.written = true;
      type.remove_suffix(1);
    }
    if (type.starts_with("Outs")) {
      param.count = static_cast<size_t>(type.back() - '0');
      type.remove_suffix(1);
    }
    for (const KindName& k : kKinds) {
      if (type == k.schema) {
        param.kind = k.kind;
        param.shown = k.shown;
      }
    }
    FACULA_INTERNAL_CHECK(param.shown != nullptr);
    param.interned = PyUnicode_InternFromString(param.name.c_str());
    if (!param.interned) throw nb::python_error();
    params_.push_back(std::move(param));
    if (!keyword_only) ++positional_;
  };
  size_t start = 0;
  int depth = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if (c == '[' || c == '(') ++depth;
    if (c == ']' || c == ')') --depth;
    if (c == ',' && depth == 0) {
      std::string_view part = text.substr(start, i - start);
      while (part.starts_with(' ')) part.remove_prefix(1);
      if (!part.empty()) add(part);
      start = i + 1;
    }
  }
  FACULA_INTERNAL_CHECK(params_.size() <= kMostArguments);
  const size_t first = self_ == 0 ? 1 : 0;
  if (positional_ == first + 1 && params_[first].kind == Kind::IntegerList) spread_ = first;
  // Methods write into a given tensor through their in-place form only.
  if (method && params_.back().name == "out") params_.pop_back();
}

bool Signature::is_method() const { return self_ != kNone; }

bool Signature::fits(const Param& param, PyObject* object, Lenient lenient) const {
  switch (param.kind) {
    case Kind::Tensor: return is_tensor(object) || (!param.written && is_ndarray(object));
    case Kind::TensorList: return is_tensor_list(object);
    case Kind::OptionalTensorList: return is_optional_tensor_list(object);
    case Kind::Scalar: return is_number(object, lenient);
    case Kind::Integer: return is_integer(object, lenient);
    case Kind::IntegerList: return is_integer_list(object) || is_integer(object, lenient);
    case Kind::Real: return is_real(object, lenient);
    case Kind::Boolean: return is_bool(object);
    case Kind::Text: return PyUnicode_Check(object);
    case Kind::Dtype: return is_dtype(object);
    case Kind::Layout: return is_layout(object);
    case Kind::Device: return is_device(object);
    case Kind::Format: return is_memory_format(object);
    case Kind::Generator: return is_generator(object);
    case Kind::Outs: {
      if (!PyTuple_Check(object) && !PyList_Check(object)) return false;
      if (static_cast<size_t>(PySequence_Fast_GET_SIZE(object)) != param.count) return false;
      for (size_t i = 0; i < param.count; ++i)
        if (!is_tensor(PySequence_Fast_ITEMS(object)[i])) return false;
      return true;
    }
  }
  return false;
}

bool Signature::bind_keywords(Arguments& arguments, PyObject* const* given, size_t count, PyObject* keywords,
                              std::string* why) const {
  const auto keyword_count = static_cast<size_t>(PyTuple_GET_SIZE(keywords));
  for (size_t k = 0; k < keyword_count; ++k) {
    PyObject* key = PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(k));
    size_t place = params_.size();
    for (size_t i = 0; i < params_.size(); ++i)
      if (params_[i].interned == key) place = i;
    if (place == params_.size()) {
      const std::string_view name = to_text_view(key);
      for (size_t i = 0; i < params_.size(); ++i) {
        const char* other = numpy_name(params_[i].name);
        if (params_[i].name == name || (other && name == other)) place = i;
      }
      if (place == params_.size()) {
        if (why) *why = str("got an unexpected keyword argument '", name, "'");
        return false;
      }
    }
    if (arguments.slots_[place] || (arguments.spread_ && place == arguments.spread_slot_)) {
      if (why) *why = str("got multiple values for argument '", params_[place].name, "'");
      return false;
    }
    arguments.slots_[place] = given[count + k];
  }
  return true;
}

bool Signature::match(Arguments& arguments, PyObject* self, PyObject* const* given, size_t count, PyObject* keywords,
                      Lenient lenient, std::string* why) const {
  if (self) arguments.slots_[self_] = self;
  const size_t most = positional_ - (self ? 1 : 0);
  size_t given_places = 0;  // slots before this one were filled by position
  if (spread_ != kNone && count > 0 && (count > most || is_integer(given[0], Lenient::Yes))) {
    for (size_t i = 0; i < count; ++i) {
      if (is_integer(given[i], Lenient::Yes)) continue;
      if (why)
        *why = str("argument '", params_[spread_].name, "' must be tuple of ints, but found element of type ",
                   Py_TYPE(given[i])->tp_name, " at pos ", i);
      return false;
    }
    arguments.spread_ = given;
    arguments.spread_count_ = count;
    arguments.spread_slot_ = spread_;
    arguments.slots_[spread_] = Py_None;  // given, in another place
    given_places = spread_ + 1;
  } else {
    if (count > most) {
      if (why) *why = str("takes ", most, " positional argument", most == 1 ? "" : "s", " but ", count, " were given");
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      if (given_places == self_) ++given_places;
      arguments.slots_[given_places++] = given[i];
    }
  }
  if (keywords && !bind_keywords(arguments, given, count, keywords, why)) return false;
  for (size_t i = 0; i < params_.size(); ++i) {
    if (i == self_ || (arguments.spread_ && i == arguments.spread_slot_)) continue;
    const Param& param = params_[i];
    PyObject*& slot = arguments.slots_[i];
    if (slot == nullptr) {
      if (!param.required) continue;
      if (why) *why = str("missing 1 required positional argument: \"", param.name, "\"");
      return false;
    }
    if (slot == Py_None && param.optional) {
      slot = nullptr;
      continue;
    }
    if (fits(param, slot, lenient)) continue;
    if (why) {
      const size_t position = i + 1 - (self_ < i ? 1 : 0);
      *why = str("argument '", param.name, "'", i < given_places ? str(" (position ", position, ")") : std::string(),
                 " must be ", param.shown);
      if (param.count) *why += str(" of length ", param.count);
      *why += str(", not ", Py_TYPE(slot)->tp_name);
      if (PyTuple_Check(slot) || PyList_Check(slot))
        *why += str(" of length ", static_cast<int64_t>(PySequence_Fast_GET_SIZE(slot)));
    }
    return false;
  }
  return true;
}

std::string Signature::text() const {
  std::string out = "(";
  for (size_t i = 0; i < params_.size(); ++i) {
    if (i == self_) continue;
    if (out.size() > 1) out += ", ";
    if (i == positional_) out += "*, ";
    out += params_[i].shown;
    out += " " + params_[i].name;
    if (!params_[i].required) out += " = " + params_[i].default_text;
  }
  return out + ")";
}

namespace {

using Signatures = std::vector<Signature>;

Signatures* read_signatures(const OpEntry& op, bool method) {
  auto* made = new Signatures;  // lives as long as the process
  made->reserve(op.count);
  for (size_t i = 0; i < op.count; ++i) {
    made->emplace_back(op.overloads[i], method);
    if (method && !made->back().is_method()) made->pop_back();
  }
  return made;
}

[[noreturn]] void refuse(const OpEntry& op, const Signatures& all, PyObject* self, PyObject* const* given, size_t count,
                         PyObject* keywords) {
  if (all.size() == 1) {
    std::string why;
    Arguments arguments;
    all[0].match(arguments, self, given, count, keywords, Lenient::Yes, &why);
    throw TypeMismatch(str(op.name, "(): ", why));
  }
  std::string got;
  const size_t keyword_count = keywords ? static_cast<size_t>(PyTuple_GET_SIZE(keywords)) : 0;
  for (size_t i = 0; i < count + keyword_count; ++i) {
    if (i) got += ", ";
    if (i >= count) got += str(to_text_view(PyTuple_GET_ITEM(keywords, static_cast<Py_ssize_t>(i - count))), "=");
    got += Py_TYPE(given[i])->tp_name;
  }
  std::string text =
      str(op.name, "() received an invalid combination of arguments - got (", got, "), but expected one of:");
  for (const Signature& each : all) text += "\n * " + each.text();
  throw TypeMismatch(text);
}

}  // namespace

PyObject* call_op(const OpEntry& op, void*& cache, PyObject* self, PyObject* const* given, Py_ssize_t count,
                  PyObject* keywords) noexcept {
  try {
    if (!cache) [[unlikely]]
      cache = read_signatures(op, self != nullptr);
    const Signatures& all = *static_cast<const Signatures*>(cache);
    const auto n = static_cast<size_t>(count);
    // First as it stands, then with 0-dim tensors as numbers.
    for (const Lenient lenient : {Lenient::No, Lenient::Yes}) {
      for (const Signature& each : all) {
        Arguments arguments;
        if (each.match(arguments, self, given, n, keywords, lenient, nullptr)) return each.call(arguments);
      }
    }
    refuse(op, all, self, given, n, keywords);
  } catch (const IntegerTooWide& error) {
    try {
      throw ValueError(str(op.name, ": ", error.what()));
    } catch (...) {
      set_python_error();
    }
    return nullptr;
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

// Arguments.

// Whether the tape may keep the operands of the call.
bool Arguments::records() const {
  if (!GradMode::is_enabled()) return false;
  auto wanted = [](PyObject* object) { return is_tensor(object) && tensor_of(object).requires_grad(); };
  for (PyObject* slot : slots_) {
    if (!slot) continue;
    if (wanted(slot)) return true;
    if (!PyTuple_Check(slot) && !PyList_Check(slot)) continue;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(slot); ++i)
      if (wanted(PySequence_Fast_ITEMS(slot)[i])) return true;
  }
  return false;
}

// An array changes without the tape's knowledge, so what the tape may keep is a copy.
Tensor Arguments::converted_alone(PyObject* object) const {
  Tensor made = to_tensor(object);
  return records() ? made.clone() : made;
}

const Tensor& Arguments::converted(PyObject* object) {
  tensor_lists_.emplace_front(1, converted_alone(object));
  work_ += tensor_lists_.front()[0].numel();
  return tensor_lists_.front()[0];
}

void Arguments::refuse_written(PyObject* object) {
  throw TypeMismatch(str("expected a Tensor to write into, not ", Py_TYPE(object)->tp_name));
}

// Held by handles of our own: somebody may change the list while the op works.
Tensor& Arguments::written(size_t i, size_t member) {
  if (!outs_) {
    outs_ = &tensor_lists_.emplace_front();
    for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(slots_[i]); ++k) {
      PyObject* item = PySequence_Fast_ITEMS(slots_[i])[k];
      if (!is_tensor(item)) refuse_written(item);
      outs_->push_back(tensor_of(item));
    }
  }
  if (member >= outs_->size()) throw TypeMismatch("out: the tuple has too few Tensors");
  Tensor& found = (*outs_)[member];
  work_ += found.impl()->numel;
  return found;
}

std::optional<Tensor> Arguments::optional_tensor(size_t i) {
  if (!slots_[i]) return std::nullopt;
  return tensor(i);
}

TensorList Arguments::tensors(size_t i) {
  PyObject* list = slots_[i];
  std::vector<Tensor>& made = tensor_lists_.emplace_front();
  made.reserve(static_cast<size_t>(PySequence_Fast_GET_SIZE(list)));
  // The size is asked anew: taking an array may run code that changes the list.
  for (Py_ssize_t k = 0; k < PySequence_Fast_GET_SIZE(list); ++k) {
    PyObject* item = PySequence_Fast_ITEMS(list)[k];
    made.push_back(is_tensor(item) ? tensor_of(item) : converted_alone(item));
    work_ += made.back().numel();
  }
  return made;
}

ArrayRef<std::optional<Tensor>> Arguments::optional_tensors(size_t i) {
  PyObject* list = slots_[i];
  const auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(list));
  std::vector<std::optional<Tensor>>& made = optional_lists_.emplace_front();
  for (size_t k = 0; k < count; ++k) {
    PyObject* item = PySequence_Fast_ITEMS(list)[k];
    if (item == Py_None) made.emplace_back();
    else if (is_tensor(item)) made.emplace_back(tensor_of(item));
    else throw TypeMismatch(str("expected a Tensor or None, not ", Py_TYPE(item)->tp_name));
  }
  return made;
}

IntArrayRef Arguments::integers(size_t i) {
  PyObject* one = slots_[i];
  PyObject* const* items = &one;
  size_t count = 1;
  if (spread_ && i == spread_slot_) {
    items = spread_;
    count = spread_count_;
  } else if (PyTuple_Check(one) || PyList_Check(one)) {
    items = PySequence_Fast_ITEMS(one);
    count = static_cast<size_t>(PySequence_Fast_GET_SIZE(one));
  }
  int64_t* place = integers_ + integers_used_;
  if (integers_used_ + count > std::size(integers_)) {
    place = long_lists_.emplace_front(count).data();
  } else {
    integers_used_ += count;
  }
  for (size_t k = 0; k < count; ++k) place[k] = to_integer(items[k]);
  return {place, count};
}

IntArrayRef Arguments::integers(size_t i, std::initializer_list<int64_t> otherwise) {
  if (has(i)) return integers(i);
  return long_lists_.emplace_front(otherwise);
}

OptionalIntArrayRef Arguments::optional_integers(size_t i) {
  if (!has(i)) return std::nullopt;
  return integers(i);
}

std::optional<Scalar> Arguments::optional_scalar(size_t i) const {
  return has(i) ? std::optional(to_scalar(slots_[i])) : std::nullopt;
}
std::optional<int64_t> Arguments::optional_integer(size_t i) const {
  return has(i) ? std::optional(to_integer(slots_[i])) : std::nullopt;
}
std::optional<double> Arguments::optional_real(size_t i) const {
  return has(i) ? std::optional(to_real(slots_[i])) : std::nullopt;
}
std::optional<bool> Arguments::optional_boolean(size_t i) const {
  return has(i) ? std::optional(to_bool(slots_[i])) : std::nullopt;
}
std::optional<std::string_view> Arguments::optional_text(size_t i) const {
  return has(i) ? std::optional(to_text_view(slots_[i])) : std::nullopt;
}
std::optional<ScalarType> Arguments::optional_dtype(size_t i) const {
  return has(i) ? std::optional(to_dtype(slots_[i])) : std::nullopt;
}
std::optional<MemoryFormat> Arguments::optional_memory_format(size_t i) const {
  return has(i) ? std::optional(to_memory_format(slots_[i])) : std::nullopt;
}
std::optional<Generator> Arguments::optional_generator(size_t i) const {
  return has(i) ? std::optional(to_generator(slots_[i])) : std::nullopt;
}

TensorOptions Arguments::options(size_t i) const {
  TensorOptions options;
  if (slots_[i]) options = options.dtype(to_dtype(slots_[i]));
  if (slots_[i + 2]) options = options.device(to_device(slots_[i + 2]));
  if (slots_[i + 3]) options = options.pinned_memory(to_bool(slots_[i + 3]));
  if (slots_[i + 4]) options = options.requires_grad(to_bool(slots_[i + 4]));
  return options;
}

// Results.

PyObject* result(const std::vector<Tensor>& tensors) {
  PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(tensors.size()));
  if (!tuple) return nullptr;
  for (size_t i = 0; i < tensors.size(); ++i) PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), wrap(tensors[i]));
  return tuple;
}

namespace {

// One member a line, as tensors are wide.
PyObject* named_repr(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    std::string text = std::string(Py_TYPE(self)->tp_name) + "(\n";
    const PyMemberDef* member = Py_TYPE(self)->tp_members;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self); ++i) {
      const nb::object shown = checked(PyObject_Repr(PyTuple_GET_ITEM(self, i)));
      if (i) text += ",\n";
      text += str(member[i].name, "=", to_text_view(shown.ptr()));
    }
    return PyUnicode_FromString((text + ")").c_str());
  });
}

}  // namespace

PyTypeObject* type_of(NamedResult& result) {
  if (result.type) return result.type;
  std::vector<PyStructSequence_Field> described;
  for (const char* field : result.fields)
    if (field) described.push_back({field, ""});
  const int count = static_cast<int>(described.size());
  described.push_back({nullptr, nullptr});
  const auto* qualified = new std::string(str("facula.return_types.", result.name));  // the type keeps a pointer to it
  PyStructSequence_Desc desc = {qualified->c_str(), "A result with names.", described.data(), count};
  auto* made = reinterpret_cast<PyObject*>(PyStructSequence_NewType(&desc));
  if (!made) throw nb::python_error();
  static PyMethodDef repr = {"__repr__", named_repr, METH_NOARGS, nullptr};
  const nb::object method = checked(PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(made), &repr));
  if (PyObject_SetAttrString(made, "__repr__", method.ptr()) < 0) throw nb::python_error();
  result.type = reinterpret_cast<PyTypeObject*>(made);
  return result.type;
}

PyObject* named(NamedResult& type, PyObject* tuple) {
  if (!tuple) return nullptr;
  const nb::object members = nb::steal(tuple);
  PyObject* made = PyStructSequence_New(type_of(type));
  for (Py_ssize_t i = 0; made && i < PyTuple_GET_SIZE(tuple); ++i)
    PyStructSequence_SetItem(made, i, Py_NewRef(PyTuple_GET_ITEM(tuple, i)));
  return made;
}

}  // namespace facula::python
