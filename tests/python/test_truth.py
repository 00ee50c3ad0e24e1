"""Every op of the op book through the Python package, against NumPy and SciPy in double precision.

The inputs, references and tolerances are those of tests/records. Each case is called as a function, as a method, in
place and with `out=`; each error input must raise the matching exception. FACULA_SEED repeats a run.
"""

import math

import numpy as np
import pytest
from record_cases import (
    OPS,
    RECORDS,
    array_of,
    bit_difference,
    cases_of,
    dtypes,
    facula_dtype,
    failures_of,
    filled,
    values_of,
)
from seed import SEED, seed_text

import facula

SHOWN = 6  # complaints printed for one op; the rest is counted

# Python's users know these under another name.
NAMES = {"numpy_T": "T"}
# Functions of the package that PyTorch gives another form than the op has; the op itself stands beside them.
FACES = set(facula._functions.__all__)
# Those among them that mean something else by the same arguments.
OTHER_ARGUMENTS = {"tensordot", "unique", "unique_consecutive"}


def function_of(name):
    """The function of an op: one of the package, or of its native part where the package has none of that name."""
    if name not in FACES and hasattr(facula, name):
        return getattr(facula, name)
    return getattr(facula._native, name, None)


def results_of(value):
    if isinstance(value, (tuple, list)):
        return list(value)
    return [value]


def call_method(case, given, name):
    """The op as a method, or as a property where the type has one."""
    rest = {k: v for k, v in given.items() if k != "self"}
    found = getattr(given["self"], NAMES.get(name, name))
    if isinstance(found, facula.Tensor):
        return found
    args, kwargs = case.split(rest)
    return found(*args, **kwargs)


def call_plain(case, given):
    """The op as a function; as a method where it is none; in place on its own copy where it is nothing else."""
    name = case.record.name
    if case.overload.has("function"):
        args, kwargs = case.split(given)
        return function_of(name)(*args, **kwargs)
    return call_method(case, given, name)


class Complaints(list):
    def add(self, what, why):
        if why:
            self.append(f"{what}: {why}")

    def guarded(self, what, body):
        """Runs `body` and turns what it raises into a complaint."""
        try:
            body()
        except Exception as error:
            self.append(f"{what}: {type(error).__name__}: {error}")


def check_results(to, what, results, case, compare_values=True):
    if len(results) != len(case.truths):
        to.append(f"{what}: there are {len(results)} results, must be {len(case.truths)}")
        return
    for i, (result, truth) in enumerate(zip(results, case.truths)):
        compare = compare_values and case.record.values
        to.add(
            what if len(results) == 1 else f"{what}, result {i}",
            truth.difference(result, case.record.signed_zero, compare),
        )


def check_same(to, what, results, plain):
    if len(results) != len(plain):
        to.append(f"{what}: there are {len(results)} results, plainly {len(plain)}")
    for a, b in zip(results, plain):
        to.add(what, bit_difference(a, b))


def untouched(memories, before, skip_first=False):
    for i, (memory, bytes_before) in enumerate(zip(memories, before)):
        if not (skip_first and i == 0) and memory.tobytes() != bytes_before:
            return f"input {i} was changed"
    return ""


def fits_inplace(case):
    """Whether the result can be written over `self`."""
    overload, truths = case.overload, case.truths
    if not overload.has("inplace") or len(truths) != 1 or truths[0].number:
        return False
    own = case.values[[a.name for a in overload.args].index("self")]
    return truths[0].dtype is own.dtype and truths[0].sizes == tuple(own.sizes)


def overlaps_itself(tensor):
    return any(n > 1 and s == 0 for n, s in zip(tensor.shape, tensor.stride()))


def check_inplace(to, case):
    name = OPS[case.record.name].inplace_name
    ways = []
    if hasattr(facula.Tensor, name):
        ways.append(("in place", lambda given: call_method(case, given, name)))
    function = function_of(name)
    if function is not None and not case.record.name.endswith("_"):

        def through_function(given):
            args, kwargs = case.split(given)
            return function(*args, **kwargs)

        ways.append((f"facula.{name}", through_function))
    if not ways:
        to.append(f"there is neither Tensor.{name} nor facula.{name}")
    for what, way in ways:

        def body():
            given, memories = case.arguments()
            strided = not overlaps_itself(given["self"])
            if not strided:
                given["self"] = given["self"].contiguous()
            before = [m.tobytes() for m in memories]
            version = given["self"]._version
            result = way(given)
            if result is not given["self"]:
                to.append(f"{what}: must return the tensor itself")
            check_results(to, what, [given["self"]], case)
            if given["self"]._version <= version:
                to.append(f"{what}: the version was not raised")
            to.add(what, untouched(memories, before, skip_first=strided))

        to.guarded(what, body)


