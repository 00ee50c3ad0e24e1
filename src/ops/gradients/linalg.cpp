// Gradients of products of vectors and matrices.
#include "ops/generated/gradients.h"
#include "ops/gradients/formula.h"

#include "core/shape.h"

#include <facula/tensors.h>

namespace facula::vjp {

namespace {

// The conjugate transpose of matrices.
Tensor adjoint(const Tensor& matrices) { return conjugate(matrices).transpose(-2, -1); }

int64_t product_of(IntArrayRef sizes) {
  int64_t count = 1;
  for (const int64_t s : sizes) count *= s;
  return count;
}

// A vector of rows from all dims but the last.
Tensor as_rows(const Tensor& t) {
  if (t.dim() == 2) return t;
  return t.reshape({product_of(t.sizes().slice(0, t.sizes().size() - 1)), t.size(-1)});
}

// With leading dims of size 1 up to `rank`.
Tensor with_rank(const Tensor& t, size_t rank) {
  if (t.sizes().size() == rank) return t;
  DimVector sizes(rank - t.sizes().size(), 1);
  for (const int64_t s : t.sizes()) sizes.push_back(s);
  return t.reshape(sizes);
}

// matmul(a, b) for the gradient of an operand of these sizes. Where that operand was broadcast, products are summed over
// the batch: the sum joins the one within the products, unless arranging that copies more than the products would take.
Tensor summed_product(const Tensor& a, const Tensor& b, IntArrayRef sizes) {
  const size_t rank = std::max(a.sizes().size(), b.sizes().size()), batch_rank = rank - 2;
  const auto size_at = [&](IntArrayRef of, size_t d) {
    const size_t lead = rank - of.size();
    return d < lead ? int64_t{1} : of[d - lead];
  };
  DimVector summed, kept;
  int64_t product_count = a.size(-2) * b.size(-1), sum_length = a.size(-1);
  for (size_t d = 0; d < batch_rank; ++d) {
    const int64_t full = size_at(a.sizes(), d) == 1 ? size_at(b.sizes(), d) : size_at(a.sizes(), d);
    product_count *= full;
    if (full != 1 && size_at(sizes, d) == 1) {
      summed.push_back(static_cast<int64_t>(d));
      sum_length *= full;
    } else {
      kept.push_back(static_cast<int64_t>(d));
    }
  }
  if (summed.empty()) {
    const Tensor product = facula::matmul(a, b);
    return product.sizes() == sizes ? product : product.reshape(sizes);
  }
  const auto rows = static_cast<int64_t>(batch_rank), columns = rows + 1;
  DimVector a_order(kept), b_order(kept), a_sizes, b_sizes;
  for (const int64_t d : kept) {
    a_sizes.push_back(size_at(a.sizes(), static_cast<size_t>(d)));
    b_sizes.push_back(size_at(b.sizes(), static_cast<size_t>(d)));
  }
  a_order.push_back(rows);
  for (const int64_t d : summed) {
    a_order.push_back(d);
    b_order.push_back(d);
  }
  a_order.push_back(columns);
  b_order.push_back(rows);
  b_order.push_back(columns);
  a_sizes.push_back(a.size(-2));
  a_sizes.push_back(sum_length);
  b_sizes.push_back(sum_length);
  b_sizes.push_back(b.size(-1));
  const Tensor left = with_rank(a, rank).permute(a_order), right = with_rank(b, rank).permute(b_order);
  int64_t copied = 0;
  if (!view_strides(left.sizes(), left.strides(), a_sizes)) copied += left.numel();
  if (!view_strides(right.sizes(), right.strides(), b_sizes)) copied += right.numel();
  if (copied > product_count) return facula::matmul(a, b);
  return facula::matmul(left.reshape(a_sizes), right.reshape(b_sizes)).reshape(sizes);
}

}  // namespace

Tensor mm_self(const Tensor& grad, const Tensor& mat2) { return grad.mm(adjoint(mat2)); }
Tensor mm_mat2(const Tensor& grad, const Tensor& self) { return adjoint(self).mm(grad); }

Tensor bmm_self(const Tensor& grad, const Tensor& mat2) { return grad.bmm(adjoint(mat2)); }
Tensor bmm_mat2(const Tensor& grad, const Tensor& self) { return adjoint(self).bmm(grad); }

Tensor addmm_self(const Tensor& grad, const Scalar& beta) { return scaled_by(grad, beta); }
Tensor addmm_mat1(const Tensor& grad, const Tensor& mat2, const Scalar& alpha) {
  return scaled_by(mm_self(grad, mat2), alpha);
}
Tensor addmm_mat2(const Tensor& grad, const Tensor& mat1, const Scalar& alpha) {
  return scaled_by(mm_mat2(grad, mat1), alpha);
}

namespace {

// From the gradient of beta self + alpha mat1 mat2 to those of its tensors.
std::array<Tensor, 3> sum_gradients(std::array<bool, 3> needs, const Tensor& grad, const Tensor& mat1,
                                    const Tensor& mat2, const Scalar& beta, const Scalar& alpha) {
  return {needs[0] ? addmm_self(grad, beta) : Tensor(), needs[1] ? addmm_mat1(grad, mat2, alpha) : Tensor(),
          needs[2] ? addmm_mat2(grad, mat1, alpha) : Tensor()};
}

}  // namespace

std::array<Tensor, 3> _addmm_relu(std::array<bool, 3> needs, const Tensor& grad, const Tensor& mat1, const Tensor& mat2,
                                  const Tensor& result, const Scalar& beta, const Scalar& alpha) {
  return sum_gradients(needs, relu_self(grad, result), mat1, mat2, beta, alpha);
}

std::array<Tensor, 3> _addmm_gelu(std::array<bool, 3> needs, ArrayRef<Tensor> grads, const Tensor& mat1,
                                  const Tensor& mat2, const Tensor& before, const Scalar& beta, const Scalar& alpha) {
  Tensor grad = grads[1];
  if (grads[0].defined()) {
    const Tensor through = gelu_self(grads[0], before, "tanh");
    grad = grad.defined() ? grad + through : through;
  }
  return sum_gradients(needs, grad, mat1, mat2, beta, alpha);
}

Tensor baddbmm_self(const Tensor& grad, const Scalar& beta) { return scaled_by(grad, beta); }
Tensor baddbmm_batch1(const Tensor& grad, const Tensor& batch2, const Scalar& alpha) {
  return scaled_by(bmm_self(grad, batch2), alpha);
}
Tensor baddbmm_batch2(const Tensor& grad, const Tensor& batch1, const Scalar& alpha) {
  return scaled_by(bmm_mat2(grad, batch1), alpha);
}

Tensor mv_self(const Tensor& grad, const Tensor& vec) { return grad.unsqueeze(1) * conjugate(vec); }
Tensor mv_vec(const Tensor& grad, const Tensor& self) { return adjoint(self).mv(grad); }

Tensor addmv_self(const Tensor& grad, const Scalar& beta) { return scaled_by(grad, beta); }
Tensor addmv_mat(const Tensor& grad, const Tensor& vec, const Scalar& alpha) {
  return mv_self(scaled_by(grad, alpha), vec);
}
Tensor addmv_vec(const Tensor& grad, const Tensor& mat, const Scalar& alpha) {
  return scaled_by(mv_vec(grad, mat), alpha);
}

Tensor dot_self(const Tensor& grad, const Tensor& tensor) { return grad * conjugate(tensor); }
Tensor dot_tensor(const Tensor& grad, const Tensor& self) { return grad * conjugate(self); }

Tensor matmul_self(const Tensor& grad, IntArrayRef self_sizes, const Tensor& other) {
  const bool row = self_sizes.size() == 1;
  if (other.dim() == 1) return (row ? grad : grad.unsqueeze(-1)) * conjugate(other);
  if (!row) return summed_product(grad, adjoint(other), self_sizes);
  if (other.dim() == 2) return conjugate(other).mv(grad);
  return summed_product(grad.unsqueeze(-2), adjoint(other), DimVector{1, self_sizes[0]});
}

Tensor matmul_other(const Tensor& grad, const Tensor& self, IntArrayRef other_sizes) {
  const bool column = other_sizes.size() == 1;
  if (self.dim() == 1) {
    if (column) return grad * conjugate(self);
    return conjugate(self).unsqueeze(-1) * grad.unsqueeze(-2);
  }
  if (column) return adjoint(as_rows(self)).mv(grad.reshape({grad.numel()}));
  return summed_product(adjoint(self), grad, other_sizes);
}

Tensor linear_input(const Tensor& grad, const Tensor& weight) {
  if (weight.dim() == 1) return grad.unsqueeze(-1) * conjugate(weight);
  return grad.matmul(conjugate(weight));
}

Tensor linear_weight(const Tensor& grad, const Tensor& input, IntArrayRef weight_sizes) {
  const Tensor rows = as_rows(input);
  DimVector product(input.sizes());
  if (weight_sizes.size() == 1) product.pop_back();
  else product.back() = weight_sizes[0];
  // A bias of more dims or larger ones than the product has stretched it.
  Tensor incoming = grad;
  if (grad.sizes() != IntArrayRef(product)) {
    DimVector stretched;
    const size_t lead = grad.sizes().size() - product.size();
    for (size_t d = 0; d < grad.sizes().size(); ++d)
      if (d < lead || product[d - lead] != grad.sizes()[d]) stretched.push_back(static_cast<int64_t>(d));
    incoming = grad.sum(IntArrayRef(stretched), true);
  }
  if (weight_sizes.size() == 1) return adjoint(rows).mv(incoming.reshape({rows.size(0)}));
  return incoming.reshape({rows.size(0), weight_sizes[0]}).t().mm(conjugate(rows));
}

Tensor linear_bias(const Tensor& grad) { return grad; }

}  // namespace facula::vjp
