"""The part of opgen that concerns autocast: which ops cast their tensors before anything else (ops/autocast.txt), and the test
with which their calls begin.
"""

POLICIES = {"lower": "Lower", "float32": "Float32", "dtype": "Dtype", "promote": "Promote"}
DEVICES = ("cpu", "cuda")
TENSORS = ("Tensor", "Tensor?", "Tensor[]", "Tensor?[]")


class AutocastError(Exception):
    """A mistake in the lists, with the place where it stands."""


def read_lists(path, ops, place):
    """Gives every op of a list its policies: op.autocast[device]."""
    by_name = {op.name: op for op in ops}
    for op in ops:
        op.autocast = {}
    if not path.exists():
        return
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        here = f"{place}:{number}"
        head, colon, names = line.partition(":")
        policy, *devices = head.split()
        if not colon or policy not in POLICIES or not devices or any(d not in DEVICES for d in devices):
            raise AutocastError(f"{here}: a line reads 'POLICY DEVICE ...: OP ...' with a policy of {', '.join(POLICIES)} and "
                                f"devices of {', '.join(DEVICES)}, not '{line}'")
        for name in names.split():
            if name not in by_name:
                raise AutocastError(f"{here}: there is no op '{name}'")
            for device in devices:
                if device in by_name[name].autocast:
                    raise AutocastError(f"{here}: '{name}' is on two lists of {device}")
                by_name[name].autocast[device] = policy


def autocast_test(d, form):
    """The first statement of the function and method forms of an op that is on a list."""
    lists = getattr(d.op, "autocast", {})
    tensors = [a.name for a in d.args if a.type in TENSORS]
    if not lists or not tensors or form.variant not in ("function", "method"):
        return []
    told = any(a.name == "dtype" and a.type == "ScalarType?" for a in d.args) and d.self_arg is not None

    def policy(device):
        name = lists.get(device, None)
        if name == "dtype" and not told:
            name = "float32"
        return "detail::CastPolicy::" + (POLICIES[name] if name else "None")

    def argument(name):
        arg = next(a for a in d.args if a.name == name)
        if arg.type in TENSORS:
            return f"cast({name})"
        if told and name == "dtype":
            return "cast.dtype(dtype, self)"
        return name

    names = [name for _, name, _ in form.params]
    values = ", ".join(argument(name) for name in names)
    call = f"cast(self).{form.name}({values})" if form.is_method else f"facula::{form.name}({values})"
    return ["  if (detail::autocast_active()) [[unlikely]] {",
            f"    const detail::AutocastCall cast({policy('cpu')}, {policy('cuda')}, {', '.join(tensors)});",
            f"    if (cast) return {call};",
            "  }"]
