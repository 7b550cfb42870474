"""``jg.save``: a function with its weights, its graph and its native code, for GPUs too, in one file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from jitgraph.artifact import DeviceImage, SavedEntry, write_artifact
from jitgraph.errors import JitgraphError, UnsupportedOp
from jitgraph.ir.printer import large_constants, print_graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import Constant
from jitgraph.runtime import loader
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.cuda.driver import SLOTS
from jitgraph.runtime.loader.artifact import DeviceCode
from jitgraph.saved.entry import CONSTANT, FileEntry, FileState, entry_of
from jitgraph.saved.reading import SavedModel
from jitgraph.tracing.call.function import traced

# ----------------------------------------------------------------------
# From code that was compiled for a GPU to what a file holds of it.


def device_image(generation: str, program: Any, first: loader.Signature) -> tuple[DeviceImage, dict[str, Any]]:
    """The code of a ``CudaExecutable`` for a file, and its constants by their keys among the weights.

    ``first`` is the signature of the file's first target, which holds for all of them but for what their checks tell.
    JitgraphError where it does not.
    """
    same = first.but_with(checks=program.signature.checks, aliases=program.signature.aliases)
    if same != program.signature:
        raise JitgraphError(
            f"{program.signature.name} cannot be saved: its code for {generation} has another signature than that for "
            "the first target\n  hint: one file for each of these targets"
        )
    parts = program.parts
    constants = {CONSTANT + Constant(array).digest: array for array in parts.constants}
    keys = [CONSTANT + Constant(array).digest for array in parts.constants]
    code = DeviceCode(
        generation,
        "",
        "",
        parts.functions,
        tuple((key, constants[key].nbytes) for key in keys),
        tuple((symbol, SLOTS[symbol]) for symbol in parts.driver),
        program.signature.checks,
        parts.reports,
        parts.host_sizes,
    )
    return DeviceImage(program.image, parts.ptx, code), constants


# ----------------------------------------------------------------------
# ``jg.save``: a function with its weights, its graph and its native code, in one file.

PORTABLE: Final = "x86-64-v3"
"""The level that a file holds beside the host's own, for other machines."""

GENERATIONS: Final = ("sm_80", "sm_90")
"""What "cuda" among targets stands for: the driver compiles PTX of one of them for every later GPU."""


