"""save, load and safetensors: what comes back, what is refused, and that reading runs nothing."""
import io
import json
import os
import struct
from collections import OrderedDict

import numpy as np
import pytest

import facula
from facula.safetensors import load, load_file, safe_open, save, save_file
from seed import SEED

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "float32", "float64",
          "bfloat16", "complex64", "float8_e5m2", "float8_e4m3fn"]


def parse(data):
    """The format, read by its own few lines: name -> (dtype, shape, bytes), and the metadata."""
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    body = data[8 + length:]
    metadata = header.pop("__metadata__", {})
    return {name: (e["dtype"], e["shape"], body[slice(*e["data_offsets"])]) for name, e in header.items()}, metadata


def test_every_dtype_comes_back(tmp_path):
    random = np.random.default_rng(SEED)
    tensors = {}
    for name in DTYPES:
        dtype = getattr(facula, name)
        count = 12 * facula.empty(0, dtype=dtype).element_size()
        raw = random.integers(0, 2 if name == "bool" else 256, count, dtype=np.uint8)
        tensors[name] = facula.frombuffer(bytearray(raw.tobytes()), dtype=dtype).reshape(3, 4)
    path = tmp_path / "all.safetensors"
    save_file(tensors, path, metadata={"epoch": "3"})
    back = load_file(path)
    assert list(back) == DTYPES
    for name, tensor in tensors.items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape
        assert bytes(back[name].view(facula.uint8)) == bytes(tensor.view(facula.uint8)), name
    found, metadata = parse(path.read_bytes())
    assert metadata == {"epoch": "3"}
    np.testing.assert_array_equal(np.frombuffer(found["float32"][2], np.float32).view(np.uint32),
                                  tensors["float32"].numpy().view(np.uint32).ravel())
    assert load(path.read_bytes()).keys() == tensors.keys()
    assert save(tensors, {"epoch": "3"}) == path.read_bytes()


def test_safe_open_takes_single_tensors(tmp_path):
    path = str(tmp_path / "x.safetensors")
    save_file({"a": facula.arange(6).reshape(2, 3), "b": facula.ones(2, dtype=facula.uint8)}, path, {"k": "ü"})
    with safe_open(path, framework="pt", device="cpu") as file:
        assert file.keys() == ["a", "b"] and file.metadata() == {"k": "ü"}
        assert file.offset_keys() == ["a", "b"]
        part = file.get_slice("a")
        assert part.get_shape() == [2, 3]
        assert part[:, 1:].tolist() == [[1, 2], [4, 5]]
        tensor = file.get_tensor("a")
        with pytest.raises(facula.ArgumentError, match="has no tensor \"c\""):
            file.get_tensor("c")
    os.remove(path)
    assert tensor.sum() == 15  # the map lives on
    with pytest.raises(FileNotFoundError):
        load_file(path)
    with pytest.raises(IsADirectoryError):
        load_file(tmp_path)


def test_maps_are_private(tmp_path):
    path = tmp_path / "x"
    save_file({"a": facula.zeros(1000)}, path)
    a = load_file(path)["a"]
    a.add_(1)
    assert load_file(path)["a"].sum() == 0
    save_file({"a": a}, path)
    assert load_file(path)["a"].sum() == 1000


CHECKPOINT = {
    "model": OrderedDict(weight=facula.arange(6.0).reshape(2, 3), bias=facula.ones(2, dtype=facula.bfloat16)),
    "optimizer": {"state": {0: {"step": 3, "exp_avg": facula.full((2,), 0.5)}, 1: {}},
                  "param_groups": [{"lr": 1e-3, "betas": (0.9, 0.999), "foreach": None, "params": [0, 1]}]},
    "numbers": [1, -2.5, float("inf"), 10**30, 2 + 3j, True, None, 1.0],
    "text": "Zoë \"quoted\"\n", "bytes": b"\x00\xff", "dtype": facula.float16, "device": facula.device("cuda:1"),
    "size": facula.Size([2, 3]), "complex": facula.tensor([1 + 2j], dtype=facula.complex128), "empty": {}, "none": [],
}


def equal(a, b):
    if isinstance(a, facula.Tensor):
        return isinstance(b, facula.Tensor) and a.dtype == b.dtype and a.shape == b.shape and facula.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return type(a) is type(b) and len(a) == len(b) and all(map(equal, a, b))
    return type(a) is type(b) and a == b


def test_a_checkpoint_comes_back(tmp_path):
    path = tmp_path / "checkpoint"
    facula.save(CHECKPOINT, path)
    assert equal(facula.load(path), CHECKPOINT | {"model": dict(CHECKPOINT["model"])})
    file = io.BytesIO()
    facula.save(CHECKPOINT, file)
    file.seek(0)
    assert equal(facula.load(file, weights_only=True), facula.load(path, mmap=False))
    # Other readers of safetensors see the tensors by name.
    assert "optimizer.state.0.exp_avg" in load_file(path) and "model.weight" in load_file(path)


@pytest.mark.parametrize("value", [facula.ones(3), [facula.ones(1), facula.zeros(2)], (), 5, "x", None, {"a": facula.ones(2)},
                                   {}, float("-inf")])
def test_any_root(tmp_path, value):
    facula.save(value, tmp_path / "x")
    assert equal(facula.load(tmp_path / "x"), value)


