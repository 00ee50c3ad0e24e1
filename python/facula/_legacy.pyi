# The types of the names in _legacy.py.
from builtins import bool as _bool
from typing import Any, Optional, Union

from facula._native import Tensor, device as _device, dtype as _dtype

class _OfOneDtype(type):
    def __call__(cls, *given: Any, device: Optional[Union[str, _device]] = None) -> Any: ...
    def __instancecheck__(cls, instance: Any) -> _bool: ...

class BFloat16Tensor(metaclass=_OfOneDtype):
    dtype: _dtype
class BoolTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class ByteTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class CharTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class DoubleTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class FloatTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class HalfTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class IntTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class LongTensor(metaclass=_OfOneDtype):
    dtype: _dtype
class ShortTensor(metaclass=_OfOneDtype):
    dtype: _dtype

def make_tensor(*given: Any, device: Optional[Union[str, _device]] = None) -> Tensor: ...
