"""Finding the operation that fails in backward, or that makes the first NaN, forwards or backwards."""

from __future__ import annotations

from .. import _native


class detect_anomaly:
    """In this block operations keep the place where they were called, and the first NaN raises a NanError.

    In the forward pass that is the first operation whose result holds NaN while none of its tensors does, and the error
    names it, what it was given and the module that it was called in; ``check_forward=False`` leaves that out. In backward it
    is the first gradient that holds NaN. It makes everything slower: for finding mistakes only.
    """

    def __init__(self, check_nan=True, *, check_forward=True):
        self.check_nan = bool(check_nan)
        self.check_forward = bool(check_forward)

    def __enter__(self):
        self._before = _native._anomaly()
        _native._set_anomaly(True, self.check_nan, self.check_forward)

    def __exit__(self, *error):
        _native._set_anomaly(*self._before)


class set_detect_anomaly:
    """The same from now on, or, as a context manager, until the end of the block."""

    def __init__(self, mode, check_nan=True, *, check_forward=True):
        self._before = _native._anomaly()
        _native._set_anomaly(bool(mode), bool(check_nan), bool(check_forward))

    def __enter__(self):
        pass

    def __exit__(self, *error):
        _native._set_anomaly(*self._before)


def is_anomaly_enabled():
    """Whether this thread looks for anomalies."""
    return _native._anomaly()[0]


def is_anomaly_check_nan_enabled():
    """Whether looking for anomalies includes looking for NaN."""
    return _native._anomaly()[1]
