// Tensors over the memory of others and the other way round: NumPy's arrays, the buffer protocol, DLPack. NumPy is
// reached through the buffer protocol only, so that the module needs no headers of it and works with any version.
#include "exchange.h"

#include <facula/cuda.h>
#include <facula/dlpack.h>
#include <facula/facula.h>

#include <cstring>
#include <memory>
#include <vector>

#include "arguments.h"
#include "core/lent_memory.h"
#include "keywords.h"

namespace facula::python {
namespace nb = nanobind;
namespace {

void warn(const char* text) {
  if (PyErr_WarnEx(PyExc_UserWarning, text, 1) < 0) throw nb::python_error();
}

// ---- Memory of others: buffers.

// Somebody's memory. It dies with the interpreter's lock held; `end` is for those who may not have it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (view_.obj) release();
  }
  static void end(Buffer* buffer) noexcept {
    let_go(buffer, [](void* b) { delete static_cast<Buffer*>(b); });
  }
  bool take(PyObject* object, int flags) { return PyObject_GetBuffer(object, &view_, flags) == 0; }
  const Py_buffer* operator->() const { return &view_; }

 private:
  // May run code of others, and may itself run while an error is on its way.
  void release() {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyBuffer_Release(&view_);
    PyErr_Restore(type, value, trace);
  }
  Py_buffer view_ = {};
};

// The dtype of a format of the struct module; Undefined where there is none.
ScalarType dtype_of_format(const char* format, Py_ssize_t itemsize) {
  if (*format == '@' || *format == '=' || (*format == '<' && PY_LITTLE_ENDIAN) || (*format == '>' && PY_BIG_ENDIAN))
    ++format;
  const bool complex = *format == 'Z';
  if (complex) ++format;
  if (format[0] == 0 || format[1] != 0) return ScalarType::Undefined;
  if (complex) {
    if (*format == 'f' && itemsize == 8) return kComplexFloat;
    if (*format == 'd' && itemsize == 16) return kComplexDouble;
    return ScalarType::Undefined;
  }
  switch (*format) {
    case '?': return itemsize == 1 ? kBool : ScalarType::Undefined;
    case 'e': return kHalf;
    case 'f': return itemsize == 4 ? kFloat : ScalarType::Undefined;
    case 'd': return itemsize == 8 ? kDouble : ScalarType::Undefined;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n': return itemsize == 1 ? kChar : itemsize == 2 ? kShort : itemsize == 4 ? kInt : kLong;
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N': return itemsize == 1 ? kByte : itemsize == 2 ? kUInt16 : itemsize == 4 ? kUInt32 : kUInt64;
    default: return ScalarType::Undefined;
  }
}

// Null where there is none.
const char* format_of_dtype(ScalarType t) {
  switch (t) {
    case kBool: return "?";
    case kByte: return "B";
    case kChar: return "b";
    case kShort: return "h";
    case kUInt16: return "H";
    case kInt: return "i";
    case kUInt32: return "I";
    // The letter decides which of C's types of 64 bits NumPy names.
    case kLong: return sizeof(long) == 8 ? "l" : "q";
    case kUInt64: return sizeof(long) == 8 ? "L" : "Q";
    case kHalf: return "e";
    case kFloat: return "f";
    case kDouble: return "d";
    case kComplexFloat: return "Zf";
    case kComplexDouble: return "Zd";
    default: return nullptr;
  }
}

constexpr const char* kArrayTypes =
    "float64, float32, float16, complex64, complex128, int64, int32, int16, int8, uint64, uint32, uint16, uint8, and "
    "bool";

// Why an array has no dtype of ours.
[[noreturn]] void refuse_array(PyObject* array) {
  PyErr_Clear();
  nb::object dtype = nb::steal(PyObject_GetAttrString(array, "dtype"));
  if (!dtype) throw nb::python_error();
  const std::string name = nb::str(dtype).c_str();
  const bool number = name.size() > 1 && (name[0] == '<' || name[0] == '>') && std::strchr("iufc", name[1]);
  FACULA_CHECK(!number, ValueError, "given numpy array has byte order different from the native byte order (", name,
               "). Conversion between byte orders is not supported; use array.astype(array.dtype.newbyteorder('='))");
  throw TypeMismatch(
      str("can't convert np.ndarray of type numpy.", name, ". The only supported types are: ", kArrayTypes, "."));
}

