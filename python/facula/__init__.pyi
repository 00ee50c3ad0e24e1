# The types of the package's own names; what they mean is in __init__.py and the modules that it takes them from.
from builtins import bool as _bool, float as _float, int as _int, str as _str
from typing import Any

from facula import (
    array_api as array_api,
    autograd as autograd,
    func as func,
    linalg as linalg,
    nn as nn,
    random as random,
    special as special,
    utils as utils,
    version as version,
)
from facula._native import *
from facula._functions import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    block_diag as block_diag,
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    cartesian_prod as cartesian_prod,
    combinations as combinations,
    einsum as einsum,
    is_complex as is_complex,
    is_floating_point as is_floating_point,
    is_nonzero as is_nonzero,
    is_storage as is_storage,
    is_tensor as is_tensor,
    meshgrid as meshgrid,
    nonzero as nonzero,
    norm as norm,
    numel as numel,
    split as split,
    square_ as square_,
    tensordot as tensordot,
    unique as unique,
    unique_consecutive as unique_consecutive,
)
from facula._info import finfo as finfo, iinfo as iinfo
from facula._print import get_printoptions as get_printoptions, set_printoptions as set_printoptions
from facula.autograd import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from facula.func import vmap as vmap

__version__: _str

inf: _float
nan: _float
pi: _float
e: _float
newaxis: None
legacy_contiguous_format: memory_format

def typename(obj: Any) -> _str: ...
def compiled_with_cxx11_abi() -> _bool: ...
def get_num_interop_threads() -> _int: ...
