// What the host pays for something tiny: an op, an allocation, a number read back, and, for comparison, a launch with nothing
// around it, straight through NVIDIA's driver.
#include "cases.h"

#include <facula/cuda.h>
#include <facula/facula.h>

#include <dlfcn.h>

#include <stdexcept>
#include <string>

using namespace facula;

namespace {

// An empty kernel in the driver's assembly language, so that no compiler is needed.
constexpr const char* kEmptyKernel = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry empty_kernel(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n) { ret; }
)";

class BareLaunch {
 public:
  BareLaunch() {
    cuda::synchronize();  // the library has started the driver
    library_ = dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) throw std::runtime_error("libcuda.so.1 is not here");
    void *module = nullptr, *context = nullptr;
    int device = 0;
    check(call<int(int*, int)>("cuDeviceGet")(&device, 0), "cuDeviceGet");
    check(call<int(void**, int)>("cuDevicePrimaryCtxRetain")(&context, device), "cuDevicePrimaryCtxRetain");
    check(call<int(void*)>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
    check(call<int(void**, const void*)>("cuModuleLoadData")(&module, kEmptyKernel), "cuModuleLoadData");
    check(call<int(void**, void*, const char*)>("cuModuleGetFunction")(&function_, module, "empty_kernel"),
          "cuModuleGetFunction");
    launch_ = call<Launch>("cuLaunchKernel");
  }

  void operator()() const {
    uint64_t pointers[3] = {};
    uint32_t count = 8;
    void* arguments[] = {&pointers[0], &pointers[1], &pointers[2], &count};
    check(launch_(function_, 1, 1, 1, 128, 1, 1, 0, nullptr, arguments, nullptr), "cuLaunchKernel");
  }

 private:
  using Launch = int(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*, void**,
                     void**);

  template <class F>
  F* call(const char* name) const {
    void* found = dlsym(library_, name);
    if (found == nullptr) throw std::runtime_error(std::string("libcuda.so.1 has no ") + name);
    return reinterpret_cast<F*>(found);
  }
  static void check(int status, const char* what) {
    if (status != 0) throw std::runtime_error(std::string(what) + " fails with " + std::to_string(status));
  }

  void* library_ = nullptr;
  void* function_ = nullptr;
  Launch* launch_ = nullptr;
};

BenchCase host_case(std::string name, std::function<Prepared()> prepare) {
  return {std::move(name), 0, 0, 0, true, std::move(prepare)};
}

}  // namespace

std::vector<BenchCase> overhead_cases() {
  const TensorOptions gpu = TensorOptions().device(Device("cuda:0"));
  std::vector<BenchCase> cases;
  const auto never_wrong = [] { return 0.0; };
  cases.push_back(host_case("overhead_bare_launch", [=] {
    return Prepared{[launch = BareLaunch()] { launch(); }, never_wrong};
  }));
  cases.push_back(host_case("overhead_add", [=] {
    const Tensor a = randn({8}, gpu), b = randn({8}, gpu);
    return Prepared{[=] { a + b; }, [=] { return (a + b).cpu().equal(a.cpu() + b.cpu()) ? 0.0 : 1.0; }};
  }));
  cases.push_back(host_case("overhead_empty", [=] {
    return Prepared{[=] { empty({8}, gpu); }, [=] { return empty({8}, gpu).is_cuda() ? 0.0 : 1.0; }};
  }));
  cases.push_back(host_case("overhead_view", [=] {
    const Tensor a = randn({8}, gpu);
    return Prepared{[=] { a.view({2, 4}); }, [=] { return a.view({2, 4}).is_alias_of(a) ? 0.0 : 1.0; }};
  }));
  cases.push_back(host_case("overhead_item", [=] {
    const Tensor a = randn({8}, gpu);
    return Prepared{[=] { a.select(0, 0).item<float>(); },
                    [=] { return a.select(0, 0).item<float>() == a.cpu().select(0, 0).item<float>() ? 0.0 : 1.0; }};
  }));
  cases.push_back(host_case("overhead_mul_sum_backward", [=] {
    const Tensor a = randn({8}, gpu).requires_grad_(), b = randn({8}, gpu);
    return Prepared{[=] { (a * b).sum().backward(); },
                    [=] {
                      a.mutable_grad().reset();
                      (a * b).sum().backward();
                      return a.grad().cpu().equal(b.cpu()) ? 0.0 : 1.0;
                    }};
  }));
  return cases;
}
