"""RMSprop."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

from .. import _native
from .._native import Tensor
from .optimizer import Optimizer, ParamsT, _check, _check_rate, _refuse_differentiable

__all__ = ["RMSprop"]


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squared gradients; `centered` takes their variance instead."""

    def __init__(self, params: ParamsT, lr: Union[float, Tensor] = 1e-2, alpha: float = 0.99, eps: float = 1e-8,
                 weight_decay: float = 0, momentum: float = 0, centered: bool = False, capturable: bool = False,
                 foreach: Optional[bool] = None, maximize: bool = False, differentiable: bool = False) -> None:
        _check_rate(lr)
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        _check(momentum, "momentum")
        _check(weight_decay, "weight_decay")
        _check(alpha, "alpha")
        _refuse_differentiable(differentiable)
        super().__init__(params, dict(lr=lr, momentum=momentum, alpha=alpha, eps=eps, centered=centered,
                                      weight_decay=weight_decay, capturable=capturable, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable))

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; gives the loss of the closure."""
        loss = self._loss(closure)
        for g in self.param_groups:
            _native._optim.rmsprop(g["params"], self.state, g["lr"], g["alpha"], g["eps"], g["weight_decay"], g["momentum"],
                                   g["centered"], g["maximize"], g["capturable"])
        return loss
