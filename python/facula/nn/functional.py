"""Functions of neural networks: activations, norms, losses, embeddings, padding."""
from __future__ import annotations

import math as _math

from .. import _native
from .._arguments import give as _give, known_any as _known_any, need_tensor as _need_tensor
from .._native import Tensor as _Tensor

gelu, hardshrink, softshrink, softplus = _native.gelu, _native.hardshrink, _native.softshrink, _native.softplus
sigmoid, tanh, logsigmoid = _native.sigmoid, _native.tanh, _native.log_sigmoid
relu_, relu6_, selu_, celu_, threshold_ = (_native.relu_, _native.relu6_, _native.selu_, _native.celu_,
                                           _native.threshold_)
leaky_relu_, hardtanh_ = _native.leaky_relu_, _native.hardtanh_
linear, cosine_similarity, pairwise_distance = _native.linear, _native.cosine_similarity, _native.pairwise_distance
one_hot, pad = _native.one_hot, _native.pad

_REDUCTIONS = {"none": 0, "mean": 1, "sum": 2}


def _reduction(name, function):
    try:
        return _REDUCTIONS[name]
    except (KeyError, TypeError):
        raise ValueError(f"{function}(): '{name}' is not a reduction; use 'none', 'mean' or 'sum'") from None


def relu(input, inplace=False):
    """The number where it is positive, else zero."""
    return _native.relu_(input) if inplace else _native.relu(input)


def relu6(input, inplace=False):
    """The number clamped to the range from 0 to 6."""
    return _native.relu6_(input) if inplace else _native.relu6(input)


def elu(input, alpha=1.0, inplace=False):
    """x where it is positive, else alpha (exp(x) - 1)."""
    return _native.elu_(input, alpha) if inplace else _native.elu(input, alpha)


def elu_(input, alpha=1.0):
    """`elu` in place."""
    return _native.elu_(input, alpha)


def selu(input, inplace=False):
    """The exponential linear unit that keeps mean 0 and variance 1 from layer to layer."""
    return _native.selu_(input) if inplace else _native.selu(input)


def celu(input, alpha=1.0, inplace=False):
    """x where it is positive, else alpha (exp(x / alpha) - 1)."""
    return _native.celu_(input, alpha) if inplace else _native.celu(input, alpha)


def silu(input, inplace=False):
    """The number times its sigmoid."""
    return _native.silu_(input) if inplace else _native.silu(input)


