// Tests of the small BLAS of the software GPU: matrix products through the raw entry points of all three libraries, against the
// definition computed here.
#include "test_fixture.h"

#include <cmath>
#include <functional>

namespace simgpu_tests {
namespace {

// D = activation(alpha op(A) op(B) + beta D + bias), by columns, floats.
struct Problem {
  int m = 0, n = 0, k = 0, batch = 1;
  bool transpose_a = false, transpose_b = false;
  int lda = 0, ldb = 0, ldd = 0;
  int64_t stride_a = 0, stride_b = 0, stride_d = 0;
  float alpha = 1, beta = 0;
  const float *a = nullptr, *b = nullptr, *bias = nullptr;
  float *d = nullptr, *before = nullptr;
  uint32_t activation = 0;  // the libraries' number: 2 is relu, 32 is gelu
};

// The names and numbers in which the two "light" libraries differ.
struct LtNumbers {
  const char* prefix;
  int compute, transpose_a, transpose_b, epilogue, bias, before, before_leading, batch, stride, keep, transpose;
  size_t algorithm_bytes;
};
constexpr LtNumbers kCublasLt = {"cublasLt", 68, 3, 4, 7, 8, 11, 12, 5, 6, 0, 1, 64};
constexpr LtNumbers kHipblasLt = {"hipblasLt", 2, 0, 1, 2, 3, 10, 11, 0, 1, 111, 112, 24};

class Lt {
 public:
  Lt(void* library, const LtNumbers& numbers) : n_(numbers), library_(library) {
    EXPECT_EQ(call("Create", &handle_), 0);
  }

  template <class... A>
  int call(const char* name, A... arguments) {
    auto* f = reinterpret_cast<int (*)(A...)>(dlsym(library_, (std::string(n_.prefix) + name).c_str()));
    if (!f) throw std::runtime_error(std::string("no ") + n_.prefix + name);
    return f(arguments...);
  }

  int multiply(const Problem& p, void* workspace, void* stream) {
    void *description = nullptr, *a = nullptr, *b = nullptr, *d = nullptr, *preference = nullptr;
    call("MatmulDescCreate", &description, n_.compute, 0);
    set(description, n_.transpose_a, p.transpose_a ? n_.transpose : n_.keep);
    set(description, n_.transpose_b, p.transpose_b ? n_.transpose : n_.keep);
    const uint32_t epilogue = p.activation | (p.bias ? 4u : 0u) | (p.before ? 128u : 0u);
    if (epilogue) set(description, n_.epilogue, epilogue);
    if (p.bias) set(description, n_.bias, p.bias);
    if (p.before) {
      set(description, n_.before, p.before);
      set(description, n_.before_leading, int64_t{p.ldd});
    }
    layout(a, p.transpose_a ? p.k : p.m, p.transpose_a ? p.m : p.k, p.lda, p.batch, p.stride_a);
    layout(b, p.transpose_b ? p.n : p.k, p.transpose_b ? p.k : p.n, p.ldb, p.batch, p.stride_b);
    layout(d, p.m, p.n, p.ldd, p.batch, p.stride_d);
    call("MatmulPreferenceCreate", &preference);
    const uint64_t room = workspace ? kRoom : 0;
    if (room) call("MatmulPreferenceSetAttribute", preference, 1, static_cast<const void*>(&room), sizeof room);
    std::vector<char> results(4 * (n_.algorithm_bytes + 32));
    int found = 0;
    int status = call("MatmulAlgoGetHeuristic", handle_, description, a, b, d, d, preference, 4,
                      static_cast<void*>(results.data()), &found);
    if (status == 0) {
      EXPECT_EQ(found, workspace ? 2 : 1);
      // The last one, which uses the workspace where there is one.
      const char* algorithm = results.data() + static_cast<size_t>(found - 1) * (n_.algorithm_bytes + 32);
      status = call("Matmul", handle_, description, static_cast<const void*>(&p.alpha), static_cast<const void*>(p.a),
                    a, static_cast<const void*>(p.b), b, static_cast<const void*>(&p.beta),
                    static_cast<const void*>(p.d), d, static_cast<void*>(p.d), d, static_cast<const void*>(algorithm),
                    workspace, workspace ? kRoom : size_t{0}, stream);
    }
    call("MatmulPreferenceDestroy", preference);
    for (void* x : {a, b, d}) call("MatrixLayoutDestroy", x);
    call("MatmulDescDestroy", description);
    return status;
  }

