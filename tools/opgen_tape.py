"""The part of opgen that concerns the tape: from the `grad` lines of the op book to nodes, the tracked form of each call and
the declarations of the gradients that src/ops/gradients writes by hand.

    grad self: other            the gradient of self is computed from `other`: vjp::mul_self(grad, other)
    grad self other: a b        one function for both: vjp::name(needs, grad, a, b) -> std::array<Tensor, 2>
    grad self: -                the gradient of self is zero (it is overwritten, or the op is flat)
    grad by parts               the meaning calls public ops: its gradient follows from theirs

After the colon stand what the gradient needs besides the incoming one: arguments, `result` (or the names of several
results), and facts about an argument that cost no memory: `self.sizes`, `.strides`, `.offset`, `.dtype`. What an overload
does not have is left out of its call, so that one line serves several overloads; lines that are indented under a `def`
hold for that overload alone.
"""
from opgen_batch import batch_branch, random_definition, random_test

TENSORS = ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]")
FACTS = {"sizes": ("IntArrayRef", "DimVector"), "strides": ("IntArrayRef", "DimVector"),
         "offset": ("int64_t", "int64_t"), "dtype": ("ScalarType", "ScalarType"), "dim": ("int64_t", "int64_t")}
FACT_CALLS = {"sizes": "sizes()", "strides": "strides()", "offset": "storage_offset()", "dtype": "scalar_type()",
              "dim": "dim()"}


class TapeError(Exception):
    pass


class GradRule:
    """One `grad` line."""

    def __init__(self, place, targets, names):
        self.place, self.targets, self.names = place, targets, names

    @property
    def cut(self):
        return self.names == ["-"]


def parse_grad(value, place):
    targets, colon, names = value.partition(":")
    if not colon or not targets.split():
        raise TapeError(f"{place}: a grad line reads 'grad ARG ...: NAME ...', not 'grad {value}'")
    return GradRule(place, targets.split(), names.split())


class Value:
    """Something that a gradient is computed from: how the node keeps it and hands it over."""

    def __init__(self, name, param, field, save, unpack, tensors, is_result=False):
        self.name, self.param, self.field, self.save, self.unpack = name, param, field, save, unpack
        self.tensors, self.is_result = tensors, is_result


def value_of(d, name):
    """The value that `name` stands for in overload `d`, or None where the overload has no such thing."""
    base, _, fact = name.partition(".")
    arg = next((a for a in d.args if a.name == base), None)
    if fact:
        if fact not in FACTS:
            raise TapeError(f"{d.place}: unknown fact '.{fact}'; known are {', '.join(FACTS)}")
        if arg is None or arg.type not in TENSORS:
            return None
        id = f"{base}_{fact}"
        if arg.type == "Tensor[]":
            if fact != "sizes":
                raise TapeError(f"{d.place}: of a list only .sizes can be kept")
            return Value(id, "ArrayRef<DimVector>", f"std::vector<DimVector> {id}_;",
                         f"for (const Tensor& each : {base}) node->{id}_.emplace_back(each.sizes());", f"{id}_", False)
        param, owned = FACTS[fact]
        read = f"{base}->" if arg.type == "Tensor?" else f"{base}."
        guard = f"if ({base}) " if arg.type == "Tensor?" else ""
        return Value(id, param, f"{owned} {id}_{{}};", f"{guard}node->{id}_ = {read}{FACT_CALLS[fact]};", f"{id}_", False)
    if arg is not None:
        id = arg.name
        if arg.type == "Tensor":
            return Value(id, "const Tensor&", f"autograd::SavedTensor {id}_;", f"node->{id}_.save({id});",
                         f"{id}_.unpack(*this)", True)
        if arg.type == "Tensor?":
            return Value(id, "const std::optional<Tensor>&", f"autograd::SavedTensor {id}_;", f"node->{id}_.save({id});",
                         f"{id}_.unpack_optional(*this)", True)
        if arg.type in ("Tensor[]", "Tensor?[]"):
            element = "Tensor" if arg.type == "Tensor[]" else "std::optional<Tensor>"
            call = "unpack" if arg.type == "Tensor[]" else "unpack_optional"
            return Value(id, f"ArrayRef<{element}>", f"autograd::SavedList {id}_;", f"node->{id}_.save({id});",
                         f"{id}_.{call}(*this)", True)
        return Value(id, arg.cpp, f"{arg.owned} {id}_{{}};", f"node->{id}_ = detail::owned({id});",
                     f"detail::borrowed({id}_)", False)
    names = result_names(d)
    if name in names:
        index = names.index(name)
        place = "result" if len(names) == 1 else f"std::get<{index}>(result)"
        if d.results[0][0] == "Tensor[]":
            raise TapeError(f"{d.place}: a list of results cannot be kept")
        return Value(name, "const Tensor&", f"autograd::SavedTensor {name}_;",
                     f"node->{name}_.save_output({place}, {index}, call.dual());", f"{name}_.unpack(*this)", True, True)
    return None


