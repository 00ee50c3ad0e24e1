"""Learning rates that change while a network is trained. A scheduler sets the rates of all groups of its optimizer when it is
made, and anew at each `step`, which is called after the optimizer's:

    scheduler = facula.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=100)
    for epoch in range(100):
        train(net, optimizer)
        scheduler.step()
"""
from __future__ import annotations

import math
import types
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Optional, Union

from .._native import Tensor
from .optimizer import Optimizer

__all__ = ["LRScheduler", "LambdaLR", "MultiplicativeLR", "StepLR", "MultiStepLR", "ConstantLR", "LinearLR",
           "ExponentialLR", "PolynomialLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ChainedScheduler",
           "SequentialLR", "ReduceLROnPlateau", "CyclicLR", "OneCycleLR"]


def _set(group: dict[str, Any], key: str, value: Union[float, Tensor]) -> None:
    """Gives a group an option; a tensor stays the tensor that it is."""
    if isinstance(group[key], Tensor):
        group[key].fill_(float(value))
    else:
        group[key] = float(value) if isinstance(value, Tensor) else value


def _number(value: Union[float, Tensor]) -> float:
    return float(value) if isinstance(value, Tensor) else value


def _check_optimizer(optimizer: object) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def _one_each(value: Any, groups: list[dict[str, Any]], name: str) -> list[Any]:
    """A list with one value for each group, from such a list or from one value for all."""
    if isinstance(value, (list, tuple)):
        if len(value) != len(groups):
            raise ValueError(f"expected {len(groups)} values for {name}, got {len(value)}")
        return list(value)
    return [value] * len(groups)


