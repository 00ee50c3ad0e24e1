"""Checks of gradients against finite differences, for tests of functions that users write."""

from __future__ import annotations

from .. import _native
from .._native import Tensor

__all__ = ["gradcheck", "gradgradcheck", "GradcheckError"]


class GradcheckError(RuntimeError):
    """A derivative is not what differences say it is."""


def _tuple(value):
    if isinstance(value, Tensor):
        return (value,)
    return tuple(value)


def _prepare(fn, inputs):
    """The tensors among the inputs, and `fn` as a function of them."""
    inputs = _tuple(inputs)
    places = [i for i, each in enumerate(inputs) if isinstance(each, Tensor)]
    tensors = [inputs[i] for i in places]

    def of_tensors(*given):
        args = list(inputs)
        for place, tensor in zip(places, given):
            args[place] = tensor
        return tuple(t for t in _tuple(fn(*args)) if isinstance(t, Tensor))

    return of_tensors, tensors


def _check(run, name):
    try:
        return run()
    except _native.Error as error:
        # Only the check itself says its name and nothing more particular.
        if type(error) is _native.Error and str(error).startswith(name + ": "):
            raise GradcheckError(str(error)) from None
        raise


def gradcheck(
    func,
    inputs,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_batched_forward_grad=False,
    check_forward_ad=False,
    check_backward_ad=True,
    fast_mode=False,
    masked=None,
):
    """Compares the derivatives of `func` by every input that requires a gradient with central differences.

    The inputs should be float64 or complex128. Raises GradcheckError, or gives False with `raise_exception=False`.
    """
    fn, tensors = _prepare(func, inputs)
    options = dict(
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=bool(raise_exception),
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_forward_ad,
        check_backward_ad=check_backward_ad,
        fast_mode=fast_mode,
    )
    return _check(lambda: _native._gradcheck(fn, tensors, options), "gradcheck")


def gradgradcheck(
    func,
    inputs,
    grad_outputs=None,
    *,
    eps=1e-6,
    atol=1e-5,
    rtol=1e-3,
    gen_non_contig_grad_outputs=False,
    raise_exception=True,
    nondet_tol=0.0,
    check_undefined_grad=True,
    check_grad_dtypes=False,
    check_batched_grad=False,
    check_fwd_over_rev=False,
    check_rev_over_rev=True,
    fast_mode=False,
    masked=False,
):
    """The same for the gradients of `func`, as functions of its inputs and of the gradients of its outputs."""
    fn, tensors = _prepare(func, inputs)
    grads = () if grad_outputs is None else _tuple(grad_outputs)
    options = dict(
        eps=eps,
        atol=atol,
        rtol=rtol,
        gen_non_contig_grad_outputs=gen_non_contig_grad_outputs,
        raise_exception=bool(raise_exception),
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_fwd_over_rev=check_fwd_over_rev,
        check_rev_over_rev=check_rev_over_rev,
        fast_mode=fast_mode,
    )
    return _check(lambda: _native._gradgradcheck(fn, tensors, grads, options), "gradgradcheck")
