// Convolutions through oneDNN: the output, the gradient of the input and that of the weight. A primitive and the reorders around it are made once for a shape and
// kept by the thread.
#include "core/hash.h"
#include "core/kernel_table.h"
#include "core/tensor_impl.h"
#include "cpu/convolution.h"
#include "cpu/onednn.h"
#include "cpu/parallel.h"
#include "cpu/parallel_omp.h"
#include "cpu/rows.h"
#include "cpu/thread_scratch.h"

#include <facula/core/error.h>

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>

namespace facula {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
using DataType = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

Dims dims_of(const DimVector& v) { return Dims(v.begin(), v.end()); }

// What a primitive depends on.
using Key = std::array<int64_t, 40>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    size_t h = 0;
    for (const int64_t v : key) h = detail::hash_combine(h, static_cast<size_t>(v));
    return h;
  }
};

// One of the tensors: as it lies in memory, and as the primitive wants it.
struct Side {
  Desc given, wanted;
  std::optional<dnnl::reorder> reorder;  // on the way in, or out for what is computed
  bool moves() const { return reorder.has_value(); }
};

struct Plan {
  bool possible = false;
  dnnl::primitive primitive;
  Side source, weight, target;
  Desc bias, scratch;
};

struct Layout {
  explicit Layout(const Tensor& t) : sizes(dims_of(t.impl()->sizes)), strides(dims_of(t.impl()->strides)) {}
  Desc given(DataType type) const { return Desc(sizes, type, strides); }
  Desc any(DataType type) const { return Desc(sizes, type, Tag::any); }

  Dims sizes, strides;
};

// Of groups the weight has one more dim, in front.
Layout weight_layout(const Tensor& weight, int64_t groups) {
  Layout w(weight);
  if (groups == 1) return w;
  const int64_t of_group = w.sizes[0] / groups;
  w.sizes[0] = of_group;
  w.sizes.insert(w.sizes.begin(), groups);
  w.strides.insert(w.strides.begin(), w.strides[0] * of_group);
  return w;
}

// Whether a kernel of one point skips input. oneDNN's own way to pass over it gives wrong gradients of weights with many threads (2.6,
// bfloat16).
bool skips(const ConvolutionArgs& a) {
  const auto all = [](const int64_t* first, const int64_t* last, int64_t v) {
    return std::all_of(first, last, [v](int64_t x) { return x == v; });
  };
  const DimVector& kernel = a.weight.impl()->sizes;
  return a.part != ConvolutionPart::Input && all(kernel.begin() + 2, kernel.end(), 1) &&
         all(a.padding.begin(), a.padding.end(), 0) && !all(a.stride.begin(), a.stride.end(), 1);
}
// The same with nothing but what it reads.
ConvolutionArgs without_what_is_skipped(const ConvolutionArgs& a) {
  ConvolutionArgs read = a;
  for (size_t d = 0; d < a.stride.size(); ++d) {
    read.input = read.input.slice(static_cast<int64_t>(d) + 2, 0, std::nullopt, a.stride[d]);
    read.stride[d] = 1;
  }
  const bool plain = a.input.impl()->contiguous || a.stride.size() == 1;
  read.input = read.input.contiguous(plain                  ? MemoryFormat::Contiguous
                                     : a.stride.size() == 2 ? MemoryFormat::ChannelsLast
                                                            : MemoryFormat::ChannelsLast3d);
  return read;
}

void set_side(Side& side, const Desc& given, const Desc& wanted, bool computed) {
  side.given = given;
  side.wanted = wanted;
  if (given == wanted) return;
  const dnnl::engine& e = onednn::engine();
  const auto desc = computed ? dnnl::reorder::primitive_desc(e, wanted, e, given)
                             : dnnl::reorder::primitive_desc(e, given, e, wanted);
  side.reorder = dnnl::reorder(desc);
}

