"""nn.Module: what it registers, lists, loads and calls, with PyTorch's semantics."""
import copy
import pickle
from collections import OrderedDict

import numpy as np
import pytest

import facula
from facula import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)
        self.scale = nn.Parameter(facula.ones(width))
        self.register_buffer("seen", facula.zeros(1, dtype=facula.int64))
        self.register_buffer("scratch", facula.zeros(2), persistent=False)

    def forward(self, x):
        self.seen += 1
        return self.linear(x) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(3), Block(3)])
        self.head = nn.Sequential(OrderedDict(first=nn.Linear(3, 4), act=nn.ReLU(), last=nn.Linear(4, 2)))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def test_parameters_are_tensors_with_a_mark():
    data = facula.randn(3)
    p = nn.Parameter(data)
    assert isinstance(p, nn.Parameter) and isinstance(p, facula.Tensor) and p.requires_grad and p.is_leaf
    assert p.data_ptr() == data.data_ptr() and not isinstance(data, nn.Parameter)
    assert not isinstance(p.detach(), nn.Parameter) and not isinstance(p + 1, nn.Parameter)
    assert isinstance(copy.deepcopy(p), nn.Parameter) and isinstance(pickle.loads(pickle.dumps(p)), nn.Parameter)
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    assert repr(nn.Parameter(facula.zeros(2))) == "Parameter containing:\ntensor([0., 0.], requires_grad=True)"


def test_attributes_are_registered():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == [
        "blocks.0.scale", "blocks.0.linear.weight", "blocks.0.linear.bias", "blocks.1.scale", "blocks.1.linear.weight",
        "blocks.1.linear.bias", "head.first.weight", "head.first.bias", "head.last.weight", "head.last.bias"]
    assert [n for n, _ in net.named_buffers()] == ["blocks.0.seen", "blocks.0.scratch", "blocks.1.seen", "blocks.1.scratch"]
    assert [n for n, _ in net.named_modules()][:4] == ["", "blocks", "blocks.0", "blocks.0.linear"]
    assert [n for n, _ in net.named_children()] == ["blocks", "head"]
    assert "blocks.0.scratch" not in net.state_dict() and "blocks.0.seen" in net.state_dict()
    assert net.get_submodule("head.last") is net.head[2] and net.get_parameter("head.last.bias") is net.head[2].bias
    with pytest.raises(AttributeError, match="no attribute `middle`"):
        net.get_submodule("head.middle")
    net.extra = nn.Linear(1, 1)
    del net.extra
    assert not hasattr(net, "extra")
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'scale'"):
        net.blocks[0].scale = facula.ones(3)
    net.blocks[0].scale = None
    assert "blocks.0.scale" not in dict(net.named_parameters())
    tied = nn.Module()
    tied.a = tied.b = nn.Linear(2, 2)
    assert len(list(tied.parameters())) == 2 and len(tied.state_dict()) == 4


def test_mistakes_of_registering():
    class Early(nn.Module):
        def __init__(self):
            self.linear = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="before Module.__init__"):
        Early()
    module = nn.Module()
    with pytest.raises(KeyError, match="contain"):
        module.register_buffer("a.b", facula.ones(1))
    with pytest.raises(KeyError, match="already exists"):
        module.register_parameter("forward", nn.Parameter(facula.ones(1)))
    with pytest.raises(ValueError, match="non-leaf"):
        grown = facula.ones(1, requires_grad=True) * 2
        grown.__dict__["_is_param"] = True
        module.register_parameter("w", grown)
    with pytest.raises(TypeError, match="not a Module"):
        module.add_module("m", 3)
    with pytest.raises(NotImplementedError, match="forward"):
        module(1)


