// Attributes of tensors. Those of gradients come from autograd.cpp.
#include <facula/facula.h>

#include "arguments.h"
#include "autograd.h"
#include "exchange.h"
#include "tensor_object.h"
#include "values.h"

namespace facula::python {
namespace {

template <auto F>
PyObject* get(PyObject* self, void*) {
  return guarded([&]() -> PyObject* { return F(tensor_of(self)); });
}

PyObject* shape(const Tensor& t) { return from_sizes(t.sizes()); }
PyObject* dtype(const Tensor& t) { return from_dtype(t.scalar_type()); }
PyObject* device(const Tensor& t) { return from_device(t.device()); }
PyObject* layout(const Tensor&) { return from_layout(); }
PyObject* ndim(const Tensor& t) { return PyLong_FromLongLong(t.dim()); }
PyObject* itemsize(const Tensor& t) { return PyLong_FromLongLong(t.itemsize()); }
PyObject* nbytes(const Tensor& t) { return PyLong_FromSize_t(t.nbytes()); }
PyObject* is_cpu(const Tensor& t) { return PyBool_FromLong(t.is_cpu()); }
PyObject* is_cuda(const Tensor& t) { return PyBool_FromLong(t.is_cuda()); }
PyObject* is_meta(const Tensor& t) { return PyBool_FromLong(t.is_meta()); }
PyObject* never(const Tensor&) { Py_RETURN_FALSE; }
PyObject* array_priority(const Tensor&) { return PyFloat_FromDouble(1000); }

Tensor adjoint(const Tensor& t) { return t.is_complex() ? t.mT().conj() : t.mT(); }

PyObject* transposed(const Tensor& t) {
  if (t.dim() != 2 && t.dim() != 0 &&
      PyErr_WarnEx(
          PyExc_UserWarning,
          "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated. Consider "
          "`x.mT` to transpose batches of matrices or `x.permute(*range(x.ndim - 1, -1, -1))` to reverse the "
          "dimensions of a tensor.",
          1) < 0)
    return nullptr;
  return wrap(t.numpy_T());
}
PyObject* matrix_transposed(const Tensor& t) { return wrap(t.mT()); }
PyObject* conjugate_transposed(const Tensor& t) {
  FACULA_CHECK(t.dim() == 0 || t.dim() == 2, ShapeError, "tensor.H is only supported on matrices (2-D tensors). Got ",
               t.dim(), "-D tensor.", t.dim() > 2 ? " For batches of matrices, consider using tensor.mH" : "");
  if (t.dim() == 0) return wrap(t.is_complex() ? t.conj() : t);
  return wrap(adjoint(t));
}
PyObject* matrix_adjoint(const Tensor& t) { return wrap(adjoint(t)); }
PyObject* real_part(const Tensor& t) { return wrap(facula::real(t)); }
PyObject* imaginary_part(const Tensor& t) { return wrap(facula::imag(t)); }
PyObject* data(const Tensor& t) { return wrap(t.data()); }

void check_set(PyObject* value, const char* name) {
  if (!value) throw TypeMismatch(str("cannot delete the attribute '", name, "' of a tensor"));
}

int set_data(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&]() -> int {
        check_set(value, "data");
        if (!is_tensor(value))
          throw TypeMismatch(str("Variable data has to be a tensor, but got ", Py_TYPE(value)->tp_name));
        tensor_of(self).set_data(tensor_of(value));
        return 0;
      },
      -1);
}

template <Tensor (*part)(const Tensor&)>
int set_part(PyObject* self, PyObject* value, void*) {
  return guarded(
      [&]() -> int {
        check_set(value, "real or imag");
        const Tensor target = part(tensor_of(self));
        if (is_number(value, Lenient::No)) target.fill_(to_scalar(value));
        else target.copy_(to_tensor(value));
        return 0;
      },
      -1);
}

}  // namespace

PyGetSetDef tensor_properties[] = {
    {"shape", get<shape>, nullptr, "The sizes.", nullptr},
    {"dtype", get<dtype>, nullptr, "The type of the elements.", nullptr},
    {"device", get<device>, nullptr, "Where the elements are.", nullptr},
    {"layout", get<layout>, nullptr, "How the elements are kept: facula.strided.", nullptr},
    {"ndim", get<ndim>, nullptr, "How many dims there are.", nullptr},
    {"itemsize", get<itemsize>, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", get<nbytes>, nullptr, "Bytes of all elements.", nullptr},
    {"T", get<transposed>, nullptr, "All dims in reverse order.", nullptr},
    {"mT", get<matrix_transposed>, nullptr, "The last two dims exchanged.", nullptr},
    {"H", get<conjugate_transposed>, nullptr, "The conjugate transpose of a matrix.", nullptr},
    {"mH", get<matrix_adjoint>, nullptr, "The conjugate transpose of the last two dims.", nullptr},
    {"real", get<real_part>, set_part<facula::real>, "The real part; of a complex tensor a view.", nullptr},
    {"imag", get<imaginary_part>, set_part<facula::imag>, "A view of the imaginary part.", nullptr},
    {"data", get<data>, set_data, "The same elements, out of sight of the tape.", nullptr},
    {"is_cpu", get<is_cpu>, nullptr, "Whether the elements are in memory of the cpu.", nullptr},
    {"is_cuda", get<is_cuda>, nullptr, "Whether the elements are in memory of a GPU.", nullptr},
    {"is_meta", get<is_meta>, nullptr, "Whether there are sizes only, and no elements.", nullptr},
    {"is_sparse", get<never>, nullptr, "False: tensors are dense.", nullptr},
    {"is_sparse_csr", get<never>, nullptr, "False: tensors are dense.", nullptr},
    {"is_quantized", get<never>, nullptr, "False: tensors hold their values themselves.", nullptr},
    {"is_mkldnn", get<never>, nullptr, "False: tensors have strides.", nullptr},
    {"is_nested", get<never>, nullptr, "False: all rows have one size.", nullptr},
    {"grad", get_grad, set_grad, "The gradient that backward() added up; None before.", nullptr},
    {"requires_grad", get_requires_grad, set_requires_grad, "Whether the tape records what happens to it.", nullptr},
    {"grad_fn", get_grad_fn, nullptr, "The op that made it; None for a leaf.", nullptr},
    {"is_leaf", get_is_leaf, nullptr, "Whether no recorded op made it.", nullptr},
    {"retains_grad", get_retains_grad, nullptr, "Whether a gradient is kept though it is no leaf.", nullptr},
    {"output_nr", get_output_nr, nullptr, "Which output of its op it is.", nullptr},
    {"_version", get_version, nullptr, "How many times the memory was written in place.", nullptr},
    {"_base", get_base, nullptr, "What it is a view of, or None.", nullptr},
    {"__array_priority__", get<array_priority>, nullptr, "Lets operators of tensors go before those of NumPy.",
     nullptr},
    {"__cuda_array_interface__", get<cuda_array_interface>, nullptr,
     "Address, sizes, strides and dtype of memory of a GPU, for other libraries.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr},
};

}  // namespace facula::python
