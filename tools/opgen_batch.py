"""The part of opgen that concerns batches (vmap): which rule takes a call on batched tensors apart. See src/autograd/batch.h.

A pointwise op runs once over aligned values. An op of one tensor whose dimensions are arguments runs once with the
dimensions counted one further. Other ops have an expression of their own below, perhaps on a condition. What is left runs
entry by entry. Random ops do what the vmap they are inside of says about randomness.
"""
TENSORS = ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]")

# Ops of one tensor for which a batch in front changes nothing but the arguments named here.
DIMS = set("""sum mean nansum nanmean amax amin std var std_mean var_mean norm logsumexp prod max min median any all softmax
log_softmax cumsum cumprod cummax cummin logcumsumexp sort argsort topk kthvalue flip transpose squeeze unsqueeze select slice
diagonal unfold split_with_sizes unbind view reshape count_nonzero diag_embed""".split())
SAME = set("""alias clone view_as_real view_as_complex real imag empty_like zeros_like ones_like full_like _to_copy
new_empty new_zeros new_ones new_full""".split())
# Ops whose tensors all have the dimensions that the argument `dim` counts.
TOGETHER = set("gather scatter scatter_add scatter_reduce".split())
# Ops that broadcast their tensors and fold the last dimensions, or those that `dim` counts from the end.
BROADCAST = {"cosine_similarity": 1, "pairwise_distance": 1, "cdist": 2}
LOSSES = set("mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy_with_logits".split())
# Reductions of all entries: the same over rows, here for the names of the arguments.
ONE = "IntArrayRef({1})"
WHOLE = {
    "sum": f"facula::sum(batch.rows(), {ONE}, false, dtype)",
    "mean": f"facula::mean(batch.rows(), {ONE}, false, dtype)",
    "prod": "facula::prod(batch.rows(), 1, false, dtype)",
    "max": f"facula::amax(batch.rows(), {ONE})",
    "min": f"facula::amin(batch.rows(), {ONE})",
    "any": "facula::any(batch.rows(), 1)",
    "all": "facula::all(batch.rows(), 1)",
    "norm": f"facula::norm(batch.rows(), p, {ONE}, false)",
    "norm dtype": f"facula::norm(batch.rows(), p, {ONE}, false, dtype)",
    **{name: f"facula::{name}(batch.rows(), {ONE}, unbiased, false)" for name in ("std", "var", "std_mean", "var_mean")},
}
# One dimension, or all when there is none.
ONE_OR_WHOLE = {
    "argmax": "facula::argmax({value}, {dim}, {keepdim})",
    "argmin": "facula::argmin({value}, {dim}, {keepdim})",
    "aminmax": "facula::aminmax({value}, {dim}, {keepdim})",
    "count_nonzero": "facula::count_nonzero({value}, std::optional<int64_t>({dim}))",
}
VECTORS = "batch[0].dim() > 0 && batch[1].dim() > 0"
SAME_DTYPE = "batch[0].scalar_type() == batch[{0}].scalar_type()"
OWN = {
    "matmul": (VECTORS, "autograd::batch_matmul(batch)"),
    "mm": ("batch[0].dim() == 2 && batch[1].dim() == 2", "autograd::batch_matmul(batch)"),
    "bmm": ("batch[0].dim() == 3 && batch[1].dim() == 3 && batch[0].size(0) == batch[1].size(0)",
            "autograd::batch_matmul(batch)"),
    "mv": ("batch[0].dim() == 2 && batch[1].dim() == 1", "autograd::batch_matmul(batch)"),
    "dot": ("batch[0].dim() == 1 && batch[0].sizes() == batch[1].sizes() && "
            "batch[0].scalar_type() == batch[1].scalar_type() && !isIntegralType(batch[0].scalar_type(), true)",
            "facula::sum(facula::mul(batch.front(0), batch.front(1)), IntArrayRef({-1}))"),
    "addmm": ("batch[0].dim() <= 2 && batch[1].dim() == 2 && batch[2].dim() == 2",
              "facula::baddbmm(batch.front_of_rank(0, 2), batch.full(1), batch.full(2), beta, alpha)"),
    "addmv": ("batch[0].dim() <= 1 && batch[1].dim() == 2 && batch[2].dim() == 1",
              "facula::baddbmm(batch.front_of_rank(0, 1).unsqueeze(-1), batch.full(1), batch.full(2).unsqueeze(-1), "
              "beta, alpha).squeeze(-1)"),
    "baddbmm": ("batch[0].dim() <= 3 && batch[1].dim() == 3 && batch[2].dim() == 3 && "
                "batch[1].size(0) == batch[2].size(0)", "autograd::batch_baddbmm(batch, beta, alpha)"),
    "linear": ("batch[0].dim() > 0 && batch[1].dim() == 2 && (!batch[2].defined() || batch[2].dim() == 1)",
               "batch.batched(1) || (batch[2].defined() && batch.batched(2)) ? autograd::batch_linear(batch) : "
               "facula::linear(batch.front(0), weight, bias)"),
    "layer_norm": ("batch[0].dim() > 0 && (!batch[1].defined() || batch[1].sizes() == normalized_shape) && "
                   "(!batch[2].defined() || batch[2].sizes() == normalized_shape)",
                   "autograd::batch_affine(batch, facula::layer_norm(batch.front(0), normalized_shape, {}, {}, eps, "
                   "cudnn_enable))"),
    "rms_norm": ("batch[0].dim() > 0 && (!batch[1].defined() || batch[1].sizes() == normalized_shape)",
                 "autograd::batch_affine(batch, facula::rms_norm(batch.front(0), normalized_shape, {}, eps))"),
    "nll_loss": ("(batch[0].dim() == 1 || batch[0].dim() == 2) && batch[1].dim() == batch[0].dim() - 1 && "
                 "(!batch[2].defined() || !batch.batched(2)) && (batch[0].dim() == 1 || "
                 "batch[0].size(0) == batch[1].size(0)) && reduction >= Reduction::None && reduction <= Reduction::Sum",
                 "autograd::batch_nll_loss(batch, weight, reduction, ignore_index)"),
    "t": ("batch.rank() < 3", "batch.rank() < 2 ? batch.front(0).alias() : facula::transpose(batch.front(0), 1, 2)"),
    "tril": ("batch.rank() > 1", "facula::tril(batch.front(0), diagonal)"),
    "triu": ("batch.rank() > 1", "facula::triu(batch.front(0), diagonal)"),
    "permute": (None, "facula::permute(batch.front(0), batch.permutation(dims))"),
    "as_strided": (None, "facula::as_strided(batch.front(0), batch.sizes(size), batch.strides(stride), storage_offset)"),
    "expand": ("batch.can_expand(size)",
               "batch.front_of_rank(0, static_cast<int64_t>(size.size())).expand(batch.sizes(size), implicit)"),
    "cat": ("batch.same_rank()", "facula::cat(batch.all_full(), batch.dim(dim))"),
    "stack": (None, "facula::stack(batch.all_full(), batch.new_dim(dim))"),
    "pad": ('mode == "constant" && static_cast<int64_t>(pad.size()) <= 2 * batch.rank()',
            "facula::pad(batch.front(0), pad, mode, value)"),
    "constant_pad_nd": ("static_cast<int64_t>(pad.size()) <= 2 * batch.rank()",
                        "facula::constant_pad_nd(batch.front(0), pad, value)"),
    "roll": ("shifts.size() == (dims.empty() ? 1 : dims.size()) && batch.rank() > 0",
             "dims.empty() ? facula::roll(batch.rows(), shifts, IntArrayRef({1})).reshape(batch.sizes(self.sizes())) : "
             "facula::roll(batch.front(0), shifts, batch.dims(dims))"),
    "repeat": ("static_cast<int64_t>(repeats.size()) >= batch.rank()",
               "batch.front_of_rank(0, static_cast<int64_t>(repeats.size())).repeat(batch.with_front(1, repeats))"),
    "index_select": ("batch[0].dim() > 0 && batch[1].dim() == 1 && isIntegralType(batch[1].scalar_type(), false)",
                     "autograd::batch_index_select(batch, dim)"),
    "index_add": ("batch.batched(0) && !batch.batched(1) && batch[0].dim() > 0 && batch[2].dim() == batch[0].dim()",
                  "facula::index_add(batch.front(0), batch.dim(dim), index, batch.full(2), alpha)"),
    "index_copy": ("!batch.batched(1) && batch[0].dim() > 0 && batch[2].dim() == batch[0].dim()",
                   "facula::index_copy(batch.full(0), batch.dim(dim), index, batch.full(2))"),
    "index_fill": ("batch.batched(0) && !batch.batched(1) && batch[0].dim() > 0",
                   "facula::index_fill(batch.front(0), batch.dim(dim), index, value)"),
    "index": ("autograd::can_batch_index(batch)", "autograd::batch_index(batch)"),
    "index_put": ("autograd::can_batch_index_put(batch)", "autograd::batch_index_put(batch, accumulate)"),
    "take": ("isIntegralType(batch[1].scalar_type(), false)", "autograd::batch_take(batch)"),
    "one_hot": ("num_classes > 0", "facula::one_hot(batch.front(0), num_classes)"),
    "embedding": ("!batch.batched(0)",
                  "facula::embedding(weight, batch.front(1), padding_idx, scale_grad_by_freq, sparse)"),
    "searchsorted": ("!batch.batched(0) && batch[0].dim() == 1 && !sorter",
                     "facula::searchsorted(sorted_sequence, batch.front(1), out_int32, right, side, sorter)"),
}
OWN["bucketize"] = OWN["isin"] = ("!batch.batched(1)", None)  # every number of the first tensor on its own
NEW_DIMS = {"unsqueeze": ("dim",), "diag_embed": ("dim1", "dim2")}
RANDOM_LIKE = set("rand_like randn_like randint_like".split())


