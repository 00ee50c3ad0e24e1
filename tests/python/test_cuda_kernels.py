"""Kernels and functions of one's own on GPUs from Python."""
import numpy as np
import pytest
from gpu_support import close, needs_gpu

import facula

pytestmark = needs_gpu


def test_kernels_of_ones_own():
    kernel = facula.cuda.Kernel("""
        extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
          int i = blockIdx.x * blockDim.x + threadIdx.x;
          if (i < n) y[i] += a * x[i];
        }""", "axpy")
    x, y = facula.randn(300, device="cuda"), facula.zeros(300, device="cuda")
    kernel(grid=2, block=256, args=[y, x, 2.5, 300])
    close(y, x.cpu() * 2.5)
    with pytest.raises(RuntimeError, match="(?s)broken.*nonsense"):
        facula.cuda.Kernel('extern "C" __global__ void broken() { nonsense; }  // must not compile', "broken").compile()
    with pytest.raises(RuntimeError, match="cpu"):
        kernel(grid=1, block=32, args=[y.cpu(), x, 1.0, 3])
    with pytest.raises(RuntimeError, match="block"):
        kernel(grid=1, block=(4096, 4, 4), args=[y, x, 1.0, 3])
    with pytest.raises(TypeError, match="argument 0"):
        kernel(grid=1, block=32, args=["text", x, 1.0, 3])
    with pytest.raises(ValueError, match="int64"):
        kernel(grid=1, block=32, args=[y, x, 1.0, 2**40])
    with pytest.raises(ValueError, match=r"axpy: 3 arguments were given, and the kernel takes 4: \(float\* y, "):
        kernel(grid=1, block=32, args=[y, x, 1.0])
    with pytest.raises(ValueError, match="argument 3 is an int of 64 bits, and the kernel declares int n"):
        kernel(grid=1, block=32, args=[y, x, 1.0, facula.cuda.int64(300)])
    with pytest.raises(TypeError, match=r"argument 0 is a tensor of float64, and the kernel declares float\* y"):
        kernel(grid=1, block=32, args=[y.double(), x, 1.0, 300])


def test_sized_arguments():
    cuda = facula.cuda
    kernel = cuda.Kernel("""
        extern "C" __global__ void sizes(double* out, signed char a, unsigned char b, short c, unsigned short d, int e,
                                         unsigned f, long long g, unsigned long long h, float i, double j, bool k) {
          const double all[] = {double(a), double(b), double(c), double(d), double(e), double(f), double(g), double(h),
                                double(i), j, double(k)};
          for (int n = 0; n < 11; ++n) out[n] = all[n];
        }""", "sizes")
    out = facula.zeros(11, dtype=facula.float64, device="cuda")
    kernel(grid=1, block=1, args=[out, cuda.int8(-128), cuda.uint8(255), cuda.int16(-32768), cuda.uint16(65535),
                                  cuda.int32(-5), cuda.uint32(2**32 - 1), cuda.int64(-2**40), cuda.uint64(2**63),
                                  cuda.float32(0.5), cuda.float64(0.1), True])
    assert out.tolist() == [-128, 255, -32768, 65535, -5, 2**32 - 1, -2**40, 2**63, 0.5, 0.1, 1]
    with pytest.raises(ValueError, match="int8.*300.*127"):
        cuda.int8(300)
    with pytest.raises(TypeError):
        cuda.int32(1.5)


def test_functions_of_ones_own():
    f = facula.cuda.jiterator._create_jit_fn(
        "template <typename T> T weighted(T x, T y, T alpha) { return -x + alpha * y; }", alpha=1.0)
    seed = np.random.SeedSequence().entropy % 2**32
    print("seed", seed)
    rng = np.random.default_rng(seed)
    a = facula.tensor(rng.standard_normal((5, 700)).astype(np.float32), device="cuda")
    b = facula.tensor(rng.standard_normal((5, 1)).astype(np.float32), device="cuda")
    close(f(a, b), b.cpu() - a.cpu())
    close(f(a.t(), b.t(), alpha=2.5), 2.5 * b.t().cpu() - a.t().cpu())
    doubled = f(a, b.double(), alpha=0.1)
    assert doubled.dtype is facula.float64
    close(doubled, 0.1 * b.double().cpu() - a.cpu(), 1e-12)
    half = f(a.half(), b.half())
    assert half.dtype is facula.float16
    close(half.float(), (b.half().float() - a.half().float()).half().float())
    assert f(facula.arange(3, device="cuda"), facula.tensor([1, 2, 3], device="cuda"), alpha=2).tolist() == [2, 3, 4]
    assert f(a[:0], b[:0]).shape == (0, 700)
    both = facula.cuda.jiterator._create_multi_output_jit_fn(
        "template <typename T> void both(T x, T y, T& sum, T& product) { sum = x + y; product = x * y; }", 2)
    total, product = both(a, b)
    close(total, a.cpu() + b.cpu())
    close(product, a.cpu() * b.cpu())
    with pytest.raises(RuntimeError, match="weighted: expected tensors on one GPU, got cuda:0 and cpu"):
        f(a, b.cpu())
    with pytest.raises(ValueError, match="weighted: no default was given for beta; there are alpha"):
        f(a, b, beta=1)
    with pytest.raises(ValueError, match="broadcast"):
        f(a, b[:3])
    with pytest.raises(ValueError, match="template"):
        facula.cuda.jiterator._create_jit_fn("float f(float x) { return x; }")