def check_out(to, case):
    function = function_of(case.record.name)
    if any(truth.number for truth in case.truths):
        return
    for kind in ("empty", "with gaps"):
        what = f"into an out tensor {kind}"

        def body():
            given, memories = case.arguments()
            before = [m.tobytes() for m in memories]
            if kind == "empty":
                outs = [facula.empty(0, dtype=facula_dtype(truth.dtype)) for truth in case.truths]
            else:
                outs = [filled(truth.dtype, truth.sizes, gaps=True) for truth in case.truths]
            args, kwargs = case.split(given)
            kwargs.pop("dtype" if any(a.type == "TensorOptions" for a in case.overload.args) else "", None)
            several = len(case.overload.results) > 1
            result = function(*args, **kwargs, out=tuple(outs) if several else outs[0])
            if any(a is not b for a, b in zip(results_of(result), outs)):
                to.append(f"{what}: must return the out tensor itself")
            check_results(to, what, outs, case)
            to.add(what, untouched(memories, before))

        to.guarded(what, body)


def check_spellings(to, case, plain):
    """The same call by keywords, with a list spread over the arguments, and under other names."""
    name, overload = case.record.name, case.overload
    function = function_of(name)
    if overload.has("function"):
        given, _ = case.arguments()
        named = case.keywords(given)
        to.guarded("by keywords", lambda: check_same(to, "by keywords", results_of(function(**named)), plain))
        faces = [name] if name in FACES and name not in OTHER_ARGUMENTS else []
        for alias in faces + [alias for alias in OPS[name].aliases if not alias.startswith("_")]:
            args, kwargs = case.split(given)
            what = f"as facula.{alias}"
            to.guarded(what, lambda: check_same(to, what, results_of(getattr(facula, alias)(*args, **kwargs)), plain))
    if overload.has("method") and not name.endswith("_"):
        given, _ = case.arguments()
        rest = [a for a in overload.args if a.name != "self" and a.name in given]
        if len(rest) == 1 and rest[0].type in ("int[]", "int[]?") and not rest[0].keyword_only and given[rest[0].name]:
            what = "with a list spread over the arguments"
            if sum(not a.keyword_only for a in overload.args) == 2:
                to.guarded(
                    what,
                    lambda: check_same(to, what, results_of(getattr(given["self"], name)(*given[rest[0].name])), plain),
                )


def check_meta(to, case):
    if not any(True for _ in case.tensors()):
        return

    def body():
        given, _ = case.arguments(device="meta")
        results = results_of(call_plain(case, given))
        for result in results:
            if isinstance(result, facula.Tensor) and not result.is_meta:
                to.append("on meta tensors: the result is not on the meta device")
        check_results(to, "on meta tensors", results, case, compare_values=False)

    to.guarded("on meta tensors", body)


def check_values(case, spellings):
    to, plain = Complaints(), []
    record, overload = case.record, case.overload
    in_place_only = not overload.has("function") and record.name.endswith("_")

    def plainly():
        given, memories = case.arguments()
        if in_place_only and overlaps_itself(given["self"]):
            given["self"] = given["self"].contiguous()
        before = [m.tobytes() for m in memories]
        result = call_plain(case, given)
        plain.extend(results_of(result))
        check_results(to, "plainly", plain, case)
        to.add("plainly", untouched(memories, before, skip_first=in_place_only))
        if in_place_only and result is not given["self"]:
            to.append("plainly: must return the tensor itself")
        for each in plain if record.aliases else []:
            if each.numel() and not np.may_share_memory(array_of(each), memories[0]):
                to.append("the result must be a view of its input")

    to.guarded("plainly", plainly)
    if to:  # a wrong result makes the rest noise
        return to
    if overload.has("function") and overload.has("method"):

        def as_method():
            given, _ = case.arguments()
            check_results(to, "as a method", results_of(call_method(case, given, record.name)), case)

        to.guarded("as a method", as_method)
    if record.inplace and not in_place_only and fits_inplace(case):
        check_inplace(to, case)
    if record.out and overload.has("out"):
        check_out(to, case)
    if spellings and record.values and not in_place_only:
        check_spellings(to, case, plain)
    if spellings and record.meta:
        check_meta(to, case)
    return to


