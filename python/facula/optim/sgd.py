"""Stochastic gradient descent."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

from .. import _native
from .._native import Tensor
from .optimizer import Optimizer, ParamsT, _check, _check_rate, _refuse_differentiable

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum and Nesterov's variant of it. `foreach` and `fused` make no difference: all
    parameters are always computed together."""

    def __init__(self, params: ParamsT, lr: Union[float, Tensor] = 1e-3, momentum: float = 0, dampening: float = 0,
                 weight_decay: float = 0, nesterov: bool = False, *, maximize: bool = False,
                 foreach: Optional[bool] = None, differentiable: bool = False, fused: Optional[bool] = None) -> None:
        _check_rate(lr)
        _check(momentum, "momentum")
        _check(weight_decay, "weight_decay")
        _refuse_differentiable(differentiable)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize, foreach=foreach,
                                      differentiable=differentiable, fused=fused))

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; gives the loss of the closure."""
        loss = self._loss(closure)
        for g in self.param_groups:
            _native._optim.sgd(g["params"], self.state, g["lr"], g["momentum"], g["dampening"], g["weight_decay"],
                               g["nesterov"], g["maximize"])
        return loss
