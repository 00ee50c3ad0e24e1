// Tensors as text, in libtorch's layout: one line per entry or row, long rows split by columns, then dtype and sizes. How scalars, shapes
// and errors read is in core/text.cpp.
#include "autograd/batch.h"
#include "ops/common.h"

#include <cmath>
#include <iomanip>
#include <iostream>
#include <sstream>

namespace facula {
namespace {

// Puts the stream's format back.
class FormatGuard {
 public:
  explicit FormatGuard(std::ostream& out) : out_(out), saved_(nullptr) { saved_.copyfmt(out); }
  FormatGuard(const FormatGuard&) = delete;
  FormatGuard& operator=(const FormatGuard&) = delete;
  ~FormatGuard() { out_.copyfmt(saved_); }

 private:
  std::ostream& out_;
  std::ios saved_;
};

// How the entries of one block are written: divided by `scale`, in `width` characters.
struct NumberFormat {
  double scale = 1;
  int width = 0;
};

// Digits before the point; not positive for numbers below 0.1.
int magnitude(double x) { return x == 0 ? 1 : static_cast<int>(std::floor(std::log10(x))) + 1; }

// Chooses one format for all entries and sets the stream to it. As in libtorch the largest entry is looked for among signed numbers, but
// for the first: a large negative number may be wider than its column, and the text is the same.
NumberFormat choose_format(std::ostream& out, const double* values, int64_t count) {
  bool whole = true, found = false;
  double smallest = 1, largest = 1;
  for (int64_t i = 0; i < count; ++i) {
    const double x = values[i];
    if (!std::isfinite(x)) continue;
    whole = whole && x == std::ceil(x);
    if (!found) smallest = largest = std::abs(x);
    smallest = std::min(smallest, std::abs(x));
    largest = std::max(largest, x);
    found = true;
  }
  const int low = magnitude(smallest), high = magnitude(largest);
  if (whole) {
    if (high <= 9) {
      out << std::defaultfloat;
      return {1, high + 1};
    }
    out << std::scientific << std::setprecision(4);
    return {1, 11};
  }
  if (high - low > 4) {
    out << std::scientific << std::setprecision(4);
    return {1, std::abs(high) > 99 || std::abs(low) > 99 ? 12 : 11};
  }
  out << std::fixed << std::setprecision(4);
  if (high > 5 || high < 0) return {std::pow(10.0, high - 1), 7};
  return {1, high == 0 ? 7 : high + 6};
}

void print_scale(std::ostream& out, double scale) {
  FormatGuard guard(out);
  out << std::defaultfloat << scale << " *\n";
}

void print_vector(std::ostream& out, const double* values, int64_t count) {
  const NumberFormat format = choose_format(out, values, count);
  if (format.scale != 1) print_scale(out, format.scale);
  for (int64_t i = 0; i < count; ++i) out << std::setw(format.width) << values[i] / format.scale << '\n';
}

void print_matrix(std::ostream& out, const double* values, int64_t rows, int64_t columns, int64_t line_size,
                  int64_t indent) {
  const NumberFormat format = choose_format(out, values, rows * columns);
  const std::string margin(static_cast<size_t>(indent), ' ');
  const int64_t fit = std::max<int64_t>(1, (line_size - indent) / (format.width + 1));
  out << margin;
  for (int64_t first = 0; first < columns; first += fit) {
    const int64_t end = std::min(first + fit, columns);
    if (fit < columns) {
      if (first != 0) out << '\n';
      out << "Columns " << first + 1 << " to " << end << margin;
    }
    if (format.scale != 1) {
      print_scale(out, format.scale);
      out << margin;
    }
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = first; c < end; ++c)
        out << (c == first ? "" : " ") << std::setw(format.width) << values[r * columns + c] / format.scale;
      out << '\n';
      if (r + 1 < rows) out << margin << (format.scale != 1 ? " " : "");
    }
  }
}

// The matrices of the last two dims one after the other; the first dim counts fastest.
void print_slices(std::ostream& out, const double* values, IntArrayRef sizes, int64_t line_size) {
  const size_t outer = sizes.size() - 2;
  const int64_t rows = sizes[outer], columns = sizes[outer + 1];
  DimVector counter(outer), steps(outer);
  int64_t step = rows * columns, slices = 1;
  for (size_t d = outer; d-- > 0;) {
    steps[d] = step;
    step *= sizes[d];
    slices *= sizes[d];
  }
  for (int64_t s = 0; s < slices; ++s) {
    if (s != 0) out << '\n';
    out << '(';
    int64_t at = 0;
    for (size_t d = 0; d < outer; ++d) {
      out << counter[d] + 1 << ',';
      at += counter[d] * steps[d];
    }
    out << ".,.) = \n";
    print_matrix(out, values + at, rows, columns, line_size, 1);
    for (size_t d = 0; d < outer && ++counter[d] == sizes[d]; ++d) counter[d] = 0;
  }
}

void print_values(std::ostream& out, const Tensor& tensor, int64_t line_size) {
  // A number of at most 53 bits is exact in double; of complex numbers the real part is shown.
  const Tensor numbers = as_contiguous(as_dtype(tensor.cpu(), kDouble));
  const double* values = reinterpret_cast<const double*>(numbers.impl()->data());
  const IntArrayRef sizes = numbers.impl()->sizes;
  switch (sizes.size()) {
    case 0: out << std::defaultfloat << values[0] << '\n'; return;
    case 1: print_vector(out, values, sizes[0]); return;
    case 2: print_matrix(out, values, sizes[0], sizes[1], line_size, 0); return;
    default: print_slices(out, values, sizes, line_size);
  }
}

}  // namespace

std::ostream& print(std::ostream& out, const Tensor& tensor, int64_t line_size) {
  FormatGuard guard(out);
  if (!tensor.defined()) return out << "[ Tensor (undefined) ]";
  const TensorImpl* t = tensor.impl();
  if (const autograd::BatchInfo* batch = autograd::batch_of(tensor)) {
    // Inside vmap a tensor stands for all entries of a batch: none of them is shown as if it were the tensor.
    const size_t depth = autograd::depth_of(batch->level);
    out << "BatchedTensor(lvl=" << (depth ? std::to_string(depth) : "ended") << ", bdim=" << batch->dim << ", value=\n";
    return print(out, batch->value, line_size) << "\n)";
  }
  if (t->numel != 0 && !t->device.is_meta()) print_values(out, tensor, line_size);
  out << "[ " << tensor.toString() << '{';
  for (size_t d = 0; d < t->sizes.size(); ++d) out << (d ? "," : "") << t->sizes[d];
  return out << "} ]";
}

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return print(out, tensor, 80); }

std::string to_text(const Tensor& tensor) {
  std::ostringstream out;
  out << tensor;
  return out.str();
}

std::string Tensor::toString() const {
  if (!defined()) return "UndefinedType";
  const char* backend = is_cpu() ? "CPU" : is_meta() ? "Meta" : "CUDA";
  return str(backend, facula::toString(scalar_type()), "Type");
}

void Tensor::print() const {
  if (!defined()) std::cerr << "[UndefinedTensor]" << std::endl;
  else std::cerr << "[" << toString() << " " << sizes() << "]" << std::endl;
}

}  // namespace facula
