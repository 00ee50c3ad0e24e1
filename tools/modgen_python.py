"""The part of modgen that writes Python: for each family a file of classes, and one file of functional forms."""

import ast
import re
from pathlib import Path

from modgen_book import CHOICES

ROOT = Path(__file__).resolve().parents[1]
HAND = ["container", "encoder"]  # files of modules that no book can describe: they hold other modules

TYPES = {"int": "int", "int?": "Optional[int]", "float": "float", "float?": "Optional[float]", "bool": "bool", "str": "str",
         "Tensor": "Tensor", "Tensor?": "Optional[Tensor]", "int[]": "Union[int, Sequence[int]]", "ScalarType?": "Optional[_dtype]",
         "activation": "Union[str, Callable[[Tensor], Tensor]]"}


def annotated(arg):
    kind = arg.type
    if kind in TYPES:
        return TYPES[kind]
    if kind in CHOICES:
        return "str"
    return "Union[str, int, Sequence[int]]" if kind.startswith("padding") else "Union[int, Sequence[int]]"


def default_of(arg, args):
    text = arg.default
    if text in {a.name for a in args}:
        return "None"
    return repr(text) if arg.type in CHOICES or arg.type == "str" else text


def parameter(arg, args):
    kind = annotated(arg)
    if arg.required:
        return f"{arg.python}: {kind}"
    default = default_of(arg, args)
    if default == "None" and not kind.startswith("Optional"):
        kind = f"Optional[{kind}]"
    return f"{arg.python}: {kind} = {default}"


def makes_tensors(m):
    return any(not h.given_by for h in m.held) or m.build_hand


def parameters_of(m):
    parts = [parameter(a, m.options) for a in m.options if not a.name.startswith("cpp_")]
    if makes_tensors(m):
        parts += ["device: Any = None", "dtype: Optional[_dtype] = None"]
    return parts


def signature(m):
    """For the docs: without types."""
    return ", ".join(re.sub(r": [^=]+?( = |$)", lambda k: "=" if k[1] else "", p) for p in parameters_of(m))


def functional_line(f):
    return f"{f.name}({', '.join(re.sub(r': [^=]+?( = |$)', lambda k: '=' if k[1] else '', parameter(a, f.args)) for a in f.args)})"


def wrapped_call(head, parts, tail, indent):
    """`head(parts)tail`, over several lines where one is too short."""
    line = f"{indent}{head}({', '.join(parts)}){tail}"
    if len(line) <= 120:
        return [line]
    out, pad = [f"{indent}{head}("], indent + "    "
    for part in parts:
        if len(out) > 1 and len(out[-1]) + len(part) + 3 <= 120:
            out[-1] += f" {part},"
        else:
            out.append(f"{pad}{part},")
    out[-1] = out[-1].rstrip(",")
    return out + [f"{indent}){tail}"]


def doc_lines(text, indent):
    words, lines = text.split(), [""]
    for word in words:
        if len(lines[-1]) + len(word) + 1 > 106 and lines[-1]:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    if len(lines) == 1:
        return [f'{indent}"""{lines[0]}"""']
    return [f'{indent}"""{lines[0]}'] + [indent + line for line in lines[1:]] + [f'{indent}"""']


def stored(m, arg):
    """Whether an option becomes an attribute; one that has the name of a tensor is seen by that tensor."""
    return not arg.python.startswith("_") and m.holds(arg.name) is None and arg.name not in {n for _, n in m.members}


def normal_form(arg, options):
    """The value of an option as the module keeps it."""
    name = arg.python
    if arg.default in {a.name for a in options}:
        source = next(a for a in options if a.name == arg.default)
        name = f"{source.python} if {name} is None else {name}"
    size = re.fullmatch(r"(int|padding)\[(\d)\]", arg.type)
    if size:
        return f"_sizes({name}, {size[2]})" if size[1] == "int" else f"{name} if isinstance({name}, str) else _sizes({name}, {size[2]})"
    return f"_sizes({name})" if arg.type == "int[]" else name


def attribute(m, name):
    """What a name of the description is inside of a method."""
    if name in {a.name for a in m.forward_args}:
        return name
    arg = m.option(name)
    return f"self.{arg.python if arg is not None and stored(m, arg) else name}"