def mapped(d, arg):
    """The argument as the value's op takes it."""
    if arg.name in ("dim", "dim0", "dim1", "dim2", "dimension") and arg.type == "int":
        return f"batch.{'new_dim' if arg.name in NEW_DIMS.get(d.op.name, ()) else 'dim'}({arg.name})"
    if arg.name in ("dim", "dims") and arg.type in ("int[]", "int[]?"):
        every = d.op.kind == "reduction" or arg.type == "int[]?"
        return f"batch.{'dims_or_all' if every else 'dims'}({arg.name})"
    if arg.name in ("size", "shape") and arg.type == "int[]":
        return f"batch.{'view_sizes' if d.op.name in ('view', 'reshape') else 'sizes'}({arg.name})"
    return arg.name


def tensors_of(d):
    return [a for a in d.args if a.type in TENSORS]


def call_with(d, values):
    """The call of the functional form with these expressions for the arguments."""
    if d.has("function"):
        return f"facula::{d.op.cpp_name}({', '.join(values)})"
    own = d.args.index(d.self_arg)
    return f"{values[own]}.{d.op.name}({', '.join(values[:own] + values[own + 1:])})"


def own_rule(d):
    condition, expression = OWN[d.op.name]
    names = [a.name for a in d.args]
    if d.op.name == "index_fill" and "Tensor" == d.args[-1].type:
        condition += " && !batch.batched(2)"
    if d.op.name == "searchsorted" and d.args[1].type != "Tensor":
        return None
    if expression is None:
        if d.args[0].type != "Tensor":
            return None
        condition = condition if d.args[1].type == "Tensor" else None
        return condition, call_with(d, ["batch.front(0)"] + names[1:])
    if d.op.name in ("layer_norm", "rms_norm"):
        # Where only the input is batched the op itself has the parameters.
        weights = range(1, len(tensors_of(d)))
        shared = " && ".join(f"(!batch[{i}].defined() || !batch.batched({i}))" for i in weights)
        alike = " && ".join(f"(!batch[{i}].defined() || {SAME_DTYPE.format(i)})" for i in weights)
        plain = call_with(d, ["batch.front(0)"] + names[1:])
        return f"({shared}) || ({condition} && {alike})", f"({shared}) ? {plain} : {expression}"
    return condition, expression