Plan make_plan(const ConvolutionArgs& a, DataType type) {
  Plan plan;
  const Layout input_layout(a.input), output_layout(a.output);
  const Layout weights = weight_layout(a.weight, a.groups);
  const Desc input = input_layout.given(type), output = output_layout.given(type), weight = weights.given(type);
  // Channels-last tensors stay; of others oneDNN chooses the blocks it likes.
  const Desc any_input = a.input.impl()->contiguous ? input_layout.any(type) : input;
  const Desc any_output = a.output.impl()->contiguous ? output_layout.any(type) : output;
  const Desc any_weight = weights.any(type);
  Dims dilation;
  for (const int64_t d : a.dilation) dilation.push_back(d - 1);
  const Dims stride = dims_of(a.stride), padding = dims_of(a.padding);
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const dnnl::engine& e = onednn::engine();
  constexpr auto kDirect = dnnl::algorithm::convolution_direct;
  const bool biased = a.part == ConvolutionPart::Output && a.bias.defined();
  if (biased) plan.bias = Desc({a.bias.impl()->sizes[0]}, type, Tag::x);
  const auto forward = [&](dnnl::prop_kind kind) {
#if DNNL_VERSION_MAJOR >= 3
    if (biased)
      return dnnl::convolution_forward::primitive_desc(e, kind, kDirect, any_input, any_weight, plan.bias, any_output,
                                                       stride, dilation, padding, padding, attr);
    return dnnl::convolution_forward::primitive_desc(e, kind, kDirect, any_input, any_weight, any_output, stride,
                                                     dilation, padding, padding, attr);
#else
    if (biased)
      return dnnl::convolution_forward::primitive_desc(
          dnnl::convolution_forward::desc(kind, kDirect, any_input, any_weight, plan.bias, any_output, stride, dilation,
                                          padding, padding),
          attr, e);
    return dnnl::convolution_forward::primitive_desc(
        dnnl::convolution_forward::desc(kind, kDirect, any_input, any_weight, any_output, stride, dilation, padding,
                                        padding),
        attr, e);
#endif
  };
  try {
    if (a.part == ConvolutionPart::Output) {
      const auto desc = forward(dnnl::prop_kind::forward_training);
      plan.primitive = dnnl::convolution_forward(desc);
      plan.scratch = desc.scratchpad_desc();
      set_side(plan.source, input, desc.src_desc(), false);
      set_side(plan.weight, weight, desc.weights_desc(), false);
      set_side(plan.target, output, desc.dst_desc(), true);
    } else if (a.part == ConvolutionPart::Input) {
      const auto hint = forward(dnnl::prop_kind::forward_training);
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::convolution_backward_data::primitive_desc desc(e, kDirect, any_input, any_weight, any_output, stride,
                                                                 dilation, padding, padding, hint, attr);
#else
      const dnnl::convolution_backward_data::primitive_desc desc(
          dnnl::convolution_backward_data::desc(kDirect, any_input, any_weight, any_output, stride, dilation, padding,
                                                padding),
          attr, e, hint);
#endif
      plan.primitive = dnnl::convolution_backward_data(desc);
      plan.scratch = desc.scratchpad_desc();
      set_side(plan.source, output, desc.diff_dst_desc(), false);
      set_side(plan.weight, weight, desc.weights_desc(), false);
      set_side(plan.target, input, desc.diff_src_desc(), true);
    } else {
      const auto hint = forward(dnnl::prop_kind::forward_training);
#if DNNL_VERSION_MAJOR >= 3
      const dnnl::convolution_backward_weights::primitive_desc desc(e, kDirect, any_input, any_weight, any_output,
                                                                    stride, dilation, padding, padding, hint, attr);
#else
      const dnnl::convolution_backward_weights::primitive_desc desc(
          dnnl::convolution_backward_weights::desc(kDirect, any_input, any_weight, any_output, stride, dilation,
                                                   padding, padding),
          attr, e, hint);
#endif
      plan.primitive = dnnl::convolution_backward_weights(desc);
      plan.scratch = desc.scratchpad_desc();
      set_side(plan.source, input, desc.src_desc(), false);
      set_side(plan.weight, output, desc.diff_dst_desc(), false);
      set_side(plan.target, weight, desc.diff_weights_desc(), true);
    }
    plan.possible = true;
  } catch (const dnnl::error&) {
    // No implementation for this dtype or shape on this machine: the caller has another way.
  }
  return plan;
}

