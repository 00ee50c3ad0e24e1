"""Ordinary tensor code for the type checkers, which must accept it and infer what `assert_type` says. A line that is wrong
carries a `type: ignore`, and the checkers complain when there is nothing to ignore. Never run.
"""
from typing import Any, Optional

from typing_extensions import assert_type

import facula as torch
import facula.nn.functional as F
from facula import Tensor, nn
from facula.autograd import Function
from facula.autograd.function import FunctionCtx
from facula.safetensors import load_file, save_file
from facula.utils.data import DataLoader, Dataset, Subset, TensorDataset, random_split
from facula.utils.tensorboard import SummaryWriter


def making() -> None:
    x = torch.zeros(2, 3)
    assert_type(x, Tensor)
    assert_type(torch.zeros((2, 3), dtype=torch.float64, device="cpu", requires_grad=True), Tensor)
    torch.empty([2, 3], device=torch.device("cpu", 0))
    torch.arange(10)
    torch.arange(0, 1, 0.1, dtype=torch.float)
    torch.tensor([[1, 2], [3, 4]], dtype=torch.int)
    torch.randn(3, generator=torch.Generator().manual_seed(1))
    torch.full((2,), 1.5)
    torch.zeros("3")  # type: ignore
    torch.zeros(2, dtype="float32")  # type: ignore


def asking(x: Tensor) -> None:
    assert_type(x.shape, torch.Size)
    assert_type(x.shape[0], int)
    assert_type(x.size(), torch.Size)
    assert_type(x.size(0), int)
    assert_type(x.dtype, torch.dtype)
    assert_type(x.device.type, str)
    assert_type(x.dim() + x.numel(), int)
    assert_type(x.is_contiguous(), bool)
    assert_type(x.grad, Optional[Tensor])
    assert_type(x.tolist(), Any)
    assert_type(torch.is_tensor(x), bool)
    x.shape = (2, 3)  # type: ignore
    x.no_such_method()  # type: ignore
    torch.no_such_function(x)  # type: ignore


def computing(x: Tensor, y: Tensor) -> Tensor:
    assert_type(x + y, Tensor)
    assert_type(1 - x * 2.5, Tensor)
    assert_type(x @ y.t(), Tensor)
    assert_type(x > 0, Tensor)
    assert_type(x == y, Tensor)
    assert_type(-x, Tensor)
    x += 1
    assert_type(x, Tensor)
    x.add_(y, alpha=2).mul_(0.5)
    assert_type(torch.add(x, y, alpha=2), Tensor)
    assert_type(x.sum(), Tensor)
    assert_type(x.sum(dim=(0, 1), keepdim=True), Tensor)
    assert_type(x.max(), Tensor)
    assert_type(x.max(dim=1).values, Tensor)
    values, indices = torch.sort(x, descending=True)
    assert_type(indices, Tensor)
    assert_type(torch.max(x, y), Tensor)
    assert_type(torch.split(values, 2), tuple[Tensor, ...])
    assert_type(x.unbind(0), tuple[Tensor, ...])
    assert_type(torch.where(x > 0, x, 0.0), Tensor)
    assert_type(torch.allclose(x, y, atol=1e-3), bool)
    assert_type(torch.einsum("ij,jk->ik", x, y), Tensor)
    assert_type(x.nonzero(as_tuple=True), tuple[Tensor, ...])
    torch.cat([x, y], dim=0)
    torch.stack((x, y), 1)
    torch.matmul(x, y, out=x)
    x + "1"  # type: ignore
    torch.cat(x, y)  # type: ignore
    torch.softmax(x)  # type: ignore
    return F.softmax(F.gelu(x), dim=-1)


def indexing(x: Tensor) -> None:
    assert_type(x[0], Tensor)
    assert_type(x[..., None, 1:3, ::2], Tensor)
    assert_type(x[x > 0], Tensor)
    assert_type(x[torch.tensor([0, 1]), [1, 0]], Tensor)
    x[0, 0] = 1.0
    x[x > 0] = x.view(-1)
    for row in x:
        assert_type(row, Tensor)
    x.view(2, 3)
    x.view((2, -1)).permute(1, 0).reshape([6])
    x[1.5]  # type: ignore


def numbers(x: Tensor) -> None:
    assert_type(float(x) + int(x), float)
    assert_type(len(x), int)
    if x.all():
        pass
    assert_type(x.to(torch.float64), Tensor)
    assert_type(x.to("cpu", torch.half, copy=True), Tensor)
    assert_type(x.float().long(), Tensor)
    assert_type(torch.finfo(torch.float32).eps, float)
    torch.from_numpy(x.numpy())


class Double(Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor) -> Any:
        (x,) = ctx.saved_tensors
        return grad * ctx.factor + 0 * x, None


@torch.no_grad()
def frozen(x: Tensor) -> Tensor:
    return x * 2