nb::object called(PyObject* object, const char* method) {
  nb::object made = nb::steal(PyObject_CallMethod(object, method, nullptr));
  if (!made) throw nb::python_error();
  return made;
}

Tensor over_buffer(std::unique_ptr<Buffer> buffer, void* data, IntArrayRef sizes, IntArrayRef strides,
                   ScalarType dtype) {
  Buffer* owner = buffer.release();
  return facula::from_blob(
      data, sizes, strides, [owner](void*) { Buffer::end(owner); }, TensorOptions(dtype));
}

constexpr const char* kReadOnlyWarning =
    "The given memory is not writable, and a tensor cannot promise to leave it alone: writing to this tensor is "
    "undefined "
    "behaviour. You may want to copy the data (array.copy(), bytearray(...)) or make it writable first. Tensors over a "
    "non-writable NumPy array or buffer share its memory.";

// ---- DLPack's capsules.

constexpr const char* kPlain = "dltensor";
constexpr const char* kPlainUsed = "used_dltensor";
constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kVersionedUsed = "used_dltensor_versioned";

// Of a capsule that nobody took: the memory goes back.
template <class Managed>
void free_capsule(PyObject* capsule) {
  const char* name = std::is_same_v<Managed, DLManagedTensor> ? kPlain : kVersioned;
  if (!PyCapsule_IsValid(capsule, name)) return;
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed && managed->deleter) managed->deleter(managed);
}

template <class Managed>
PyObject* capsule_of(Managed* managed) {
  const char* name = std::is_same_v<Managed, DLManagedTensor> ? kPlain : kVersioned;
  PyObject* capsule = PyCapsule_New(managed, name, free_capsule<Managed>);
  if (!capsule) managed->deleter(managed);
  return capsule;
}

PyObject* export_dlpack(const Tensor& tensor, bool versioned, bool copied) {
  if (!versioned) return capsule_of(facula::toDLPack(tensor));
  DLManagedTensorVersioned* managed = facula::toDLPackVersioned(tensor);
  if (copied) managed->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
  return capsule_of(managed);
}

[[noreturn]] void raise_buffer_error(const std::string& text) {
  PyErr_SetString(PyExc_BufferError, text.c_str());
  throw nb::python_error();
}

// From here on the structure belongs to the tensor. A name that says so keeps the capsule's destructor off.
Tensor take_capsule(PyObject* capsule) {
  auto used = [&](const char* name) {
    if (PyCapsule_SetName(capsule, name) < 0) throw nb::python_error();
  };
  if (PyCapsule_IsValid(capsule, kVersioned)) {
    auto* managed = static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, kVersioned));
    Tensor made = facula::fromDLPackVersioned(managed);
    used(kVersionedUsed);
    return made;
  }
  if (PyCapsule_IsValid(capsule, kPlain)) {
    auto* managed = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, kPlain));
    Tensor made = facula::fromDLPack(managed);
    used(kPlainUsed);
    return made;
  }
  const char* name = PyCapsule_GetName(capsule);
  PyErr_Clear();
  throw ValueError(
      str("from_dlpack received an invalid capsule, named '", name ? name : "",
          "'. Note that DLTensor capsules can be consumed only once, so you might have already constructed "
          "a tensor from it once."));
}

// The stream on which we shall read: what DLPack calls it, for objects in memory of a GPU.
nb::object reading_stream(PyObject* object) {
  nb::object place = nb::steal(PyObject_CallMethod(object, "__dlpack_device__", nullptr));
  if (!place) {
    PyErr_Clear();
    return nb::none();
  }
  int type = 0, index = 0;
  if (!PyTuple_Check(place.ptr()) || !PyArg_ParseTuple(place.ptr(), "ii", &type, &index)) {
    PyErr_Clear();
    return nb::none();
  }
  if (type != kDLCUDA && type != kDLROCM) return nb::none();
  const cuda::CUDAStream stream = cuda::getCurrentCUDAStream(static_cast<DeviceIndex>(index));
  const auto handle = reinterpret_cast<intptr_t>(stream.stream().get());
  return nb::int_(handle == 0 && type == kDLCUDA ? 1 : handle);
}

