"""A stack of transformer layers. It holds modules, which the book of modules does not describe."""
from __future__ import annotations

import copy
from typing import Optional

from ..._native import Tensor
from .container import ModuleList
from .module import Module

__all__ = ["TransformerEncoder"]


class TransformerEncoder(Module):
    """`num_layers` copies of a layer, one after the other, and a norm behind the last."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Optional[Module] = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        super().__init__()
        if num_layers <= 0:
            raise ValueError(f"TransformerEncoder: num_layers must be positive, but got {num_layers}")
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src: Tensor, mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: Optional[bool] = None) -> Tensor:
        for layer in self.layers:
            src = layer(src, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return src if self.norm is None else self.norm(src)
