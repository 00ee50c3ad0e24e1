"""L-BFGS."""
from __future__ import annotations

from collections.abc import Callable
from typing import Any, Optional, Union

from .. import _native
from .._native import Tensor
from .optimizer import Optimizer, ParamsT, _check_rate

__all__ = ["LBFGS"]


class LBFGS(Optimizer):
    """A quasi-Newton method that remembers a few steps. `step` wants a closure, which it calls several times;
    `line_search_fn` is None or 'strong_wolfe'."""

    def __init__(self, params: ParamsT, lr: Union[float, Tensor] = 1, max_iter: int = 20,
                 max_eval: Optional[int] = None, tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9,
                 history_size: int = 100, line_search_fn: Optional[str] = None) -> None:
        _check_rate(lr)
        if max_eval is None:
            max_eval = max_iter * 5 // 4
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def step(self, closure: Callable[[], Any]) -> Any:  # type: ignore[override]
        """One step of up to `max_iter` iterations; gives the loss of the first call of the closure."""
        g = self.param_groups[0]

        def loss() -> Any:
            return self._loss(closure)

        return _native._optim.lbfgs(self._params, self.state[self._params[0]], float(g["lr"]), g["max_iter"], g["max_eval"],
                                    g["tolerance_grad"], g["tolerance_change"], g["history_size"], g["line_search_fn"],
                                    loss)
