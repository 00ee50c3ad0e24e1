"""The modules against PyTorch's of the same names, where PyTorch is installed: same parameters, same input, same results and
gradients. Debian's package is such a peer."""
import math
import warnings

import numpy as np
import pytest

import facula
from facula import nn

from seed import SEED

torch = pytest.importorskip("torch")
if torch.__name__ != "torch" or "facula" in getattr(torch, "__file__", ""):
    pytest.skip("no PyTorch here", allow_module_level=True)

# (name, arguments, keywords, shapes of the inputs)
CASES = [
    ("Linear", (5, 3), {}, [(4, 5)]), ("Linear", (5, 3), {"bias": False}, [(2, 4, 5)]),
    ("Bilinear", (3, 4, 2), {}, [(5, 3), (5, 4)]), ("Identity", (), {}, [(3,)]),
    ("LayerNorm", ((3, 4),), {}, [(2, 3, 4)]), ("LayerNorm", (4,), {"elementwise_affine": False, "eps": 0.1}, [(3, 4)]),
    ("GroupNorm", (2, 6), {}, [(3, 6, 5)]), ("GroupNorm", (3, 6), {"affine": False}, [(2, 6, 2, 2)]),
    ("BatchNorm1d", (4,), {}, [(6, 4)]), ("BatchNorm1d", (4,), {"momentum": None}, [(3, 4, 5)]),
    ("BatchNorm2d", (3,), {"momentum": 0.3}, [(4, 3, 2, 5)]), ("BatchNorm2d", (3,), {"track_running_stats": False}, [(4, 3, 2, 5)]),
    ("BatchNorm3d", (2,), {"affine": False}, [(3, 2, 2, 3, 2)]),
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, [(2, 4, 9)]), ("Conv1d", (2, 3, 4), {"padding": "same"}, [(2, 2, 7)]),
    ("Conv1d", (2, 3, 3), {"padding": 1, "padding_mode": "replicate"}, [(2, 2, 7)]), ("Conv1d", (2, 3, 3), {}, [(2, 6)]),
    ("Conv2d", (4, 6, (3, 2)), {"dilation": (1, 2), "padding": (1, 2), "groups": 2}, [(2, 4, 6, 7)]),
    ("Conv2d", (3, 5, 3), {"padding": "same", "bias": False, "dilation": 2}, [(2, 3, 6, 6)]),
    ("Conv2d", (3, 2, 3), {"padding": 1, "padding_mode": "circular"}, [(2, 3, 5, 4)]),
    ("Conv2d", (3, 2, 3), {"padding": 2, "padding_mode": "reflect", "stride": 2}, [(2, 3, 5, 4)]),
    ("Conv3d", (2, 3, 2), {"stride": (1, 2, 1)}, [(2, 2, 4, 5, 3)]),
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, [(2, 3, 9)]), ("MaxPool2d", (3,), {"stride": 2, "ceil_mode": True}, [(2, 3, 8, 7)]),
    ("MaxPool2d", ((2, 3),), {"dilation": 2}, [(2, 3, 8, 9)]), ("MaxPool3d", (2,), {}, [(2, 2, 4, 4, 5)]),
    ("AvgPool1d", (3,), {"padding": 1, "count_include_pad": False}, [(2, 3, 9)]), ("AvgPool2d", (3,), {"stride": 2, "padding": 1}, [(2, 3, 7, 8)]),
    ("AvgPool2d", (2,), {"divisor_override": 3}, [(2, 3, 7, 8)]), ("AvgPool3d", (2,), {}, [(2, 2, 4, 4, 5)]),
    ("AdaptiveAvgPool1d", (3,), {}, [(2, 4, 8)]), ("AdaptiveAvgPool2d", ((3, None),), {}, [(2, 4, 7, 5)]),
    ("AdaptiveAvgPool2d", (1,), {}, [(2, 4, 7, 5)]), ("AdaptiveAvgPool3d", (2,), {}, [(1, 2, 5, 4, 3)]),
    ("Flatten", (), {}, [(2, 3, 4)]), ("Unflatten", (1, (2, 3)), {}, [(4, 6)]),
    ("RNN", (3, 4), {"num_layers": 2, "nonlinearity": "relu"}, [(5, 2, 3)]), ("LSTM", (3, 4), {"num_layers": 2, "bidirectional": True}, [(5, 2, 3)]),
    ("LSTM", (3, 4), {"batch_first": True, "bias": False}, [(2, 5, 3)]), ("GRU", (3, 4), {"num_layers": 2}, [(5, 2, 3)]),
    ("GRU", (3, 4), {"bidirectional": True}, [(5, 3)]), ("LSTMCell", (3, 4), {}, [(2, 3)]), ("GRUCell", (3, 4), {"bias": False}, [(2, 3)]),
    ("RNNCell", (3, 4), {}, [(2, 3)]),
    ("MultiheadAttention", (6, 2), {}, [(4, 3, 6)] * 3), ("MultiheadAttention", (6, 3), {"kdim": 5, "vdim": 4, "batch_first": True}, [(3, 4, 6), (3, 7, 5), (3, 7, 4)]),
    ("MultiheadAttention", (6, 2), {"add_bias_kv": True, "add_zero_attn": True, "bias": False}, [(4, 3, 6), (5, 3, 6), (5, 3, 6)]),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0), {"norm_first": True}, [(5, 2, 8)]),
    ("TransformerEncoderLayer", (8, 2, 16, 0.0), {"activation": "gelu", "batch_first": True}, [(2, 5, 8)]),
    ("ReLU", (), {}, [(3, 4)]), ("ReLU6", (), {}, [(3, 4)]), ("ELU", (0.7,), {}, [(3, 4)]), ("SELU", (), {}, [(3, 4)]), ("CELU", (1.3,), {}, [(3, 4)]),
    ("SiLU", (), {}, [(3, 4)]), ("Mish", (), {}, [(3, 4)]), ("GELU", ("tanh",), {}, [(3, 4)]), ("LeakyReLU", (0.2,), {}, [(3, 4)]),
    ("Hardtanh", (-0.5, 0.7), {}, [(3, 4)]), ("Hardsigmoid", (), {}, [(3, 4)]), ("Hardswish", (), {}, [(3, 4)]), ("Threshold", (0.1, 2.0), {}, [(3, 4)]),
    ("Hardshrink", (0.4,), {}, [(3, 4)]), ("Softshrink", (0.4,), {}, [(3, 4)]), ("Softplus", (2.0, 1.0), {}, [(3, 4)]), ("LogSigmoid", (), {}, [(3, 4)]),
    ("Softsign", (), {}, [(3, 4)]), ("Tanhshrink", (), {}, [(3, 4)]), ("Sigmoid", (), {}, [(3, 4)]), ("Tanh", (), {}, [(3, 4)]), ("GLU", (1,), {}, [(3, 4)]),
    ("PReLU", (4,), {}, [(3, 4, 2)]), ("Softmax", (1,), {}, [(3, 4)]), ("LogSoftmax", (0,), {}, [(3, 4)]), ("Softmin", (1,), {}, [(3, 4)]),
    ("MSELoss", (), {}, [(3, 4)] * 2), ("L1Loss", (), {"reduction": "sum"}, [(3, 4)] * 2), ("SmoothL1Loss", (), {"beta": 0.5}, [(3, 4)] * 2),
    ("HuberLoss", (), {"delta": 0.5, "reduction": "none"}, [(3, 4)] * 2),
]


