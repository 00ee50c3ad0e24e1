"""Kernels of your own: text in the common subset of CUDA and HIP C++, compiled at run time for the chip that is there.

    scale = facula.cuda.Kernel('''
        extern "C" __global__ void scale(float* x, float factor, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) x[i] *= factor;
        }''', "scale")
    scale(grid=(n + 255) // 256, block=256, args=[x, 2.0, n])

A tensor becomes a pointer to its first element, an int 32 bits, a float 32 bits; `int64(n)`, `float64(x)` and their
like say otherwise.
"""
import operator
from typing import Any, Callable, Tuple

from .. import _native

__all__ = ["Kernel", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


class _Sized(Tuple[str, float]):
    """A number with the type that the kernel declares."""
    __slots__ = ()


def _sized(kind: str, doc: str) -> "Callable[[float], _Sized]":
    is_float = kind.startswith("float")
    bits = int(kind.lstrip("uintfloa"))
    least, most = (0, 2**bits - 1) if kind[0] == "u" else (-2**(bits - 1), 2**(bits - 1) - 1)

    def make(value: float) -> _Sized:
        if is_float:
            return _Sized((kind, float(value)))
        number = operator.index(value)  # type: ignore[arg-type]
        if not least <= number <= most:
            raise _native.ArgumentError(f"{kind}(): {number} is out of range; it holds {least} to {most}")
        return _Sized((kind, number))

    make.__name__ = make.__qualname__ = kind
    make.__doc__ = doc
    return make


float32 = _sized("float32", "A `float` argument.")
float64 = _sized("float64", "A `double` argument.")
int8 = _sized("int8", "A `signed char` argument.")
int16 = _sized("int16", "A `short` argument.")
int32 = _sized("int32", "An `int` argument.")
int64 = _sized("int64", "A `long long` argument.")
uint8 = _sized("uint8", "An `unsigned char` argument.")
uint16 = _sized("uint16", "An `unsigned short` argument.")
uint32 = _sized("uint32", "An `unsigned` argument.")
uint64 = _sized("uint64", "An `unsigned long long` argument.")


def _dims(value: Any, name: str) -> "list[int]":
    dims = [value] if isinstance(value, int) else list(value)
    if not 1 <= len(dims) <= 3 or not all(isinstance(d, int) and 0 < d < 2**32 for d in dims):
        raise _native.ArgumentError(f"{name} must be one to three positive numbers, got {value!r}")
    return dims


class Kernel:
    """A kernel by its text; `name` is an `extern "C" __global__` function of it."""

    def __init__(self, source: str, name: str, options: Any = ()) -> None:
        self._native = _native._cuda._Kernel(source, name, list(options))

    name = property(lambda self: self._native.name)
    source = property(lambda self: self._native.source)

    def compile(self) -> None:
        """Compiles for the current device now; else the first launch does."""
        self._native.compile()

    def launch(self, grid: Any, block: Any, args: Any = (), shared_bytes: int = 0) -> None:
        """Queues it on the current stream of the current device."""
        self._native._launch(_dims(grid, "grid"), _dims(block, "block"), shared_bytes, list(args))

    __call__ = launch

    def __repr__(self) -> str:
        return f"<facula.cuda.Kernel {self.name}>"
