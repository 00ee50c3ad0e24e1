"""The Python array API standard, version 2024.12, over tensors of this package.

The functions have the names, signatures and special values of the standard; arrays are `facula.Tensor`. A library that
is written for the standard gets here through `x.__array_namespace__()`. There are no extensions: `linalg` and `fft` are
absent.
"""

from . import _arrays, _creation, _elementwise
from ._arrays import *  # noqa: F401,F403
from ._creation import *  # noqa: F401,F403
from ._data_types import (  # noqa: F401
    __array_namespace_info__,
    astype,
    bool,
    can_cast,
    complex64,
    complex128,
    finfo,
    float32,
    float64,
    iinfo,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    result_type,
    uint8,
    uint16,
    uint32,
    uint64,
)
from ._elementwise import *  # noqa: F401,F403

__array_api_version__ = "2024.12"

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


def _namespace(api_version=None):
    """What `x.__array_namespace__(api_version=...)` gives. Versions only ever add, so each older one is there too."""
    import sys

    if api_version is not None and api_version not in _VERSIONS:
        raise ValueError(f"__array_namespace__: version {api_version!r} is none of {', '.join(_VERSIONS)}")
    return sys.modules[__name__]


__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "astype",
    "bool",
    "can_cast",
    "complex64",
    "complex128",
    "finfo",
    "float32",
    "float64",
    "iinfo",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "result_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    *_arrays.__all__,
    *_creation.__all__,
    *_elementwise.__all__,
]
