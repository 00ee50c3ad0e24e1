// The tensor: a value handle on sizes, strides and a shared storage. Methods that the op book generates are included
// into the class; what stands here by hand is what a schema cannot say.
#pragma once

#include <facula/core/array_ref.h>
#include <facula/core/device.h>
#include <facula/core/dtype.h>
#include <facula/core/error.h>
#include <facula/core/generator.h>
#include <facula/core/intrusive_ptr.h>
#include <facula/core/memory_format.h>
#include <facula/core/number_types.h>
#include <facula/core/scalar.h>
#include <facula/core/storage.h>
#include <facula/core/tensor_options.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

namespace facula {

class TensorImpl;
class Tensor;
namespace autograd {
class Node;
class HookHandle;
}  // namespace autograd
namespace cuda {
class CUDAStream;
}
using TensorList = ArrayRef<Tensor>;

namespace indexing {
class TensorIndex;
}

// Element access by index for loops written by hand: `auto a = t.accessor<float, 2>(); a[i][j]`.
template <class T, size_t N>
class TensorAccessor {
 public:
  TensorAccessor(T* data, const int64_t* sizes, const int64_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  decltype(auto) operator[](int64_t i) const {
    if constexpr (N == 1) return (data_[i * strides_[0]]);
    else return TensorAccessor<T, N - 1>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  int64_t size(size_t d) const { return sizes_[d]; }
  int64_t stride(size_t d) const { return strides_[d]; }
  T* data() const { return data_; }
  IntArrayRef sizes() const { return {sizes_, N}; }
  IntArrayRef strides() const { return {strides_, N}; }

 private:
  T* data_;
  const int64_t* sizes_;
  const int64_t* strides_;
};

class FACULA_API Tensor {
 public:
  Tensor() noexcept {}
  explicit Tensor(intrusive_ptr<TensorImpl> impl) noexcept;
  Tensor(const Tensor& other) noexcept;
  Tensor(Tensor&& other) noexcept : impl_(std::exchange(other.impl_, nullptr)) {}
  ~Tensor() {
    if (impl_) release();
  }
  Tensor& operator=(const Tensor& other) & noexcept;
  // Leaves `other` undefined; what this handle held is let go now, not when `other` dies.
  Tensor& operator=(Tensor&& other) & noexcept {
    Tensor taken(std::move(other));
    std::swap(impl_, taken.impl_);
    return *this;
  }
  // Assignment to a temporary writes through it: `x[0] = y`, `x.index({Slice(0, 2)}) = 1`.
  Tensor& operator=(const Tensor& other) &&;
  Tensor& operator=(Tensor&& other) &&;  // NOLINT: it writes through, which may fail
  Tensor& operator=(const Scalar& value) &&;

  bool defined() const noexcept { return impl_ != nullptr; }
  void reset() noexcept { *this = Tensor(); }
  bool is_same(const Tensor& other) const noexcept { return impl_ == other.impl_; }
  int64_t use_count() const noexcept;
  TensorImpl* impl() const noexcept { return impl_; }

  int64_t dim() const;
  int64_t ndimension() const { return dim(); }
  IntArrayRef sizes() const;
  IntArrayRef strides() const;
  int64_t size(int64_t dim) const;
  int64_t stride(int64_t dim) const;
  int64_t numel() const;
  int64_t storage_offset() const;
  int64_t itemsize() const;
  int64_t element_size() const { return itemsize(); }
  size_t nbytes() const;

  ScalarType scalar_type() const;
  ScalarType dtype() const { return scalar_type(); }
  Device device() const;
  int64_t get_device() const;
  Layout layout() const { return kStrided; }
  TensorOptions options() const;
  Storage storage() const;
  bool has_storage() const;
  bool is_alias_of(const Tensor& other) const;

  bool is_cpu() const;
  bool is_cuda() const;
  bool is_meta() const;
  bool is_floating_point() const { return isFloatingType(scalar_type()); }
  bool is_complex() const { return isComplexType(scalar_type()); }
  bool is_signed() const { return isSignedType(scalar_type()); }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const;
  MemoryFormat suggest_memory_format() const;
  // Raised by every in-place operation on this tensor or on a tensor that shares its storage.
  int64_t _version() const;

  void* data_ptr() const;
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const {
    check_element_type(CppTypeToScalarType<std::remove_const_t<T>>::value);
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  // Borrows the sizes, so that the tensor must live on: not for temporaries.
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() && = delete;
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const& {
    check_accessor(N);
    return TensorAccessor<T, N>(data_ptr<T>(), sizes().data(), strides().data());
  }

  Scalar item() const;
  template <class T>
  T item() const {
    return item().to<T>();
  }

  Tensor operator[](int64_t index) const;
  Tensor operator[](const Tensor& index) const;
  Tensor operator[](const Scalar& index) const;
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values);
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value);

  // Changes the sizes in place, growing the storage when it must. New elements are uninitialised.
  const Tensor& resize_(IntArrayRef sizes, std::optional<MemoryFormat> format = std::nullopt) const;
  const Tensor& resize_as_(const Tensor& other) const { return resize_(other.sizes()); }
  Tensor& set_(const Tensor& source) const;

  Tensor cpu() const;
  // On the current GPU.
  Tensor cuda() const;
  // In page-locked memory of the cpu, from which GPUs copy while the cpu goes on.
  Tensor pin_memory() const;
  bool is_pinned() const;
  // `stream` uses this tensor's memory too: it is not given to others before what is queued there now is done.
  void record_stream(const cuda::CUDAStream& stream) const;
  Tensor toType(ScalarType t) const;

  // Gradients. A leaf is a tensor that no recorded op has made; `.grad` is filled for leaves that require it, and for
  // others after `retain_grad`.
  bool requires_grad() const;
  const Tensor& set_requires_grad(bool requires_grad) const;
  const Tensor& requires_grad_(bool requires_grad = true) const { return set_requires_grad(requires_grad); }
  bool is_leaf() const;
  // The op that made this tensor; null for a leaf.
  intrusive_ptr<autograd::Node> grad_fn() const;
  int64_t output_nr() const;
  Tensor grad() const;
  Tensor& mutable_grad() const;
  void set_grad(const Tensor& grad) const;
  void retain_grad() const;
  bool retains_grad() const;
  // Adds the gradients of this tensor to the leaves that it depends on. `gradient` may be left out for one element.
  void backward(const Tensor& gradient = {}, std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                std::optional<TensorList> inputs = std::nullopt) const;
  // Called with the gradient of this tensor; a defined result takes its place.
  autograd::HookHandle register_hook(std::function<Tensor(const Tensor&)> hook) const;
  autograd::HookHandle register_hook(std::function<void(const Tensor&)> hook) const;
  template <class F>
  autograd::HookHandle register_hook(F hook) const;
  void remove_hook(autograd::HookHandle& hook) const;
  void remove_hook(unsigned number) const;  // what the handle of register_hook converts to
  // Called with this leaf after its `.grad` was written.
  autograd::HookHandle register_post_accumulate_grad_hook(std::function<void(const Tensor&)> hook) const;
  // The same elements without history.
  Tensor detach() const;
  Tensor& detach_() const;
  // As detach, and writing to it is not noticed by the tape: it counts versions of its own.
  Tensor data() const;
  Tensor variable_data() const { return data(); }
  Tensor tensor_data() const { return detach(); }
  void set_data(const Tensor& source) const;
  // Views share the memory of their base.
  bool is_view() const;
  Tensor _base() const;
  bool is_inference() const;
  // What autograd::impl::set_name gave it; empty at first.
  const std::string& name() const;
  std::string toString() const;
  void print() const;

  Tensor operator-() const;
  Tensor operator~() const;
  Tensor& operator+=(const Tensor& other);
  Tensor& operator+=(const Scalar& other);
  Tensor& operator-=(const Tensor& other);
  Tensor& operator-=(const Scalar& other);
  Tensor& operator*=(const Tensor& other);
  Tensor& operator*=(const Scalar& other);
  Tensor& operator/=(const Tensor& other);
  Tensor& operator/=(const Scalar& other);
  Tensor& operator&=(const Tensor& other);
  Tensor& operator|=(const Tensor& other);
  Tensor& operator^=(const Tensor& other);

#include <facula/generated/tensor_methods.inc>

 private:
  void release() noexcept;
  void check_element_type(ScalarType requested) const;
  void check_accessor(int64_t dims) const;

  TensorImpl* impl_ = nullptr;
};

#define FACULA_BINARY_OPERATOR(symbol)                                 \
  FACULA_API Tensor operator symbol(const Tensor& a, const Tensor& b); \
  FACULA_API Tensor operator symbol(const Tensor& a, const Scalar& b); \
  FACULA_API Tensor operator symbol(const Scalar& a, const Tensor& b);
FACULA_BINARY_OPERATOR(+)
FACULA_BINARY_OPERATOR(-)
FACULA_BINARY_OPERATOR(*)
FACULA_BINARY_OPERATOR(/)
FACULA_BINARY_OPERATOR(%)
FACULA_BINARY_OPERATOR(&)
FACULA_BINARY_OPERATOR(|)
FACULA_BINARY_OPERATOR(^)
FACULA_BINARY_OPERATOR(==)
FACULA_BINARY_OPERATOR(!=)
FACULA_BINARY_OPERATOR(<)
FACULA_BINARY_OPERATOR(<=)
FACULA_BINARY_OPERATOR(>)
FACULA_BINARY_OPERATOR(>=)
FACULA_BINARY_OPERATOR(<<)
FACULA_BINARY_OPERATOR(>>)
#undef FACULA_BINARY_OPERATOR

// Prints as libtorch prints.
FACULA_API std::ostream& operator<<(std::ostream& out, const Tensor& tensor);
FACULA_API std::ostream& print(std::ostream& out, const Tensor& tensor, int64_t line_size);
FACULA_API std::string to_text(const Tensor& tensor);

}  // namespace facula
