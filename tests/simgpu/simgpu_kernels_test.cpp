// Tests of the software GPU itself: that kernels do what they do on a GPU, and that it finds what it is there to find.
#include "test_fixture.h"

namespace simgpu_tests {
namespace {

class SimGpuKernels : public SimGpu {};
INSTANTIATE_TEST_SUITE_P(Shapes, SimGpuKernels, ::testing::Values(false, true), shape_name);

// ---- kernels

TEST_P(SimGpuKernels, EveryThreadKnowsItsPlace) {
  void* f = kernel(R"(extern "C" __global__ void k(unsigned* p, unsigned n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) p[i] = i * 10 + gridDim.x;
  })");
  unsigned* p = device<unsigned>(1000);
  OK(launch(f, 8, 128, 0, nullptr, p, 1000u));
  auto values = host(p, 1000);
  for (unsigned i = 0; i < 1000; ++i) ASSERT_EQ(values[i], i * 10 + 8);
}

TEST_P(SimGpuKernels, BlocksReduceWithBarriersInAnyOrderOfThreads) {
  void* f = kernel(R"(extern "C" __global__ void k(double* out, const double* in, int n) {
    __shared__ double part[256];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += in[i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) part[threadIdx.x] += part[threadIdx.x + half];
      __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = part[0];
  })");
  std::vector<double> in(10000);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<double>(i % 97);
  double* p = device(in);
  double* out = device<double>(8);
  for (int seed = 0; seed < 4; ++seed) {
    g->control(("seed " + std::to_string(seed)).c_str());
    OK(launch(f, 8, 256, 0, nullptr, out, p, 10000));
    EXPECT_EQ(host(out, 8), std::vector<double>(8, std::accumulate(in.begin(), in.end(), 0.0)));
  }
}

TEST_P(SimGpuKernels, LanesShuffleAndVote) {
  void* f = kernel(lane_intrinsics(GetParam()) + R"(extern "C" __global__ void k(long long* out, int n) {
    int lane = threadIdx.x % warpSize;
    long long v = threadIdx.x * 100ll;
    long long* o = out + threadIdx.x * 9;
    o[0] = SHFL(v, 5);
    o[1] = UP(v, 3u);
    o[2] = DOWN(v, 7u);
    o[3] = XOR(v, 1);
    o[4] = XOR_WITHIN(v, 9, 8);
    o[5] = (long long)BALLOT(lane % 3 == 0);
    o[6] = ANY(lane == 4);
    o[7] = ALL(lane >= 0) * 2 + ALL(lane == 0);
    o[8] = warpSize;
  })");
  const int threads = 192, lanes = g->lanes;
  auto* out = device<long long>(threads * 9);
  OK(launch(f, 1, threads, 0, nullptr, out, threads));
  auto o = host(out, threads * 9);
  for (int t = 0; t < threads; ++t) {
    const int base = t / lanes * lanes, lane = t - base;
    unsigned long long ballot = 0;
    for (int i = 0; i < lanes; i += 3) ballot |= 1ull << i;
    const long long* mine = o.data() + t * 9;
    ASSERT_EQ(mine[0], (base + 5) * 100) << t;
    ASSERT_EQ(mine[1], (lane < 3 ? t : t - 3) * 100) << t;
    ASSERT_EQ(mine[2], (lane + 7 >= lanes ? t : t + 7) * 100) << t;
    ASSERT_EQ(mine[3], (base + (lane ^ 1)) * 100) << t;
    // 9 is beyond a width of 8: lanes of lower groups can be read, those of higher ones cannot.
    ASSERT_EQ(mine[4], ((lane ^ 9) >= (lane & ~7) + 8 ? t : base + (lane ^ 9)) * 100) << t;
    ASSERT_EQ(static_cast<unsigned long long>(mine[5]), ballot) << t;
    ASSERT_EQ(mine[6], 1);
    ASSERT_EQ(mine[7], 2);
    ASSERT_EQ(mine[8], lanes);
  }
}

