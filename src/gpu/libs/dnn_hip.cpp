// MIOpen: its names and numbers, as far as convolutions need them. No header of it is needed to build.
#include "gpu/driver/library.h"
#include "gpu/libs/dnn.h"

#include <facula/core/error.h>

#include <algorithm>
#include <vector>

namespace facula::gpu {
namespace {

enum : int { kTypeHalf = 0, kTypeFloat = 1, kTypeBFloat16 = 5, kTypeDouble = 6 };  // miopenDataType_t
enum : int { kConvolution = 0, kAttributeDeterministic = 1 };
enum : int { kBadParameter = 3, kNotImplemented = 6, kUnsupported = 8 };  // miopenStatus_t
constexpr size_t kProposals = 16;

struct Solution {  // miopenConvSolution_t
  float time;
  size_t workspace;
  uint64_t number;
  int algorithm;
};
static_assert(sizeof(Solution) == 32);

// The three questions have the same entry points; the order of the tensors differs.
struct Part {
  int (*propose)(void* handle, void* first, void* second, void* convolution, void* third, size_t most, size_t* found,
                 Solution* solutions);
  int (*compile)(void* handle, void* first, void* second, void* convolution, void* third, uint64_t number);
  int (*run)(void* handle, void* first, const void* first_data, void* second, const void* second_data,
             void* convolution, void* third, void* third_data, void* workspace, size_t bytes, uint64_t number);
};
// By ConvolutionPart: the two that are given, then the one that is computed.
constexpr ConvolutionPart kOrder[3][3] = {{ConvolutionPart::Weight, ConvolutionPart::Input, ConvolutionPart::Output},
                                          {ConvolutionPart::Output, ConvolutionPart::Weight, ConvolutionPart::Input},
                                          {ConvolutionPart::Output, ConvolutionPart::Input, ConvolutionPart::Weight}};
struct Api {
  int (*create)(void** handle, void* stream);
  int (*set_stream)(void* handle, void* stream);
  const char* (*error_text)(int status);
  int (*tensor_create)(void** tensor);
  int (*tensor_set)(void* tensor, int type, int dims, const int* sizes, const int* strides);
  int (*tensor_destroy)(void* tensor);
  int (*convolution_create)(void** convolution);
  int (*convolution_set)(void* convolution, int dims, const int* padding, const int* stride, const int* dilation,
                         int mode);
  int (*convolution_groups)(void* convolution, int groups);
  int (*convolution_attribute)(void* convolution, int attribute, int value);
  int (*convolution_destroy)(void* convolution);
  Part parts[3];  // by ConvolutionPart
};

std::vector<EntryPoint> entry_points(Api& api) {
  return {
      {api.create, "miopenCreateWithStream"},
      {api.set_stream, "miopenSetStream"},
      {api.error_text, "miopenGetErrorString"},
      {api.tensor_create, "miopenCreateTensorDescriptor"},
      {api.tensor_set, "miopenSetTensorDescriptor"},
      {api.tensor_destroy, "miopenDestroyTensorDescriptor"},
      {api.convolution_create, "miopenCreateConvolutionDescriptor"},
      {api.convolution_set, "miopenInitConvolutionNdDescriptor"},
      {api.convolution_groups, "miopenSetConvolutionGroupCount"},
      {api.convolution_attribute, "miopenSetConvolutionAttribute"},
      {api.convolution_destroy, "miopenDestroyConvolutionDescriptor"},
      {api.parts[0].propose, "miopenConvolutionForwardGetSolution"},
      {api.parts[0].compile, "miopenConvolutionForwardCompileSolution"},
      {api.parts[0].run, "miopenConvolutionForwardImmediate"},
      {api.parts[1].propose, "miopenConvolutionBackwardDataGetSolution"},
      {api.parts[1].compile, "miopenConvolutionBackwardDataCompileSolution"},
      {api.parts[1].run, "miopenConvolutionBackwardDataImmediate"},
      {api.parts[2].propose, "miopenConvolutionBackwardWeightsGetSolution"},
      {api.parts[2].compile, "miopenConvolutionBackwardWeightsCompileSolution"},
      {api.parts[2].run, "miopenConvolutionBackwardWeightsImmediate"},
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

class MiopenDescription final : public DnnVendor::Description {
 public:
  explicit MiopenDescription(const Api& api) : api_(api) {}
  ~MiopenDescription() override {
    for (void* made : tensors)
      if (made) api_.tensor_destroy(made);
    if (convolution) api_.convolution_destroy(convolution);
  }
  std::vector<int64_t> compiled;

  bool describe(const DnnShape& s) {
    const int type = type_of(static_cast<ScalarType>(s.dtype)), dims = s.space + 2;
    const bool last = s.last != 0;
    return describe_tensor(tensor(ConvolutionPart::Input), type, s.input, last, dims) &&
           describe_tensor(tensor(ConvolutionPart::Weight), type, s.weight, last, dims) &&
           describe_tensor(tensor(ConvolutionPart::Output), type, s.output, last, dims) &&
           api_.convolution_create(&convolution) == 0 &&
           api_.convolution_set(convolution, s.space, s.padding, s.stride, s.dilation, kConvolution) == 0 &&
           api_.convolution_groups(convolution, s.groups) == 0 &&
           api_.convolution_attribute(convolution, kAttributeDeterministic, 1) == 0;
  }

 private:
  bool describe_tensor(void*& made, int type, const int32_t* sizes, bool last, int dims) {
    int32_t strides[5];
    dense_strides(sizes, dims, last, strides);
    return api_.tensor_create(&made) == 0 && api_.tensor_set(made, type, dims, sizes, strides) == 0;
  }

  const Api& api_;
};

class Miopen final : public DnnVendor {
 public:
  Miopen(const Api& api, std::string name, std::string path) : DnnVendor(std::move(name), std::move(path)), api_(api) {}
  bool supports(ScalarType dtype) const override { return type_of(dtype) >= 0; }
  int create(void*& handle, StreamHandle stream) override { return api_.create(&handle, stream); }

  // A bias is added by others.
  std::unique_ptr<Description> describe(const DnnShape& shape) override {
    auto made = std::make_unique<MiopenDescription>(api_);
    if (shape.with_bias || !made->describe(shape)) return nullptr;
    return made;
  }

  std::vector<DnnAlgorithm> algorithms(void* handle, Description& description, const DnnShape& shape) override {
    const auto& [first, second, third] = kOrder[shape.part];
    Solution solutions[kProposals] = {};
    size_t found = 0;
    std::vector<DnnAlgorithm> all;
    if (api_.parts[shape.part].propose(handle, description.tensor(first), description.tensor(second),
                                       description.convolution, description.tensor(third), kProposals, &found,
                                       solutions) != 0)
      return all;
    for (size_t i = 0; i < std::min(found, kProposals); ++i)
      all.push_back({static_cast<int64_t>(solutions[i].number), 0, solutions[i].workspace});
    return all;
  }

  int run(void* handle, StreamHandle stream, Description& description, const DnnAlgorithm& algorithm,
          const DnnProblem& p, void* workspace) override {
    auto& d = static_cast<MiopenDescription&>(description);
    if (const int status = api_.set_stream(handle, stream)) return status;
    const auto& [first, second, third] = kOrder[p.shape.part];
    const Part& part = api_.parts[p.shape.part];
    const auto number = static_cast<uint64_t>(algorithm.number);
    if (std::find(d.compiled.begin(), d.compiled.end(), algorithm.number) == d.compiled.end()) {
      if (const int status =
              part.compile(handle, d.tensor(first), d.tensor(second), d.convolution, d.tensor(third), number))
        return status;
      d.compiled.push_back(algorithm.number);
    }
    return part.run(handle, d.tensor(first), p.data(first), d.tensor(second), p.data(second), d.convolution,
                    d.tensor(third), p.data(third), workspace, algorithm.workspace, number);
  }

  const char* error_text(int status) const override { return api_.error_text(status); }
  bool is_refusal(int status) const override {
    return status == kBadParameter || status == kNotImplemented || status == kUnsupported;
  }

 private:
  Api api_;
};

}  // namespace

std::unique_ptr<DnnVendor> find_dnn_hip(std::string& why_not) {
  static constexpr const char* kNames[] = {"libMIOpen.so.1"};
  Api api{};
  const std::vector<EntryPoint> functions = entry_points(api);
  const Library library = find_library({.what = "MIOpen", .sonames = kNames, .entry_points = functions});
  if (!library) return why_not = library.why_not(), nullptr;
  std::string name = "MIOpen";
  int (*version)(size_t*, size_t*, size_t*) = nullptr;
  size_t major = 0, minor = 0, patch = 0;
  if (library.load(version, "miopenGetVersion") && version(&major, &minor, &patch) == 0)
    name += str(" ", major, ".", minor, ".", patch);
  return std::make_unique<Miopen>(api, std::move(name), library.path());
}

}  // namespace facula::gpu