def dims_text(m, dims):
    def one(text):
        text = re.sub(r"[a-z_]\w*", lambda w: attribute(m, w[0]), text)
        return text.replace("/", "//")
    parts = [f"*{one(d[1:])}" if d.startswith("*") else one(d) for d in dims]
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def registered(m, held):
    if held.given_by:
        arg = m.option(held.given_by)
        return [f'        self.register_{held.kind}("{held.name}", {arg.python})']
    sizes = dims_text(m, held.dims)
    if held.kind == "parameter":
        made, missing = f"self.{held.name} = Parameter(_native.empty({sizes}, **factory))", f'self.register_parameter("{held.name}", None)'
    else:
        factory = f'**{{**factory, "dtype": _native.{held.dtype}}}' if held.dtype else "**factory"
        value = f"_native.full({sizes}, {held.fill or '0'}{'' if held.dtype else '.0'}, {factory})"
        made, missing = f'self.register_buffer("{held.name}", {value})', f'self.register_buffer("{held.name}", None)'
    if not held.when:
        return [f"        {made}"]
    test = " and ".join(attribute_or_argument(m, w) for w in held.when)
    return [f"        if {test}:", f"            {made}", "        else:", f"            {missing}"]


def attribute_or_argument(m, option):
    arg = m.option(option)
    return f"self.{arg.python}" if stored(m, arg) else arg.python


def requirement(m, words):
    name, kind, *rest = words
    mine = m.option(name).python
    if kind == "between":
        return f'        _meaning.require_between("{m.name}", "{mine}", {mine}, {rest[0]}, {rest[1]})'
    if kind == "positive":
        return f'        _meaning.require_positive("{m.name}", "{mine}", {mine})'
    other = m.option(rest[0]).python
    return f'        _meaning.require_{kind}("{m.name}", "{mine}", {mine}, "{other}", {other})'


def init_method(m):
    out = ["    def reset_parameters(self) -> None:", '        """Draws the initial values anew."""']
    for what, (recipe, arguments) in m.init.items():
        values = []
        for text in arguments:
            key, _, value = text.rpartition("=")
            value = attribute(m, value) if re.match(r"[a-z_]", value) else value
            values.append(f"{key}={value}" if key else value)
        line = f"init.{recipe}({', '.join([f'self.{what}'] + values)})"
        if m.holds(what).when:
            out += [f"        if self.{what} is not None:", f"            {line}"]
        else:
            out.append(f"        {line}")
    return out + [""]


def forward_method(m):
    names = ", ".join(f"{a.name}: {annotated(a)}" + ("" if a.required else f" = {default_of(a, m.forward_args)}") for a in m.forward_args)
    values = [attribute(m, n) for n in m.forward_call.args]
    call = m.forward_call
    head = f"{call.method_of}.{call.name}" if call.method_of else f"F.{call.name}"
    return [f"    def forward(self, {names}) -> Tensor:", *wrapped_call(f"return {head}", values, "", "        "), ""]


def repr_method(m):
    parts, later = [], []
    for item in m.print_python:
        bare, name, unless_default, label, _ = re.fullmatch(r"(=?)(\w+)(\??)(?::(\w+))?(\{\})?", item).groups()
        arg = m.option(name) or next(a for a in m.options if a.python == name)
        value = attribute_or_argument(m, arg.name)
        if not stored(m, arg):
            value = f"self.{arg.name} is not None"
        quoted = "!r" if arg.type == "str" else ""
        text = "" if bare else f"{label or arg.python}="
        if unless_default:
            default = default_of(arg, m.options)
            size = re.fullmatch(r"(int|padding)\[(\d)\]", arg.type)
            if size:
                default = f"({', '.join([default] * int(size[2]))}{',' if size[2] == '1' else ''})"
            test = value.replace(" is not None", " is None") if arg.default == "True" and " is not None" in value else \
                f"{value} is not None" if default == "None" else f"not {value}" if default == "True" else value if default == "False" \
                else f"{value} != {default}"
            shown = "False" if " is None" in test else f"{{{value}{quoted}}}"
            later.append((test, f'{"f" if "{" in shown else ""}"{text}{shown}"'))
        else:
            parts.append(f"{text}{{{value}{quoted}}}")
    out = ["    def extra_repr(self) -> str:"]
    if not parts and not later:
        return out + ['        return ""', ""]
    first = f'f"{", ".join(parts)}"' if parts else None
    if not later:
        return out + [f"        return {first}", ""]
    out.append(f"        parts = [{first or ''}]")
    for test, text in later:
        out += [f"        if {test}:", f"            parts.append({text})"]
    return out + ['        return ", ".join(parts)', ""]