# Random ops: bounds, mean and distribution function, each within this many standard deviations.
SIGMAS = 6.0


def statistics_difference(values, want):
    n = values.size
    if not n:
        return ""
    if values.min() < want.low or values.max() > want.high or np.isnan(values).any():
        return f"the numbers {values.min()}..{values.max()} are outside {want.low}..{want.high}"
    if want.permutation and not np.array_equal(np.sort(values.reshape(-1)), np.arange(n)):
        return "the numbers are no permutation"
    mean = values.mean()
    if math.isfinite(want.mean) and math.isfinite(want.std):
        if abs(mean - want.mean) > SIGMAS * want.std / math.sqrt(n) + 1e-6:
            return f"the mean of {n} numbers is {mean}, must be about {want.mean}"
    for x, p in want.cdf:
        share = np.count_nonzero(values <= x) / n
        if abs(share - p) > SIGMAS * math.sqrt(p * (1 - p) / n) + 1e-9:
            return f"a share of {share} of {n} numbers is at most {x}, must be about {p}"
    return ""


def check_random(case):
    to = Complaints()

    def draw():
        facula.manual_seed(SEED)
        given, _ = case.arguments()
        return results_of(call_plain(case, given))

    def body():
        first = draw()
        to.add("plainly", case.truths[0].difference(first[0], compare_values=False))
        to.add("statistics", statistics_difference(values_of(first[0]), case.statistics))
        check_same(to, "with the same seed", draw(), first)

    to.guarded("plainly", body)
    return to


KINDS = {
    "ShapeError": (RuntimeError, ValueError),
    "DTypeError": (RuntimeError, TypeError),
    "DeviceError": (RuntimeError,),
    "NotSupportedError": (RuntimeError, NotImplementedError),
    "ValueError": (RuntimeError, ValueError),
    "IndexError": (IndexError,),
}
PYTHON_NAMES = {"ValueError": "ArgumentError"}  # Python's own name stays Python's


def check_failure(case):
    to = Complaints()
    name, failure, overload = case.record.name, case.failure, case.overload
    ways = []
    if overload.has("function"):
        ways.append(("plainly", lambda given: call_plain(case, given)))
    if overload.has("method"):
        ways.append(("as a method", lambda given: call_method(case, given, name)))
    inplace = OPS[name].inplace_name
    if overload.has("inplace") and inplace != name and hasattr(facula.Tensor, inplace):
        ways.append(("in place", lambda given: call_method(case, given, inplace)))
    for what, way in ways:
        given, memories = case.arguments()
        before = [m.tobytes() for m in memories]
        try:
            way(given)
            to.append(f"{what}: must fail with {failure.kind}, but succeeded")
        except Exception as error:
            kind = PYTHON_NAMES.get(failure.kind, failure.kind)
            if type(error).__name__ != kind or not all(isinstance(error, k) for k in KINDS[failure.kind]):
                to.append(f"{what}: must fail with {failure.kind}, but failed with {type(error).__name__}: {error}")
            elif failure.text not in str(error):
                to.append(f'{what}: the text must contain "{failure.text}", but is: {error}')
        to.add(what, untouched(memories, before))
    return to


def report(complaints, total):
    text = [line for title, lines in complaints for line in [title, *("    " + each for each in lines)]]
    shown = "\n".join(text[: 2 * SHOWN])
    return f"{len(complaints)} of {total} cases fail; repeat with {seed_text()}\n{shown}"


@pytest.mark.parametrize("name", sorted(RECORDS))
def test_op_holds_its_record(name):
    wrong, total, drawn = [], 0, set()
    for case in cases_of(name):
        drawn.add(case.dtype.name)
        spellings = len(drawn) == 1  # one dtype shows them
        complaints = check_random(case) if case.statistics else check_values(case, spellings)
        total += 1
        if complaints:
            wrong.append((case.title, complaints))
    # A sample whose inputs make no sense for a dtype is dropped; no dtype may lose all of them.
    assert drawn == {dtypes.dtype_of(d).name for d in RECORDS[name].dtypes}
    for case in failures_of(name):
        total += 1
        complaints = check_failure(case)
        if complaints:
            wrong.append((case.title, complaints))
    assert not wrong, report(wrong, total)


def test_every_op_has_a_record():
    assert set(OPS) == set(RECORDS)
    assert len(OPS) >= 321, "the op book lost ops"
