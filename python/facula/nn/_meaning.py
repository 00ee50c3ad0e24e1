"""What the book of modules says is written by hand: what modules compute that is more than one functional form, and how they
begin where no recipe says it. The classes here stand in front of Module among the bases of the classes of the same names."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional, Union

from .. import _native
from .._native import Tensor
from ..autograd import no_grad
from . import init
from .parameter import Parameter

if TYPE_CHECKING:
    from .modules.module import Module as _Part  # what the classes here become a part of
else:
    _Part = object


def sizes(value: Any, count: Optional[int] = None) -> tuple[int, ...]:
    """Sizes as a tuple; one number stands for `count` of them."""
    if isinstance(value, int):
        return (value,) * (count or 1)
    made = tuple(int(v) for v in value)
    if count is not None and len(made) != count:
        if len(made) == 1:
            return made * count
        raise ValueError(f"expected {count} sizes, or one for all, but got {made}")
    return made


def require_divisible(module: str, name: str, value: int, by: str, divisor: int) -> None:
    if divisor <= 0 or value % divisor:
        raise ValueError(f"{module}: {name} must be divisible by {by}, but got {name}={value} and {by}={divisor}; change one of "
                         "them")


def require_between(module: str, name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ValueError(f"{module}: {name} has to be between {low} and {high}, but got {value}")


def require_below(module: str, name: str, value: float, other: str, bound: float) -> None:
    if not value < bound:
        raise ValueError(f"{module}: {name} must be below {other}, but got {name}={value} and {other}={bound}")


def require_positive(module: str, name: str, value: int) -> None:
    if value <= 0:
        raise ValueError(f"{module}: {name} must be positive, but got {value}")


class Identity(_Part):
    def forward(self, input: Any) -> Any:
        return input


class Embedding(_Part):
    num_embeddings: int
    embedding_dim: int
    padding_idx: Optional[int]
    weight: Tensor

    def _build(self, factory: dict[str, Any], _weight: Optional[Tensor] = None, _freeze: bool = False) -> None:
        rows, width = self.num_embeddings, self.embedding_dim
        if self.padding_idx is not None:
            if not -rows <= self.padding_idx < rows:
                raise ValueError(f"Embedding: padding_idx {self.padding_idx} must be within num_embeddings, which is {rows}")
            self.padding_idx %= rows
        if _weight is None:
            self.weight = Parameter(_native.empty((rows, width), **factory), requires_grad=not _freeze)
            self.reset_parameters()
            return
        if list(_weight.shape) != [rows, width]:
            raise ValueError(f"Embedding: the weight of shape {list(_weight.shape)} does not match num_embeddings={rows} and "
                             f"embedding_dim={width}")
        self.weight = Parameter(_weight, requires_grad=not _freeze)

    def reset_parameters(self) -> None:
        """Draws the initial values anew."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def from_pretrained(cls, embeddings: Tensor, freeze: bool = True, padding_idx: Optional[int] = None,
                        max_norm: Optional[float] = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False,
                        sparse: bool = False) -> Any:
        """A table with the given rows, which are not learnt unless `freeze` is off."""
        if embeddings.dim() != 2:
            raise ValueError(f"Embeddings parameter is expected to be 2-dimensional, got {embeddings.dim()}")
        rows, width = embeddings.shape
        return cls(num_embeddings=rows, embedding_dim=width, _weight=embeddings, _freeze=freeze, padding_idx=padding_idx,
                   max_norm=max_norm, norm_type=norm_type, scale_grad_by_freq=scale_grad_by_freq, sparse=sparse)


