"""Facula: tensors like NumPy's with gradients, on whatever machine there is.

    import facula

    x = facula.randn(3, requires_grad=True)
    (x ** 2).sum().backward()
    print(x.grad)

The names are PyTorch's: `import facula as torch` carries ordinary tensor code.
"""
import builtins as _builtins
import importlib as _importlib

from . import _native
from ._native import *  # noqa: F401,F403
from ._native import _addmm_activation, _int_mm  # noqa: F401 (PyTorch has them under these names)
from ._functions import *  # noqa: F401,F403
from ._info import finfo, iinfo
from . import autograd
from .autograd import enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad, set_grad_enabled
from ._print import set_printoptions, get_printoptions
from .version import __version__

# Ops that live in a namespace of their own, or that only methods and attributes reach.
_HIDDEN = ("special_", "new_")
for _name in [n for n in globals() if n.startswith(_HIDDEN)]:
    del globals()[_name]
del _name

inf = _builtins.float("inf")
nan = _builtins.float("nan")
pi = 3.141592653589793
e = 2.718281828459045
newaxis = None

legacy_contiguous_format = contiguous_format  # noqa: F405

# Parts that cost time to import and that not every program uses.
_LAZY = ("amp", "array_api", "backends", "cuda", "func", "linalg", "nn", "optim", "random", "return_types", "safetensors",
         "special", "testing", "utils")
# Names of modules that are loaded when one of them is asked for.
_LAZY_NAMES = {"save": "_serialization", "load": "_serialization", "progress": "_progress", "LossCurve": "_plot",
               "summary": "_summary",
               **_builtins.dict.fromkeys(("BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor",
                                          "FloatTensor", "HalfTensor", "IntTensor", "LongTensor", "ShortTensor"), "_legacy"),
               **_builtins.dict.fromkeys(("autocast", "clear_autocast_cache", "get_autocast_dtype", "is_autocast_available",
                                          "is_autocast_cache_enabled", "is_autocast_enabled",
                                          "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled"), "amp")}


def __getattr__(name):
    if name in _LAZY:
        return _importlib.import_module("." + name, __name__)
    if name in _LAZY_NAMES:
        return getattr(_importlib.import_module("." + _LAZY_NAMES[name], __name__), name)
    if name == "vmap":
        return _importlib.import_module(".func", __name__).vmap
    raise AttributeError(f"module 'facula' has no attribute '{name}'")


def __dir__():
    return sorted(set(globals()) | set(_LAZY) | set(_LAZY_NAMES))


def _array_namespace(self, *, api_version=None):
    """The functions of the array API standard for this tensor."""
    return _importlib.import_module(".array_api", __name__)._namespace(api_version)


def _record_stream(self, stream):
    """`stream` uses this tensor's memory too: it goes to nobody else before what is queued there by then is done."""
    _native._cuda._record_stream(self, stream._native)


Tensor.__array_namespace__ = _array_namespace  # noqa: F405
Tensor.record_stream = _record_stream  # noqa: F405


def typename(obj):
    """The name of the type of an object, with its module."""
    if isinstance(obj, Tensor):  # noqa: F405
        return obj.type()
    kind = _builtins.type(obj)
    return f"{kind.__module__}.{kind.__qualname__}" if kind.__module__ != "builtins" else kind.__qualname__


def compiled_with_cxx11_abi():
    """Whether the library uses the current C++ ABI of GNU's library: always."""
    return True


def get_num_interop_threads():
    """Ops run one after the other: one."""
    return 1


_PRECISIONS = ("highest", "high", "medium")


def set_float32_matmul_precision(precision):
    """How exactly GPUs multiply float32 matrices: 'highest' is float32 throughout; 'high' and 'medium' may round the
    factors to TF32 where the chip multiplies those faster."""
    if precision not in _PRECISIONS:
        raise _native.ArgumentError(f"set_float32_matmul_precision(): expected one of {', '.join(_PRECISIONS)}, "
                                    f"got {precision!r}")
    _native._cuda._set_float32_matmul_precision(_PRECISIONS.index(precision))


def get_float32_matmul_precision():
    """'highest', 'high' or 'medium'."""
    return _PRECISIONS[_native._cuda._get_float32_matmul_precision()]