const Plan& cached_plan(const ConvolutionArgs& a, DataType type, int threads) {
  thread_local std::unordered_map<Key, Plan, KeyHash> cache;
  Key key{};
  size_t n = 0;
  const auto add = [&](int64_t v) { key[n++] = v; };
  add(static_cast<int64_t>(a.part) << 8 | static_cast<int64_t>(type));
  add(a.groups << 1 | int64_t{a.bias.defined()});
  add(threads);
  add(a.input.impl()->dim() << 2 | int64_t{a.input.impl()->contiguous} << 1 | int64_t{a.output.impl()->contiguous});
  for (const int64_t s : a.input.impl()->sizes) add(s);
  for (const int64_t s : a.output.impl()->sizes) add(s);
  for (const int64_t s : a.weight.impl()->sizes) add(s);
  for (const int64_t s : a.weight.impl()->strides) add(s);
  for (const DimVector* v : {&a.stride, &a.padding, &a.dilation})
    for (const int64_t s : *v) add(s);
  const auto found = cache.find(key);
  if (found != cache.end()) return found->second;
  if (cache.size() >= 512) cache.clear();
  return cache.emplace(key, make_plan(a, type)).first->second;
}

// Memory of the layout that a primitive wants, for the length of a call.
class Room {
 public:
  explicit Room(const Side& side) : scratch_(side.moves() ? side.wanted.get_size() + 64 : 0) {}
  void* at() {
    const auto address = reinterpret_cast<uintptr_t>(scratch_.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }

 private:
  detail::Scratch scratch_;
};

dnnl::memory brought(const Side& side, void* data, Room& room) {
  const dnnl::engine& e = onednn::engine();
  dnnl::memory given(side.given, e, data);
  if (!side.moves()) return given;
  dnnl::memory wanted(side.wanted, e, room.at());
  dnnl::reorder(*side.reorder).execute(onednn::stream(), given, wanted);
  return wanted;
}

bool convolution_cpu(const ConvolutionArgs& a) {
  const ScalarType dtype = a.input.scalar_type();
  if (dtype != kFloat && dtype != kBFloat16) return false;
  if (skips(a)) return convolution_cpu(without_what_is_skipped(a));
  const DataType type = dtype == kFloat ? DataType::f32 : DataType::bf16;
  const int threads = in_parallel_region() ? 1 : get_num_threads();
  ScopedOmpThreads scope(threads);
  const Plan& plan = cached_plan(a, type, threads);
  if (!plan.possible) return false;
  const Tensor& source = a.part == ConvolutionPart::Input ? a.output : a.input;
  const Tensor& second = a.part == ConvolutionPart::Weight ? a.output : a.weight;
  const Tensor& target = a.part == ConvolutionPart::Output  ? a.output
                         : a.part == ConvolutionPart::Input ? a.input
                                                            : a.weight;
  const dnnl::engine& e = onednn::engine();
  Room source_room(plan.source), second_room(plan.weight), target_room(plan.target);
  dnnl::memory given(plan.target.given, e, target.impl()->data());
  dnnl::memory made = plan.target.moves() ? dnnl::memory(plan.target.wanted, e, target_room.at()) : given;
  std::unordered_map<int, dnnl::memory> all;
  const dnnl::memory first = brought(plan.source, source.impl()->data(), source_room),
                     other = brought(plan.weight, second.impl()->data(), second_room);
  switch (a.part) {
    case ConvolutionPart::Output:
      all = {{DNNL_ARG_SRC, first}, {DNNL_ARG_WEIGHTS, other}, {DNNL_ARG_DST, made}};
      if (a.bias.defined()) all[DNNL_ARG_BIAS] = dnnl::memory(plan.bias, e, a.bias.impl()->data());
      break;
    case ConvolutionPart::Input:
      all = {{DNNL_ARG_DIFF_DST, first}, {DNNL_ARG_WEIGHTS, other}, {DNNL_ARG_DIFF_SRC, made}};
      break;
    case ConvolutionPart::Weight:
      all = {{DNNL_ARG_SRC, first}, {DNNL_ARG_DIFF_DST, other}, {DNNL_ARG_DIFF_WEIGHTS, made}};
      break;
  }
  if (const size_t bytes = plan.scratch.get_size())
    all[DNNL_ARG_SCRATCHPAD] = dnnl::memory(plan.scratch, e, thread_scratch(bytes));
  plan.primitive.execute(onednn::stream(), all);
  if (plan.target.moves()) dnnl::reorder(*plan.target.reorder).execute(onednn::stream(), made, given);
  onednn::stream().wait();
  return true;
}

const KernelRegistration convolution_registration(OpId::convolution, DeviceType::CPU, &convolution_cpu);

}  // namespace
}  // namespace facula