def rule(d):
    """The condition and the expression that compute the whole batch at once, or None. No condition means always."""
    op, tensors = d.op, tensors_of(d)
    names = {a.name: a.type for a in d.args}
    if op.name in OWN:
        return own_rule(d)
    if op.name in TOGETHER:
        values, seen = [], 0
        for a in d.args:
            values.append(f"batch.full({seen})" if a.type == "Tensor" else mapped(d, a))
            seen += a.type == "Tensor"
        return "batch.same_rank()", call_with(d, values)
    if op.name in BROADCAST:
        values = [f"batch.ranked({i})" for i in range(2)]
        values += ["batch.dim_from_end(dim)" if a.name == "dim" else a.name for a in d.args[2:]]
        least = BROADCAST[op.name]
        return f"batch[0].dim() >= {least} && batch[1].dim() >= {least}", call_with(d, values)
    if op.name in LOSSES:
        values, seen = [], 0
        for a in d.args:
            if a.type in TENSORS:
                same = op.name == "binary_cross_entropy_with_logits" and seen < 2  # it wants the same sizes
                value = f"batch.{'full' if same else 'ranked'}({seen})"
                values.append(value if a.type == "Tensor" else
                              f"batch[{seen}].defined() ? std::optional<Tensor>({value}) : std::nullopt")
                seen += 1
            else:
                values.append("Reduction::None" if a.name == "reduction" else a.name)
        return ("reduction >= Reduction::None && reduction <= Reduction::Sum",
                f"batch.folded({call_with(d, values)}, reduction)")
    if op.name == "repeat_interleave" and "self" in names:
        expression = ("dim ? facula::repeat_interleave(batch.front(0), repeats, batch.dim(*dim), output_size) : "
                      "facula::repeat_interleave(batch.rows(), repeats, 1, output_size)")
        return ("!batch.batched(1)" if names["repeats"] == "Tensor" else "batch.rank() > 0 || !dim"), expression
    if op.name in ONE_OR_WHOLE and names.get("dim") == "int?":
        form, keep = ONE_OR_WHOLE[op.name], "keepdim" in names
        one = form.format(value="batch.front(0)", dim="batch.dim(*dim)", keepdim="keepdim")
        whole = form.format(value="batch.rows()", dim="1", keepdim="false")
        whole = f"batch.kept({whole}, keepdim)" if keep else whole
        return "batch.rank() > 0 || !dim", f"dim ? {one} : {whole}"
    if len(tensors) != 1 or tensors[0].type != "Tensor":
        return None
    if op.name in WHOLE and "dim" not in names:
        return None, WHOLE[f"{op.name} dtype" if op.name == "norm" and "dtype" in names else op.name]
    if op.name == "squeeze" and len(d.args) == 1:
        return None, "batch.front(0).squeeze(batch.ones())"
    mentions = [a for a in d.args if mapped(d, a) != a.name]
    same = op.name in SAME or (op.name == "view" and any(a.type == "ScalarType" for a in d.args))
    if not (same or (op.name in DIMS and mentions)):
        return None
    values = ["batch.front(0)" if a is tensors[0] else mapped(d, a) for a in d.args]
    condition = "batch.rank() > 0"
    if op.kind == "reduction" and d.single_tensor:
        # Entries without dimensions are reduced as rows of one.
        values = ["(batch.rank() > 0 ? batch.front(0) : batch.rows())" if a is tensors[0] else
                  "keepdim && batch.rank() > 0" if a.name == "keepdim" else mapped(d, a) for a in d.args]
        condition = None
    elif "memory_format" in names:
        condition = "autograd::plain_format(memory_format)"
    elif op.name in ("unsqueeze", "reshape") or (op.name == "view" and mentions) or \
            (same and op.name not in ("view", "view_as_complex")):
        condition = None
    return condition, call_with(d, values)