def mish(input, inplace=False):
    """x tanh(log(1 + exp(x)))."""
    return _native.mish_(input) if inplace else _native.mish(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """The number where it is positive, else the number times `negative_slope`."""
    return _native.leaky_relu_(input, negative_slope) if inplace else _native.leaky_relu(input, negative_slope)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """The number clamped to the range from `min_val` to `max_val`."""
    return _native.hardtanh_(input, min_val, max_val) if inplace else _native.hardtanh(input, min_val, max_val)


def hardsigmoid(input, inplace=False):
    """x / 6 + 1/2, clamped to the range from 0 to 1."""
    return _native.hardsigmoid_(input) if inplace else _native.hardsigmoid(input)


def hardswish(input, inplace=False):
    """The number times its hardsigmoid."""
    return _native.hardswish_(input) if inplace else _native.hardswish(input)


def threshold(input, threshold, value, inplace=False):
    """The number where it is above the threshold, else `value`."""
    return _native.threshold_(input, threshold, value) if inplace else _native.threshold(input, threshold, value)


def prelu(input, weight):
    """The number where it is positive, else the number times a weight: one for all, or one for each channel."""
    _need_tensor("prelu", input=input, weight=weight)
    if weight.dim() > 1:
        raise RuntimeError(f"prelu(): expected `weight` to be a scalar or 1D tensor, but got ndim = {weight.dim()}")
    if weight.numel() != 1:
        channels = input.shape[1] if input.dim() > 1 else 1
        if weight.numel() != channels:
            raise RuntimeError("prelu(): mismatch of parameter numbers and input channel size: found parameter numbers "
                               f"= {weight.numel()} and channel size = {channels}")
        weight = weight.reshape((-1,) + (1,) * (input.dim() - 2))
    elif weight.dim():
        weight = weight.reshape(())
    return _native.where(input > 0, input, weight * input)


def softmax(input, dim=None, dtype=None):
    """Exponentials of the entries, divided by their sum along `dim`."""
    return _native.softmax(input, _dim(input, dim, "softmax"), dtype)


def log_softmax(input, dim=None, dtype=None):
    """The logarithm of softmax, without its rounding."""
    return _native.log_softmax(input, _dim(input, dim, "log_softmax"), dtype)


def softmin(input, dim=None, dtype=None):
    """Softmax of the negative."""
    _need_tensor("softmin", input=input)
    return softmax(-input, _dim(input, dim, "softmin"), dtype)


def _dim(input, dim, function):
    if dim is None:
        raise TypeError(f"{function}(): name the dim to sum along, for example dim=-1")
    return dim


def softsign(input):
    """x / (1 + |x|)."""
    _need_tensor("softsign", input=input)
    return input / (input.abs() + 1)


def tanhshrink(input):
    """x - tanh x."""
    _need_tensor("tanhshrink", input=input)
    return input - input.tanh()


def glu(input, dim=-1):
    """The first half times the sigmoid of the second."""
    _need_tensor("glu", input=input)
    if input.shape[dim] % 2:
        raise RuntimeError(f"glu(): the size {input.shape[dim]} of dim {dim} must be even to be halved")
    a, b = input.chunk(2, dim)
    return a * b.sigmoid()


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Vectors along `dim` divided by their norm."""
    _need_tensor("normalize", input=input)
    dims = [dim] if isinstance(dim, int) else list(dim)
    return _give(input / _native.norm(input, p, dims, True).clamp_min(eps).expand_as(input), out)


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
    _need_tensor("embedding", input=input, weight=weight)
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


def cross_entropy(input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    """Cross entropy between softmax(input) along the class dim and targets: class numbers, or probabilities in a
    tensor of the input's shape. `label_smoothing` mixes that share of the uniform distribution into the targets."""
    _need_tensor("cross_entropy", input=input, target=target)
    code = _reduction(reduction, "cross_entropy")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"cross_entropy(): label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    if input.dim() == 0:
        raise RuntimeError("cross_entropy(): the input needs a dim of classes, got a tensor without dims")
    dim = 0 if input.dim() == 1 else 1
    classes = input.shape[dim]
    if weight is not None:
        _need_tensor("cross_entropy", weight=weight)
        if weight.dim() != 1 or weight.shape[0] != classes:
            raise RuntimeError("cross_entropy(): weight tensor should be defined either for all "
                               f"{classes} classes or no classes but got weight tensor of shape: {list(weight.shape)}")
    logs = _native.log_softmax(input, dim)
    if weight is not None:
        per_class = weight.reshape((-1,) + (1,) * (input.dim() - 1 - dim))
    if target.is_floating_point():
        if target.shape != input.shape:
            raise RuntimeError("cross_entropy(): expected floating point type for target with class probabilities to "
                               f"have the input's shape {list(input.shape)}, got {list(target.shape)}")
        if ignore_index >= 0:
            raise RuntimeError("cross_entropy(): ignore_index is not supported for floating point target")
        if label_smoothing:
            target = target * (1 - label_smoothing) + label_smoothing / classes
        loss = -(logs * (target if weight is None else target * per_class)).sum(dim)
        return _reduced(loss, code)  # a mean over distributions, whatever their weights
    plain = _native.nll_loss(logs, target, weight, code, ignore_index)
    if not label_smoothing:
        return plain
    counted = target != ignore_index
    spread = -(logs if weight is None else logs * per_class).sum(dim)
    spread = _native.where(counted, spread, _native.zeros_like(spread))
    if code == 1:
        if weight is None:
            total = counted.sum()
        else:
            picked = _native.where(counted, target, _native.zeros_like(target))
            total = (weight[picked] * counted).sum()
        spread = spread.sum() / total
    elif code == 2:
        spread = spread.sum()
    return (1 - label_smoothing) * plain + label_smoothing / classes * spread


def _reduced(loss, code):
    return loss if code == 0 else loss.mean() if code == 1 else loss.sum()


def binary_cross_entropy(input, target, weight=None, reduction="mean"):
    """Cross entropy between probabilities and targets in [0, 1]; logarithms stop at -100, so the loss is finite."""
    _need_tensor("binary_cross_entropy", input=input, target=target)
    code = _reduction(reduction, "binary_cross_entropy")
    if target.shape != input.shape:
        raise ValueError(f"binary_cross_entropy(): using a target size ({target.shape}) that is different to the input "
                         f"size ({input.shape}) is deprecated. Please ensure they have the same size.")
    fixed = input.detach()
    if _known_any(~((fixed >= 0) & (fixed <= 1))):
        raise RuntimeError("binary_cross_entropy(): all elements of input should be between 0 and 1; apply sigmoid, or "
                           "use binary_cross_entropy_with_logits")
    # Close to 0 and 1 the logarithms have no usable slope: there the loss is a line with a bounded one.
    spread = fixed * (1 - fixed)
    edge = spread < 1e-12
    safe = _native.where(edge, 0.5, input)
    inner = -(target * safe.log() + (1 - target) * (-safe).log1p())
    line = -(target * fixed.log().clamp_min(-100) + (1 - target) * (-fixed).log1p().clamp_min(-100))
    line = line + (fixed - target.detach()) / spread.clamp_min(1e-12) * (input - fixed)
    loss = _native.where(edge, line, inner)
    return _reduced(loss if weight is None else loss * weight, code)


def kl_div(input, target, reduction="mean", log_target=False):
    """The divergence of the target from the distribution whose logarithms are `input`; 'batchmean', the sum divided by
    the size of the first dim, is the mathematical one."""
    _need_tensor("kl_div", input=input, target=target)
    if reduction != "batchmean" and reduction not in _REDUCTIONS:
        raise ValueError(f"kl_div(): '{reduction}' is not a reduction; use 'none', 'batchmean', 'mean' or 'sum'")
    if log_target:
        loss = target.exp() * (target - input)
    else:
        loss = _native.xlogy(target, target) - target * input
    if reduction == "batchmean":
        return loss.sum() / input.shape[0] if input.dim() else loss.sum()
    return _reduced(loss, _REDUCTIONS[reduction])


def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, reduction="mean"):
    """By how much the positive is not nearer to the anchor than the negative by the margin."""
    _need_tensor("triplet_margin_loss", anchor=anchor, positive=positive, negative=negative)
    if margin <= 0:
        raise ValueError(f"triplet_margin_loss(): margin must be greater than 0, got {margin}")
    code = _reduction(reduction, "triplet_margin_loss")
    if not anchor.dim() == positive.dim() == negative.dim():
        raise RuntimeError("triplet_margin_loss(): the anchor, positive, and negative tensors are expected to have the "
                           f"same number of dimensions, but got: {anchor.dim()}D, {positive.dim()}D and "
                           f"{negative.dim()}D")
    near = _native.pairwise_distance(anchor, positive, p, eps)
    far = _native.pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = _native.minimum(far, _native.pairwise_distance(positive, negative, p, eps))
    return _reduced((near - far + margin).clamp_min(0), code)


