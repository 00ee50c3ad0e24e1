"""The part of opgen that concerns batches (vmap): which rule takes a call on batched tensors apart. See src/autograd/batch.h.

A pointwise op runs once over aligned values. An op of one tensor whose dimensions are arguments runs once with the
dimensions counted one further. A few ops have an expression of their own below. All others run entry by entry.
"""
TENSORS = ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]")

# Ops of one tensor for which a batch in front changes nothing but the arguments named here.
DIMS = set("""sum mean nansum amax amin std var std_mean var_mean norm logsumexp prod max min median any all softmax
log_softmax cumsum cumprod cummax cummin logcumsumexp sort topk kthvalue flip transpose squeeze unsqueeze select slice
diagonal unfold split_with_sizes unbind view reshape count_nonzero""".split())
SAME = set("""alias clone view_as_real view_as_complex real imag native_dropout empty_like zeros_like ones_like
full_like rand_like randn_like randint_like bernoulli""".split())
ALIGNED = "std::min(batch[0].dim(), batch[1].dim()) > 1"
OWN = {
    "matmul": (ALIGNED, "facula::matmul(batch.front_of_rank(0, std::max(batch[0].dim(), batch[1].dim())), "
                        "batch.front_of_rank(1, std::max(batch[0].dim(), batch[1].dim())))"),
    "linear": ("!batch.batched(1) && (!batch[2].defined() || !batch.batched(2))",
               "facula::linear(batch.front(0), weight, bias)"),
    "layer_norm": ("(!batch[1].defined() || !batch.batched(1)) && (!batch[2].defined() || !batch.batched(2))",
                   "facula::layer_norm(batch.front(0), normalized_shape, weight, bias, eps, cudnn_enable)"),
    "rms_norm": ("!batch[1].defined() || !batch.batched(1)",
                 "facula::rms_norm(batch.front(0), normalized_shape, weight, eps)"),
    "mm": ("batch[0].dim() == 2 && batch[1].dim() == 2", "facula::matmul(batch.front(0), batch.front(1))"),
    "bmm": ("batch[0].dim() == 3 && batch[1].dim() == 3", "facula::matmul(batch.front(0), batch.front(1))"),
    "mv": ("batch[0].dim() == 2 && batch[1].dim() == 1",
           "facula::matmul(batch.front(0), batch.front(1).unsqueeze(-1)).squeeze(-1)"),
    "dot": ("batch[0].dim() == 1 && batch[0].sizes() == batch[1].sizes() && batch[0].is_floating_point()",
            "facula::sum(facula::mul(batch.front(0), batch.front(1)), IntArrayRef({-1}))"),
    "t": ("batch.rank() < 3", "batch.rank() < 2 ? batch.front(0) : facula::transpose(batch.front(0), 1, 2)"),
    "tril": ("batch.rank() > 1", "facula::tril(batch.front(0), diagonal)"),
    "triu": ("batch.rank() > 1", "facula::triu(batch.front(0), diagonal)"),
    "permute": "facula::permute(batch.front(0), batch.permutation(dims))",
    "as_strided": "facula::as_strided(batch.front(0), batch.sizes(size), batch.strides(stride), storage_offset)",
    "expand": "batch.front_of_rank(0, static_cast<int64_t>(size.size())).expand(batch.sizes(size), implicit)",
}


def mapped(d, arg):
    """The argument as the value's op takes it."""
    if arg.name in ("dim", "dim0", "dim1", "dim2", "dimension") and arg.type == "int":
        return f"batch.{'new_dim' if d.op.name == 'unsqueeze' else 'dim'}({arg.name})"
    if arg.name in ("dim", "dims") and arg.type in ("int[]", "int[]?"):
        every = d.op.kind == "reduction" or arg.type == "int[]?"
        return f"batch.{'dims_or_all' if every else 'dims'}({arg.name})"
    if arg.name in ("size", "shape") and arg.type == "int[]":
        return f"batch.sizes({arg.name})"
    return arg.name


def one_call(d):
    """The expression that computes the whole batch at once, or None."""
    op = d.op
    if op.name in OWN:
        own = OWN[op.name]
        return own if isinstance(own, str) else own[1]
    tensors = [a for a in d.args if a.type in TENSORS]
    if len(tensors) != 1 or tensors[0].type != "Tensor":
        return None
    if op.name == "squeeze" and len(d.args) == 1:
        return "batch.front(0).squeeze(batch.ones())"
    mentions = [a for a in d.args if mapped(d, a) != a.name]
    same = op.name in SAME or (op.name == "view" and any(a.type == "ScalarType" for a in d.args))
    if not ((op.name in DIMS and mentions) or (same and not mentions)):
        return None
    values = [mapped(d, a) for a in d.args if a is not tensors[0]]
    if not d.has("function"):
        return f"batch.front(0).{op.name}({', '.join(values)})"
    values.insert(d.args.index(tensors[0]), "batch.front(0)")
    return f"facula::{op.cpp_name}({', '.join(values)})"


def entry_arguments(d):
    """Arguments of the call with tensors taken from the flat list `t`."""
    values, position = {}, ""
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


def batch_branch(d, form, inplace, public_name):
    """Statements that handle a call on batched tensors."""
    tensors = ", ".join(a.name for a in d.args if a.type in TENSORS)
    values = entry_arguments(d)
    names = [values.get(a.name, a.name) for a in d.args]
    if form.is_method:
        own = names.pop(d.args.index(d.self_arg))
        call = f"{own}.{form.name}({', '.join(names)})"
    elif inplace:
        position = d.args.index(d.self_arg)
        names[position] = f"const_cast<Tensor&>({names[position]})"
        call = f"facula::{form.name}({', '.join(names)})"
    else:
        call = f"facula::{form.name}({', '.join(names)})"
    lines = [f"    const autograd::BatchCall batch(OpId::{d.op.name}, {tensors});"]
    pointwise = d.op.kind == "pointwise" or d.op.name == "copy_"
    if inplace:
        if d.op.kind == "view":
            return [f'    autograd::refuse_batch(OpId::{d.op.name}, "changed geometry");']
        rule = "batch_pointwise_inplace" if pointwise else "batch_loop_inplace"
        return lines + [f"    autograd::{rule}(batch, [&](autograd::BatchTensors t) {{ {call}; }});", "    return self;"]
    if d.result_cpp in ("bool", "int64_t", "Scalar", "void"):
        return [f'    autograd::refuse_batch(OpId::{d.op.name}, "{d.results[0][0]}");']
    if pointwise and d.single_tensor:
        return lines + [f"    return autograd::batch_pointwise(batch, [&](autograd::BatchTensors t) {{ return {call}; }});"]
    whole = one_call(d)
    if whole:
        ranks = "if (batch.rank() > 0) "
        if d.op.name in OWN and not isinstance(OWN[d.op.name], str):
            ranks = f"if ({OWN[d.op.name][0]}) "
        elif d.op.name in OWN or d.op.name in SAME or d.op.name in ("view", "reshape", "unsqueeze"):
            ranks = ""
        lines += [f"    {ranks}{{", "      const detail::Above above;", f"      return batch.wrap({whole});", "    }"]
        if not ranks:
            return lines
    return lines + [f"    return autograd::unflat<{d.result_cpp}>(autograd::batch_loop(",
                    f"        batch, [&](autograd::BatchTensors t) {{ return autograd::flat({call}); }}));"]
