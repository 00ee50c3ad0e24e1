// Tensors from a user's own values and memory: `tensor({...})`, `from_blob`, DLPack.
#pragma once

#include <facula/tensor.h>

#include <initializer_list>

struct DLManagedTensor;

namespace facula {

namespace detail {

// Nested braces of numbers, as `tensor({{1, 2}, {3, 4}})` needs them.
class FACULA_API TensorData {
 public:
  template <class T>
    requires(std::is_arithmetic_v<T> || std::is_convertible_v<T, Scalar>)
  TensorData(T value) : scalar_(Scalar(value)), dtype_(CppTypeToScalarType<T>::value) {}
  TensorData(std::initializer_list<TensorData> list);
  template <class T>
  TensorData(ArrayRef<T> values) : TensorData(values.data(), values.size(), CppTypeToScalarType<T>::value) {}
  template <class T>
  TensorData(const std::vector<T>& values) : TensorData(ArrayRef<T>(values)) {}
  TensorData(const std::vector<bool>& values);

  bool is_scalar() const { return is_scalar_; }
  const Scalar& scalar() const { return scalar_; }
  const std::vector<TensorData>& children() const { return children_; }
  ScalarType dtype() const { return dtype_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }

 private:
  TensorData(const void* values, size_t count, ScalarType dtype);

  friend struct TensorDataReader;

  Scalar scalar_;
  bool is_scalar_ = true;
  ScalarType dtype_;
  std::vector<int64_t> sizes_;
  std::vector<TensorData> children_;
  std::vector<char> bytes_;  // the values of a whole array, instead of one child for each
};

}  // namespace detail

// A new tensor that holds a copy of the values. Floating literals take the default dtype, integers become int64.
FACULA_API Tensor tensor(const detail::TensorData& data, const TensorOptions& options = {});

// A tensor over memory that the caller owns; `deleter` runs when the last tensor over it is gone.
FACULA_API Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
FACULA_API Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {});
FACULA_API Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter,
                            const TensorOptions& options = {});
FACULA_API Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides,
                            const std::function<void(void*)>& deleter, const TensorOptions& options = {});

// DLPack: share memory with another library without a copy; the structures are in <facula/dlpack.h>. The reader of what
// `toDLPack` gives calls its deleter once. `fromDLPack` takes over what it is given: its deleter runs when the last
// tensor over the memory is gone. When `fromDLPack` throws, the structure still belongs to the caller.
FACULA_API DLManagedTensor* toDLPack(const Tensor& tensor);
FACULA_API Tensor fromDLPack(DLManagedTensor* managed);

}  // namespace facula
