"""The part of opgen that writes the Python binding of the ops: for every op one entry with its overloads, each with its
signature in Python's terms and a function that takes the arguments out, runs the op and wraps the result.
"""
import ast

# Schema type -> (getter of python/src/arguments.h without and with a default value).
GETTERS = {
    "Tensor": "tensor", "Tensor?": "optional_tensor", "Tensor[]": "tensors", "Tensor?[]": "optional_tensors",
    "Scalar": "scalar", "Scalar?": "optional_scalar", "int": "integer", "int?": "optional_integer",
    "int[]": "integers", "int[]?": "optional_integers", "float": "real", "float?": "optional_real", "bool": "boolean",
    "bool?": "optional_boolean", "str": "text", "str?": "optional_text", "ScalarType": "dtype",
    "ScalarType?": "optional_dtype", "Device": "device", "MemoryFormat": "memory_format",
    "MemoryFormat?": "optional_memory_format", "Generator?": "optional_generator", "TensorOptions": "options",
}
OPTIONS = ["ScalarType? dtype=None", "Layout? layout=None", "Device? device=None", "bool? pin_memory=False",
           "bool? requires_grad=False"]
# What Python writes without parentheses, or with forms that a schema cannot say: written by hand in python/src.
METHODS_BY_HAND = {"to", "mT", "numpy_T", "real", "imag"}
# How Python spells defaults that have a name of their own in the book.
PYTHON_DEFAULTS = {"Mean": "mean", "long": "int64", "contiguous": "contiguous_format"}


class PythonForm:
    """One overload as Python sees it."""

    def __init__(self, form, d):
        self.d = d
        self.inplace = form == "inplace"
        self.parts, self.values = [], []
        keyword_only = False
        place = 0
        for a in d.args:
            if a.type == "TensorOptions":
                if not keyword_only:
                    self.parts.append("*")
                    keyword_only = True
                self.parts += OPTIONS
                self.values.append((a, f"a.options({place})"))
                place += len(OPTIONS)
                continue
            if a.keyword_only and not keyword_only:
                self.parts.append("*")
                keyword_only = True
            default = "" if a.default is None else "=" + PYTHON_DEFAULTS.get(a.default, a.default)
            # `!` marks what the op writes into: a tensor, never an array in its place.
            written = "!" if self.inplace and a.name == "self" else ""
            self.parts.append(f"{a.type}{written} {a.name}{default}")
            self.values.append((a, self.value(a, place)))
            place += 1
        self.out = None
        if not self.inplace and d.has("out"):
            if not keyword_only:
                self.parts.append("*")
            self.parts.append("Tensor!? out=None" if len(d.results) == 1 else f"Outs{len(d.results)}? out=None")
            self.out = place

    def value(self, a, place):
        if self.inplace and a.name == "self":
            return f"a.written({place})"
        optional = a.type.endswith("?")
        default = f", {a.cpp_default}" if a.default is not None and not optional else ""
        if a.type == "Tensor" and a.default is not None:
            raise ValueError(f"{a.name}: a tensor with a default")
        if optional and a.default not in (None, "None"):
            return f"a.has({place}) ? {a.cpp}(a.{GETTERS[a.type]}({place})) : {a.cpp}({a.cpp_default})"
        return f"a.{GETTERS[a.type]}({place}{default})"

    @property
    def signature(self):
        return "(" + ", ".join(self.parts) + ")"


def body(p):
    """The statements of one overload's function."""
    d, op = p.d, p.d.op
    lines = []
    if p.out is not None:
        lines.append(f"  if (a.has({p.out})) {{")
        outs = ([f"a.written({p.out})"] if len(d.results) == 1
                else [f"a.written({p.out}, {i})" for i in range(len(d.results))])
        values = [v for a, v in p.values if a.type != "TensorOptions"]
        lines += ["  " + line for line in run(f"facula::{op.name}_out", outs + values, op.kind)]
        lines += [f"    return {finish(d, True)};", "  }"]
    if p.inplace:
        name = op.inplace_name
        free = d.has("inplace")
        values = [v for _, v in p.values]
        lines += run(f"facula::{name}" if free else None, values, op.kind)
        lines.append("  return result(made);")
        return lines
    free = d.has("function")
    values = [v for _, v in p.values]
    if free:
        lines += run(f"facula::{op.cpp_name}", values, op.kind)
    else:
        self_index = d.args.index(d.self_arg)
        lines += run(None, values, op.kind, method=op.name, self_index=self_index)
    lines.append(f"  return {finish(d, False)};")
    return lines