TEST_P(SimGpuKernels, AtomicsOfEveryType) {
  void* f = kernel(R"(extern "C" __global__ void k(int* i, unsigned* u, unsigned long long* l, float* f, double* d) {
    int t = threadIdx.x + blockIdx.x * blockDim.x;
    atomicAdd(i, 1);
    atomicMax(i + 1, t);
    atomicMin(i + 2, -t);
    atomicCAS(i + 3, 7, t);
    atomicOr(u, 1u << (t % 32));
    atomicAnd(u + 1, ~(1u << (t % 16)));
    atomicExch(u + 2, 5u);
    atomicAdd(l, 1ull << 33);
    atomicMax(l + 1, (unsigned long long)t << 40);
    atomicAdd(f, 0.5f);
    atomicAdd(d, 0.25);
  })");
  int* i = device(std::vector<int>{0, -1, 1, 3});
  unsigned* u = device(std::vector<unsigned>{0, 0xffffffffu, 0});
  auto* l = device(std::vector<unsigned long long>{0, 0});
  float* fl = device(std::vector<float>{0});
  double* d = device(std::vector<double>{0});
  OK(launch(f, 4, 64, 0, nullptr, i, u, l, fl, d));
  EXPECT_EQ(host(i, 4), (std::vector<int>{256, 255, -255, 3}));
  EXPECT_EQ(host(u, 3), (std::vector<unsigned>{0xffffffffu, 0xffff0000u, 5}));
  EXPECT_EQ(host(l, 2), (std::vector<unsigned long long>{256ull << 33, 255ull << 40}));
  EXPECT_EQ(host(fl, 1)[0], 128.0f);
  EXPECT_EQ(host(d, 1)[0], 64.0);
}

TEST_P(SimGpuKernels, DynamicSharedMemoryBothWays) {
  void* f = kernel(R"(extern "C" __global__ void k(int* out, int n) {
    extern __shared__ int s[];
    int* same = (int*)simgpu_dynamic_shared();
    s[threadIdx.x] = threadIdx.x;
    __syncthreads();
    out[threadIdx.x] = same[n - 1 - threadIdx.x];
  })");
  int* out = device<int>(100);
  OK(launch(f, 1, 100, 400, nullptr, out, 100));
  auto values = host(out, 100);
  for (int t = 0; t < 100; ++t) ASSERT_EQ(values[static_cast<size_t>(t)], 99 - t);
}

TEST_P(SimGpuKernels, VariablesOfAModuleAreEachDevicesOwn) {
  const char* source = R"(__device__ int counter = 3; __constant__ float table[4];
    extern "C" __global__ void k(float* out) { atomicAdd(&counter, 1); out[threadIdx.x] = table[threadIdx.x]; })";
  void* f = kernel(source);
  void *p = nullptr, *t = nullptr;
  size_t bytes = 0;
  OK(g->global(&p, &bytes, modules.back(), "counter"));
  EXPECT_EQ(bytes, 4u);
  OK(g->global(&t, &bytes, modules.back(), "table"));
  EXPECT_EQ(bytes, 16u);
  EXPECT_EQ(g->global(&t, &bytes, modules.back(), "nothing"), kNotFound);
  const float table[4] = {1, 2, 3, 4};
  OK(g->to_device(t, table, 16, nullptr));
  float* out = device<float>(4);
  OK(launch(f, 1, 4, 0, nullptr, out));
  EXPECT_EQ(host(out, 4), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(host(static_cast<int*>(p), 1)[0], 7);
  // Loaded again: another variable.
  kernel(source);
  void* other = nullptr;
  OK(g->global(&other, &bytes, modules.back(), "counter"));
  EXPECT_EQ(host(static_cast<int*>(other), 1)[0], 3);
}

TEST_P(SimGpuKernels, ArgumentsAreTakenWhenTheCallIsMade) {
  void* f = kernel(R"(struct Big { double v[20]; }; extern "C" __global__ void k(double* out, Big b, char c) {
    out[threadIdx.x] = b.v[threadIdx.x] + c; })");
  struct Big {
    double v[20];
  } big;
  for (int i = 0; i < 20; ++i) big.v[i] = i;
  double* out = device<double>(20);
  char c = 1;
  void* arguments[] = {&out, &big, &c};
  OK(g->launch(f, 1, 20, 0, nullptr, arguments));
  big = {};
  c = 9;
  auto values = host(out, 20);
  for (int i = 0; i < 20; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i + 1);
}

TEST_P(SimGpuKernels, IntegerDivisionByZeroDoesNotKill) {
  void* f = kernel(R"(extern "C" __global__ void k(int* p, int zero, long long* q) {
    p[0] = p[0] / zero; p[1] = p[1] % (zero + 3); q[0] = q[0] / (long long)zero; q[1] = 5; })");
  int* p = device(std::vector<int>{7, 7});
  auto* q = device(std::vector<long long>{1, 1});
  OK(launch(f, 1, 1, 0, nullptr, p, 0, q));
  OK(g->synchronize());
  EXPECT_EQ(host(p, 2)[1], 1);
  EXPECT_EQ(host(q, 2)[1], 5);
}

