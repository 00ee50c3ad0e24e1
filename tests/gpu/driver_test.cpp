// Trying drivers, and what the driver's table answers. What can go wrong at the start is tried in processes
// of their own, on the software GPU.
#include "child.h"
#include "cpp/seed.h"
#include "gpu/driver/driver.h"
#include "gpu/driver/driver_open.h"
#include "gpu/driver/library.h"
#include "gpu/driver/probe.h"
#include "gpu/kernel.h"
#include "scoped.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

namespace facula::testing {
namespace {

using gpu::Fault;
using gpu::Status;
using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

// ---- trial processes ----

constexpr const char* kName[] = {"libfacula_library_test.so.1"};

TEST(GpuProbe, PassesOnWhatTheDriverSays) {
  const gpu::ProbeResult result = gpu::probe(
      [] {
        gpu::DriverOpening opening;
        opening.why_not = "words " + std::string(100000, 'x');
        gpu::find_library({.what = "looked for in the child", .sonames = kName});
        return opening;
      },
      "the driver", 60);
  EXPECT_FALSE(result.ok);
  EXPECT_FALSE(result.could_not_try);
  EXPECT_EQ(result.why_not, "words " + std::string(100000, 'x'));
  EXPECT_THAT(result.searches, HasSubstr("looked for in the child"));
  EXPECT_THAT(gpu::describe_library_searches(), Not(HasSubstr("looked for in the child")));
}

TEST(GpuProbe, SurvivesCrashes) {
  const auto why = [](gpu::DriverOpening (*open)()) {
    const gpu::ProbeResult result = gpu::probe(open, "the driver", 60);
    EXPECT_FALSE(result.ok);
    return result.why_not;
  };
  EXPECT_THAT(why([]() -> gpu::DriverOpening { std::abort(); }),
              HasSubstr("the driver crashes when it is started (Aborted"));
  EXPECT_THAT(why([]() -> gpu::DriverOpening {
                ::raise(SIGSEGV);
                return {};
              }),
              HasSubstr("the driver crashes when it is started (Segmentation fault"));
  EXPECT_THAT(why([]() -> gpu::DriverOpening { ::_exit(7); }),
              HasSubstr("the driver ends the process when it is started (exit code 7"));
  EXPECT_THAT(why([]() -> gpu::DriverOpening { throw 1; }), HasSubstr("exit code 3"));
}

TEST(GpuProbe, DoesNotWaitForEver) {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  const auto begin = std::chrono::steady_clock::now();
  const gpu::ProbeResult result = gpu::probe(
      []() -> gpu::DriverOpening {
        ::signal(SIGTERM, SIG_IGN);
        while (true) ::sleep(1);
      },
      "the driver", 0.3);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_FALSE(result.ok);
  EXPECT_THAT(result.why_not,
              AllOf(HasSubstr("the driver hangs: it did not start within 0.3"), HasSubstr("FACULA_GPU_PROBE_SECONDS")));
  EXPECT_GE(seconds, 0.3);
  EXPECT_LT(seconds, 20);
  // The child is gone, not left as a zombie. (A real driver may have children of its own.)
  EXPECT_LE(::waitpid(-1, nullptr, WNOHANG), 0);
}

TEST(GpuProbe, WorksWhereChildrenAreNotWaitedFor) {
  const auto before = ::signal(SIGCHLD, SIG_IGN);
  const gpu::ProbeResult crashed = gpu::probe([]() -> gpu::DriverOpening { std::abort(); }, "the driver", 60);
  EXPECT_THAT(crashed.why_not, HasSubstr("the driver crashes when it is started"));
  const gpu::ProbeResult fine = gpu::probe([] { return gpu::DriverOpening{nullptr, 0, "words"}; }, "the driver", 60);
  EXPECT_EQ(fine.why_not, "words");
  ::signal(SIGCHLD, before);
}

TEST(GpuProbe, DISABLED_Remembers) {
  const std::string file = std::getenv("PROBE_TEST_FILE");
  std::ofstream(file) << "one";
  EXPECT_FALSE(gpu::probed_before("a"));
  gpu::remember_probe("a", file);
  EXPECT_TRUE(gpu::probed_before("a"));
  EXPECT_FALSE(gpu::probed_before("b"));
  {
    const Variable hidden("CUDA_VISIBLE_DEVICES", "");
    EXPECT_FALSE(gpu::probed_before("a"));
  }
  {
    const Variable hidden("HIP_VISIBLE_DEVICES", "1");
    EXPECT_FALSE(gpu::probed_before("a"));
  }
  EXPECT_TRUE(gpu::probed_before("a"));
  std::ofstream(file) << "another";
  EXPECT_FALSE(gpu::probed_before("a"));
  gpu::remember_probe("a", file);
  EXPECT_TRUE(gpu::probed_before("a"));
  fs::rename(file, file + ".old");
  EXPECT_FALSE(gpu::probed_before("a"));
}

TEST(GpuProbe, IsRememberedUntilSomethingChanges) {
  const Folder folder;
  const ChildResult result =
      run_in_child("GpuProbe.DISABLED_Remembers", "-u CUDA_VISIBLE_DEVICES -u HIP_VISIBLE_DEVICES FACULA_CACHE_DIR=" +
                                                      (folder / "cache") + " PROBE_TEST_FILE=" + (folder / "driver"));
  EXPECT_EQ(result.status, 0) << result.output;
}

// A child that marks its start and says so; with `ends` it ends then, the mark in place, and otherwise it waits to be killed.
pid_t start_and_stay(const char* what, bool ends) {
  int said[2];
  EXPECT_EQ(::pipe(said), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const gpu::StartMark mark(what);
    static_cast<void>(!::write(said[1], "x", 1));
    if (ends) ::_exit(1);
    while (true) ::pause();
  }
  char word = 0;
  EXPECT_EQ(::read(said[0], &word, 1), 1);
  ::close(said[0]);
  ::close(said[1]);
  return child;
}

TEST(GpuProbe, DISABLED_MarksStarts) {
  const std::string file = std::getenv("PROBE_TEST_FILE");
  const fs::path marks = fs::path(std::getenv("FACULA_CACHE_DIR")) / "starting";
  const auto count = [&] { return std::distance(fs::directory_iterator(marks), fs::directory_iterator()); };
  std::ofstream(file) << "one";
  gpu::remember_probe("a", file);
  std::string name;
  {
    const gpu::StartMark mark("a");
    ASSERT_EQ(count(), 1);
    name = fs::directory_iterator(marks)->path().filename().string();
    EXPECT_TRUE(gpu::probed_before("a"));  // who makes it lives
    EXPECT_EQ(count(), 1);
  }
  EXPECT_EQ(count(), 0);
  EXPECT_TRUE(gpu::probed_before("a"));

  // Another that lives does not count until it is gone, collected or not.
  for (const bool collected : {true, false}) {
    const pid_t other = start_and_stay("a", false);
    EXPECT_TRUE(gpu::probed_before("a"));
    ::kill(other, SIGKILL);
    siginfo_t info;
    EXPECT_EQ(::waitid(P_PID, static_cast<id_t>(other), &info, collected ? WEXITED : WEXITED | WNOWAIT), 0);
    EXPECT_FALSE(gpu::probed_before("a"));
    if (!collected) ::waitpid(other, nullptr, 0);
    EXPECT_EQ(count(), 0);
    EXPECT_FALSE(gpu::probed_before("a"));  // forgotten, not only doubted
    gpu::remember_probe("a", file);
    EXPECT_TRUE(gpu::probed_before("a"));
  }

  // The start of another driver says nothing of this one.
  ::waitpid(start_and_stay("b", true), nullptr, 0);
  EXPECT_TRUE(gpu::probed_before("a"));
  EXPECT_EQ(count(), 1);
  gpu::remember_probe("b", file);
  EXPECT_FALSE(gpu::probed_before("b"));

  // A process that has got the number of another did not make its mark.
  std::ofstream(marks / (name + "1"));
  EXPECT_FALSE(gpu::probed_before("a"));
  EXPECT_EQ(count(), 0);

  // Where no mark can be made, what was remembered holds.
  gpu::remember_probe("a", file);
  fs::remove(marks);
  std::ofstream(marks) << "in the way";
  const gpu::StartMark none("a");
  EXPECT_TRUE(gpu::probed_before("a"));
}

TEST(GpuProbe, IsForgottenWhenAStartEndsTheProcess) {
  const Folder folder;
  const ChildResult result =
      run_in_child("GpuProbe.DISABLED_MarksStarts",
                   "FACULA_CACHE_DIR=" + (folder / "cache") + " PROBE_TEST_FILE=" + (folder / "driver"));
  EXPECT_EQ(result.status, 0) << result.output;
}

TEST(GpuProbe, SaysTheCureItIsGiven) {
  const auto crashes = []() -> gpu::DriverOpening { std::abort(); };
  EXPECT_THAT(gpu::probe(crashes, "the driver", 60).why_not, ::testing::EndsWith("; install it again"));
  EXPECT_THAT(gpu::probe(crashes, "the driver", 60, "plug it in").why_not, ::testing::EndsWith("; plug it in"));
}

TEST(GpuProbe, NamesTheVariablesThatHipDoesNotTakeTogether) {
  const Variable ordinal("GPU_DEVICE_ORDINAL", "0"), visible("HIP_VISIBLE_DEVICES", "1,2");
  EXPECT_THAT(
      gpu::hip_crash_cure(),
      StartsWith("GPU_DEVICE_ORDINAL (\"0\") and HIP_VISIBLE_DEVICES (\"1,2\") are both set, and HIP takes only "
                 "one of them: unset GPU_DEVICE_ORDINAL"));
}

// ---- the start ----

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

// ---- the table ----

TEST(GpuDriver, KnowsWhatErrorsMean) {
  EXPECT_EQ(gpu::fault_of(0), Fault::None);
  EXPECT_EQ(gpu::fault_of(1), Fault::InvalidValue);
  EXPECT_EQ(gpu::fault_of(2), Fault::OutOfMemory);
  EXPECT_EQ(gpu::fault_of(101), Fault::InvalidDevice);
  EXPECT_EQ(gpu::fault_of(209), Fault::NoKernelForChip);
  EXPECT_EQ(gpu::fault_of(222), Fault::NoKernelForChip);
  EXPECT_EQ(gpu::fault_of(600), Fault::NotReady);
  EXPECT_EQ(gpu::fault_of(700), Fault::IllegalAddress);
  EXPECT_EQ(gpu::fault_of(701), Fault::LaunchTooLarge);
  EXPECT_EQ(gpu::fault_of(704), Fault::PeerAccessAlreadyEnabled);
  EXPECT_EQ(gpu::fault_of(719), Fault::LaunchFailed);
  EXPECT_EQ(gpu::fault_of(801), Fault::NotSupported);
  for (int code = 900; code <= 908; ++code) EXPECT_EQ(gpu::fault_of(code), Fault::Capture) << code;
  EXPECT_EQ(gpu::fault_of(12345), Fault::Other);
}

class GpuDriverOnDevice : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_NE(gpu::driver(), nullptr) << gpu::why_no_driver();
    ok(d().use_device(0));
  }
  void TearDown() override { ok(d().use_device(0)); }
  static gpu::Driver& d() { return *gpu::driver(); }
  static void ok(Status status) { EXPECT_TRUE(status.ok()) << d().describe(status); }

