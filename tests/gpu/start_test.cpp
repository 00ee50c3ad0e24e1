// What a process finds at its start, and kernels that the driver does not take. What can go wrong is tried in processes of
// their own, on the software GPU.
#include "cpp/child.h"
#include "gpu/driver/driver.h"
#include "gpu/kernel.h"
#include "scoped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <filesystem>

namespace facula::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

TEST(GpuStart, DISABLED_Says) {
  const auto begin = std::chrono::steady_clock::now();
  const gpu::Driver* driver = gpu::driver();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("driver: %s\nwhy: %s\ncompiler: %s\nwhy: %s\n%s\nseconds %.3f\n", driver ? "there" : "none",
              gpu::why_no_driver().c_str(), gpu::compiler() ? "there" : "none", gpu::why_no_compiler().c_str(),
              gpu::describe_search().c_str(), seconds);
}

TEST(GpuStart, DISABLED_Computes) {
  int devices = 0;
  ASSERT_NE(gpu::driver(), nullptr) << gpu::why_no_driver();
  gpu::Driver& driver = *gpu::driver();
  ASSERT_TRUE(driver.device_count(devices).ok());
  ASSERT_TRUE(driver.use_device(0).ok());
  EXPECT_FALSE(driver.use_device(1).ok());
  void* data = nullptr;
  uint32_t back = 0;
  ASSERT_TRUE(driver.allocate(data, 256).ok());
  ASSERT_TRUE(driver.fill(data, 42, 4, 64, nullptr).ok());
  ASSERT_TRUE(driver.copy(&back, data, 4, gpu::CopyKind::DeviceToHost, nullptr).ok());
  ASSERT_TRUE(driver.synchronize().ok());
  ASSERT_TRUE(driver.free(data).ok());
  std::printf("%d devices, read %d\n", devices, static_cast<int>(back));
}

// What a process finds, in a cache folder of its own.
std::string start_with(const std::string& environment) {
  const Folder folder;
  const ChildResult result =
      run_in_child("GpuStart.DISABLED_Says", environment + " FACULA_CACHE_DIR=" + (folder / "cache"));
  EXPECT_EQ(result.status, 0) << environment << "\n" << result.output;
  return result.output;
}

TEST(GpuStart, TakesNoOtherWord) {
  EXPECT_THAT(start_with("FACULA_GPU=none"),
              AllOf(HasSubstr("driver: none\nwhy: FACULA_GPU=none turns GPUs off"), HasSubstr("compiler: none")));
  EXPECT_THAT(start_with("FACULA_GPU=vulkan"), HasSubstr("why: FACULA_GPU is \"vulkan\"; it takes cuda, hip or none"));
  EXPECT_THAT(start_with("FACULA_GPU_PROBE=perhaps"),
              HasSubstr("FACULA_GPU_PROBE is \"perhaps\"; it takes always or never"));
  EXPECT_THAT(start_with("FACULA_GPU_PROBE_SECONDS=soon"),
              HasSubstr("FACULA_GPU_PROBE_SECONDS must be a whole number of at least 1, got \"soon\""));
}

TEST(GpuStart, SaysWhatIsNotInstalled) {
  const Folder empty;
  // Nothing of this machine's own is in the way where the names exist nowhere.
  const std::string text = start_with("FACULA_GPU=cuda FACULA_GPU_LIBRARY_PATH=" + (empty / ""));
  if (text.find("driver: there") != std::string::npos) GTEST_SKIP() << "this machine has an NVIDIA GPU";
  EXPECT_THAT(text, AllOf(HasSubstr("why: FACULA_GPU=cuda was asked for: "), HasSubstr("NVIDIA")));
}

class GpuStartOnSimgpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!gpu::driver() || gpu::driver()->path().find("/simgpu/") == std::string::npos)
      GTEST_SKIP() << "needs the software GPU";
    cuda_ = gpu::driver()->vendor() == gpu::Vendor::Cuda;
  }
  std::string faults(const std::string& words) { return start_with("FACULA_GPU_PROBE=always SIMGPU_FAULTS=" + words); }
  bool cuda_ = true;
};

TEST_F(GpuStartOnSimgpu, FindsDriverAndCompiler) {
  EXPECT_THAT(start_with("FACULA_GPU_PROBE=always"),
              AllOf(HasSubstr("driver: there\nwhy: \ncompiler: there\nwhy: \n"),
                    HasSubstr(cuda_ ? "cuda: 2 devices, driver version CUDA 1" : "hip: 2 devices, driver version HIP "),
                    HasSubstr(gpu::driver()->path()), HasSubstr(gpu::compiler()->path())));
  EXPECT_THAT(start_with("FACULA_GPU_PROBE=never"), HasSubstr("driver: there"));
  EXPECT_THAT(start_with("-u FACULA_GPU"), HasSubstr("driver: there"));
}

