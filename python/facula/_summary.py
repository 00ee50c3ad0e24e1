"""facula.summary: a network at a glance."""
from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _native

if TYPE_CHECKING:
    from .nn import Module

__all__ = ["summary"]

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def _memory(count: int) -> str:
    value, unit = float(count), 0
    while value >= 1024 and unit + 1 < len(_UNITS):
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} {_UNITS[unit]}" if unit == 0 else f"{value:.1f} {_UNITS[unit]}"


def _shape(value: Any) -> str:
    """The shapes in what a module gives."""
    if isinstance(value, _native.Tensor):
        return str(list(value.shape))
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shape(each)}" for key, each in value.items()) + "}"
    if isinstance(value, (tuple, list)):
        return "(" + ", ".join(_shape(each) for each in value) + ")"
    return type(value).__name__


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _native._display_width(text))


class Summary:
    """The table and its sums."""

    def __init__(self, rows: list[dict[str, Any]], total_params: int, trainable_params: int, buffer_numbers: int,
                 total_bytes: int) -> None:
        self.rows, self.total_params, self.trainable_params = rows, total_params, trainable_params
        self.buffer_numbers, self.total_bytes = buffer_numbers, total_bytes

    def __str__(self) -> str:
        head: tuple[str, ...] = ("module", "type", "output", "parameters")
        table = [head] + [(row["label"], row["type"], row["output"],
                           f"{row['params']:,}" + (" (shared)" if row["shared"] else "") if row["has_params"] else "")
                          for row in self.rows]
        if not any(row["output"] for row in self.rows):
            table = [(a, b, d) for a, b, _, d in table]
        widths = [max(_native._display_width(line[i]) for line in table) for i in range(len(table[0]))]
        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        lines = []
        for line in table:
            cells = [_padded(cell, width) for cell, width in zip(line[:-1], widths)]
            last = " " * (widths[-1] - _native._display_width(line[-1])) + line[-1]
            lines.append("  ".join([*cells, last]).rstrip())
        lines.insert(1, rule)
        lines.append(rule)
        lines.append(f"parameters: {self.total_params:,} (trainable: {self.trainable_params:,})")
        if self.buffer_numbers:
            lines.append(f"numbers in buffers: {self.buffer_numbers:,}")
        lines.append(f"memory: {_memory(self.total_bytes)}")
        return "\n".join(lines)

    __repr__ = __str__


def summary(model: Module, *inputs: Any, input_size: Optional[Sequence[int]] = None, **keywords: Any) -> Summary:
    """A table with a line for each module: where it is, what it is, what it gives, and how many parameters it has
    itself.

    With `inputs`, or with the `input_size` of one tensor, the model is called once, without gradients and in eval mode,
    to see the shapes of what its modules give."""
    if input_size is not None:
        first = next(iter(model.parameters()), None)
        dtype = first.dtype if first is not None and first.is_floating_point() else _native.get_default_dtype()
        device: Union[_native.device, str] = first.device if first is not None else "cpu"
        inputs = (_native.zeros(tuple(input_size), dtype=dtype, device=device),)
    outputs: dict[int, str] = {}
    if inputs or keywords:
        _call_with_hooks(model, inputs, keywords, outputs)
    rows: list[dict[str, Any]] = []
    counted: set[int] = set()
    total = trainable = numbers = size = 0
    for path, module in model.named_modules():
        own = shared = 0
        has_params = False
        for parameter in module.parameters(recurse=False):
            has_params = True
            if id(parameter) in counted:
                shared = 1
                continue
            counted.add(id(parameter))
            own += parameter.numel()
            trainable += parameter.numel() if parameter.requires_grad else 0
            size += parameter.numel() * parameter.element_size()
        for buffer in module.buffers(recurse=False):
            if id(buffer) not in counted:
                counted.add(id(buffer))
                numbers += buffer.numel()
                size += buffer.numel() * buffer.element_size()
        total += own
        depth = path.count(".") + 1 if path else 0
        rows.append({"name": path, "label": "  " * depth + (path.rpartition(".")[2] if path else "(all)"),
                     "type": type(module).__name__, "output": outputs.get(id(module), ""), "params": own,
                     "shared": bool(shared), "has_params": has_params})
    return Summary(rows, total, trainable, numbers, size)


def _call_with_hooks(model: Module, inputs: tuple[Any, ...], keywords: dict[str, Any], outputs: dict[int, str]) -> None:
    """Calls the model once and notes what each module gives."""
    from . import no_grad

    handles, modes = [], [(module, module.training) for module in model.modules()]
    try:
        for module in model.modules():
            def note(which: Module, _inputs: Any, output: Any) -> None:
                outputs[id(which)] = _shape(output)
            handles.append(module.register_forward_hook(note))
        model.eval()
        with no_grad():
            model(*inputs, **keywords)
    finally:
        for handle in handles:
            handle.remove()
        for module, mode in modes:
            module.training = mode