def test_a_state_dict_is_plain_safetensors(tmp_path):
    facula.save({"layer.weight": facula.ones(2), "bias": facula.zeros(1)}, tmp_path / "x")
    found, metadata = parse((tmp_path / "x").read_bytes())
    assert list(found) == ["layer.weight", "bias"] and metadata == {"format": "facula"}
    save_file({"w": facula.ones(2)}, tmp_path / "y")
    assert equal(facula.load(tmp_path / "y"), {"w": facula.ones(2)})


def test_what_is_the_same_stays_the_same(tmp_path):
    w = facula.randn(3, requires_grad=True)
    facula.save({"a": w, "b": w, "c": w.detach().clone(), "view": w.detach()[1:]}, tmp_path / "x")
    back = facula.load(tmp_path / "x")
    assert back["a"] is back["b"] and back["a"].requires_grad
    assert back["c"] is not back["a"] and facula.equal(back["view"], w.detach()[1:])
    assert set(parse((tmp_path / "x").read_bytes())[0]) == {"a", "c", "view"}


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/facula-was-here",)


def test_objects_are_refused_by_name(tmp_path):
    loop = []
    loop.append(loop)
    deep = []
    for _ in range(100):
        deep = [deep]
    for value, error in [({"x": Evil()}, "'x' is a .*Evil"), ({"a": {"b": len}}, "'a.b' is a builtins.builtin_function"),
                         ({1.5: 1}, "keys of dicts must be texts or whole numbers"), (loop, "contains itself"),
                         (deep, "nested deeper"), ({"x": np.ones(2)}, "of NumPy"), ({1: 2, "1": 3}, "as text and as number"),
                         ({"a.b": facula.ones(1), "a": {"b": facula.ones(2)}}, "two tensors would be called 'a.b'"),
                         (facula.empty(2, device="meta"), "meta device"), ({"a": {1, 2}}, "'a' is a builtins.set")]:
        with pytest.raises((TypeError, ValueError), match=error):
            facula.save(value, tmp_path / "x")
    assert not (tmp_path / "x").exists()
    with pytest.raises(facula.ArgumentError, match="reading one runs nothing"):
        facula.load(tmp_path / "x", weights_only=False)


def test_pickles_and_archives_are_refused(tmp_path):
    import pickle
    import zipfile
    (tmp_path / "pickle").write_bytes(pickle.dumps(Evil()))
    with zipfile.ZipFile(tmp_path / "zip", "w") as archive:
        archive.writestr("data.pkl", pickle.dumps(Evil()))
    with pytest.raises(facula.FormatError, match="at byte 0"):
        facula.load(tmp_path / "pickle")
    with pytest.raises(facula.FormatError, match="zip archive, as torch.save of PyTorch writes"):
        facula.load(tmp_path / "zip")
    assert not os.path.exists("/tmp/facula-was-here")


@pytest.mark.parametrize("tree, error", [
    ('{"tensor":"b"}', "which is not in the file"), ('{"call":"x"}', "unknown kind"), ("[1,", "damaged"),
    ('{"dict":[["x"]]}', "an entry of a dict"), ('{"dict":[["x",1],["x",2]]}', "twice"), ('{"float":"1"}', "no number"),
    ("NaN", "no JSON"), ('{"bytes":"zz"}', "no bytes"), ('{"dtype":"Tensor"}', "no dtype"), ('{"dtype":"__doc__"}', "no dtype"),
    ('{"device":"x"}', "no device"), ('{"int":"1_0"}', "no whole number"), ('{"size":[1.5]}', "whole numbers only"),
    ('{"tensor":"a","requires_grad":1}', "unknown node"), ('{"tensor":"a","complex":true}', "is stored as"),
    ('{"tensor":"i","requires_grad":true}', "cannot require gradients"), ("[" * 100000, "damaged"), ("{}", "unknown node"),
    ('{"tuple":[],"tuple":[]}', "comes twice"), ('{"_list":[]}', "unknown kind"), ('{"dict":{}}', "expected a list")])
def test_damaged_trees_are_refused(tmp_path, tree, error):
    save_file({"a": facula.ones(3), "i": facula.ones(3, dtype=facula.int64)}, tmp_path / "x", {"facula.tree": tree})
    with pytest.raises(facula.FormatError, match=error):
        facula.load(tmp_path / "x")


def test_mutated_files_never_break_out(tmp_path):
    random = np.random.default_rng(SEED)
    file = io.BytesIO()
    facula.save(CHECKPOINT, file)
    good = np.frombuffer(file.getvalue(), np.uint8)
    refused = 0
    for _ in range(400):
        data = good.copy()
        for _ in range(random.integers(1, 4)):
            data[random.integers(0, len(data) if random.integers(2) else 600)] = random.integers(0, 256)
        if random.integers(4) == 0:
            data = data[:random.integers(0, len(data))]
        try:
            facula.load(io.BytesIO(data.tobytes()))
        except (facula.FormatError, facula.NotSupportedError):
            refused += 1
    assert refused > 100


def test_only_tensors_and_texts(tmp_path):
    with pytest.raises(TypeError, match="'a' is a int, not a tensor"):
        save_file({"a": 1}, tmp_path / "x")
    with pytest.raises(TypeError, match="values of metadata must be texts"):
        save_file({"a": facula.ones(1)}, tmp_path / "x", {"a": 1})
    with pytest.raises(TypeError):
        save_file({1: facula.ones(1)}, tmp_path / "x")