def entry_arguments(d):
    """Arguments of the call with tensors taken from the flat list `t`."""
    values = {}
    index = 0
    offset = []  # sizes of lists that came before
    for a in d.args:
        if a.type not in TENSORS:
            continue
        at = " + ".join([str(index)] + offset)
        if a.type == "Tensor":
            values[a.name] = f"t[{at}]"
            index += 1
        elif a.type == "Tensor?":
            values[a.name] = f"autograd::optional_at(t, {at})"
            index += 1
        elif a.type == "Tensor[]":
            values[a.name] = f"TensorList(t.data() + {at}, {a.name}.size())"
            offset.append(f"{a.name}.size()")
        else:
            values[a.name] = f"autograd::optionals_at(t, {at}, {a.name}.size())"
            offset.append(f"{a.name}.size()")
    return values


def entry_call(d, form, inplace):
    """The call of this form on the entries `t`."""
    values = entry_arguments(d)
    names = [values.get(a.name, a.name) for a in d.args]
    if form.is_method:
        own = names.pop(d.args.index(d.self_arg))
        return f"{own}.{form.name}({', '.join(names)})"
    if inplace:
        position = d.args.index(d.self_arg)
        names[position] = f"const_cast<Tensor&>({names[position]})"
    return f"facula::{form.name}({', '.join(names)})"


