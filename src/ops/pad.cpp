// Padding: constant, reflect, replicate and circular. The middle is one strided copy; each border is another one, out
// of what is written already.
#include "ops/shape_checks.h"

#include "cpu/copy.h"

#include <algorithm>

namespace facula::meaning {

namespace {

// Pads as given from the last dim on, spread over all dims of the tensor. Negative numbers cut.
struct Padding {
  DimVector before, after, sizes;

  Padding(const TensorImpl& i, IntArrayRef pad, const char* op)
      : before(i.sizes.size()), after(i.sizes.size()), sizes(i.sizes) {
    FACULA_CHECK(pad.size() % 2 == 0, ValueError, op, ": Padding length must be divisible by 2, got ", to_text(pad));
    FACULA_CHECK(pad.size() / 2 <= i.sizes.size(), ValueError, op,
                 ": Length of pad should be no more than twice the number of dimensions of the "
                 "input. Pad length is ",
                 pad.size(), " while the input has ", i.dim(), " dimensions.");
    for (size_t k = 0; k < pad.size() / 2; ++k) {
      size_t d = i.sizes.size() - 1 - k;
      before[d] = pad[2 * k];
      after[d] = pad[2 * k + 1];
      bool overflow = __builtin_add_overflow(sizes[d], before[d], &sizes[d]);
      overflow |= __builtin_add_overflow(sizes[d], after[d], &sizes[d]);
      FACULA_CHECK(!overflow, ShapeError, op, ": the input size ", i.sizes[d], " with padding ", before[d], " and ",
                   after[d], " at dimension ", d, " overflows 64 bits. Check the arithmetic that produced the padding");
      FACULA_CHECK(sizes[d] >= 0, ShapeError, op, ": The input size ", i.sizes[d], ", plus negative padding ",
                   before[d], " and ", after[d],
                   " resulted in a negative output size, which is invalid. Check dimension ", d, " of your input.");
    }
  }