def gradients(x: Tensor) -> None:
    assert_type(frozen(x), Tensor)
    x.requires_grad_().register_hook(lambda g: g * 2).remove()
    y = Double.apply(x, 2.0)
    y.sum().backward(retain_graph=True)
    (g,) = torch.autograd.grad(y.sum(), x)
    with torch.no_grad():
        x -= 0.1 * g
    with torch.enable_grad(), torch.inference_mode(False):
        torch.func.vmap(torch.func.grad(lambda v: v.sin()))(x)
    torch.autograd.functional.jacobian(torch.exp, x, vectorize=True)
    torch.autograd.gradcheck(torch.sin, (x,))
    torch.manual_seed(1)
    x.backward("no")  # type: ignore


def on_a_gpu(x: Tensor) -> None:
    if not torch.cuda.is_available():
        return
    stream = torch.cuda.Stream(priority=-1)
    with torch.cuda.device(0), torch.cuda.stream(stream):
        y = x.to("cuda", non_blocking=True) * 2
        y.record_stream(stream)
    event = stream.record_event(torch.cuda.Event(enable_timing=True))
    assert_type(event, torch.cuda.Event)
    assert_type(torch.cuda.memory_allocated("cuda:0"), int)
    assert_type(torch.cuda.get_device_capability(), tuple[int, int])
    assert_type(torch.cuda.cudart().cudaMemGetInfo(0), tuple[int, int])
    assert_type(torch.cuda.get_device_properties(0).total_memory, int)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y.add_(1)
    graph.replay()
    torch.cuda.Kernel("text", "name").launch(1, (32, 2), [y, torch.cuda.int64(3), 2.0])
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.set_float32_matmul_precision("high")
    torch.cuda.set_device(None, 1)  # type: ignore


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.LayerNorm(width), nn.Dropout(0.1))
        self.heads = nn.ModuleList([nn.Linear(width, 2, bias=False)])
        self.scale = nn.Parameter(torch.ones(2))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.heads[0](self.layers(x))
        return made * self.scale.sigmoid()


def networks(x: Tensor) -> None:
    net = Net(8)
    assert_type(net.to("cpu", torch.float64).train().eval(), Net)
    assert_type(net.scale + 1, Tensor)
    assert_type(nn.Linear(2, 3).weight, Tensor)
    for name, parameter in net.named_parameters():
        assert_type(name, str)
        assert_type(parameter, nn.Parameter)
        assert_type(parameter.grad, Optional[Tensor])
    for module in net.modules():
        assert_type(module, nn.Module)
    net.register_forward_hook(lambda module, args, output: None).remove()
    net.load_state_dict(net.state_dict())
    assert_type(F.logsigmoid(x), Tensor)
    nn.init.kaiming_uniform_(net.scale, a=1.0)
    nn.utils.clip_grad_norm_(net.parameters(), max_norm=1.0)
    print(torch.summary(net, input_size=(1, 4)))
    nn.Linear("4", 2)  # type: ignore
    nn.NoSuchModule()  # type: ignore


class Squares(Dataset[tuple[int, int]]):
    def __getitem__(self, index: int) -> tuple[int, int]:
        return index, index * index

    def __len__(self) -> int:
        return 10


def training(x: Tensor, y: Tensor) -> None:
    net, lossy = Net(8), nn.CrossEntropyLoss()
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-4, betas=(0.9, 0.95))
    torch.optim.SGD([{"params": net.layers.parameters(), "lr": 0.1}, {"params": [net.scale]}], momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=10)
    scaler = torch.amp.GradScaler("cuda", enabled=False)
    assert_type(random_split(Squares(), [0.5, 0.5])[0], Subset[tuple[int, int]])
    assert_type(TensorDataset(x, y)[0], tuple[Tensor, ...])
    loader = DataLoader(TensorDataset(x, y), batch_size=2, shuffle=True, generator=torch.Generator())
    bar = torch.progress(loader, "epoch")
    for rows, labels in bar:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss: Tensor = lossy(net(rows), labels)
        assert_type(scaler.scale(loss), Tensor)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scheduler.step()
        bar.set(loss=loss)
    assert_type(scheduler.get_last_lr(), list[float])
    torch.optim.LBFGS(net.parameters()).step(lambda: 0.0)
    torch.optim.LBFGS(net.parameters()).step()  # type: ignore
    torch.optim.Adam(net.parameters(), lr="high")  # type: ignore
    DataLoader(TensorDataset(x), batch_size="2")  # type: ignore


def files(x: Tensor) -> None:
    torch.save({"x": x, "epoch": 1}, "x.safetensors")
    torch.load("x.safetensors", map_location="cpu")["x"].sum()
    save_file({"x": x}, "x.safetensors", metadata={"made_by": "me"})
    assert_type(load_file("x.safetensors")["x"], Tensor)
    curve = torch.LossCurve("Training", log_y=True)
    curve.add("loss", 1, x)
    assert_type(curve.svg(), str)
    with SummaryWriter("runs") as writer:
        writer.add_scalar("loss", x, global_step=1)
    save_file([x], "x.safetensors")  # type: ignore