class ConvForward(_Part):
    """Convolutions of any number of dims."""

    padding_mode: str
    padding: Union[str, tuple[int, ...]]
    kernel_size: tuple[int, ...]
    dilation: tuple[int, ...]

    def forward(self, input: Tensor) -> Tensor:
        dims = len(self.kernel_size)
        conv = (_native.conv1d, _native.conv2d, _native.conv3d)[dims - 1]
        if self.padding_mode == "zeros":
            return conv(input, self.weight, self.bias, self.stride, self.padding, self.dilation, self.groups)
        if self.padding_mode not in ("reflect", "replicate", "circular"):
            raise ValueError(f"padding_mode must be one of 'zeros', 'reflect', 'replicate', 'circular', got {self.padding_mode!r}")
        padded = _native.pad(input, self._borders(), self.padding_mode)
        return conv(padded, self.weight, self.bias, self.stride, (0,) * dims, self.dilation, self.groups)

    def _borders(self) -> tuple[int, ...]:
        """How many entries come before and behind each dim, for the last dim first."""
        borders: list[Any] = []
        for place in reversed(range(len(self.kernel_size))):
            if self.padding == "same":
                total = self.dilation[place] * (self.kernel_size[place] - 1)
                borders += [total // 2, total - total // 2]
            else:
                borders += [0, 0] if self.padding == "valid" else [self.padding[place]] * 2
        return tuple(borders)


class _BatchNorm(_Part):
    _dims: tuple[int, ...] = ()
    training: bool

    def reset_running_stats(self) -> None:
        """Forgets what was seen."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() not in self._dims:
            names = " or ".join(f"{d}D" for d in self._dims)
            raise _native.ShapeError(f"expected {names} input (got {input.dim()}D input)")
        momentum = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the running values are those of all batches alike
                momentum = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or self.running_mean is None
        follows = not self.training or self.track_running_stats
        return functional().batch_norm(input, self.running_mean if follows else None, self.running_var if follows else None,
                                       self.weight, self.bias, by_batch, momentum, self.eps)


class BatchNorm1d(_BatchNorm):
    _dims = (2, 3)


class BatchNorm2d(_BatchNorm):
    _dims = (4,)


class BatchNorm3d(_BatchNorm):
    _dims = (5,)


def functional() -> Any:
    """The functional forms, which come later than this file."""
    from . import functional as forms
    return forms


class _Recurrent(_Part):
    """Weights by layer and direction, and how states come and go."""

    _gates = 1
    training: bool

    def _build(self, factory: dict[str, Any]) -> None:
        rows = self._gates * self.hidden_size
        self._names: list[str] = []
        for layer in range(self.num_layers):
            for direction in ("", "_reverse")[:1 + self.bidirectional]:
                width = self.input_size if layer == 0 else self.hidden_size * (1 + self.bidirectional)
                shapes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, width), "weight_hh": (rows, self.hidden_size)}
                if self.bias:
                    shapes.update(bias_ih=(rows,), bias_hh=(rows,))
                for name, shape in shapes.items():
                    full = f"{name}_l{layer}{direction}"
                    setattr(self, full, Parameter(_native.empty(shape, **factory)))
                    self._names.append(full)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values anew."""
        for weight in self.parameters():
            init.uniform_by_(weight, self.hidden_size)

    def flatten_parameters(self) -> None:
        """Does nothing: weights need not lie behind each other."""

    @property
    def _flat_weights(self) -> list[Any]:
        table = self._parameters
        return [table[name] for name in self._names]

    @property
    def all_weights(self) -> list[Any]:
        """The weights, a list for each layer and direction."""
        each = 4 if self.bias else 2
        flat = self._flat_weights
        return [flat[i:i + each] for i in range(0, len(flat), each)]

    def _sequences(self, input: Tensor) -> tuple[Any, ...]:
        """The input with a batch, whether it had one, and the shape of states."""
        if input.dim() not in (2, 3):
            raise _native.ShapeError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise _native.ShapeError(f"{type(self).__name__}: input.size(-1) must be equal to input_size. Expected "
                                     f"{self.input_size}, got {input.shape[-1]}")
        batched, dim = input.dim() == 3, 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(dim)
        return input, batched, (self.num_layers * (1 + self.bidirectional), input.shape[dim], self.hidden_size)

    def _state(self, input: Tensor, batched: bool, shape: tuple[int, ...], state: Optional[Tensor],
               name: str) -> Tensor:
        if state is None:
            return _native.zeros(shape, dtype=input.dtype, device=input.device)
        made = state if batched or state.dim() == 3 else state.unsqueeze(1)
        if tuple(made.shape) != shape:
            raise _native.ShapeError(f"{type(self).__name__}: Expected {name} size {shape} (layers times directions, batch, "
                                     f"hidden_size), got {list(state.shape)}")
        return made

    def _rest(self) -> tuple[Any, ...]:
        return (self._flat_weights, bool(self.bias), self.num_layers, float(self.dropout), self.training, bool(self.bidirectional),
                bool(self.batch_first))

    def _op(self) -> Any:
        raise NotImplementedError

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Any, ...]:
        input, batched, shape = self._sequences(input)
        output, state = self._op()(input, self._state(input, batched, shape, hx, "hidden"), *self._rest())
        if batched:
            return output, state
        return output.squeeze(0 if self.batch_first else 1), state.squeeze(1)