  // Loads `body` as the function `test_kernel`.
  gpu::FunctionHandle load(const std::string& text, gpu::ModuleHandle& module) {
    const std::string source = "extern \"C\" __global__ void __launch_bounds__(256) test_kernel(" + text;
    gpu::DeviceProperties properties;
    ok(d().properties(0, properties));
    const gpu::CompileResult result =
        gpu::compiler()->compile("test_kernel", source, gpu::kernel_headers(), properties.chip, {});
    EXPECT_TRUE(result.ok) << result.log;
    gpu::FunctionHandle function = nullptr;
    if (result.ok) {
      ok(d().load_module(module, result.binary.data()));
      ok(d().function(function, module, "test_kernel"));
    }
    return function;
  }
};

TEST_F(GpuDriverOnDevice, SaysWhatItIs) {
  EXPECT_GT(d().version(), 0);
  EXPECT_THAT(d().version_text(), StartsWith(d().vendor() == gpu::Vendor::Cuda ? "CUDA " : "HIP "));
  EXPECT_THAT(d().path(), StartsWith("/"));
  EXPECT_THAT(d().describe(Status{2, Fault::OutOfMemory}), ContainsRegex("[Mm][Ee][Mm][Oo][Rr][Yy]"));
  EXPECT_EQ(d().describe({}), "no error");
  EXPECT_THAT(d().describe(Status{123456, Fault::Other}), Not(::testing::IsEmpty()));
  int count = 0;
  ok(d().device_count(count));
  ASSERT_GT(count, 0);
  for (int device = 0; device < count; ++device) {
    gpu::DeviceProperties p;
    ok(d().properties(device, p));
    EXPECT_FALSE(p.name.empty());
    EXPECT_TRUE(p.chip.starts_with(d().vendor() == gpu::Vendor::Cuda ? "sm_" : "gfx")) << p.chip;
    EXPECT_GT(p.major, 0);
    EXPECT_GT(p.total_memory, uint64_t{1} << 20);
    EXPECT_TRUE(p.lanes == 32 || p.lanes == 64);
    EXPECT_GT(p.multiprocessors, 0);
    EXPECT_GE(p.max_grid[0], 65535);
    EXPECT_GE(p.shared_memory_per_block_optin, p.shared_memory_per_block);
  }
  gpu::DeviceProperties none;
  EXPECT_FALSE(d().properties(count, none).ok());
  EXPECT_FALSE(d().use_device(count).ok());
  EXPECT_FALSE(d().use_device(-1).ok());
}

