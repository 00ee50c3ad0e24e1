// Pooling on a GPU, over kernels/pool.h. The gradient of the largest entries is a sum at their places.
#include "cpu/pool.h"

#include "core/kernel_table.h"
#include "gpu/primitives/index_walk.h"

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

enum Step : size_t { kMax, kAvg, kAvgBackward };
const Kernel& kernel_of(Step step, ScalarType t) {
  static auto* table = new KernelTable<6>;
  return table->get(step * 2 + (t == kDouble), [&] {
    constexpr const char* kNames[] = {"max_pool", "avg_pool", "avg_pool_backward"};
    return template_kernel("pool.h", kNames[step], "PoolArgs", str(kNames[step], "<", dtype_text(t), ">"),
                           kTeamThreads);
  });
}

void run(Step step, const PoolArgs& pool, const Tensor& from, const Tensor& to, const Tensor* indices,
         const Work& work) {
  Arguments a;
  a.from = from.impl()->data();
  a.to = to.impl()->data();
  if (indices) a.indices = reinterpret_cast<int64_t*>(indices->impl()->data());
  a.count = to.impl()->numel;
  for (int d = 0; d < 3; ++d) {
    a.dims[d] = pool.dims[d];
    a.sizes[d] = divider64(static_cast<uint64_t>(step == kAvgBackward ? pool.dims[d].in : pool.dims[d].out));
  }
  a.channels = divider64(static_cast<uint64_t>(pool.channels));
  a.divisor = pool.divisor;
  a.channels_last = pool.channels_last;
  a.count_padding = pool.count_padding;
  KernelArguments args;
  args.put(a);
  launch(kernel_of(step, to.impl()->dtype), {blocks_for(a.count, kTeamThreads, work.op)}, {kTeamThreads}, 0,
         args.pointers(), work);
}

void max_pool_gpu(const PoolArgs& pool, const Tensor& input, const Tensor& output, const Tensor& indices) {
  run(kMax, pool, input, output, &indices, TensorWork("_max_pool", {&input, &output, &indices}));
}
void avg_pool_gpu(const PoolArgs& pool, const Tensor& input, const Tensor& output) {
  run(kAvg, pool, input, output, nullptr, TensorWork("_avg_pool", {&input, &output}));
}
void avg_pool_backward_gpu(const PoolArgs& pool, const Tensor& grad, const Tensor& to) {
  run(kAvgBackward, pool, grad, to, nullptr, TensorWork("_avg_pool_backward", {&grad, &to}));
}

// Windows overlap, and nothing but the places is known of them: sums in the order of the outputs.
void max_pool_backward_gpu(const PoolArgs& pool, const Tensor& grad, const Tensor& indices, const Tensor& to) {
  int64_t in = 1, out = 1;
  for (const PoolDim& d : pool.dims) {
    in *= d.in;
    out *= d.out;
  }
  const int64_t step = pool.channels_last ? pool.channels : 1;
  GatherWalk w;
  w.error.prefix = "_max_pool_backward: ";
  w.memory.add({&to, &grad, &indices});
  w.self = to.impl()->data();
  w.other = grad.impl()->data();
  w.index = reinterpret_cast<const int64_t*>(indices.impl()->data());
  w.size = in;
  w.stride = step;
  w.length = out;
  w.other_step = w.index_step = step;
  if (pool.channels_last) {
    w.rest.add(pool.batch, in * step, out * step, out * step);
    w.rest.add(pool.channels, 1, 1, 1);
  } else {
    w.rest.add(pool.batch * pool.channels, in, out, out);
  }
  w.rest.normalise(0);
  EntryWalk walk(w);
  walk.work.op = "_max_pool_backward";
  const ScalarType t = to.impl()->dtype;
  fill_bytes(walk.self, 0, static_cast<size_t>(to.impl()->numel) * elementSize(t), walk.work);
  fold_at_indices(walk, t, Combine::Add);
}

const KernelRegistration max_pool_registration(OpId::_max_pool, DeviceType::CUDA, &max_pool_gpu);
const KernelRegistration max_pool_backward_registration(OpId::_max_pool_backward, DeviceType::CUDA,
                                                        &max_pool_backward_gpu);
const KernelRegistration avg_pool_registration(OpId::_avg_pool, DeviceType::CUDA, &avg_pool_gpu);
const KernelRegistration avg_pool_backward_registration(OpId::_avg_pool_backward, DeviceType::CUDA,
                                                        &avg_pool_backward_gpu);

}  // namespace
}  // namespace facula::gpu
