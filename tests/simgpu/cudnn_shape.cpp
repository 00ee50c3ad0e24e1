// The entry points of cuDNN 9 that are used, over small convolutions: `libcudnn.so.9`. Of its algorithms 0 and 1
// compute, 2 gives other bits every time and must not be asked for, and 3 is proposed with a status that takes it
// back.
#include "dnn.h"

using namespace simgpu;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Status { kOk = 0, kBadParameter = 2000, kNullPointer = 2002, kNotSupported = 3000, kExecutionFailed = 5000 };
enum { kAlgorithms = 4, kWorkspace = 4096 };

struct Settings : Geometry {
  int math = 0, compute = 0;
};
struct Activation {
  int mode = -1;
};
struct Proposal {
  int algorithm, status;
  float time;
  size_t memory;
  int determinism, math, reserved[3];
};

bool element_of(int type, Element& element) {
  switch (type) {
    case 0: element = Element::F32; return true;
    case 1: element = Element::F64; return true;
    case 2: element = Element::F16; return true;
    case 9: element = Element::BF16; return true;
    default: return false;
  }
}

int described(const Array* input, const Array* weight, const Array* output, const Settings* settings, Part part,
              Convolution& c) {
  if (!input || !weight || !output || !settings) return kNullPointer;
  c = Convolution(part, *input, *weight, *output, *settings);
  if (!c.fits()) return kBadParameter;
  if (settings->compute != (c.input.type == Element::F64 ? 1 : 0)) return kNotSupported;
  return c.refused() ? kNotSupported : kOk;
}

size_t room(int algorithm) { return algorithm == 1 ? kWorkspace : 0; }

int propose(const Array* input, const Array* weight, const Array* output, const Settings* settings, Part part,
            int wanted, int* found, Proposal* results) {
  Convolution c;
  if (int status = described(input, weight, output, settings, part, c)) return status;
  if (!found || !results) return kNullPointer;
  *found = wanted < kAlgorithms ? wanted : kAlgorithms;
  for (int i = 0; i < *found; ++i)
    results[i] = {i, i == 3 ? kNotSupported : kOk, 0.0f, room(i), i == 2 ? 0 : 1, settings->math, {}};
  return kOk;
}

int compute(const Handle* handle, const Array* input, const void* x, const Array* weight, const void* w,
            const Array* output, const void* y, const Settings* settings, Part part, int algorithm, void* workspace,
            size_t bytes, const void* beta, const void* bias) {
  Convolution c;
  if (int status = described(input, weight, output, settings, part, c)) return status;
  if (!handle || !x || !w || !y || !beta) return kNullPointer;
  if (algorithm != 0 && algorithm != 1) return kExecutionFailed;
  if (bytes < room(algorithm)) return kBadParameter;
  c.input_data = const_cast<void*>(x);
  c.weight_data = const_cast<void*>(w);
  c.output_data = const_cast<void*>(y);
  c.bias = bias;
  c.workspace = workspace;
  c.workspace_bytes = room(algorithm);
  return convolve(c, handle->stream) == 0 ? kOk : kExecutionFailed;
}

}  // namespace

