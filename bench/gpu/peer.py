#!/usr/bin/env python3
"""PyTorch on the cases of cases.cpp, attention.cpp, training.cpp and overhead.cpp, under the same names, on request: see serve.cpp for the commands.

peer.py --first-op: the time from the start of the first call until its result is on the host, imports not counted.
"""

import json
import sys
import time

import torch
import torch.nn.functional as F

DEVICE = "cuda"
MANY = 1 << 28
SIDE = 16384
CALLS = 5000


def normal(*sizes, dtype=torch.float32):
    return torch.randn(*sizes, device=DEVICE).to(dtype)


def chain(x, y):
    return torch.sigmoid(x * y + x) * torch.tanh(y) - x


def tf32(allowed, f):
    def run():
        torch.backends.cuda.matmul.allow_tf32 = allowed
        result = f()
        torch.backends.cuda.matmul.allow_tf32 = False
        return result

    return run


def on_rows(f, *dtypes):
    inputs = [normal(MANY, dtype=dtype) for dtype in dtypes]
    return lambda: f(*inputs)


def on_square(f):
    m = normal(SIDE, SIDE)
    return lambda: f(m)


def copy():
    a, o = normal(MANY), torch.empty(MANY, device=DEVICE)
    return lambda: o.copy_(a)


def add_out():
    a, b, o = normal(MANY), normal(MANY), torch.empty(MANY, device=DEVICE)
    return lambda: torch.add(a, b, out=o)


def compiled_chain():
    f, x, y = torch.compile(chain), normal(MANY), normal(MANY)
    f(x, y)
    return lambda: f(x, y)


def broadcast():
    m, v = normal(SIDE, SIDE), normal(SIDE)
    return lambda: m + v


def permuted(sizes, order):
    x = normal(*sizes)
    return lambda: x.permute(order).contiguous()


def on_middle(f):
    m = normal(256, 1024, 1024)
    return lambda: f(m, 1)


