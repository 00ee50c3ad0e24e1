"""The part of modgen that writes C++: for each family a header with options, functional forms, modules and holders, and a
source with what needs no hand: constructors, reset, printing, calls."""

import re

CHOICE_NAMES = {"none": "kNone", "mean": "kMean", "sum": "kSum", "batchmean": "kBatchMean", "zeros": "kZeros", "reflect": "kReflect",
                "replicate": "kReplicate", "circular": "kCircular", "relu": "kReLU", "gelu": "kGELU", "tanh": "kTanh"}
TYPES = {"int": "int64_t", "int?": "std::optional<int64_t>", "float": "double", "float?": "std::optional<double>", "bool": "bool",
         "str": "std::string", "Tensor": "Tensor", "Tensor?": "Tensor", "int[]": "std::vector<int64_t>",
         "ScalarType?": "std::optional<ScalarType>", "reduction": "loss_reduction_t", "kl_reduction": "kl_loss_reduction_t",
         "padding_mode": "conv_padding_mode_t", "activation": "transformer_activation_t", "rnn_nonlinearity": "rnn_nonlinearity_t"}
CHOICES = ("reduction", "kl_reduction", "padding_mode", "activation", "rnn_nonlinearity")


def cpp_type(kind):
    m = re.fullmatch(r"(.+)\[(\d)\]", kind)
    if not m:
        return TYPES[kind]
    array = {"int": "ExpandingArray", "size": "ExpandingArray", "int?": "ExpandingArrayWithOptionalElem",
             "padding": "conv_padding_t"}[m[1]]
    return f"{array}<{m[2]}>"


def by_value(kind):
    return kind in ("int", "float", "bool")


def handed_over(arg):
    """A parameter that is kept: moved where its type has something to move."""
    kind = cpp_type(arg.type)
    numbers = kind.startswith("std::optional<int64_t") or kind.startswith("std::optional<double")
    moves = ("std::" in kind and not numbers) or kind in ("Tensor", "transformer_activation_t")
    return f"std::move({arg.name})" if moves else arg.name


def passed(arg):
    """A parameter of a function."""
    kind = cpp_type(arg.type)
    return f"{kind} {arg.name}" if by_value(arg.type) else f"const {kind}& {arg.name}"


def default_of(arg):
    """The default in C++, or None where the type's own is meant."""
    text = arg.default
    if text in (None, "None"):
        return None
    if arg.type in CHOICES:
        return CHOICE_NAMES[text]
    if arg.type == "str":
        return f'"{text}"'
    return {"True": "true", "False": "false"}.get(text, text)


def linked(arg, args):
    """Whether the default is the value of another argument."""
    return arg.default is not None and arg.default in {a.name for a in args}


def options_struct(name, args, doc):
    """A class of options: what must be given is the constructor's, everything has a setter."""
    leading = [a for a in args if a.required]
    optional_first = not leading and args and not args[0].type.startswith("Tensor")
    if optional_first:
        leading = args[:1]
    followers = [a for a in args if linked(a, args)]
    out = [f"// {doc}", f"class FACULA_API {name} {{", " public:"]
    if leading:
        parameters = []
        for a in leading:
            text = f"{cpp_type(a.type)} {a.name}"
            if optional_first:
                text += f" = {default_of(a) or '{}'}"
            parameters.append(text)
        inits = [f"{a.name}_({handed_over(a)})" for a in leading]
        # A follower is made before what it follows is moved away: members are initialised in the order in which they stand.
        inits = [f"{a.name}_({a.name})" if any(f.default == a.name for f in followers) else i for a, i in zip(leading, inits)]
        inits += [f"{f.name}_({f.default})" for f in followers]
        out.append(f"  {name}({', '.join(parameters)}) : {', '.join(inits)} {{}}")
    for a in args:
        value = None if a in leading or a in followers else default_of(a)
        if value is None and by_value(a.type) and a not in leading:
            value = "{}"
        out.append(f"  FACULA_ARG({cpp_type(a.type)}, {a.name}){f' = {value}' if value is not None else ''};")
    for a in args:
        if a.type.startswith("padding["):
            out += ["", " public:",
                    f"  {name}& {a.name}(std::initializer_list<int64_t> sizes) {{ return {a.name}({cpp_type(a.type[:0] + 'int' + a.type[7:])}(sizes)); }}"]
        if a.type in CHOICES:
            out += [" public:", f"  using {a.name}_t = nn::{cpp_type(a.type)};"]
    out.append("};")
    return out