nb::object dlpack_capsule(PyObject* object, nb::handle copy) {
  nb::object method = nb::steal(PyObject_GetAttrString(object, "__dlpack__"));
  if (!method) throw nb::python_error();
  nb::dict keywords;
  keywords["max_version"] = nb::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  if (nb::object stream = reading_stream(object); !stream.is_none()) keywords["stream"] = stream;
  if (!copy.is_none()) keywords["copy"] = nb::borrow(copy);
  nb::tuple none = nb::make_tuple();
  nb::object capsule = nb::steal(PyObject_Call(method.ptr(), none.ptr(), keywords.ptr()));
  // Libraries from before DLPack 1.0 know no keywords.
  if (!capsule && PyErr_ExceptionMatches(PyExc_TypeError)) {
    PyErr_Clear();
    capsule = nb::steal(PyObject_Call(method.ptr(), none.ptr(), nullptr));
  }
  if (!capsule) throw nb::python_error();
  if (!PyCapsule_CheckExact(capsule.ptr()))
    throw TypeMismatch(str("from_dlpack(): __dlpack__ of '", Py_TYPE(object)->tp_name, "' gave a '",
                           Py_TYPE(capsule.ptr())->tp_name, "', not a capsule"));
  return capsule;
}

Tensor from_dlpack(nb::handle object, nb::handle device, nb::handle copy) {
  const std::optional<Device> where = device.is_none() ? std::nullopt : std::optional(to_device(device.ptr()));
  auto moved = [&](const Tensor& t) { return where ? t.to(*where) : t; };
  const bool copies = !copy.is_none() && to_bool(copy.ptr());
  if (PyCapsule_CheckExact(object.ptr())) {
    Tensor made = take_capsule(object.ptr());
    return moved(copies ? made.clone() : made);
  }
  if (!PyObject_HasAttrString(object.ptr(), "__dlpack__"))
    throw TypeMismatch(str("from_dlpack(): expected an object with __dlpack__ or a DLPack capsule, got '",
                           Py_TYPE(object.ptr())->tp_name, "'"));
  Tensor made = take_capsule(dlpack_capsule(object.ptr(), copy).ptr());
  return moved(copies ? made.clone() : made);
}

// ---- Memory of ours.

void check_exported(const Tensor& t, const char* what) {
  FACULA_CHECK(!t.requires_grad(), Error, "Can't call ", what, " on Tensor that requires grad. Use tensor.detach().",
               what, " instead.");
  if (!t.is_cpu())
    throw TypeMismatch(str("can't convert ", t.device().str(),
                           " device type tensor to numpy. Use Tensor.cpu() to copy the "
                           "tensor to host memory first."));
  if (!format_of_dtype(t.scalar_type()))
    throw TypeMismatch(str("Got unsupported ScalarType ", toString(t.scalar_type()), "; NumPy has no ",
                           dtype_name(t.scalar_type()), ", convert first, e.g. with .float()"));
}

// What a reader of our memory holds: the memory, and sizes as the protocol wants them.
struct ExportedBuffer {
  LentMemory memory;
  std::vector<Py_ssize_t> shape, strides;
};

// The first dim runs fastest, without gaps.
bool is_by_columns(const Tensor& t) {
  int64_t expected = 1;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    if (t.sizes()[d] != 1 && t.strides()[d] != expected) return t.numel() == 0;
    expected *= t.sizes()[d];
  }
  return true;
}

nb::object numpy_function(const char* name) {
  nb::object numpy = nb::steal(PyImport_ImportModule("numpy"));
  if (!numpy) throw nb::python_error();
  nb::object function = nb::steal(PyObject_GetAttrString(numpy.ptr(), name));
  if (!function) throw nb::python_error();
  return function;
}

Tensor from_numpy(nb::handle array) {
  if (!is_ndarray(array.ptr()))
    throw TypeMismatch(str("expected np.ndarray (got ", Py_TYPE(array.ptr())->tp_name, ")"));
  return tensor_from_array(array.ptr(), Share::Write);
}