def dropout():
    x = normal(MANY // 2, dtype=torch.bfloat16)
    return lambda: F.dropout(x, 0.1, True)


def softmax(rows, columns):
    x = normal(rows, columns, dtype=torch.bfloat16)
    return lambda: torch.softmax(x, 1)


def product(n, dtype):
    a, b = normal(n, n, dtype=dtype), normal(n, n, dtype=dtype)
    return lambda: a @ b


def batches():
    a = normal(512, 256, 256, dtype=torch.bfloat16)
    return lambda: a @ a


def linear(after):
    x = normal(16384, 4096, dtype=torch.bfloat16)
    w, b = (normal(16384, 4096) / 64).bfloat16(), normal(16384, dtype=torch.bfloat16)
    return lambda: after(F.linear(x, w, b))


def addmm_gelu():
    x = normal(16384, 4096, dtype=torch.bfloat16)
    w, b = (normal(16384, 4096) / 64).bfloat16(), normal(16384, dtype=torch.bfloat16)
    return lambda: torch._addmm_activation(b, x, w.t(), use_gelu=True)


def addmm_gelu_with_gradient():
    """By parts: the peer's fused one has no gradient."""
    x = normal(16384, 4096, dtype=torch.bfloat16)
    w, b = (normal(16384, 4096) / 64).bfloat16(), normal(16384, dtype=torch.bfloat16)
    inputs, g = [t.requires_grad_() for t in (x, w, b)], normal(16384, 16384, dtype=torch.bfloat16)
    return lambda: torch.autograd.grad(F.gelu(torch.addmm(b, x, w.t()), approximate="tanh"), inputs, g)


def integers():
    a = torch.randint(-127, 127, (4096, 4096), device=DEVICE, dtype=torch.int8)
    b = a.t().contiguous().t()
    return lambda: torch._int_mm(a, b)


def gemv(rows):
    x, w = normal(rows, 8192, dtype=torch.bfloat16), normal(8192, 8192, dtype=torch.bfloat16)
    return lambda: x @ w.t()


def attention(batch, heads, length, width, causal, backward):
    """The peer chooses among its own kernels."""
    q, k, v = (normal(batch, heads, length, width, dtype=torch.bfloat16).requires_grad_(backward) for _ in range(3))
    if not backward:
        return lambda: F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    grad = torch.randn_like(out)
    return lambda: torch.autograd.grad(out, (q, k, v), grad, retain_graph=True)


def softmax_backward(rows, columns):
    y, g = normal(rows, columns, dtype=BF16).softmax(1), normal(rows, columns, dtype=BF16)
    return lambda: torch.ops.aten._softmax_backward_data(g, y, 1, BF16)


def norm_inputs():
    return normal(32768, 4096, dtype=BF16), (normal(4096) / 8 + 1).bfloat16(), normal(4096, dtype=BF16)


def layer_norm():
    x, w, b = norm_inputs()
    return lambda: F.layer_norm(x, (4096,), w, b, 1e-6)


def layer_norm_backward():
    inputs = [t.requires_grad_() for t in norm_inputs()]
    y = F.layer_norm(inputs[0], (4096,), inputs[1], inputs[2], 1e-6)
    g = torch.randn_like(y)
    return lambda: torch.autograd.grad(y, inputs, g, retain_graph=True)


def rms_norm():
    x, w, _ = norm_inputs()
    return lambda: F.rms_norm(x, (4096,), w, 1e-6)


def cross_entropy():
    x = normal(8192, 50304, dtype=BF16).requires_grad_()
    y = torch.randint(0, 50304, (8192,), device=DEVICE)
    return lambda: torch.autograd.grad(F.cross_entropy(x, y), x)


def batch_norm():
    x = normal(64, 256, 56, 56, dtype=BF16).to(memory_format=torch.channels_last)
    w, b, mean, var = (f(256, device=DEVICE) for f in (torch.ones, torch.zeros, torch.zeros, torch.ones))
    return lambda: F.batch_norm(x, mean, var, w, b, True, 0.1, 1e-6)


def parameters_with_gradients():
    every = [normal(1024, 1024).requires_grad_() for _ in range(150)]
    for p in every:
        p.grad = torch.randn_like(p)
    return every


def adamw():
    return torch.optim.AdamW(parameters_with_gradients(), lr=1e-3, fused=True).step


def clip():
    every, limit = parameters_with_gradients(), [1.0]

    def run():
        limit[0] *= 0.99  # so that every call has something to clip
        return torch.nn.utils.clip_grad_norm_(every, limit[0])

    return run


def at_indices(f):
    rows, index = normal(1 << 20, 128), torch.randint(0, 1 << 20, (1 << 20,), device=DEVICE)
    return lambda: f(rows, index)


def index_add():
    to = torch.zeros(1 << 20, 128, device=DEVICE)
    return at_indices(lambda rows, index: to.index_add_(0, index, rows))


def embedding_backward():
    table, g = normal(50304, 1024, dtype=BF16).requires_grad_(), normal(32768, 1024, dtype=BF16)
    index = torch.randint(0, 50304, (32768,), device=DEVICE)
    return lambda: torch.autograd.grad(F.embedding(index, table), table, g)


def on_tensor(f, x):
    return lambda: f(x)


def masked_select():
    x, mask = normal(1 << 26), torch.rand(1 << 26, device=DEVICE) > 0.5
    return lambda: torch.masked_select(x, mask)


def whole_numbers(below, count):
    return torch.randint(0, below, (count,), device=DEVICE, dtype=torch.int32)


def tiny(f, **options):
    a, b = torch.randn(8, device=DEVICE, **options), torch.randn(8, device=DEVICE)
    return lambda: f(a, b)


F32, BF16 = torch.float32, torch.bfloat16
CASES = {
    "copy_f32_2^28": copy,
    "add_f32_2^28": add_out,
    "gelu_f32_2^28": lambda: on_rows(F.gelu, F32),
    "mul_bf16_2^28": lambda: on_rows(torch.mul, BF16, BF16),
    "gelu_bf16_2^28": lambda: on_rows(F.gelu, BF16),
    "cast_f32_bf16_2^28": lambda: on_rows(torch.Tensor.bfloat16, F32),
    "cast_bf16_f32_2^28": lambda: on_rows(torch.Tensor.float, BF16),
    "add_mixed_f32_bf16_2^28": lambda: on_rows(torch.add, F32, BF16),
    "chain6_f32_eager": lambda: on_rows(chain, F32, F32),
    "chain6_f32_compile": compiled_chain,
    "transpose_copy_f32_16384": lambda: on_square(lambda m: m.t().contiguous()),
    "bcast_add_f32_16384": broadcast,
    "strided_slice_mul_f32": lambda: on_square(lambda m: m[:, ::2] * 2),
    "permute_nhwc_f32": lambda: permuted((32, 64, 56, 56), (0, 2, 3, 1)),
    "permute_heads_f32": lambda: permuted((32, 1024, 16, 64), (0, 2, 1, 3)),
    "randn_f32_2^28": lambda: lambda: torch.randn(MANY, device=DEVICE),
    "dropout_fwd_bf16_2^27": dropout,
    "sum_all_f32_2^28": lambda: on_rows(torch.sum, F32),
    "mean_all_f32_2^28": lambda: on_rows(torch.mean, F32),
    "argmax_all_f32_2^28": lambda: on_rows(torch.argmax, F32),
    "var_all_f32_2^28": lambda: on_rows(torch.var, F32),
    "logsumexp_all_f32_2^28": lambda: on_rows(lambda x: torch.logsumexp(x, 0), F32),
    "cumsum_rows_f32": lambda: on_square(lambda m: m.cumsum(1)),
    "mm_f32_4096": lambda: product(4096, F32),
    "mm_tf32_4096": lambda: tf32(True, product(4096, F32)),
    "mm_f64_4096": lambda: product(4096, torch.float64),
    "bmm_bf16_512x256": batches,
    "linear_bias_bf16_16384x4096x16384": lambda: linear(lambda y: y),
    "linear_gelu_bf16_16384x4096x16384": lambda: linear(F.gelu),
    "addmm_gelu_bf16_16384x4096x16384": addmm_gelu,
    "addmm_gelu_fwdbwd_bf16_16384x4096x16384": addmm_gelu_with_gradient,
    "int_mm_4096": integers,
    "layernorm_fwd_bf16_32768x4096": layer_norm,
    "layernorm_bwd_bf16_32768x4096": layer_norm_backward,
    "rmsnorm_fwd_bf16_32768x4096": rms_norm,
    "cross_entropy_fwdbwd_bf16_8192x50304": cross_entropy,
    "batchnorm_train_fwd_bf16_nhwc": batch_norm,
    "adamw_fused_157M_f32": adamw,
    "clip_grad_norm_157M": clip,
    "index_select_f32_2^20x128": lambda: at_indices(lambda rows, index: rows.index_select(0, index)),
    "index_add_f32_2^20x128": index_add,
    "embedding_bwd_50304x1024_32768": embedding_backward,
    "sort_pairs_f32_2^26": lambda: on_tensor(torch.sort, normal(1 << 26)),
    "sort_pairs_i32_2^26": lambda: on_tensor(torch.sort, whole_numbers(1 << 30, 1 << 26)),
    "topk50_4096x32768": lambda: on_tensor(lambda m: torch.topk(m, 50), normal(4096, 32768)),
    "sort_rows_4096x4096": lambda: on_tensor(torch.sort, normal(4096, 4096)),
    "masked_select_2^26": masked_select,
    "nonzero_2^26": lambda: on_tensor(torch.nonzero, torch.rand(1 << 26, device=DEVICE) > 0.5),
    "unique_2^24": lambda: on_tensor(torch.unique, whole_numbers(100000, 1 << 24)),
    "overhead_add": lambda: tiny(torch.add),
    "overhead_empty": lambda: lambda: torch.empty(8, device=DEVICE),
    "overhead_view": lambda: tiny(lambda a, b: a.view(2, 4)),
    "overhead_item": lambda: tiny(lambda a, b: a[0].item()),
    "overhead_mul_sum_backward": lambda: tiny(lambda a, b: (a * b).sum().backward(), requires_grad=True),
}
for axis, dim in (("rows", 1), ("cols", 0)):
    for name in ("sum", "mean", "argmax", "var", "logsumexp"):
        CASES[f"{name}_{axis}_f32"] = lambda f=getattr(torch, name), dim=dim: on_square(lambda m: f(m, dim))
for name in ("sum", "mean", "argmax", "var", "logsumexp"):
    CASES[f"{name}_middle_f32"] = lambda f=getattr(torch, name): on_middle(f)
for rows, columns in ((16384, 4096), (131072, 512), (8192, 50304)):
    CASES[f"softmax_bf16_{rows}x{columns}"] = lambda rows=rows, columns=columns: softmax(rows, columns)
    CASES[f"softmax_bwd_bf16_{rows}x{columns}"] = lambda rows=rows, columns=columns: softmax_backward(rows, columns)
for n in (512, 1024, 2048, 4096, 8192):
    CASES[f"mm_bf16_{n}"] = lambda n=n: product(n, BF16)
for width, heads in ((64, 32), (128, 16), (256, 8)):
    for length, batch in ((1024, 16), (4096, 4), (16384, 1)):
        for causal in (False, True):
            for backward in (False, True):
                name = f"sdpa_{'bwd' if backward else 'fwd'}_bf16_B{batch}H{heads}S{length}D{width}{'c' if causal else ''}"
                CASES[name] = lambda *, sizes=(batch, heads, length, width, causal, backward): attention(*sizes)
for rows in (1, 8, 64):
    CASES[f"gemv_bf16_{rows}x8192x8192"] = lambda rows=rows: gemv(rows)


def time_on_device(run, count):
    times = []
    for i in range(-3, count):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        if i >= 0:
            times.append(start.elapsed_time(end) * 1e3)
    return {"us": times}


def time_on_host(run, count):
    total, host = [], []
    for i in range(-1, count):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(CALLS):
            run()
        queued = time.perf_counter() - begin
        torch.cuda.synchronize()
        if i >= 0:
            total.append((time.perf_counter() - begin) / CALLS * 1e6)
            host.append(queued / CALLS * 1e6)
    return {"us": total, "host_us": host}


def first_op():
    start = time.perf_counter()
    a = torch.full((8,), 1.5, device=DEVICE)
    right = (a + a)[3].item() == 3.0
    return {"us": (time.perf_counter() - start) * 1e6, "right": right}


def serve():
    run = None
    for line in sys.stdin:
        verb, *words = line.split()
        try:
            if verb == "list":
                answer = {
                    "device": torch.cuda.get_device_name(),
                    "library": f"PyTorch {torch.__version__}",
                    "cases": [{"name": name} for name in CASES],
                }
            elif verb == "prepare":
                run = None
                run = CASES[words[0]]()
                run()
                torch.cuda.synchronize()
                answer = {}
            elif verb == "time":
                answer = (time_on_host if words[0].startswith("overhead_") else time_on_device)(run, int(words[1]))
            else:
                run = None
                torch.cuda.synchronize()
                torch.cuda.empty_cache()
                answer = {}
        except Exception as problem:
            answer = {"problem": f"{type(problem).__name__}: {problem}"[:500]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["--first-op"]:
        print(json.dumps(first_op()))
    else:
        serve()
