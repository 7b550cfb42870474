"""``torch.compile(backend="jitgraph")``: graphs of models that stay in PyTorch, compiled by jitgraph.

PyTorch captures a function, differentiates it (AOTAutograd) and hands over two graphs of ATen's operators, which become
traced functions. Tensors go in as they lie in memory, and results come back without a copy (DLPack). PyTorch finds the
backend by the entry point ``jitgraph`` of the group ``torch_dynamo_backends``.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from jitgraph.eager.tape import EagerValue
from jitgraph.errors import UnsupportedOp
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.grids import from_dlpack
from jitgraph.torch.programs import fx
from jitgraph.torch.programs.program import Ref
from jitgraph.torch.programs.running import Routine
from jitgraph.tracing.call.function import trace


def backend(module: Any, example_inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """What ``torch.compile`` calls with a captured graph: forward and backward compiled, each by ``compiled``."""
    common: Any = importlib.import_module("torch._dynamo.backends.common")
    decomposition: Any = importlib.import_module("torch._decomp")
    compilation: Any = importlib.import_module("functorch.compile")

    def compile_graph(graph: Any, inputs: Sequence[Any]) -> Any:
        return compilation.make_boxed_func(compiled(graph))

    compiler = common.aot_autograd(
        fw_compiler=compile_graph,
        bw_compiler=compile_graph,
        partition_fn=compilation.min_cut_rematerialization_partition,
        decompositions=decomposition.core_aten_decompositions(),
    )
    torch: Any = importlib.import_module("torch")
    with torch.backends.mkldnn.flags(enabled=False):  # an LSTM is then taken apart, and no operator of oneDNN's
        return compiler(module, example_inputs)  # type: ignore[no-any-return]


def compiled(module: Any) -> Callable[..., list[Any]]:
    """A graph as a function of PyTorch's tensors, which gives a list of them."""
    torch: Any = importlib.import_module("torch")
    graph, constants = fx.graph_of(module)
    routine = Routine(graph)
    if routine.graph.written:
        raise UnsupportedOp(f"the graph writes to {', '.join(routine.graph.written)}, which is not supported")
    places = {name: number for number, name in enumerate(graph.inputs)}
    kept = [_is_passed(output, places) for output in graph.outputs]
    own = tuple(number for number, number_of_input in enumerate(kept) if number_of_input is None)
    fixed = tuple(fx.array_of(tensor) for tensor in constants.values())

    def evaluate(*inputs: Any) -> tuple[Any, ...]:
        results = routine(*inputs, *fixed)
        return tuple(results[number] for number in own)

    function = trace(evaluate)
    is_all = len(own) == len(kept)

    def call(*tensors: Any) -> list[Any]:
        results = function(*[_borrowed(tensor) for tensor in tensors]) if own else ()
        made = [_returned(torch, result) for result in results]
        if is_all:
            return made
        rest = iter(made)
        return [next(rest) if number is None else tensors[number] for number in kept]

    return call


def _is_passed(output: Any, places: dict[str, int]) -> int | None:
    """The number of the input that an output is; None for what the graph computes."""
    return places.get(output.name) if isinstance(output, Ref) else None


def _borrowed(tensor: Any) -> Any:
    """A tensor of PyTorch for one call, as it lies in memory; a number as it is."""
    try:
        return tensor.detach().numpy() if tensor.requires_grad else tensor.numpy()
    except AttributeError:
        return tensor
    except (TypeError, RuntimeError):  # bfloat16, another device, conjugated or negated as it is read
        return from_dlpack(tensor.detach().resolve_conj().resolve_neg(), copy=False)


def _returned(torch: Any, result: Any) -> Any:
    """A result as a tensor of PyTorch over the same memory."""
    if not isinstance(result, Tensor):
        return result
    value = result._value
    if value.__class__ is EagerValue and value.type.dtype.kind in "fiub" and value.is_private():
        return torch.from_numpy(value.array)
    return torch.from_dlpack(result)