def functional_signature(f, defaults):
    """The declaration of a functional form, without its end."""
    parameters = []
    for a in f.tensors:
        text = passed(a)
        if defaults and not a.required:
            text += f" = {default_of(a) or '{}'}"
        parameters.append(text)
    if f.options:
        text = f"const {f.struct}FuncOptions& options"
        if defaults and not any(a.required for a in f.options):
            text += " = {}"
        parameters.append(text)
    return f"Tensor {f.name}({', '.join(parameters)})"


def functional_header(f):
    out = []
    if f.options:
        if f.alias_of:
            out.append(f"using {f.struct}FuncOptions = nn::{f.alias_of}Options;")
        else:
            out += options_struct(f"{f.struct}FuncOptions", f.options, f"Options of {f.name}.")
    out += [f"// {line}" for line in wrapped(f.doc, 112)]
    out.append(f"FACULA_API {functional_signature(f, True)};")
    return out


def wrapped(text, width):
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) + 1 > width and lines[-1]:
            lines.append("")
        lines[-1] += (" " if lines[-1] else "") + word
    return lines


def to_op(arg, value):
    """The value of an argument as an op takes it."""
    if arg.type == "Tensor?":
        return f"given({value})"
    if arg.type in ("reduction", "kl_reduction"):
        return f"enumtype::reduction_get_enum({value})"
    return value


def functional_source(f):
    by_name = {a.name: a for a in f.args}
    front = {a.name for a in f.tensors}

    def value(name):
        arg = by_name[name]
        return to_op(arg, name if name in front else f"options.{name}()")

    call = f"facula::{f.call.name}({', '.join(value(n) for n in f.call.args)})"
    out = [f"{functional_signature(f, False)} {{"]
    if f.call.inplace:
        first, *rest = f.call.args
        made = f"facula::{f.call.name}_({', '.join(['self'] + [value(n) for n in rest])})" if f.op_inplace else f"self.copy_({call})"
        out += ["  if (options.inplace()) {", f"    Tensor self = {first};", f"    return {made};", "  }"]
    return out + [f"  return {call};", "}", ""]


def module_value(module, name):
    """What a name of the description is inside of a member function."""
    if name in {a.name for a in module.forward_args} or module.holds(name) or name in {n for _, n in module.members}:
        return name
    if name == "training":
        return "is_training()"
    return f"options.{name}()"


def forward_call(module):
    hidden = {o.name for o in module.options if o.python_only}
    call, values = module.forward_call, [module_value(module, n) for n in module.forward_call.args if n not in hidden]
    if call.method_of:
        return f"{call.method_of}.{call.name}({', '.join(values)})"
    f = module.target
    front, behind = len(f.tensors), []
    given = dict(zip([a.name for a in f.args if not a.python_only], values))
    arguments = values[:front]
    if f.options:
        if f.alias_of == module.name and all(given.get(a.name) == f"options.{a.name}()" for a in f.options):
            arguments.append("options")
        else:
            required = ", ".join(given[a.name] for a in f.options if a.required)
            behind = [f".{a.name}({given[a.name]})" for a in f.options if not a.required and a.name in given]
            arguments.append(f"functional::{f.struct}FuncOptions({required}){''.join(behind)}")
    return f"functional::{f.name}({', '.join(arguments)})"


def constructor_options(m):
    """The options that constructors take as they are: those that must be given, or else the first."""
    required = [a for a in m.cpp_options if a.required]
    return required or [a for a in m.cpp_options[:1] if not a.type.startswith("Tensor")]


def impl_header(m):
    impl, options = f"{m.name}Impl", f"{m.name}Options"
    leading = constructor_options(m)
    out = [f"// {line}" for line in wrapped(m.doc, 112)]
    out += [f"class FACULA_API {impl} : public Cloneable<{impl}> {{", " public:"]
    if m.cpp_options:
        if leading:
            explicit = "explicit " if len(leading) == 1 else ""
            out.append(f"  {explicit}{impl}({', '.join(f'{cpp_type(a.type)} {a.name}' for a in leading)});")
        default = "" if any(a.required for a in m.cpp_options) else " = {}"
        out.append(f"  explicit {impl}(const {options}& options_{default});")
    else:
        out.append(f"  {impl}();")
    out.append("  void reset() override;")
    if m.has_init:
        out.append("  void reset_parameters();")
    if m.print_cpp is not None:
        out.append("  void pretty_print(std::ostream& stream) const override;")
    if m.forward_args:
        out.append(f"  {forward_signature(m, True)};")
    out += [f"  {line}" for line in m.cpp]
    if m.cpp_options:
        out += ["", f"  {options} options;"]
    tensors = [h.name for h in m.held]
    if tensors:
        out.append(f"  Tensor {', '.join(tensors)};")
    out += [f"  {kind} {name}{'' if kind == 'Tensor' or '<' in kind else '{nullptr}'};" for kind, name in m.members]
    if not m.holder:
        return out + ["};", f"FACULA_MODULE({m.name});", ""]
    base = f"ModuleHolder<{impl}>"
    return out + ["};", f"class FACULA_API {m.name} : public {base} {{", " public:", f"  using {base}::ModuleHolder;", f"  using Impl = {impl};",
                  *[f"  {line}" for line in m.holder], "};", ""]


