"""What the number formats can hold: `finfo` for floating-point dtypes, `iinfo` for integers."""
from . import _native


def _dtype(function, given):
    if not isinstance(given, _native.dtype):
        raise TypeError(f"{function}(): expected a facula.dtype, got {type(given).__name__}; a tensor has its dtype in "
                        ".dtype")
    return given


class finfo:
    """The limits of a floating-point dtype."""

    def __init__(self, type=None):
        facts = _native._float_facts(_native.get_default_dtype() if type is None else _dtype("finfo", type))
        self.bits, self.eps, self.max, self.min = facts["bits"], facts["eps"], facts["max"], facts["min"]
        self.tiny = self.smallest_normal = facts["tiny"]
        self.smallest_subnormal, self.resolution = facts["smallest_subnormal"], facts["resolution"]
        self.dtype = facts["dtype"]

    def __eq__(self, other):
        return isinstance(other, finfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)

    def __repr__(self):
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})")


class iinfo:
    """The limits of an integer dtype."""

    def __init__(self, type):
        facts = _native._integer_facts(_dtype("iinfo", type))
        self.bits, self.max, self.min, self.dtype = facts["bits"], facts["max"], facts["min"], facts["dtype"]

    def __eq__(self, other):
        return isinstance(other, iinfo) and self.dtype == other.dtype

    def __hash__(self):
        return hash(self.dtype)

    def __repr__(self):
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
