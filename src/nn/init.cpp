// Initial values for parameters.
#include <facula/autograd/modes.h>
#include <facula/facula.h>
#include <facula/nn/init.h>

#include <algorithm>
#include <cmath>

namespace facula::nn::init {
namespace {

void need(const char* function, const Tensor& tensor) {
  FACULA_CHECK(tensor.defined(), ValueError, function, ": the tensor is undefined");
}

double fan(const Tensor& tensor, const FanModeType& mode) {
  const auto [in, out] = _calculate_fan_in_and_fan_out(tensor);
  return static_cast<double>(holds_alternative<enumtype::kFanIn>(mode) ? in : out);
}

double kaiming_std(const char* function, const Tensor& tensor, double a, const FanModeType& mode,
                   const NonlinearityType& nonlinearity) {
  need(function, tensor);
  return calculate_gain(nonlinearity, a) / std::sqrt(std::max(fan(tensor, mode), 1.0));
}

double xavier_std(const char* function, const Tensor& tensor, double gain) {
  need(function, tensor);
  const auto [in, out] = _calculate_fan_in_and_fan_out(tensor);
  return gain * std::sqrt(2.0 / static_cast<double>(std::max<int64_t>(in + out, 1)));
}

}  // namespace

double calculate_gain(NonlinearityType nonlinearity, double param) {
  if (holds_alternative<enumtype::kTanh>(nonlinearity)) return 5.0 / 3.0;
  if (holds_alternative<enumtype::kReLU>(nonlinearity)) return std::sqrt(2.0);
  if (holds_alternative<enumtype::kLeakyReLU>(nonlinearity)) return std::sqrt(2.0 / (1 + param * param));
  return 1.0;
}

Tensor constant_(Tensor tensor, const Scalar& value) {
  need("constant_", tensor);
  const NoGradGuard quiet;
  return tensor.fill_(value);
}

Tensor ones_(Tensor tensor) { return constant_(std::move(tensor), 1); }
Tensor zeros_(Tensor tensor) { return constant_(std::move(tensor), 0); }

Tensor uniform_(Tensor tensor, double low, double high) {
  need("uniform_", tensor);
  const NoGradGuard quiet;
  return tensor.uniform_(low, high);
}

Tensor normal_(Tensor tensor, double mean, double std) {
  need("normal_", tensor);
  const NoGradGuard quiet;
  return tensor.normal_(mean, std);
}

// By the inverse of the distribution: uniform between the shares below `low` and `high`.
Tensor trunc_normal_(Tensor tensor, double mean, double std, double low, double high) {
  need("trunc_normal_", tensor);
  FACULA_CHECK(std > 0 && low < high, ValueError, "trunc_normal_: expects std > 0 and low < high, but got std=", std,
               ", low=", low, " and high=", high);
  const NoGradGuard quiet;
  const auto share_below = [&](double x) { return 0.5 * (1 + std::erf((x - mean) / (std * std::sqrt(2.0)))); };
  const double first = 2 * share_below(low) - 1, last = 2 * share_below(high) - 1;
  const bool narrow = tensor.scalar_type() != kDouble && tensor.scalar_type() != kFloat;
  Tensor drawn = narrow ? empty(tensor.sizes(), tensor.options().dtype(kFloat)) : tensor;
  drawn.uniform_(first, last).erfinv_().mul_(std * std::sqrt(2.0)).add_(mean).clamp_(low, high);
  return narrow ? tensor.copy_(drawn) : tensor;
}

Tensor eye_(Tensor matrix) {
  need("eye_", matrix);
  FACULA_CHECK(matrix.dim() == 2, ShapeError, "eye_: Only tensors with 2 dimensions are supported, got ", matrix.dim());
  const NoGradGuard quiet;
  matrix.zero_();
  matrix.diagonal().fill_(1);
  return matrix;
}

Tensor dirac_(Tensor tensor, int64_t groups) {
  need("dirac_", tensor);
  FACULA_CHECK(tensor.dim() >= 3 && tensor.dim() <= 5, ShapeError,
               "dirac_: Only tensors with 3, 4, or 5 dimensions are supported, got ", tensor.dim());
  FACULA_CHECK(groups > 0 && tensor.size(0) % groups == 0, ValueError, "dirac_: size(0)=", tensor.size(0),
               " must be divisible by groups=", groups);
  const NoGradGuard quiet;
  tensor.zero_();
  const int64_t in_group = tensor.size(0) / groups, channels = std::min(in_group, tensor.size(1));
  for (int64_t g = 0; g < groups; ++g)
    for (int64_t c = 0; c < channels; ++c) {
      Tensor filter = tensor.select(0, g * in_group + c).select(0, c);
      while (filter.dim() > 0) filter = filter.select(0, filter.size(0) / 2);
      filter.fill_(1);
    }
  return tensor;
}

// Rows are freed of the ones before them twice: after that they are orthogonal to the last digits. Their lengths are positive,
// so that the result is spread evenly over all orthogonal matrices.
Tensor orthogonal_(Tensor tensor, double gain) {
  need("orthogonal_", tensor);
  FACULA_CHECK(tensor.dim() >= 2, ShapeError, "orthogonal_: Only tensors with 2 or more dimensions are supported, got ",
               tensor.dim());
  const NoGradGuard quiet;
  if (tensor.numel() == 0) return tensor;
  const int64_t rows = tensor.size(0), columns = tensor.numel() / rows, few = std::min(rows, columns);
  Tensor q = randn({few, std::max(rows, columns)}, kDouble);
  for (int64_t i = 0; i < few; ++i) {
    Tensor row = q.select(0, i);
    if (i > 0) {
      const Tensor before = q.narrow(0, 0, i);
      for (int round = 0; round < 2; ++round) row.sub_(before.t().mv(before.mv(row)));
    }
    row.div_(row.norm());
  }
  const Tensor made = rows > columns ? q.t() : q;
  tensor.copy_((made * gain).reshape(tensor.sizes()));
  return tensor;
}

Tensor sparse_(Tensor tensor, double sparsity, double std) {
  need("sparse_", tensor);
  FACULA_CHECK(tensor.dim() == 2, ShapeError, "sparse_: Only tensors with 2 dimensions are supported, got ",
               tensor.dim());
  FACULA_CHECK(sparsity >= 0 && sparsity <= 1, ValueError, "sparse_: sparsity must be between 0 and 1, got ", sparsity);
  const NoGradGuard quiet;
  const int64_t rows = tensor.size(0);
  const auto zeros_in_column = static_cast<int64_t>(std::ceil(sparsity * static_cast<double>(rows)));
  tensor.normal_(0, std);
  for (int64_t column = 0; column < tensor.size(1); ++column) {
    const Tensor chosen = randperm(rows).narrow(0, 0, zeros_in_column).to(tensor.device());
    tensor.select(1, column).index_fill_(0, chosen, 0);
  }
  return tensor;
}

Tensor kaiming_uniform_(Tensor tensor, double a, FanModeType mode, NonlinearityType nonlinearity) {
  const double bound = std::sqrt(3.0) * kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity);
  return uniform_(std::move(tensor), -bound, bound);
}

