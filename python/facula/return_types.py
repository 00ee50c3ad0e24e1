"""The types of results with names: `facula.max(x, 0)` is a `facula.return_types.max` with `values` and `indices`.

They are tuples; this is where pickle finds them.
"""
from . import _native

globals().update(_native._return_types())