class LRScheduler:
    """The base of schedulers. A class that derives from it writes `get_lr`: the rates at `last_epoch`, from the rates before."""

    optimizer: Optimizer
    last_epoch: int
    _last_lr: list[float]

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _number(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"param 'initial_lr' is not specified in param_groups[{i}] when resuming an optimizer")
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self.step()

    def state_dict(self) -> dict[str, Any]:
        """All that the scheduler is, but for the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict gave."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def get_lr(self) -> list[float]:
        """The rates at `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} has no get_lr")

    def _rates(self) -> list[float]:
        """The rates that the groups have now, as numbers."""
        return [_number(group["lr"]) for group in self.optimizer.param_groups]

    def step(self, epoch: Optional[int] = None) -> None:
        """The next step, or, given its number, that one."""
        if self._step_count == 1 and not self.optimizer._opt_called:
            warnings.warn("lr_scheduler.step() was called before optimizer.step(); call them in the opposite order, or the first "
                          "value of the learning rate schedule is skipped", UserWarning, stacklevel=2)
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            values = self.get_lr()
        else:
            self.last_epoch = epoch
            values = self._get_closed_form_lr() if hasattr(self, "_get_closed_form_lr") else self.get_lr()
        for group, lr in zip(self.optimizer.param_groups, values):
            _set(group, "lr", lr)
        self._last_lr = self._rates()


class _FunctionLR(LRScheduler):
    """Rates that a function of the step decides on, one for each group or one for all."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Union[Callable[[int], float], Sequence[Callable[[int], float]]],
                 last_epoch: int = -1) -> None:
        self.lr_lambdas: list[Callable[[int], float]] = _one_each(lr_lambda, optimizer.param_groups, "lr_lambda")
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As the base's. Of functions only those are kept that are objects with attributes: their attributes."""
        state = {key: value for key, value in self.__dict__.items() if key not in ("optimizer", "lr_lambdas")}
        state["lr_lambdas"] = [None if isinstance(f, types.FunctionType) else dict(f.__dict__) for f in self.lr_lambdas]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict gave."""
        state = dict(state_dict)
        for function, attributes in zip(self.lr_lambdas, state.pop("lr_lambdas")):
            if attributes is not None:
                function.__dict__.update(attributes)
        self.__dict__.update(state)


class LambdaLR(_FunctionLR):
    """The first rates times what a function gives for the number of the step."""

    def get_lr(self) -> list[float]:
        return [base * f(self.last_epoch) for f, base in zip(self.lr_lambdas, self.base_lrs)]


class MultiplicativeLR(_FunctionLR):
    """The rates before times what a function gives for the number of the step."""

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._rates()
        return [lr * f(self.last_epoch) for f, lr in zip(self.lr_lambdas, self._rates())]


class StepLR(LRScheduler):
    """Multiplies rates by gamma every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        falls = self.last_epoch != 0 and self.last_epoch % self.step_size == 0
        return [lr * self.gamma if falls else lr for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** (self.last_epoch // self.step_size) for base in self.base_lrs]


class MultiStepLR(LRScheduler):
    """Multiplies rates by gamma at each of the milestones."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1,
                 last_epoch: int = -1) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        factor = self.gamma ** self.milestones[self.last_epoch] if self.last_epoch in self.milestones else 1
        return [lr * factor for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        passed = bisect_right(sorted(self.milestones.elements()), self.last_epoch)
        return [base * self.gamma ** passed for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Rates times `factor` for the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5,
                 last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.factor for lr in self._rates()]
        if self.last_epoch != self.total_iters:
            return self._rates()
        return [lr * (1.0 / self.factor) for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        factor = self.factor if self.last_epoch < self.total_iters else 1
        return [base * factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """Rates times a factor that runs in a line from `start_factor` to `end_factor`."""

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
                 total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 < start_factor <= 1:
            raise ValueError("Starting multiplicative factor expected to be greater than 0 and less or equal to 1.")
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return [lr * self.start_factor for lr in self._rates()]
        if self.last_epoch > self.total_iters:
            return self._rates()
        rise = self.end_factor - self.start_factor
        factor = 1 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise)
        return [lr * factor for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        share = min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * (self.start_factor + (self.end_factor - self.start_factor) * share) for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Multiplies rates by gamma at each step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [lr * self.gamma if self.last_epoch != 0 else lr for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        return [base * self.gamma ** self.last_epoch for base in self.base_lrs]


class PolynomialLR(LRScheduler):
    """A power of the share of steps that are left."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0 or self.last_epoch > self.total_iters:
            return self._rates()
        left = (1.0 - self.last_epoch / self.total_iters) / (1.0 - (self.last_epoch - 1) / self.total_iters)
        return [lr * left ** self.power for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        left = 1.0 - min(self.total_iters, self.last_epoch) / self.total_iters
        return [base * left ** self.power for base in self.base_lrs]


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate down to `eta_min` in T_max steps."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._rates()
        if self._step_count == 1 and self.last_epoch > 0:
            return [self.eta_min + (base - self.eta_min) * (1 + math.cos(self.last_epoch * math.pi / self.T_max)) / 2
                    for base in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            return [lr + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
                    for base, lr in zip(self.base_lrs, self._rates())]
        ratio = ((1 + math.cos(math.pi * self.last_epoch / self.T_max)) /
                 (1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)))
        return [ratio * (lr - self.eta_min) + self.eta_min for lr in self._rates()]

    def _get_closed_form_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.last_epoch / self.T_max)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosines that begin anew after T_0 steps, then after T_0 * T_mult, and so on."""

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0,
                 last_epoch: int = -1) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0 = self.T_i = T_0
        self.T_mult, self.eta_min = T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def step(self, epoch: Optional[float] = None) -> None:
        """The next step, or, given its number, which may be a fraction, that one."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            self.T_cur, self.T_i = epoch, self.T_0
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                while self.T_cur >= self.T_i:
                    self.T_cur -= self.T_i
                    self.T_i *= self.T_mult
        self._step_count += 1
        self.last_epoch = math.floor(epoch)
        for group, lr in zip(self.optimizer.param_groups, self.get_lr()):
            _set(group, "lr", lr)
        self._last_lr = self._rates()


class ChainedScheduler(LRScheduler):
    """Several schedulers, one after the other at each step."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optional[Optimizer] = None) -> None:
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler to be chained, but got no scheduler.")
        optimizer = optimizer or schedulers[0].optimizer
        _same_optimizer(self, schedulers, optimizer)
        self._schedulers, self.optimizer = list(schedulers), optimizer
        self._last_lr = self._rates()

    def step(self) -> None:  # type: ignore[override]
        """The next step of each."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._rates()

    def state_dict(self) -> dict[str, Any]:
        """As the base's, with the states of the schedulers."""
        return _joint_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict gave."""
        _load_joint_state(self, state_dict)


class SequentialLR(LRScheduler):
    """One scheduler after the other; the next takes over at each of the milestones, and counts from there."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int],
                 last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        if not schedulers:
            raise ValueError(f"{type(self).__name__} expects at least one scheduler, but got no scheduler.")
        _same_optimizer(self, schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError("Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                             f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones "
                             f"to be equal to {len(milestones)}")
        self.optimizer, self._schedulers, self._milestones = optimizer, list(schedulers), list(milestones)
        self.last_epoch = last_epoch + 1
        # Making the schedulers has moved the rates several times; only the first counts.
        for group in optimizer.param_groups:
            _set(group, "lr", group["initial_lr"])
        for scheduler in self._schedulers:
            scheduler.last_epoch -= 1
        self._schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        """The next step of the scheduler whose turn it is."""
        self.last_epoch += 1
        turn = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self._milestones[turn - 1] == self.last_epoch:
            scheduler.step(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()

    def state_dict(self) -> dict[str, Any]:
        """As the base's, with the states of the schedulers."""
        return _joint_state(self)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes over what state_dict gave."""
        _load_joint_state(self, state_dict)


def _same_optimizer(owner: LRScheduler, schedulers: Sequence[LRScheduler], optimizer: Optimizer) -> None:
    for i, scheduler in enumerate(schedulers):
        if getattr(scheduler, "optimizer", None) is not optimizer:
            raise ValueError(f"{type(owner).__name__} expects all schedulers to belong to the same optimizer, but got scheduler "
                             f"{type(scheduler).__name__} at index {i} which is different from the optimizer passed in.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(f"{type(owner).__name__} does not support `ReduceLROnPlateau` scheduler as it requires additional "
                             "kwargs to be specified when calling `step`")


def _joint_state(owner: Union[ChainedScheduler, SequentialLR]) -> dict[str, Any]:
    state = {key: value for key, value in owner.__dict__.items() if key not in ("optimizer", "_schedulers")}
    state["_schedulers"] = [scheduler.state_dict() for scheduler in owner._schedulers]
    return state


def _load_joint_state(owner: Union[ChainedScheduler, SequentialLR], state_dict: dict[str, Any]) -> None:
    state = dict(state_dict)
    for scheduler, each in zip(owner._schedulers, state.pop("_schedulers")):
        scheduler.load_state_dict(each)
    owner.__dict__.update(state)


class ReduceLROnPlateau(LRScheduler):
    """Lowers rates when a number, given to `step`, has not become better for a while."""

    def __init__(self, optimizer: Optimizer, mode: Literal["min", "max"] = "min", factor: float = 0.1,
                 patience: int = 10, threshold: float = 1e-4, threshold_mode: Literal["rel", "abs"] = "rel",
                 cooldown: int = 0, min_lr: Union[float, Sequence[float]] = 0, eps: float = 1e-8) -> None:
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        self.min_lrs = _one_each(min_lr, optimizer.param_groups, "min_lr")
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.last_epoch = 0
        self._reset()
        self._last_lr = self._rates()

    def _reset(self) -> None:
        self.best: float = math.inf if self.mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = 0

    @property
    def in_cooldown(self) -> bool:
        """Whether it waits after a reduction."""
        return self.cooldown_counter > 0

    def is_better(self, a: float, best: float) -> bool:
        """Whether a number is better than another by more than the threshold."""
        relative = self.threshold_mode == "rel"
        if self.mode == "min":
            return a < (best * (1.0 - self.threshold) if relative else best - self.threshold)
        return a > (best * (self.threshold + 1.0) if relative else best + self.threshold)

    def step(self, metrics: Union[float, Tensor], epoch: Optional[int] = None) -> None:  # type: ignore[override]
        """Looks at the number of this step."""
        current = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.in_cooldown:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                before = _number(group["lr"])
                after = max(before * self.factor, least)
                if before - after > self.eps:
                    _set(group, "lr", after)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = self._rates()


def _momentum_key(group: dict[str, Any], name: str) -> str:
    """Where an optimizer keeps what schedulers cycle as momentum."""
    if "betas" in group:
        return "betas"
    if "momentum" in group:
        return "momentum"
    raise ValueError(f"optimizer must support momentum or beta1 with `cycle_momentum` option enabled in {name}")


def _set_momentum(group: dict[str, Any], name: str, value: float) -> None:
    key = _momentum_key(group, name)
    group[key] = (value, *group["betas"][1:]) if key == "betas" else value


class CyclicLR(LRScheduler):
    """Rates that rise and fall between two bounds."""

    def __init__(self, optimizer: Optimizer, base_lr: Union[float, Sequence[float]],
                 max_lr: Union[float, Sequence[float]], step_size_up: int = 2000, step_size_down: Optional[int] = None,
                 mode: Literal["triangular", "triangular2", "exp_range"] = "triangular", gamma: float = 1.0,
                 scale_fn: Optional[Callable[[float], float]] = None,
                 scale_mode: Literal["cycle", "iterations"] = "cycle", cycle_momentum: bool = True,
                 base_momentum: Union[float, Sequence[float]] = 0.8, max_momentum: Union[float, Sequence[float]] = 0.9,
                 last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.optimizer = optimizer
        for group, lr in zip(optimizer.param_groups, _one_each(base_lr, optimizer.param_groups, "base_lr")):
            if last_epoch == -1:
                _set(group, "lr", lr)
                group["initial_lr"] = lr
        self.max_lrs = _one_each(max_lr, optimizer.param_groups, "max_lr")
        up, down = float(step_size_up), float(step_size_up if step_size_down is None else step_size_down)
        self.total_size, self.step_ratio = up + down, up / (up + down)
        self.mode, self.gamma, self._scale_fn, self.scale_mode = mode, gamma, scale_fn, scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums = _one_each(base_momentum, optimizer.param_groups, "base_momentum")
            self.max_momentums = _one_each(max_momentum, optimizer.param_groups, "max_momentum")
            for group, momentum in zip(optimizer.param_groups, self.max_momentums):
                _set_momentum(group, "CyclicLR", momentum)
        super().__init__(optimizer, last_epoch)

    def scale_fn(self, x: float) -> float:
        """How high a cycle, or a step, rises."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        functions: dict[str, Callable[[], float]] = {
            "triangular": lambda: 1.0, "triangular2": lambda: 1 / 2.0 ** (x - 1), "exp_range": lambda: self.gamma ** x}
        return functions[self.mode]()

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        share = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = share * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, "CyclicLR", high - (high - low) * scale)
        return [base + (top - base) * scale for base, top in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self) -> dict[str, Any]:
        """As the base's, without a function that was given."""
        state = super().state_dict()
        if isinstance(state["_scale_fn"], types.FunctionType):
            state.pop("_scale_fn")
        return state


class OneCycleLR(LRScheduler):
    """Up to the largest rate and down again, far below the first; momentum goes the other way."""

    def __init__(self, optimizer: Optimizer, max_lr: Union[float, Sequence[float]], total_steps: Optional[int] = None,
                 epochs: Optional[int] = None, steps_per_epoch: Optional[int] = None, pct_start: float = 0.3,
                 anneal_strategy: Literal["cos", "linear"] = "cos", cycle_momentum: bool = True,
                 base_momentum: Union[float, Sequence[float]] = 0.85,
                 max_momentum: Union[float, Sequence[float]] = 0.95, div_factor: float = 25.0,
                 final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1) -> None:
        _check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            for name, value in (("epochs", epochs), ("steps_per_epoch", steps_per_epoch)):
                if value <= 0 or not isinstance(value, int):
                    raise ValueError(f"Expected positive integer {name}, but got {value}")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0 or not isinstance(total_steps, int):
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self.total_steps, self._anneal = total_steps, anneal_strategy
        rise = float(pct_start * total_steps) - 1
        # Each phase: its last step, and the names of what its rates and momenta run from and to.
        self._schedule_phases: list[tuple[float, str, str, str, str]]
        if three_phase:
            self._schedule_phases = [(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                                     (float(2 * pct_start * total_steps) - 2, "max_lr", "initial_lr", "base_momentum",
                                      "max_momentum"),
                                     (total_steps - 1, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            self._schedule_phases = [(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum"),
                                     (total_steps - 1, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        if last_epoch == -1:
            for group, top in zip(optimizer.param_groups, _one_each(max_lr, optimizer.param_groups, "max_lr")):
                group["initial_lr"] = top / div_factor
                group["max_lr"] = top
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum and last_epoch == -1:
            highs = _one_each(max_momentum, optimizer.param_groups, "max_momentum")
            lows = _one_each(base_momentum, optimizer.param_groups, "base_momentum")
            for group, high, low in zip(optimizer.param_groups, highs, lows):
                _set_momentum(group, "OneCycleLR", high)
                group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _between(self, start: float, end: float, share: float) -> float:
        if self._anneal == "linear":
            return (end - start) * share + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * share) + 1)

    def get_lr(self) -> list[float]:
        step, lrs = self.last_epoch, []
        begin: float = 0
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        for i, (end, *names) in enumerate(self._schedule_phases):
            if step <= end or i == len(self._schedule_phases) - 1:
                break
            begin = end
        share = (step - begin) / (end - begin)
        for group in self.optimizer.param_groups:
            lrs.append(self._between(group[names[0]], group[names[1]], share))
            if self.cycle_momentum:
                _set_momentum(group, "OneCycleLR", self._between(group[names[2]], group[names[3]], share))
        return lrs