Tensor kaiming_normal_(Tensor tensor, double a, FanModeType mode, NonlinearityType nonlinearity) {
  const double std = kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity);
  return normal_(std::move(tensor), 0, std);
}

Tensor xavier_uniform_(Tensor tensor, double gain) {
  const double bound = std::sqrt(3.0) * xavier_std("xavier_uniform_", tensor, gain);
  return uniform_(std::move(tensor), -bound, bound);
}

Tensor xavier_normal_(Tensor tensor, double gain) {
  const double std = xavier_std("xavier_normal_", tensor, gain);
  return normal_(std::move(tensor), 0, std);
}

std::tuple<int64_t, int64_t> _calculate_fan_in_and_fan_out(const Tensor& tensor) {
  FACULA_CHECK(tensor.defined() && tensor.dim() >= 2, ShapeError,
               "Fan in and fan out can not be computed for tensor with fewer than 2 dimensions, got ",
               tensor.defined() ? tensor.dim() : 0);
  int64_t place = 1;
  for (int64_t d = 2; d < tensor.dim(); ++d) place *= tensor.size(d);
  return {tensor.size(1) * place, tensor.size(0) * place};
}

Tensor uniform_by_(Tensor tensor, int64_t count) {
  const double bound = count > 0 ? 1.0 / std::sqrt(static_cast<double>(count)) : 0.0;
  return uniform_(std::move(tensor), -bound, bound);
}

Tensor fan_in_uniform_(Tensor tensor, const Tensor& weight) {
  return uniform_by_(std::move(tensor), std::get<0>(_calculate_fan_in_and_fan_out(weight)));
}

}  // namespace facula::nn::init
