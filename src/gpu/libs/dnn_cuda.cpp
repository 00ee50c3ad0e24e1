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

// The three questions have the same entry points; the order of the tensors differs.
struct Part {
  int (*propose)(void* handle, void* first, void* second, void* convolution, void* third, int wanted, int* found,
                 Proposal* results);
  int (*run)(void* handle, const void* alpha, void* first, const void* first_data, void* second,
             const void* second_data, void* convolution, int algorithm, void* workspace, size_t bytes, const void* beta,
             void* third, void* third_data);
};
// By ConvolutionPart: the two that are given, then the one that is computed.
constexpr ConvolutionPart kOrder[3][3] = {{ConvolutionPart::Input, ConvolutionPart::Weight, ConvolutionPart::Output},
                                          {ConvolutionPart::Weight, ConvolutionPart::Output, ConvolutionPart::Input},
                                          {ConvolutionPart::Input, ConvolutionPart::Output, ConvolutionPart::Weight}};
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
  Part parts[3];  // by ConvolutionPart
  int (*room_output)(void* handle, void* first, void* second, void* convolution, void* third, int algorithm,
                     size_t* bytes);
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
      {api.parts[0].propose, "cudnnGetConvolutionForwardAlgorithm_v7"},
      {api.parts[1].propose, "cudnnGetConvolutionBackwardDataAlgorithm_v7"},
      {api.parts[2].propose, "cudnnGetConvolutionBackwardFilterAlgorithm_v7"},
      {api.room_output, "cudnnGetConvolutionForwardWorkspaceSize"},
      {api.parts[0].run, "cudnnConvolutionForward"},
      {api.parts[1].run, "cudnnConvolutionBackwardData"},
      {api.parts[2].run, "cudnnConvolutionBackwardFilter"},
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
    for (void* plain : {tensor(ConvolutionPart::Input), tensor(ConvolutionPart::Output), bias})
      if (plain) api_.tensor_destroy(plain);
    if (void* weight = tensor(ConvolutionPart::Weight)) api_.filter_destroy(weight);
    if (convolution) api_.convolution_destroy(convolution);
    if (activation) api_.activation_destroy(activation);
  }
  void *bias = nullptr, *activation = nullptr;
  int math = kDefaultMath;  // what the description says at the moment

  bool describe(const DnnShape& s) {
    const auto dtype = static_cast<ScalarType>(s.dtype);
    const int type = type_of(dtype), dims = s.space + 2;
    const int compute = dtype == ScalarType::Double ? kTypeDouble : kTypeFloat;
    math = usual_math(s);
    void*& weight = tensor(ConvolutionPart::Weight);
    if (!describe_tensor(tensor(ConvolutionPart::Input), type, s.input, s.last != 0, dims) ||
        !describe_tensor(tensor(ConvolutionPart::Output), type, s.output, s.last != 0, dims) ||
        api_.filter_create(&weight) != 0 ||
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
  bool describe_tensor(void*& made, int type, const int32_t* sizes, bool last, int dims) {
    int32_t strides[5];
    dense_strides(sizes, dims, last, strides);
    return api_.tensor_create(&made) == 0 && api_.tensor_set(made, type, dims, sizes, strides) == 0;
  }

  const Api& api_;
};

class Cudnn final : public DnnVendor {
 public:
  Cudnn(const Api& api, std::string name, std::string path) : DnnVendor(std::move(name), std::move(path)), api_(api) {}
  bool supports(ScalarType dtype) const override { return type_of(dtype) >= 0; }
  int create(void*& handle, StreamHandle) override { return api_.create(&handle); }

  std::unique_ptr<Description> describe(const DnnShape& shape) override {
    auto made = std::make_unique<CudnnDescription>(api_);
    if (!made->describe(shape)) return nullptr;
    return made;
  }

  std::vector<DnnAlgorithm> algorithms(void* handle, Description& description, const DnnShape& shape) override {
    auto& d = static_cast<CudnnDescription&>(description);
    const auto& [first, second, third] = kOrder[shape.part];
    std::vector<DnnAlgorithm> all;
    if (shape.with_bias) {
      size_t room = 0;
      if (api_.room_output(handle, d.tensor(first), d.tensor(second), d.convolution, d.tensor(third), kPrecomputedGemm,
                           &room) == 0)
        all.push_back({kPrecomputedGemm, d.math, room});
      return all;
    }
    Proposal results[kProposals] = {};
    int found = 0;
    if (api_.parts[shape.part].propose(handle, d.tensor(first), d.tensor(second), d.convolution, d.tensor(third),
                                       kProposals, &found, results) != 0)
      return all;
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
    const auto& [first, second, third] = kOrder[p.shape.part];
    if (p.shape.with_bias)
      return api_.run_biased(handle, one, d.tensor(first), p.data(first), d.tensor(second), p.data(second),
                             d.convolution, number, workspace, algorithm.workspace, zero, d.tensor(third),
                             p.data(third), d.bias, p.bias, d.activation, d.tensor(third), p.data(third));
    return api_.parts[p.shape.part].run(handle, one, d.tensor(first), p.data(first), d.tensor(second), p.data(second),
                                        d.convolution, number, workspace, algorithm.workspace, zero, d.tensor(third),
                                        p.data(third));
  }

  const char* error_text(int status) const override { return api_.error_text(status); }
  // 1xxx: not usable as it is installed; 2xxx: bad parameter; 3xxx: not supported. 4xxx and 5xxx are failures.
  bool is_refusal(int status) const override { return status >= 1000 && status < 4000; }

 private:
  Api api_;
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
