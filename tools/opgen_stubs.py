"""The part of opgen that writes the type stubs of the ops, python/facula/_ops/__init__.pyi: the functions, and a class
_TensorOps with the methods, from which the stub of Tensor derives. What is not an op is in python/facula/_native.pyi, by
hand. At run time there is no facula._ops.
"""
import ast
import keyword
import re
from pathlib import Path

import opgen_python as python

# Schema type -> Python type. The builtin ones have aliases, because `float` is also a dtype and a method.
TYPES = {
    "Tensor": "Tensor", "Tensor[]": "Sequence[Tensor]", "Tensor?[]": "Sequence[Tensor | None]", "Scalar": "_Number",
    "int": "_int", "int[]": "_Ints", "float": "_float", "bool": "_bool", "str": "_str", "ScalarType": "_dtype",
    "Layout": "_layout", "Device": "_Device", "MemoryFormat": "_memory_format", "Generator": "Generator",
}
RESULTS = {"Tensor": "Tensor", "Tensor[]": "tuple[Tensor, ...]", "bool": "_bool", "int": "_int", "Scalar": "_Number",
           "void": "None"}
# Ops that facula itself does not show, as in python/facula/__init__.py.
HIDDEN = ("_", "special_", "new_")
HEAD = """\
# The types of the ops; {header}.
# mypy: disable-error-code="overload-overlap"
from builtins import bool as _bool, complex as _complex, float as _float, int as _int, str as _str
from collections.abc import Sequence
from typing import NamedTuple, Union, overload
from typing_extensions import TypeAlias

from facula._native import (
    Generator,
    Tensor,
    device as _device_type,
    dtype as _dtype,
    layout as _layout,
    memory_format as _memory_format,
)

_Number: TypeAlias = Union[_int, _float, _complex]
_Ints: TypeAlias = Union[_int, Sequence[_int]]
_Device: TypeAlias = Union[_device_type, _str, _int]
"""


def result_class(op):
    return f"_{op.name}_result"


class Stub:
    """One signature: its parameters as text and its result."""

    def __init__(self, form, method, spread=False):
        d = form.d
        self.params = ["self"] if method else []
        keyword_only = False
        for part in form.parts:
            if part == "*":
                keyword_only = True
                self.params.append(part)
                continue
            type, _, rest = part.partition(" ")
            name, _, default = rest.partition("=")
            if name == "self" and method or name == "out" and method:
                continue
            if name == "self":
                name = "input"
            if spread and not keyword_only:
                self.params.append(f"*{name}: _int")
                continue
            self.params.append(self.param(type, name, default, d))
        if spread and "*" in self.params:
            self.params.remove("*")
        if self.params and self.params[-1] == "*":
            self.params.pop()
        self.result = self.result_of(d, form.inplace)

    @staticmethod
    def param(type, name, default, d):
        optional = type.endswith("?") or default == "None"
        type = type.rstrip("?!")
        shown = f"tuple[{', '.join(['Tensor'] * len(d.results))}]" if type.startswith("Outs") else TYPES[type]
        if optional:
            shown += " | None"
        if keyword.iskeyword(name):
            name += "_"
        if not default:
            return f"{name}: {shown}"
        simple = default in ("None", "True", "False") or default[0] in "-.0123456789\"'"
        return f"{name}: {shown} = " + (default.replace("'", '"') if simple else "...")

    @staticmethod
    def result_of(d, inplace):
        if inplace:
            return "Tensor"
        if len(d.results) == 1:
            return RESULTS[d.results[0][0]]
        if all(name for _, name in d.results):
            return result_class(d.op)
        return f"tuple[{', '.join(['Tensor'] * len(d.results))}]"

    @property
    def text(self):
        return f"({', '.join(self.params)}) -> {self.result}"