  static constexpr size_t kRoom = size_t{1} << 20;

 private:
  template <class T>
  void set(void* description, int attribute, T value) {
    EXPECT_EQ(call("MatmulDescSetAttribute", description, attribute, static_cast<const void*>(&value), sizeof value),
              0);
  }
  void layout(void*& made, int rows, int columns, int leading, int32_t batch, int64_t stride) {
    EXPECT_EQ(call("MatrixLayoutCreate", &made, 0, static_cast<uint64_t>(rows), static_cast<uint64_t>(columns),
                   static_cast<int64_t>(leading)),
              0);
    if (batch == 1) return;
    EXPECT_EQ(call("MatrixLayoutSetAttribute", made, n_.batch, static_cast<const void*>(&batch), sizeof batch), 0);
    EXPECT_EQ(call("MatrixLayoutSetAttribute", made, n_.stride, static_cast<const void*>(&stride), sizeof stride), 0);
  }

  const LtNumbers& n_;
  void *library_, *handle_ = nullptr;
};

int multiply_roc(void* library, const Problem& p, void* stream) {
  void* handle = nullptr;
  reinterpret_cast<int (*)(void**)>(dlsym(library, "rocblas_create_handle"))(&handle);
  reinterpret_cast<int (*)(void*, void*)>(dlsym(library, "rocblas_set_stream"))(handle, stream);
  using Gemm = int (*)(void*, int, int, int, int, int, const void*, const void*, int, int, int64_t, const void*, int,
                       int, int64_t, const void*, const void*, int, int, int64_t, void*, int, int, int64_t, int, int,
                       int, int, uint32_t);
  constexpr int kF32 = 151;
  const int status = reinterpret_cast<Gemm>(dlsym(library, "rocblas_gemm_strided_batched_ex"))(
      handle, p.transpose_a ? 112 : 111, p.transpose_b ? 112 : 111, p.m, p.n, p.k, &p.alpha, p.a, kF32, p.lda,
      p.stride_a, p.b, kF32, p.ldb, p.stride_b, &p.beta, p.d, kF32, p.ldd, p.stride_d, p.d, kF32, p.ldd, p.stride_d,
      p.batch, kF32, 0, 0, 0);
  reinterpret_cast<int (*)(void*)>(dlsym(library, "rocblas_destroy_handle"))(handle);
  return status;
}

class SimGpuBlas : public SimGpu {
 protected:
  // Draws matrices, multiplies, compares.
  void check(const std::function<int(const Problem&, void*)>& multiply, bool transpose_a, bool transpose_b, int batch,
             float alpha, float beta, bool with_bias) {
    Problem p{7, 5, 9, batch, transpose_a, transpose_b};
    p.lda = (transpose_a ? p.k : p.m) + 2;
    p.ldb = (transpose_b ? p.n : p.k) + 1;
    p.ldd = p.m + 3;
    p.stride_a = p.lda * (transpose_a ? p.m : p.k);
    p.stride_b = p.ldb * (transpose_b ? p.k : p.n);
    p.stride_d = p.ldd * p.n;
    p.alpha = alpha;
    p.beta = beta;
    const auto draw = [&](int64_t count) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& v : values) v = static_cast<float>(static_cast<int>(random() % 17) - 8);
      return values;
    };
    const auto a = draw(p.stride_a * batch), b = draw(p.stride_b * batch), bias = draw(p.m);
    auto d = draw(p.stride_d * batch);
    p.a = device(a);
    p.b = device(b);
    p.d = device(d);
    if (with_bias) p.bias = device(bias);
    void* stream = new_stream();
    OK(g->synchronize());
    OK(multiply(p, stream));
    OK(g->stream_sync(stream));
    const auto got = host(p.d, d.size());
    for (int64_t q = 0; q < batch; ++q)
      for (int j = 0; j < p.n; ++j)
        for (int i = 0; i < p.m; ++i) {
          double sum = 0;
          for (int l = 0; l < p.k; ++l)
            sum += static_cast<double>(
                       a[static_cast<size_t>(q * p.stride_a + (transpose_a ? l + i * p.lda : i + l * p.lda))]) *
                   static_cast<double>(
                       b[static_cast<size_t>(q * p.stride_b + (transpose_b ? j + l * p.ldb : l + j * p.ldb))]);
          float& e = d[static_cast<size_t>(q * p.stride_d + i + j * p.ldd)];
          e = static_cast<float>(alpha * sum + beta * e + (with_bias ? bias[static_cast<size_t>(i)] : 0.0f));
        }
    EXPECT_EQ(got, d);  // and what lies between columns is as it was
    OK(g->stream_free(stream));
  }
  void check_all(const std::function<int(const Problem&, void*)>& multiply, bool has_bias) {
    for (int bits = 0; bits < 4; ++bits)
      for (int batch : {1, 3}) {
        check(multiply, bits & 1, bits & 2, batch, 1, 0, false);
        check(multiply, bits & 1, bits & 2, batch, -0.5f, 2, has_bias);
      }
  }
  void* library(const char* name) { return open_library(library_folder(GetParam()) + "_blas/" + name); }
  std::mt19937 random{5};
};
INSTANTIATE_TEST_SUITE_P(Shapes, SimGpuBlas, ::testing::Values(false, true), shape_name);