Tensor frombuffer(nb::handle buffer, nb::handle dtype, int64_t count, int64_t offset, bool requires_grad) {
  Tensor made = tensor_from_buffer(buffer.ptr(), to_dtype(dtype.ptr()), count, offset, Share::Write);
  if (requires_grad) made.set_requires_grad(true);
  return made;
}

}  // namespace

Tensor tensor_from_array(PyObject* array, Share share) {
  if (!is_ndarray(array)) {
    // A number of NumPy: the array is ours alone.
    nb::object owned = called(array, "__array__");
    if (!is_ndarray(owned.ptr())) throw TypeMismatch(str("expected np.ndarray (got ", Py_TYPE(array)->tp_name, ")"));
    return tensor_from_array(owned.ptr(), Share::Read);
  }
  auto buffer = std::make_unique<Buffer>();
  if (!buffer->take(array, PyBUF_RECORDS_RO)) refuse_array(array);
  const Py_buffer& view = *buffer->operator->();
  const ScalarType dtype = dtype_of_format(view.format ? view.format : "B", view.itemsize);
  if (dtype == ScalarType::Undefined) refuse_array(array);
  const auto element = static_cast<int64_t>(elementSize(dtype));
  const auto dims = static_cast<size_t>(view.ndim);
  DimVector sizes, strides;
  sizes.resize(dims);
  strides.resize(dims);
  int64_t dense = 1;
  for (size_t d = dims; d-- > 0;) {
    sizes[d] = view.shape[d];
    // The stride of a dim of size 1 says nothing, and NumPy leaves anything there.
    const int64_t bytes = sizes[d] > 1 && view.len > 0 ? view.strides[d] : dense * element;
    if (bytes < 0 || bytes % element != 0) {
      if (share == Share::Read) return tensor_from_array(called(array, "copy").ptr(), share);
      FACULA_CHECK(
          bytes >= 0, ValueError,
          "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
          "supported. (You can probably work around this by making a copy of your array with array.copy().)");
      throw ValueError(
          "given numpy array strides not a multiple of the element byte size. Copy the numpy array to reallocate the "
          "memory, with array.copy().");
    }
    strides[d] = bytes / element;
    dense *= std::max<int64_t>(sizes[d], 1);
  }
  if (share == Share::Write && view.readonly) warn(kReadOnlyWarning);
  void* data = view.buf;
  return over_buffer(std::move(buffer), data, sizes, strides, dtype);
}

Tensor tensor_from_buffer(PyObject* object, ScalarType dtype, int64_t count, int64_t offset, Share share) {
  auto buffer = std::make_unique<Buffer>();
  if (!buffer->take(object, PyBUF_SIMPLE)) throw nb::python_error();
  const Py_buffer& view = *buffer->operator->();
  const int64_t length = view.len, element = static_cast<int64_t>(elementSize(dtype));
  FACULA_CHECK(length > 0 && count != 0, ValueError, "both buffer length (", length, ") and count (", count,
               ") must not be 0");
  FACULA_CHECK(offset >= 0 && offset < length, ValueError, "offset (", offset,
               " bytes) must be non-negative and no greater than buffer length (", length, " bytes) minus 1");
  if (count < 0) {
    FACULA_CHECK((length - offset) % element == 0, ValueError, "buffer length (", length - offset,
                 " bytes) after offset (", offset, " bytes) must be a multiple of element size (", element, ")");
    count = (length - offset) / element;
  }
  FACULA_CHECK(count <= (length - offset) / element, ValueError, "requested buffer length (", count, " * ", element,
               " bytes) after offset (", offset, " bytes) must not be greater than actual buffer length (", length,
               " bytes)");
  if (share == Share::Write && view.readonly) warn(kReadOnlyWarning);
  void* data = static_cast<char*>(view.buf) + offset;
  return over_buffer(std::move(buffer), data, {count}, {int64_t{1}}, dtype);
}

Tensor tensor_from_dlpack(PyObject* object) { return from_dlpack(object, nb::none(), nb::none()); }

PyObject* array_from_tensor(const Tensor& tensor) {
  check_exported(tensor, "numpy()");
  static PyObject* asarray = numpy_function("asarray").release().ptr();
  nb::object object = nb::steal(wrap(tensor));
  return PyObject_CallOneArg(asarray, object.ptr());
}