TEST_F(GpuDriverOnDevice, CopiesAndFills) {
  constexpr size_t kBytes = 100000;
  std::vector<unsigned char> sent(kBytes), back(kBytes);
  std::mt19937 generator(static_cast<uint32_t>(facula_test::test_seed()));
  for (auto& byte : sent) byte = static_cast<unsigned char>(generator());
  void *a = nullptr, *b = nullptr;
  ok(d().allocate(a, kBytes));
  ok(d().allocate(b, kBytes));
  ok(d().copy(a, sent.data(), kBytes, gpu::CopyKind::HostToDevice, nullptr));
  ok(d().copy(b, a, kBytes, gpu::CopyKind::DeviceToDevice, nullptr));
  ok(d().copy(back.data(), b, kBytes, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  EXPECT_EQ(back, sent) << facula_test::seed_text();

  ok(d().fill(a, 0xab, 1, 1000, nullptr));
  ok(d().fill(static_cast<char*>(a) + 1000, 0x1234, 2, 500, nullptr));
  ok(d().fill(static_cast<char*>(a) + 2000, 0xdeadbeef, 4, 250, nullptr));
  EXPECT_EQ(d().fill(a, 0, 3, 1, nullptr).fault, Fault::InvalidValue);
  ok(d().copy(back.data(), a, kBytes, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  for (size_t i = 0; i < 1000; ++i) ASSERT_EQ(back[i], 0xab);
  for (size_t i = 1000; i < 2000; i += 2) ASSERT_TRUE(back[i] == 0x34 && back[i + 1] == 0x12);
  for (size_t i = 2000; i < 3000; i += 4)
    ASSERT_TRUE(back[i] == 0xef && back[i + 1] == 0xbe && back[i + 2] == 0xad && back[i + 3] == 0xde);
  for (size_t i = 3000; i < kBytes; ++i) ASSERT_EQ(back[i], sent[i]);

  const gpu::PointerInfo info = d().pointer_info(static_cast<char*>(a) + 10);
  EXPECT_TRUE(info.known && info.on_device);
  EXPECT_EQ(info.device, 0);
  EXPECT_FALSE(d().pointer_info(sent.data()).on_device);
  ok(d().free(a));
  ok(d().free(b));
  size_t free_bytes = 0, total_bytes = 0;
  ok(d().memory_info(free_bytes, total_bytes));
  EXPECT_GT(free_bytes, 0u);
  EXPECT_LE(free_bytes, total_bytes);
  void* too_much = nullptr;
  EXPECT_EQ(d().allocate(too_much, total_bytes * 4).fault, Fault::OutOfMemory);
}

TEST_F(GpuDriverOnDevice, SharesPageLockedMemory) {
  void* host = nullptr;
  ok(d().allocate_host(host, 4096));
  void* seen = nullptr;
  ok(d().device_pointer(host, seen));
  ASSERT_NE(seen, nullptr);
  gpu::ModuleHandle module = nullptr;
  const gpu::FunctionHandle function = load("int* data, int add) { data[threadIdx.x] += add; }", module);
  ASSERT_NE(function, nullptr);
  for (int i = 0; i < 64; ++i) static_cast<int*>(host)[i] = i;
  int add = 1000;
  void* arguments[] = {&seen, &add};
  ok(d().launch(function, {}, {64, 1, 1}, 0, nullptr, arguments));
  ok(d().synchronize());
  for (int i = 0; i < 64; ++i) EXPECT_EQ(static_cast<int*>(host)[i], 1000 + i);
  EXPECT_TRUE(d().pointer_info(host).known);
  EXPECT_FALSE(d().pointer_info(host).on_device);
  ok(d().unload_module(module));
  ok(d().free_host(host));

  std::vector<char> ours(1 << 20);
  ok(d().register_host(ours.data(), ours.size()));
  ok(d().unregister_host(ours.data()));
}

TEST_F(GpuDriverOnDevice, MapsMemoryIntoAddresses) {
  gpu::DeviceProperties properties;
  ok(d().properties(0, properties));
  if (!properties.maps_memory) GTEST_SKIP() << "this driver maps no memory";
  size_t piece = 0;
  ok(d().map_granularity(0, piece));
  ASSERT_GT(piece, 0u);
  void* range = nullptr;
  ok(d().reserve(range, 4 * piece));
  gpu::PhysicalHandle first = 0, second = 0;
  ok(d().create_physical(first, piece, 0));
  ok(d().create_physical(second, piece, 0));
  char* at = static_cast<char*>(range);
  ok(d().map(at, piece, first));
  ok(d().map(at + piece, piece, second));
  ok(d().set_access(at, 2 * piece, 0));
  // One range of addresses: a fill goes over the seam.
  ok(d().fill(at + piece - 8, 0x11223344, 4, 4, nullptr));
  uint32_t back[4] = {};
  ok(d().copy(back, at + piece - 8, sizeof back, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  for (uint32_t value : back) EXPECT_EQ(value, 0x11223344u);
  ok(d().unmap(at, piece));
  ok(d().unmap(at + piece, piece));
  ok(d().release_physical(first));
  ok(d().release_physical(second));
  ok(d().unreserve(range, 4 * piece));
}

TEST_F(GpuDriverOnDevice, OrdersWorkByStreamsAndEvents) {
  int least = 0, greatest = 0;
  ok(d().stream_priorities(least, greatest));
  EXPECT_LE(greatest, least);
  gpu::StreamHandle first = nullptr, second = nullptr;
  ok(d().create_stream(first, greatest));
  ok(d().create_stream(second, least));
  gpu::EventHandle start = nullptr, end = nullptr, plain = nullptr;
  ok(d().create_event(start, true, false, false));
  ok(d().create_event(end, true, true, false));
  ok(d().create_event(plain, false, false, false));
  void* data = nullptr;
  ok(d().allocate(data, 1 << 20));
  ok(d().record_event(start, first));
  ok(d().fill(data, 1, 1, 1 << 20, first));
  ok(d().record_event(plain, first));
  ok(d().wait_event(second, plain));
  ok(d().fill(data, 2, 1, 1 << 19, second));
  std::atomic<int> called{0};
  ok(d().add_callback(
      second, [](void* count) { static_cast<std::atomic<int>*>(count)->fetch_add(1); }, &called));
  ok(d().record_event(end, second));
  ok(d().synchronize_event(end));
  EXPECT_EQ(called, 1);
  ok(d().query_event(end));
  ok(d().synchronize_stream(first));
  ok(d().query_stream(first));
  float milliseconds = -1;
  ok(d().elapsed_ms(start, end, milliseconds));
  EXPECT_GE(milliseconds, 0);
  unsigned char back[2] = {};
  ok(d().copy(&back[0], data, 1, gpu::CopyKind::DeviceToHost, second));
  ok(d().copy(&back[1], static_cast<char*>(data) + (1 << 20) - 1, 1, gpu::CopyKind::DeviceToHost, second));
  ok(d().synchronize_stream(second));
  EXPECT_EQ(back[0], 2);
  EXPECT_EQ(back[1], 1);
  EXPECT_FALSE(d().elapsed_ms(plain, plain, milliseconds).ok());
  for (gpu::EventHandle event : {start, end, plain}) ok(d().destroy_event(event));
  ok(d().destroy_stream(first));
  ok(d().destroy_stream(second));
  ok(d().free(data));
}

TEST_F(GpuDriverOnDevice, RunsKernels) {
  gpu::ModuleHandle module = nullptr;
  const gpu::FunctionHandle function = load(
      "float* data, long long count, float factor) {\n"
      "  long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n"
      "  if (i < count) data[i] *= factor; }\n"
      "__device__ int a_global[10];",
      module);
  ASSERT_NE(function, nullptr);
  int registers = 0, max_threads = 0, blocks = 0;
  ok(d().function_registers(function, registers, max_threads));
  EXPECT_GE(max_threads, 256);
  ok(d().occupancy(function, 256, 0, blocks));
  EXPECT_GT(blocks, 0);
  void* global = nullptr;
  size_t bytes = 0;
  ok(d().global(global, bytes, module, "a_global"));
  EXPECT_EQ(bytes, 40u);
  gpu::FunctionHandle none = nullptr;
  EXPECT_FALSE(d().function(none, module, "no_such_kernel").ok());

  std::vector<float> values(1000);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  void* data = nullptr;
  ok(d().allocate(data, 4000));
  ok(d().copy(data, values.data(), 4000, gpu::CopyKind::HostToDevice, nullptr));
  long long count = 999;
  float factor = 0.5f;
  void* arguments[] = {&data, &count, &factor};
  ok(d().launch(function, {4, 1, 1}, {256, 1, 1}, 0, nullptr, arguments));
  ok(d().copy(values.data(), data, 4000, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  for (size_t i = 0; i < 999; ++i) ASSERT_EQ(values[i], 0.5f * static_cast<float>(i));
  EXPECT_EQ(values[999], 999.0f);

  EXPECT_EQ(d().launch(function, {1, 1, 1}, {4096, 1, 1}, 0, nullptr, arguments).fault, Fault::LaunchTooLarge);
  ok(d().synchronize());  // nothing is lost by it
  ok(d().free(data));
  ok(d().unload_module(module));
  const std::string nonsense(1000, 'x');
  EXPECT_FALSE(d().load_module(module, nonsense.c_str()).ok());
}

TEST_F(GpuDriverOnDevice, CapturesGraphs) {
  gpu::StreamHandle stream = nullptr;
  ok(d().create_stream(stream, 0));
  void* data = nullptr;
  ok(d().allocate(data, 400));
  gpu::CaptureStatus status = gpu::CaptureStatus::Active;
  uint64_t id = 0;
  ok(d().capture_status(stream, status, id));
  EXPECT_EQ(status, gpu::CaptureStatus::None);
  ok(d().begin_capture(stream, gpu::CaptureMode::Global));
  ok(d().capture_status(stream, status, id));
  EXPECT_EQ(status, gpu::CaptureStatus::Active);
  ok(d().fill(data, 7, 4, 100, stream));
  // Memory and modules may be had while a graph is captured.
  void* meanwhile = nullptr;
  ok(d().allocate(meanwhile, 1000));
  gpu::ModuleHandle module = nullptr;
  load("int* data) { *data = 1; }", module);
  EXPECT_FALSE(d().synchronize_stream(stream).ok());
  gpu::GraphHandle graph = nullptr;
  static_cast<void>(d().end_capture(stream, graph));  // the wait above has broken it
  ok(d().begin_capture(stream, gpu::CaptureMode::ThreadLocal));
  ok(d().fill(data, 7, 4, 100, stream));
  ok(d().end_capture(stream, graph));
  gpu::GraphExecHandle exec = nullptr;
  ok(d().instantiate(exec, graph));
  std::vector<int> back(100);
  for (int round = 0; round < 2; ++round) {
    ok(d().fill(data, 0, 4, 100, stream));
    ok(d().launch_graph(exec, stream));
    ok(d().copy(back.data(), data, 400, gpu::CopyKind::DeviceToHost, stream));
    ok(d().synchronize_stream(stream));
    EXPECT_EQ(back, std::vector<int>(100, 7));
  }
  ok(d().destroy_graph_exec(exec));
  ok(d().destroy_graph(graph));
  ok(d().unload_module(module));
  ok(d().free(meanwhile));
  ok(d().free(data));
  ok(d().destroy_stream(stream));
}

TEST_F(GpuDriverOnDevice, CopiesBetweenDevices) {
  int count = 0;
  ok(d().device_count(count));
  if (count < 2) GTEST_SKIP() << "needs two devices";
  bool can = false;
  ok(d().can_access_peer(0, 1, can));
  if (can) {
    const Status first = d().enable_peer_access(1), again = d().enable_peer_access(1);
    EXPECT_TRUE(first.ok() || first.fault == Fault::PeerAccessAlreadyEnabled);
    EXPECT_EQ(again.fault, Fault::PeerAccessAlreadyEnabled);
  }
  void *here = nullptr, *there = nullptr;
  ok(d().allocate(here, 400));
  ok(d().fill(here, 42, 4, 100, nullptr));
  ok(d().synchronize());
  ok(d().use_device(1));
  ok(d().allocate(there, 400));
  EXPECT_EQ(d().pointer_info(there).device, 1);
  ok(d().use_device(0));
  ok(d().copy_peer(there, 1, here, 0, 400, nullptr));
  ok(d().synchronize());
  std::vector<int> back(100);
  ok(d().use_device(1));
  ok(d().copy(back.data(), there, 400, gpu::CopyKind::DeviceToHost, nullptr));
  ok(d().synchronize());
  EXPECT_EQ(back, std::vector<int>(100, 42));
  ok(d().free(there));
  ok(d().use_device(0));
  ok(d().free(here));
}

TEST_F(GpuDriverOnDevice, IsUsedByManyThreads) {
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t)
    threads.emplace_back([t] {
      ok(d().use_device(0));
      for (int i = 0; i < 20; ++i) {
        void* data = nullptr;
        uint32_t back = 0;
        ok(d().allocate(data, 256));
        ok(d().fill(data, t, 4, 64, nullptr));
        ok(d().copy(&back, data, 4, gpu::CopyKind::DeviceToHost, nullptr));
        ok(d().synchronize());
        EXPECT_EQ(back, t);
        ok(d().free(data));
      }
    });
  for (std::thread& thread : threads) thread.join();
}

TEST_F(GpuDriverOnDevice, CompilesWithHeadersAndOptions) {
  gpu::DeviceProperties properties;
  ok(d().properties(0, properties));
  const gpu::SourceHeader headers[] = {{"folder/number.h", "#define NUMBER 7\n"}};
  const std::string text =
      "#include \"folder/number.h\"\nextern \"C\" __global__ void k(int* x) { *x = NUMBER + EXTRA; }\n";
  const std::string options[] = {"-DEXTRA=1", gpu::kOptionChipSpecific};
  gpu::Compiler& compiler = *gpu::compiler();
  const gpu::CompileResult good = compiler.compile("k", text, headers, properties.chip, options);
  EXPECT_TRUE(good.ok) << good.log;
  EXPECT_FALSE(good.binary.empty());
  const gpu::CompileResult no_option = compiler.compile("k", text, headers, properties.chip, {});
  EXPECT_FALSE(no_option.ok);
  EXPECT_TRUE(no_option.binary.empty());
  EXPECT_THAT(no_option.log, HasSubstr("EXTRA"));
  EXPECT_FALSE(compiler.compile("k", text, {}, properties.chip, options).ok);
  const gpu::CompileResult no_chip = compiler.compile("k", text, headers, "potato", options);
  EXPECT_FALSE(no_chip.ok);
  EXPECT_THAT(no_chip.log, HasSubstr("does not compile for potato"));
}

}  // namespace
}  // namespace facula::testing