def spreads(form, method):
    """Whether `f(1, 2)` means `f((1, 2))`: a list is all that may be given without its name."""
    positional = form.parts[:form.parts.index("*")] if "*" in form.parts else form.parts
    positional = [p for p in positional if not (method and p.split(" ")[1] == "self")]
    return len(positional) == 1 and positional[0].split(" ")[0].rstrip("?") == "int[]"


def stubs_of(forms, method):
    made = []
    for form in forms:
        if method and form.d.self_arg is None:
            continue
        made.append(Stub(form, method))
        if spreads(form, method):
            made.append(Stub(form, method, spread=True))
    texts = {stub.text: stub for stub in made}
    # A list may be one number, so an overload for the number alone says nothing new.
    return [stub for text, stub in texts.items()
            if (general := re.sub(r"\b_int\b", "_Ints", text)) == text or general not in texts]


def names_of(op, name):
    """An op's or in-place op's own name and its aliases, as the binding has them."""
    return [name] + [a + ("_" if name.endswith("_") and not a.endswith("_") else "") for a in op.aliases
                     if name != op.name or not a.endswith("_")]


def definition(name, stubs, doc, indent, wrap):
    """The lines of a function or method. An editor shows the doc of the first overload for all of them."""
    lines, pad = [], " " * indent
    for i, stub in enumerate(stubs):
        if len(stubs) > 1:
            lines.append(f"{pad}@overload")
        head = f"{pad}def {name}{stub.text}:"
        if len(head) > 115:
            lines += [f"{pad}def {name}("] + [f"{pad}    {param}," for param in stub.params]
            head = f"{pad}) -> {stub.result}:"
        if i > 0:
            lines.append(head + " ...")
            continue
        text = wrap(doc.replace("\\", "\\\\").replace('"""', "'''"), 110 - indent)
        lines.append(head)
        if len(text) == 1:
            lines.append(f'{pad}    """{text[0]}"""')
        else:
            lines += [f'{pad}    """{text[0]}'] + [f"{pad}    {line}" for line in text[1:]] + [f'{pad}    """']
    return lines


def written_by_hand():
    """Functions that facula takes from _functions.py, though there are ops of these names."""
    source = Path(__file__).resolve().parent.parent / "python/facula/_functions.py"
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "__all__":
            return set(ast.literal_eval(node.value))
    raise ValueError(f"{source}: no __all__")


def stub_file(families, header, wrap):
    lines = HEAD.format(header=header).splitlines()
    functions, methods, names = [], [], []
    for ops in families.values():
        for op in ops:
            named = next((d for d in op.defs if len(d.results) > 1 and all(n for _, n in d.results)), None)
            if named:
                lines += ["", f"class {result_class(op)}(NamedTuple):"]
                lines += [f"    {name}: Tensor" for _, name in named.results]
            for name, _, forms, is_function, is_method in python.entries(op):
                for alias in names_of(op, name):
                    if is_function:
                        names.append(alias)
                        functions += [""] + definition(alias, stubs_of(forms, False), op.doc, 0, wrap)
                    if is_method:
                        methods += [""] + definition(alias, stubs_of(forms, True), op.doc, 4, wrap)
    shown = sorted(name for name in set(names) - written_by_hand() if not name.startswith(HIDDEN))
    listed = wrap(", ".join(f'"{name}"' for name in shown), 112)
    lines += ["", "__all__ = ["] + [f"    {line}" for line in listed] + ["]"]
    return lines + functions + ["", "class _TensorOps:"] + methods[1:]


def return_types(families, header):
    lines = [f"# The types of results with names; {header}."]
    for ops in families.values():
        for op in ops:
            if any(len(d.results) > 1 and all(n for _, n in d.results) for d in op.defs):
                lines.append(f"from facula._ops import {result_class(op)} as {op.name}")
    return lines


def outputs(families, header, wrap):
    return {"python/facula/_ops/__init__.pyi": stub_file(families, header, wrap),
            "python/facula/_ops/return_types.pyi": return_types(families, header)}