def whole_lines(condition, result):
    test = f"if ({condition}) " if condition else ""
    return [f"    {test}{{", "      const detail::Above above;"] + [f"      {line}" for line in result] + ["    }"]


def loop_lines(d, call):
    entries = " t" if tensors_of(d) else ""
    return [f"    return autograd::unflat<{d.result_cpp}>(autograd::batch_loop(",
            f"        batch, [&](autograd::BatchTensors{entries}) {{ return autograd::flat({call}); }}));"]


def batch_branch(d, form, inplace):
    """Statements that handle a call on batched tensors."""
    if d.op.kind == "random":
        names = [name for _, name, _ in form.params]
        if form.is_method:
            names.insert(d.args.index(d.self_arg), "self")
        return [f"    return {form.name}_in_batch({', '.join(names)});"]
    tensors = ", ".join(a.name for a in tensors_of(d))
    call = entry_call(d, form, inplace)
    lines = [f"    const autograd::BatchCall batch(OpId::{d.op.name}, {tensors});"]
    pointwise = d.op.kind == "pointwise" or d.op.name == "copy_" or \
        (d.op.name in ("max", "min") and "other" in [a.name for a in d.args])
    last = len(tensors_of(d)) - 1
    if inplace:
        found = None if pointwise else rule(d)
        if d.op.kind == "view":
            lines += whole_lines(found[0], [f"batch.become({found[1]});", "return self;"])
            if not found[0]:
                return lines
            # Entries with too few dimensions stay as they are, or the op refuses them.
            values = entry_arguments(d)
            plain = call_with(d, [values.get(a.name, a.name) for a in d.args])
            return lines + [f"    autograd::batch_loop(batch, [&](autograd::BatchTensors t) {{ return autograd::flat({plain}); }});",
                            "    return self;"]
        if d.op.name == "fill_" and last == 1:
            lines += whole_lines("batch.batched(0) && batch.batched(1) && autograd::is_number_for(batch, 1)",
                                 ["batch.front(0).copy_(batch.front_of_rank(1, batch.rank()));", "return self;"])
            lines += [f"    if (batch.batched(1)) {{ autograd::batch_loop_inplace(batch, [&](autograd::BatchTensors t) {{ {call}; }}); return self; }}"]
        if d.op.name == "masked_fill" and last == 2:
            found = True
        if found and (d.has("function") or d.has("method")):
            return lines + ["    batch.check_self_batched();",
                            f"    return self.copy_({call_with(d, [a.name for a in d.args])});"]
        loops = "batch_pointwise_inplace" if pointwise else "batch_loop_inplace"
        return lines + [f"    autograd::{loops}(batch, [&](autograd::BatchTensors t) {{ {call}; }});", "    return self;"]
    if d.result_cpp in ("bool", "int64_t", "Scalar", "void"):
        return [f'    autograd::refuse_batch(OpId::{d.op.name}, "{d.results[0][0]}");']
    if d.op.name == "masked_fill" and last == 2:
        lines += whole_lines("batch.batched(2) && autograd::is_number_for(batch, 2)",
                             ["return batch.wrap(facula::where(batch.ranked(1), "
                              "batch.ranked(2).to(self.scalar_type()), batch.ranked(0)));"])
        lines += ["    if (batch.batched(2))"] + ["  " + line for line in loop_lines(d, call)]
    if pointwise and d.single_tensor:
        return lines + [f"    return autograd::batch_pointwise(batch, [&](autograd::BatchTensors t) {{ return {call}; }});"]
    found = rule(d)
    if found:
        lines += whole_lines(found[0], [f"return batch.wrap({found[1]});"])
        if not found[0]:
            return lines
    return lines + loop_lines(d, call)