def result_names(d):
    if len(d.results) == 1:
        return ["result"]
    return [name or f"result{i}" for i, (_, name) in enumerate(d.results)]


def rules_of(d):
    """The grad lines that concern this overload, as (rule, targets present, values)."""
    found = []
    for rule in d.op.grads if d.grads is None else d.grads:
        targets = [t for t in rule.targets if any(a.name == t and a.type in TENSORS[:3] for a in d.args)]
        if not targets:
            continue
        values = [] if rule.cut else [v for v in (value_of(d, n) for n in rule.names) if v is not None]
        found.append((rule, targets, values))
    return found


def check_grads(op):
    """Every differentiable op that is not made of other ops says how."""
    own = [rule for d in op.defs for rule in d.grads or []]
    for rule in op.grads + own:
        for name in rule.targets + ([] if rule.cut else rule.names):
            base = name.partition(".")[0]
            known = any(base in [a.name for a in d.args] + result_names(d) for d in op.defs)
            if not known:
                raise TapeError(f"{rule.place}: no overload of {op.name} has '{base}'")
    if made_of_ops(op) and op.grads + own:
        raise TapeError(f"{op.place}: {op.name} is made of other ops; its gradient follows from theirs")
    if not op.differentiable and op.grads + own:
        raise TapeError(f"{op.place}: {op.name} is said to be nondifferentiable and has a gradient")
    if needs_rule(op) and not op.grads + own:
        raise TapeError(f"{op.place}: {op.name} has no gradient: write a 'grad' line, or say 'nondifferentiable'")


def needs_rule(op):
    return (op.differentiable and not made_of_ops(op) and op.kind != "creation" and
            any(a.type in TENSORS for d in op.defs for a in d.args))


def made_of_ops(op):
    return op.kind == "composite" or op.by_parts


def is_tracked(d):
    """Whether calls of this overload are watched: it is not made of other ops and takes tensors."""
    return not made_of_ops(d.op) and any(a.type in TENSORS for a in d.args)


def edge_args(d, inplace=False):
    """The arguments that have edges, in the order of the edges. An in-place op begins with self."""
    names = {t for _, targets, _ in rules_of(d) for t in targets}
    args = [a for a in d.args if a.name in names]
    if inplace and d.self_arg not in args:
        args = [d.self_arg] + args
    return args


def node_name(d):
    stem = "".join(part.capitalize() for part in d.op.name.strip("_").split("_"))
    return f"{stem}Backward{d.number}"


# Names that users of libtorch know and that do not follow from the name of the op and the place of the overload; a list has
# one for each overload.
KNOWN_NAMES = {
    "clamp": ["ClampBackward1", "ClampBackward0"],
    "copy_": "CopyBackwards",
    "deg2rad": "Deg2RadBackward0",
    "layer_norm": "NativeLayerNormBackward0",
    "log1p": "Log1PBackward0",
    "max": ["MaxBackward1", "MaxBackward0", "MaximumBackward0"],
    "min": ["MinBackward1", "MinBackward0", "MinimumBackward0"],
    "norm": ["NormBackward0", "NormBackward2", "NormBackward1", "NormBackward3"],
    "pad": "ConstantPadNdBackward0",
    "pow": ["PowBackward1", "PowBackward2", "PowBackward0"],
    "rad2deg": "Rad2DegBackward0",
    "relu6": "HardtanhBackward0",
    "reshape": "ViewBackward0",
    "selu": "EluBackward0",
    "square": "PowBackward0",
    "std": "StdBackward0",
    "std_mean": "StdMeanBackward0",
    "var": "VarBackward0",
    "var_mean": "VarMeanBackward0",
    "where": "WhereBackward0",
}