int tensor_get_buffer(PyObject* self, Py_buffer* view, int flags) {
  view->obj = nullptr;
  return guarded(
      [&]() -> int {
        const Tensor& t = tensor_of(self);
        if (t.requires_grad()) raise_buffer_error("a tensor that requires grad has no buffer; use tensor.detach()");
        if (!t.is_cpu()) raise_buffer_error(str("a tensor on ", t.device().str(), " has no buffer; use tensor.cpu()"));
        const char* format = format_of_dtype(t.scalar_type());
        if (!format) raise_buffer_error(str("the buffer protocol has no ", dtype_name(t.scalar_type())));
        const bool rows = t.is_contiguous();
        auto wants = [&](int kind) { return (flags & kind) == kind; };
        const bool columns = is_by_columns(t);
        if (wants(PyBUF_F_CONTIGUOUS) && !columns) raise_buffer_error("the tensor is not contiguous by columns");
        if ((wants(PyBUF_C_CONTIGUOUS) || !wants(PyBUF_STRIDES)) && !rows)
          raise_buffer_error("the tensor is not contiguous; use tensor.contiguous()");
        if (wants(PyBUF_ANY_CONTIGUOUS) && !rows && !columns) raise_buffer_error("the tensor is not contiguous");
        auto exported = std::make_unique<ExportedBuffer>();
        exported->memory = LentMemory(t.storage());
        for (size_t d = 0; d < t.sizes().size(); ++d) {
          exported->shape.push_back(t.sizes()[d]);
          exported->strides.push_back(t.strides()[d] * t.itemsize());
        }
        view->buf = t.data_ptr();
        view->len = static_cast<Py_ssize_t>(t.nbytes());
        view->itemsize = t.itemsize();
        view->readonly = 0;
        view->ndim = static_cast<int>(t.dim());
        view->format = wants(PyBUF_FORMAT) ? const_cast<char*>(format) : nullptr;
        view->shape = wants(PyBUF_ND) ? exported->shape.data() : nullptr;
        view->strides = wants(PyBUF_STRIDES) ? exported->strides.data() : nullptr;
        view->suboffsets = nullptr;
        view->internal = exported.release();
        view->obj = Py_NewRef(self);
        return 0;
      },
      -1);
}

void tensor_release_buffer(PyObject*, Py_buffer* view) { delete static_cast<ExportedBuffer*>(view->internal); }

PyObject* tensor_numpy(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"force"};
    const Slots slots("numpy", kNames, 0, given, count, keywords);
    const Tensor& t = tensor_of(self);
    return array_from_tensor(slots.boolean(0, false) ? t.detach().cpu() : t);
  });
}

PyObject* tensor_array(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"dtype", "copy"};
    const Slots slots("__array__", kNames, 2, given, count, keywords);
    nb::object array = nb::steal(array_from_tensor(tensor_of(self)));
    if (!array) return nullptr;
    const bool always = slots.has(1) && to_bool(slots[1]), never = slots.has(1) && !always;
    if (slots.has(0)) {
      nb::object wanted = nb::steal(PyObject_CallOneArg(numpy_function("dtype").ptr(), slots[0]));
      nb::object has = nb::steal(PyObject_GetAttrString(array.ptr(), "dtype"));
      if (!wanted || !has) return nullptr;
      const int same = PyObject_RichCompareBool(wanted.ptr(), has.ptr(), Py_EQ);
      if (same < 0) return nullptr;
      if (!same) {
        FACULA_CHECK(!never, ValueError,
                     "Unable to avoid copy while creating an array as requested: the tensor has another dtype");
        return PyObject_CallMethod(array.ptr(), "astype", "O", wanted.ptr());
      }
    }
    return always ? PyObject_CallMethod(array.ptr(), "copy", nullptr) : array.release().ptr();
  });
}

// What NumPy's functions make of tensors becomes a tensor again.
PyObject* tensor_array_wrap(PyObject*, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"array", "context", "return_scalar"};
    const Slots slots("__array_wrap__", kNames, 3, given, count, keywords);
    if (!slots[0]) throw TypeMismatch("__array_wrap__() missing 1 required argument: 'array'");
    return wrap(tensor_from_array(slots[0], Share::Write));
  });
}

