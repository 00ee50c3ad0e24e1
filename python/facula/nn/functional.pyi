from collections.abc import Sequence
from typing import Any, Literal, Optional, Union

from facula._native import Tensor, dtype as _dtype
from facula._ops import (
    adaptive_avg_pool1d as adaptive_avg_pool1d,
    celu_ as celu_,
    conv1d as conv1d,
    conv2d as conv2d,
    conv3d as conv3d,
    cosine_similarity as cosine_similarity,
    glu as glu,
    hardshrink as hardshrink,
    hardtanh_ as hardtanh_,
    leaky_relu_ as leaky_relu_,
    linear as linear,
    log_sigmoid as _log_sigmoid,
    one_hot as one_hot,
    pad as pad,
    pairwise_distance as pairwise_distance,
    prelu as prelu,
    relu6_ as relu6_,
    relu_ as relu_,
    rms_norm as rms_norm,
    scaled_dot_product_attention as scaled_dot_product_attention,
    selu_ as selu_,
    sigmoid as sigmoid,
    softplus as softplus,
    softshrink as softshrink,
    tanh as tanh,
    threshold_ as threshold_,
)
from facula.nn._functional import (
    avg_pool3d as avg_pool3d,
    avg_pool2d as avg_pool2d,
    avg_pool1d as avg_pool1d,
    binary_cross_entropy as binary_cross_entropy,
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    celu as celu,
    cross_entropy as cross_entropy,
    elu as elu,
    gelu as gelu,
    group_norm as group_norm,
    hardsigmoid as hardsigmoid,
    hardswish as hardswish,
    hardtanh as hardtanh,
    huber_loss as huber_loss,
    l1_loss as l1_loss,
    layer_norm as layer_norm,
    leaky_relu as leaky_relu,
    mish as mish,
    mse_loss as mse_loss,
    nll_loss as nll_loss,
    relu as relu,
    relu6 as relu6,
    selu as selu,
    silu as silu,
    smooth_l1_loss as smooth_l1_loss,
    threshold as threshold,
)

logsigmoid = _log_sigmoid
_Reduction = Literal["none", "mean", "sum"]
_Sizes = Union[int, Sequence[int]]

def elu_(input: Tensor, alpha: float = 1.0) -> Tensor: ...
def softmax(input: Tensor, dim: Optional[int] = None, dtype: Optional[_dtype] = None) -> Tensor: ...
def log_softmax(input: Tensor, dim: Optional[int] = None, dtype: Optional[_dtype] = None) -> Tensor: ...
def softmin(input: Tensor, dim: Optional[int] = None, dtype: Optional[_dtype] = None) -> Tensor: ...
def softsign(input: Tensor) -> Tensor: ...
def tanhshrink(input: Tensor) -> Tensor: ...
def normalize(
    input: Tensor, p: float = 2.0, dim: _Sizes = 1, eps: float = 1e-12, out: Optional[Tensor] = None
) -> Tensor: ...
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor: ...
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor: ...
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor: ...
def batch_norm(
    input: Tensor, running_mean: Optional[Tensor], running_var: Optional[Tensor], weight: Optional[Tensor] = None,
    bias: Optional[Tensor] = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor: ...
def max_pool1d(
    input: Tensor, kernel_size: _Sizes, stride: Optional[_Sizes] = None, padding: _Sizes = 0, dilation: _Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any: ...
def max_pool2d(
    input: Tensor, kernel_size: _Sizes, stride: Optional[_Sizes] = None, padding: _Sizes = 0, dilation: _Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any: ...
def max_pool3d(
    input: Tensor, kernel_size: _Sizes, stride: Optional[_Sizes] = None, padding: _Sizes = 0, dilation: _Sizes = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any: ...
def adaptive_avg_pool2d(input: Tensor, output_size: Union[None, int, Sequence[Optional[int]]]) -> Tensor: ...
def adaptive_avg_pool3d(input: Tensor, output_size: Union[None, int, Sequence[Optional[int]]]) -> Tensor: ...
def embedding(
    input: Tensor, weight: Tensor, padding_idx: Optional[int] = None, max_norm: Optional[float] = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor: ...
def kl_div(
    input: Tensor, target: Tensor, reduction: str = "mean", log_target: bool = False,
) -> Tensor: ...
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, reduction: _Reduction = "mean",
) -> Tensor: ...
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: _Reduction = "mean"
) -> Tensor: ...
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, reduction: _Reduction = "mean"
) -> Tensor: ...
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, reduction: _Reduction = "mean"
) -> Tensor: ...
def soft_margin_loss(input: Tensor, target: Tensor, reduction: _Reduction = "mean") -> Tensor: ...
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, eps: float = 1e-8,
    reduction: _Reduction = "mean",
) -> Tensor: ...
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Union[float, Tensor], full: bool = False, eps: float = 1e-6,
    reduction: _Reduction = "mean",
) -> Tensor: ...
def gumbel_softmax(
    logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1
) -> Tensor: ...
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Optional[Tensor] = None) -> Tensor: ...
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor: ...
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor: ...