def forward_signature(m, inside):
    parameters = []
    for a in m.forward_args:
        text = passed(a)
        if inside and not a.required:
            text += f" = {default_of(a) or '{}'}"
        parameters.append(text)
    return f"Tensor {'' if inside else m.name + 'Impl::'}forward({', '.join(parameters)})"


def dims_text(dims):
    """The sizes of a tensor: numbers, options and whole lists of sizes (`*kernel_size`)."""
    def one(text):
        return re.sub(r"[a-z_]\w*", lambda w: f"options.{w[0]}()", text)
    if any(d.startswith("*") for d in dims):
        parts = ", ".join(one(d[1:]) if d.startswith("*") else f"Size({one(d)})" for d in dims)
        return f"joined_sizes({{{parts}}})"
    return "{" + ", ".join(one(d) for d in dims) + "}" if dims else "IntArrayRef{}"


def registered(held):
    register = f'register_{held.kind}("{held.name}", '
    if held.given_by:
        return [f"  {held.name} = {register}own_handle(options.{held.given_by}()));"]
    if held.kind == "parameter":
        made = f"facula::empty({dims_text(held.dims)})"
        missing = ", Tensor(), /*requires_grad=*/false"
    else:
        dtype = f", TensorOptions().dtype(k{held.dtype.capitalize()})" if held.dtype else ""
        made = f"facula::full({dims_text(held.dims)}, {held.fill or '0'}{dtype or ', TensorOptions().dtype(get_default_dtype())'})"
        missing = ", Tensor()"
    if not held.when:
        return [f"  {held.name} = {register}{made});"]
    test = " && ".join(f"options.{w}()" for w in held.when)
    return [f"  if ({test}) {held.name} = {register}{made});",
            f"  else {held.name} = register_{held.kind}(\"{held.name}\"{missing});"]


def recipe(m, what, name, arguments):
    """One line of reset_parameters. Tensors that are left out are passed over."""
    values = []
    for text in arguments:
        text = text.partition("=")[2] or text
        values.append(module_value(m, text) if re.match(r"[a-z_]", text) else text)
    test = f"if ({what}.defined()) " if m.holds(what).when else ""
    return f"  {test}init::{name}({', '.join([what] + values)});"


def requirement(m, words):
    name, kind, *rest = words
    value = lambda n: f"options.{n}()"
    if kind == "divisible":
        return f'  require_divisible("{m.name}", "{name}", {value(name)}, "{rest[0]}", {value(rest[0])});'
    if kind == "between":
        return f'  require_between("{m.name}", "{name}", {value(name)}, {rest[0]}, {rest[1]});'
    if kind == "positive":
        return f'  require_positive("{m.name}", "{name}", {value(name)});'
    if kind == "below":
        return f'  require_below("{m.name}", "{name}", {value(name)}, "{rest[0]}", {value(rest[0])});'
    raise SystemExit(f"modgen: {m.place}: unknown requirement {kind!r}; there are divisible, between, positive and below")


def printing(m):
    out = [f"void {m.name}Impl::pretty_print(std::ostream& stream) const {{", f'  Printed(stream, "torch::nn::{m.name}")']
    for item in m.print_cpp:
        word = re.fullmatch(r"(=?)(\w+)(\??)(?::(\w+))?(\{\})?", item)
        bare, name, unless_default, label, braces = word.groups()
        arg = m.option(name)
        value = f"options.{name}()"
        if braces:
            value = f"in_braces({value})"
        shown = f'      .value("{"" if bare else label or name}", {value})'
        if unless_default:
            default = default_of(arg)
            test = f"{value}.has_value()" if default is None else f"{value} != {cpp_type(arg.type)}({default})"
            shown = f'      .value_if({test}, "{"" if bare else label or name}", {value})'
        out.append(shown)
    out[-1] += ";" if not m.print_cpp else ""
    if m.print_cpp:
        out[-1] += ";"
    return out + ["}", ""]