class RNN(_Recurrent):
    def _op(self) -> Any:
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        return _native.rnn_tanh if self.nonlinearity == "tanh" else _native.rnn_relu


class GRU(_Recurrent):
    _gates = 3

    def _op(self) -> Any:
        return _native.gru


class LSTM(_Recurrent):
    _gates = 4

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Any, ...]:
        input, batched, shape = self._sequences(input)
        h, c = (None, None) if hx is None else hx
        states = (self._state(input, batched, shape, h, "hidden[0]"), self._state(input, batched, shape, c, "hidden[1]"))
        output, last, cells = _native.lstm(input, states, *self._rest())
        if batched:
            return output, (last, cells)
        return output.squeeze(0 if self.batch_first else 1), (last.squeeze(1), cells.squeeze(1))


class _Cell(_Part):
    def _arguments(self, input: Tensor, hx: Optional[Tensor]) -> tuple[Any, ...]:
        """The input with a batch, and the state or zeros."""
        name = type(self).__name__
        if input.dim() not in (1, 2):
            raise _native.ShapeError(f"{name}: Expected input to be 1D or 2D, got {input.dim()}D instead")
        if input.shape[-1] != self.input_size:
            raise _native.ShapeError(f"{name}: input has inconsistent input_size: got {input.shape[-1]}, expected "
                                     f"{self.input_size}")
        batched = input.unsqueeze(0) if input.dim() == 1 else input
        shape = (batched.shape[0], self.hidden_size)
        if hx is None:
            return batched, _native.zeros(shape, dtype=input.dtype, device=input.device)
        state = hx.unsqueeze(0) if hx.dim() == 1 else hx
        if tuple(state.shape) != shape:
            raise _native.ShapeError(f"{name}: the hidden state of shape {list(hx.shape)} does not fit the batch of {shape[0]} and "
                                     f"hidden_size={self.hidden_size}")
        return batched, state

    def _step(self, op: Any, input: Tensor, state: Any) -> Any:
        return op(input, state, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)


class RNNCell(_Cell):
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        x, state = self._arguments(input, hx)
        made = self._step(_native.rnn_tanh_cell if self.nonlinearity == "tanh" else _native.rnn_relu_cell, x, state)
        return made.squeeze(0) if input.dim() == 1 else made


class GRUCell(_Cell):
    def forward(self, input: Tensor, hx: Optional[Tensor] = None) -> Tensor:
        x, state = self._arguments(input, hx)
        made = self._step(_native.gru_cell, x, state)
        return made.squeeze(0) if input.dim() == 1 else made


class LSTMCell(_Cell):
    def forward(self, input: Tensor, hx: Any = None) -> tuple[Any, ...]:
        h, c = (None, None) if hx is None else hx
        x, state = self._arguments(input, h)
        made = self._step(_native.lstm_cell, x, (state, self._arguments(input, c)[1]))
        return tuple(t.squeeze(0) for t in made) if input.dim() == 1 else tuple(made)


from ._attention import MultiheadAttention as MultiheadAttention  # noqa: E402
from ._attention import TransformerEncoderLayer as TransformerEncoderLayer  # noqa: E402
