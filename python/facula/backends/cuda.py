"""Switches of GPUs."""
from typing import Any

from .. import _native

_cuda = _native._cuda


def is_built() -> bool:
    """Whether the library can use GPUs: it always can; `facula.cuda.is_available()` says whether there is one."""
    return True


def _switch(name: str, doc: str) -> Any:
    read, write = getattr(_cuda, "_" + name), getattr(_cuda, "_set_" + name)

    def set_it(self: Any, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"facula.backends.cuda.matmul.{name} must be True or False, not {type(value).__name__}")
        write(value)

    return property(lambda self: read(), set_it, doc=doc)


class _Matmul:
    """How exactly matrices are multiplied."""

    __slots__ = ()
    allow_tf32 = _switch("allow_tf32", "Whether the factors of float32 products may be rounded to TF32.")
    allow_fp16_reduced_precision_reduction = _switch(
        "allow_fp16_reduced_precision_reduction", "Whether parts of float16 products may be added up in float16.")
    allow_bf16_reduced_precision_reduction = _switch(
        "allow_bf16_reduced_precision_reduction", "Whether parts of bfloat16 products may be added up in bfloat16.")
    allow_fp16_accumulation = _switch(
        "allow_fp16_accumulation", "Whether all sums of float16 products may be kept in float16.")


matmul = _Matmul()
