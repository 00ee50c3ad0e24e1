#!/usr/bin/env python3
"""Draws the inputs of every record, computes the truth with NumPy and SciPy, and writes one case file per op.

make_cases.py --out DIR [--seed N] [--only OP ...]
"""

import argparse
import math
import pathlib
import secrets
import sys
import traceback
import warnings
import zlib

import numpy as np

import record as vocabulary
import references
import samples
from book import read_book
from case_file import (
    ALIASES,
    DEVICES,
    DIFFERENTIABLE,
    ERROR,
    FIRST_HELD,
    INPLACE,
    LAYOUTS,
    MAGIC,
    MAY_REFUSE,
    META,
    OUT,
    RANDOM,
    SECOND_ORDER,
    SIGNED_ZERO,
    THREADS,
    UNCHECKED,
    UNDEFINED_VALUES,
    VALUES,
    Writer,
)
from dtypes import BY_NAME, DType, dtype_of, float_of, promote, real_of, rounded
from record import DROP, Options, Spec, TensorValue

RECORDS = pathlib.Path(__file__).resolve().parents[1] / "records"

# Half a unit in the last place of the half types, then what a float computation may lose: relative and absolute.
HALF_ULP = {
    "float16": 2.0**-11,
    "complex32": 2.0**-11,
    "bfloat16": 2.0**-8,
    "float8_e4m3fn": 2.0**-4,
    "float8_e5m2": 2.0**-3,
}
SINGLE, DOUBLE = (1e-6, 2e-7), (2e-14, 1e-15)


def tolerance(dtype, loose, rounds):
    """Relative and absolute tolerance; `rounds` is how often a half type may round on the way."""
    rtol, atol = DOUBLE if dtype.name in ("float64", "complex128") else SINGLE
    rtol, atol = rtol * loose, atol * loose
    if dtype.name in HALF_ULP:
        rtol, atol = (
            rtol + 1.01 * rounds * HALF_ULP[dtype.name],
            atol + (rounds - 1) * HALF_ULP[dtype.name] + dtype.smallest / 2,
        )
    return rtol, atol


def draw(x, rng, dtype, smooth=False):
    if isinstance(x, Spec):
        return x.draw_smooth(rng, dtype) if smooth else x.draw(rng, dtype)
    if isinstance(x, (list, tuple)):
        drawn = [draw(e, rng, dtype, smooth) for e in x]
        return DROP if any(e is DROP for e in drawn) else drawn
    return x


def draw_call(sample, rng, dtype, smooth=False):
    args = [draw(x, rng, dtype, smooth) for x in sample.args]
    kwargs = {k: draw(x, rng, dtype, smooth) for k, x in sample.kwargs.items()}
    if any(x is DROP for x in [*args, *kwargs.values()]):
        return None
    return args, kwargs


def for_reference(x, rule):
    """What the reference sees; a function whose result is never an integer sees no integers either."""
    if isinstance(x, TensorValue):
        floating = rule in ("float", "float scalars") and not x.index and x.dtype.is_integral
        return x.values.astype("f8") if floating else x.values
    return [for_reference(e, rule) for e in x] if isinstance(x, (list, tuple)) else x


def leaves(args, kwargs):
    for x in [*args, *kwargs.values()]:
        yield from x if isinstance(x, (list, tuple)) else [x]


def claim(rule, args, kwargs):
    """The dtype that a result rule promises for these arguments."""
    tensors = [x for x in leaves(args, kwargs) if isinstance(x, TensorValue) and not x.index]
    scalars = [x for x in [*args, *kwargs.values()] if isinstance(x, (bool, int, float, complex))]
    if isinstance(rule, DType):
        return rule
    if callable(rule):
        return dtype_of(rule(*args, **kwargs))
    if rule in ("bool", "long"):
        return BY_NAME["bool" if rule == "bool" else "int64"]
    asked = [
        x.dtype if isinstance(x, Options) else x for x in [*args, *kwargs.values()] if isinstance(x, (DType, Options))
    ]
    if asked:
        return asked[0]
    if rule == "default":
        return BY_NAME["float32"]
    if rule == "same":
        return tensors[0].dtype
    if rule == "real":
        return real_of(tensors[0].dtype)
    together = [(x.dtype, len(x.sizes)) for x in tensors]
    if rule == "promote":
        return promote(together)
    if rule == "scalars":
        return promote(together, scalars)
    if rule == "float":
        return float_of(promote(together))
    if rule == "float scalars":
        return float_of(promote(together, scalars))
    return BY_NAME[rule]


def size_of(x):
    """The largest number of an array that is finite; 0 when there is none."""
    x = np.abs(np.asarray(x, "c16"))
    return float(np.max(x[np.isfinite(x)], initial=0.0))


