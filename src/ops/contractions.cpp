// What products over chosen dimensions mean, written with other ops: tensordot, kron and cross.
#include "ops/common.h"

#include <algorithm>

namespace facula::meaning {

Tensor tensordot(const Tensor& self, const Tensor& other, IntArrayRef dims_self, IntArrayRef dims_other) {
  FACULA_CHECK(dims_self.size() == dims_other.size(), ShapeError,
               "tensordot: both dimension lists should have same length, got ", to_text(dims_self), " and ",
               to_text(dims_other));
  DimVector da = wrap_dims(dims_self, self.dim(), "tensordot"), db = wrap_dims(dims_other, other.dim(), "tensordot");
  Tensor a = self, b = other;
  for (size_t i = 0; i < da.size(); ++i) {
    int64_t x = self.size(da[i]), y = other.size(db[i]);
    if (x == y) continue;
    // A size of one stretches: the other side is summed.
    FACULA_CHECK(x == 1 || y == 1, ShapeError, "tensordot: contracted dimensions need to match, but first has size ", x,
                 " in dim ", da[i], " and second has size ", y, " in dim ", db[i]);
    if (y == 1) a = a.sum({da[i]}, true);
    else b = b.sum({db[i]}, true);
  }
  auto split = [](const Tensor& t, const DimVector& contracted, bool contracted_last, DimVector& free_sizes,
                  int64_t& k) {
    DimVector order;
    k = 1;
    for (int64_t d : contracted) k *= t.size(d);
    auto free_dims = [&] {
      for (int64_t d = 0; d < t.dim(); ++d)
        if (std::find(contracted.begin(), contracted.end(), d) == contracted.end()) {
          order.push_back(d);
          free_sizes.push_back(t.size(d));
        }
    };
    if (contracted_last) free_dims();
    for (int64_t d : contracted) order.push_back(d);
    if (!contracted_last) free_dims();
    int64_t rest = 1;
    for (int64_t s : free_sizes) rest *= s;
    Tensor p = t.permute(order);
    return contracted_last ? p.reshape({rest, k}) : p.reshape({k, rest});
  };
  DimVector sizes;
  int64_t k = 1;
  Tensor left = split(a, da, true, sizes, k);
  DimVector right_sizes;
  Tensor right = split(b, db, false, right_sizes, k);
  for (int64_t s : right_sizes) sizes.push_back(s);
  return facula::mm(left, right).reshape(sizes);
}

Tensor kron(const Tensor& self, const Tensor& other) {
  int64_t rank = std::max(self.dim(), other.dim());
  DimVector a, b, sizes;
  for (int64_t d = 0; d < rank; ++d) {
    int64_t x = d < rank - self.dim() ? 1 : self.size(d - (rank - self.dim()));
    int64_t y = d < rank - other.dim() ? 1 : other.size(d - (rank - other.dim()));
    a.push_back(x);
    a.push_back(1);
    b.push_back(1);
    b.push_back(y);
    sizes.push_back(x * y);
  }
  return self.reshape(a).mul(other.reshape(b)).reshape(sizes);
}

Tensor cross(const Tensor& self, const Tensor& other, std::optional<int64_t> dim) {
  DimVector sizes = broadcast_sizes(self.sizes(), other.sizes(), "cross");
  same_device({&self, &other}, "cross");
  int64_t d = -1;
  if (dim) {
    d = wrap_dim(*dim, static_cast<int64_t>(sizes.size()), "cross");
  } else {
    for (size_t i = 0; i < sizes.size() && d < 0; ++i)
      if (sizes[i] == 3) d = static_cast<int64_t>(i);
  }
  FACULA_CHECK(d >= 0 && sizes[static_cast<size_t>(d)] == 3, ShapeError, "cross: inputs dimension ", d,
               " must have length 3, shapes are ", to_text(self.sizes()), " and ", to_text(other.sizes()));
  Tensor a = self.expand(sizes), b = other.expand(sizes);
  auto part = [&](const Tensor& t, int64_t i) { return t.select(d, i); };
  auto minor = [&](int64_t i, int64_t j) { return part(a, i).mul(part(b, j)).sub(part(a, j).mul(part(b, i))); };
  return facula::stack({minor(1, 2), minor(2, 0), minor(0, 1)}, d);
}

}  // namespace facula::meaning