def both(name, args, kwargs):
    """Our module and theirs, in double, with the same parameters and buffers, which are not what they begin with."""
    ours, theirs = getattr(nn, name)(*args, **kwargs).double(), getattr(torch.nn, name)(*args, **kwargs).double()
    generator = np.random.default_rng(SEED)
    state = {}
    for key, value in theirs.state_dict().items():
        drawn = generator.normal(size=tuple(value.shape)) * 0.5
        state[key] = np.abs(drawn) + 0.5 if "var" in key else np.int64(3) if "num_batches" in key else drawn
    assert list(ours.state_dict()) == list(theirs.state_dict())
    ours.load_state_dict({k: facula.from_numpy(np.asarray(v)) for k, v in state.items()})
    theirs.load_state_dict({k: torch.from_numpy(np.asarray(v)) for k, v in state.items()})
    return ours, theirs


def flat(result):
    if isinstance(result, (tuple, list)):
        return [t for part in result for t in flat(part)]
    return [] if result is None else [result]


def compare(ours, theirs, inputs, tolerance=1e-9):
    mine = [facula.from_numpy(x.copy()).requires_grad_(x.dtype.kind == "f") for x in inputs]
    yours = [torch.from_numpy(x.copy()).requires_grad_(x.dtype.kind == "f") for x in inputs]
    if len({id(x) for x in inputs}) == 1:  # self attention
        mine, yours = [mine[0]] * len(mine), [yours[0]] * len(yours)
    got, wanted = flat(ours(*mine)), flat(theirs(*yours))
    assert len(got) == len(wanted)
    generator = np.random.default_rng(SEED + 1)
    total_mine = total_yours = 0
    for a, b in zip(got, wanted):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance, err_msg=f"seed {SEED}")
        if b.requires_grad:
            weight = generator.normal(size=tuple(b.shape))
            total_mine = total_mine + (a * facula.from_numpy(np.asarray(weight))).sum()
            total_yours = total_yours + (b * torch.from_numpy(np.asarray(weight))).sum()
    if isinstance(total_yours, int):
        return
    total_mine.backward()
    total_yours.backward()
    pairs = list(zip(mine, yours)) + [(dict(ours.named_parameters())[n], p) for n, p in theirs.named_parameters()]
    for a, b in pairs:
        if b.grad is not None:
            np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=tolerance, atol=tolerance, err_msg=f"gradient, seed {SEED}")
    for (name, a), (_, b) in zip(ours.named_buffers(), theirs.named_buffers()):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=tolerance, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("name, args, kwargs, shapes", CASES, ids=[f"{i}-{c[0]}" for i, c in enumerate(CASES)])