EXPORT size_t cudnnGetVersion() { return 90100; }
EXPORT const char* cudnnGetErrorString(int status) {
  switch (status) {
    case kOk: return "CUDNN_STATUS_SUCCESS";
    case kBadParameter: return "CUDNN_STATUS_BAD_PARAM";
    case kNullPointer: return "CUDNN_STATUS_BAD_PARAM_NULL_POINTER";
    case kNotSupported: return "CUDNN_STATUS_NOT_SUPPORTED";
    default: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
EXPORT int cudnnCreate(Handle** handle) { return make(handle); }
EXPORT int cudnnSetStream(Handle* handle, void* stream) {
  handle->stream = stream;
  return kOk;
}

EXPORT int cudnnCreateTensorDescriptor(Array** tensor) { return make(tensor); }
EXPORT int cudnnSetTensorNdDescriptor(Array* tensor, int type, int dims, const int* sizes, const int* strides) {
  Element element{};
  if (!tensor || !element_of(type, element)) return kBadParameter;
  return tensor->describe(element, dims, sizes, strides) ? kOk : kBadParameter;
}
EXPORT int cudnnDestroyTensorDescriptor(Array* tensor) { return drop(tensor); }
EXPORT int cudnnCreateFilterDescriptor(Array** filter) { return cudnnCreateTensorDescriptor(filter); }
EXPORT int cudnnSetFilterNdDescriptor(Array* filter, int type, int format, int dims, const int* sizes) {
  if (format != 0 && format != 1) return kBadParameter;
  int strides[5], step = format == 1 ? sizes[1] : 1;
  for (int d = dims - 1; d >= 2; --d) {
    strides[d] = step;
    step *= sizes[d];
  }
  strides[1] = format == 1 ? 1 : step;
  strides[0] = format == 1 ? step : step * sizes[1];
  return cudnnSetTensorNdDescriptor(filter, type, dims, sizes, strides);
}
EXPORT int cudnnDestroyFilterDescriptor(Array* filter) { return cudnnDestroyTensorDescriptor(filter); }

EXPORT int cudnnCreateConvolutionDescriptor(Settings** settings) { return make(settings); }
EXPORT int cudnnSetConvolutionNdDescriptor(Settings* settings, int dims, const int* padding, const int* stride,
                                           const int* dilation, int mode, int compute_type) {
  settings->compute = compute_type;
  return mode == 1 && settings->describe(dims, padding, stride, dilation) ? kOk : kBadParameter;
}
EXPORT int cudnnSetConvolutionGroupCount(Settings* settings, int groups) {
  settings->groups = groups;
  return groups > 0 ? kOk : kBadParameter;
}
EXPORT int cudnnSetConvolutionMathType(Settings* settings, int math) {
  settings->math = math;
  return math >= 0 && math <= 3 ? kOk : kBadParameter;
}
EXPORT int cudnnDestroyConvolutionDescriptor(Settings* settings) { return drop(settings); }
EXPORT int cudnnCreateActivationDescriptor(Activation** activation) { return make(activation); }
EXPORT int cudnnSetActivationDescriptor(Activation* activation, int mode, int, double) {
  activation->mode = mode;
  return kOk;
}
EXPORT int cudnnDestroyActivationDescriptor(Activation* activation) { return drop(activation); }

EXPORT int cudnnGetConvolutionForwardAlgorithm_v7(Handle*, Array* x, Array* w, Settings* settings, Array* y, int wanted,
                                                  int* found, Proposal* results) {
  return propose(x, w, y, settings, Part::Output, wanted, found, results);
}
EXPORT int cudnnGetConvolutionBackwardDataAlgorithm_v7(Handle*, Array* w, Array* y, Settings* settings, Array* x,
                                                       int wanted, int* found, Proposal* results) {
  return propose(x, w, y, settings, Part::Input, wanted, found, results);
}
EXPORT int cudnnGetConvolutionBackwardFilterAlgorithm_v7(Handle*, Array* x, Array* y, Settings* settings, Array* w,
                                                         int wanted, int* found, Proposal* results) {
  return propose(x, w, y, settings, Part::Weight, wanted, found, results);
}
EXPORT int cudnnGetConvolutionForwardWorkspaceSize(Handle*, Array* x, Array* w, Settings* settings, Array* y,
                                                   int algorithm, size_t* bytes) {
  Convolution c;
  if (int status = described(x, w, y, settings, Part::Output, c)) return status;
  *bytes = room(algorithm);
  return kOk;
}
EXPORT int cudnnConvolutionForward(Handle* handle, const void*, Array* x, const void* x_data, Array* w,
                                   const void* w_data, Settings* settings, int algorithm, void* workspace, size_t bytes,
                                   const void* beta, Array* y, void* y_data) {
  return compute(handle, x, x_data, w, w_data, y, y_data, settings, Part::Output, algorithm, workspace, bytes, beta,
                 nullptr);
}
EXPORT int cudnnConvolutionBackwardData(Handle* handle, const void*, Array* w, const void* w_data, Array* y,
                                        const void* y_data, Settings* settings, int algorithm, void* workspace,
                                        size_t bytes, const void* beta, Array* x, void* x_data) {
  return compute(handle, x, x_data, w, w_data, y, y_data, settings, Part::Input, algorithm, workspace, bytes, beta,
                 nullptr);
}
EXPORT int cudnnConvolutionBackwardFilter(Handle* handle, const void*, Array* x, const void* x_data, Array* y,
                                          const void* y_data, Settings* settings, int algorithm, void* workspace,
                                          size_t bytes, const void* beta, Array* w, void* w_data) {
  return compute(handle, x, x_data, w, w_data, y, y_data, settings, Part::Weight, algorithm, workspace, bytes, beta,
                 nullptr);
}
// Adds a bias of 32 channels or fewer only, so that the rest is left to others.
EXPORT int cudnnConvolutionBiasActivationForward(Handle* handle, const void*, Array* x, const void* x_data, Array* w,
                                                 const void* w_data, Settings* settings, int algorithm, void* workspace,
                                                 size_t bytes, const void* added, Array*, const void*, Array* bias,
                                                 const void* bias_data, Activation* activation, Array* y,
                                                 void* y_data) {
  if (!bias || !bias_data || !activation) return kNullPointer;
  if (activation->mode != 5 || algorithm != 1 || bias->sizes[1] != y->sizes[1]) return kBadParameter;
  if (bias->sizes[1] > 32) return kNotSupported;
  return compute(handle, x, x_data, w, w_data, y, y_data, settings, Part::Output, algorithm, workspace, bytes, added,
                 bias_data);
}