def impl_source(m):
    impl, options = f"{m.name}Impl", f"{m.name}Options"
    out = []
    leading = constructor_options(m)
    requires = [requirement(m, r) for r in m.requires]
    if m.cpp_options:
        if leading:
            names = ", ".join(handed_over(a) for a in leading)
            out.append(f"{impl}::{impl}({', '.join(f'{cpp_type(a.type)} {a.name}' for a in leading)}) : {impl}({options}({names})) {{}}")
        out += [f"{impl}::{impl}(const {options}& options_) : options(options_) {{", *requires, "  reset();", "}"]
    else:
        out.append(f"{impl}::{impl}() {{ reset(); }}")
    out.append("")
    if not m.build_hand:
        body = [line for h in m.held for line in registered(h)]
        if m.has_init:
            body.append("  reset_parameters();")
        out += [f"void {impl}::reset() {{", *body, "}", ""] if body else [f"void {impl}::reset() {{}}", ""]
    if m.init and not m.init_hand:
        out += [f"void {impl}::reset_parameters() {{", "  const NoGradGuard quiet;"]
        out += [recipe(m, what, name, rest) for what, (name, rest) in m.init.items()] + ["}", ""]
    if m.print_cpp is not None:
        out += printing(m)
    if m.forward_call is not None:
        expected = ", ".join(f'{{"{a}", {a}, {"Expected::kLast" if d == "last" else d}, "{o}", {size_list(m, o)}}}' for a, d, o in m.expects)
        out += [f"{forward_signature(m, False)} {{", "  try {", f"    return {forward_call(m)};", "  } catch (const Error& error) {",
                f"    rethrow_in_module(*this, error, {{{expected}}});", "  }", "}", ""]
    elif m.expects and m.forward_hand:
        pass  # what is written by hand says it by hand
    return out


def size_list(m, option):
    kind = m.option(option).type
    return f"options.{option}()" if kind == "int[]" else f"IntArrayRef(options.{option}())"


def header_text(family):
    out = [f"// {family.title} Generated by tools/modgen.py from modules/{family.name}.modules; edit that.", "#pragma once", "",
           *(["#include <facula/nn/any_module.h>"] if any("FORWARD_HAS" in line for m in family.modules for line in m.cpp) else []),
           "#include <facula/nn/cloneable.h>",
           *[f"#include <facula/nn/generated/{n}.h>" for n in sorted(set().union(*[m.neighbours for m in family.modules]) - {family.name})],
           "#include <facula/nn/module_holder.h>", "#include <facula/nn/options.h>", "",
           "namespace facula::nn {", ""]
    for name, args in family.options:
        out += options_struct(f"{name}Options", args, f"Options of {name}.") + [""]
    shared = set()
    for m in family.modules:
        if not m.cpp_options:
            continue
        name = m.options_class or m.name
        if name not in shared:
            out += options_struct(f"{name}Options", m.cpp_options, f"Options of {name}.") + [""]
        shared.add(name)
        if m.options_class:
            out += [f"using {m.name}Options = {name}Options;", ""]
    if family.functionals:
        out += ["namespace functional {", ""]
        for f in family.functionals:
            out += functional_header(f) + [""]
        out += ["}  // namespace functional", ""]
    for m in family.modules:
        out += impl_header(m)
    return "\n".join(out + ["}  // namespace facula::nn"]) + "\n"


def source_text(family):
    out = [f"// What modules/{family.name}.modules says of modules, as code. Generated by tools/modgen.py; edit the book.",
           f"#include <facula/nn/generated/{family.name}.h>", "", '#include "nn/described.h"', "",
           "#include <facula/autograd/modes.h>", "#include <facula/generated/functions.h>", "#include <facula/nn/init.h>", "",
           "#include <ostream>", "", "namespace facula::nn {", ""]
    calls = [f for f in family.functionals if f.call is not None]
    if calls:
        out += ["namespace functional {", ""]
        for f in calls:
            out += functional_source(f)
        out += ["}  // namespace functional", ""]
    for m in family.modules:
        out += impl_source(m)
    return "\n".join(out + ["}  // namespace facula::nn"]) + "\n"


def files(families):
    made = {}
    for family in families:
        made[f"include/facula/nn/generated/{family.name}.h"] = header_text(family)
        made[f"src/nn/generated/{family.name}.cpp"] = source_text(family)
    lines = ["// All modules and functional forms of the book. Generated by tools/modgen.py from modules/*.modules; edit those.", "#pragma once",
             ""] + [f"#include <facula/nn/generated/{f.name}.h>" for f in families]
    made["include/facula/nn/generated/modules.h"] = "\n".join(lines) + "\n"
    return made