# Random ops.


def is_random(d):
    return d.op.kind == "random" and not d.op.by_parts


def draws(d):
    """When the call draws numbers at all; None for always."""
    return "train.value_or(true)" if d.op.name == "native_dropout" else None


def random_test(d, form):
    """The statement that sends a random call inside of a vmap another way."""
    if not is_random(d):
        return []
    condition = " && ".join(filter(None, ["autograd::in_batch()", draws(d)]))
    names = [a for a in (d.out_names if form.variant == "out" else [])]
    names += [a.name for a in (d.out_args if form.variant == "out" else d.args)]
    if form.variant == "out":
        return [f"  if ({condition}) [[unlikely]] {{", f"    const autograd::RandomCall batch(OpId::{d.op.name}, out);",
                "    if (batch.different()) batch.check_holds_different();",
                f"    return {form.name}({', '.join(names)});", "  }"]
    return [f"  if ({condition}) [[unlikely]] return {form.name}_in_batch({', '.join(names)});"]


def random_definition(d, form, head):
    """What a random call does inside of a vmap."""
    if not is_random(d) or form.variant == "out":
        return []
    inplace = form.variant in ("inplace", "inplace_method")
    names = [a.name for a in d.args]
    tensors = tensors_of(d)
    lines = [head]
    if draws(d):
        lines += [f"  if (!{draws(d)}) {{", f"    const autograd::BatchCall batch(OpId::{d.op.name}, {tensors[0].name});",
                  "    const detail::Above above;",
                  f"    return batch.wrap({call_with(d, ['batch.front(0)'] + names[1:])});", "  }"]
    lines.append(f"  const autograd::RandomCall batch({', '.join([f'OpId::{d.op.name}'] + [a.name for a in tensors])});")
    if inplace:
        rest = names[1:]
        arguments = ", ".join("batch.front_of_rank(1, batch.rank())" if a.type == "Tensor" else a.name for a in d.args[1:])
        lines += ["  if (batch.different()) {", "    batch.check_holds_different();",
                  f"    batch.front(0).{form.name}({arguments});", "    return self;", "  }"]
        if len(tensors) > 1:
            lines += ["  if (batch.batched(1)) batch.refuse_batched();"]
        lines += [f"  if (!batch.batched(0)) return self.{form.name}({', '.join(rest)});",
                  "  Tensor drawn = facula::empty_like(batch.like());", f"  drawn.{form.name}({', '.join(rest)});",
                  "  batch.front(0).copy_(drawn);", "  return self;"]
        return lines + ["}", ""]
    if d.op.name == "native_dropout":
        lines += ["  if (!batch.different() && batch.batched(0)) return autograd::batch_dropout(batch, p);"]
    plain = call_with(d, names)
    entry = call_with(d, ["batch.like()" if a.type == "Tensor" else a.name for a in d.args])
    size = next((a.name for a in d.args if a.name == "size"), None)
    numbers = d.op.name == "bernoulli" and "p" in names  # the tensor says the shape only
    if not tensors and size:
        whole = call_with(d, [f"batch.sizes({size})" if n == size else n for n in names])
    elif len(tensors) == 1 and d.op.name != "multinomial":
        whole = call_with(d, ["batch.full(0)" if a.type == "Tensor" else a.name for a in d.args])
    else:
        whole = None
    if not tensors:
        same = [f"  return {plain};"]
    elif d.op.name in RANDOM_LIKE or numbers:
        same = [f"  return {entry};"]
    else:
        same = ["  batch.refuse_batched();", f"  return {plain};"]
    if whole:
        lines += [f"  if (batch.different()) return batch.wrap({whole});"]
    else:
        lines += ["  if (batch.different()) {"] + loop_lines(d, entry_call(d, form, False)) + ["  }"]
    return lines + same + ["}", ""]
