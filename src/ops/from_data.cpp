// Tensors from a user's own values and memory: tensor({...}), from_blob, and the exchange of memory by DLPack.
#include "ops/shape_checks.h"
#include "core/lent_memory.h"
#include "gpu/runtime.h"
#include "ops/transfer.h"

#include <facula/dlpack.h>
#include <facula/from_data.h>

#include <algorithm>
#include <cstring>
#include <memory>

namespace facula {

// ---- tensor({...})

namespace detail {

TensorData::TensorData(std::initializer_list<TensorData> list)
    : is_scalar_(false), dtype_(get_default_dtype()), sizes_{static_cast<int64_t>(list.size())} {
  if (list.size() == 0) return;
  const TensorData& first = *list.begin();
  dtype_ = first.dtype_;
  for (const TensorData& child : list) {
    FACULA_CHECK(child.sizes_ == first.sizes_, ShapeError,
                 "tensor: Expected all sub-lists to have sizes: ", to_text(IntArrayRef(first.sizes_)),
                 " (e.g. the first one), but got sub-list with sizes: ", to_text(IntArrayRef(child.sizes_)));
    FACULA_CHECK(child.dtype_ == dtype_, DTypeError,
                 "tensor: Expected all elements of the tensor to have the same scalar type: ", toString(dtype_),
                 ", but got element of scalar type: ", toString(child.dtype_));
  }
  sizes_.insert(sizes_.end(), first.sizes_.begin(), first.sizes_.end());
  children_.assign(list.begin(), list.end());
}

TensorData::TensorData(const std::vector<bool>& values)
    : is_scalar_(false), dtype_(kBool), sizes_{static_cast<int64_t>(values.size())} {
  bytes_.assign(values.begin(), values.end());
}

TensorData::TensorData(const void* values, size_t count, ScalarType dtype)
    : is_scalar_(false), dtype_(dtype), sizes_{static_cast<int64_t>(count)} {
  const char* bytes = static_cast<const char*>(values);
  if (count > 0) bytes_.assign(bytes, bytes + count * elementSize(dtype));
}

// Writes the numbers of a nested list, in order, as elements of its dtype.
struct TensorDataReader {
  char* out;

  void read(const TensorData& data) {
    if (data.is_scalar_) {
      size_t size = elementSize(data.dtype_);
      alignas(16) char element[16];
      const Scalar& s = data.scalar_;
      switch (data.dtype_) {
#define FACULA_CASE(cpp, name, text)     \
  case ScalarType::name: {               \
    cpp v = s.to<cpp>();                 \
    std::memcpy(element, &v, sizeof(v)); \
    break;                               \
  }
        FACULA_FORALL_SCALAR_TYPES(FACULA_CASE)
#undef FACULA_CASE
        default: throw DTypeError("tensor: the dtype of the values is undefined");
      }
      std::memcpy(out, element, size);
      out += size;
    } else if (!data.bytes_.empty()) {
      std::memcpy(out, data.bytes_.data(), data.bytes_.size());
      out += data.bytes_.size();
    } else {
      for (const TensorData& child : data.children_) read(child);
    }
  }
};

}  // namespace detail

Tensor tensor(const detail::TensorData& data, const TensorOptions& options) {
  // Literals of C++ come as int and double: what they stand for is the library's integer and default float.
  ScalarType natural = data.dtype();
  if (natural == kInt || natural == kLong) natural = kLong;
  if (natural == kFloat || natural == kDouble) natural = get_default_dtype();
  ScalarType dtype = options.dtype_opt().value_or(natural);
  Device device = plain_device(options.device(), "tensor");
  if (device.is_meta()) return new_tensor(data.sizes(), dtype, device, "tensor");
  Tensor given = new_tensor(data.sizes(), data.dtype(), kCPU, "tensor");
  if (given.impl()->numel > 0) detail::TensorDataReader{given.impl()->data()}.read(data);
  return with_requires_grad(carried_to(device, as_dtype(given, dtype)), options);
}

// ---- from_blob

namespace {

// Runs the deleter of memory that never became a tensor's.
class Guard {
 public:
  Guard(const std::function<void(void*)>& deleter, void* data) : deleter_(&deleter), data_(data) {}
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
  ~Guard() {
    if (deleter_ && *deleter_) (*deleter_)(data_);
  }
  void dismiss() { deleter_ = nullptr; }