def known_name(d):
    """What the node calls itself."""
    known = KNOWN_NAMES.get(d.op.name, node_name(d))
    return known if isinstance(known, str) else known[d.number]


def vjp_declarations(op):
    """Signatures of the hand-written gradients of an op."""
    found = []
    for d in op.defs:
        if not is_tracked(d):
            continue
        grad = "const Tensor& grad" if d.single_tensor else "ArrayRef<Tensor> grads"
        for rule, targets, values in rules_of(d):
            if rule.cut:
                continue
            params = ", ".join([grad] + [f"{v.param} {v.name}" for v in values])
            if len(rule.targets) > 1:
                result = f"std::array<Tensor, {len(targets)}>"
                found.append(f"{result} {op.name}(std::array<bool, {len(targets)}> needs, {params});")
            else:
                arg = next(a for a in d.args if a.name == targets[0])
                result = "std::vector<Tensor>" if arg.type == "Tensor[]" else "Tensor"
                found.append(f"{result} {op.name.rstrip('_')}_{targets[0]}({params});")
    return list(dict.fromkeys(found))


def node_struct(d):
    """The node of an overload."""
    rules = rules_of(d)
    edges = [a.name for a in edge_args(d)]
    values = {v.name: v for _, _, vs in rules for v in vs}
    lines = [f"struct {node_name(d)} final : autograd::TapeNode {{"]
    lines += [f"  {v.field}" for v in values.values()]
    lines += [f'  std::string name() const override {{ return "{known_name(d)}"; }}']
    if d.op.kind == "pointwise":
        lines += ["  bool elementwise() const override { return true; }"]
    lines += ["  void run(ArrayRef<Tensor> grads, Tensor* out) override {"]
    incoming = "grads[0]" if d.single_tensor else "grads"
    if d.single_tensor:
        lines += ["    if (!grads[0].defined()) return;"]
    # What several gradients need is unpacked once: unpacking may be costly (a checkpoint computes again).
    once = {}
    for v in values.values():
        asked = [t for rule, targets, vs in rules if not rule.cut and v.name in [w.name for w in vs] for t in targets]
        if len(asked) > 1 and v.param == "const Tensor&":
            once[v.name] = f"shared_{v.name}"
            condition = " || ".join(f"needs({edges.index(t)})" for t in asked)
            lines += [f"    const Tensor shared_{v.name} = {condition} ? {v.unpack} : Tensor();"]
    used = False
    for rule, targets, vs in rules:
        used = True
        if rule.cut:
            lines += [f"    if (needs({edges.index(t)})) out[{edges.index(t)}] = facula::zeros_like(grads[0]);"
                      for t in targets]
            continue
        arguments = ", ".join([incoming] + [once.get(v.name, v.unpack) for v in vs])
        if len(rule.targets) > 1:
            needs = ", ".join(f"needs({edges.index(t)})" for t in targets)
            lines += ["    {", f"      auto all = vjp::{d.op.name}({{{needs}}}, {arguments});"]
            lines += [f"      out[{edges.index(t)}] = std::move(all[{i}]);" for i, t in enumerate(targets)]
            lines += ["    }"]
            continue
        target = targets[0]
        arg = next(a for a in d.args if a.name == target)
        function = f"vjp::{d.op.name.rstrip('_')}_{target}"
        if arg.type == "Tensor[]":
            lines += [f"    auto all = {function}({arguments});",
                      f"    for (size_t i = 0; i < all.size(); ++i) out[{edges.index(target)} + i] = std::move(all[i]);"]
        else:
            lines += [f"    if (needs({edges.index(target)})) out[{edges.index(target)}] = {function}({arguments});"]
    if not used:
        lines += ["    static_cast<void>(out);"]
    lines += ["  }"]
    kept = [v for v in values.values() if v.tensors]
    if kept:
        lines += ["  void release_saved() override {"] + [f"    {v.name}_.reset();" for v in kept] + ["  }"]
    return lines + ["};", ""]


