"""Adagrad."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

from .. import _native
from .._native import Tensor
from .optimizer import Optimizer, ParamsT, _check, _check_rate, _refuse_differentiable

__all__ = ["Adagrad"]


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients."""

    def __init__(self, params: ParamsT, lr: Union[float, Tensor] = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, foreach: Optional[bool] = None, *,
                 maximize: bool = False, differentiable: bool = False, fused: Optional[bool] = None) -> None:
        _check_rate(lr)
        _check(lr_decay, "lr_decay")
        _check(weight_decay, "weight_decay")
        _check(initial_accumulator_value, "initial_accumulator_value")
        if not 0.0 <= eps:
            raise ValueError(f"Invalid epsilon value: {eps}")
        _refuse_differentiable(differentiable)
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, eps=eps, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, foreach=foreach,
                                      maximize=maximize, differentiable=differentiable, fused=fused))
        for group in self.param_groups:
            for p in group["params"]:
                start = group["initial_accumulator_value"]
                like = p.detach()
                self.state[p] = {"step": _native.zeros((), dtype=_native.float32),
                                 "sum": _native.full_like(like, complex(start, start) if p.is_complex() else start)}

    def share_memory(self) -> None:
        """States are memory of this process already."""

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step; gives the loss of the closure."""
        loss = self._loss(closure)
        for g in self.param_groups:
            _native._optim.adagrad(g["params"], self.state, g["lr"], g["lr_decay"], g["eps"], g["weight_decay"],
                                   g["maximize"])
        return loss
