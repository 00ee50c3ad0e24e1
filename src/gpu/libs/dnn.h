// The seam to a vendor's convolutions (cuDNN, MIOpen). Whoever calls knows neither names nor versions; a library that
// is missing, or that has no answer for a convolution, is no error: our own kernels compute it.
#pragma once

#include "cpu/convolution.h"
#include "gpu/runtime.h"

#include <facula/core/dtype.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace facula::gpu {

// All that the choice of an algorithm depends on. Compared byte by byte: every byte is written.
struct DnnShape {
  int32_t input[5], weight[5], output[5];  // (N, C, space), (O, C / groups, kernel), (N, O, space)
  int32_t stride[3], padding[3], dilation[3];
  int32_t groups;
  int32_t space;      // dims of space: 2 or 3; the rest is 1
  uint8_t part;       // a ConvolutionPart
  uint8_t dtype;      // a ScalarType
  uint8_t last;       // whether channels come last in all three tensors; else they are row-major
  uint8_t tf32;       // whether float32 factors may be rounded
  uint8_t with_bias;  // whether a bias is added to the output
  uint8_t reserved[3];
};

struct DnnProblem {
  DnnShape shape{};
  void *input = nullptr, *weight = nullptr, *output = nullptr;
  const void* bias = nullptr;
  ScalarType dtype() const { return static_cast<ScalarType>(shape.dtype); }
  void* data(ConvolutionPart of) const {
    return of == ConvolutionPart::Input ? input : of == ConvolutionPart::Weight ? weight : output;
  }
};

// The strides that a tensor of these sizes has row-major, or with channels last.
template <class Int>
void dense_strides(const Int* sizes, int dims, bool last, Int* strides) {
  Int step = last ? sizes[1] : 1;
  for (int d = dims - 1; d >= 2; --d) {
    strides[d] = step;
    step *= sizes[d];
  }
  strides[1] = last ? 1 : step;
  strides[0] = last ? step : step * sizes[1];
}

// One way to compute a convolution, in the library's numbers.
struct DnnAlgorithm {
  int64_t number = 0, math = 0;
  uint64_t workspace = 0;  // bytes
};

// What differs between vendors. Statuses are the library's own, 0 is success. Calls come one at a time for a device,
// which the driver has current.
class DnnVendor {
 public:
  struct Description {  // the library's view of a shape
    virtual ~Description() = default;
    void* tensors[3] = {};  // by ConvolutionPart
    void* convolution = nullptr;
    void*& tensor(ConvolutionPart which) { return tensors[static_cast<size_t>(which)]; }
  };
  // What people read: "cuDNN 9.1.0", and the file that it came from.
  DnnVendor(std::string name, std::string path) : name_(std::move(name)), path_(std::move(path)) {}
  virtual ~DnnVendor() = default;
  const std::string& name() const { return name_; }
  const std::string& path() const { return path_; }
  virtual bool supports(ScalarType dtype) const = 0;
  virtual int create(void*& handle, StreamHandle stream) = 0;
  // nullptr: the library refuses a part of it.
  virtual std::unique_ptr<Description> describe(const DnnShape& shape) = 0;
  // The library's favourite first; only those that give the same bits every time.
  virtual std::vector<DnnAlgorithm> algorithms(void* handle, Description& description, const DnnShape& shape) = 0;
  virtual int run(void* handle, StreamHandle stream, Description& description, const DnnAlgorithm& algorithm,
                  const DnnProblem& problem, void* workspace) = 0;
  virtual const char* error_text(int status) const = 0;  // may be null
  // Whether a status says that the library cannot do this, rather than that something went wrong.
  virtual bool is_refusal(int status) const = 0;

 private:
  std::string name_, path_;
};

// A library with what was found out about shapes: algorithms are timed when a shape first occurs, and the fastest is
// kept in memory and in the disk cache. A stream that is captured takes what is known, or the library's favourite.
class Dnn {
 public:
  explicit Dnn(std::unique_ptr<DnnVendor> vendor);
  ~Dnn();
  const std::string& name() const { return vendor_->name(); }
  const std::string& path() const { return vendor_->path(); }
  bool supports(ScalarType dtype) const { return vendor_->supports(dtype); }
  // Queues the convolution on the stream. False: the library has no way to compute this, and nothing that counts was
  // queued. Throws DeviceError, which begins with `op`, when it fails at what it can do.
  bool convolve(const DnnProblem& problem, const StreamRef& stream, const char* op);

 private:
  struct Plan;
  struct PerDevice;
  Plan& plan_of(PerDevice& device, const DnnShape& shape, const StreamRef& stream, const char* op);
  enum class Ran : uint8_t { Yes, Refused, NoMemory };
  Ran run(PerDevice& device, Plan& plan, const DnnAlgorithm& algorithm, const DnnProblem& problem,
          const StreamRef& stream, const char* op);
  void tune(PerDevice& device, Plan& plan, const DnnProblem& problem, const StreamRef& stream, const char* op);
  float time_of(PerDevice& device, Plan& plan, const DnnAlgorithm& algorithm, const DnnProblem& problem,
                const StreamRef& stream, const char* op, EventHandle start, EventHandle end, Ran& ran);

  std::unique_ptr<DnnVendor> vendor_;
  std::unique_ptr<PerDevice[]> devices_;
};

// The library that goes with the driver, looked for once; nullptr where there is none: `why_no_dnn` says why.
Dnn* dnn();
const std::string& why_no_dnn();
// Whether it is used where there is one; true at start. With FACULA_DNN=none there is none.
bool allow_dnn();
void set_allow_dnn(bool allow);
// How often algorithms were timed in this process, and how often the disk cache knew.
struct DnnStats {
  int64_t tuned = 0, remembered = 0;
};
DnnStats dnn_stats();

// One for each vendor; `why_not` is filled when there is none.
std::unique_ptr<DnnVendor> find_dnn_cuda(std::string& why_not);
std::unique_ptr<DnnVendor> find_dnn_hip(std::string& why_not);

}  // namespace facula::gpu