def run(function, values, kind, method=None, self_index=0):
    names = [f"v{i}" for i in range(len(values))]
    lines = [f"  auto&& {name} = {value};" for name, value in zip(names, values)]
    work = "kAlwaysRelease" if kind in ("creation", "random") else "a.work()"
    if method is not None:
        rest = [n for i, n in enumerate(names) if i != self_index]
        call = f"{names[self_index]}.{method}({', '.join(rest)})"
    else:
        call = f"{function}({', '.join(names)})"
    return lines + ["  auto made = [&] {", f"    const Released released({work});", f"    return {call};", "  }();"]


def finish(d, out):
    if len(d.results) > 1 and all(name for _, name in d.results):
        types = "Tensor, " * (len(d.results) - 1) + "Tensor"
        made = f"std::tuple<{types}>(made)" if out else "std::move(made)"
        return f"named({d.op.name}_result, result({made}))"
    if len(d.results) > 1:
        types = "Tensor, " * (len(d.results) - 1) + "Tensor"
        return f"result(std::tuple<{types}>(made))"
    return "result(std::move(made))" if d.results[0][0] == "Tensor" else "result(made)"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def entries(op):
    """(Python name, identifier, forms, is a function, is a method) of an op: itself and its in-place form.

    An overload without `self` is no method; the parser leaves it out by itself.
    """
    found = []
    plain = [d for d in op.defs if not op.name.endswith("_") and (d.has("function") or d.has("method"))]
    if plain:
        found.append((op.name, op.name, [PythonForm("plain", d) for d in plain],
                      any(d.has("function") for d in plain),
                      op.name not in METHODS_BY_HAND and any(d.has("method") for d in plain)))
    writing = [d for d in op.defs if d.has("inplace")]
    if writing:
        name = op.inplace_name
        # An in-place op that the book gives as a method only has no free function in C++ either.
        found.append((name, name.rstrip("_") + "_inplace", [PythonForm("inplace", d) for d in writing], True,
                      any(d.has("method") for d in writing)))
    return found


def readable(name, p, method):
    """A signature as people write it: `sum(input, dim, keepdim=False, *, dtype=None, out=None)`."""
    parts = []
    for part in p.parts:
        type_and_name, _, default = part.partition("=")
        word = type_and_name.split()[-1]
        if word == "self":
            if method:
                continue
            word = "input"
        if word == "out" and method:
            continue
        parts.append(word + ("=" + default if default else ""))
    if parts and parts[-1] == "*":
        parts.pop()
    return f"{'Tensor.' if method else ''}{name}({', '.join(parts)})"


def readable_signatures(op):
    """All Python forms of an op, for its docs page."""
    lines = []
    for name, _, forms, is_function, is_method in entries(op):
        if name.startswith("_"):
            continue
        lines += [readable(name, p, False) for p in forms if is_function and not p.inplace]
        lines += [readable(name, p, True) for p in forms if is_method and p.d.self_arg is not None]
    return list(dict.fromkeys(lines))


def text_signature(name, p, method):
    """The head of a doc from which inspect.signature() reads the parameters; None where they cannot be said so."""
    positional = p.parts[:p.parts.index("*")] if "*" in p.parts else p.parts
    lists = [part for part in positional if not (method and part.split()[1] == "self")]
    if len(lists) == 1 and lists[0].split()[0].rstrip("?") == "int[]":
        return None  # `f(1, 2)` means `f((1, 2))`
    shown = readable(name, p, method)
    params = shown[shown.index("(") + 1:-1]
    try:
        arguments = ast.parse(f"def f({params}): pass").body[0].args
        for default in arguments.defaults + [d for d in arguments.kw_defaults if d is not None]:
            ast.literal_eval(default)
    except (SyntaxError, ValueError):
        return None
    first = "$self" if method else "$module"
    return f"{name}({first}{', ' if params else ''}{params})\n--\n\n"


