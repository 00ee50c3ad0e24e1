"""Loading of states into modules: everything is looked at before anything is written."""
from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from ..._native import Tensor
from ...autograd import no_grad
from ..parameter import Parameter


def load_state(module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool, incompatible: Any) -> Any:
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}.")
    state = OrderedDict(state_dict)
    missing: list[str] = []
    unexpected: list[str] = []
    complaints: list[str] = []
    writes: list[Any] = []
    known = set()

    for prefix, owner in _places(module):
        for hook in list(owner._load_state_dict_pre_hooks.values()):
            hook(state, prefix, {"version": owner._version}, strict, missing, unexpected, complaints)
        for name, target, kind in _persistent(owner):
            key = prefix + name
            known.add(key)
            if key not in state:
                if key not in missing:
                    missing.append(key)
                continue
            found = _complaint(key, target, state[key], assign)
            if found:
                complaints.append(found)
            else:
                writes.append((owner, name, kind, target, state[key]))
        if owner._has_extra_state():
            key = prefix + "_extra_state"
            known.add(key)
            if key in state:
                writes.append((owner, key, "extra", None, state[key]))
            else:
                missing.append(key)
    unexpected += [key for key in state if key not in known and key not in unexpected]
    if strict and unexpected:
        complaints.insert(0, "Unexpected key(s) in state_dict: " + ", ".join(f'"{k}"' for k in unexpected) + ". ")
    if strict and missing:
        complaints.insert(0, "Missing key(s) in state_dict: " + ", ".join(f'"{k}"' for k in missing) + ". ")
    if complaints:
        raise RuntimeError(f"Error(s) in loading state_dict for {type(module).__name__}, which is unchanged:\n\t"
                           + "\n\t".join(complaints))
    _write(writes, assign)
    keys = incompatible(missing, unexpected)
    for _, owner in _places(module):
        for hook in list(owner._load_state_dict_post_hooks.values()):
            if hook(owner, keys) is not None:
                raise RuntimeError("hooks registered with register_load_state_dict_post_hook are not expected to return "
                                   "new values; change the incompatible keys in place instead")
    return keys


def _places(module: Any) -> Any:
    """All modules with the beginnings of their keys; one that is there twice has both."""
    for path, each in module.named_modules(remove_duplicate=False):
        yield path + "." if path else "", each


def _persistent(module: Any) -> Any:
    for name, tensor in module._parameters.items():
        if tensor is not None:
            yield name, tensor, "parameter"
    for name, tensor in module._buffers.items():
        if tensor is not None and name not in module._non_persistent_buffers_set:
            yield name, tensor, "buffer"


def _complaint(key: str, target: Tensor, source: Any, assign: bool) -> str:
    if not isinstance(source, Tensor):
        return (f'While copying the parameter named "{key}", expected facula.Tensor or Tensor-like object from checkpoint but '
                f"received {type(source).__name__}")
    if source.shape != target.shape:
        return (f"size mismatch for {key}: copying a param with shape {source.shape} from checkpoint, the shape in current "
                f"model is {target.shape}.")
    if target.is_meta and not source.is_meta and not assign:
        return (f"for {key}: copying from a non-meta parameter in the checkpoint to a meta parameter in the current model, "
                "which does nothing; did you mean to pass assign=True?")
    return ""


def _write(writes: list[Any], assign: bool) -> None:
    with no_grad():
        # A state that is made of the module's own tensors, such as its weights in another order, is copied aside first.
        own = {_memory(target) for _, _, kind, target, _ in writes if kind != "extra"}
        if not assign:
            writes = [(owner, name, kind, target, source.detach().clone()
                       if kind != "extra" and _memory(source) in own and _memory(source) != _memory(target) else source)
                      for owner, name, kind, target, source in writes]
        for owner, name, kind, target, source in writes:
            if kind == "extra":
                owner.set_extra_state(source)
            elif not assign:
                target.copy_(source)
            elif kind == "parameter":
                if not isinstance(source, Parameter):
                    source = Parameter(source, requires_grad=target.requires_grad)
                owner._parameters[name] = source
            else:
                owner._buffers[name] = source


def _memory(tensor: Tensor) -> Any:
    """What two tensors have in common that share memory."""
    if tensor.is_meta or not tensor.numel():
        return id(tensor)
    return tensor.data_ptr() - tensor.storage_offset() * tensor.element_size()