def term_sizes(op, args, kwargs):
    """The sizes of the sums of absolute values, one for each result of a record whose terms may cancel."""

    def positive(x):
        if isinstance(x, TensorValue):
            return x.values if x.index else np.abs(for_reference(x, op.result))
        return [positive(e) for e in x] if isinstance(x, (list, tuple)) else x

    sums = (op.cancels if callable(op.cancels) else op.ref)(*[positive(x) for x in args], **{k: positive(x) for k, x in kwargs.items()})
    return [size_of(x) for x in (sums if isinstance(sums, (tuple, list)) else [sums])]


def write_results(w, op, sample, results, args, kwargs):
    several = isinstance(results, (tuple, list))
    results = list(results) if several else [results]
    sizes = term_sizes(op, args, kwargs) if op.cancels else [0.0] * len(results)
    rules = op.result if isinstance(op.result, tuple) else (op.result,) * len(results)  # the last may have no result
    w.u32(len(results))
    for values, rule, size in zip(results, rules, sizes):
        if type(values) in (bool, int, float, complex):  # a NumPy scalar is a tensor
            w.u8(1)
            w.value(values)
            w.f64(*tolerance(BY_NAME["float32"], op.loose * sample.loose, 1))
            continue
        dtype = claim(rule, args, kwargs)
        values = np.asarray(values)
        rtol = atol = 0.0
        if values.dtype.kind == "c" and not dtype.is_complex:
            raise TypeError(f"the reference is complex, the claim is {dtype}")
        if op.random or not op.values:
            rtol = math.nan
        elif op.exact:
            values = rounded(values, dtype)
        elif dtype.category >= 2:
            rtol, atol = tolerance(dtype, op.loose * sample.loose, op.rounds)
            atol += rtol * size
        w.u8(0)
        w.truth(values if dtype.category >= 2 else values.astype(dtype.working), dtype, rtol, atol)


def write_case(w, op, sample, entry, rng, dtype, title):
    drawn = draw_call(sample, rng, dtype)
    if drawn is None:
        return False
    args, kwargs = drawn
    schema, full = entry.bind(args, kwargs)
    w.string(title)
    w.u8(RANDOM if op.random else VALUES)
    w.u32(
        META * op.meta
        | DEVICES * op.devices
        | INPLACE * op.inplace
        | OUT * op.out
        | LAYOUTS * op.layouts
        | THREADS * op.threads
        | SIGNED_ZERO * op.signed_zero
        | ALIASES * op.aliases
        | UNDEFINED_VALUES * (not op.values)
    )
    w.string(schema)
    w.u32(len(full))
    for x in full:
        w.value(x)
    seen = [for_reference(x, op.result) for x in args], {k: for_reference(x, op.result) for k, x in kwargs.items()}
    if op.sees_dtype:
        seen[1]["claimed"] = claim(op.result, args, kwargs)
    if not op.random:
        write_results(w, op, sample, op.ref(*seen[0], **seen[1]), args, kwargs)
        return True
    stats = op.random(*seen[0], **seen[1]) if callable(op.random) else op.random
    write_results(w, op, sample, np.zeros(op.ref(*seen[0], **seen[1])), args, kwargs)
    w.f64(stats.low, stats.high, stats.mean, stats.std)
    w.u32(len(stats.cdf))
    for x, p in stats.cdf:
        w.f64(x, p)
    w.u8(stats.permutation)
    return True


def write_error(w, op, failure, entry, rng):
    args, kwargs = draw_call(failure.call, rng, BY_NAME["float32"])
    schema, full = entry.bind(args, kwargs)
    w.string(f"{op.name}({failure.call!r}) must fail")
    w.u8(ERROR)
    w.u32(META * (op.meta and failure.meta))
    w.string(schema)
    w.u32(len(full))
    for x in full:
        w.value(x)
    w.string(failure.kind)
    w.string(failure.text)


def cases_of(op, entry, seed, most_bytes):
    """The bytes of one op's case file, and how many cases it holds. Cases of more than `most_bytes` are left out,
    unless no other is there."""
    rng = np.random.default_rng([seed, zlib.crc32(op.name.encode())])
    body, count, smallest = [], 0, None
    for dtype in op.dtypes:
        for number, sample in enumerate(op.samples):
            if sample.only is not None and dtype not in sample.only:
                continue
            w = Writer()
            title = f"{op.name}({sample!r}), {dtype}, sample {number}"
            try:
                written = write_case(w, op, sample, entry, rng, dtype_of(dtype), title)
            except Exception as problem:
                raise RuntimeError(title) from problem
            if not written:
                continue
            case = w.bytes()
            if smallest is None or len(case) < len(smallest):
                smallest = case
            if most_bytes is None or len(case) <= most_bytes:
                body.append(case)
                count += 1
    if not body and smallest is not None:
        body, count = [smallest], 1
    for failure in op.errors:
        w = Writer()
        write_error(w, op, failure, entry, rng)
        body.append(w.bytes())
        count += 1
    head = Writer()
    head.parts.append(MAGIC)
    head.u64(seed)
    head.string(op.name)
    head.u32(count)
    return head.bytes() + b"".join(body), count