def margin_ranking_loss(input1, input2, target, margin=0, reduction="mean"):
    """By how much the first does not lie above (target 1) or below (target -1) the second by the margin."""
    _need_tensor("margin_ranking_loss", input1=input1, input2=input2, target=target)
    code = _reduction(reduction, "margin_ranking_loss")
    if not input1.dim() == input2.dim() == target.dim():
        raise RuntimeError("margin_ranking_loss(): all input tensors should have same dimension but got sizes: "
                           f"input1: {list(input1.shape)}, input2: {list(input2.shape)}, target: {list(target.shape)}")
    return _reduced((-target * (input1 - input2) + margin).clamp_min(0), code)


def hinge_embedding_loss(input, target, margin=1.0, reduction="mean"):
    """The distance of alike (target 1), what lacks to the margin of others (target -1)."""
    _need_tensor("hinge_embedding_loss", input=input, target=target)
    code = _reduction(reduction, "hinge_embedding_loss")
    lacking = _native.where(target != 1, (margin - input).clamp_min(0), 0.0)
    return _reduced(lacking + _native.where(target != -1, input, 0.0), code)


def cosine_embedding_loss(input1, input2, target, margin=0, reduction="mean"):
    """1 - cos of alike (target 1), cos beyond the margin of others (target -1)."""
    _need_tensor("cosine_embedding_loss", input1=input1, input2=input2, target=target)
    code = _reduction(reduction, "cosine_embedding_loss")
    if input1.dim() != target.dim() + 1 or input2.dim() != target.dim() + 1:
        raise RuntimeError(f"cosine_embedding_loss(): {target.dim()}D target tensor expects {target.dim() + 1}D input "
                           f"tensors, but found inputs with sizes {list(input1.shape)} and {list(input2.shape)}")
    lengths = (input1.square().sum(-1) + 1e-12) * (input2.square().sum(-1) + 1e-12)
    cosine = (input1 * input2).sum(-1) / lengths.sqrt()
    alike = _native.where(target == 1, 1 - cosine, 0.0)
    return _reduced(alike + _native.where(target == -1, (cosine - margin).clamp_min(0), 0.0), code)


def soft_margin_loss(input, target, reduction="mean"):
    """log(1 + exp(-target input)) with targets 1 and -1."""
    _need_tensor("soft_margin_loss", input=input, target=target)
    code = _reduction(reduction, "soft_margin_loss")
    power = -target * input
    return _reduced(_native.logaddexp(power, _native.zeros_like(power)), code)