def save_lines(d, inplace, results, indent="    "):
    """Statements that put into the node what its gradients need; `results` chooses those that are results."""
    edges = [a.name for a in edge_args(d)]
    wanted = {}
    for rule, targets, values in rules_of(d):
        for v in values:
            wanted.setdefault(v.name, (v, []))[1].extend(t for t in targets if t not in wanted[v.name][1])
    lists = {a.name for a in d.args if a.type == "Tensor[]"}
    lines = []
    for v, targets in wanted.values():
        if v.is_result != results:
            continue
        save = v.save
        if inplace and v.name == "self" and v.tensors:
            save = "node->self_.save_copy(self);"
        elif inplace and v.is_result:
            save = save.replace("save_output(result,", "save_output(self,")
        if not v.tensors or set(targets) & lists:
            lines.append(indent + save)
        else:
            condition = " || ".join(f"node->needs({edges.index(t)})" for t in targets)
            lines.append(f"{indent}if ({condition}) {save}")
    return lines


def parameters(d, form, tensor_self):
    """Parameters of the tracked form: those of the public one, with self written out for methods."""
    params = [(type, name) for type, name, _ in form.params]
    if form.is_method:
        params.insert(d.args.index(d.self_arg), (tensor_self, "self"))
    return params


def public_call(d, form):
    names = [name for _, name, _ in form.params]
    if form.is_method:
        return f"self.{form.name}({', '.join(names)})"
    return f"facula::{form.name}({', '.join(names)})"


def again_lambda(d, form):
    """The same view of a tangent."""
    args = ", ".join(a.name for a in d.args if a is not d.self_arg)
    names = ["tangent" if a is d.self_arg else a.name for a in d.args]
    free = d.has("function")
    call = f"facula::{d.op.cpp_name}({', '.join(names)})" if free else f"tangent.{d.op.name}({args})"
    return f"[&](const Tensor& tangent) {{ return {call}; }}"


def tracked_form(d, form):
    """The definition of the tracked form of a call, or [] where tracking makes no difference."""
    op = d.op
    rules = rules_of(d)
    if made_of_ops(op):
        return []
    inplace = form.variant in ("inplace", "inplace_method")
    if form.variant == "out" or not is_tracked(d):
        return []
    params = parameters(d, form, "Tensor&" if inplace else "const Tensor&")
    head = f"{form.result} {form.name}_tracked(uint8_t flags, " + ", ".join(f"{t} {n}" for t, n in params) + ") {"
    edges = ", ".join([a.name for a in edge_args(d, inplace)])
    call = public_call(d, form)
    batch = batch_branch(d, form, inplace)
    if not rules and not inplace:
        return [head, "  if (flags & detail::kTracksBatch) {"] + batch + \
            ["  }", "  const detail::Below below;", f"  return {call};", "}", ""]
    lines = [head, "  if (flags == detail::kTracksBatch) {"] + batch + \
        ["  }", f"  autograd::Call call(OpId::{op.name}, flags, {edges});"]
    differentiable_self = not inplace or (rules and edge_args(d, True) == edge_args(d))
    node = node_name(d) if rules and differentiable_self else "autograd::CutNode"
    if inplace:
        lines.append("  call.check_inplace(self);")
        if op.kind != "view" and not op.name.endswith("_") and (d.has("function") or d.has("method")):
            lines.append(f"  if (call.writes_through_view(self)) return self.copy_({function_call(d, saves_self(d))});")
    lines.append(f"  auto node = call.node<{node}>();")
    if rules and differentiable_self:
        saves = save_lines(d, inplace, False)
        if saves:
            lines += ["  if (node) {"] + saves + ["  }"]
    if inplace:
        lines += ["  {", "    const detail::Below below;", f"    {call};", "  }"]
    else:
        lines += [f"  {d.result_cpp} result = [&] {{", "    const detail::Below below;", f"    return {call};", "  }();"]
    if rules and differentiable_self:
        saves = save_lines(d, inplace, True)
        if saves:
            lines += ["  if (node) {"] + saves + ["  }"]
    if inplace and op.kind == "view":
        lines += [f"  call.finish_inplace_view(node, self, {again_lambda(d, form)});", "  return self;"]
    elif inplace:
        lines += ["  call.finish_inplace(node, self);", "  return self;"]
    elif op.kind == "view":
        lines += [f"  call.finish_view(node, result, {again_lambda(d, form)});", "  return result;"]
    else:
        lines += ["  call.finish(node, result);", "  return result;"]
    return lines + ["}", ""]