def class_text(m):
    bases = "Module"
    if m.forward_hand or m.build_hand or m.init_hand or m.python_base:
        bases = f"_meaning.{m.python_base or m.name}, Module"
    out = ["", "", f"class {m.name}({bases}):", *doc_lines(m.doc, "    ")]
    kept = [a for a in m.options if stored(m, a)]
    fields = [f"    {a.python}: {kept_type(a)}" for a in kept]
    fields += [f"    {h.name}: {'Optional[Tensor]' if h.when or h.given_by else 'Tensor'}" for h in m.held]
    fields += [f"    {name}: Tensor" for kind, name in m.members if kind == "Tensor"]
    out += [""] + (fields + [""] if fields else [])
    if m.expects:
        text = ", ".join(f'("{a}", {repr(d) if d == "last" else d}, "{m.option(o).python}")' for a, d, o in m.expects)
        out += [f"    _expects = ({text},)", ""]
    if m.takes_anything:
        out += ["    def __init__(self, *args: Any, **kwargs: Any) -> None:", "        super().__init__()", ""]
    elif m.options:
        out += wrapped_call("def __init__", ["self"] + parameters_of(m), " -> None:", "    ")
        out += ["        super().__init__()"]
        out += [requirement(m, r) for r in m.requires]
        if makes_tensors(m):
            out.append('        factory = {"device": device, "dtype": dtype}')
        out += [f"        self.{a.python} = {normal_form(a, m.options)}" for a in kept]
        if m.build_hand:
            hidden = [f"{a.python}={a.python}" for a in m.options if not stored(m, a)]
            out.append(f"        self._build({', '.join(['factory'] + hidden)})")
        else:
            out += [line for h in m.held for line in registered(m, h)]
            if m.has_init:
                out.append("        self.reset_parameters()")
        out.append("")
    if m.init and not m.init_hand:
        out += init_method(m)
    if m.forward_call is not None:
        out += forward_method(m)
    if m.print_python is not None and m.print_python:
        out += repr_method(m)
    while out[-1] == "":
        out.pop()
    return out


def kept_type(arg):
    size = re.fullmatch(r"(int|padding)\[(\d)\]", arg.type)
    if size:
        return "Union[str, tuple[int, ...]]" if size[1] == "padding" else "tuple[int, ...]"
    return "tuple[int, ...]" if arg.type == "int[]" else annotated(arg)


def family_text(family):
    out = [f'"""{family.title} Generated by tools/modgen.py from modules/{family.name}.modules; edit that."""',
           "from __future__ import annotations", "", "from collections.abc import Callable, Sequence  # noqa: F401",
           "from typing import Any, Optional, Union  # noqa: F401", "", "from ... import _native  # noqa: F401",
           "from ..._native import Tensor, dtype as _dtype  # noqa: F401", "from .. import _meaning, functional as F, init  # noqa: F401",
           "from .._meaning import sizes as _sizes  # noqa: F401", "from ..parameter import Parameter  # noqa: F401",
           "from .module import Module", "", f"__all__ = [{', '.join(repr(m.name).replace(chr(39), chr(34)) for m in family.modules)}]"]
    for m in family.modules:
        out += class_text(m)
    return "\n".join(wrap_all(out)) + "\n"


def wrap_all(lines):
    """The list of names, over several lines where one is too short."""
    out = []
    for line in lines:
        if line.startswith("__all__") and len(line) > 120:
            names = line[len("__all__ = ["):-1].split(", ")
            out.append("__all__ = [")
            row = "   "
            for name in names:
                if len(row) + len(name) + 2 > 118:
                    out.append(row)
                    row = "   "
                row += f" {name},"
            out += [row, "]"]
        else:
            out.append(line)
    return out