def poisson_nll_loss(input, target, log_input=True, full=False, eps=1e-8, reduction="mean"):
    """Minus the log likelihood of counts under a Poisson distribution; `full` adds Stirling's term."""
    _need_tensor("poisson_nll_loss", input=input, target=target)
    code = _reduction(reduction, "poisson_nll_loss")
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        some = _native.where(target > 1, target, _native.ones_like(target))
        stirling = some * some.log() - some + 0.5 * (2 * _math.pi * some).log()
        loss = loss + _native.where(target > 1, stirling, 0.0)
    return _reduced(loss, code)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Minus the log likelihood of targets under normal distributions of the given means and variances."""
    _need_tensor("gaussian_nll_loss", input=input, target=target)
    code = _reduction(reduction, "gaussian_nll_loss")
    if not isinstance(var, _Tensor):
        var = _native.full_like(input, float(var))
    if var.shape != input.shape:
        if input.shape[:-1] == var.shape:
            var = var.unsqueeze(-1)
        elif input.dim() != var.dim() or input.shape[:-1] != var.shape[:-1] or var.shape[-1] != 1:
            raise ValueError(f"gaussian_nll_loss(): var is of incorrect size {list(var.shape)}; it must have the "
                             f"input's shape {list(input.shape)}, or 1 as its last size")
    fixed = var.detach()
    if _known_any(fixed < 0):
        raise ValueError("gaussian_nll_loss(): var has negative entry/entries")
    var = var + (fixed.clamp_min(eps) - fixed)  # not too small, with the slope of var itself
    loss = 0.5 * (var.log() + (input - target).square() / var)
    return _reduced(loss + 0.5 * _math.log(2 * _math.pi) if full else loss, code)


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """A random choice by unnormalised log probabilities that gradients pass through; `hard` makes it one-hot."""
    _need_tensor("gumbel_softmax", logits=logits)
    noise = -_native.empty_like(logits).detach().exponential_().log()
    soft = ((logits + noise) / tau).softmax(dim)
    if not hard:
        return soft
    index = soft.detach().argmax(dim, keepdim=True)
    one = _native.zeros_like(soft).detach().scatter_(dim, index, 1.0)
    return one - soft.detach() + soft


def bilinear(input1, input2, weight, bias=None):
    """x1^T W x2 + b with one matrix W for each output."""
    _need_tensor("bilinear", input1=input1, input2=input2, weight=weight)
    if weight.dim() != 3 or (input1.shape[-1:] + input2.shape[-1:]) != weight.shape[1:]:
        raise RuntimeError(f"bilinear(): weight must have the shape (out, {input1.shape[-1]}, {input2.shape[-1]}) for "
                           f"these inputs, got {tuple(weight.shape)}")
    if input1.shape[:-1] != input2.shape[:-1]:
        raise RuntimeError(f"bilinear(): batch dimensions do not match: {tuple(input1.shape[:-1])} and "
                           f"{tuple(input2.shape[:-1])}")
    made = _native.einsum("...i,oij,...j->...o", (input1, weight, input2))
    return made if bias is None else made + bias


def pixel_shuffle(input, upscale_factor):
    """Channels in groups of r^2 become r times as many rows and columns."""
    _need_tensor("pixel_shuffle", input=input)
    r = upscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_shuffle(): expects a positive upscale_factor, but got {r}")
    if input.dim() < 3 or input.shape[-3] % (r * r):
        raise RuntimeError("pixel_shuffle(): expects its input's 'channel' dimension to be divisible by the square of "
                           f"upscale_factor, but the shape is {list(input.shape)} and upscale_factor is {r}")
    *batch, c, h, w = input.shape
    n = len(batch)
    made = input.reshape(*batch, c // (r * r), r, r, h, w)
    made = made.permute(*range(n), n, n + 3, n + 1, n + 4, n + 2)
    return made.reshape(*batch, c // (r * r), h * r, w * r)


def pixel_unshuffle(input, downscale_factor):
    """Blocks of r rows and r columns become r^2 times as many channels."""
    _need_tensor("pixel_unshuffle", input=input)
    r = downscale_factor
    if r <= 0:
        raise RuntimeError(f"pixel_unshuffle(): expects a positive downscale_factor, but got {r}")
    if input.dim() < 3 or input.shape[-2] % r or input.shape[-1] % r:
        raise RuntimeError("pixel_unshuffle(): expects height and width to be divisible by downscale_factor, but the "
                           f"shape is {list(input.shape)} and downscale_factor is {r}")
    *batch, c, h, w = input.shape
    n = len(batch)
    made = input.reshape(*batch, c, h // r, r, w // r, r)
    made = made.permute(*range(n), n, n + 2, n + 4, n + 1, n + 3)
    return made.reshape(*batch, c * r * r, h // r, w // r)