TEST_P(SimGpuKernels, LaunchesThatDoNotFitAreRefused) {
  void* f = kernel(R"(extern "C" __global__ void __launch_bounds__(64) k(int* p) { p[threadIdx.x] = 1; })");
  int* p = device<int>(2000);
  EXPECT_EQ(launch(f, 1, 1025, 0, nullptr, p), kInvalidValue);
  EXPECT_EQ(launch(f, 0, 1, 0, nullptr, p), kInvalidValue);
  EXPECT_EQ(launch(f, 1, 65, 0, nullptr, p), 701);
  EXPECT_EQ(launch(f, 1, 1, 1 << 20, nullptr, p), kInvalidValue);
  EXPECT_EQ(launch(nullptr, 1, 1, 0, nullptr, p), kInvalidHandle);
  OK(launch(f, 1, 64, 0, nullptr, p));
  OK(g->synchronize());
}

// ---- what it is there to find

TEST_P(SimGpuKernels, FindsStoresOutOfBounds) {
  void* f = kernel(R"(extern "C" __global__ void k(float* p) { p[threadIdx.x] = 1; })");
  float* p = device<float>(100);
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 101, 0, nullptr, p), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  EXPECT_NE(text.find("kernel k"), std::string::npos) << text;
  EXPECT_NE(text.find("thread (100, 0, 0)"), std::string::npos) << text;
  EXPECT_NE(text.find("store of 4 bytes"), std::string::npos) << text;
  EXPECT_NE(text.find("0 bytes behind 400 bytes"), std::string::npos) << text;
  // The device is lost, and says so.
  void* q = nullptr;
  EXPECT_EQ(g->alloc(&q, 4), kIllegalAddress);
  EXPECT_EQ(g->synchronize(), kIllegalAddress);
  // The other one is not.
  OK(g->use(1));
  OK(g->synchronize());
}

TEST_P(SimGpuKernels, FindsLoadsOfWholeVectorsOutOfBounds) {
  void* f = kernel(
      R"(extern "C" __global__ void k(float4* p, float* out) { float4 v = p[threadIdx.x]; out[threadIdx.x] = v.x + v.w; })");
  float* p = device(std::vector<float>(30, 1.0f));  // the last vector is half there
  float* out = device<float>(8);
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 8, 0, nullptr, p, out), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  EXPECT_NE(text.find("thread (7, 0, 0)"), std::string::npos) << text;
}

TEST_P(SimGpuKernels, FindsUseAfterFree) {
  void* f = kernel(R"(extern "C" __global__ void k(int* p) { p[threadIdx.x] = 1; })");
  void* p = nullptr;
  OK(g->alloc(&p, 400));
  OK(g->free(p));
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, p), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  EXPECT_NE(text.find("which were freed"), std::string::npos) << text;
}

TEST_P(SimGpuKernels, FindsReadsOfWhatNobodyWrote) {
  void* f = kernel(R"(extern "C" __global__ void k(int* out, const int* in) { out[threadIdx.x] = in[threadIdx.x]; })");
  int* in = device<int>(64);
  int* out = device<int>(64);
  OK(g->fill32(in, 1, 63, nullptr));
  OK(launch(f, 1, 63, 0, nullptr, out, in));
  OK(g->synchronize());
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 64, 0, nullptr, out, in), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  EXPECT_NE(text.find("never written"), std::string::npos) << text;
  EXPECT_NE(text.find("thread (63, 0, 0)"), std::string::npos) << text;
}

TEST_P(SimGpuKernels, CopiesCarryWhatWasWritten) {
  void* f = kernel(R"(extern "C" __global__ void k(int* out, const int* in) { out[threadIdx.x] = in[threadIdx.x]; })");
  int* a = device<int>(8);
  int* b = device<int>(8);
  int* out = device<int>(8);
  OK(g->fill32(a, 1, 4, nullptr));
  OK(g->on_device(b, a, 32, nullptr));
  OK(launch(f, 1, 4, 0, nullptr, out, b));
  OK(g->synchronize());
  printed([&] {
    ASSERT_EQ(launch(f, 1, 5, 0, nullptr, out, b), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
}

TEST_P(SimGpuKernels, FindsTheHostsOwnMemory) {
  void* f = kernel(R"(extern "C" __global__ void k(int* p) { p[0] = 1; })");
  std::vector<int> mine(10);
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, static_cast<void*>(mine.data())), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  EXPECT_NE(text.find("illegal address"), std::string::npos) << text;
  EXPECT_EQ(mine[0], 0);
}

TEST_P(SimGpuKernels, FindsMisalignedAddresses) {
  void* f = kernel(R"(extern "C" __global__ void k(char* p) { *(double*)(p + 4) = 1; })");
  char* p = device<char>(100);
  printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, p), 0);
    EXPECT_EQ(g->synchronize(), kMisaligned);
  });
}