def save(
    function: Callable[..., Any],
    path: str | os.PathLike[str],
    *,
    example_inputs: Sequence[Any] | None = None,
    targets: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Save what ``function(*example_inputs)`` computes, for the shapes and dtypes of the examples.

    ``function`` is a traced function, a module, a plain function or what ``jg.load`` gives; sizes named by
    ``dynamic_shapes`` stay free, and ``jg.TensorSpec`` may stand for an example. Tensors that the function reaches
    become the file's weights; those that it rebinds are written back by whoever runs the file. Floats that have a
    default keep it; each tensor in a container is an argument of its own, ``batch["x"]`` as ``batch_x``. ``targets``
    are levels such as "x86-64-v3", generations of GPUs such as "sm_80", and "cuda" for sm_80 and sm_90, or one of these
    (default: this machine's level and x86-64-v3, and "cuda" for a function that runs on a GPU). JitgraphError for what
    a file cannot hold, UnsupportedOp for what a GPU cannot run and for ops
    that Python evaluates, FileNotFoundError for a folder that is not there; the
    file is written whole or not at all.
    """
    described = _json(metadata or {})
    lowered = (function if isinstance(function, SavedModel) else _traced(function)).lower(*_as_tuple(example_inputs))
    entry = entry_of(lowered, function.state if isinstance(function, SavedModel) else {})
    _write(path, entry, _names(targets, lowered.plan.device), described)


def retarget(model: SavedModel, path: str | os.PathLike[str], targets: Sequence[str]) -> None:
    """Save a loaded function again, its graph and weights as they are, with native code for these targets.

    Errors are those of ``save``.
    """
    _write(path, entry_of_saved(model), _names(targets, model.device), dict(model.metadata))


def compiled_for(model: SavedModel, target: str | None = None) -> Any:
    """What a loaded function's graph becomes for a target by its name, or for this machine: nothing of it is run.

    The result has ``stages``, ``llvm_ir`` and ``asm``, which for a GPU is the PTX. CompileError or UnsupportedOp where
    the target cannot run it, DeviceError for a name that is no target's.
    """
    compiled_target = Target.host() if target is None else Target.named(target)
    return _compile(entry_of_saved(model), compiled_target.without_python())


def entry_of_saved(model: SavedModel) -> FileEntry:
    """The entry that a loaded function came from, with its state as it is now."""
    signature, graph = model.signature, model.graph
    values = graph.inputs[len(signature.inputs) :]
    state = [
        FileState(spec.key, model.state[spec.key].detach().numpy(), value)
        for spec, value in zip(signature.state, values, strict=True)
    ]
    defaults = tuple(spec.default for spec in signature.inputs)
    names = tuple(spec.name for spec in signature.outputs)
    return FileEntry(graph, defaults, tuple(state), signature.writes, signature.structure, names)


def _write(path: str | os.PathLike[str], entry: FileEntry, names: Sequence[str], described: Mapping[str, Any]) -> None:
    """Compile an entry for these targets and write the file."""
    compiled = {name: _compile(entry, Target.named(name).without_python()) for name in names}
    first = compiled[names[0]]
    for call in first.stages.schedule.calls:
        raise UnsupportedOp(
            f"jg.save: {call.op.name} is evaluated by Python, which a file cannot hold",
            location=call.location,
            hint="save what comes before and behind it, each as a function of its own, and call it between them",
        )
    signature = _signature(entry, first.signature)
    images = {name: executable.image for name, executable in compiled.items() if executable.target.sm is None}
    weights = {state.key: state.array for state in entry.state}
    weights |= {CONSTANT + digest: constant.value for digest, constant in large_constants(entry.graph).items()}
    devices = []
    for name, executable in compiled.items():
        if executable.target.sm is not None:
            image, constants = device_image(name, executable, first.signature)
            devices.append(image)
            weights |= constants
    assumed = first.stages.schedule.constraints  # what the passes assumed beyond the recorded graph, too
    text = print_graph(replace(entry.graph, constraints=assumed), full=True)  # whatever later versions decompose
    saved = SavedEntry(signature, text, images, tuple(devices))
    write_artifact(path, entries={"forward": saved}, weights=weights, metadata=described)


def _names(targets: Sequence[str] | None, device: str) -> list[str]:
    """The targets by name, each once, "cuda" as what it stands for."""
    names = (targets,) if isinstance(targets, str) else targets
    if not names:
        names = (Target.host().name, PORTABLE) + (() if device == CPU else ("cuda",))
    return list(dict.fromkeys(name for each in names for name in (GENERATIONS if each == "cuda" else (each,))))


def _json(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """``metadata``, which must be JSON: what a file says of itself is read without running anything."""
    if not isinstance(metadata, Mapping) or not all(isinstance(key, str) for key in metadata):
        raise JitgraphError("metadata is a dict with names as keys\n  hint: metadata={'version': '1.0'}")
    for key, value in metadata.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise JitgraphError(
                f"metadata[{key!r}] cannot be written as JSON: {error}\n"
                "  hint: text, finite numbers, bools, None, and lists and dicts of them; x.tolist() for a tensor"
            ) from None
    return dict(metadata)


def _traced(function: Any) -> Any:
    if isinstance(function, Mapping):
        raise JitgraphError(
            "jg.save saves a function, not a state dict\n"
            "  hint: jg.save(model, path, example_inputs=(x,)), or safetensors.numpy.save_file(state, path) for arrays"
        )
    if not callable(function):
        raise JitgraphError(f"jg.save saves a function, not a {type(function).__name__}")
    return traced(function)


def _as_tuple(example_inputs: Any) -> tuple[Any, ...]:
    if example_inputs is None:
        raise JitgraphError(
            "jg.save records the function on example inputs\n  hint: jg.save(f, path, example_inputs=(x,))"
        )
    if isinstance(example_inputs, tuple | list):
        return tuple(example_inputs)
    raise JitgraphError("example_inputs holds the arguments in a tuple\n  hint: example_inputs=(x,)")


def _compile(entry: FileEntry, target: Target) -> Any:
    from jitgraph import compiler  # the code generator loads on the first compilation

    executable = compiler.compile(entry.graph, target, donate=_donations(entry) if target.sm is None else ())
    if isinstance(executable, compiler.Interpreted):
        raise JitgraphError(
            f"{entry.graph.name} cannot be saved: JITGRAPH_INTERPRET is set\n  hint: a file holds native code alone"
        )
    return executable


def _donations(entry: FileEntry) -> list[tuple[int, int]]:
    """State that a run may update in place: (output, input) pairs of one type."""
    first = len(entry.defaults)
    return [(output, first + state) for output, state in entry.writes]


def _signature(entry: FileEntry, compiled: loader.Signature) -> loader.Signature:
    """The compiled graph's signature with its inputs told apart into arguments and state."""
    count = len(entry.defaults)
    arguments = tuple(
        spec.but_with(default=default) for spec, default in zip(compiled.inputs[:count], entry.defaults, strict=True)
    )
    state = tuple(
        loader.StateSpec(spec.name, spec.dtype, spec.shape, key=saved_state.key)
        for spec, saved_state in zip(compiled.inputs[count:], entry.state, strict=True)
    )
    outputs = tuple(spec.but_with(name=name) for spec, name in zip(compiled.outputs, entry.names, strict=True))
    return compiled.but_with(
        inputs=arguments, outputs=outputs, state=state, writes=entry.writes, structure=entry.structure, name="forward"
    )
