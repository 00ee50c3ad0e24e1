"""The part of opgen that writes boxed calls for the tests: every form except methods and aliases, called with values in
variants. Forms are made by opgen itself and handed in.
"""


def boxed_call(form):
    """The call and, for each C++ parameter, what its schema type is called."""
    d = form.overload
    arguments, described = [], []
    outs = d.out_names if form.variant == "out" else []
    for name in outs:
        arguments.append(f"tensor_at(a, {len(arguments)})")
        described.append(f'{{"Tensor", "{name}", true}}')
    for a in (d.out_args if form.variant == "out" else d.args):
        i = len(arguments)
        kind = a.type
        if kind == "Tensor" and a.name == "self" and form.variant.startswith("inplace"):
            arguments.append(f"tensor_at(a, {i})")
        else:
            type = a.cpp.removeprefix("const ").removesuffix("&")
            default = f", {a.cpp_default}" if a.cpp_default is not None else ""
            arguments.append(f"arg<{type}>(a, {i}{default})")
        described.append(f'{{"{kind}", "{a.name}", {str(a.default is None).lower()}}}')
    if form.is_method:
        index = 0 if d.self_arg is None else d.args.index(d.self_arg)
        object = arguments.pop(index)
        call = f"{object}.{form.name}({', '.join(arguments)})"
    else:
        call = f"facula::{form.name}({', '.join(arguments)})"
    return call, described


def boxed_entry(form):
    d = form.overload
    call, described = boxed_call(form)
    variant = {"function": "Function", "method": "Function", "inplace": "Inplace", "inplace_method": "Inplace",
               "out": "Out"}[form.variant]
    schema = d.schema.replace("\\", "\\\\").replace('"', '\\"')
    if d.result_cpp == "void":
        run = f"{{ {call}; return std::vector<BoxedValue>(); }}"
    else:
        run = f"{{ return box({call}); }}"
    shown = d.op.name if form.variant == "function" else form.name
    return [f'      {{"{shown}", "{d.op.name}", "{schema}", {{{", ".join(described)}}},',
            f"       OpKind::{d.op.kind.capitalize()}, BoxedVariant::{variant},", f"       [](BoxedArgs a) {run}}},"]


def boxed_forms(d, forms):
    """Each of function, in-place and out once: as a free function where there is one, else as a method."""
    by_variant = {}
    for form in forms(d):
        by_variant.setdefault(form.variant.removesuffix("_method").replace("method", "function"), form)
    return by_variant.values()


def boxed_cpp(family, ops, forms, header):
    lines = [f"// Calls of the ops of ops/{family}.ops with boxed values; {header}.",
             "#include <facula/generated/functions.h>", "", '#include "generated/boxed_calls.h"', "",
             "namespace facula::testing {", "",
             f"void add_boxed_{family}(std::vector<BoxedOp>& table) {{", "  static const BoxedOp kOps[] = {"]
    for op in ops:
        for d in op.defs:
            for form in boxed_forms(d, forms):
                lines += boxed_entry(form)
    return lines + ["  };", "  table.insert(table.end(), std::begin(kOps), std::end(kOps));", "}", "",
                    "}  // namespace facula::testing"]


def boxed_h(families, header):
    lines = [f"// Every op as an entry that a test can call by name; {header}.", "#pragma once", "",
             '#include "cpp/boxed.h"', "", "namespace facula::testing {", ""]
    lines += [f"void add_boxed_{family}(std::vector<BoxedOp>& table);" for family in families]
    return lines + ["", "// All functions, in-place functions and out functions, in the order of the book.",
                    "const std::vector<BoxedOp>& boxed_ops();", "", "}  // namespace facula::testing"]


def boxed_table_cpp(families, header):
    lines = [f"// The table of boxed calls; {header}.", '#include "generated/boxed_calls.h"', "",
             "namespace facula::testing {", "", "const std::vector<BoxedOp>& boxed_ops() {",
             "  static const std::vector<BoxedOp> table = [] {", "    std::vector<BoxedOp> all;"]
    lines += [f"    add_boxed_{family}(all);" for family in families]
    return lines + ["    return all;", "  }();", "  return table;", "}", "", "}  // namespace facula::testing"]
