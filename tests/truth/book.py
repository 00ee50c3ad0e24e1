"""Reads the op book as far as records need it: which overload a call means, and its arguments in order."""

import ast
import pathlib
import re

from case_file import Device
from dtypes import BY_NAME, DType
from record import MemoryFormat, Options, TensorValue

BOOK = pathlib.Path(__file__).resolve().parents[2] / "ops"


class Parameter:
    def __init__(self, text):
        declaration, _, default = text.partition("=")
        self.type, self.name = declaration.strip().rsplit(None, 1)
        self.required = not default
        self.default = self._literal(default.strip()) if default else None

    @staticmethod
    def _literal(text):
        words = {"{}": None, "Mean": 1, "Sum": 2, "long": BY_NAME["int64"], "contiguous": MemoryFormat("contiguous")}
        return words[text] if text in words else ast.literal_eval(text)

    def accepts(self, x):
        kind = self.type
        if kind.endswith("?"):
            if x is None:
                return True
            kind = kind[:-1]
        kind = re.sub(r"\(.*\)", "", kind)
        if kind == "Tensor":
            return isinstance(x, TensorValue)
        if re.fullmatch(r"Tensor\??\[\d*\]|TensorList", kind):
            return isinstance(x, (list, tuple)) and all(e is None or isinstance(e, TensorValue) for e in x)
        if re.fullmatch(r"(int|SymInt)\[\d*\]", kind):
            return isinstance(x, (list, tuple)) and all(isinstance(e, int) for e in x)
        if re.fullmatch(r"(float|bool|Scalar)\[\d*\]", kind):
            return isinstance(x, (list, tuple)) and all(isinstance(e, (int, float)) for e in x)
        if kind == "Scalar":
            return isinstance(x, (bool, int, float, complex))
        if kind == "int":
            return isinstance(x, int) and not isinstance(x, bool)
        if kind == "float":
            return isinstance(x, (int, float)) and not isinstance(x, bool)
        if kind == "bool":
            return isinstance(x, bool)
        if kind in ("str", "string"):
            return isinstance(x, str)
        if kind in ("ScalarType", "DType", "Dtype"):
            return isinstance(x, DType)
        if kind == "Device":
            return isinstance(x, Device)
        if kind == "TensorOptions":
            return isinstance(x, Options)
        if kind == "MemoryFormat":
            return isinstance(x, MemoryFormat)
        return False

    def convert(self, x):
        if isinstance(x, Options):
            return x.dtype
        kind = self.type.rstrip("?")
        if kind == "float" and isinstance(x, int):
            return float(x)
        return x


class Overload:
    def __init__(self, text):
        self.schema = text.partition(" : ")[0].strip()
        inside = self.schema[1 : self.schema.rindex("->")].strip().removesuffix(")")
        self.parameters, self.positional = [], None
        for part in re.split(r",\s*(?![^\[\(]*[\]\)])", inside):
            if part.strip() == "*":
                self.positional = len(self.parameters)
            elif part.strip():
                self.parameters.append(Parameter(part))
        self.positional = len(self.parameters) if self.positional is None else self.positional

    def bind(self, args, kwargs):
        """The arguments in order up to the last one given, or None when the call does not mean this overload."""
        if len(args) > self.positional or not set(kwargs) <= {p.name for p in self.parameters[len(args) :]}:
            return None
        given = dict(zip((p.name for p in self.parameters), args), **kwargs)
        full, last = [], 0
        for p in self.parameters:
            if p.name not in given:
                if p.required:
                    return None
                full.append(p.default)
                continue
            last = len(full) + 1
            if not p.accepts(given[p.name]):
                return None
            full.append(p.convert(given[p.name]))
        return full[:last]


class Op:
    def __init__(self, name):
        self.name, self.overloads, self.fields = name, [], {}

    def bind(self, args, kwargs):
        for overload in self.overloads:
            full = overload.bind(args, kwargs)
            if full is not None:
                return overload.schema, full
        shown = [type(a).__name__ for a in args] + [f"{k}={type(a).__name__}" for k, a in kwargs.items()]
        raise TypeError(f"{self.name}: no overload takes ({', '.join(shown)})")


def read_book(folder=BOOK):
    ops = {}
    for path in sorted(folder.glob("*.ops")):
        op = None
        for line in path.read_text().splitlines():
            word, _, rest = line.strip().partition(" ")
            if word == "op":
                op = ops[rest.strip()] = Op(rest.strip())
            elif op and word == "def":
                op.overloads.append(Overload(rest))
            elif op and word and not word.startswith("#"):
                op.fields[word] = rest.strip()
    return ops