  // How many entries of the input remain along a dim.
  int64_t kept(const TensorImpl& i, size_t d) const {
    return std::max<int64_t>(0, i.sizes[d] + std::min<int64_t>(before[d], 0) + std::min<int64_t>(after[d], 0));
  }
};

// Copies what remains of the input to its place. False when nothing remains.
bool copy_middle(const Tensor& out, const Tensor& self, const Padding& p) {
  const TensorImpl &o = *out.impl(), &i = *self.impl();
  DimVector sizes(i.sizes.size());
  int64_t from = 0, to = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    sizes[d] = p.kept(i, d);
    if (sizes[d] == 0) return false;
    from += std::max<int64_t>(-p.before[d], 0) * i.strides[d];
    to += std::max<int64_t>(p.before[d], 0) * o.strides[d];
  }
  copy_part(out, to, o.strides, self, from, i.strides, sizes);
  return true;
}

// A box inside the output: the borders before and after one dim, over the given extents of the others.
struct Box {
  DimVector start, sizes;
};

// Fills the `count` slices of a box along `d` that start at `at` of the output from others of the output: slice k from
// `source` + k * `step`.
void copy_slices(const Tensor& out, const Box& box, size_t d, int64_t at, int64_t count, int64_t source, int64_t step) {
  if (count <= 0) return;
  const TensorImpl& o = *out.impl();
  DimVector sizes(box.sizes), strides(o.strides);
  int64_t base = 0;
  for (size_t k = 0; k < sizes.size(); ++k)
    if (k != d) base += box.start[k] * o.strides[k];
  sizes[d] = count;
  strides[d] = o.strides[d] * step;
  copy_part(out, base + at * o.strides[d], o.strides, out, base + source * o.strides[d], strides, sizes);
}

void fill_slices(const Tensor& out, const Box& box, size_t d, int64_t at, int64_t count, const Scalar& value) {
  if (count <= 0) return;
  const TensorImpl& o = *out.impl();
  DimVector sizes(box.sizes);
  sizes[d] = count;
  int64_t offset = at * o.strides[d];
  for (size_t k = 0; k < sizes.size(); ++k)
    if (k != d) offset += box.start[k] * o.strides[k];
  fill_values(view_of(out, sizes, o.strides, offset), value);
}

// A fresh tensor of the padded sizes, channels-last when the input is.
Tensor padded_result(const Tensor& self, const Padding& p, const char* op) {
  const TensorImpl& i = *self.impl();
  MemoryFormat format = self.suggest_memory_format();
  if (format == MemoryFormat::Contiguous) return new_tensor(p.sizes, i.dtype, i.device, op);
  checked_numel(p.sizes, elementSize(i.dtype), op);
  return new_tensor_strided(p.sizes, strides_for(p.sizes, format, op), i.dtype, i.device, op);
}

// Calls `border(box, dim)` for the borders of each padded dim. The box covers, along dims handled before, their whole
// padded extent, and along the others the middle only: so that every entry outside the middle is in one border, and all
// that a border is made from exists.
template <class F>
void each_border(const TensorImpl& i, const Padding& p, F border) {
  Box box{DimVector(i.sizes.size()), DimVector(i.sizes.size())};
  for (size_t d = 0; d < i.sizes.size(); ++d) {
    box.start[d] = std::max<int64_t>(p.before[d], 0);
    box.sizes[d] = p.kept(i, d);
  }
  for (size_t d = i.sizes.size(); d-- > 0;) {
    if (p.before[d] > 0 || p.after[d] > 0) border(box, d);
    box.start[d] = 0;
    box.sizes[d] = p.sizes[d];
  }
}

Tensor constant_padded(const Tensor& self, IntArrayRef pad, const Scalar& value, const char* op) {
  const TensorImpl& i = impl_of(self, op);
  Padding p(i, pad, op);
  check_fits(value, i.dtype, op);
  Tensor out = padded_result(self, p, op);
  if (i.device.is_meta() || out.impl()->numel == 0) return out;
  if (!copy_middle(out, self, p)) {
    fill_values(out, value);
    return out;
  }
  each_border(i, p, [&](const Box& box, size_t d) {
    fill_slices(out, box, d, 0, p.before[d], value);
    fill_slices(out, box, d, p.sizes[d] - std::max<int64_t>(p.after[d], 0), p.after[d], value);
  });
  return out;
}

enum class Mode { Reflect, Replicate, Circular };

Tensor mirrored(const Tensor& self, IntArrayRef pad, Mode mode, const char* name) {
  const TensorImpl& i = *self.impl();
  Padding p(i, pad, "pad");
  size_t padded = pad.size() / 2, rank = i.sizes.size();
  FACULA_CHECK(padded >= 1 && padded <= 3 && (rank == padded + 1 || rank == padded + 2), NotSupportedError,
               "pad: Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now; mode \"", name,
               "\" with ", pad.size(), " numbers takes an input of ", padded + 1, " or ", padded + 2,
               " dimensions, got sizes ", to_text(i.sizes));
  for (size_t d = rank == padded + 2 ? 1 : 0; d < rank; ++d)
    FACULA_CHECK(i.sizes[d] > 0, ShapeError,
                 "pad: Expected an input with possibly 0 batch size and other non-zero dimensions for mode \"", name,
                 "\", but got sizes ", to_text(i.sizes));
  for (size_t d = rank - padded; d < rank; ++d) {
    int64_t most = std::max(p.before[d], p.after[d]), kept = p.kept(i, d);
    FACULA_CHECK(p.sizes[d] > 0 && kept > 0, ShapeError,
                 "pad: Negative padding value is resulting in an empty dimension ", d, ": sizes ", to_text(i.sizes),
                 ", padding ", p.before[d], " and ", p.after[d]);
    FACULA_CHECK(mode != Mode::Reflect || most < kept, ValueError,
                 "pad: Padding size should be less than the corresponding input dimension, but got: padding (",
                 p.before[d], ", ", p.after[d], ") at dimension ", d, " of input ", to_text(i.sizes));
    FACULA_CHECK(mode != Mode::Circular || most <= kept, ValueError,
                 "pad: Padding value causes wrapping around more than once: padding (", p.before[d], ", ", p.after[d],
                 ") at dimension ", d, " of input ", to_text(i.sizes));
  }
  Tensor out = padded_result(self, p, "pad");
  const TensorImpl& o = *out.impl();
  if (o.device.is_meta() || o.numel == 0) return out;
  copy_middle(out, self, p);
  each_border(i, p, [&](const Box& box, size_t d) {
    int64_t before = std::max<int64_t>(p.before[d], 0), after = p.after[d], kept = p.kept(i, d), first = before,
            end = before + kept;
    switch (mode) {
      case Mode::Replicate:
        copy_slices(out, box, d, 0, before, first, 0);
        copy_slices(out, box, d, end, after, end - 1, 0);
        break;
      case Mode::Reflect:
        copy_slices(out, box, d, 0, before, first + before, -1);
        copy_slices(out, box, d, end, after, end - 2, -1);
        break;
      case Mode::Circular:
        copy_slices(out, box, d, 0, before, end - before, 1);
        copy_slices(out, box, d, end, after, first, 1);
        break;
    }
  });
  return out;
}

}  // namespace

Tensor constant_pad_nd(const Tensor& self, IntArrayRef pad, const Scalar& value) {
  return constant_padded(self, pad, value, "constant_pad_nd");
}

Tensor pad(const Tensor& self, IntArrayRef pad, std::string_view mode, std::optional<double> value) {
  impl_of(self, "pad");
  if (mode == "constant") return constant_padded(self, pad, Scalar(value.value_or(0.0)), "pad");
  bool known = mode == "reflect" || mode == "replicate" || mode == "circular";
  FACULA_CHECK(known, ValueError, "pad: Unrecognised padding mode \"", mode,
               "\"; it is one of \"constant\", \"reflect\", \"replicate\", \"circular\"");
  FACULA_CHECK(!value || *value == 0, ValueError, "pad: Padding mode \"", mode,
               "\" doesn't take in value argument, got ", value.value_or(0));
  Mode m = mode == "reflect" ? Mode::Reflect : mode == "replicate" ? Mode::Replicate : Mode::Circular;
  return mirrored(self, pad, m, m == Mode::Reflect ? "reflect" : m == Mode::Replicate ? "replicate" : "circular");
}

}  // namespace facula::meaning
