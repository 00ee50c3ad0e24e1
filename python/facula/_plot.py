"""facula.LossCurve: curves of training as pictures."""
from __future__ import annotations

import os
from typing import Union

from . import _native
from ._native import Tensor

__all__ = ["LossCurve"]


class LossCurve:
    """Curves as SVG or PNG, by the ending of the path.

        curve = facula.LossCurve("Training")
        curve.add("loss", step, loss)
        curve.save("loss.svg")
    """

    def __init__(self, title: str = "", *, x_label: str = "step", y_label: str = "loss", width: int = 900,
                 height: int = 540, log_y: bool = False) -> None:
        self._native = _native._LossCurve(title, x_label, y_label, width, height, log_y)

    def add(self, name: str, x: Union[float, Tensor], y: Union[float, Tensor]) -> None:
        """One more point of the curve of this name. Values that are not finite leave a gap."""
        self._native.add(name, float(x), float(y))

    def save(self, path: Union[str, "os.PathLike[str]"]) -> None:
        """To a file that ends with .svg or .png, which is replaced as a whole."""
        self._native.save(os.fsdecode(path))

    def svg(self) -> str:
        return self._native.svg()

    def png(self) -> bytes:
        return self._native.png()

    def _repr_svg_(self) -> str:
        return self.svg()