# A direction through more numbers than this shows nothing new.
MOST_GRADIENT_ELEMENTS = 320
WIDE = (BY_NAME["float64"], BY_NAME["complex128"])


def gradient_cases_of(op, entry, seed):
    """The bytes of one op's gradient cases, and how many there are.

    Dtypes that no sample claims are tried: an op may take complex numbers that only its gradient needs, and may refuse
    them.
    """
    rng = np.random.default_rng([seed, zlib.crc32(op.name.encode()), 1])
    refused = isinstance(op.gradient, str)
    differentiable = "nondifferentiable" not in entry.fields
    flags = DIFFERENTIABLE * differentiable | SECOND_ORDER * (op.gradient_orders > 1) | UNCHECKED * refused
    samples = (op.samples if op.gradient is None or refused else op.gradient) + op.gradient_extra
    names = {dtype_of(d).name for d in op.dtypes}
    body = []
    for dtype in WIDE:
        claimed = dtype.name in names
        for number, sample in enumerate(samples):
            if sample.only is not None and dtype not in sample.only:
                continue
            drawn = draw_call(sample, rng, dtype, smooth=True)
            if drawn is None:
                continue
            moving = [x for x in leaves(*drawn) if isinstance(x, TensorValue) and x.dtype is dtype]
            if not moving or sum(x.values.size for x in moving) > MOST_GRADIENT_ELEMENTS:
                continue
            w = Writer()
            try:
                schema, full = entry.bind(*drawn)
            except TypeError:
                if claimed:
                    raise
                continue
            w.string(f"{op.name}({sample!r}), {dtype}, gradient sample {number}")
            w.u8(VALUES)
            wide = [x for x in leaves(full, {}) if isinstance(x, TensorValue) and x.dtype in WIDE]
            holding = sum(FIRST_HELD << k for k, x in enumerate(wide) if x.held)
            w.u32(flags | MAY_REFUSE * (not claimed) | holding)
            w.string(schema)
            w.u32(len(full))
            for x in full:
                w.value(x)
            w.u32(0)
            body.append(w.bytes())
    if op.random and not differentiable:
        body = []
    if differentiable and not refused and not body:
        raise ValueError(f"no sample shows the gradient of {op.name}: give its record `gradient` calls")
    head = Writer()
    head.parts.append(MAGIC)
    head.u64(seed)
    head.string(op.name)
    head.u32(len(body))
    return head.bytes() + b"".join(body), len(body)


def read_records():
    shared = {name: getattr(samples, name) for name in ("recurrent_samples", "activated_sums")}
    scope = {**vars(references), **vars(vocabulary), **shared}
    for path in sorted(RECORDS.glob("*.py")):
        before = len(vocabulary.RECORDS)
        exec(compile(path.read_text(), str(path), "exec"), dict(scope))
        names = [r.name for r in vocabulary.RECORDS[before:]]
        if names != [path.stem]:
            raise ValueError(f"{path.name} must hold one record, that of {path.stem}; it holds {names}")
    return vocabulary.RECORDS


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, help="fresh when not given")
    parser.add_argument("--only", nargs="+", metavar="OP")
    parser.add_argument("--most-bytes", type=int, metavar="N", help="leave out larger cases")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.only:
        for stale in [*options.out.glob("*.cases"), *options.out.glob("*.gradients")]:
            stale.unlink()
    book, total, failed = read_book(), 0, 0
    for op in read_records():
        if options.only and op.name not in options.only:
            continue
        try:
            if op.name not in book:
                raise KeyError(f"{op.name} is not in the op book")
            data, count = cases_of(op, book[op.name], seed, options.most_bytes)
            gradients, gradient_count = gradient_cases_of(op, book[op.name], seed)
        except Exception:
            traceback.print_exc()
            failed += 1
            continue
        (options.out / f"{op.name}.cases").write_bytes(data)
        (options.out / f"{op.name}.gradients").write_bytes(gradients)
        total += count + gradient_count
    print(f"{total} cases, seed {seed}, in {options.out}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