TEST_F(GpuStartOnSimgpu, SurvivesABrokenDriver) {
  EXPECT_THAT(faults("init=crash"),
              AllOf(HasSubstr("driver: none"), HasSubstr(" crashes when it is started (Aborted")));
  EXPECT_THAT(faults("init=segv"), HasSubstr(" crashes when it is started (Segmentation fault"));
  const std::string hangs = faults("init=hang FACULA_GPU_PROBE_SECONDS=1");
  EXPECT_THAT(hangs, AllOf(HasSubstr("driver: none"), HasSubstr(" hangs: it did not start within 1 s")));
  EXPECT_THAT(faults("init=fail"), AllOf(HasSubstr("driver: none"), HasSubstr(" does not start")));
  EXPECT_THAT(faults("init=801"), ContainsRegex(std::string(" does not start: .* \\(801\\); see what ") +
                                                (cuda_ ? "nvidia-smi" : "rocminfo") +
                                                " says, and install the driver again or restart the machine"));
}

TEST_F(GpuStartOnSimgpu, NamesVariablesThatMakeHipCrash) {
  const std::string both = faults("init=crash GPU_DEVICE_ORDINAL=0 HIP_VISIBLE_DEVICES=1");
  const std::string one =
      start_with("-u HIP_VISIBLE_DEVICES GPU_DEVICE_ORDINAL=0 FACULA_GPU_PROBE=always SIMGPU_FAULTS=init=crash");
  const auto names_both = HasSubstr("GPU_DEVICE_ORDINAL (\"0\") and HIP_VISIBLE_DEVICES (\"1\") are both set");
  // They are nothing to NVIDIA's driver.
  if (cuda_) {
    EXPECT_THAT(both, AllOf(HasSubstr("in a trial process); install it again"), Not(names_both)));
  } else {
    EXPECT_THAT(both, AllOf(HasSubstr(" crashes when it is started (Aborted"), names_both));
  }
  EXPECT_THAT(one, HasSubstr("in a trial process); install it again"));
}

TEST_F(GpuStartOnSimgpu, WorksWithTheDevicesThatAreVisible) {
  const Folder folder;
  const ChildResult result =
      run_in_child("GpuStart.DISABLED_Computes",
                   std::string(cuda_ ? "CUDA" : "HIP") + "_VISIBLE_DEVICES=1 FACULA_CACHE_DIR=" + (folder / "cache"));
  EXPECT_EQ(result.status, 0) << result.output;
  EXPECT_THAT(result.output, HasSubstr("1 devices, read 42"));
}

TEST_F(GpuStartOnSimgpu, SaysWhyThereIsNoDevice) {
  EXPECT_THAT(faults("count=0"), AllOf(HasSubstr("driver: none"), ContainsRegex("no (NVIDIA|AMD) GPU|finds no GPU")));
  const char* variable = cuda_ ? "CUDA_VISIBLE_DEVICES" : "HIP_VISIBLE_DEVICES";
  for (const char* value : {"", "-1"})
    EXPECT_THAT(faults(std::string("count=0 ") + variable + "=" + value),
                HasSubstr(std::string(variable) + " is \"" + value + "\", which hides every "));
  EXPECT_THAT(faults(std::string("count=0 ") + variable + "=7"),
              HasSubstr(std::string(variable) + " is \"7\": check that it names devices that exist"));
}

TEST_F(GpuStartOnSimgpu, NeedsARecentDriver) {
  if (!cuda_) GTEST_SKIP() << "HIP tells its age by what it exports";
  EXPECT_THAT(faults("version=10020"),
              AllOf(HasSubstr("is of CUDA 10.2; at least CUDA 11.0 is needed: install a newer driver")));
}

TEST_F(GpuStartOnSimgpu, IsFastTheSecondTime) {
  const Folder folder;
  const std::string environment = "FACULA_CACHE_DIR=" + (folder / "cache");
  EXPECT_THAT(run_in_child("GpuStart.DISABLED_Says", environment).output, HasSubstr("driver: there"));
  // Nothing of a start that went well is left behind.
  EXPECT_THAT(run_in_child("GpuStart.DISABLED_Says", environment).output, HasSubstr("driver: there"));
  EXPECT_TRUE(fs::is_empty(folder / "cache/starting"));
  EXPECT_THAT(
      run_in_child("GpuStart.DISABLED_Says", environment + " FACULA_GPU_PROBE=always SIMGPU_FAULTS=init=crash").output,
      HasSubstr("driver: none"));
}

