// cuDNN 9: its names, numbers and sizes, as far as convolutions need them. No header of it is needed to build.
#include "gpu/driver/library.h"
#include "gpu/libs/dnn.h"

#include <facula/core/error.h>

#include <algorithm>
#include <vector>

namespace facula::gpu {
namespace {

// cudnnDataType_t, cudnnMathType_t and others
enum : int { kTypeFloat = 0, kTypeDouble = 1, kTypeHalf = 2, kTypeBFloat16 = 9 };
enum : int { kDefaultMath = 0, kTensorOps = 1, kPlainMath = 3 };
enum : int { kChannelsFirst = 0, kChannelsLast = 1 };
enum : int { kCrossCorrelation = 1, kIdentity = 5, kPropagateNan = 1, kDeterministic = 1 };
// The one algorithm that adds a bias without an activation.
enum : int { kPrecomputedGemm = 1 };
constexpr int kProposals = 16;

// The result of a search, cudnnConvolution*AlgoPerf_t.
struct Proposal {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
};
static_assert(sizeof(Proposal) == 48);

struct Api {
  int (*create)(void** handle);
  int (*set_stream)(void* handle, void* stream);
  const char* (*error_text)(int status);
  int (*tensor_create)(void** tensor);
  int (*tensor_set)(void* tensor, int type, int dims, const int* sizes, const int* strides);
  int (*tensor_destroy)(void* tensor);
  int (*filter_create)(void** filter);
  int (*filter_set)(void* filter, int type, int format, int dims, const int* sizes);
  int (*filter_destroy)(void* filter);
  int (*convolution_create)(void** convolution);
  int (*convolution_set)(void* convolution, int dims, const int* padding, const int* stride, const int* dilation,
                         int mode, int compute);
  int (*convolution_groups)(void* convolution, int groups);
  int (*convolution_math)(void* convolution, int math);
  int (*convolution_destroy)(void* convolution);
  int (*activation_create)(void** activation);
  int (*activation_set)(void* activation, int mode, int nan, double coefficient);
  int (*activation_destroy)(void* activation);
  // input, weight, output; weight, output, input; input, output, weight
  int (*propose_output)(void* handle, void* first, void* second, void* convolution, void* third, int wanted, int* found,
                        Proposal* results);
  int (*propose_input)(void* handle, void* first, void* second, void* convolution, void* third, int wanted, int* found,
                       Proposal* results);
  int (*propose_weight)(void* handle, void* first, void* second, void* convolution, void* third, int wanted, int* found,
                        Proposal* results);
  int (*room_output)(void* handle, void* first, void* second, void* convolution, void* third, int algorithm,
                     size_t* bytes);
  int (*run_output)(void* handle, const void* alpha, void* first, const void* first_data, void* second,
                    const void* second_data, void* convolution, int algorithm, void* workspace, size_t bytes,
                    const void* beta, void* third, void* third_data);
  int (*run_input)(void* handle, const void* alpha, void* first, const void* first_data, void* second,
                   const void* second_data, void* convolution, int algorithm, void* workspace, size_t bytes,
                   const void* beta, void* third, void* third_data);
  int (*run_weight)(void* handle, const void* alpha, void* first, const void* first_data, void* second,
                    const void* second_data, void* convolution, int algorithm, void* workspace, size_t bytes,
                    const void* beta, void* third, void* third_data);
  int (*run_biased)(void* handle, const void* alpha, void* input, const void* input_data, void* weight,
                    const void* weight_data, void* convolution, int algorithm, void* workspace, size_t bytes,
                    const void* added_factor, void* added, const void* added_data, void* bias, const void* bias_data,
                    void* activation, void* output, void* output_data);
};

std::vector<EntryPoint> entry_points(Api& api) {
  return {
      {api.create, "cudnnCreate"},
      {api.set_stream, "cudnnSetStream"},
      {api.error_text, "cudnnGetErrorString"},
      {api.tensor_create, "cudnnCreateTensorDescriptor"},
      {api.tensor_set, "cudnnSetTensorNdDescriptor"},
      {api.tensor_destroy, "cudnnDestroyTensorDescriptor"},
      {api.filter_create, "cudnnCreateFilterDescriptor"},
      {api.filter_set, "cudnnSetFilterNdDescriptor"},
      {api.filter_destroy, "cudnnDestroyFilterDescriptor"},
      {api.convolution_create, "cudnnCreateConvolutionDescriptor"},
      {api.convolution_set, "cudnnSetConvolutionNdDescriptor"},
      {api.convolution_groups, "cudnnSetConvolutionGroupCount"},
      {api.convolution_math, "cudnnSetConvolutionMathType"},
      {api.convolution_destroy, "cudnnDestroyConvolutionDescriptor"},
      {api.activation_create, "cudnnCreateActivationDescriptor"},
      {api.activation_set, "cudnnSetActivationDescriptor"},
      {api.activation_destroy, "cudnnDestroyActivationDescriptor"},
      {api.propose_output, "cudnnGetConvolutionForwardAlgorithm_v7"},
      {api.propose_input, "cudnnGetConvolutionBackwardDataAlgorithm_v7"},
      {api.propose_weight, "cudnnGetConvolutionBackwardFilterAlgorithm_v7"},
      {api.room_output, "cudnnGetConvolutionForwardWorkspaceSize"},
      {api.run_output, "cudnnConvolutionForward"},
      {api.run_input, "cudnnConvolutionBackwardData"},
      {api.run_weight, "cudnnConvolutionBackwardFilter"},
      {api.run_biased, "cudnnConvolutionBiasActivationForward"},
  };
}

int type_of(ScalarType t) {
  switch (t) {
    case ScalarType::Float: return kTypeFloat;
    case ScalarType::Double: return kTypeDouble;
    case ScalarType::Half: return kTypeHalf;
    case ScalarType::BFloat16: return kTypeBFloat16;
    default: return -1;
  }
}

class CudnnDescription final : public DnnVendor::Description {
 public:
  explicit CudnnDescription(const Api& api) : api_(api) {}
  ~CudnnDescription() override {
    for (void* tensor : {input, output, bias})
      if (tensor) api_.tensor_destroy(tensor);
    if (weight) api_.filter_destroy(weight);
    if (convolution) api_.convolution_destroy(convolution);
    if (activation) api_.activation_destroy(activation);
  }
  void *input = nullptr, *output = nullptr, *bias = nullptr, *weight = nullptr, *convolution = nullptr,
       *activation = nullptr;
  int math = kDefaultMath;  // what the description says at the moment

