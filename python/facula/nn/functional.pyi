from collections.abc import Sequence
from typing import Literal, Optional, Union

from facula._native import Tensor, dtype as _dtype
from facula._ops import (
    celu as celu,
    cosine_similarity as cosine_similarity,
    elu as elu,
    gelu as gelu,
    hardshrink as hardshrink,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    leaky_relu as leaky_relu,
    linear as linear,
    log_sigmoid as logsigmoid,
    mish as mish,
    one_hot as one_hot,
    pad as pad,
    pairwise_distance as pairwise_distance,
    relu as relu,
    relu6 as relu6,
    relu_ as relu_,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softplus as softplus,
    softshrink as softshrink,
    tanh as tanh,
    threshold as threshold,
)

_Reduction = Literal["none", "mean", "sum"]
_Sizes = Union[int, Sequence[int]]

def softmax(input: Tensor, dim: Optional[int] = None, dtype: Optional[_dtype] = None) -> Tensor: ...
def log_softmax(input: Tensor, dim: Optional[int] = None, dtype: Optional[_dtype] = None) -> Tensor: ...
def softmin(input: Tensor, dim: Optional[int] = None, dtype: Optional[_dtype] = None) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
def tanhshrink(input: Tensor) -> Tensor: ...
def glu(input: Tensor, dim: int = -1) -> Tensor: ...
def normalize(
    input: Tensor, p: float = 2.0, dim: _Sizes = 1, eps: float = 1e-12, out: Optional[Tensor] = None
) -> Tensor: ...
def layer_norm(
    input: Tensor, normalized_shape: _Sizes, weight: Optional[Tensor] = None, bias: Optional[Tensor] = None,
    eps: float = 1e-5,
) -> Tensor: ...
def rms_norm(
    input: Tensor, normalized_shape: _Sizes, weight: Optional[Tensor] = None, eps: Optional[float] = None
) -> Tensor: ...
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor: ...
def embedding(
    input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor: ...
def mse_loss(input: Tensor, target: Tensor, reduction: _Reduction = "mean") -> Tensor: ...
def l1_loss(input: Tensor, target: Tensor, reduction: _Reduction = "mean") -> Tensor: ...
def smooth_l1_loss(input: Tensor, target: Tensor, reduction: _Reduction = "mean", beta: float = 1.0) -> Tensor: ...
def huber_loss(input: Tensor, target: Tensor, reduction: _Reduction = "mean", delta: float = 1.0) -> Tensor: ...
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None, reduction: _Reduction = "mean",
    pos_weight: Optional[Tensor] = None,
) -> Tensor: ...
def nll_loss(
    input: Tensor, target: Tensor, weight: Optional[Tensor] = None, ignore_index: int = -100,
    reduction: _Reduction = "mean",
) -> Tensor: ...
