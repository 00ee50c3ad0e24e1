"""What is written by hand of attention and transformer layers."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Optional

from .. import _native
from .._native import Tensor
from . import init
from .parameter import Parameter

if TYPE_CHECKING:
    from .modules.module import Module as _Part  # what the classes here become a part of
else:
    _Part = object


def _additive(name: str, mask: Optional[Tensor], dtype: Any) -> Optional[Tensor]:
    """A mask as numbers that are added to scores: minus infinity where a bool is true."""
    if mask is None:
        return None
    if mask.dtype is _native.bool:
        return _native.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill(mask, -math.inf)
    if not mask.is_floating_point():
        raise _native.DTypeError(f"MultiheadAttention: {name} must be bool or floating, not {mask.dtype}")
    return mask.to(dtype)


class MultiheadAttention(_Part):
    training: bool

    def _build(self, factory: dict[str, Any]) -> None:
        from .modules.linear import Linear
        width, bias = self.embed_dim, self.bias
        self.head_dim = width // self.num_heads
        self._qkv_same_embed_dim = self.kdim == width and self.vdim == width

        def parameter(name: str, wanted: bool, *shape: int) -> None:
            self.register_parameter(name, Parameter(_native.empty(shape, **factory)) if wanted else None)

        parameter("in_proj_weight", self._qkv_same_embed_dim, 3 * width, width)
        parameter("q_proj_weight", not self._qkv_same_embed_dim, width, width)
        parameter("k_proj_weight", not self._qkv_same_embed_dim, width, self.kdim)
        parameter("v_proj_weight", not self._qkv_same_embed_dim, width, self.vdim)
        parameter("in_proj_bias", bias, 3 * width)
        self.out_proj = Linear(width, width, bias=bias, **factory)
        parameter("bias_k", self.add_bias_kv, 1, 1, width)
        parameter("bias_v", self.add_bias_kv, 1, 1, width)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draws the initial values anew."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            if self.out_proj.bias is not None:
                init.zeros_(self.out_proj.bias)
        for weight in (self.bias_k, self.bias_v):
            if weight is not None:
                init.xavier_normal_(weight)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Optional[Tensor] = None,
                need_weights: bool = True, attn_mask: Optional[Tensor] = None, average_attn_weights: bool = True,
                is_causal: bool = False) -> tuple[Tensor, Optional[Tensor]]:
        batched = query.dim() == 3
        if query.dim() not in (2, 3) or not query.dim() == key.dim() == value.dim():
            raise _native.ShapeError("MultiheadAttention: query, key and value must be all 3D, or all 2D without a batch, got the "
                                     f"shapes {list(query.shape)}, {list(key.shape)} and {list(value.shape)}")

        def prepared(x: Tensor) -> Tensor:
            return x.unsqueeze(1) if not batched else x.transpose(0, 1) if self.batch_first else x

        # Arguments that are the same tensor stay so, for one product instead of three.
        q = prepared(query)
        k = q if key is query else prepared(key)
        v = k if value is key else q if value is query else prepared(value)
        if not batched and key_padding_mask is not None:
            key_padding_mask = key_padding_mask.unsqueeze(0)
        result, weights = self._attend(q, k, v, key_padding_mask, need_weights, attn_mask, average_attn_weights, is_causal)
        if not batched:
            return result.squeeze(1), None if weights is None else weights.squeeze(0)
        return result.transpose(0, 1) if self.batch_first else result, weights

    def _check(self, q: Tensor, k: Tensor, v: Tensor, keys: Optional[Tensor], mask: Optional[Tensor], is_causal: bool) -> None:
        length, batch, width = q.shape
        if width != self.embed_dim:
            raise _native.ShapeError(f"MultiheadAttention: was expecting embedding dimension of {self.embed_dim}, but got {width}")
        if k.shape[:2] != v.shape[:2] or k.shape[1] != batch:
            raise _native.ShapeError(f"MultiheadAttention: key {list(k.shape)} and value {list(v.shape)} must agree in length, and "
                                     f"with the query {list(q.shape)} in the size of the batch")
        if k.shape[2] != self.kdim or v.shape[2] != self.vdim:
            raise _native.ShapeError(f"MultiheadAttention: key {list(k.shape)} and value {list(v.shape)} must have kdim={self.kdim} "
                                     f"and vdim={self.vdim} features")
        if is_causal and mask is None:
            raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
        if keys is not None and list(keys.shape) != [batch, k.shape[0]]:
            raise _native.ShapeError(f"MultiheadAttention: key_padding_mask must have the shape {[batch, k.shape[0]]} (batch, keys), "
                                     f"got {list(keys.shape)}")
        fits = ([length, k.shape[0]], [batch * self.num_heads, length, k.shape[0]])
        if mask is not None and list(mask.shape) not in fits:
            raise _native.ShapeError(f"MultiheadAttention: attn_mask must have the shape {fits[0]} or {fits[1]}, got "
                                     f"{list(mask.shape)}")

    def _project(self, q: Tensor, k: Tensor, v: Tensor) -> tuple[Any, ...]:
        if self._qkv_same_embed_dim:
            if q is k and k is v:
                return tuple(_native.linear(q, self.in_proj_weight, self.in_proj_bias).chunk(3, -1))
            weights = self.in_proj_weight.chunk(3)
        else:
            weights = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        biases = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        return tuple(_native.linear(x, w, b) for x, w, b in zip((q, k, v), weights, biases))

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, keys_mask: Optional[Tensor], need_weights: bool,
                mask: Optional[Tensor], average: bool, is_causal: bool) -> tuple[Tensor, Optional[Tensor]]:
        self._check(query, key, value, keys_mask, mask, is_causal)
        length, batch, width = query.shape
        heads = self.num_heads
        plain_causal = is_causal and keys_mask is None
        q, k, v = self._project(query, key, value)
        mask, keys_mask = _additive("attn_mask", mask, q.dtype), _additive("key_padding_mask", keys_mask, q.dtype)
        more = [] if self.bias_k is None else [(self.bias_k.expand(1, batch, -1), self.bias_v.expand(1, batch, -1))]
        if self.add_zero_attn:
            more += [(_native.zeros((1, batch, width), dtype=k.dtype, device=k.device),) * 2]
        for more_k, more_v in more:
            plain_causal = False
            k, v = _native.cat((k, more_k), 0), _native.cat((v, more_v), 0)
            mask, keys_mask = (None if m is None else _native.pad(m, (0, 1)) for m in (mask, keys_mask))
        q, k, v = (x.reshape(x.shape[0], batch, heads, width // heads).permute(1, 2, 0, 3) for x in (q, k, v))
        if mask is not None and mask.dim() == 3:
            mask = mask.reshape(batch, heads, *mask.shape[1:])
        if keys_mask is not None:
            keys_mask = keys_mask.reshape(batch, 1, 1, -1)
            mask = keys_mask if mask is None else mask + keys_mask
        dropout = self.dropout if self.training else 0.0
        weights = None
        if need_weights:
            scores = (q * (1.0 / math.sqrt(q.shape[3]))) @ k.transpose(-2, -1)
            weights = (scores if mask is None else scores + mask).softmax(-1)
            if dropout > 0:
                weights = _native.dropout(weights, dropout, True)
            result = weights @ v
            if average:
                weights = weights.mean(1)
        elif plain_causal:
            result = _native.scaled_dot_product_attention(q, k, v, None, dropout, True)
        else:
            result = _native.scaled_dot_product_attention(q, k, v, mask, dropout, False)
        return self.out_proj(result.permute(2, 0, 1, 3).reshape(length, batch, width)), weights


class TransformerEncoderLayer(_Part):
    activation: Any

    def _build(self, factory: dict[str, Any], dropout: float = 0.1) -> None:
        from . import functional as F
        from .modules.dropout import Dropout
        from .modules.linear import Linear
        from .modules.normalization import LayerNorm
        from .modules.transformer import MultiheadAttention as Attention
        bias = self.bias
        if isinstance(self.activation, str):
            known = {"relu": F.relu, "gelu": F.gelu}
            if self.activation not in known:
                raise RuntimeError(f"activation should be relu/gelu, not {self.activation}")
            self.activation = known[self.activation]
        width, inner = self.d_model, self.dim_feedforward
        self.self_attn = Attention(width, self.nhead, dropout=dropout, bias=bias, batch_first=self.batch_first, **factory)
        self.linear1 = Linear(width, inner, bias=bias, **factory)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(inner, width, bias=bias, **factory)
        self.norm1 = LayerNorm(width, eps=self.layer_norm_eps, bias=bias, **factory)
        self.norm2 = LayerNorm(width, eps=self.layer_norm_eps, bias=bias, **factory)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)

    def reset_parameters(self) -> None:
        """Draws the initial values anew."""
        for module in (self.self_attn, self.linear1, self.linear2, self.norm1, self.norm2):
            module.reset_parameters()

    def forward(self, src: Tensor, src_mask: Optional[Tensor] = None, src_key_padding_mask: Optional[Tensor] = None,
                is_causal: bool = False) -> Tensor:
        def attend(x: Tensor) -> Tensor:
            return self.dropout1(self.self_attn(x, x, x, attn_mask=src_mask, key_padding_mask=src_key_padding_mask,
                                                need_weights=False, is_causal=is_causal)[0])

        def feed(x: Tensor) -> Tensor:
            return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))

        if self.norm_first:
            x = src + attend(self.norm1(src))
            return x + feed(self.norm2(x))
        x = self.norm1(src + attend(src))
        return self.norm2(x + feed(x))
