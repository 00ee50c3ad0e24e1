"""Training steps, written once for either library: `steps.py facula|torch` reads one command a line and answers in JSON.

    {"open": NAME, "device": "cpu", "threads": 2}   builds the case; weights and data are the same for both libraries
    {"run": COUNT}                                  that many steps; answers with seconds and the last loss
"""
import contextlib
import gc
import json
import math
import sys
import time

import numpy as np

lib = None  # facula or torch, imported in main
nn = F = None


def draw(module, seed=1):
    """The same weights for both libraries: from NumPy, by the size of what feeds each of them."""
    rng = np.random.default_rng(seed)
    with lib.no_grad():
        for name, parameter in sorted(module.named_parameters()):
            if parameter.dim() < 2:
                if name.endswith("bias") or "bias_" in name:
                    values = np.zeros(tuple(parameter.shape))
                else:
                    values = np.ones(tuple(parameter.shape))
            else:
                fan_in = math.prod(parameter.shape[1:])
                values = rng.normal(size=tuple(parameter.shape)) * (0.02 if "table" in name else fan_in ** -0.5)
            parameter.copy_(lib.from_numpy(values.astype(np.float32)))
    return module


def attention(q, k, v):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    length = q.shape[-2]  # before PyTorch 2
    mask = lib.ones(length, length, dtype=lib.bool, device=q.device).tril()
    scores = (q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5).masked_fill(~mask, -math.inf)
    return F.softmax(scores, -1) @ v


