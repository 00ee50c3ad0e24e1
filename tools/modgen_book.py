"""The part of modgen that reads the book of modules and finds the mistakes in it."""

import re
from dataclasses import dataclass, field
from pathlib import Path

CHOICES = {
    "reduction": ["none", "mean", "sum"],
    "kl_reduction": ["none", "batchmean", "sum", "mean"],
    "padding_mode": ["zeros", "reflect", "replicate", "circular"],
    "activation": ["relu", "gelu"],
    "rnn_nonlinearity": ["tanh", "relu"],
}
PLAIN_TYPES = {"int", "int?", "float", "float?", "bool", "str", "Tensor", "Tensor?", "int[]", "ScalarType?", *CHOICES}
SIZED_TYPES = re.compile(r"(int|int\?|size|padding)\[([123])\]")
RECIPES = {"kaiming_uniform_", "xavier_uniform_", "xavier_normal_", "fan_in_uniform_", "uniform_by_", "constant_", "ones_",
           "zeros_", "normal_", "trunc_normal_"}


class BookError(Exception):
    """A mistake in the book, with file and line."""


@dataclass
class Overload:
    """The names of an op's arguments, and how many of them Python takes by place."""
    names: list
    positional: int


@dataclass
class Arg:
    type: str
    name: str
    default: str | None = None  # in Python's words, a choice by its bare name, or the name of another argument
    python: str = ""  # the name in Python, where it differs
    python_only: bool = False

    @property
    def required(self):
        return self.default is None

    def same(self, other):
        return (self.type, self.name, self.default) == (other.type, other.name, other.default)


@dataclass
class Call:
    """`linear(input, weight, bias)` or `input.flatten(dim)`."""
    name: str
    args: list
    method_of: str = ""
    inplace: bool = False


@dataclass
class Held:
    """A parameter or a buffer."""
    kind: str
    name: str
    dims: list = field(default_factory=list)
    when: list = field(default_factory=list)  # options that must be on
    given_by: str = ""  # the option whose tensor it is
    fill: str = ""
    dtype: str = ""


@dataclass
class Functional:
    name: str
    place: str
    args: list = field(default_factory=list)
    call: Call | None = None  # None: written by hand
    struct: str = ""
    plain: bool = False
    python_hand: bool = False
    doc: str = ""
    family: str = ""
    alias_of: str = ""  # the module whose options are this one's

    @property
    def tensors(self):
        """The arguments that stand in front of the options in C++."""
        if self.plain:
            return self.args
        count = 0
        while count < len(self.args) and self.args[count].type.startswith("Tensor") and self.args[count].required:
            count += 1
        return self.args[:count]

    @property
    def options(self):
        return [] if self.plain else [a for a in self.args[len(self.tensors):] if not a.python_only]


@dataclass
class Module:
    name: str
    place: str
    options: list = field(default_factory=list)
    options_class: str = ""  # of several modules together
    held: list = field(default_factory=list)
    members: list = field(default_factory=list)  # further tensors or modules that C++ keeps: (type, name)
    init: dict = field(default_factory=dict)
    init_hand: bool = False
    build_hand: bool = False
    forward_args: list = field(default_factory=list)
    forward_call: Call | None = None
    forward_hand: bool = False
    expects: list = field(default_factory=list)
    requires: list = field(default_factory=list)
    print_cpp: list | None = None
    print_python: list | None = None
    python_base: str = ""
    cpp: list = field(default_factory=list)
    holder: list = field(default_factory=list)
    takes_anything: bool = False
    doc: str = ""
    family: str = ""

    def option(self, name):
        return next((o for o in self.options if o.name == name), None)

    def holds(self, name):
        return next((h for h in self.held if h.name == name), None)

    @property
    def cpp_options(self):
        return [o for o in self.options if not o.python_only]

    @property
    def has_init(self):
        return bool(self.init) or self.init_hand


