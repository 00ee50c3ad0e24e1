"""Elementwise functions of your own, as text of C++: compiled for the chip when they are first called.

    weighted = facula.cuda.jiterator._create_jit_fn(
        "template <typename T> T weighted(T x, T y, T alpha) { return -x + alpha * y; }", alpha=1.0)
    z = weighted(a, b, alpha=3.14)

Tensors are broadcast and take their common dtype, which is T; 16-bit floats are computed as float. Nothing is recorded
for gradients. Other functions of the text must be marked __device__.
"""
import functools
import re
from typing import Any

from .. import _native
from .._functions import broadcast_tensors
from . import kernels
from ._devices import device_of

__all__: "list[str]" = []

_MOST_INPUTS, _MOST_OUTPUTS, _BLOCK, _MOST_BLOCKS = 8, 8, 256, 65536
_FUNCTION = re.compile(r"template\s*<\s*(?:typename|class)\s+\w+\s*>\s*(?=[\w:\s]*?\b(\w+)\s*\()")
# The type of C++ for a dtype, and how a number is handed over as one.
_TYPES: "dict[Any, tuple[str, Any]]" = {
    _native.float32: ("float", kernels.float32), _native.float64: ("double", kernels.float64),
    _native.uint8: ("unsigned char", kernels.uint8), _native.int8: ("signed char", kernels.int8),
    _native.int16: ("short", kernels.int16), _native.int32: ("int", kernels.int32),
    _native.int64: ("long long", kernels.int64), _native.bool: ("bool", bool)}


class _JittedFunction:
    def __init__(self, code: str, outputs: int, by_reference: bool, numbers: "dict[str, Any]") -> None:
        found = _FUNCTION.search(code)
        if not found:
            raise _native.ArgumentError(
                "jiterator: expected the text of a template, e.g. 'template <typename T> T f(T x) { return x + 1; }'")
        if not 1 <= outputs <= _MOST_OUTPUTS:
            raise _native.ArgumentError(f"jiterator: num_outputs must be 1 to {_MOST_OUTPUTS}, got {outputs}")
        self.name = found[1]
        self._code = f"{code[:found.end()]}__device__ {code[found.end():]}"
        self._outputs, self._by_reference, self._numbers = outputs, by_reference, numbers
        self._kernel = functools.lru_cache(maxsize=None)(self._make_kernel)

    def _make_kernel(self, kind: str, inputs: int) -> kernels.Kernel:
        given = [f"const {kind}* a{i}" for i in range(inputs)]
        given += [f"{kind} n_{name}" for name in self._numbers]
        given += [f"{kind}* out{i}" for i in range(self._outputs)]
        values = [f"a{i}[i]" for i in range(inputs)] + [f"n_{name}" for name in self._numbers]
        if self._by_reference:
            call = f"{self.name}<{kind}>({', '.join(values + [f'out{i}[i]' for i in range(self._outputs)])})"
        else:
            call = f"out0[i] = {self.name}<{kind}>({', '.join(values)})"
        name = f"jiterator_{self.name}"
        return kernels.Kernel(f"""{self._code}
extern "C" __global__ void {name}({', '.join(given)}, long long n) {{
  const long long step = (long long)gridDim.x * blockDim.x;
  for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < n; i += step) {call};
}}
""", name)

    def __call__(self, *tensors: Any, **numbers: Any) -> Any:
        if not 1 <= len(tensors) <= _MOST_INPUTS or not all(isinstance(t, _native.Tensor) for t in tensors):
            raise _native.ArgumentError(f"{self.name}: expected 1 to {_MOST_INPUTS} tensors, "
                                        f"got {', '.join(type(t).__name__ for t in tensors) or 'none'}")
        for t in tensors:
            if t.device != tensors[0].device or not t.is_cuda:
                raise _native.DeviceError(f"{self.name}: expected tensors on one GPU, got {tensors[0].device} and "
                                          f"{t.device}; move them with .to(device)")
        unknown = set(numbers) - set(self._numbers)
        if unknown:
            raise _native.ArgumentError(f"{self.name}: no default was given for {', '.join(sorted(unknown))}; "
                                        f"there are {', '.join(self._numbers) or 'none'}")
        dtype = functools.reduce(_native.promote_types, (t.dtype for t in tensors))
        narrow = dtype in (_native.float16, _native.bfloat16)
        computed = _native.float32 if narrow else dtype
        if computed not in _TYPES:
            raise _native.NotSupportedError(f"{self.name}: not available for {dtype}; convert the tensors with .to()")
        kind, number = _TYPES[computed]
        spread = [t.contiguous() for t in broadcast_tensors(*(t.detach().to(computed) for t in tensors))]
        outs = [_native.empty_like(spread[0]) for _ in range(self._outputs)]
        count = outs[0].numel()
        if count:
            given = [number({**self._numbers, **numbers}[name]) for name in self._numbers]
            with device_of(outs[0]):
                self._kernel(kind, len(spread)).launch(min(-(-count // _BLOCK), _MOST_BLOCKS), _BLOCK,
                                                       [*spread, *given, *outs, kernels.int64(count)])
        results = tuple(out.to(dtype) for out in outs)
        return results if self._by_reference else results[0]


def _create_jit_fn(code_string: str, **kwargs: Any) -> _JittedFunction:
    """A function of tensors from the text of one of numbers; keywords are numbers with their defaults."""
    return _JittedFunction(code_string, 1, False, kwargs)


def _create_multi_output_jit_fn(code_string: str, num_outputs: int, **kwargs: Any) -> _JittedFunction:
    """The same for a function that writes its results to references, which come last."""
    return _JittedFunction(code_string, num_outputs, True, kwargs)