 private:
  const std::function<void(void*)>* deleter_;
  void* data_;
};

// Sizes and strides over foreign memory: everything that a view of one's own storage would have guaranteed. Returns the
// bytes they span.
size_t checked_extent(IntArrayRef sizes, IntArrayRef strides, size_t element, const void* data, const char* op) {
  FACULA_CHECK(sizes.size() == strides.size(), ShapeError, op, ": sizes ", to_text(sizes), " and strides ",
               to_text(strides), " differ in length");
  int64_t numel = checked_numel(sizes, element, op);
  for (int64_t s : strides)
    FACULA_CHECK(s >= 0, ValueError, op, ": Negative strides are not supported, got strides: ", to_text(strides),
                 "; copy the data first");
  if (numel == 0) return 0;
  FACULA_CHECK(data, ValueError, op, ": the data pointer is null, but sizes ", to_text(sizes), " hold ", numel,
               " elements");
  int64_t one[] = {storage_extent(sizes, strides, 0)};
  return static_cast<size_t>(checked_numel(one, element, op)) * element;
}

Tensor over_storage(intrusive_ptr<StorageImpl> storage, IntArrayRef sizes, IntArrayRef strides, ScalarType dtype) {
  const Device device = storage->device();
  auto impl = intrusive_ptr<TensorImpl>::adopt(new TensorImpl(std::move(storage), dtype, device));
  impl->set_geometry(sizes, strides, 0);
  return Tensor(std::move(impl));
}

Tensor blob(void* data, IntArrayRef sizes, std::optional<IntArrayRef> strides,
            const std::function<void(void*)>& deleter, const TensorOptions& options) {
  Guard guard(deleter, data);
  ScalarType dtype = options.dtype();
  FACULA_CHECK(dtype != ScalarType::Undefined, DTypeError, "from_blob: the dtype is undefined");
  FACULA_CHECK(!options.device().is_meta(), DeviceError, "from_blob: a tensor on meta has no memory; use empty()");
  const Device device = plain_device(options.device(), "from_blob");
  checked_numel(sizes, elementSize(dtype), "from_blob");
  DimVector steps = strides ? DimVector(*strides) : contiguous_strides(sizes);
  size_t nbytes = checked_extent(sizes, steps, elementSize(dtype), data, "from_blob");
  auto storage = StorageImpl::wrap(data, nbytes, device, deleter);
  guard.dismiss();
  return with_requires_grad(over_storage(std::move(storage), sizes, steps, dtype), options);
}

}  // namespace

Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  return blob(data, sizes, std::nullopt, {}, options);
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return blob(data, sizes, strides, {}, options);
}
Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter,
                 const TensorOptions& options) {
  return blob(data, sizes, std::nullopt, deleter, options);
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const std::function<void(void*)>& deleter,
                 const TensorOptions& options) {
  return blob(data, sizes, strides, deleter, options);
}

// ---- DLPack