@dataclass
class Family:
    name: str
    title: str
    functionals: list = field(default_factory=list)
    modules: list = field(default_factory=list)
    options: list = field(default_factory=list)  # further classes of options in C++: (name, arguments)


def split(text):
    """Splits at commas outside of brackets."""
    parts, depth, last = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([") - (c in ")]")
        if c == "," and depth == 0:
            parts.append(text[last:i].strip())
            last = i + 1
    return [p for p in parts + [text[last:].strip()] if p]


def read_args(text, place):
    args = []
    for part in split(text):
        m = re.fullmatch(r"(\S+) (\w+)(?:=(\S+))?(?: as (\w+))?( python_only)?", part)
        if not m:
            raise BookError(f"{place}: not an argument: {part!r}; write TYPE NAME[=DEFAULT][ as PYTHON_NAME][ python_only]")
        if m[1] not in PLAIN_TYPES and not SIZED_TYPES.fullmatch(m[1]):
            raise BookError(f"{place}: unknown type {m[1]!r} of {m[2]}; there are {' '.join(sorted(PLAIN_TYPES))}, int[N], size[N] "
                            "and padding[N]")
        if m[1] in CHOICES and m[3] is not None and m[3] not in CHOICES[m[1]]:
            raise BookError(f"{place}: {m[3]!r} is not a {m[1]}; there are {' '.join(CHOICES[m[1]])}")
        args.append(Arg(m[1], m[2], m[3], m[4] or m[2], bool(m[5])))
    return args


def read_signature(text, place):
    m = re.fullmatch(r"\((.*?)\) -> Tensor(.*)", text)
    if not m:
        raise BookError(f"{place}: not a signature: {text!r}; write (ARGUMENTS) -> Tensor")
    return read_args(m[1], place), m[2].strip()


def read_call(text, place):
    m = re.fullmatch(r"(?:(\w+)\.)?(\w+)\((.*)\)( inplace)?", text)
    if not m:
        raise BookError(f"{place}: not a call: {text!r}; write FUNCTION(NAMES), INPUT.METHOD(NAMES) or hand")
    return Call(m[2], split(m[3]), m[1] or "", bool(m[4]))


def read_held(kind, text, place):
    m = re.fullmatch(r"(\w+) = (\w+)", text)
    if m:
        return Held(kind, m[1], given_by=m[2])
    m = re.fullmatch(r"(\w+) \((.*?)\)(?: fill (\S+))?(?: dtype (\w+))?(?: if (.+))?", text)
    if not m:
        raise BookError(f"{place}: not a {kind}: {text!r}; write NAME (DIMS) [fill VALUE] [dtype TYPE] [if OPTION [and OPTION]] or "
                        "NAME = OPTION")
    return Held(kind, m[1], split(m[2]), m[5].split(" and ") if m[5] else [], "", m[3] or "", m[4] or "")


def paragraphs(path):
    """The paragraphs of a file: (line number, head, [(line number, field, text)])."""
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        if not line.startswith(" "):
            found.append((number, line.strip(), []))
        elif not found:
            raise BookError(f"{path.name}:{number}: stands before the first paragraph")
        elif line.startswith("    ") and found[-1][2]:
            at, name, text = found[-1][2][-1]
            found[-1][2][-1] = (at, name, f"{text} {line.strip()}")
        else:
            name, _, text = line.strip().partition(" ")
            found[-1][2].append((number, name, text.strip()))
    return found


def read_functional(name, fields, place, file):
    made = Functional(name, place)
    for number, key, text in fields:
        here = f"{file}:{number}"
        if key == "def":
            made.args, rest = read_signature(text, here)
            if rest:
                raise BookError(f"{here}: {rest!r} after the signature")
        elif key == "calls":
            made.call = None if text == "hand" else read_call(text, here)
        elif key == "options":
            made.struct = text
        elif key == "plain":
            made.plain = True
        elif key == "python":
            if text != "hand":
                raise BookError(f"{here}: python is followed by hand, or left out")
            made.python_hand = True
        elif key == "doc":
            made.doc = text
        else:
            raise BookError(f"{here}: unknown field {key!r} of a functional form")
    if not made.args or not made.doc:
        raise BookError(f"{place}: functional {name} needs the fields def and doc")
    made.struct = made.struct or "".join(p.capitalize() for p in name.split("_"))
    return made