TEST_F(GpuStartOnSimgpu, SurvivesADriverThatBreaksLaterAllButOnce) {
  const Folder folder;
  const std::string environment = "FACULA_CACHE_DIR=" + (folder / "cache"), broken = " SIMGPU_FAULTS=init=crash";
  const auto start = [&](const std::string& more) {
    return run_in_child("GpuStart.DISABLED_Says", environment + more);
  };
  for (int round = 0; round < 2; ++round) {
    EXPECT_THAT(start("").output, HasSubstr("driver: there"));
    // Remembered: the process itself loads the driver, which shows that nothing was tried.
    const ChildResult crashed = start(broken);
    EXPECT_NE(crashed.status, 0) << crashed.output;
    EXPECT_THAT(crashed.output, Not(HasSubstr("driver: ")));
    // From then on it is tried in a child again, until it works.
    for (int later = 0; later < 2; ++later) {
      const ChildResult survived = start(broken);
      EXPECT_EQ(survived.status, 0) << survived.output;
      EXPECT_THAT(survived.output, AllOf(HasSubstr("driver: none"),
                                         HasSubstr(" crashes when it is started (Aborted in a trial process); ")));
    }
  }
}

TEST_F(GpuStartOnSimgpu, SaysWhatToInstallWhenThereIsNoCompiler) {
  // A folder with the driver alone. The compiler of this machine may be found instead; then there is nothing to say.
  const Folder folder;
  fs::create_directory(folder / "driver");
  const fs::path driver = gpu::driver()->path();
  fs::copy_file(driver, folder / "driver/" + driver.filename().string());
  const std::string text = start_with("-u VIRTUAL_ENV FACULA_GPU_LIBRARY_PATH=" + (folder / "driver"));
  EXPECT_THAT(text, HasSubstr("driver: there"));
  if (text.find("compiler: none") != std::string::npos) {
    EXPECT_THAT(text, AllOf(HasSubstr("run-time compiler is not there"), HasSubstr("FACULA_GPU_LIBRARY_PATH")));
  }
}

// ---- kernels that the driver does not take ----

TEST(GpuKernelLoadingChild, DISABLED_Loads) {
  ASSERT_TRUE(gpu::driver()->use_device(0).ok());
  const gpu::Kernel kernel("loading_test", "extern \"C\" __global__ void loading_test(int* x) { *x = 1; }\n");
  try {
    const gpu::FunctionHandle function = kernel.on(0, "add");
    std::printf("loaded %s\n", function == kernel.on(0, "add") ? "once" : "twice");
    const gpu::Kernel second("second_test", "extern \"C\" __global__ void second_test(int* x) { *x = 2; }\n");
    std::printf("second %s\n", second.on(0, "add") ? "loaded" : "missing");
    const gpu::Kernel misnamed("misnamed", "extern \"C\" __global__ void another_name(int* x) { *x = 2; }\n");
    misnamed.on(0, "sub");
  } catch (const Error& error) {
    std::printf("%s: %s\n", error.type_name(), error.what());
  }
  std::printf("compiled %d\n", static_cast<int>(gpu::cache_stats().compiled));
}

class GpuKernelLoading : public GpuStartOnSimgpu {
 protected:
  std::string loads(const std::string& words) {
    const Folder folder;
    const ChildResult result = run_in_child("GpuKernelLoadingChild.DISABLED_Loads",
                                            "SIMGPU_FAULTS='" + words + "' FACULA_CACHE_DIR=" + (folder / "cache"));
    EXPECT_EQ(result.status, 0) << result.output;
    return result.output;
  }
};

TEST_F(GpuKernelLoading, FindsTheFunctionByItsName) {
  EXPECT_THAT(loads(""),
              AllOf(HasSubstr("loaded once"), HasSubstr("second loaded"), HasSubstr("sub: "),
                    HasSubstr("no extern \"C\" __global__ function named misnamed"), HasSubstr("compiled 3")));
}

TEST_F(GpuKernelLoading, TakesThePortableFormWhereMachineCodeIsRefused) {
  // The first module is refused; the same text in the other form is taken, and so it is for all that come later.
  EXPECT_THAT(loads("module:1=209"),
              AllOf(HasSubstr("loaded once"), HasSubstr("second loaded"), HasSubstr("compiled 4")));
}

TEST_F(GpuKernelLoading, NamesDriverAndCompilerThatDoNotFit) {
  EXPECT_THAT(loads("module:*=209"),
              AllOf(HasSubstr("DeviceError: add: the driver (" + gpu::driver()->version_text() + ", "),
                    HasSubstr("does not take what the compiler (" + gpu::compiler()->version() + ", "),
                    HasSubstr("install a newer driver, or a compiler that is not newer than the driver")));
}

TEST_F(GpuKernelLoading, PassesOnOtherFailures) {
  EXPECT_THAT(loads("module:1=oom"), AllOf(HasSubstr("add: "), Not(HasSubstr("loaded"))));
}

TEST_F(GpuKernelLoading, SaysWhatTheCompilerSays) {
  EXPECT_THAT(loads("compile:1=error"), HasSubstr("add: the kernel loading_test does not compile for "));
}

}  // namespace
}  // namespace facula::testing