namespace {

DLDataType dlpack_dtype(ScalarType t) {
  auto make = [&](int code) {
    return DLDataType{static_cast<uint8_t>(code), static_cast<uint8_t>(elementSize(t) * 8), 1};
  };
  if (isIntegralType(t, false)) return make(isSignedType(t) ? kDLInt : kDLUInt);
  if (isComplexType(t)) return make(kDLComplex);
  switch (t) {
    case kBool: return make(kDLBool);
    case kBFloat16: return make(kDLBfloat);
    case kFloat8_e4m3fn:
      return make(10);  // kDLFloat8_e4m3fn and kDLFloat8_e5m2, which older DLPack headers do not name
    case kFloat8_e5m2: return make(12);
    default: return make(kDLFloat);
  }
}

ScalarType scalar_type_of_dlpack(const DLDataType& t, const char* op) {
  FACULA_CHECK(t.lanes == 1, NotSupportedError, op, ": elements of ", static_cast<int>(t.lanes),
               " lanes are not supported; only 1 is");
  for (int k = 0; k < kNumScalarTypes; ++k) {
    auto candidate = static_cast<ScalarType>(k);
    DLDataType d = dlpack_dtype(candidate);
    if (d.code == t.code && d.bits == t.bits) return candidate;
  }
  throw NotSupportedError(str(op, ": DLPack dtype with code ", static_cast<int>(t.code), " and ",
                              static_cast<int>(t.bits), " bits is not supported"));
}

// What an exported structure owns: the tensor, which keeps the memory, and the arrays that the structure points to.
template <class Managed>
struct Exported {
  Tensor tensor;
  LentMemory memory;
  DimVector sizes, strides;
  Managed managed;
};

template <class Managed>
void delete_exported(Managed* self) {
  delete static_cast<Exported<Managed>*>(self->manager_ctx);
}

// What DLPack calls GPUs of this machine's vendor.
DLDeviceType dlpack_gpu(const char* op) {
  return gpu::need_driver(op).vendor() == gpu::Vendor::Hip ? kDLROCM : kDLCUDA;
}

template <class Managed>
Managed* export_tensor(const Tensor& tensor, const char* op) {
  const TensorImpl& i = impl_of(tensor, op);
  FACULA_CHECK(!i.device.is_meta(), DeviceError, op, ": a tensor on meta has no memory to share");
  auto exported = std::make_unique<Exported<Managed>>();
  exported->tensor = tensor;
  exported->memory = LentMemory(tensor.storage());
  exported->sizes = i.sizes;
  exported->strides = i.strides;
  // The stride of a dim of size 1 says nothing; some readers want it to be 1 all the same.
  for (size_t d = 0; d < exported->sizes.size(); ++d)
    if (exported->sizes[d] < 2) exported->strides[d] = 1;
  Managed& m = exported->managed;
  std::memset(&m, 0, sizeof(m));
  m.manager_ctx = exported.get();
  m.deleter = &delete_exported<Managed>;
  m.dl_tensor.data = i.numel == 0 ? nullptr : i.data();
  m.dl_tensor.device = i.device.is_cpu() ? DLDevice{kDLCPU, 0} : DLDevice{dlpack_gpu(op), i.device.index()};
  m.dl_tensor.ndim = static_cast<int32_t>(i.dim());
  m.dl_tensor.dtype = dlpack_dtype(i.dtype);
  m.dl_tensor.shape = exported->sizes.data();
  m.dl_tensor.strides = exported->strides.data();
  return &exported.release()->managed;
}

template <class Managed>
Tensor import_tensor(Managed* managed, const char* op) {
  const DLTensor& t = managed->dl_tensor;
  const bool on_gpu = t.device.device_type == kDLCUDA || t.device.device_type == kDLROCM;
  FACULA_CHECK(t.device.device_type == kDLCPU || t.device.device_type == kDLCUDAHost || on_gpu, DeviceError, op,
               ": DLPack device type ", static_cast<int>(t.device.device_type),
               " is not supported; memory of the cpu (type ", static_cast<int>(kDLCPU), ") and of GPUs (types ",
               static_cast<int>(kDLCUDA), " and ", static_cast<int>(kDLROCM), ") is");
  const Device device =
      on_gpu ? plain_device(Device(kCUDA, static_cast<DeviceIndex>(t.device.device_id)), op) : Device(kCPU);
  FACULA_CHECK(!on_gpu || t.device.device_type == dlpack_gpu(op), DeviceError, op, ": DLPack device type ",
               static_cast<int>(t.device.device_type), " is not that of this machine's GPUs");
  FACULA_CHECK(t.ndim >= 0 && t.ndim <= kMaxDims, ShapeError, op, ": a tensor of ", t.ndim,
               " dimensions is not supported; it may have 0 to ", kMaxDims);
  FACULA_CHECK(t.ndim == 0 || t.shape, ValueError, op, ": the shape pointer is null");
  ScalarType dtype = scalar_type_of_dlpack(t.dtype, op);
  IntArrayRef sizes(t.shape, usize(t.ndim));
  checked_numel(sizes, elementSize(dtype), op);
  DimVector strides = t.strides ? DimVector(IntArrayRef(t.strides, usize(t.ndim))) : contiguous_strides(sizes);
  // Dims of size 1 are never stepped along: any stride will do, a negative one as well.
  for (size_t d = 0; d < strides.size(); ++d)
    if (sizes[d] < 2 && strides[d] < 0) strides[d] = 1;
  size_t nbytes = checked_extent(sizes, strides, elementSize(dtype), t.data, op);
  char* data = t.data ? static_cast<char*>(t.data) + t.byte_offset : nullptr;
  auto storage = StorageImpl::wrap(data, nbytes, device, [managed](void*) {
    if (managed->deleter) managed->deleter(managed);
  });
  return over_storage(std::move(storage), sizes, strides, dtype);
}

}  // namespace

DLManagedTensor* toDLPack(const Tensor& tensor) { return export_tensor<DLManagedTensor>(tensor, "toDLPack"); }

Tensor fromDLPack(DLManagedTensor* managed) {
  FACULA_CHECK(managed, ValueError, "fromDLPack: the pointer is null");
  return import_tensor(managed, "fromDLPack");
}

DLManagedTensorVersioned* toDLPackVersioned(const Tensor& tensor) {
  auto* managed = export_tensor<DLManagedTensorVersioned>(tensor, "toDLPackVersioned");
  managed->version = {1, 1};
  return managed;
}

Tensor fromDLPackVersioned(DLManagedTensorVersioned* managed) {
  FACULA_CHECK(managed, ValueError, "fromDLPackVersioned: the pointer is null");
  // Of another major version only the fields before the tensor are where we know them.
  FACULA_CHECK(managed->version.major == 1, NotSupportedError, "fromDLPackVersioned: DLPack version ",
               managed->version.major, ".", managed->version.minor, " is not supported; this library reads 1.x");
  FACULA_CHECK((managed->flags & 1) == 0, NotSupportedError,
               "fromDLPackVersioned: the memory is read-only, which a tensor cannot promise; copy it first");
  return import_tensor(managed, "fromDLPackVersioned");
}

}  // namespace facula
