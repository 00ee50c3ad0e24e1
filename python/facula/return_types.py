"""The types of results with names: `facula.max(x, 0)` is a `facula.return_types.max` with `values` and `indices`.

They are tuples; this is where pickle finds them.
"""
from . import _native
from ._statistics import _Median as nanmedian, _Mode as mode  # noqa: F401

globals().update(_native._return_types())
