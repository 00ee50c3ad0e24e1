// The CPU kernel of nll_loss: one entry is picked for each target, so there is nothing to vectorise.
#include "core/dispatch.h"
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/class_labels.h"

#include <facula/reduction.h>
#include <facula/tensor.h>

namespace facula {
namespace {

// `self` is [classes] or [n, classes] with any strides, or contiguous [n, classes, ...]; `target` and `weight` are contiguous, `weight` may
// be undefined. The result is contiguous.
template <class T>
void run(const TensorImpl* x, const TensorImpl* target, const TensorImpl* weight, int64_t reduction, int64_t ignored,
         const TensorImpl* result) {
  const T* data = reinterpret_cast<const T*>(x->data());
  const int64_t* labels = reinterpret_cast<const int64_t*>(target->data());
  const T* shares = weight ? reinterpret_cast<const T*>(weight->data()) : nullptr;
  T* out = reinterpret_cast<T*>(result->data());
  const bool one = x->dim() == 1;
  const int64_t classes = x->sizes[one ? 0 : 1], class_stride = x->strides[one ? 0 : 1];
  int64_t inner = 1;
  for (size_t d = 2; d < x->sizes.size(); ++d) inner *= x->sizes[d];
  const int64_t batch_stride = one ? 0 : x->strides[0];
  // Sums run in double, one after the other: the same result with any number of threads.
  double sum = 0, total = 0;
  int64_t i = 0;
  for (int64_t n = 0; i < target->numel; ++n) {
    for (int64_t k = 0; k < inner; ++k, ++i) {
      const int64_t label = labels[i];
      if (label == ignored) {
        if (reduction == Reduction::None) out[i] = T(0.0f);
        continue;
      }
      if (label < 0 || label >= classes) [[unlikely]]
        raise_no_class("nll_loss", label, classes);
      const double share = shares ? static_cast<double>(shares[label]) : 1.0;
      const double loss = -share * static_cast<double>(data[n * batch_stride + label * class_stride + k]);
      if (reduction == Reduction::None) out[i] = static_cast<T>(loss);
      sum += loss;
      total += share;
    }
  }
  if (reduction == Reduction::Sum) out[0] = static_cast<T>(sum);
  if (reduction == Reduction::Mean) out[0] = static_cast<T>(sum / total);
}

void nll_loss_cpu(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction, int64_t ignored,
                  const Tensor& result) {
  dispatch_floating(self.impl()->dtype, [&]<class T>() {
    run<T>(self.impl(), target.impl(), weight.defined() ? weight.impl() : nullptr, reduction, ignored, result.impl());
  });
}

const KernelRegistration nll_loss_registration(OpId::nll_loss, DeviceType::CPU, &nll_loss_cpu);

}  // namespace
}  // namespace facula
