"""Adam and AdamW."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

from .. import _native
from .._native import Tensor
from .optimizer import Optimizer, ParamsT, _check, _check_rate, _refuse_differentiable

__all__ = ["Adam", "AdamW"]


class Adam(Optimizer):
    """Adam: steps follow running means of gradients and of their squares. `capturable` counts steps on the parameters' device,
    so that a captured graph counts on. `foreach` and `fused` make no difference: all parameters are always computed together."""

    _decoupled = False

    def __init__(self, params: ParamsT, lr: Union[float, Tensor] = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 0, amsgrad: bool = False, *, foreach: Optional[bool] = None,
                 maximize: bool = False, capturable: bool = False, differentiable: bool = False,
                 fused: Optional[bool] = None) -> None:
        _check_rate(lr)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        for i, beta in enumerate(betas):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {i}: {beta}")
        _check(weight_decay, "weight_decay")
        _refuse_differentiable(differentiable)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, foreach=foreach, capturable=capturable,
                                      differentiable=differentiable, fused=fused))

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; gives the loss of the closure."""
        loss = self._loss(closure)
        for g in self.param_groups:
            beta1, beta2 = g["betas"]
            _native._optim.adam(g["params"], self.state, g["lr"], beta1, beta2, g["eps"], g["weight_decay"], g["amsgrad"],
                                g["maximize"], g["capturable"], self._decoupled)
        return loss


class AdamW(Adam):
    """Adam whose weights shrink apart from their gradients."""

    _decoupled = True

    def __init__(self, params: ParamsT, lr: Union[float, Tensor] = 1e-3, betas: tuple[float, float] = (0.9, 0.999),
                 eps: float = 1e-8, weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False,
                 foreach: Optional[bool] = None, capturable: bool = False, differentiable: bool = False,
                 fused: Optional[bool] = None) -> None:
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize,
                         capturable=capturable, differentiable=differentiable, fused=fused)
