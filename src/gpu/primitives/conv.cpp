// Convolutions on a GPU: the output, the gradient of the input and that of the weight. The vendor's library where it
// is there and has an answer (libs/dnn.h), else our own kernels (kernels/conv.h, kernels/conv_mma.h). All choices
// among these follow from sizes, dtypes and addresses.
#include "cpu/convolution.h"

#include "core/kernel_table.h"
#include "gpu/kernels/conv_params.h"
#include "gpu/libs/dnn.h"
#include "gpu/matmul/matmul.h"
#include "gpu/primitives/launching.h"
#include "gpu/program/copy.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

namespace facula::gpu {
namespace {

namespace ck = conv_kernels;

constexpr int64_t kMostElements = INT32_MAX;      // of one sample and of the weight
constexpr int64_t kMostReach = int64_t{1} << 28;  // of space, padding and kernels: see kNowhere
constexpr int64_t kFewColumns = 4;                // up to here there is no tile to fill
constexpr int64_t kSmallWeight = 256;             // numbers of a group's weight, likewise
constexpr int64_t kLeastDepth = 256, kMostSplits = 512;

// Tensors as (N, C, D, H, W), the first dims of space of size 1 where there are fewer.
struct Side {
  char* data = nullptr;
  int64_t sizes[5], strides[5];
  int64_t space() const { return sizes[2] * sizes[3] * sizes[4]; }
  int64_t numel() const { return sizes[0] * sizes[1] * space(); }
  bool by_channels() const { return sizes[1] > 1 && strides[1] == 1; }
};

Side side_of(const Tensor& t) {
  const TensorImpl& x = *t.impl();
  Side s;
  s.data = x.data();
  const size_t rank = x.sizes.size() - 2;
  for (size_t d = 0; d < 5; ++d) {
    const bool missing = d >= 2 && d < 5 - rank;
    const size_t at = d < 2 ? d : d - (3 - rank);
    s.sizes[d] = missing ? 1 : x.sizes[at];
    s.strides[d] = missing ? 0 : x.strides[at];
  }
  return s;
}

struct Call {
  ConvolutionPart part;
  ScalarType dtype;
  Side input, weight, output;
  const void* bias;
  int64_t stride[3], padding[3], dilation[3], groups;
  int64_t group_inputs() const { return input.sizes[1] / groups; }
  int64_t group_outputs() const { return output.sizes[1] / groups; }
  int64_t taps() const { return weight.space(); }
};

Call call_of(const ConvolutionArgs& a) {
  Call c{a.part,
         a.input.scalar_type(),
         side_of(a.input),
         side_of(a.weight),
         side_of(a.output),
         a.bias.defined() ? a.bias.impl()->data() : nullptr,
         {1, 1, 1},
         {0, 0, 0},
         {1, 1, 1},
         a.groups};
  const size_t rank = a.stride.size();
  for (size_t d = 0; d < rank; ++d) {
    c.stride[d + 3 - rank] = a.stride[d];
    c.padding[d + 3 - rank] = a.padding[d];
    c.dilation[d + 3 - rank] = a.dilation[d];
  }
  return c;
}

// Whether places, channels and offsets within a sample can be counted in 32 bits.
bool counts_fit(const Call& c) {
  for (int d = 0; d < 3; ++d) {
    const int64_t reach = c.dilation[d] * c.weight.sizes[d + 2];
    if (std::max({c.input.sizes[d + 2], c.output.sizes[d + 2] * c.stride[d], reach, c.padding[d]}) >= kMostReach)
      return false;
  }
  return c.input.numel() / c.input.sizes[0] <= kMostElements && c.output.numel() / c.output.sizes[0] <= kMostElements &&
         c.weight.numel() <= kMostElements && c.input.sizes[0] * c.input.space() <= kMostElements &&
         c.output.sizes[0] * c.output.space() <= kMostElements && c.group_inputs() * c.taps() <= kMostElements;
}

bool has_cores(ScalarType t, int device) {
  const DeviceProperties& chip = properties(device);
  return (t == kHalf || t == kBFloat16) && chip.chip.starts_with("sm_") && chip.major >= 8;
}

bool aligned_16(const void* data) { return reinterpret_cast<uintptr_t>(data) % 16 == 0; }

// ---- copies in other orders -----------------------------------------------------------------------------------------

// A copy by channels (N, D, H, W, C), which `side` then names.
class ByChannels {
 public:
  ByChannels(Side& side, ScalarType t, const Work& work)
      : memory_(work.device, static_cast<size_t>(side.numel()) * elementSize(t), work.op) {
    Side copy = side;
    copy.data = memory_.data();
    const int64_t channels = side.sizes[1];
    copy.strides[1] = 1;
    copy.strides[4] = channels;
    copy.strides[3] = channels * side.sizes[4];
    copy.strides[2] = copy.strides[3] * side.sizes[3];
    copy.strides[0] = channels * side.space();
    copy_strided(copy.data, copy.strides, t, side.data, side.strides, t, IntArrayRef(side.sizes, 5), work);
    side = copy;
  }

