"""facula.progress: a bar that tells how far a loop is."""
from __future__ import annotations

import math
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Optional, Union

from . import _native
from ._native import Tensor

__all__ = ["progress"]


def _columns(file: Any) -> int:
    try:
        columns = os.get_terminal_size(file.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 0
    return columns if columns > 0 else shutil.get_terminal_size().columns  # some terminals say 0


class progress:
    """The elements of an iterable, with a bar over them: share, rate, time left, and numbers such as the loss.

        bar = facula.progress(loader, "epoch 1")
        for x, y in bar:
            bar.set(loss=train_step(x, y))

    Without an iterable, `bar.step()` counts, and `with` ends the bar. It is drawn on standard error, and only when that
    is a terminal: logs and pipes stay clean. `shown` decides otherwise."""

    def __init__(self, iterable: Optional[Iterable[Any]] = None, label: str = "", total: Optional[int] = None, *,
                 unit: str = "it", interval: float = 0.1, shown: Optional[bool] = None, file: Any = None) -> None:
        if total is None and iterable is not None:
            try:
                total = len(iterable)  # type: ignore[arg-type]
            except TypeError:
                total = None
        self._iterable, self.label, self.unit, self.total = iterable, label, unit, total
        self._file = sys.stderr if file is None else file
        self._interval = interval
        if shown is None:
            is_terminal = getattr(self._file, "isatty", None)
            shown = bool(is_terminal and is_terminal()) and os.environ.get("TERM", "dumb") != "dumb"
        self.shown = shown
        self._utf8 = "utf" in (getattr(self._file, "encoding", None) or "").lower()
        self.values: dict[str, float] = {}
        self.done, self._rate = 0, 0.0
        self._begin = time.monotonic()
        self._drawn: Optional[float] = None
        self._measured: Optional[float] = None
        self._measured_done, self._finished = 0, False
        self._draw(now=True)

    def step(self, count: int = 1, **values: Union[float, Tensor]) -> None:
        """So many more are done; numbers by name are shown beside the bar."""
        self.done += count
        self.set(**values)

    def set(self, **values: Union[float, Tensor]) -> None:
        """Numbers that are shown from now on."""
        for name, value in values.items():
            self.values[name] = value if isinstance(value, (int, float)) else float(value)
        self._draw()

    def print(self, line: object) -> None:
        """A line of text above the bar."""
        bar = self.shown and not self._finished
        self._file.write(("\r\x1b[K" if bar else "") + str(line) + "\n")
        self._draw(now=True)

    def finish(self) -> None:
        """Leaves the bar as it is and goes to the next line."""
        if self._finished:
            return
        self._draw(now=True)
        self._finished = True
        if self.shown:
            self._file.write("\n")
            self._file.flush()

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begin

    @property
    def rate(self) -> float:
        """Steps in a second."""
        return self._rate

    def line(self, columns: int = 80) -> str:
        """What the terminal shows."""
        values = [(name, float(value)) for name, value in self.values.items()]
        total = -1 if self.total is None else int(self.total)
        return _native._progress_line(str(self.label), self.done, total, self.seconds, self._rate, self.unit, values,
                                      columns, self._utf8)

    def _measure(self, now: float) -> None:
        """The rate of the last seconds: old steps fade."""
        passed = now - (0.0 if self._measured is None else self._measured)
        if passed < 0.05:
            return
        recent = (self.done - self._measured_done) / passed
        weight = 1.0 if self._measured is None else 1 - math.exp(-passed / 5)
        self._rate += weight * (recent - self._rate)
        self._measured, self._measured_done = now, self.done

    def _draw(self, now: bool = False) -> None:
        time_now = self.seconds
        if self._finished or (not now and self._drawn is not None and time_now - self._drawn < self._interval):
            return
        self._measure(time_now)
        if now and self.done == self.total and time_now > 0:
            self._rate = self.done / time_now
        self._drawn = time_now
        if self.shown:
            self._file.write("\r" + self.line(_columns(self._file) - 1) + "\x1b[K")
            self._file.flush()

    def __iter__(self) -> Iterator[Any]:
        if self._iterable is None:
            raise TypeError("progress(): there is nothing to walk over; give an iterable, or call step()")
        try:
            for each in self._iterable:
                yield each
                self.step()
        finally:
            self.finish()

    def __len__(self) -> int:
        if self.total is None:
            raise TypeError("progress(): the number of elements is not known")
        return self.total

    def __enter__(self) -> progress:
        return self

    def __exit__(self, *exception: object) -> None:
        self.finish()
