// Matrix products: argument checks, batching and broadcasting around one kernel. What is made of them is in
// contractions.cpp and einsum.cpp.
#include "autograd/call.h"
#include "cpu/gemv.h"
#include "cpu/matmul.h"
#include "gpu/matmul/matmul.h"
#include "ops/common.h"
#include "ops/executable.h"
#include "ops/pointwise.h"

#include <numeric>

namespace facula {
namespace {

ScalarType same_dtype(const Tensor& a, const Tensor& b, const char* op) {
  FACULA_CHECK(a.scalar_type() == b.scalar_type(), DTypeError, op,
               ": expected m1 and m2 to have the same dtype, but got: ", toString(a.scalar_type()),
               " != ", toString(b.scalar_type()), ". Convert one of them with .to(dtype)");
  FACULA_CHECK(a.scalar_type() != ScalarType::Bool, DTypeError, op,
               ": not implemented for 'Bool'. Convert the matrices with .to(dtype) first");
  return a.scalar_type();
}

MatrixArg matrix_arg(const Tensor& t) {
  const TensorImpl* i = t.impl();
  size_t rank = i->sizes.size();
  MatrixArg m{i->data(), i->strides[rank - 2], i->strides[rank - 1]};
  if (rank == 3) m.batch_stride = i->strides[0];
  return m;
}

void run_product(const MatmulArgs& args, const Tensor& a, const Tensor& b, const Tensor& c, const char* op) {
  if (!c.is_cuda()) return call_kernel<void(const MatmulArgs&)>(OpId::mm, device_type(c), args);
  StorageImpl* storages[] = {a.impl()->storage.get(), b.impl()->storage.get(), c.impl()->storage.get()};
  gpu::matmul(args, {op, c.impl()->device.index(), storages});
}

// C = alpha A B + beta C into a row-major result, for matrices or batches of three dims.
MatmulArgs product_args(const Tensor& c, const Tensor& a, const Tensor& b, double alpha, double beta) {
  MatmulArgs args;
  args.dtype = a.scalar_type();
  size_t rank = sizes_of(a).size();
  args.batch = rank == 3 ? sizes_of(c)[0] : 1;
  args.m = sizes_of(a)[rank - 2];
  args.k = sizes_of(a)[rank - 1];
  args.n = sizes_of(b)[rank - 1];
  args.a = matrix_arg(a);
  args.b = matrix_arg(b);
  args.c = matrix_arg(c);
  args.alpha = alpha;
  args.beta = beta;
  return args;
}

void product_into(const Tensor& c, const Tensor& a, const Tensor& b, double alpha, double beta, const char* op) {
  run_product(product_args(c, a, b, alpha, beta), a, b, c, op);
}

// Whether a tensor is one row of n elements that lie side by side.
bool is_row(const Tensor& t, int64_t n) {
  const TensorImpl* i = t.impl();
  return i->dim() >= 1 && i->numel == n && i->sizes.back() == n && i->contiguous;
}

// Whether alpha and beta can be handed to the kernel, which takes doubles.
bool kernel_scalars(const Scalar& alpha, const Scalar& beta) { return !alpha.isComplex() && !beta.isComplex(); }

void check_matrix(const Tensor& t, int64_t rank, const char* op, const char* name) {
  FACULA_CHECK(t.dim() == rank, ShapeError, op, ": ", name, " must be a ",
               rank == 1   ? "vector"
               : rank == 2 ? "matrix"
                           : "batch of matrices (3 dims)",
               ", got shape ", to_text(t.sizes()));
}

void check_shapes(const Tensor& a, const Tensor& b, const char* op) {
  int64_t k = a.size(-1), other = b.size(-2);
  FACULA_CHECK(k == other, ShapeError, op, ": mat1 and mat2 shapes cannot be multiplied (", a.size(-2), "x", k, " and ",
               other, "x", b.size(-1),
               "). The columns of the first must match the rows of the second; maybe one of them wants .t()");
}

// The device of beta * self + alpha * (a @ b), of these sizes.
Device check_sum(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                 IntArrayRef sizes, const char* op) {
  ScalarType t = same_dtype(a, b, op);
  FACULA_CHECK(self.scalar_type() == t, DTypeError, op, ": self and mat2 must have the same dtype, but got ",
               toString(self.scalar_type()), " and ", toString(t));
  bool integral = isIntegralType(t, true);
  FACULA_CHECK(!integral || (!alpha.isFloatingPoint() && !beta.isFloatingPoint()), DTypeError, op,
               ": For integral input tensors, arguments alpha and beta must not be floating point numbers");
  Device device = common_device({&self, &a, &b}, op);
  DimVector joint = broadcast_sizes(self.sizes(), sizes, op);
  FACULA_CHECK(IntArrayRef(joint) == sizes, ShapeError, op,
               ": The expanded size of the tensor must match: self of shape ", to_text(self.sizes()),
               " does not broadcast to the result shape ", to_text(sizes));
  return device;
}

// beta * self + alpha * (a @ b), self broadcast to the result.
Tensor add_product(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                   IntArrayRef sizes, const char* op) {
  const Device device = check_sum(self, a, b, beta, alpha, sizes, op);
  const ScalarType t = a.scalar_type();
  if (device.is_meta()) return new_tensor(sizes, t, device, op);
  bool empty_sum = a.size(-1) == 0;
  if (!kernel_scalars(alpha, beta) || empty_sum) {
    Tensor product = new_tensor(sizes, t, device, op);
    product_into(product, a, b, 1, 0, op);
    product = product.mul(alpha);
    return beta.is_zero() ? product : product.add(self.mul(beta));
  }
  Tensor result = new_tensor(sizes, t, device, op);
  // A row that is added to all others needs no copy: the product adds it as it writes.
  if (device.is_cuda() && sizes.size() == 2 && beta.toDouble() == 1 && is_row(self, sizes.back())) {
    StorageImpl* storages[] = {self.impl()->storage.get(), a.impl()->storage.get(), b.impl()->storage.get(),
                               result.impl()->storage.get()};
    gpu::matmul_bias(product_args(result, a, b, alpha.toDouble(), 0), self.impl()->data(),
                     {op, device.index(), storages});
    return result;
  }
  if (!beta.is_zero()) copy_values(result, self.expand(sizes));
  product_into(result, a, b, alpha.toDouble(), beta.toDouble(), op);
  return result;
}

// An activation of beta * self + alpha * (a @ b); `before`, where given, becomes that sum.
Tensor activated_product(const Tensor& self, const Tensor& a, const Tensor& b, const Scalar& beta, const Scalar& alpha,
                         gpu::Activation activation, Tensor* before, const char* op) {
  check_matrix(a, 2, op, "mat1");
  check_matrix(b, 2, op, "mat2");
  check_shapes(a, b, op);
  const DimVector sizes{a.size(0), b.size(1)};
  const Device device = check_sum(self, a, b, beta, alpha, sizes, op);
  const ScalarType t = a.scalar_type();
  // A library adds the same row to all others, or nothing.
  if (device.is_cuda() && isFloatingType(t) && kernel_scalars(alpha, beta) &&
      (beta.is_zero() || (beta.toDouble() == 1 && is_row(self, sizes[1])))) {
    Tensor result = new_tensor(sizes, t, device, op), kept = before ? new_tensor(sizes, t, device, op) : result;
    const bool adds = !beta.is_zero();
    StorageImpl* storages[] = {(adds ? self : result).impl()->storage.get(), a.impl()->storage.get(),
                               b.impl()->storage.get(), result.impl()->storage.get(), kept.impl()->storage.get()};
    if (gpu::matmul_activation(product_args(result, a, b, alpha.toDouble(), 0), adds ? self.impl()->data() : nullptr,
                               activation, before ? kept.impl()->data() : nullptr, {op, device.index(), storages})) {
      if (before) *before = kept;
      return result;
    }
  }
  Tensor sum = add_product(self, a, b, beta, alpha, sizes, op);
  if (before) *before = sum;
  return pointwise(activation == gpu::Activation::Relu ? ScalarOp::relu : ScalarOp::gelu_tanh, {sum},
                   before ? Out::fresh() : Out::inplace(sum), op);
}

// A contiguous tensor that nobody else knows yet, with other sizes: unlike a view it has no base.
Tensor with_sizes(Tensor fresh, IntArrayRef sizes) {
  fresh.impl()->set_contiguous(sizes);
  return fresh;
}

// How many rows a tensor has when all dims but the last are one.
int64_t leading_rows(const Tensor& t) {
  int64_t rows = 1;
  for (size_t d = 0; d + 1 < sizes_of(t).size(); ++d) rows *= sizes_of(t)[d];
  return rows;
}

// Sum of a * b over the last dim, as one program: every byte is read once.
Tensor dot_rows(const Tensor& a, const Tensor& b, IntArrayRef kept, const char* op) {
  ScalarType t = a.scalar_type();
  // Narrow integers are summed in a wider type and wrap on the store, as sequential sums would.
  Program p;
  Value x = p.load(t), y = p.load(t);
  p.store(p.reduce(ReduceOp::Sum, p.apply(ScalarOp::mul, x, y)), t);
  Tensor result = new_tensor(kept, t, a.device(), op);
  if (result.is_meta() || result.numel() == 0) return result;
  DimVector sizes(kept);
  sizes.push_back(a.size(-1));
  if (sizes.back() == 0) {
    fill_values(result, Scalar(0));
    return result;
  }
  DimVector a_strides = broadcast_strides(a.sizes(), a.strides(), sizes),
            b_strides = broadcast_strides(b.sizes(), b.strides(), sizes), c_strides(result.strides());
  c_strides.push_back(0);
  ArrayArg loads[] = {{a.impl()->data(), a_strides.data()}, {b.impl()->data(), b_strides.data()}};
  ArrayArg stores[] = {{result.impl()->data(), c_strides.data()}};
  StorageImpl* storages[] = {a.impl()->storage.get(), b.impl()->storage.get(), result.impl()->storage.get()};
  kept_program(p).run_reduction(sizes, uint64_t{1} << (sizes.size() - 1), loads, {}, stores,
                                {a.impl()->device, op, storages});
  return result;
}

}  // namespace

namespace meaning {

Tensor mm(const Tensor& self, const Tensor& mat2) {
  check_matrix(self, 2, "mm", "self");
  check_matrix(mat2, 2, "mm", "mat2");
  check_shapes(self, mat2, "mm");
  ScalarType t = same_dtype(self, mat2, "mm");
  Tensor result = new_tensor({self.size(0), mat2.size(1)}, t, common_device({&self, &mat2}, "mm"), "mm");
  if (!result.is_meta()) product_into(result, self, mat2, 1, 0, "mm");
  return result;
}

Tensor bmm(const Tensor& self, const Tensor& mat2) {
  check_matrix(self, 3, "bmm", "batch1");
  check_matrix(mat2, 3, "bmm", "batch2");
  FACULA_CHECK(self.size(0) == mat2.size(0), ShapeError,
               "bmm: Expected size for first two dimensions of batch2 tensor to be: [", self.size(0), ", ",
               self.size(2), "] but got: [", mat2.size(0), ", ", mat2.size(1), "]. matmul broadcasts batches");
  check_shapes(self, mat2, "bmm");
  ScalarType t = same_dtype(self, mat2, "bmm");
  Tensor result =
      new_tensor({self.size(0), self.size(1), mat2.size(2)}, t, common_device({&self, &mat2}, "bmm"), "bmm");
  if (!result.is_meta()) product_into(result, self, mat2, 1, 0, "bmm");
  return result;
}

Tensor addmm(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  check_matrix(mat1, 2, "addmm", "mat1");
  check_matrix(mat2, 2, "addmm", "mat2");
  check_shapes(mat1, mat2, "addmm");
  return add_product(self, mat1, mat2, beta, alpha, DimVector{mat1.size(0), mat2.size(1)}, "addmm");
}

Tensor _addmm_relu(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                   const Scalar& alpha) {
  return activated_product(self, mat1, mat2, beta, alpha, gpu::Activation::Relu, nullptr, "_addmm_activation");
}

std::tuple<Tensor, Tensor> _addmm_gelu(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                                       const Scalar& alpha) {
  Tensor before;
  Tensor output =
      activated_product(self, mat1, mat2, beta, alpha, gpu::Activation::GeluTanh, &before, "_addmm_activation");
  return {output, before};
}

// A view has the tangents of its base, even if those came later.
static bool has_tangents(const Tensor& a, const Tensor& b, const Tensor& c, int flags) {
  if ((flags & (detail::kTracksTangent | detail::kTracksView)) == 0) return false;
  autograd::Inputs inputs;
  for (const Tensor* t : {&a, &b, &c}) inputs.add(*t);
  SmallVector<uint32_t, 2> levels;
  SmallVector<bool, 8> dual;
  autograd::find_levels(inputs, levels, dual);
  return !levels.empty();
}

Tensor _addmm_activation(const Tensor& self, const Tensor& mat1, const Tensor& mat2, const Scalar& beta,
                         const Scalar& alpha, bool use_gelu) {
  const int flags = autograd::tracked(self, mat1, mat2);
  if (flags & detail::kTracksBatch) {  // by parts: the products of a batch are one batched product
    const Tensor sum = facula::addmm(self, mat1, mat2, beta, alpha);
    return use_gelu ? facula::gelu(sum, "tanh") : facula::relu(sum);
  }
  if (!use_gelu) return facula::_addmm_relu(self, mat1, mat2, beta, alpha);
  const bool learns = GradMode::is_enabled() && (self.requires_grad() || mat1.requires_grad() || mat2.requires_grad());
  if (learns || has_tangents(self, mat1, mat2, flags))
    return std::get<0>(facula::_addmm_gelu(self, mat1, mat2, beta, alpha));
  return activated_product(self, mat1, mat2, beta, alpha, gpu::Activation::GeluTanh, nullptr, "_addmm_activation");
}

Tensor baddbmm(const Tensor& self, const Tensor& batch1, const Tensor& batch2, const Scalar& beta,
               const Scalar& alpha) {
  check_matrix(batch1, 3, "baddbmm", "batch1");
  check_matrix(batch2, 3, "baddbmm", "batch2");
  FACULA_CHECK(batch1.size(0) == batch2.size(0), ShapeError, "baddbmm: batch1 has ", batch1.size(0),
               " matrices, batch2 has ", batch2.size(0));
  check_shapes(batch1, batch2, "baddbmm");
  return add_product(self, batch1, batch2, beta, alpha, DimVector{batch1.size(0), batch1.size(1), batch2.size(2)},
                     "baddbmm");
}

Tensor mv(const Tensor& self, const Tensor& vec) {
  check_matrix(self, 2, "mv", "self");
  check_matrix(vec, 1, "mv", "vec");
  FACULA_CHECK(self.size(1) == vec.size(0), ShapeError, "mv: size mismatch, got input (", self.size(0), "x",
               self.size(1), "), vec (", vec.size(0), ")");
  same_dtype(self, vec, "mv");
  Device device = common_device({&self, &vec}, "mv");
  ScalarType t = self.scalar_type();
  int64_t m = self.size(0), k = self.size(1);
  bool runs = self.stride(0) == 1 || self.stride(1) == 1;
  if (device.is_cuda() && m > 0 && k > 0) {
    Tensor result = new_tensor({m, 1}, t, device, "mv");
    product_into(result, self, view_of(vec, {k, 1}, {vec.stride(0), 1}, vec.storage_offset()), 1, 0, "mv");
    result.impl()->set_contiguous({m});
    return result;
  }
  if ((t == kFloat || t == kDouble) && runs && m > 0 && k > 0 && has_kernel(OpId::mv, device.type())) {
    Tensor result = new_tensor({m}, t, device, "mv"), x = as_contiguous(vec);
    GemvArgs args{
        t, m, k, self.impl()->data(), self.stride(0), self.stride(1), x.impl()->data(), result.impl()->data()};
    call_kernel<void(const GemvArgs&)>(OpId::mv, device.type(), args);
    return result;
  }
  return dot_rows(self, vec, DimVector{self.size(0)}, "mv");
}

Tensor addmv(const Tensor& self, const Tensor& mat, const Tensor& vec, const Scalar& beta, const Scalar& alpha) {
  check_matrix(mat, 2, "addmv", "mat");
  check_matrix(vec, 1, "addmv", "vec");
  DimVector rows{mat.size(0)};
  FACULA_CHECK(IntArrayRef(broadcast_sizes(self.sizes(), rows, "addmv")) == IntArrayRef(rows), ShapeError,
               "addmv: self of shape ", to_text(self.sizes()), " does not broadcast to the result shape ",
               to_text(rows));
  FACULA_CHECK(self.scalar_type() == mat.scalar_type(), DTypeError,
               "addmv: self and mat must have the same dtype, but got ", toString(self.scalar_type()), " and ",
               toString(mat.scalar_type()));
  common_device({&self, &mat, &vec}, "addmv");
  Tensor product = facula::mv(mat, vec).mul(alpha);
  return beta.is_zero() ? product : product.add(self.mul(beta));
}

Tensor dot(const Tensor& self, const Tensor& tensor) {
  check_matrix(self, 1, "dot", "self");
  check_matrix(tensor, 1, "dot", "tensor");
  FACULA_CHECK(self.size(0) == tensor.size(0), ShapeError, "dot: inconsistent tensor size, expected tensor [",
               self.size(0), "] and src [", tensor.size(0), "] to have the same number of elements");
  same_dtype(self, tensor, "dot");
  common_device({&self, &tensor}, "dot");
  return dot_rows(self, tensor, DimVector{}, "dot");
}

Tensor vdot(const Tensor& self, const Tensor& other) {
  return facula::dot(self.is_complex() ? self.conj() : self, other);
}

Tensor matmul(const Tensor& self, const Tensor& other) {
  int64_t ra = self.dim(), rb = other.dim();
  FACULA_CHECK(ra > 0 && rb > 0, ShapeError, "matmul: both arguments to matmul need to be at least 1D, but they are ",
               ra, "D and ", rb, "D. Use mul for numbers");
  if (ra == 1 && rb == 1) return facula::dot(self, other);
  if (ra == 2 && rb == 1) return facula::mv(self, other);
  if (ra == 1 && rb == 2) return facula::mv(other.t(), self);
  if (ra == 2 && rb == 2) {
    check_shapes(self, other, "matmul");
    same_dtype(self, other, "matmul");
    return facula::mm(self, other);
  }
  if (ra == 1 || rb == 1) {
    Tensor product = ra == 1 ? facula::matmul(self.unsqueeze(0), other) : facula::matmul(self, other.unsqueeze(-1));
    DimVector sizes(product.sizes());
    sizes.erase(sizes.size() - (ra == 1 ? 2 : 1));
    return with_sizes(std::move(product), sizes);
  }
  check_shapes(self, other, "matmul");
  ScalarType t = same_dtype(self, other, "matmul");
  // One matrix on the right: all rows on the left are one tall matrix.
  if (rb == 2) {
    DimVector sizes(self.sizes());
    sizes.back() = other.size(1);
    return with_sizes(facula::mm(self.reshape({leading_rows(self), self.size(-1)}), other), sizes);
  }
  // Batches broadcast through offsets: nothing is copied to expand it.
  size_t ba = static_cast<size_t>(ra) - 2, bb = static_cast<size_t>(rb) - 2;
  DimVector batch = broadcast_sizes(self.sizes().slice(0, ba), other.sizes().slice(0, bb), "matmul");
  DimVector sizes(batch);
  sizes.push_back(self.size(-2));
  sizes.push_back(other.size(-1));
  Tensor result = new_tensor(sizes, t, common_device({&self, &other}, "matmul"), "matmul");
  if (result.is_meta() || result.numel() == 0) return result;
  int64_t count = 1;
  for (int64_t s : batch) count *= s;
  auto offsets = [&](const Tensor& x, size_t rank) {
    DimVector strides = broadcast_strides(x.sizes().slice(0, rank), x.strides().slice(0, rank), batch);
    std::vector<int64_t> out(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i, offset = 0;
      for (size_t d = batch.size(); d-- > 0; rest /= batch[d]) offset += rest % batch[d] * strides[d];
      out[static_cast<size_t>(i)] = offset;
    }
    return out;
  };
  std::vector<int64_t> a_offsets = offsets(self, ba), b_offsets = offsets(other, bb);
  MatmulArgs args;
  args.dtype = t;
  args.batch = count;
  args.m = self.size(-2);
  args.k = self.size(-1);
  args.n = other.size(-1);
  args.a = matrix_arg(self);
  args.b = matrix_arg(other);
  args.c = matrix_arg(result);
  args.a.batch_offsets = a_offsets.data();
  args.b.batch_offsets = b_offsets.data();
  args.c.batch_stride = args.m * args.n;
  run_product(args, self, other, result, "matmul");
  return result;
}

Tensor inner(const Tensor& self, const Tensor& other) {
  if (self.dim() == 0 || other.dim() == 0) return self.mul(other);
  FACULA_CHECK(self.size(-1) == other.size(-1), ShapeError,
               "inner: the last dimension must match on both input tensors but got shapes ", to_text(self.sizes()),
               " and ", to_text(other.sizes()));
  return facula::tensordot(self, other, {-1}, {-1});
}

Tensor outer(const Tensor& self, const Tensor& vec2) {
  check_matrix(self, 1, "outer", "self");
  check_matrix(vec2, 1, "outer", "vec2");
  return self.unsqueeze(1).mul(vec2);
}

Tensor linear(const Tensor& input, const Tensor& weight, const std::optional<Tensor>& bias) {
  FACULA_CHECK(weight.dim() == 2 || weight.dim() == 1, ShapeError,
               "linear: weight must have 1 or 2 dimensions, got shape ", to_text(weight.sizes()));
  FACULA_CHECK(input.dim() >= 1 && input.size(-1) == weight.size(-1), ShapeError, "linear: input of shape ",
               to_text(input.sizes()), " needs a last dimension of ", weight.size(-1), ", the in_features of weight ",
               to_text(weight.sizes()));
  if (weight.dim() == 1) {
    Tensor product = facula::matmul(input, weight);
    return bias && bias->defined() ? product.add(*bias) : product;
  }
  bool has_bias = bias && bias->defined();
  DimVector sizes(input.sizes());
  sizes.back() = weight.size(0);
  Tensor rows = input.dim() == 2 ? input : input.reshape({leading_rows(input), input.size(-1)});
  Tensor product = has_bias && bias->dim() <= 1 ? facula::addmm(*bias, rows, weight.t()) : facula::mm(rows, weight.t());
  Tensor result = input.dim() == 2 ? product : with_sizes(std::move(product), sizes);
  return has_bias && bias->dim() > 1 ? result.add(*bias) : result;
}

Tensor _int_mm(const Tensor& self, const Tensor& mat2) {
  check_matrix(self, 2, "_int_mm", "self");
  check_matrix(mat2, 2, "_int_mm", "mat2");
  check_shapes(self, mat2, "_int_mm");
  FACULA_CHECK(self.scalar_type() == kChar && mat2.scalar_type() == kChar, DTypeError,
               "_int_mm: expected self and mat2 to be int8, got ", toString(self.scalar_type()), " and ",
               toString(mat2.scalar_type()));
  Tensor result = new_tensor({self.size(0), mat2.size(1)}, kInt, common_device({&self, &mat2}, "_int_mm"), "_int_mm");
  if (result.is_meta()) return result;
  if (self.size(1) == 0) {
    fill_values(result, Scalar(0));
    return result;
  }
  Tensor a = as_contiguous(self), b = as_contiguous(mat2);
  MatmulArgs args;
  args.dtype = kChar;
  args.m = a.size(0);
  args.k = a.size(1);
  args.n = b.size(1);
  args.a = matrix_arg(a);
  args.b = matrix_arg(b);
  args.c = matrix_arg(result);
  if (result.is_cuda()) {
    StorageImpl* storages[] = {a.impl()->storage.get(), b.impl()->storage.get(), result.impl()->storage.get()};
    gpu::matmul_int8(args, {"_int_mm", result.impl()->device.index(), storages});
    return result;
  }
  call_kernel<void(const MatmulArgs&)>(OpId::_int_mm, device_type(result), args);
  return result;
}

}  // namespace meaning
}  // namespace facula
