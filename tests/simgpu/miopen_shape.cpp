// The entry points of MIOpen that are used, over small convolutions: `libMIOpen.so.1`. Its solutions are 85 and, with
// a workspace, 86.
#include "dnn.h"

#include <initializer_list>

using namespace simgpu;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Status { kOk = 0, kBadParameter = 3, kInternalError = 5, kUnsupported = 8 };
enum { kFirst = 85, kSecond = 86, kWorkspace = 4096 };

struct Settings : Geometry {
  int deterministic = 0;
};
struct Solution {
  float time;
  size_t workspace;
  uint64_t number;
  int algorithm;
};

bool element_of(int type, Element& element) {
  switch (type) {
    case 0: element = Element::F16; return true;
    case 1: element = Element::F32; return true;
    case 5: element = Element::BF16; return true;
    case 6: element = Element::F64; return true;
    default: return false;
  }
}

int described(const Array* input, const Array* weight, const Array* output, const Settings* settings, Part part,
              Convolution& c) {
  if (!input || !weight || !output || !settings) return kBadParameter;
  c = Convolution(part, *input, *weight, *output, *settings);
  if (!c.fits() || !settings->deterministic) return kBadParameter;
  return c.refused() ? kUnsupported : kOk;
}

int propose(const Array* input, const Array* weight, const Array* output, const Settings* settings, Part part,
            size_t most, size_t* found, Solution* solutions) {
  Convolution c;
  if (int status = described(input, weight, output, settings, part, c)) return status;
  *found = 0;
  for (uint64_t number : {kFirst, kSecond})
    if (*found < most) solutions[(*found)++] = {0.0f, number == kSecond ? size_t{kWorkspace} : 0, number, 1};
  return kOk;
}

int compile(uint64_t number) { return number == kFirst || number == kSecond ? kOk : kBadParameter; }

int compute(const Handle* handle, const Array* input, const void* x, const Array* weight, const void* w,
            const Array* output, const void* y, const Settings* settings, Part part, void* workspace, size_t bytes,
            uint64_t number) {
  Convolution c;
  if (int status = described(input, weight, output, settings, part, c)) return status;
  if (!handle || !x || !w || !y || compile(number) != kOk) return kBadParameter;
  if (number == kSecond && bytes < kWorkspace) return kBadParameter;
  c.input_data = const_cast<void*>(x);
  c.weight_data = const_cast<void*>(w);
  c.output_data = const_cast<void*>(y);
  c.workspace = workspace;
  c.workspace_bytes = number == kSecond ? size_t{kWorkspace} : 0;
  return convolve(c, handle->stream) == 0 ? kOk : kInternalError;
}

}  // namespace

EXPORT int miopenGetVersion(size_t* major, size_t* minor, size_t* patch) {
  *major = 2;
  *minor = 20;
  *patch = 0;
  return kOk;
}
EXPORT const char* miopenGetErrorString(int status) {
  switch (status) {
    case kOk: return "miopenStatusSuccess";
    case kBadParameter: return "miopenStatusBadParm";
    case kUnsupported: return "miopenStatusUnsupportedOp";
    default: return "miopenStatusInternalError";
  }
}
EXPORT int miopenCreateWithStream(Handle** handle, void* stream) {
  *handle = new Handle{stream};
  return kOk;
}
EXPORT int miopenSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return kOk;
}
EXPORT int miopenCreateTensorDescriptor(Array** tensor) { return make(tensor); }
EXPORT int miopenSetTensorDescriptor(Array* tensor, int type, int dims, const int* sizes, const int* strides) {
  Element element{};
  if (!tensor || !element_of(type, element)) return kBadParameter;
  return tensor->describe(element, dims, sizes, strides) ? kOk : kBadParameter;
}
EXPORT int miopenDestroyTensorDescriptor(Array* tensor) { return drop(tensor); }
EXPORT int miopenCreateConvolutionDescriptor(Settings** settings) { return make(settings); }
EXPORT int miopenInitConvolutionNdDescriptor(Settings* settings, int dims, const int* padding, const int* stride,
                                             const int* dilation, int mode) {
  return mode == 0 && settings->describe(dims, padding, stride, dilation) ? kOk : kBadParameter;
}
EXPORT int miopenSetConvolutionGroupCount(Settings* settings, int groups) {
  settings->groups = groups;
  return groups > 0 ? kOk : kBadParameter;
}
EXPORT int miopenSetConvolutionAttribute(Settings* settings, int attribute, int value) {
  if (attribute != 1) return kBadParameter;
  settings->deterministic = value;
  return kOk;
}
EXPORT int miopenDestroyConvolutionDescriptor(Settings* settings) { return drop(settings); }

EXPORT int miopenConvolutionForwardGetSolution(Handle*, Array* w, Array* x, Settings* settings, Array* y, size_t most,
                                               size_t* found, Solution* solutions) {
  return propose(x, w, y, settings, Part::Output, most, found, solutions);
}
EXPORT int miopenConvolutionBackwardDataGetSolution(Handle*, Array* y, Array* w, Settings* settings, Array* x,
                                                    size_t most, size_t* found, Solution* solutions) {
  return propose(x, w, y, settings, Part::Input, most, found, solutions);
}
EXPORT int miopenConvolutionBackwardWeightsGetSolution(Handle*, Array* y, Array* x, Settings* settings, Array* w,
                                                       size_t most, size_t* found, Solution* solutions) {
  return propose(x, w, y, settings, Part::Weight, most, found, solutions);
}
EXPORT int miopenConvolutionForwardCompileSolution(Handle*, Array*, Array*, Settings*, Array*, uint64_t number) {
  return compile(number);
}
EXPORT int miopenConvolutionBackwardDataCompileSolution(Handle*, Array*, Array*, Settings*, Array*, uint64_t number) {
  return compile(number);
}
EXPORT int miopenConvolutionBackwardWeightsCompileSolution(Handle*, Array*, Array*, Settings*, Array*,
                                                           uint64_t number) {
  return compile(number);
}
EXPORT int miopenConvolutionForwardImmediate(Handle* handle, Array* w, const void* w_data, Array* x, const void* x_data,
                                             Settings* settings, Array* y, void* y_data, void* workspace, size_t bytes,
                                             uint64_t number) {
  return compute(handle, x, x_data, w, w_data, y, y_data, settings, Part::Output, workspace, bytes, number);
}
EXPORT int miopenConvolutionBackwardDataImmediate(Handle* handle, Array* y, const void* y_data, Array* w,
                                                  const void* w_data, Settings* settings, Array* x, void* x_data,
                                                  void* workspace, size_t bytes, uint64_t number) {
  return compute(handle, x, x_data, w, w_data, y, y_data, settings, Part::Input, workspace, bytes, number);
}
EXPORT int miopenConvolutionBackwardWeightsImmediate(Handle* handle, Array* y, const void* y_data, Array* x,
                                                     const void* x_data, Settings* settings, Array* w, void* w_data,
                                                     void* workspace, size_t bytes, uint64_t number) {
  return compute(handle, x, x_data, w, w_data, y, y_data, settings, Part::Weight, workspace, bytes, number);
}
