"""Event files that TensorBoard shows, by PyTorch's names.

    from facula.utils.tensorboard import SummaryWriter
    with SummaryWriter("runs/first") as writer:
        writer.add_scalar("loss/train", loss, step)
"""
from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Union

from .. import _native
from .._native import Tensor

__all__ = ["SummaryWriter"]


def _tensor(values: Any) -> Tensor:
    return values if isinstance(values, _native.Tensor) else _native.as_tensor(values)


class SummaryWriter:
    """Writes one event file in `log_dir`, by default runs/TIME_HOST."""

    def __init__(self, log_dir: Optional[Union[str, "os.PathLike[str]"]] = None, comment: str = "",
                 purge_step: Optional[int] = None, max_queue: int = 10, flush_secs: int = 120,
                 filename_suffix: str = "") -> None:
        if not log_dir:
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + "_" + socket.gethostname() + comment)
        if purge_step is not None:
            raise _native.NotSupportedError("SummaryWriter(): purge_step is not there; begin a new folder instead")
        self.log_dir = os.fsdecode(log_dir)
        self._native = _native._SummaryWriter(self.log_dir, filename_suffix)

    def get_logdir(self) -> str:
        return self.log_dir

    def add_scalar(self, tag: str, scalar_value: Union[float, Tensor], global_step: Optional[int] = None,
                   walltime: Optional[float] = None, new_style: bool = False, double_precision: bool = False) -> None:
        """One number."""
        self._native.add_scalar(tag, float(scalar_value), int(global_step or 0), walltime)

    def add_scalars(self, main_tag: str, tag_scalar_dict: Mapping[str, Union[float, Tensor]],
                    global_step: Optional[int] = None, walltime: Optional[float] = None) -> None:
        """Several numbers, as `main_tag/name`."""
        for name, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step, walltime)

    def add_histogram(self, tag: str, values: Any, global_step: Optional[int] = None, bins: str = "tensorflow",
                      walltime: Optional[float] = None, max_bins: Optional[int] = None) -> None:
        """How the values of a tensor are distributed; the buckets are always TensorFlow's."""
        self._native.add_histogram(tag, _tensor(values), int(global_step or 0), walltime)

    def add_histogram_raw(self, tag: str, min: float, max: float, num: float, sum: float, sum_squares: float,
                          bucket_limits: Iterable[float], bucket_counts: Iterable[float],
                          global_step: Optional[int] = None, walltime: Optional[float] = None) -> None:
        """The same, counted already."""
        self._native.add_histogram_raw(tag, float(min), float(max), float(num), float(sum), float(sum_squares),
                                       [float(each) for each in bucket_limits], [float(each) for each in bucket_counts],
                                       int(global_step or 0), walltime)

    def add_text(self, tag: str, text_string: str, global_step: Optional[int] = None,
                 walltime: Optional[float] = None) -> None:
        """Markdown."""
        self._native.add_text(tag, str(text_string), int(global_step or 0), walltime)

    def add_image(self, tag: str, img_tensor: Any, global_step: Optional[int] = None, walltime: Optional[float] = None,
                  dataformats: str = "CHW") -> None:
        """One picture: uint8 from 0 to 255 or floating numbers from 0 to 1."""
        image = _tensor(img_tensor)
        orders = {"CHW": None, "HW": None, "HWC": (2, 0, 1)}
        if dataformats.upper() not in orders:
            raise _native.ArgumentError(f"add_image(): dataformats must be CHW, HWC or HW, not {dataformats!r}")
        order = orders[dataformats.upper()]
        self._native.add_image(tag, image.permute(*order) if order else image, int(global_step or 0), walltime)

    def flush(self) -> None:
        self._native.flush()

    def close(self) -> None:
        self._native.close()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