  bool describe(const DnnShape& s) {
    const auto dtype = static_cast<ScalarType>(s.dtype);
    const int type = type_of(dtype), dims = s.space + 2;
    const int compute = dtype == ScalarType::Double ? kTypeDouble : kTypeFloat;
    math = usual_math(s);
    if (!describe_tensor(input, type, s.input, s.last != 0, dims) ||
        !describe_tensor(output, type, s.output, s.last != 0, dims) || api_.filter_create(&weight) != 0 ||
        api_.filter_set(weight, type, s.last ? kChannelsLast : kChannelsFirst, dims, s.weight) != 0 ||
        api_.convolution_create(&convolution) != 0 ||
        api_.convolution_set(convolution, s.space, s.padding, s.stride, s.dilation, kCrossCorrelation, compute) != 0 ||
        api_.convolution_groups(convolution, s.groups) != 0 || api_.convolution_math(convolution, math) != 0)
      return false;
    if (!s.with_bias) return true;
    const int32_t sizes[5] = {1, s.output[1], 1, 1, 1};
    return describe_tensor(bias, type, sizes, s.last != 0, dims) && api_.activation_create(&activation) == 0 &&
           api_.activation_set(activation, kIdentity, kPropagateNan, 0.0) == 0;
  }
  // Float32 stays float32 unless products may be rounded; 16-bit floats are multiplied by tensor cores.
  static int usual_math(const DnnShape& s) {
    switch (static_cast<ScalarType>(s.dtype)) {
      case ScalarType::Float: return s.tf32 ? kDefaultMath : kPlainMath;
      case ScalarType::Double: return kDefaultMath;
      default: return kTensorOps;
    }
  }

 private:
  bool describe_tensor(void*& tensor, int type, const int32_t* sizes, bool last, int dims) {
    if (api_.tensor_create(&tensor) != 0) return false;
    int strides[5], step = last ? sizes[1] : 1;
    for (int d = dims - 1; d >= 2; --d) {
      strides[d] = step;
      step *= sizes[d];
    }
    strides[1] = last ? 1 : step;
    strides[0] = last ? step : step * sizes[1];
    return api_.tensor_set(tensor, type, dims, sizes, strides) == 0;
  }

  const Api& api_;
};

class Cudnn final : public DnnVendor {
 public:
  Cudnn(const Api& api, std::string name, std::string path)
      : api_(api), name_(std::move(name)), path_(std::move(path)) {}
  const std::string& name() const override { return name_; }
  const std::string& path() const override { return path_; }
  bool supports(ScalarType dtype) const override { return type_of(dtype) >= 0; }
  int create(void*& handle, StreamHandle) override { return api_.create(&handle); }

  std::unique_ptr<Description> describe(const DnnShape& shape) override {
    auto made = std::make_unique<CudnnDescription>(api_);
    if (!made->describe(shape)) return nullptr;
    return made;
  }