def test_modes_casts_and_gradients():
    net = Net()
    net(facula.randn(2, 3)).sum().backward()
    assert net.double().head[0].weight.dtype is facula.float64 and net.head[0].weight.grad.dtype is facula.float64
    assert net.blocks[0].seen.dtype is facula.int64
    assert net.to(facula.float32).head[0].weight.dtype is facula.float32
    with pytest.raises(TypeError, match="floating point"):
        net.to(facula.int32)
    assert net.bfloat16().head[0].bias.dtype is facula.bfloat16
    net.float()
    weight = net.head[0].weight
    net.to("cpu")
    assert net.head[0].weight is weight  # the same objects: optimizers hold them
    assert not net.eval().blocks[1].linear.training and net.train().head[1].training
    net.zero_grad(set_to_none=False)
    assert net.head[0].weight.grad.abs().sum() == 0
    net.zero_grad()
    assert net.head[0].weight.grad is None
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    names = []
    net.apply(lambda m: names.append(type(m).__name__))
    assert names[-1] == "Net" and names[0] == "Linear"
    assert net.to_empty(device="meta").head[0].weight.is_meta


def test_states_load_strictly_or_not():
    net, other = Net(), Net()
    x = facula.randn(4, 3)
    assert str(other.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    np.testing.assert_array_equal(net(x).detach().numpy(), other(x).detach().numpy())
    state = net.state_dict()
    assert state["head.last.bias"].data_ptr() == net.head[2].bias.data_ptr() and not state["head.last.bias"].requires_grad
    state["head.first.weight"] = facula.ones(5, 5)
    state["more"] = state.pop("head.last.bias")
    before = {k: v.clone() for k, v in other.state_dict().items()}
    with pytest.raises(RuntimeError) as raised:
        other.load_state_dict(state)
    text = str(raised.value)
    assert 'Missing key(s) in state_dict: "head.last.bias"' in text and 'Unexpected key(s) in state_dict: "more"' in text
    assert "size mismatch for head.first.weight" in text
    assert all((before[k] == v).all() for k, v in other.state_dict().items())
    del state["head.first.weight"]
    keys = other.load_state_dict(state, strict=False)
    assert keys.missing_keys == ["head.first.weight", "head.last.bias"] and keys.unexpected_keys == ["more"]
    given = {k: v + 1 for k, v in net.state_dict().items()}
    other.load_state_dict(given, assign=True)
    assert other.head[2].bias.data_ptr() == given["head.last.bias"].data_ptr() and isinstance(other.head[2].bias, nn.Parameter)
    # A state that is made of the module's own tensors.
    pair = nn.ParameterList([facula.zeros(2), facula.ones(2)])
    own = pair.state_dict()
    pair.load_state_dict({"0": own["1"], "1": own["0"]})
    assert pair[0].tolist() == [1, 1] and pair[1].tolist() == [0, 0]


def test_extra_state():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.count = 0

        def get_extra_state(self):
            return {"count": self.count}

        def set_extra_state(self, state):
            self.count = state["count"]

    a, b = Counter(), Counter()
    a.count = 5
    b.load_state_dict(a.state_dict())
    assert b.count == 5


def test_copies_and_pickles():
    net = Net()
    x = facula.randn(2, 3)
    for twin in (copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert (twin(x) == net(x)).all()
        assert twin.head[0].weight is not net.head[0].weight and isinstance(twin.head[0].weight, nn.Parameter)


def test_forward_hooks():
    linear = nn.Linear(2, 2)
    x = facula.randn(3, 2)
    plain = linear(x)
    log = []
    with linear.register_forward_pre_hook(lambda m, args: log.append(("pre", args[0].shape)) or (args[0] * 2,)):
        with linear.register_forward_hook(lambda m, args, out: log.append(("post", out.shape)) or out + 1):
            changed = linear(x)
    assert (changed == linear.forward(x * 2) + 1).all() and log == [("pre", (3, 2)), ("post", (3, 2))]
    assert (linear(x) == plain).all()

    class Scaled(nn.Module):
        def forward(self, x, *, by=1):
            return x * by

    scaled = Scaled()
    scaled.register_forward_pre_hook(lambda m, args, kwargs: (args, {"by": kwargs["by"] + 1}), with_kwargs=True)
    scaled.register_forward_hook(lambda m, args, kwargs, out: out - kwargs["by"], with_kwargs=True)
    assert scaled(facula.ones(1), by=2).item() == 0
    order = []
    linear.register_forward_hook(lambda *_: order.append(1))
    linear.register_forward_hook(lambda *_: order.append(0), prepend=True)
    linear(x)
    assert order == [0, 1]
    called = []
    failing = Scaled()
    failing.register_forward_hook(lambda *_: called.append(1), always_call=True)
    with pytest.raises(TypeError):
        failing()
    assert called == [1]


def test_backward_hooks():
    linear = nn.Linear(3, 2)
    x = facula.randn(4, 3, requires_grad=True)
    seen = []
    pre = linear.register_full_backward_pre_hook(lambda m, grads: (grads[0] * 2,))
    post = linear.register_full_backward_hook(lambda m, gin, gout: seen.append((gin, gout)) or (gin[0] * 10,))
    linear(x).sum().backward()
    (gin, gout), = seen
    assert (gout[0] == 2).all() and gin[0].shape == (4, 3)
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(20 * linear.weight.detach().numpy().sum(0), (4, 3)), rtol=1e-5)
    np.testing.assert_allclose(linear.bias.grad.numpy(), [8, 8])
    pre.remove()
    post.remove()
    x.grad = None
    linear(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.broadcast_to(linear.weight.detach().numpy().sum(0), (4, 3)), rtol=1e-5)


def test_errors_name_the_module():
    net = Net()
    net.blocks[1].linear = nn.Linear(4, 3)
    with pytest.raises(facula.ShapeError) as raised:
        net(facula.randn(2, 3))
    text = str(raised.value)
    assert "in module 'blocks.1.linear', Linear(in_features=4, out_features=3, bias=True) with weight [3, 4], bias [3]" in text
    assert "`input` has the shape [2, 3] with the size 3 in dim -1, but in_features=4: change in_features to 3" in text
    with pytest.raises(facula.ShapeError, match=r"normalized_shape=\[5\]"):
        nn.LayerNorm(5)(facula.ones(2, 4))
    with pytest.raises(IndexError, match="in module Embedding"):
        nn.Embedding(3, 2)(facula.tensor([5]))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.Conv2d(3, 4, 3, groups=2)
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(1.5)


def test_containers():
    net = nn.Sequential(nn.Linear(1, 2), nn.ReLU(), nn.Linear(2, 3))
    assert len(net) == 3 and isinstance(net[-1], nn.Linear) and len(net[:2]) == 2
    net.insert(1, nn.Tanh())
    del net[0]
    assert list(dict(net.named_children())) == ["0", "1", "2"]
    assert len(net + nn.Sequential(nn.ReLU())) == 4
    layers = nn.ModuleList([nn.Linear(1, 1)])
    layers += [nn.ReLU()]
    layers.insert(0, nn.Tanh())
    assert [type(m).__name__ for m in layers] == ["Tanh", "Linear", "ReLU"] and layers.pop(0) is not None
    with pytest.raises(IndexError, match="out of range"):
        layers[7]
    by_name = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
    assert "a" in by_name and list(by_name) == ["a", "b"] and len(list(by_name.parameters())) == 2
    params = nn.ParameterDict({"w": facula.ones(2), "v": nn.Parameter(facula.zeros(1))})
    assert isinstance(params["w"], nn.Parameter) and [k for k, _ in params.named_parameters()] == ["w", "v"]
    del params["v"]
    assert len(params) == 1 and len(nn.ParameterList([facula.ones(1), facula.ones(2)])[1:]) == 1


def test_printing():
    assert repr(nn.Sequential(nn.Linear(1, 2, bias=False), nn.Sequential(nn.ReLU()))) == (
        "Sequential(\n  (0): Linear(in_features=1, out_features=2, bias=False)\n  (1): Sequential(\n    (0): ReLU()\n  )\n)")
    assert repr(nn.Conv2d(3, 4, (3, 5), padding=1, bias=False)) == (
        "Conv2d(3, 4, kernel_size=(3, 5), stride=(1, 1), padding=(1, 1), bias=False)")
    assert repr(nn.Embedding(3, 4, padding_idx=1)) == "Embedding(3, 4, padding_idx=1)"
    assert repr(nn.LSTM(3, 4, num_layers=2, batch_first=True)) == "LSTM(3, 4, num_layers=2, batch_first=True)"
