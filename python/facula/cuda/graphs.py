"""Graphs: work that is recorded once and then launched with one call."""
import gc

from typing import Any

from .. import _native
from ._devices import synchronize
from ._streams import Stream, current_stream, stream as _stream_context

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_cuda = _native._cuda


def graph_pool_handle() -> "tuple[int, int]":
    """A pool for graphs that share memory: they must be launched in the order of their capture, one at a time."""
    return _cuda._graph_pool_handle()


def is_current_stream_capturing() -> bool:
    """Whether what is queued now is recorded into a graph instead of run."""
    return _cuda._is_current_stream_capturing()


def _pool_id(pool: Any) -> Any:
    if pool is None:
        return (0, 0)
    return pool.pool() if isinstance(pool, CUDAGraph) else getattr(pool, "id", pool)


class CUDAGraph:
    """Recorded work of a stream."""

    def __init__(self, keep_graph: bool = False) -> None:
        self._native = _cuda._CUDAGraph()
        if keep_graph:
            self._native.enable_debug_mode()

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Records what is queued on the current stream, which must not be the default one."""
        self._native._capture_begin(_pool_id(pool), capture_error_mode)

    def capture_end(self) -> None:
        """Ends the recording and makes the graph ready."""
        self._native.capture_end()

    def replay(self) -> None:
        """Launches it on the current stream."""
        self._native.replay()

    def reset(self) -> None:
        """Lets go of the graph and its memory."""
        self._native.reset()

    def pool(self) -> "tuple[int, int]":
        """The pool of its memory, for graphs that shall share it."""
        return self._native.pool()

    def enable_debug_mode(self) -> None:
        """Before the capture: keeps what debug_dump writes."""
        self._native.enable_debug_mode()

    def debug_dump(self, debug_path: Any) -> None:
        """Writes the graph in GraphViz's language."""
        self._native.debug_dump(str(debug_path))


class graph:
    """Records the work of a block into a graph, on a stream of its own."""

    default_capture_stream: "Stream | None" = None

    def __init__(
        self, cuda_graph: "CUDAGraph", pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        self.cuda_graph = cuda_graph
        self.pool = pool
        if stream is None:
            # One for all captures, as long as they are on one device.
            stream = graph.default_capture_stream
            if stream is None or stream.device_index != _cuda._current_device():
                stream = graph.default_capture_stream = Stream()
        self.capture_stream = stream
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        synchronize()
        gc.collect()
        _cuda._empty_cache()
        self._context = _stream_context(self.capture_stream)
        self._context.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self._context.__exit__(None, None, None)
            raise

    def __exit__(self, kind: Any, *error: Any) -> None:
        try:
            self.cuda_graph.capture_end()
        except _native.Error:
            # What went wrong inside the block is the better story.
            if kind is None:
                raise
        finally:
            self._context.__exit__(kind, *error)


def _flat(args: Any) -> "list[Any]":
    return [a for each in args for a in (each if isinstance(each, (tuple, list)) else [each])]


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False,
    pool: Any = None
) -> Any:
    """Functions that launch graphs instead of running Python: forward, and backward where gradients are asked for.

    Arguments must have the shapes, dtypes and devices of the samples; results are overwritten by the next call.
    """
    single = not isinstance(callables, tuple)
    functions = (callables,) if single else callables
    samples = (sample_args,) if single else sample_args
    if len(functions) != len(samples):
        raise _native.ArgumentError(f"make_graphed_callables(): {len(functions)} callables came with "
                                    f"{len(samples)} tuples of arguments; give one for each")
    pool = graph_pool_handle() if pool is None else _pool_id(pool)
    graphed = tuple(_graphed(f, tuple(s), num_warmup_iters, allow_unused_input, pool)
                    for f, s in zip(functions, samples))
    return graphed[0] if single else graphed


def _graphed(
    function: Any, sample_args: "tuple[Any, ...]", num_warmup_iters: int, allow_unused_input: bool, pool: Any
) -> Any:
    from .. import autograd, no_grad
    for each in sample_args:
        if not isinstance(each, _native.Tensor):
            raise TypeError("make_graphed_callables(): every argument must be a Tensor, "
                            f"got {type(each).__name__}")
    parameters = tuple(function.parameters()) if hasattr(function, "parameters") else ()
    static_inputs = tuple(sample_args)
    surface = static_inputs + parameters
    wanted = [t for t in surface if t.requires_grad]

    side = Stream()
    side.wait_stream(current_stream())
    with _stream_context(side):
        for _ in range(num_warmup_iters):
            outputs = _flat([function(*static_inputs)])
            tracked = [o for o in outputs if o.requires_grad]
            if tracked and wanted:
                autograd.grad(tracked, wanted, [_native.empty_like(o).zero_() for o in tracked],
                              allow_unused=allow_unused_input)
    current_stream().wait_stream(side)
    synchronize()

    forward = CUDAGraph()
    with graph(forward, pool=pool):
        results = function(*static_inputs)
    outputs = _flat([results])
    tracked = [o for o in outputs if o.requires_grad]
    backward: Any = None
    incoming: "list[Any]" = []
    gradients: Any = ()
    if tracked and wanted:
        incoming = [_native.empty_like(o) for o in outputs]
        backward = CUDAGraph()
        with graph(backward, pool=pool):
            gradients = autograd.grad(tracked, wanted,
                                      [g for g, o in zip(incoming, outputs) if o.requires_grad],
                                      allow_unused=allow_unused_input)
    by_place: "list[Any]" = []
    k = 0
    for t in surface:
        by_place.append(gradients[k] if backward and t.requires_grad else None)
        k += bool(backward and t.requires_grad)
    plain = [i for i, o in enumerate(outputs) if not o.requires_grad]
    outputs = [o.detach() for o in outputs]

    def load(values: Any) -> None:
        for place, (static, value) in enumerate(zip(static_inputs, values)):
            if value.shape != static.shape or value.dtype != static.dtype or value.device != static.device:
                raise _native.ShapeError(f"a graphed function was given {value.dtype} {tuple(value.shape)} on "
                                         f"{value.device} as argument {place}; the sample was {static.dtype} "
                                         f"{tuple(static.shape)} on {static.device}")
            if value.data_ptr() != static.data_ptr():
                with no_grad():
                    static.copy_(value)

    class Graphed(autograd.Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            load(values[:len(static_inputs)])
            forward.replay()
            made = tuple(o.detach() for o in outputs)
            ctx.mark_non_differentiable(*(made[i] for i in plain))
            return made

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            for static, grad in zip(incoming, grads):
                if grad is not None:
                    static.copy_(grad)
            backward.replay()
            return tuple(None if g is None else g.detach() for g in by_place)

    shape = type(results)

    def graphed(*args: Any) -> Any:
        if len(args) != len(static_inputs):
            raise TypeError(f"a graphed function was given {len(args)} arguments; the sample had "
                            f"{len(static_inputs)}")
        if backward is None:
            load(args)
            forward.replay()
            made = tuple(o.detach() for o in outputs)
        else:
            made = Graphed.apply(*args, *parameters)
            made = made if isinstance(made, tuple) else (made,)
        return shape(made) if shape in (tuple, list) else made[0]

    return graphed