@pytest.mark.parametrize("mode", ["train", "eval"])
def test_is_pytorchs(name, args, kwargs, shapes, mode):
    generator = np.random.default_rng(SEED + 2)
    ours, theirs = both(name, args, kwargs)
    getattr(ours, mode)(), getattr(theirs, mode)()
    inputs = [generator.normal(size=s) for s in shapes]
    if name == "MultiheadAttention" and len(set(shapes)) == 1:
        inputs = [inputs[0]] * 3
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # PyTorch rounds some constants to float, also in double.
        compare(ours, theirs, inputs, 1e-6 if name in ("CELU", "Hardsigmoid") else 1e-9)
    if name not in ("MultiheadAttention", "TransformerEncoderLayer", "Softplus", "PReLU"):
        assert repr(ours) == repr(theirs)


@pytest.mark.parametrize("kwargs", [{}, {"label_smoothing": 0.2}, {"ignore_index": 2}, {"reduction": "sum"}, {"reduction": "none"}])
@pytest.mark.parametrize("weighted", [False, True])
def test_cross_entropy(kwargs, weighted):
    generator = np.random.default_rng(SEED)
    weight = generator.random(4) + 0.2
    ours = nn.CrossEntropyLoss(facula.from_numpy(weight) if weighted else None, **kwargs)
    theirs = torch.nn.CrossEntropyLoss(torch.from_numpy(weight) if weighted else None, **kwargs)
    for shape in ((6, 4), (3, 4, 5)):
        x = generator.normal(size=shape)
        classes = generator.integers(0, 4, size=(shape[0], *shape[2:]))
        compare(ours, theirs, [x, classes])
        if "ignore_index" not in kwargs:
            share = np.exp(x[::-1]) / np.exp(x[::-1]).sum(1, keepdims=True)
            mine = [facula.from_numpy(x.copy()), facula.from_numpy(share.copy())]
            got, wanted = ours(*mine), theirs(torch.from_numpy(x.copy()), torch.from_numpy(share.copy()))
            np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9)


def test_other_losses():
    generator = np.random.default_rng(SEED)
    x, y = generator.normal(size=(5, 3)), generator.random((5, 3))
    logs = np.log(np.exp(x) / np.exp(x).sum(1, keepdims=True))
    compare(nn.BCEWithLogitsLoss(), torch.nn.BCEWithLogitsLoss(), [x, y])
    compare(nn.BCEWithLogitsLoss(pos_weight=facula.tensor([1.0, 2.0, 3.0], dtype=facula.float64)),
            torch.nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)), [x, y])
    probabilities = 1 / (1 + np.exp(-x))
    mine, yours = facula.from_numpy(probabilities.copy()), torch.from_numpy(probabilities.copy())
    np.testing.assert_allclose(nn.BCELoss()(mine, facula.from_numpy(y)).item(), torch.nn.BCELoss()(yours, torch.from_numpy(y)).item(),
                               rtol=1e-9)
    for how in ("batchmean", "mean", "sum", "none"):
        ours, theirs = nn.KLDivLoss(reduction=how), torch.nn.KLDivLoss(reduction=how)
        got, wanted = ours(facula.from_numpy(logs), facula.from_numpy(y)), theirs(torch.from_numpy(logs), torch.from_numpy(y))
        np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-9)
    compare(nn.NLLLoss(ignore_index=1), torch.nn.NLLLoss(ignore_index=1), [logs, generator.integers(0, 3, size=5)])


def test_embedding():
    for kwargs in ({}, {"padding_idx": 2}, {"max_norm": 0.7}, {"scale_grad_by_freq": True}):
        ours, theirs = both("Embedding", (5, 3), kwargs)
        compare(ours, theirs, [np.array([[1, 2, 4], [1, 1, 0]])], 1e-6)
        np.testing.assert_allclose(ours.weight.detach().numpy(), theirs.weight.detach().numpy(), rtol=1e-6)