def tracked_test(d, form):
    """The first statements of a call: who watches goes another way, and so do random ops inside of a vmap."""
    return watched_test(d, form) + random_test(d, form)


def watched_test(d, form):
    tensors = [a.name for a in d.args if a.type in TENSORS]
    flags = f"autograd::tracked({', '.join(tensors)})"
    if form.variant == "out":
        # Arguments that no gradient flows through may require one; what is written to must not.
        differentiable = [a.name for a in d.args if a.type in TENSORS[:3]] if d.op.differentiable else []
        return [f"  if (const uint8_t flags = autograd::tracked({', '.join(d.out_names + tensors)})) [[unlikely]] "
                f"autograd::Call(OpId::{d.op.name}, flags, {', '.join(d.out_names + differentiable)}).check_out();"]
    if made_of_ops(d.op):
        if not tensors or form.variant in ("function", "method"):
            return []
        return [f"  if ({flags}) [[unlikely]] return self.copy_({function_call(d)});"]
    if not tracked_form(d, form):
        return []
    names = ", ".join(name for _, name in parameters(d, form, ""))
    return [f"  if (const uint8_t flags = {flags}) [[unlikely]] return {form.name}_tracked(flags, {names});"]


def saves_self(d):
    return any(v.name == "self" and v.tensors for _, _, values in rules_of(d) for v in values)


def function_call(d, copy_self=False):
    """The call of the functional form with the arguments under their own names, or with a copy of self."""
    own = "self.clone()" if copy_self else "self"
    if d.has("function"):
        return f"facula::{d.op.cpp_name}({', '.join(own if a is d.self_arg else a.name for a in d.args)})"
    return f"{own}.{d.op.name}({', '.join(a.name for a in d.args if a is not d.self_arg)})"


def tracked_definitions(d, forms_of_overload):
    """Node and tracked forms of an overload, in an anonymous namespace."""
    lines = []
    if is_tracked(d) and rules_of(d):
        lines += node_struct(d)
    for form in forms_of_overload:
        if form.is_method and d.has("inplace" if form.variant == "inplace_method" else "function"):
            continue
        inplace = form.variant in ("inplace", "inplace_method")
        params = ", ".join(f"{t} {n}" for t, n in parameters(d, form, "Tensor&" if inplace else "const Tensor&"))
        lines += random_definition(d, form, f"{form.result} {form.name}_in_batch({params}) {{")
        lines += tracked_form(d, form)
    return ["namespace {", ""] + lines + ["}  // namespace", ""] if lines else []


def gradients_h(ops, header):
    lines = [f"// The gradients that src/ops/gradients writes by hand; {header}.", "#pragma once", "",
             "#include <facula/tensor.h>", "", '#include "core/dim_vector.h"', "", "#include <array>", "",
             "namespace facula::vjp {"]
    family = None
    for op in ops:
        declarations = vjp_declarations(op)
        if declarations and op.family != family:
            family = op.family
            lines += ["", f"// {family}"]
        lines += declarations
    return lines + ["", "}  // namespace facula::vjp"]
