from typing import Any, Literal, Optional

from facula._native import Tensor

def set_printoptions(
    precision: Optional[int] = None, threshold: Optional[float] = None, edgeitems: Optional[int] = None,
    linewidth: Optional[int] = None, profile: Optional[Literal["default", "short", "full"]] = None,
    sci_mode: Optional[bool] = None,
) -> None: ...
def get_printoptions() -> dict[str, Any]: ...
def tensor_text(tensor: Tensor) -> str: ...