  std::vector<DnnAlgorithm> algorithms(void* handle, Description& description, const DnnShape& shape) override {
    auto& d = static_cast<CudnnDescription&>(description);
    std::vector<DnnAlgorithm> all;
    if (shape.with_bias) {
      size_t room = 0;
      if (api_.room_output(handle, d.input, d.weight, d.convolution, d.output, kPrecomputedGemm, &room) == 0)
        all.push_back({kPrecomputedGemm, d.math, room});
      return all;
    }
    Proposal results[kProposals] = {};
    int found = 0, status = 0;
    switch (static_cast<ConvolutionPart>(shape.part)) {
      case ConvolutionPart::Output:
        status = api_.propose_output(handle, d.input, d.weight, d.convolution, d.output, kProposals, &found, results);
        break;
      case ConvolutionPart::Input:
        status = api_.propose_input(handle, d.weight, d.output, d.convolution, d.input, kProposals, &found, results);
        break;
      case ConvolutionPart::Weight:
        status = api_.propose_weight(handle, d.input, d.output, d.convolution, d.weight, kProposals, &found, results);
        break;
    }
    if (status != 0) return all;
    const bool exact = CudnnDescription::usual_math(shape) == kPlainMath;
    for (int i = 0; i < found; ++i) {
      const Proposal& p = results[i];
      if (p.status != 0 || p.determinism != kDeterministic) continue;
      // The usual math of an algorithm may round to TF32: where that is not wanted it is told so.
      const DnnAlgorithm a{p.algorithm, exact ? kPlainMath : p.math, p.memory};
      const bool again = std::any_of(all.begin(), all.end(), [&](const DnnAlgorithm& other) {
        return other.number == a.number && other.math == a.math;
      });
      if (!again) all.push_back(a);
    }
    return all;
  }

  int run(void* handle, StreamHandle stream, Description& description, const DnnAlgorithm& algorithm,
          const DnnProblem& p, void* workspace) override {
    auto& d = static_cast<CudnnDescription&>(description);
    if (const int status = api_.set_stream(handle, stream)) return status;
    if (d.math != algorithm.math) {
      d.math = static_cast<int>(algorithm.math);
      if (const int status = api_.convolution_math(d.convolution, d.math)) return status;
    }
    // Factors have the type that sums are kept in.
    const double one_wide = 1, zero_wide = 0;
    const float one_narrow = 1, zero_narrow = 0;
    const bool wide = p.dtype() == ScalarType::Double;
    const void* one = wide ? static_cast<const void*>(&one_wide) : &one_narrow;
    const void* zero = wide ? static_cast<const void*>(&zero_wide) : &zero_narrow;
    const int number = static_cast<int>(algorithm.number);
    switch (p.part()) {
      case ConvolutionPart::Output:
        if (p.shape.with_bias)
          return api_.run_biased(handle, one, d.input, p.input, d.weight, p.weight, d.convolution, number, workspace,
                                 algorithm.workspace, zero, d.output, p.output, d.bias, p.bias, d.activation, d.output,
                                 p.output);
        return api_.run_output(handle, one, d.input, p.input, d.weight, p.weight, d.convolution, number, workspace,
                               algorithm.workspace, zero, d.output, p.output);
      case ConvolutionPart::Input:
        return api_.run_input(handle, one, d.weight, p.weight, d.output, p.output, d.convolution, number, workspace,
                              algorithm.workspace, zero, d.input, p.input);
      default:
        return api_.run_weight(handle, one, d.input, p.input, d.output, p.output, d.convolution, number, workspace,
                               algorithm.workspace, zero, d.weight, p.weight);
    }
  }

  std::string status_name(int status) const override {
    const char* text = api_.error_text(status);
    return text ? std::string(text) : str("status ", status);
  }
  // 1xxx: not usable as it is installed; 2xxx: bad parameter; 3xxx: not supported. 4xxx and 5xxx are failures.
  bool is_refusal(int status) const override { return status >= 1000 && status < 4000; }

 private:
  Api api_;
  std::string name_, path_;
};

}  // namespace

std::unique_ptr<DnnVendor> find_dnn_cuda(std::string& why_not) {
  static constexpr const char* kNames[] = {"libcudnn.so.9"};
  Api api{};
  const std::vector<EntryPoint> functions = entry_points(api);
  const Library library = find_library({.what = "cuDNN", .sonames = kNames, .entry_points = functions});
  if (!library) return why_not = library.why_not(), nullptr;
  std::string name = "cuDNN";
  size_t (*version)() = nullptr;
  if (library.load(version, "cudnnGetVersion")) {
    const size_t v = version();  // 90100 is 9.1.0
    name += str(" ", v / 10000, ".", v % 10000 / 100, ".", v % 100);
  }
  return std::make_unique<Cudnn>(api, std::move(name), library.path());
}

}  // namespace facula::gpu