namespace {

DLDevice dlpack_device_of(const Tensor& t) {
  if (t.is_cpu()) return {kDLCPU, 0};
  DLManagedTensor* managed = facula::toDLPack(t.detach());
  const DLDevice device = managed->dl_tensor.device;
  managed->deleter(managed);
  return device;
}

// The reader's stream goes on after what is queued on ours. DLPack's numbers: none and 1 are the default stream, 2 the thread's own,
// -1 says that the reader will see to it.
void order_for_consumer(const Tensor& t, std::optional<int64_t> stream) {
  if (stream == -1) return;
  const auto device = static_cast<DeviceIndex>(t.get_device());
  const bool is_default = !stream || *stream == 0 || *stream == 1;
  const cuda::CUDAStream reader =
      is_default ? cuda::getDefaultCUDAStream(device)
                 : cuda::getStreamFromExternal(reinterpret_cast<void*>(static_cast<intptr_t>(*stream)), device);
  const cuda::CUDAStream ours = cuda::getCurrentCUDAStream(device);
  if (reader == ours) return;
  cuda::CUDAEvent event;
  event.record(ours);
  event.block(reader);
}

}  // namespace

PyObject* tensor_dlpack(PyObject* self, PyObject* const* given, Py_ssize_t count, PyObject* keywords) {
  return guarded([&]() -> PyObject* {
    static constexpr const char* kNames[] = {"stream", "max_version", "dl_device", "copy"};
    const Slots slots("__dlpack__", kNames, 0, given, count, keywords);
    const Tensor& t = tensor_of(self);
    if (t.requires_grad()) raise_buffer_error("Can't export tensors that require gradient, use tensor.detach()");
    if (t.is_meta())
      raise_buffer_error(str("Can't export a tensor on ", t.device().str(), "; it has no memory to share"));
    if (slots.has(0) && !PyLong_Check(slots[0])) throw TypeMismatch("stream must be ``int`` or ``none``");
    if (t.is_cpu())
      FACULA_CHECK(!slots.has(0) || to_integer(slots[0]) == -1, ValueError,
                   "__dlpack__(): memory of the cpu has no streams; leave it None");
    else order_for_consumer(t, slots.has(0) ? std::optional(to_integer(slots[0])) : std::nullopt);
    if (slots.has(2)) {
      int64_t type = 0, id = 0;
      if (!PyTuple_Check(slots[2]) || PyTuple_GET_SIZE(slots[2]) != 2)
        throw TypeMismatch("__dlpack__(): dl_device must be a tuple (device type, device id)");
      type = to_integer(PyTuple_GET_ITEM(slots[2], 0));
      id = to_integer(PyTuple_GET_ITEM(slots[2], 1));
      const DLDevice own = dlpack_device_of(t);
      if (type != own.device_type || id != own.device_id)
        raise_buffer_error(str("__dlpack__(): cannot export to device (", type, ", ", id, "); the tensor is on (",
                               static_cast<int>(own.device_type), ", ", own.device_id, ")"));
    }
    bool versioned = false;
    if (slots.has(1)) {
      if (!PyTuple_Check(slots[1]) || PyTuple_GET_SIZE(slots[1]) != 2)
        throw TypeMismatch("__dlpack__(): max_version must be a tuple (major, minor)");
      versioned = to_integer(PyTuple_GET_ITEM(slots[1], 0)) >= 1;
    }
    const bool copies = slots.boolean(3, false);
    return export_dlpack(copies ? t.clone() : t, versioned, copies);
  });
}

PyObject* tensor_dlpack_device(PyObject* self, PyObject*) {
  return guarded([&]() -> PyObject* {
    const Tensor& t = tensor_of(self);
    FACULA_CHECK(!t.is_meta(), ValueError, "__dlpack_device__(): unknown device type ", t.device().str(),
                 " for DLPack");
    const DLDevice own = dlpack_device_of(t);
    return Py_BuildValue("(ii)", static_cast<int>(own.device_type), static_cast<int>(own.device_id));
  });
}