 private:
  DeviceScratch memory_;
};

// The weight as a product reads it: [group][column][taps][channel], columns and channels being outputs and inputs, or
// the other way round.
struct WeightOrder {
  const char* data;
  int64_t group, row, taps[3], channel;
};
WeightOrder weight_order(const Call& c) {
  const Side& w = c.weight;
  const bool turned = c.part == ConvolutionPart::Input;
  return {w.data,
          w.strides[0] * c.group_outputs(),
          turned ? w.strides[1] : w.strides[0],
          {w.strides[2], w.strides[3], w.strides[4]},
          turned ? w.strides[0] : w.strides[1]};
}
class PackedWeight {
 public:
  PackedWeight(WeightOrder& order, const Call& c, int64_t columns, int64_t channels, const Work& work)
      : memory_(work.device, static_cast<size_t>(c.weight.numel()) * elementSize(c.dtype), work.op) {
    const int64_t* kernel = c.weight.sizes + 2;
    const int64_t sizes[] = {c.groups, columns, kernel[0], kernel[1], kernel[2], channels};
    const int64_t from[] = {order.group, order.row, order.taps[0], order.taps[1], order.taps[2], order.channel};
    int64_t to[6], step = 1;
    for (int d = 5; d >= 0; --d) {
      to[d] = step;
      step *= sizes[d];
    }
    copy_strided(memory_.data(), to, c.dtype, order.data, from, c.dtype, IntArrayRef(sizes, 6), work);
    order = {memory_.data(), to[0], to[1], {to[2], to[3], to[4]}, to[5]};
  }

