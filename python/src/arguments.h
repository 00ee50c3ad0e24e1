// From a Python call to a C++ call: picks the overload whose signature fits the arguments and hands them over one by one.
// Signatures are read from their text when an op is first called, so that importing the module costs nothing for them.
#pragma once

#include <nanobind/nanobind.h>

#include <forward_list>
#include <vector>

#include "errors.h"
#include "references.h"
#include "tensor_object.h"
#include "values.h"

namespace facula::python {

inline constexpr size_t kMostArguments = 20;

// The arguments of one call, in the order of the signature; null where the caller gave none.
class Arguments {
 public:
  bool has(size_t i) const { return slots_[i] != nullptr; }

  const Tensor& tensor(size_t i) {
    PyObject* object = slots_[i];
    if (is_tensor(object)) [[likely]] {
      const Tensor& found = tensor_of(object);
      work_ += found.impl()->numel;
      return found;
    }
    return converted(object);
  }
  // A tensor that the op writes into.
  Tensor& written(size_t i) {
    if (!is_tensor(slots_[i])) [[unlikely]]
      refuse_written(slots_[i]);
    work_ += tensor_of(slots_[i]).impl()->numel;
    return tensor_of(slots_[i]);
  }
  Tensor& written(size_t i, size_t member);  // of a tuple given as `out`
  std::optional<Tensor> optional_tensor(size_t i);
  TensorList tensors(size_t i);
  ArrayRef<std::optional<Tensor>> optional_tensors(size_t i);

  Scalar scalar(size_t i) const { return to_scalar(slots_[i]); }
  Scalar scalar(size_t i, const Scalar& otherwise) const { return slots_[i] ? to_scalar(slots_[i]) : otherwise; }
  std::optional<Scalar> optional_scalar(size_t i) const;
  int64_t integer(size_t i) const { return to_integer(slots_[i]); }
  int64_t integer(size_t i, int64_t otherwise) const { return slots_[i] ? to_integer(slots_[i]) : otherwise; }
  std::optional<int64_t> optional_integer(size_t i) const;
  double real(size_t i) const { return to_real(slots_[i]); }
  double real(size_t i, double otherwise) const { return slots_[i] ? to_real(slots_[i]) : otherwise; }
  std::optional<double> optional_real(size_t i) const;
  bool boolean(size_t i) const { return to_bool(slots_[i]); }
  bool boolean(size_t i, bool otherwise) const { return slots_[i] ? to_bool(slots_[i]) : otherwise; }
  std::optional<bool> optional_boolean(size_t i) const;
  // The list lives as long as the call.
  IntArrayRef integers(size_t i);
  IntArrayRef integers(size_t i, std::initializer_list<int64_t> otherwise);
  OptionalIntArrayRef optional_integers(size_t i);
  std::string_view text(size_t i) const { return to_text_view(slots_[i]); }
  std::string_view text(size_t i, std::string_view otherwise) const { return slots_[i] ? text(i) : otherwise; }
  std::optional<std::string_view> optional_text(size_t i) const;
  ScalarType dtype(size_t i) const { return to_dtype(slots_[i]); }
  ScalarType dtype(size_t i, ScalarType otherwise) const { return slots_[i] ? to_dtype(slots_[i]) : otherwise; }
  std::optional<ScalarType> optional_dtype(size_t i) const;
  Device device(size_t i) const { return to_device(slots_[i]); }
  MemoryFormat memory_format(size_t i) const { return to_memory_format(slots_[i]); }
  MemoryFormat memory_format(size_t i, MemoryFormat otherwise) const {
    return slots_[i] ? memory_format(i) : otherwise;
  }
  std::optional<MemoryFormat> optional_memory_format(size_t i) const;
  std::optional<Generator> optional_generator(size_t i) const;
  // Five places: dtype, layout, device, pin_memory, requires_grad.
  TensorOptions options(size_t i) const;

  // How many elements the tensors have that were handed over.
  int64_t work() const { return work_; }

 private:
  friend class Signature;
  const Tensor& converted(PyObject* object);
  Tensor converted_alone(PyObject* object) const;
  bool records() const;
  [[noreturn]] static void refuse_written(PyObject* object);

  PyObject* slots_[kMostArguments] = {};
  int64_t work_ = 0;
  // `x.view(2, 4)`: numbers that stand for one list, in place of the list's slot.
  PyObject* const* spread_ = nullptr;
  size_t spread_count_ = 0;
  size_t spread_slot_ = 0;
  int64_t integers_[24];
  size_t integers_used_ = 0;
  std::vector<Tensor>* outs_ = nullptr;  // the tensors of a tuple given as `out`
  std::forward_list<std::vector<int64_t>> long_lists_;
  std::forward_list<std::vector<Tensor>> tensor_lists_;
  std::forward_list<std::vector<std::optional<Tensor>>> optional_lists_;
};

// One overload as the generated tables hold it. `call` converts the arguments, runs the op and wraps the result.
struct Overload {
  const char* signature;  // "(Tensor self, int[]? dim, bool keepdim=False, *, ScalarType? dtype=None, Tensor out=None)"
  PyObject* (*call)(Arguments&);
};

struct OpEntry {
  const char* name;
  const Overload* overloads;
  size_t count;
};

// What a method or function of the module does: `self` is null for functions.
PyObject* call_op(const OpEntry& op, void*& cache, PyObject* self, PyObject* const* given, Py_ssize_t count,
                  PyObject* keywords) noexcept;

template <const OpEntry& op>
PyObject* op_method(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  static void* cache = nullptr;
  return call_op(op, cache, self, given, count, keywords);
}
template <const OpEntry& op>
PyObject* op_function(PyObject*, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  static void* cache = nullptr;
  return call_op(op, cache, nullptr, given, count, keywords);
}

// Lets other Python threads run while an op works. Below the limit the op is done sooner than the lock changes hands.
class Released {
 public:
  explicit Released(int64_t work) : state_(work >= 2048 ? PyEval_SaveThread() : nullptr) {}
  ~Released() {
    if (state_) return_to_python(state_);
  }
  Released(const Released&) = delete;
  Released& operator=(const Released&) = delete;

 private:
  PyThreadState* state_;
};
inline constexpr int64_t kAlwaysRelease = INT64_MAX;

// Results.
inline PyObject* result(Tensor&& tensor) { return wrap(std::move(tensor)); }
inline PyObject* result(const Tensor& tensor) { return wrap(tensor); }
PyObject* result(const std::vector<Tensor>& tensors);
inline PyObject* result(bool value) { return PyBool_FromLong(value); }
inline PyObject* result(int64_t value) { return PyLong_FromLongLong(value); }
inline PyObject* result(const Scalar& value) { return from_scalar(value); }
template <class... Ts>
PyObject* result(std::tuple<Ts...> tensors) {
  constexpr size_t kCount = sizeof...(Ts);
  PyObject* tuple = PyTuple_New(kCount);
  if (!tuple) return nullptr;
  std::apply(
      [&](auto&... each) {
        Py_ssize_t i = 0;
        (PyTuple_SET_ITEM(tuple, i++, wrap(each)), ...);
      },
      tensors);
  return tuple;
}
// A tuple whose members have names, as `x.max(0).values`. Its type is made when it is first asked for.
struct NamedResult {
  const char* name;
  const char* fields[8];  // the rest is null
  PyTypeObject* type;
};
PyTypeObject* type_of(NamedResult& result);
// Takes the tuple over.
PyObject* named(NamedResult& type, PyObject* tuple);

}  // namespace facula::python