def listed(names):
    """The names in full: type checkers do not follow lists that are put together."""
    return f"__all__ = [{', '.join(chr(34) + n + chr(34) for n in names)}]"


def names_by_hand(name):
    """What a file of modules written by hand lists as its own."""
    tree = ast.parse((ROOT / "python" / "facula" / "nn" / "modules" / f"{name}.py").read_text())
    return next(ast.literal_eval(n.value) for n in tree.body if isinstance(n, ast.Assign) and n.targets[0].id == "__all__")


def to_op(arg, function, args):
    if arg.type == "reduction":
        return f'_reduction({arg.python}, "{function}")'
    if arg.default in {a.name for a in args}:
        return f"{arg.default} if {arg.python} is None else {arg.python}"
    return arg.python


def functional_text(f):
    """A function, or the op itself where nothing lies between."""
    by_name = {a.name: a for a in f.args}
    op, given = f"_native.{f.call.name}", f.call.args
    names = [a.python for a in f.args]
    same = [["input" if n == "self" else n for n in o.names] for o in f.overloads if o.positional == len(o.names)]
    changed = any(a.type == "reduction" or a.default in names for a in f.args)
    if not f.call.inplace and names in same and given == [a.name for a in f.args] and not changed:
        return [f"{f.name} = {op}"]
    overload = next(o for o in f.overloads if len(given) <= len(o.names))
    values = [to_op(by_name[n], f.name, f.args) for n in given]
    # What the op takes by name only is given by name.
    values = ", ".join(v if i < overload.positional else f"{overload.names[i]}={v}" for i, v in enumerate(values))
    call = f"{op}({values})"
    if f.call.inplace:
        made = f"{op}_({values})" if f.op_inplace else f"{by_name[given[0]].python}.copy_({call})"
        call = f"{made} if inplace else {call}"
    return ["", "", *wrapped_call(f"def {f.name}", [parameter(a, f.args) for a in f.args], " -> Tensor:", ""), *doc_lines(f.doc, "    "),
            f"    return {call}", "", ""]


def files(families):
    made = {}
    for family in families:
        made[f"python/facula/nn/modules/{family.name}.py"] = family_text(family)
    functionals = [f for family in families for f in family.functionals if f.call is not None and not f.python_hand]
    out = ['"""Functional forms that are one op each. Generated by tools/modgen.py from modules/*.modules; edit those."""',
           "from __future__ import annotations", "", "from collections.abc import Sequence", "from typing import Optional, Union", "",
           "from .. import _native", "from .._native import Tensor, dtype as _dtype  # noqa: F401", "from ._reduction import reduction as _reduction", "",
           f"__all__ = [{', '.join(repr(f.name).replace(chr(39), chr(34)) for f in functionals)}]", ""]
    for f in functionals:
        out += functional_text(f)
    text = re.sub(r"\n{4,}", "\n\n\n", "\n".join(wrap_all(out))).rstrip("\n")
    made["python/facula/nn/_functional.py"] = text + "\n"
    lines = ['"""The modules. Generated by tools/modgen.py from modules/*.modules; edit those."""',
             "from .module import Module"]
    lines += [f"from .{name} import *  # noqa: F401,F403" for name in sorted([f.name for f in families if f.modules] + HAND)]
    names = ["Module"] + [m.name for f in families for m in f.modules] + [n for name in HAND for n in names_by_hand(name)]
    made["python/facula/nn/modules/__init__.py"] = "\n".join(wrap_all(lines + ["", listed(names)])) + "\n"
    out = ['"""Neural networks: modules, the functions they are made of, initial values, and helpers for their parameters.',
           'Generated by tools/modgen.py from modules/*.modules; edit those."""',
           "from . import functional, init, utils", "from . import modules", "from .modules import *  # noqa: F401,F403",
           "from .parameter import Buffer, Parameter", "",
           listed(["functional", "init", "modules", "utils", "Buffer", "Parameter"] + names)]
    made["python/facula/nn/__init__.py"] = "\n".join(wrap_all(out)) + "\n"
    return made
