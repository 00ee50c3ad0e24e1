"""Finding the operation whose gradient fails, or is the first that is not a number."""

from __future__ import annotations

from .. import _native


class detect_anomaly:
    """In this block operations keep the place where they were called, and backward stops at the first NaN.

    It makes everything slower: for finding mistakes only.
    """

    def __init__(self, check_nan=True):
        self.check_nan = bool(check_nan)

    def __enter__(self):
        self._before = _native._anomaly()
        _native._set_anomaly(True, self.check_nan)

    def __exit__(self, *error):
        _native._set_anomaly(*self._before)


class set_detect_anomaly:
    """The same from now on, or, as a context manager, until the end of the block."""

    def __init__(self, mode, check_nan=True):
        self._before = _native._anomaly()
        _native._set_anomaly(bool(mode), bool(check_nan))

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
