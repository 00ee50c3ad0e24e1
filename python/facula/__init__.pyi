# The types of the package's own names; what they mean is in __init__.py and the modules that it takes them from.
from builtins import bool as _bool, float as _float, int as _int, str as _str
from typing import Any

from facula import (
    amp as amp,
    array_api as array_api,
    autograd as autograd,
    backends as backends,
    cuda as cuda,
    func as func,
    linalg as linalg,
    nn as nn,
    optim as optim,
    random as random,
    return_types as return_types,
    safetensors as safetensors,
    special as special,
    utils as utils,
    version as version,
)
from facula._native import *
from facula._ops import _addmm_activation as _addmm_activation, _int_mm as _int_mm
from facula._functions import (
    _assert as _assert,
    addbmm as addbmm,
    addr as addr,
    adjoint as adjoint,
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    bartlett_window as bartlett_window,
    blackman_window as blackman_window,
    block_diag as block_diag,
    broadcast_shapes as broadcast_shapes,
    broadcast_tensors as broadcast_tensors,
    cartesian_prod as cartesian_prod,
    chain_matmul as chain_matmul,
    column_stack as column_stack,
    combinations as combinations,
    corrcoef as corrcoef,
    cov as cov,
    cumulative_trapezoid as cumulative_trapezoid,
    detach as detach,
    detach_ as detach_,
    diagflat as diagflat,
    diagonal_scatter as diagonal_scatter,
    dist as dist,
    dsplit as dsplit,
    einsum as einsum,
    float_power as float_power,
    hamming_window as hamming_window,
    hann_window as hann_window,
    hsplit as hsplit,
    is_complex as is_complex,
    is_conj as is_conj,
    is_floating_point as is_floating_point,
    is_inference as is_inference,
    is_neg as is_neg,
    is_nonzero as is_nonzero,
    is_same_size as is_same_size,
    is_signed as is_signed,
    is_storage as is_storage,
    is_tensor as is_tensor,
    kaiser_window as kaiser_window,
    ldexp as ldexp,
    matrix_power as matrix_power,
    meshgrid as meshgrid,
    mode as mode,
    mvlgamma as mvlgamma,
    nanmedian as nanmedian,
    nanquantile as nanquantile,
    narrow_copy as narrow_copy,
    nonzero as nonzero,
    norm as norm,
    numel as numel,
    quantile as quantile,
    range as range,
    resolve_conj as resolve_conj,
    resolve_neg as resolve_neg,
    select_scatter as select_scatter,
    slice_scatter as slice_scatter,
    split as split,
    square_ as square_,
    tensordot as tensordot,
    trapezoid as trapezoid,
    trapz as trapz,
    unique as unique,
    unique_consecutive as unique_consecutive,
    unravel_index as unravel_index,
    vander as vander,
    vsplit as vsplit,
)
from facula._legacy import (
    BFloat16Tensor as BFloat16Tensor,
    BoolTensor as BoolTensor,
    ByteTensor as ByteTensor,
    CharTensor as CharTensor,
    DoubleTensor as DoubleTensor,
    FloatTensor as FloatTensor,
    HalfTensor as HalfTensor,
    IntTensor as IntTensor,
    LongTensor as LongTensor,
    ShortTensor as ShortTensor,
)
from facula._info import finfo as finfo, iinfo as iinfo
from facula._plot import LossCurve as LossCurve
from facula._print import get_printoptions as get_printoptions, set_printoptions as set_printoptions
from facula._progress import progress as progress
from facula._serialization import load as load, save as save
from facula._summary import summary as summary
from facula.amp import (
    autocast as autocast,
    clear_autocast_cache as clear_autocast_cache,
    get_autocast_dtype as get_autocast_dtype,
    is_autocast_available as is_autocast_available,
    is_autocast_cache_enabled as is_autocast_cache_enabled,
    is_autocast_enabled as is_autocast_enabled,
    set_autocast_cache_enabled as set_autocast_cache_enabled,
    set_autocast_dtype as set_autocast_dtype,
    set_autocast_enabled as set_autocast_enabled,
)
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
def set_float32_matmul_precision(precision: _str) -> None: ...
def get_float32_matmul_precision() -> _str: ...
