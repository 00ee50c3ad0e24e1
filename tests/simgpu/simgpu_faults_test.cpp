// Tests of the software GPU itself: its compiler, faults on request, and settings that are read at the start.
#include "test_fixture.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>

namespace simgpu_tests {
namespace {

class SimGpuFaults : public SimGpu {};
INSTANTIATE_TEST_SUITE_P(Shapes, SimGpuFaults, ::testing::Values(false, true), shape_name);

// ---- the compiler

TEST_P(SimGpuFaults, TheCompilerTellsWhatIsWrong) {
  Compiled bad = g->compile("extern \"C\" __global__ void k(int* p) {\n  p[0] = nothing;\n}");
  EXPECT_EQ(bad.code, 6);
  EXPECT_NE(bad.log.find("test.cu:2"), std::string::npos) << bad.log;
  EXPECT_NE(bad.log.find("nothing"), std::string::npos) << bad.log;
  EXPECT_EQ(g->compile("#include <cmath>\n").code, 6);  // no system headers, as with the real ones
  EXPECT_EQ(g->compile("extern \"C\" __global__ void k() {}", {}, "z80").code, 5);
  const char* big =
      R"(extern "C" __global__ void k(float* p) { __shared__ float s[20000]; s[threadIdx.x] = p[0]; __syncthreads(); p[1] = s[3]; })";
  Compiled large = g->compile(big);
  EXPECT_EQ(large.code, 6);
  EXPECT_NE(large.log.find("too much shared data"), std::string::npos) << large.log;
}

TEST_P(SimGpuFaults, TheCompilerTakesHeaders) {
  const std::vector<Header> headers = {
      {"inner.h", "#pragma once\n#define FN __device__ __forceinline__\nFN inline int two() { return 2; }\n"},
      {"folder/outer.h", "#pragma once\n#include \"inner.h\"\nFN int three() { return two() + 1; }\n"}};
  for (int n = 0; n < 3; ++n) {  // the third one finds precompiled headers
    Compiled c = g->compile(
        "#include \"folder/outer.h\"\n#include \"inner.h\"\nextern \"C\" __global__ void k(int* p) { *p = three() + " +
            std::to_string(n) + "; }",
        headers);
    ASSERT_EQ(c.code, 0) << c.log;
    void *module = nullptr, *f = nullptr;
    OK(g->load(&module, c.binary.data()));
    modules.push_back(module);
    OK(g->function(&f, module, "k"));
    EXPECT_EQ(g->function(&f, module, "none"), kNotFound);
    OK(g->function(&f, module, "k"));
    int* p = device<int>(1);
    OK(launch(f, 1, 1, 0, nullptr, p));
    EXPECT_EQ(host(p, 1)[0], 3 + n);
  }
}

TEST_P(SimGpuFaults, KernelsFromMacrosAndHeadersAreFound) {
  const std::vector<Header> headers = {
      {"kernels.h",
       "#define KERNEL(name, op) extern \"C\" __global__ void __launch_bounds__(64) name(int* p) { *p = *p op 2; }\n"
       "#if 0\nextern \"C\" __global__ void absent(int*) {}\n#endif\nKERNEL(from_header, +)\n"}};
  Compiled c = g->compile("#include \"kernels.h\"\nKERNEL(times, *)\n", headers);
  ASSERT_EQ(c.code, 0) << c.log;
  void *module = nullptr, *f = nullptr;
  OK(g->load(&module, c.binary.data()));
  modules.push_back(module);
  int* p = device(std::vector<int>{5});
  OK(g->function(&f, module, "from_header"));
  OK(launch(f, 1, 1, 0, nullptr, p));
  OK(g->function(&f, module, "times"));
  OK(launch(f, 1, 1, 0, nullptr, p));
  EXPECT_EQ(host(p, 1)[0], 14);
  EXPECT_EQ(launch(f, 1, 65, 0, nullptr, p), 701);
  EXPECT_EQ(g->function(&f, module, "absent"), kNotFound);
}

TEST_P(SimGpuFaults, BinariesOfOtherChipsAreRefused) {
  Compiled c = g->compile("extern \"C\" __global__ void k() {}", {}, GetParam() ? "gfx1030" : "sm_80");
  ASSERT_EQ(c.code, 0) << c.log;
  void* module = nullptr;
  EXPECT_EQ(g->load(&module, c.binary.data()), 209);
  const char junk[256] = "not a binary";
  EXPECT_EQ(g->load(&module, junk), 200);
}

// ---- faults on request

TEST_P(SimGpuFaults, CallsFailOnRequest) {
  void* p = nullptr;
  g->control("alloc:2=oom");
  OK(g->alloc(&p, 4));
  memory.push_back(p);
  EXPECT_EQ(g->alloc(&p, 4), kOutOfMemory);
  OK(g->alloc(&p, 4));
  memory.push_back(p);
  g->control("alloc:*=oom");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(g->alloc(&p, 4), kOutOfMemory);
  g->control("clear");
  OK(g->alloc(&p, 4));
  memory.push_back(p);
  const long before = std::atol(g->control("count alloc"));
  OK(g->alloc(&p, 4));
  memory.push_back(p);
  EXPECT_EQ(std::atol(g->control("count alloc")), before + 1);
}

TEST_P(SimGpuFaults, LaunchesFailOnRequest) {
  void* f = kernel(R"(extern "C" __global__ void k(int* p) { *p = 1; })");
  int* p = device<int>(1);
  g->control("launch:2=fail");
  OK(launch(f, 1, 1, 0, nullptr, p));
  OK(g->synchronize());
  OK(launch(f, 1, 1, 0, nullptr, p));  // noticed by who waits
  EXPECT_EQ(g->synchronize(), kLaunchFailed);
  g->control("revive");
  g->control("launch:1=refuse");
  EXPECT_EQ(launch(f, 1, 1, 0, nullptr, p), 701);
  OK(launch(f, 1, 1, 0, nullptr, p));
  OK(g->synchronize());
}

TEST_P(SimGpuFaults, ADeviceIsLostOnRequest) {
  int* p = device(std::vector<int>{1});
  OK(g->synchronize());
  g->control("memcpy:1=lost");
  int value = 0;
  EXPECT_EQ(g->to_host(&value, p, 4, nullptr), 999);
  EXPECT_EQ(g->synchronize(), 999);
  void* q = nullptr;
  EXPECT_EQ(g->alloc(&q, 4), 999);
  OK(g->use(1));
  OK(g->synchronize());
}

TEST_P(SimGpuFaults, CompilationsFailOnRequest) {
  g->compiler_control("compile:1=error");
  Compiled c = g->compile("extern \"C\" __global__ void k() {}");
  EXPECT_EQ(c.code, 6);
  EXPECT_NE(c.log.find("error"), std::string::npos);
  EXPECT_EQ(g->compile("extern \"C\" __global__ void k() {}").code, 0);
}

TEST_P(SimGpuFaults, CopiesAreSlowOnRequest) {
  int* p = device<int>(1);
  OK(g->synchronize());
  g->control("slow_copies_ms=40");
  const auto start = std::chrono::steady_clock::now();
  int value = 1;
  OK(g->to_device(p, &value, 4, nullptr));
  OK(g->synchronize());
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(40));
}

TEST_P(SimGpuFaults, ListsWhatIsAlive) {
  const std::string before = g->control("leaks");
  void *p = nullptr, *s = new_stream();
  OK(g->alloc(&p, 12345));
  const std::string during = g->control("leaks");
  EXPECT_NE(during.find("allocation of 12345 bytes"), std::string::npos) << during;
  EXPECT_NE(during.find("1 streams of device 0"), std::string::npos) << during;
  OK(g->free(p));
  OK(g->stream_free(s));
  EXPECT_EQ(g->control("leaks"), before);
}

// ---- in processes of their own, since they change how the engine starts

int run_child(bool hip, const char* environment, const char* what) {
  const pid_t child = fork();
  if (child == 0) {
    std::istringstream words(environment);
    for (std::string word; words >> word;) {
      const size_t equals = word.find('=');
      setenv(word.substr(0, equals).c_str(), word.substr(equals + 1).c_str(), 1);
    }
    setenv("SIMGPU_CHILD", what, 1);
    setenv("SIMGPU_CHILD_HIP", hip ? "1" : "0", 1);
    execl("/proc/self/exe", "simgpu_test", static_cast<char*>(nullptr));
    _exit(127);
  }
  for (int i = 0; i < 300; ++i) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  return -1000;  // hangs
}

// What the child does; the exit status is its answer.
int child_main(const std::string& what) {
  const bool hip = std::string(getenv("SIMGPU_CHILD_HIP")) == "1";
  Gpu& g = gpu_of(hip);
  int code = g.init();
  if (what == "init") return code;
  int n = -1;
  if (what == "count") return g.count(&n) ? 99 : n;
  if (code || g.use(0)) return 98;
  if (what == "memory") {
    size_t free_bytes = 0, total = 0;
    g.info(&free_bytes, &total);
    return static_cast<int>(total >> 20);
  }
  if (what == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      void* p = nullptr;
      _exit(g.alloc(&p, 4));
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WEXITSTATUS(status);
  }
  if (what == "peek" || what == "poke") {
    // The host takes memory of a device for its own.
    void* p = nullptr;
    if (g.alloc(&p, 64) || g.fill32(p, 5, 16, nullptr) || g.synchronize()) return 97;
    signal(SIGSEGV, SIG_DFL);  // a sanitizer has its own
    auto* value = static_cast<volatile int*>(p);
    if (what == "poke") *value = 1;
    return *value;
  }
  if (what == "lazy") {
    // Nothing happens before somebody waits.
    void *p = nullptr, *pinned = nullptr;
    g.alloc(&p, 4);
    g.host_alloc(&pinned, 4);
    auto* value = static_cast<volatile int*>(pinned);
    *value = 1;
    g.fill32(p, 5, 1, nullptr);
    g.to_host(pinned, p, 4, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    const int early = *value;
    g.synchronize();
    return early * 10 + *value;
  }
  if (what == "version") {
    Compiled c = g.compile("extern \"C\" __global__ void k() {}");
    void* module = nullptr;
    return c.code ? 97 : g.load(&module, c.binary.data());
  }
  return 96;
}

TEST_P(SimGpuFaults, StartsBadlyOnRequest) {
  const bool hip = GetParam();
  EXPECT_EQ(run_child(hip, "", "init"), 0);
  EXPECT_EQ(run_child(hip, "SIMGPU_FAULTS=init=crash", "init"), -SIGABRT);
  EXPECT_EQ(run_child(hip, "SIMGPU_FAULTS=init=hang", "init"), -1000);
  EXPECT_EQ(run_child(hip, "SIMGPU_FAULTS=init=804", "init"), 804 & 255);
  EXPECT_EQ(run_child(hip, "SIMGPU_FAULTS=count=0", "init"), 100);
  EXPECT_EQ(run_child(hip, "SIMGPU_FAULTS=version=11000", "version"), 200);
}

TEST_P(SimGpuFaults, KeepsTheHostOut) {
  const bool hip = GetParam();
  EXPECT_EQ(run_child(hip, "", "peek"), -SIGSEGV);
  EXPECT_EQ(run_child(hip, "", "poke"), -SIGSEGV);
  EXPECT_EQ(run_child(hip, "SIMGPU_GUARD=0", "peek"), 5);
}

TEST_P(SimGpuFaults, ReadsItsSettings) {
  const bool hip = GetParam();
  EXPECT_EQ(run_child(hip, "SIMGPU_DEVICES=5", "count"), 5);
  EXPECT_EQ(run_child(hip, "SIMGPU_MEMORY_MB=77", "memory"), 77);
  const std::string visible = hip ? "HIP_VISIBLE_DEVICES=" : "CUDA_VISIBLE_DEVICES=";
  EXPECT_EQ(run_child(hip, (visible + "1").c_str(), "count"), 1);
  EXPECT_EQ(run_child(hip, (visible + "7").c_str(), "init"), 100);
  EXPECT_EQ(run_child(hip, "SIMGPU_ASYNC=2", "lazy"), 15);
  EXPECT_EQ(run_child(hip, "", "fork"), 3);  // not initialized: the threads are gone
}

}  // namespace
}  // namespace simgpu_tests

int main(int argc, char** argv) {
  if (const char* what = getenv("SIMGPU_CHILD")) return simgpu_tests::child_main(what);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