TEST_P(SimGpuBlas, LightLibrariesMultiply) {
  Lt lt(library(GetParam() ? "libhipblaslt.so.0" : "libcublasLt.so.12"), GetParam() ? kHipblasLt : kCublasLt);
  check_all([&](const Problem& p, void* stream) { return lt.multiply(p, nullptr, stream); }, true);
  char* room = device<char>(Lt::kRoom);
  check([&](const Problem& p, void* stream) { return lt.multiply(p, room, stream); }, true, false, 2, 1, 1, true);
}

TEST_P(SimGpuBlas, LightLibrariesActivate) {
  Lt lt(library(GetParam() ? "libhipblaslt.so.0" : "libcublasLt.so.12"), GetParam() ? kHipblasLt : kCublasLt);
  Problem p{2, 1, 1};
  p.lda = 2;
  p.ldb = 1;
  p.ldd = 8;
  p.a = device(std::vector<float>{1.0f, -3.0f});
  p.b = device(std::vector<float>{0.5f});
  p.bias = device(std::vector<float>{1.0f, 1.0f});
  p.d = device<float>(8);
  const auto results = [&](const float* from) {
    EXPECT_EQ(g->synchronize(), 0);
    return host(from, 2);
  };
  p.activation = 2;
  OK(lt.multiply(p, nullptr, nullptr));
  EXPECT_EQ(results(p.d), (std::vector<float>{1.5f, 0.0f}));
  p.activation = 32;
  p.before = device<float>(8);
  OK(lt.multiply(p, nullptr, nullptr));
  EXPECT_EQ(results(p.before), (std::vector<float>{1.5f, -0.5f}));
  EXPECT_NEAR(results(p.d)[0], 1.39957, 1e-5);
  EXPECT_NEAR(results(p.d)[1], -0.154286, 1e-5);
  // Whole groups of eight, and nothing is kept before relu.
  p.ldd = 4;
  EXPECT_NE(lt.multiply(p, nullptr, nullptr), 0);
  p.ldd = 8;
  p.activation = 2;
  EXPECT_NE(lt.multiply(p, nullptr, nullptr), 0);
}

TEST_P(SimGpuBlas, RocBlasMultiplies) {
  if (!GetParam()) GTEST_SKIP() << "a library of AMD's";
  void* roc = library("librocblas.so.0");
  check_all([&](const Problem& p, void* stream) { return multiply_roc(roc, p, stream); }, false);
}

TEST_P(SimGpuBlas, ProductsOutOfBoundsAreFound) {
  Lt lt(library(GetParam() ? "libhipblaslt.so.0" : "libcublasLt.so.12"), GetParam() ? kHipblasLt : kCublasLt);
  Problem p{4, 4, 4};
  p.lda = p.ldb = p.ldd = 4;
  p.a = device(std::vector<float>(16, 1.0f));
  p.b = device(std::vector<float>(15, 1.0f));
  p.d = device<float>(16);
  OK(g->synchronize());
  const std::string text = printed([&] {
    EXPECT_EQ(lt.multiply(p, nullptr, nullptr), 0);
    EXPECT_EQ(g->synchronize(), kIllegalAddress);
  });
  EXPECT_NE(text.find("matrix product"), std::string::npos) << text;
  // Columns that overlap are refused.
  g->control("revive");
  p.ldb = 3;
  EXPECT_NE(lt.multiply(p, nullptr, nullptr), 0);
}

}  // namespace
}  // namespace simgpu_tests