def read_module(name, fields, place, file):
    made = Module(name, place)
    for number, key, text in fields:
        here = f"{file}:{number}"
        if key == "options":
            if not re.fullmatch(r"\(.*\)", text):
                raise BookError(f"{here}: options stand in parentheses")
            made.options = read_args(text[1:-1], here)
        elif key == "options_class":
            made.options_class = text
        elif key in ("parameter", "buffer"):
            made.held.append(read_held(key, text, here))
        elif key == "member":
            made.members.append(tuple(text.rsplit(" ", 1)) if " " in text else ("Tensor", text))
        elif key == "init":
            if text == "hand":
                made.init_hand = True
            else:
                what, recipe, *rest = text.split()
                if recipe not in RECIPES:
                    raise BookError(f"{here}: unknown recipe {recipe!r}; there are {' '.join(sorted(RECIPES))}, or init hand")
                made.init[what] = (recipe, rest)
        elif key == "build" and text == "hand":
            made.build_hand = True
        elif key == "forward":
            if text == "hand":
                made.forward_hand = True
                continue
            made.forward_args, rest = read_signature(text, here)
            if rest == "hand":
                made.forward_hand = True
            elif rest.startswith("= "):
                made.forward_call = read_call(rest[2:], here)
            else:
                raise BookError(f"{here}: after the signature comes `= CALL` or `hand`")
        elif key == "expects":
            made.expects.append(tuple(text.split()))
        elif key == "require":
            made.requires.append(text.split())
        elif key in ("print", "print_cpp", "print_python"):
            if key != "print_python" and not (key == "print" and made.print_cpp is not None):
                made.print_cpp = text.split()
            if key != "print_cpp" and not (key == "print" and made.print_python is not None):
                made.print_python = text.split()
        elif key == "python_base":
            made.python_base = text
        elif key == "cpp":
            made.cpp.append(text)
        elif key == "holder":
            made.holder.append(text)
        elif key == "takes_anything":
            made.takes_anything = True
        elif key == "doc":
            made.doc = text
        else:
            raise BookError(f"{here}: unknown field {key!r} of a module")
    if not made.doc:
        raise BookError(f"{place}: module {name} has no doc")
    if not made.forward_hand and made.forward_call is None:
        raise BookError(f"{place}: module {name} has no forward")
    return made


def check_names(module, functionals):
    """Every name that a module's paragraph uses is one of its own."""
    known = {o.name for o in module.options} | {h.name for h in module.held} | {n for _, n in module.members}
    for held in module.held:
        for word in [w for d in held.dims for w in re.findall(r"[a-z_]\w*", d)] + held.when + ([held.given_by] if held.given_by else []):
            if module.option(word) is None:
                raise BookError(f"{module.place}: {held.kind} {held.name} of {module.name} uses {word}, which is no option")
    for what in module.init:
        if module.holds(what) is None:
            raise BookError(f"{module.place}: init {what} of {module.name}, which has no such parameter")
    for argument, _, option in module.expects:
        known_argument = not module.forward_args or argument in {a.name for a in module.forward_args}
        if not known_argument or module.option(option) is None:
            raise BookError(f"{module.place}: expects of {module.name} names an argument of forward, a dim and an option; not "
                            f"{argument}, {option}")
    call = module.forward_call
    if call is None:
        return
    inside = known | {a.name for a in module.forward_args} | {"training"}
    for word in call.args:
        if word not in inside:
            raise BookError(f"{module.place}: forward of {module.name} gives {word}, which is neither an argument, an option nor a tensor "
                            "of the module")
    if call.method_of:
        return
    target = functionals.get(call.name)
    if target is None:
        raise BookError(f"{module.place}: forward of {module.name} calls {call.name}, which is no functional form of the book")
    if len(call.args) > len(target.args) or any(a.required for a in target.args[len(call.args):]):
        raise BookError(f"{module.place}: forward of {module.name} gives {len(call.args)} arguments to {call.name}, which takes "
                        f"{len(target.args)}")


