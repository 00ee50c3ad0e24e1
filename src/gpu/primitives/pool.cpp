// Pooling on a GPU, over kernels/pool.h.
#include "cpu/pool.h"

#include "core/kernel_table.h"
#include "gpu/primitives/rows.h"

namespace facula::gpu {
namespace {

// The order of members is that of kernels/pool.h.
struct Arguments {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t* indices = nullptr;
  int64_t count = 0;
  PoolDim dims[3];
  Divider64 channels = {}, sizes[3] = {};
  int64_t divisor = 0;
  int32_t channels_last = 0, count_padding = 0;
};

enum Step : size_t { kMax, kMaxBackward, kAvg, kAvgBackward, kSteps };
const Kernel& kernel_of(Step step, ScalarType t, int pack) {
  static auto* table = new KernelTable<kSteps * 4 * 2>;
  return table->get((step * 4 + float_number(t)) * 2 + (pack > 1), [&] {
    constexpr const char* kNames[] = {"max_pool", "max_pool_backward", "avg_pool", "avg_pool_backward"};
    return template_kernel("pool.h", kNames[step], "PoolArgs", str(kNames[step], "<", dtype_text(t), ", ", pack, ">"),
                           kTeamThreads);
  });
}

// Channels of an element that lie side by side and can be read at once.
int channel_pack(const PoolArgs& pool, const Tensor& from, const Tensor& to, const Tensor* indices) {
  if (!pool.channels_last) return 1;
  const auto aligned = [](const Tensor& t) { return reinterpret_cast<uintptr_t>(t.impl()->data()) % 16 == 0; };
  const auto pack = static_cast<int>(16 / elementSize(from.impl()->dtype));
  return pool.channels % pack == 0 && aligned(from) && aligned(to) && (!indices || aligned(*indices)) ? pack : 1;
}

void run(Step step, const PoolArgs& pool, const Tensor& from, const Tensor& to, const Tensor* indices,
         const Work& work) {
  const int pack = channel_pack(pool, from, to, indices);
  Arguments a;
  a.from = from.impl()->data();
  a.to = to.impl()->data();
  if (indices) a.indices = reinterpret_cast<int64_t*>(indices->impl()->data());
  a.count = to.impl()->numel / pack;
  const bool backward = step == kMaxBackward || step == kAvgBackward;
  for (int d = 0; d < 3; ++d) {
    a.dims[d] = pool.dims[d];
    a.sizes[d] = divider64(static_cast<uint64_t>(backward ? pool.dims[d].in : pool.dims[d].out));
  }
  a.channels = divider64(static_cast<uint64_t>(pool.channels / pack));
  a.divisor = pool.divisor;
  a.channels_last = pool.channels_last;
  a.count_padding = pool.count_padding;
  KernelArguments args;
  args.put(a);
  launch(kernel_of(step, to.impl()->dtype, pack), {blocks_for(a.count, kTeamThreads, work.op)}, {kTeamThreads}, 0,
         args.pointers(), work);
}

void max_pool_gpu(const PoolArgs& pool, const Tensor& input, const Tensor& output, const Tensor& indices) {
  run(kMax, pool, input, output, &indices, TensorWork("_max_pool", {&input, &output, &indices}));
}
void max_pool_backward_gpu(const PoolArgs& pool, const Tensor& grad, const Tensor& indices, const Tensor& to) {
  run(kMaxBackward, pool, grad, to, &indices, TensorWork("_max_pool_backward", {&grad, &indices, &to}));
}
void avg_pool_gpu(const PoolArgs& pool, const Tensor& input, const Tensor& output) {
  run(kAvg, pool, input, output, nullptr, TensorWork("_avg_pool", {&input, &output}));
}
void avg_pool_backward_gpu(const PoolArgs& pool, const Tensor& grad, const Tensor& to) {
  run(kAvgBackward, pool, grad, to, nullptr, TensorWork("_avg_pool_backward", {&grad, &to}));
}

const KernelRegistration max_pool_registration(OpId::_max_pool, DeviceType::CUDA, &max_pool_gpu);
const KernelRegistration max_pool_backward_registration(OpId::_max_pool_backward, DeviceType::CUDA,
                                                        &max_pool_backward_gpu);
const KernelRegistration avg_pool_registration(OpId::_avg_pool, DeviceType::CUDA, &avg_pool_gpu);
const KernelRegistration avg_pool_backward_registration(OpId::_avg_pool_backward, DeviceType::CUDA,
                                                        &avg_pool_backward_gpu);

}  // namespace
}  // namespace facula::gpu
