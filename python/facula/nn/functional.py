"""Functions of neural networks: activations, norms, losses, embeddings, padding."""
from __future__ import annotations

import math as _math

from .. import _native
from .._arguments import give as _give, known_any as _known_any, need_tensor as _need_tensor
from .._native import Tensor as _Tensor
from ._functional import *  # noqa: F401,F403
from ._reduction import _REDUCTIONS, reduction as _reduction

sigmoid, tanh = _native.sigmoid, _native.tanh
relu_, relu6_, selu_, celu_, threshold_ = (_native.relu_, _native.relu6_, _native.selu_, _native.celu_,
                                           _native.threshold_)
leaky_relu_, hardtanh_ = _native.leaky_relu_, _native.hardtanh_
one_hot, pad = _native.one_hot, _native.pad
conv1d, conv2d, conv3d = _native.conv1d, _native.conv2d, _native.conv3d
scaled_dot_product_attention = _native.scaled_dot_product_attention


def elu_(input, alpha=1.0):
    """`elu` in place."""
    return _native.elu_(input, alpha)


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


def normalize(input, p=2.0, dim=1, eps=1e-12, out=None):
    """Vectors along `dim` divided by their norm."""
    _need_tensor("normalize", input=input)
    dims = [dim] if isinstance(dim, int) else list(dim)
    return _give(input / _native.norm(input, p, dims, True).clamp_min(eps).expand_as(input), out)


def dropout(input, p=0.5, training=True, inplace=False):
    """Zeroes entries with probability p and scales the others up."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    made = _native.dropout(input, p, training)
    return input.copy_(made) if inplace else made


def _channel_dropout(function, input, p, training, inplace, dims):
    _need_tensor(function, input=input)
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if input.dim() not in (dims - 1, dims):
        raise RuntimeError(f"{function}(): expects an input of {dims - 1} or {dims} dims, got the shape {list(input.shape)}")
    batched = input.dim() == dims
    made = _native.feature_dropout(input if batched else input.unsqueeze(0), p, training)
    made = made if batched else made.squeeze(0)
    return input.copy_(made) if inplace else made


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, L) or (C, L) with probability p and scales the others up."""
    return _channel_dropout("dropout1d", input, p, training, inplace, 3)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Zeroes whole channels of (N, C, H, W) or (C, H, W) with probability p and scales the others up."""
    return _channel_dropout("dropout2d", input, p, training, inplace, 4)


def batch_norm(input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    """Mean 0 and variance 1 for each channel, then weight and bias; in training the running values follow."""
    _need_tensor("batch_norm", input=input)
    if training and input.dim() > 1 and input.numel() == input.shape[1]:
        raise ValueError(f"Expected more than 1 value per channel when training, got input size {input.shape}")
    return _native.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps)


def _max_pool(plain, with_indices, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices):
    stride = kernel_size if stride is None else stride
    return (with_indices if return_indices else plain)(input, kernel_size, stride, padding, dilation, ceil_mode)


def max_pool1d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest entry of each window; with `return_indices` also where it lies."""
    return _max_pool(_native.max_pool1d, _native.max_pool1d_with_indices, input, kernel_size, stride, padding, dilation,
                     ceil_mode, return_indices)


def max_pool2d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest entry of each window; with `return_indices` also where it lies."""
    return _max_pool(_native.max_pool2d, _native.max_pool2d_with_indices, input, kernel_size, stride, padding, dilation,
                     ceil_mode, return_indices)


def max_pool3d(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
    """The largest entry of each window; with `return_indices` also where it lies."""
    return _max_pool(_native.max_pool3d, _native.max_pool3d_with_indices, input, kernel_size, stride, padding, dilation,
                     ceil_mode, return_indices)


def _closed_sizes(input, output_size, count):
    """Sizes that are left open are those of the input."""
    sizes = (output_size,) * count if output_size is None or isinstance(output_size, int) else tuple(output_size)
    if len(sizes) != count:
        raise ValueError(f"output_size must be one number or {count}, got {output_size}")
    return tuple(have if want is None else want for want, have in zip(sizes, input.shape[-count:]))


def adaptive_avg_pool2d(input, output_size):
    """The means of windows that are chosen so that `output_size` of them come out."""
    _need_tensor("adaptive_avg_pool2d", input=input)
    return _native.adaptive_avg_pool2d(input, _closed_sizes(input, output_size, 2))


def adaptive_avg_pool3d(input, output_size):
    """The means of windows that are chosen so that `output_size` of them come out."""
    _need_tensor("adaptive_avg_pool3d", input=input)
    return _native.adaptive_avg_pool3d(input, _closed_sizes(input, output_size, 3))


def embedding(input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    """Rows of `weight`, picked by the integers in `input`."""
    _need_tensor("embedding", input=input, weight=weight)
    if padding_idx is None:
        padding_idx = -1
    elif not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise IndexError(f"embedding(): padding_idx {padding_idx} is out of range for {weight.shape[0]} rows")
    elif padding_idx < 0:
        padding_idx += weight.shape[0]
    if max_norm is not None:
        # Rows that are looked up and too long are shortened, in the table itself.
        table, used = weight.detach(), input.reshape(-1).unique()
        rows = table[used]
        lengths = rows.norm(norm_type, 1, keepdim=True)
        table[used] = _native.where(lengths > max_norm, rows * (max_norm / (lengths + 1e-7)), rows)
    return _native.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


def _reduced(loss, code):
    return loss if code == 0 else loss.mean() if code == 1 else loss.sum()


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