def doc_of(op, forms, wrap, method, name):
    """What help() shows: a signature for each overload, then what the op gives."""
    forms = [p for p in forms if not method or p.d.self_arg is not None]
    text = "\n".join(wrap(op.doc, 100))
    if len(forms) == 1 and (head := text_signature(name, forms[0], method)):
        return head + text
    heads = [readable(name, p, method).removeprefix("Tensor.") for p in forms]
    return "\n".join(dict.fromkeys(heads)) + "\n\n" + text


def family_cpp(family, ops, header, wrap):
    lines = [f"// The ops of ops/{family}.ops for Python; {header}.", "#include <facula/generated/functions.h>", "",
             '#include "arguments.h"', '#include "op_families.h"', "", "namespace facula::python {", "namespace {", ""]
    methods, functions, named = [], [], []
    for op in ops:
        result = next((d.results for d in op.defs if len(d.results) > 1 and all(n for _, n in d.results)), None)
        if result:
            fields = ", ".join(quoted(n) for _, n in result)
            lines += [f'NamedResult {op.name}_result = {{"{op.name}", {{{fields}}}, nullptr}};', ""]
            named.append(f"    &{op.name}_result,")
        for name, ident, forms, is_function, is_method in entries(op):
            for i, p in enumerate(forms):
                unused = "" if p.values or p.out is not None else "[[maybe_unused]] "
                lines += [f"PyObject* {ident}_{i}({unused}Arguments& a) {{"] + body(p) + ["}"]
            lines.append(f"constexpr Overload {ident}_overloads[] = {{")
            lines += [f"    {{{quoted(p.signature)}, {ident}_{i}}}," for i, p in enumerate(forms)]
            lines += ["};", f'constexpr OpEntry {ident}_op = {{"{name}", {ident}_overloads, {len(forms)}}};', ""]
            names = [name] + [a + ("_" if name.endswith("_") and not a.endswith("_") else "") for a in op.aliases
                              if name != op.name or not a.endswith("_")]
            for n in names:
                row = "{{\"{}\", python_function({}<{}_op>), METH_FASTCALL | METH_KEYWORDS, {}}},"
                for wanted, table, kind, method in ((is_method, methods, "op_method", True),
                                                    (is_function, functions, "op_function", False)):
                    if wanted:
                        doc = quoted(doc_of(op, forms, wrap, method, n)).replace("\n", "\\n")
                        table.append("    " + row.format(n, kind, ident, doc))
    lines += ["constexpr PyMethodDef kMethods[] = {"] + methods + ["    {nullptr, nullptr, 0, nullptr},", "};"]
    lines += ["constexpr PyMethodDef kFunctions[] = {"] + functions + ["    {nullptr, nullptr, 0, nullptr},", "};"]
    lines += ["NamedResult* const kNamed[] = {"] + named + ["    nullptr,", "};"]
    lines = [line.replace("constexpr PyMethodDef", "const PyMethodDef") for line in lines]
    lines += ["", "}  // namespace", "", f"const PyMethodDef* {family}_methods() {{ return kMethods; }}",
              f"const PyMethodDef* {family}_functions() {{ return kFunctions; }}",
              f"NamedResult* const* {family}_named() {{ return kNamed; }}", "", "}  // namespace facula::python"]
    return lines


def families_h(families, header):
    lines = [f"// The tables of each family of ops; {header}.", "#pragma once", "", "#include <nanobind/nanobind.h>", "",
             "namespace facula::python {", "", "struct NamedResult;", ""]
    for family in families:
        lines += [f"const PyMethodDef* {family}_methods();", f"const PyMethodDef* {family}_functions();",
                  f"NamedResult* const* {family}_named();"]
    lines += ["", "#define FACULA_OP_FAMILIES(X) " + " ".join(f"X({family})" for family in families)]
    return lines + ["", "}  // namespace facula::python"]


def outputs(families, header, wrap):
    files = {"python/src/generated/op_families.h": families_h(families, header)}
    for family, ops in families.items():
        files[f"python/src/generated/ops_{family}.cpp"] = family_cpp(family, ops, header, wrap)
    return files