def make_gpt(device, batch, length, width, heads, layers, words, autocast=False):
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.grow, self.shrink = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            b, t, c = x.shape
            q, k, v = (part.view(b, t, heads, c // heads).transpose(1, 2)
                       for part in self.attend(self.norm1(x)).split(width, 2))
            x = x + self.project(attention(q, k, v).transpose(1, 2).reshape(b, t, c))
            return x + self.shrink(F.gelu(self.grow(self.norm2(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self):
            super().__init__()
            self.table, self.place_table = nn.Embedding(words, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(Block() for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

        def forward(self, codes):
            x = self.table(codes) + self.place_table(lib.arange(length, device=codes.device))
            return self.head(self.norm(self.blocks(x)))

    model = draw(GPT()).to(device)
    rng = np.random.default_rng(2)
    codes = lib.from_numpy(rng.integers(0, words, size=(batch, length + 1))).to(device)
    seen, next_ = codes[:, :-1].contiguous(), codes[:, 1:].reshape(-1)
    optimizer = adamw(model.parameters(), device, lr=3e-4)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with lib.autocast("cuda", dtype=lib.bfloat16) if autocast else contextlib.nullcontext():
            loss = F.cross_entropy(model(seen).view(-1, words), next_)
        loss.backward()
        optimizer.step()
        return loss

    return step


def adamw(parameters, device, lr, capturable=False):
    options = {"fused": True, "capturable": capturable} if device == "cuda" else {}
    return lib.optim.AdamW(parameters, lr=lr, weight_decay=0.1, **options)


def make_resnet(device, batch, side, depth, half=False):
    def conv(start, to, kernel, stride=1):
        return nn.Conv2d(start, to, kernel, stride, padding=kernel // 2, bias=False)

    class Residual(nn.Module):
        def __init__(self, start, width, stride):
            super().__init__()
            if depth == 50:
                to, convs = 4 * width, [conv(start, width, 1), conv(width, width, 3, stride), conv(width, 4 * width, 1)]
            else:
                to, convs = width, [conv(start, width, 3, stride), conv(width, width, 3)]
            layers = [layer for each in convs for layer in (each, nn.BatchNorm2d(each.out_channels), nn.ReLU())]
            self.body = nn.Sequential(*layers[:-1])
            same = stride == 1 and start == to
            self.shortcut = nn.Identity() if same else nn.Sequential(conv(start, to, 1, stride), nn.BatchNorm2d(to))

        def forward(self, x):
            return F.relu(self.body(x) + self.shortcut(x))

    counts = (3, 4, 6, 3) if depth == 50 else (2, 2, 2, 2)
    layers, start = [conv(3, 64, 7, 2), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)], 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        for i in range(count):
            layers.append(Residual(start, width, 2 if stage > 0 and i == 0 else 1))
            start = 4 * width if depth == 50 else width
    model = draw(nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(start, 1000))).to(device)
    rng = np.random.default_rng(3)
    images = lib.from_numpy(rng.normal(size=(batch, 3, side, side)).astype(np.float32)).to(device)
    labels = lib.from_numpy(rng.integers(0, 1000, size=batch)).to(device)
    if half:
        model = model.to(memory_format=lib.channels_last)
        images = images.to(memory_format=lib.channels_last)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    def step():
        optimizer.zero_grad(set_to_none=True)
        with lib.autocast("cuda", dtype=lib.bfloat16) if half else contextlib.nullcontext():
            loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        return loss

    return step


def make_lstm(device, batch, length, width, layers, words):
    class Language(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = nn.Embedding(words, width)
            self.lstm, self.head = nn.LSTM(width, width, layers), nn.Linear(width, words)

        def forward(self, codes):
            return self.head(self.lstm(self.table(codes))[0])

    model = draw(Language()).to(device)
    codes = lib.from_numpy(np.random.default_rng(4).integers(0, words, size=(length + 1, batch))).to(device)
    optimizer = lib.optim.SGD(model.parameters(), lr=0.1)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(codes[:-1]).view(-1, words), codes[1:].reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    return step


def make_adamw(device, millions):
    rng = np.random.default_rng(5)
    sizes = [(768, 768)] * 8 + [(3072, 768)] * 2 + [(768,)] * 32
    sizes += [(int(millions * 1e6 - sum(math.prod(s) for s in sizes)),)]
    parameters = [lib.from_numpy(rng.normal(size=s).astype(np.float32)).to(device).requires_grad_() for s in sizes]
    for p in parameters:
        p.grad = lib.from_numpy(rng.normal(size=tuple(p.shape)).astype(np.float32)).to(device)
    optimizer = adamw(parameters, device, lr=1e-3)

    def step():
        optimizer.step()
        return parameters[0].detach().view(-1)[0]

    return step


def make_mlp(device, captured=False):
    model = draw(nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.ReLU())))).to(device)
    rng = np.random.default_rng(6)
    x, y = (lib.from_numpy(rng.normal(size=(64, 64)).astype(np.float32)).to(device) for _ in range(2))
    optimizer = adamw(model.parameters(), device, lr=1e-3, capturable=captured)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return capture(step) if captured else step


def capture(step, before=3):
    """The step as a graph that is replayed. The steps before it are taken here, as libraries ask for."""
    stream = lib.cuda.Stream()
    stream.wait_stream(lib.cuda.current_stream())
    with lib.cuda.stream(stream):
        for _ in range(before):
            step()
    lib.cuda.current_stream().wait_stream(stream)
    graph = lib.cuda.CUDAGraph()
    with lib.cuda.graph(graph):
        loss = step()

    def replay():
        graph.replay()
        return loss

    return replay


CASES = {
    "cpu": {
        "resnet18_b8_96": lambda d: make_resnet(d, 8, 96, 18),
        "lstm_2x256_t64_b32": lambda d: make_lstm(d, 32, 64, 256, 2, 1000),
        "gpt_4x128_t128_b16": lambda d: make_gpt(d, 16, 128, 128, 4, 4, 256),
        "adamw_10m": lambda d: make_adamw(d, 10),
        "mlp_8x64": make_mlp,
    },
    "cuda": {
        "gpt2_124m_b32": lambda d: make_gpt(d, 32, 1024, 768, 12, 12, 50304, autocast=True),
        "gpt2_124m_b4": lambda d: make_gpt(d, 4, 1024, 768, 12, 12, 50304, autocast=True),
        "resnet50_b256_bf16": lambda d: make_resnet(d, 256, 224, 50, half=True),
        "lstm_2x256_t64_b32": lambda d: make_lstm(d, 32, 64, 256, 2, 1000),
        "adamw_124m": lambda d: make_adamw(d, 124),
        "mlp_8x64": make_mlp,
        "mlp_8x64_graph": lambda d: make_mlp(d, captured=True),
    },
}


def main():
    global lib, nn, F
    name = sys.argv[1]
    lib = __import__(name)
    __import__(name + ".nn.functional")
    __import__(name + ".optim")
    nn, F = lib.nn, lib.nn.functional
    print(json.dumps({"version": lib.__version__}), flush=True)
    step, device = None, "cpu"
    for line in sys.stdin:
        command = json.loads(line)
        try:
            if "open" in command:
                step = None
                gc.collect()
                device = command["device"]
                lib.set_num_threads(command["threads"])
                step = CASES[device][command["open"]](device)
                answer = {}
            else:
                start = time.perf_counter()
                for _ in range(command["run"]):
                    loss = step()
                if device == "cuda":
                    lib.cuda.synchronize()
                seconds = time.perf_counter() - start
                answer = {"seconds": seconds, "loss": float(loss)}
        except Exception as error:  # passed on: a case that one library lacks is a line of the table
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
