"""Functions of neural networks: activations, norms, losses, embeddings, padding."""
from __future__ import annotations

from .. import _native

relu, relu_, relu6, silu, mish, selu, celu = (_native.relu, _native.relu_, _native.relu6, _native.silu, _native.mish,
                                              _native.selu, _native.celu)
gelu, elu, leaky_relu, hardtanh, hardsigmoid, hardswish = (_native.gelu, _native.elu, _native.leaky_relu,
                                                           _native.hardtanh, _native.hardsigmoid, _native.hardswish)
hardshrink, softshrink, threshold, softplus = (_native.hardshrink, _native.softshrink, _native.threshold,
                                               _native.softplus)
sigmoid, tanh, logsigmoid = _native.sigmoid, _native.tanh, _native.log_sigmoid
linear, cosine_similarity, pairwise_distance = _native.linear, _native.cosine_similarity, _native.pairwise_distance
one_hot, pad = _native.one_hot, _native.pad

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(name, function):
    try:
        return _REDUCTIONS[name]
    except (KeyError, TypeError):
        raise ValueError(f"{function}(): '{name}' is not a reduction; use 'none', 'mean' or 'sum'") from None


def softmax(input, dim=None, dtype=None):
    """Exponentials of the entries, divided by their sum along `dim`."""
    return _native.softmax(input, _dim(input, dim, "softmax"), dtype)


def log_softmax(input, dim=None, dtype=None):
    """The logarithm of softmax, without its rounding."""
    return _native.log_softmax(input, _dim(input, dim, "log_softmax"), dtype)


def softmin(input, dim=None, dtype=None):
    """Softmax of the negative."""
    return softmax(-input, _dim(input, dim, "softmin"), dtype)


def _dim(input, dim, function):
    if dim is None:
        raise TypeError(f"{function}(): name the dim to sum along, for example dim=-1")
    return dim


def softsign(input):
    """x / (1 + |x|)."""
    return input / (input.abs() + 1)


def tanhshrink(input):
    """x - tanh x."""
    return input - input.tanh()


def glu(input, dim=-1):
    """The first half times the sigmoid of the second."""
    if input.shape[dim] % 2:
        raise RuntimeError(f"glu(): the size {input.shape[dim]} of dim {dim} must be even to be halved")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Vectors along `dim` divided by their norm."""
    made = input / _native.norm(input, p, [dim], True).clamp_min(eps).expand_as(input)
    return made if out is None else out.copy_(made)


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-5):
    """Mean 0 and variance 1 over the last dims, then weight and bias."""
    return _native.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divided by the root of the mean square over the last dims, then weight."""
    return _native.rms_norm(input, normalized_shape, weight, eps)


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes entries with probability p and scales the others up."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    made = _native.dropout(input, p, training)
    return input.copy_(made) if inplace else made


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of `weight`, picked by the integers in `input`."""
    if max_norm is not None:
        raise NotImplementedError("embedding(): max_norm is not here yet; renormalise the rows of weight beforehand")
    if padding_idx is None:
        padding_idx = -1
    elif not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise IndexError(f"embedding(): padding_idx {padding_idx} is out of range for {weight.shape[0]} rows")
    elif padding_idx < 0:
        padding_idx += weight.shape[0]
    return _native.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def mse_loss(input, target, reduction="mean"):
    """The squared error."""
    return _native.mse_loss(input, target, _reduction(reduction, "mse_loss"))


def l1_loss(input, target, reduction="mean"):
    """The absolute error."""
    return _native.l1_loss(input, target, _reduction(reduction, "l1_loss"))


def smooth_l1_loss(input, target, reduction="mean", beta=1.0):
    """Squared below `beta`, absolute above."""
    return _native.smooth_l1_loss(input, target, _reduction(reduction, "smooth_l1_loss"), beta)


def huber_loss(input, target, reduction="mean", delta=1.0):
    """Squared below `delta`, absolute times delta above."""
    return _native.huber_loss(input, target, _reduction(reduction, "huber_loss"), delta)


def binary_cross_entropy_with_logits(input, target, weight=None, reduction="mean", pos_weight=None):
    """Cross entropy between sigmoid(input) and targets in [0, 1]."""
    return _native.binary_cross_entropy_with_logits(input, target, weight, pos_weight,
                                                    _reduction(reduction, "binary_cross_entropy_with_logits"))


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """Minus the log probability of the target class."""
    return _native.nll_loss(input, target, weight, _reduction(reduction, "nll_loss"), ignore_index)
