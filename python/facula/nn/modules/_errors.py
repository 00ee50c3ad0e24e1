"""Errors that name the module they happened in: its path, what it is, the sizes that met, the option that does not fit."""
from __future__ import annotations

import inspect
from typing import Any


def explain(module: Any, error: BaseException, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Adds to the error's text where in the network it was. Runs in every module that the error passes on its way up, from
    the inside; each finds the place of the innermost one in itself."""
    if len(error.args) != 1 or not isinstance(error.args[0], str):
        return
    inner = error.__dict__.get("_facula_module")
    if inner is None:
        error.__dict__["_facula_text"] = error.args[0]
        error.__dict__["_facula_where"] = _where(module, args, kwargs)
        error.__dict__["_facula_module"] = inner = module
    path = next((name for name, each in module.named_modules() if each is inner), None)
    if path is None:
        return
    text, where = error.__dict__["_facula_text"], error.__dict__["_facula_where"]
    place = f"'{path}', " if path else ""
    error.args = (f"{text}\nin module {place}{where}",)


def _where(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    name = f"{type(module).__name__}({module.extra_repr()})" if not module._modules else type(module).__name__
    tensors = ", ".join(f"{n} {list(t.shape)}" for n, t in module._parameters.items() if t is not None)
    text = f"{name} with {tensors}." if tensors else f"{name}."
    try:
        given = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    except TypeError:
        return text
    for argument, dim, option in module._expects:
        value = given.get(argument)
        if value is not None and hasattr(value, "shape"):
            text += _contradiction(argument, list(value.shape), dim, option, getattr(module, option))
    return text


def _contradiction(argument: str, shape: list[Any], dim: Any, option: str, wanted: Any) -> str:
    if dim == "last":
        wanted = list(wanted)
        if len(shape) >= len(wanted) and shape[len(shape) - len(wanted):] == wanted:
            return ""
        return (f" `{argument}` has the shape {shape}, whose last sizes are not {option}={wanted}: change {option} or the "
                "input.")
    at = dim + len(shape) if dim < 0 else dim
    if not 0 <= at < len(shape):
        return f" `{argument}` is {shape} and has no dim {dim}, which must have the size {option}={wanted}."
    if shape[at] == wanted:
        return ""
    return (f" `{argument}` has the shape {shape} with the size {shape[at]} in dim {dim}, but {option}={wanted}: change "
            f"{option} to {shape[at]}, or the input.")