 private:
  DeviceScratch memory_;
};

// ---- kernels --------------------------------------------------------------------------------------------------------

enum Product : size_t {
  kGather,
  kWeight,
  kGatherCores,
  kWeightCores,
  kGatherDirect,
  kWeightDirect,
  kFinishWeight,
  kAddBias
};
constexpr size_t kProducts = 8;

const char* element_name(ScalarType t) {
  return t == kHalf ? "Half" : t == kBFloat16 ? "BFloat16" : t == kDouble ? "Float64" : "Float32";
}
size_t element_number(ScalarType t) { return t == kHalf ? 0 : t == kBFloat16 ? 1 : t == kDouble ? 2 : 3; }

std::string kernel_text(Product product, const std::string& element, int tile, bool by_channels, const char* name) {
  const bool cores = product == kGatherCores || product == kWeightCores;
  const bool weight =
      product == kWeight || product == kWeightCores || product == kWeightDirect || product == kFinishWeight;
  const char* order = by_channels ? "true" : "false";
  std::string call, bytes;
  switch (product) {
    case kGather:
    case kWeight:
      call = str(product == kGather ? "gather_product<" : "weight_product<", element, ", ", tile, ", ", order, ">");
      bytes = str("ck::kPlainBytes<", element, ", ", tile, ">");
      break;
    case kGatherCores: call = str("gather_cores<", element, ", ", tile, ", ", order, ">"); break;
    case kWeightCores: call = str("weight_cores<", element, ", ", tile, ">"); break;
    case kGatherDirect: call = str("gather_direct<", element, ", ", order, ">"); break;
    case kWeightDirect: call = str("weight_direct<", element, ">"); break;
    case kFinishWeight: call = str("finish_weight<", element, ">"); break;
    case kAddBias: call = str("add_bias<", element, ">"); break;
  }
  std::string text =
      str("#include \"gpu/kernels/", cores ? "conv_mma" : "conv", ".h\"\nnamespace ck = facula::conv_kernels;\n",
          "extern \"C\" __global__ void __launch_bounds__(", kTeamThreads, cores || !bytes.empty() ? ", 2" : "", ") ",
          name, "(const ck::",
          product == kAddBias ? "BiasParams"
          : weight            ? "WeightParams"
                              : "GatherParams",
          " p) {\n");
  if (cores) return text + str("  FACULA_DYNAMIC_SHARED(char, shared);\n  ck::", call, "(p, shared);\n}\n");
  if (bytes.empty()) return text + str("  ck::", call, "(p);\n}\n");
  return text + str("  __shared__ facula::matmul_kernels::Shared16 shared[(", bytes, " + 15) / 16];\n  ck::", call,
                    "(p, shared);\n}\n");
}

// What a block of the kernels for tensor cores takes of shared memory: kCoreBytes of kernels/conv_mma.h.
uint32_t core_bytes(int tile) { return static_cast<uint32_t>(3 * 2 * 64 * tile); }

const Kernel& kernel_of(Product product, ScalarType t, int tile, bool by_channels) {
  static constexpr const char* kNames[kProducts] = {
      "convolution",        "convolution_weight",        "convolution_cores",      "convolution_weight_cores",
      "convolution_direct", "convolution_weight_direct", "convolution_weight_sum", "convolution_bias"};
  static auto* table = new KernelTable<kProducts * 4 * 3 * 2>;
  const auto size = static_cast<size_t>(std::countr_zero(static_cast<unsigned>(tile / 32)));
  return table->get(((product * 4 + element_number(t)) * 3 + size) * 2 + by_channels, [&] {
    const std::string element = str("facula::matmul_kernels::", element_name(t));
    return new Kernel(kNames[product], kernel_text(product, element, tile, by_channels, kNames[product]));
  });
}

template <class Params>
void launch_blocks(const Kernel& kernel, int64_t blocks, Params& params, const Work& work, uint32_t shared = 0) {
  void* arguments[] = {&params};
  launch(kernel, {blocks_for(blocks, 1, work.op)}, {kTeamThreads}, shared, arguments, work);
}

// ---- the output and the input's gradient ----------------------------------------------------------------------------

ck::FastDivisor divisor(int64_t by) {
  const Divider32 d = divider32(static_cast<uint32_t>(std::max<int64_t>(by, 1)));
  return {d.divisor, d.magic, d.shift};
}
int narrow(int64_t value) { return static_cast<int>(value); }

ck::Dim dim_of(const Call& c, int d, const Side& from, const Side& to, bool turned) {
  ck::Dim dim{};
  dim.from_size = narrow(from.sizes[d + 2]);
  dim.to_size = narrow(to.sizes[d + 2]);
  dim.kernel = narrow(c.weight.sizes[d + 2]);
  dim.stride = narrow(c.stride[d]);
  dim.padding = narrow(c.padding[d]);
  dim.dilation = narrow(c.dilation[d]);
  dim.tap_step = turned ? dim.stride / std::gcd(dim.stride, dim.dilation) : 1;
  dim.from_stride = narrow(from.strides[d + 2]);
  dim.to_stride = narrow(to.strides[d + 2]);
  dim.weight_stride = narrow(c.weight.strides[d + 2]);
  const int parts = turned ? dim.stride : 1;
  dim.counts[0] = divisor(dim.to_size / parts + 1);
  dim.counts[1] = divisor(dim.to_size / parts);
  dim.taps[0] = divisor(dim.kernel / dim.tap_step + 1);
  dim.taps[1] = divisor(dim.kernel / dim.tap_step);
  return dim;
}

// The largest square tile that is mostly full and still gives every multiprocessor something to do.
int tile_for(int64_t rows, int64_t columns, int64_t times, int largest, int smallest, int device) {
  const int64_t processors = properties(device).multiprocessors;
  int side = largest;
  while (side > smallest &&
         (ceil_div(rows, side) * ceil_div(columns, side) * times < processors || std::min(rows, columns) <= side / 2))
    side /= 2;
  return side;
}

void gather(const Call& c, const Work& work) {
  const bool turned = c.part == ConvolutionPart::Input;
  Side from = turned ? c.output : c.input;
  const Side to = turned ? c.input : c.output;
  const int64_t channels = turned ? c.group_outputs() : c.group_inputs();
  const int64_t columns = turned ? c.group_inputs() : c.group_outputs();
  const bool direct = columns <= kFewColumns, cores = !direct && has_cores(c.dtype, work.device);
  std::optional<ByChannels> turned_from;
  std::optional<PackedWeight> packed;
  if (cores && from.sizes[1] > 1 && !from.by_channels()) turned_from.emplace(from, c.dtype, work);
  WeightOrder weight = weight_order(c);
  if (!direct && weight.channel != 1) packed.emplace(weight, c, columns, channels, work);

  ck::GatherParams p{};
  p.from = from.data;
  p.weight = weight.data;
  p.to = to.data;
  p.bias = c.bias;
  p.from_sample = from.strides[0];
  p.to_sample = to.strides[0];
  p.from_channel = narrow(from.strides[1]);
  p.to_channel = narrow(to.strides[1]);
  p.weight_row = narrow(weight.row);
  p.weight_channel = narrow(weight.channel);
  p.from_group = from.strides[1] * channels;
  p.weight_group = weight.group;
  p.to_group = to.strides[1] * columns;
  p.samples = narrow(to.sizes[0]);
  p.channels = narrow(channels);
  p.columns = narrow(columns);
  p.groups = narrow(c.groups);
  p.turned = turned;
  p.by_channels = divisor(channels);
  int64_t phases = 1, places = to.sizes[0];
  const auto eights = [](int64_t elements) { return elements % 8 == 0; };
  bool wide = weight.channel == 1 && from.strides[1] == 1 && aligned_16(from.data) && aligned_16(weight.data) &&
              eights(channels) && eights(weight.row) && eights(weight.group) && eights(from.strides[0]);
  for (int d = 0; d < 3; ++d) {
    p.dims[d] = dim_of(c, d, from, to, turned);
    p.dims[d].weight_stride = narrow(weight.taps[d]);
    // Phases beyond the last place have none.
    p.phases[d] = turned ? narrow(std::min(c.stride[d], to.sizes[d + 2])) : 1;
    phases *= p.phases[d];
    places *= turned ? ceil_div(to.sizes[d + 2], c.stride[d]) : to.sizes[d + 2];
    wide = wide && eights(from.strides[d + 2]) && eights(weight.taps[d]);
  }
  p.wide = wide;
  if (direct)
    return launch_blocks(kernel_of(kGatherDirect, c.dtype, 32, to.by_channels()), ceil_div(to.numel(), kTeamThreads), p,
                         work);
  const int tile = cores ? tile_for(places, columns, c.groups * phases, 128, 64, work.device)
                         : tile_for(places, columns, c.groups * phases, c.dtype == kDouble ? 64 : 128, 32, work.device);
  p.tiles_places = narrow(ceil_div(places, tile));
  p.tiles_columns = narrow(ceil_div(columns, tile));
  // In plain arithmetic one kernel reads and writes in the same order; what lies otherwise is only slower.
  const bool by_channels = cores ? to.by_channels() : from.by_channels();
  launch_blocks(kernel_of(cores ? kGatherCores : kGather, c.dtype, tile, by_channels),
                int64_t{p.tiles_places} * p.tiles_columns * c.groups * phases, p, work, cores ? core_bytes(tile) : 0);
}

// ---- the weight's gradient ------------------------------------------------------------------------------------------

void weight_gradient(Call c, const Work& work) {
  const int64_t rows = c.group_outputs(), columns = c.group_inputs() * c.taps();
  const int64_t places = c.output.space(), depth = c.output.sizes[0] * places;
  const bool direct = c.groups > 1 && rows * columns <= kSmallWeight;
  const bool cores = !direct && has_cores(c.dtype, work.device);
  std::optional<ByChannels> turned_input, turned_output;
  if (cores && c.input.sizes[1] > 1 && !c.input.by_channels()) turned_input.emplace(c.input, c.dtype, work);
  if (cores && c.output.sizes[1] > 1 && !c.output.by_channels()) turned_output.emplace(c.output, c.dtype, work);

  ck::WeightParams p{};
  p.input = c.input.data;
  p.output = c.output.data;
  p.weight = c.weight.data;
  p.input_sample = c.input.strides[0];
  p.output_sample = c.output.strides[0];
  p.input_channel = narrow(c.input.strides[1]);
  p.output_channel = narrow(c.output.strides[1]);
  p.output_space = narrow(c.output.by_channels() ? c.output.sizes[1] : 1);
  p.weight_row = narrow(c.weight.strides[0]);
  p.weight_channel = narrow(c.weight.strides[1]);
  p.input_group = c.input.strides[1] * c.group_inputs();
  p.output_group = c.output.strides[1] * rows;
  p.weight_group = c.weight.strides[0] * rows;
  p.samples = narrow(c.output.sizes[0]);
  p.channels = narrow(c.group_inputs());
  p.rows = narrow(rows);
  p.groups = narrow(c.groups);
  p.columns = narrow(columns);
  p.depth = narrow(depth);
  p.by_places = divisor(places);
  p.by_channels = divisor(p.channels);
  const auto eights = [](int64_t elements) { return elements % 8 == 0; };
  bool wide_input =
      c.input.strides[1] == 1 && aligned_16(c.input.data) && eights(p.channels) && eights(c.input.strides[0]);
  for (int d = 0; d < 3; ++d) {
    p.dims[d] = dim_of(c, d, c.input, c.output, false);
    wide_input = wide_input && eights(c.input.strides[d + 2]);
  }
  p.wide_input = wide_input;
  p.wide_output = c.output.strides[1] == 1 && aligned_16(c.output.data) && eights(rows) && eights(p.output_space) &&
                  eights(c.output.strides[0]);
  p.splits = 1;
  p.split_depth = p.depth;
  if (direct) return launch_blocks(kernel_of(kWeightDirect, c.dtype, 32, false), c.groups * rows * columns, p, work);

  const int64_t processors = properties(work.device).multiprocessors;
  // Sums are long enough to be cut up, so that tiles may be large.
  const int64_t cuts = std::max<int64_t>(1, depth / kLeastDepth);
  const int tile = cores ? tile_for(rows, columns, c.groups * cuts, 128, 64, work.device)
                         : tile_for(rows, columns, c.groups * cuts, c.dtype == kDouble ? 64 : 128, 32, work.device);
  p.tiles_rows = narrow(ceil_div(rows, tile));
  p.tiles_columns = narrow(ceil_div(columns, tile));
  const int64_t blocks = int64_t{p.tiles_rows} * p.tiles_columns * c.groups;
  const int64_t splits = std::clamp<int64_t>(2 * processors / blocks, 1, std::min(cuts, kMostSplits));
  p.split_depth = narrow(ceil_div(ceil_div(depth, splits), 64) * 64);
  p.splits = narrow(ceil_div(depth, p.split_depth));
  const bool by_channels = c.output.by_channels() || c.input.by_channels();
  const Kernel& product = kernel_of(cores ? kWeightCores : kWeight, c.dtype, tile, by_channels && !cores);
  const uint32_t shared = cores ? core_bytes(tile) : 0;
  if (p.splits == 1) return launch_blocks(product, blocks, p, work, shared);
  const int64_t numbers = c.groups * rows * columns;
  DeviceScratch partial(work.device, static_cast<size_t>(p.splits * numbers) * (c.dtype == kDouble ? 8 : 4), work.op);
  p.partial = partial.data();
  launch_blocks(product, blocks * p.splits, p, work, shared);
  launch_blocks(kernel_of(kFinishWeight, c.dtype, 32, false),
                std::min<int64_t>(ceil_div(numbers, kTeamThreads), 8 * processors), p, work);
}

// ---- the library ----------------------------------------------------------------------------------------------------

bool lies_so(const Side& side, const int64_t (&strides)[5]) {
  for (int d = 0; d < 5; ++d)
    if (side.sizes[d] > 1 && side.strides[d] != strides[d]) return false;
  return true;
}

bool by_library(const Call& c, int rank, const Work& work) {
  if (!allow_dnn()) return false;
  Dnn* with = dnn();
  if (!with || !with->supports(c.dtype)) return false;
  for (const Side* side : {&c.input, &c.weight, &c.output})
    if (side->numel() > kMostElements) return false;

  DnnProblem problem;
  DnnShape& s = problem.shape;
  // Tensors of one channel or one place lie both ways: the others decide.
  const auto says_last = [](const Side& side) { return side.by_channels() && side.space() > 1; };
  const bool last = says_last(c.input) || says_last(c.output);
  int64_t strides[5];
  for (const Side* side : {&c.input, &c.output}) {
    dense_strides(side->sizes, 5, last, strides);
    if (!lies_so(*side, strides)) return false;
  }
  dense_strides(c.weight.sizes, 5, last, strides);
  const bool as_it_is = lies_so(c.weight, strides);
  s.space = rank == 3 ? 3 : 2;
  const int skip = 3 - s.space;
  const auto put_sizes = [&](int32_t(&to)[5], const Side& from) {
    to[0] = narrow(from.sizes[0]);
    to[1] = narrow(from.sizes[1]);
    for (int d = 0; d < 3; ++d) to[d + 2] = d < s.space ? narrow(from.sizes[d + 2 + skip]) : 1;
  };
  put_sizes(s.input, c.input);
  put_sizes(s.weight, c.weight);
  put_sizes(s.output, c.output);
  for (int d = 0; d < s.space; ++d) {
    s.stride[d] = narrow(c.stride[d + skip]);
    s.padding[d] = narrow(c.padding[d + skip]);
    s.dilation[d] = narrow(c.dilation[d + skip]);
  }
  s.groups = narrow(c.groups);
  s.part = static_cast<uint8_t>(c.part);
  s.dtype = static_cast<uint8_t>(c.dtype);
  s.last = last;
  s.tf32 = c.dtype == kFloat && allow_tf32();
  s.with_bias = c.bias != nullptr;
  problem.input = c.input.data;
  problem.output = c.output.data;
  problem.weight = c.weight.data;
  problem.bias = c.bias;

  for (const void* data : std::initializer_list<const void*>{problem.input, as_it_is ? problem.weight : problem.input,
                                                             problem.output, problem.bias})
    if (!aligned_16(data)) return false;
  // A transposed convolution may be padded by a stride or more; the libraries know no such sizes.
  for (int d = 0; d < s.space; ++d) {
    const int32_t reach = s.dilation[d] * (s.weight[d + 2] - 1) + 1;
    if ((s.input[d + 2] + 2 * s.padding[d] - reach) / s.stride[d] + 1 != s.output[d + 2]) return false;
  }

  const bool makes_weight = c.part == ConvolutionPart::Weight;
  std::optional<DeviceScratch> other;
  if (!as_it_is) {
    other.emplace(work.device, static_cast<size_t>(c.weight.numel()) * elementSize(c.dtype), work.op);
    problem.weight = other->data();
    if (!makes_weight)
      copy_strided(problem.weight, strides, c.dtype, c.weight.data, c.weight.strides, c.dtype,
                   IntArrayRef(c.weight.sizes, 5), work);
  }
  const StreamRef stream = encode(work);
  bool done = with->convolve(problem, stream, work.op);
  if (!done && s.with_bias) {
    s.with_bias = 0;
    problem.bias = nullptr;
    done = with->convolve(problem, stream, work.op);
    if (done) {
      ck::BiasParams p{c.output.data, c.bias, c.output.numel(), c.output.sizes[1], c.output.space(), last, 0};
      launch_blocks(kernel_of(kAddBias, c.dtype, 32, false), ceil_div(p.count, kTeamThreads), p, work);
    }
  }
  if (done && makes_weight && !as_it_is)
    copy_strided(c.weight.data, c.weight.strides, c.dtype, problem.weight, strides, c.dtype,
                 IntArrayRef(c.weight.sizes, 5), work);
  return done;
}

// ---- the primitive --------------------------------------------------------------------------------------------------

bool convolution_gpu(const ConvolutionArgs& args) {
  const ScalarType t = args.input.scalar_type();
  if (t != kFloat && t != kDouble && t != kHalf && t != kBFloat16) return false;
  const Call c = call_of(args);
  if (!counts_fit(c)) return false;
  const bool weight = args.part == ConvolutionPart::Weight;
  const TensorWork work(weight ? "_convolution_weight_grad" : "convolution",
                        {&args.input, &args.weight, &args.output, &args.bias});
  enter(work.device(), work.op());
  if (by_library(c, static_cast<int>(args.stride.size()), work)) return true;
  if (weight) weight_gradient(c, work);
  else gather(c, work);
  return true;
}

const KernelRegistration convolution_registration(OpId::convolution, DeviceType::CUDA, &convolution_gpu);

}  // namespace
}  // namespace facula::gpu