namespace {

// As NumPy spells a dtype. What it has not, such as bfloat16, is so many bytes without a meaning.
std::string array_typestr(ScalarType dtype) {
  char kind = 'u';
  if (dtype == kBool) kind = 'b';
  else if (dtype == kComplexFloat || dtype == kComplexDouble) kind = 'c';
  else if (dtype == kHalf || dtype == kFloat || dtype == kDouble) kind = 'f';
  else if (isFloatingType(dtype) || isComplexType(dtype)) kind = 'V';
  else if (isSignedType(dtype)) kind = 'i';
  const size_t bytes = elementSize(dtype);
  return str(bytes == 1 ? '|' : '<', kind, bytes);
}

nb::object plain_tuple(IntArrayRef numbers) {
  nb::list list;
  for (int64_t number : numbers) list.append(number);
  return nb::tuple(list);
}

}  // namespace

PyObject* cuda_array_interface(const Tensor& t) {
  if (!t.is_cuda()) {
    PyErr_SetString(PyExc_AttributeError, str("__cuda_array_interface__: the tensor is on ", t.device().str(),
                                              "; only tensors on a GPU have it. Use .cuda() first, or __array__")
                                              .c_str());
    throw nb::python_error();
  }
  FACULA_CHECK(!t.requires_grad(), Error,
               "__cuda_array_interface__: Can't get it on a tensor that requires grad. Use tensor.detach().");
  nb::dict found;
  found["version"] = 3;
  found["typestr"] = nb::str(array_typestr(t.scalar_type()).c_str());
  found["shape"] = plain_tuple(t.sizes());
  if (t.is_contiguous()) {
    found["strides"] = nb::none();
  } else {
    std::vector<int64_t> bytes(t.strides().begin(), t.strides().end());
    for (int64_t& stride : bytes) stride *= t.itemsize();
    found["strides"] = plain_tuple(bytes);
  }
  const auto address = t.numel() > 0 ? reinterpret_cast<uintptr_t>(t.data_ptr()) : uintptr_t{0};
  found["data"] = nb::make_tuple(address, false);
  // What is queued there comes first. 1 stands for the default stream.
  const cuda::CUDAStream stream = cuda::getCurrentCUDAStream(static_cast<DeviceIndex>(t.get_device()));
  const auto handle = reinterpret_cast<uintptr_t>(stream.stream().get());
  found["stream"] = handle ? handle : uintptr_t{1};
  return found.release().ptr();
}

void add_exchange(nb::module_& m) {
  m.def("from_numpy", from_numpy, nb::arg("ndarray").none(), "A tensor over the memory of an array of NumPy.");
  m.def("frombuffer", frombuffer, nb::arg("buffer").none(), nb::kw_only(), nb::arg("dtype"), nb::arg("count") = -1,
        nb::arg("offset") = 0, nb::arg("requires_grad") = false,
        "A tensor of one dim over the memory of an object with the buffer protocol.");
  m.def("from_dlpack", from_dlpack, nb::arg("ext_tensor").none(), nb::kw_only(), nb::arg("device") = nb::none(),
        nb::arg("copy") = nb::none(), "A tensor over the memory of another library's, or of a DLPack capsule.");
  // For pickling (_rebuild.py): whether the elements lie without gaps and overlaps, and their bytes written over.
  m.def("_is_dense", [](const Tensor& t) { return t.is_non_overlapping_and_dense(); });
  m.def("_write_bytes", [](const Tensor& t, nb::handle bytes) {
    Buffer buffer;
    if (!buffer.take(bytes.ptr(), PyBUF_SIMPLE)) throw nb::python_error();
    FACULA_CHECK(t.is_cpu() && t.is_non_overlapping_and_dense() && static_cast<size_t>(buffer->len) == t.nbytes(),
                 FormatError, "a pickled tensor of ", t.nbytes(), " bytes came with ",
                 static_cast<int64_t>(buffer->len));
    if (buffer->len > 0) std::memcpy(t.data_ptr(), buffer->buf, t.nbytes());
  });
  m.def(
      "_to_dlpack", [](const Tensor& t) { return nb::steal(export_dlpack(t, false, false)); }, nb::arg("tensor"));
}

}  // namespace facula::python