def read_ops(root, inplace):
    """The signatures of the op book: name -> lists of argument names, one for each overload. Notes which exist in place."""
    ops, name = {}, None
    for path in sorted((root / "ops").glob("*.ops")):
        for line in path.read_text().splitlines():
            if line.startswith("op "):
                name = line[3:].strip()
            if re.match(r"  variants .*\binplace\b", line):
                inplace.add(name)
            m = re.match(r"  def \((.*)\) ->", line)
            if m and name:
                args = split(m[1])
                positional = args.index("*") if "*" in args else len(args)
                names = [re.split(r"\s+", a.split("=")[0].strip())[-1] for a in args if a != "*"]
                ops.setdefault(name, []).append(Overload(names, positional))
    return ops


def check_call(functional, ops):
    """The op that a functional form calls exists and takes so many arguments."""
    if functional.call is None:
        return
    name, given = functional.call.name, functional.call.args
    if name not in ops:
        raise BookError(f"{functional.place}: functional {functional.name} calls the op {name}, which is not in ops/")
    if not any(len(given) <= len(o.names) for o in ops[name]):
        raise BookError(f"{functional.place}: functional {functional.name} gives {len(given)} arguments to {name}, which takes fewer")
    for word in given:
        if word not in {a.name for a in functional.args}:
            raise BookError(f"{functional.place}: functional {functional.name} gives {word}, which is none of its arguments")


def read_book(root):
    """All families, checked."""
    inplace = set()
    families, functionals, modules, ops = [], {}, {}, read_ops(root, inplace)
    for path in sorted((Path(root) / "modules").glob("*.modules")):
        first = path.read_text().splitlines()[0]
        if not first.startswith("# "):
            raise BookError(f"{path.name}:1: a file begins with a line `# what it holds`")
        family = Family(path.stem, first[2:].strip())
        for number, head, fields in paragraphs(path):
            place = f"{path.name}:{number}"
            kind, _, name = head.partition(" ")
            if kind == "functional":
                made = read_functional(name, fields, place, path.name)
                family.functionals.append(made)
                names = functionals
            elif kind == "module":
                made = read_module(name, fields, place, path.name)
                family.modules.append(made)
                names = modules
            elif kind == "options" and [f[1] for f in fields] == ["def"]:
                family.options.append((name, read_args(fields[0][2].strip("()"), place)))
                continue
            else:
                raise BookError(f"{place}: a paragraph begins with `module NAME`, `functional NAME` or `options NAME`, not {head!r}")
            if name in names:
                raise BookError(f"{place}: {name} is there already, at {names[name].place}")
            names[name] = made
            made.family = family.name
        families.append(family)
    for functional in functionals.values():
        check_call(functional, ops)
        functional.op_inplace = functional.call is not None and functional.call.name in inplace
        functional.overloads = ops.get(functional.call.name, []) if functional.call else []
        for module in (modules.get(functional.struct), modules.get(functional.struct + "Loss")):
            mine, theirs = functional.options, module.cpp_options if module else []
            # Options are set by name: their order is no matter.
            if module and len(mine) == len(theirs) and all(any(a.same(b) for b in theirs) for a in mine):
                functional.alias_of = module.name
    for module in modules.values():
        check_names(module, functionals)
        module.target = None
        module.neighbours = {modules[kind].family for kind, _ in module.members if kind in modules}
        if module.forward_call and not module.forward_call.method_of:
            module.target = functionals[module.forward_call.name]
    return families