def test_masks_of_attention():
    generator = np.random.default_rng(SEED)
    ours, theirs = both("MultiheadAttention", (6, 2), {"batch_first": True})
    q, k = generator.normal(size=(3, 4, 6)), generator.normal(size=(3, 5, 6))
    hidden = generator.random((3, 5)) < 0.4
    hidden[:, 0] = False
    mask = generator.normal(size=(4, 5))
    for kwargs in ({"key_padding_mask": hidden}, {"attn_mask": mask}, {"attn_mask": mask, "key_padding_mask": hidden},
                   {"attn_mask": np.triu(np.ones((4, 5), bool), 2)}, {"need_weights": False, "key_padding_mask": hidden},
                   {"average_attn_weights": False}):
        put = lambda lib: {n: lib.from_numpy(v.copy()) if isinstance(v, np.ndarray) else v for n, v in kwargs.items()}  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = ours(*[facula.from_numpy(t.copy()) for t in (q, k, k)], **put(facula))
            wanted = theirs(*[torch.from_numpy(t.copy()) for t in (q, k, k)], **put(torch))
        for a, b in zip(flat(got), flat(wanted)):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12, err_msg=str(kwargs))


def test_initial_values_are_distributed_alike():
    facula.manual_seed(SEED)
    torch.manual_seed(SEED)
    for name, args in (("Linear", (300, 200)), ("Conv2d", (20, 300, 5)), ("LSTM", (50, 60)), ("MultiheadAttention", (64, 4)), ("Embedding", (200, 50))):
        ours, theirs = dict(getattr(nn, name)(*args).named_parameters()), dict(getattr(torch.nn, name)(*args).named_parameters())
        for key, value in theirs.items():
            a, b = ours[key].detach().numpy(), value.detach().numpy()
            np.testing.assert_allclose(a.std(), b.std(), rtol=0.25 if a.size < 1000 else 0.05, err_msg=f"{name}.{key}")
            if name != "Embedding" and a.size >= 1000:  # bounds show only where many were drawn
                assert abs(np.abs(a).max() - np.abs(b).max()) <= 0.05 * np.abs(b).max() + 1e-12, f"{name}.{key}"


def test_init_and_utils():
    from facula.nn import init, utils
    for name, kwargs in (("kaiming_uniform_", {"a": 0.3, "mode": "fan_out"}), ("xavier_uniform_", {"gain": 2.0}), ("xavier_normal_", {}),
                         ("kaiming_normal_", {"nonlinearity": "relu"}), ("trunc_normal_", {"std": 2.0})):
        a, b = facula.empty(200, 30, 3), torch.empty(200, 30, 3)
        getattr(init, name)(a, **kwargs), getattr(torch.nn.init, name)(b, **kwargs)
        np.testing.assert_allclose(a.numpy().std(), b.numpy().std(), rtol=0.03, err_msg=name)
        np.testing.assert_allclose(np.abs(a.numpy()).max(), np.abs(b.numpy()).max(), rtol=0.3, err_msg=name)
    for kind in ("linear", "tanh", "relu", "leaky_relu", "selu"):
        assert math.isclose(init.calculate_gain(kind), torch.nn.init.calculate_gain(kind))
    a, b = facula.empty(6, 2, 3), torch.empty(6, 2, 3)
    np.testing.assert_array_equal(init.dirac_(a, 2).numpy(), torch.nn.init.dirac_(b, 2).numpy())
    np.testing.assert_array_equal(init.eye_(facula.empty(2, 3)).numpy(), np.eye(2, 3))
    q = init.orthogonal_(facula.empty(5, 8), gain=2).numpy()
    np.testing.assert_allclose(q @ q.T, 4 * np.eye(5), atol=1e-5)
    ours, theirs = both("Linear", (4, 3), {})
    x = np.random.default_rng(SEED).normal(size=(5, 4))
    (ours(facula.from_numpy(x)) ** 2).sum().backward()
    (theirs(torch.from_numpy(x)) ** 2).sum().backward()
    got, wanted = utils.clip_grad_norm_(ours.parameters(), 0.5), torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
    np.testing.assert_allclose(got.item(), wanted.item(), rtol=1e-6)
    for a, b in zip(ours.parameters(), theirs.parameters()):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-5)
    vector = utils.parameters_to_vector(ours.parameters())
    utils.vector_to_parameters(vector.detach() * 2, ours.parameters())
    np.testing.assert_allclose(utils.parameters_to_vector(ours.parameters()).detach().numpy(), 2 * vector.detach().numpy())