TEST_P(SimGpuKernels, FindsBytesCopiedOutOfBounds) {
  void* f = kernel(
      R"(extern "C" __global__ void k(char* to, const char* from, int n) { memcpy(to, from, n); memset(to, 7, 3); })");
  char* to = device<char>(100);
  char* from = device(std::vector<char>(101, 'x'));
  OK(launch(f, 1, 1, 0, nullptr, to, from, 100));
  OK(g->synchronize());
  EXPECT_EQ(host(to, 4), (std::vector<char>{7, 7, 7, 'x'}));
  printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, to, from, 101), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
}

TEST_P(SimGpuKernels, FindsSharedMemoryOutOfBounds) {
  void* f = kernel(R"(extern "C" __global__ void k(int* out, int at) {
    int* s = (int*)simgpu_dynamic_shared(); s[at] = 1; out[0] = s[at]; })");
  int* out = device<int>(1);
  OK(launch(f, 1, 1, 40, nullptr, out, 9));
  OK(g->synchronize());
  printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 40, nullptr, out, 10), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
}

// Kernels run on a thread of their own, while other threads load more of them: whose shared variables are where changes all the time.
TEST_P(SimGpuKernels, SharedMemoryIsFoundWhileModulesAreLoaded) {
  constexpr int kLoads = 300;
  int* out = device<int>(kLoads);
  for (int i = 0; i < kLoads; ++i) {
    void* f = kernel(R"(extern "C" __global__ void k(int* out, int i) {
      __shared__ int s[8];
      if (threadIdx.x == 0) s[i % 8] = i;
      __syncthreads();
      if (threadIdx.x == 1) out[i] = s[i % 8];
    })");
    OK(launch(f, 1, 32, 0, nullptr, out, i));
  }
  const std::vector<int> values = host(out, kLoads);
  for (int i = 0; i < kLoads; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], i);
}

TEST_P(SimGpuKernels, SharedMemoryIsPoisonedForEachBlock) {
  void* f = kernel(R"(extern "C" __global__ void k(int* out) {
    __shared__ int s[32];
    out[blockIdx.x * 32 + threadIdx.x] = s[threadIdx.x];
    __syncthreads();
    s[threadIdx.x] = 5;
  })");
  int* out = device<int>(96);
  OK(launch(f, 3, 32, 0, nullptr, out));
  EXPECT_EQ(host(out, 96), std::vector<int>(96, -1));
}

TEST_P(SimGpuKernels, FindsRacesInSharedMemory) {
  // how: 0 with all barriers, 1 without the one between store and load, 2 without the one before the next store
  void* f = kernel(R"(extern "C" __global__ void k(int* out, int how) {
    extern __shared__ int s[];
    __shared__ int t[64];
    for (int round = 0; round < 2; ++round) {
      s[threadIdx.x] = t[threadIdx.x] = threadIdx.x;
      if (how != 1) __syncthreads();
      out[threadIdx.x] = s[63 - threadIdx.x] + t[63 - threadIdx.x];
      if (how != 2) __syncthreads();
    }
    atomicAdd(&s[0], 1);
    atomicAdd(&s[0], 1);
  })");
  int* out = device<int>(64);
  OK(launch(f, 3, 64, 256, nullptr, out, 0));
  EXPECT_EQ(host(out, 64)[3], 120);
  for (int how : {1, 2}) {
    const std::string text = printed([&] {
      ASSERT_EQ(launch(f, 1, 64, 256, nullptr, out, how), 0);
      EXPECT_EQ(g->synchronize(), kLaunchFailed);
    });
    EXPECT_NE(text.find("race in shared memory"), std::string::npos) << text;
    EXPECT_NE(text.find("with no barrier between"), std::string::npos) << text;
    g->control("revive");
  }
}

TEST_P(SimGpuKernels, WarpOperationsOrderLanesOfAWarpOnly) {
  void* f = kernel(lane_intrinsics(GetParam()) + R"(extern "C" __global__ void k(int* out) {
    __shared__ int s[256];
    s[threadIdx.x] = threadIdx.x;
    ANY(1);
    out[threadIdx.x] = s[threadIdx.x / warpSize * warpSize + (threadIdx.x + 1) % warpSize];
    ANY(1);
    s[threadIdx.x] = s[(threadIdx.x + warpSize) % blockDim.x];
  })");
  int* out = device<int>(256);
  OK(launch(f, 1, static_cast<unsigned>(g->lanes), 0, nullptr, out));
  OK(g->synchronize());
  printed([&] {
    ASSERT_EQ(launch(f, 1, static_cast<unsigned>(2 * g->lanes), 0, nullptr, out), 0);
    EXPECT_EQ(g->synchronize(), kLaunchFailed);
  });
}

TEST_P(SimGpuKernels, FindsBarriersThatNotAllReach) {
  // Threads that have returned do not count; threads that wait elsewhere do.
  void* f = kernel(lane_intrinsics(GetParam()) + R"(extern "C" __global__ void k(int* p, int how) {
    if (how == 0) { if (threadIdx.x >= 16) return; __syncthreads(); p[threadIdx.x] = 1; return; }
    if (threadIdx.x < 16) __syncthreads();
    else p[threadIdx.x] = __syncthreads_count(1);
  })");
  int* p = device<int>(32);
  OK(launch(f, 1, 32, 0, nullptr, p, 0));
  OK(g->synchronize());
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 32, 0, nullptr, p, 1), 0);
    EXPECT_EQ(g->synchronize(), kLaunchFailed);
  });
  EXPECT_NE(text.find("barriers of different kinds"), std::string::npos) << text;
}

TEST_P(SimGpuKernels, FindsLanesThatDoNotCome) {
  if (GetParam()) GTEST_SKIP() << "operations of HIP have no mask";
  void* f = kernel(R"(extern "C" __global__ void k(int* p) {
    if (threadIdx.x < 31) p[threadIdx.x] = __shfl_down_sync(0xffffffffu, 1, 1);
    else __syncthreads();
  })");
  int* p = device<int>(32);
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 32, 0, nullptr, p), 0);
    EXPECT_EQ(g->synchronize(), kLaunchFailed);
  });
  EXPECT_NE(text.find("divergence: of 32 threads 1 wait at a barrier and 31 at a warp operation"), std::string::npos)
      << text;
  EXPECT_NE(text.find("shuffle down with the mask 0xffffffff"), std::string::npos) << text;
}

TEST_P(SimGpuKernels, FindsALaneThatItsMaskLeavesOut) {
  if (GetParam()) GTEST_SKIP() << "operations of HIP have no mask";
  void* f = kernel(R"(extern "C" __global__ void k(int* p) { p[threadIdx.x] = __ballot_sync(0x7fffffffu, 1); })");
  int* p = device<int>(32);
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 32, 0, nullptr, p), 0);
    EXPECT_EQ(g->synchronize(), kLaunchFailed);
  });
  EXPECT_NE(text.find("leaves it out"), std::string::npos) << text;
}

TEST_P(SimGpuKernels, LanesOfABranchWorkTogetherWithoutAMask) {
  if (!GetParam()) GTEST_SKIP() << "operations of CUDA have a mask";
  void* f = kernel(R"(extern "C" __global__ void k(unsigned long long* p) {
    if (threadIdx.x < 10) p[threadIdx.x] = __ballot(1);
    else { __syncthreads(); p[threadIdx.x] = 0; return; }
    __syncthreads();
  })");
  auto* p = device<unsigned long long>(64);
  OK(launch(f, 1, 64, 0, nullptr, p));
  EXPECT_EQ(host(p, 10), std::vector<unsigned long long>(10, 0x3ff));
}

TEST_P(SimGpuKernels, FindsAssertionsAndTraps) {
  void* f = kernel(R"(extern "C" __global__ void k(int n) { if (n == 0) __trap(); assert(threadIdx.x < n); })");
  OK(launch(f, 1, 4, 0, nullptr, 4));
  OK(g->synchronize());
  const std::string text = printed([&] {
    ASSERT_EQ(launch(f, 1, 5, 0, nullptr, 4), 0);
    EXPECT_EQ(g->synchronize(), kAssert);
  });
  EXPECT_NE(text.find("assertion failed: threadIdx.x < n"), std::string::npos) << text;
  g->control("revive");
  printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, 0), 0);
    EXPECT_EQ(g->synchronize(), 715);
  });
}

TEST_P(SimGpuKernels, FindsAStackThatIsFull) {
  void* f = kernel(
      R"(__device__ __noinline__ int deep(int n) { volatile int v[100]; v[0] = n; return n <= 0 ? 0 : deep(n - 1) + v[0]; }
    extern "C" __global__ void k(int* p, int n) { p[0] = deep(n); })");
  int* p = device<int>(1);
  OK(launch(f, 1, 1, 0, nullptr, p, 10));
  EXPECT_EQ(host(p, 1)[0], 55);
  printed([&] {
    ASSERT_EQ(launch(f, 1, 1, 0, nullptr, p, 1000000), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
}

}  // namespace
}  // namespace simgpu_tests
