"""``jg.save``: a function with its weights, its graph and its native code, for GPUs too, in one file."""

from __future__ import annotations

import json
import keyword
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from jitgraph.artifact import DeviceImage, SavedEntry, write_artifact
from jitgraph.codegen.kernels.schedule import HostCall
from jitgraph.errors import JitgraphError, UnsupportedOp
from jitgraph.ir.printer import large_constants, print_graph
from jitgraph.ir.target import Target
from jitgraph.ir.types import Constant
from jitgraph.ops.effects import sizes_text
from jitgraph.runtime import loader
from jitgraph.runtime.buffer import CPU
from jitgraph.runtime.cuda.driver import SLOTS
from jitgraph.runtime.loader.artifact import DeviceCode
from jitgraph.runtime.loader.state_files import CONSTANT
from jitgraph.runtime.loader.structures import paths_of, without_inputs
from jitgraph.saved.entry import FileEntry, FileState, entry_of, options_last
from jitgraph.saved.reading import SavedModel, reserved_names
from jitgraph.saved.state import StateKeys, tensors_of
from jitgraph.tensor import Tensor
from jitgraph.tensor.custom import by_name
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

MAIN: Final = "forward"
"""The entry that a call of a model runs, where there is one of that name; else it is the first."""

PORTABLE: Final = "x86-64-v3"
"""The level that a file holds beside the host's own, for other machines."""

GENERATIONS: Final = ("sm_80", "sm_90")
"""What "cuda" among targets stands for: the driver compiles PTX of one of them for every later GPU."""


def save(
    function: Callable[..., Any] | Mapping[str, Callable[..., Any]],
    path: str | os.PathLike[str],
    *,
    example_inputs: Sequence[Any] | Mapping[str, Sequence[Any]] | None = None,
    state: Any = None,
    targets: Sequence[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Save what ``function(*example_inputs)`` computes, for the shapes and dtypes of the examples.

    ``function`` is a traced function, a module, a plain function or what ``jg.load`` gives, or a dict of several by
    name, which share their state: ``jg.save({"forward": model, "step": step}, path, state=model, example_inputs=...)``
    with a dict of the examples of each. Sizes named by ``dynamic_shapes`` stay free, and ``jg.TensorSpec`` may stand
    for an example. Tensors that a function reaches become the file's weights, each once; those that it rebinds are
    written back by whoever runs the file. ``state`` is a module, an optimiser, or a dict, list or tuple of them, whose
    names for their tensors are the keys in the file; the rest has keys by how a function reaches it.

    Arguments may be nested in dicts, lists, tuples and objects. Floats are inputs, and keep a default. Ints, bools,
    strings and None are part of what is saved, and a call with others raises; a list of tuples as the examples of an
    entry saves it for the values in each. ``targets`` are levels such as "x86-64-v3", generations of GPUs such as
    "sm_80", and "cuda" for sm_80 and sm_90, or one of these (default: this machine's level and x86-64-v3, and "cuda"
    for a function that runs on a GPU). What ``jg.load`` gave is saved as it is where there are no examples.

    JitgraphError for what a file cannot hold, for an entry that shares no state with the others, or changes its shape,
    and for a name that cannot be called; UnsupportedOp for what a GPU cannot run and for ops that Python evaluates,
    FileNotFoundError for a folder that is not there; the file is written whole or not at all.
    """
    described = _json(metadata or {})
    if isinstance(function, SavedModel) and example_inputs is None:
        if state is not None:
            raise JitgraphError("jg.save: a loaded model has its own state\n  hint: leave state out")
        names = _names(targets, function.device)
        _write(path, _saved_again(function), names, described or dict(function.metadata), function.state)
        return
    functions = _entries(function)
    examples = _examples(functions, example_inputs, is_dict=functions is function)
    keys = StateKeys(_declared(state, functions))
    entries: dict[str, list[FileEntry]] = {}
    devices = set()
    for name, each in functions.items():
        callee = each if isinstance(each, SavedModel) else _traced(each)
        lowered = [callee.lower(*arguments) for arguments in examples[name]]
        is_loaded = isinstance(each, SavedModel)
        entries[name] = _distinct(name, [entry_of(each, keys, from_file=is_loaded) for each in lowered])
        devices |= {each.plan.device for each in lowered}
    _verify_sharing(entries, keys.declared if state is not None else {}, is_dict=functions is function)
    device = next(iter(devices - {CPU}), CPU)
    _write(path, entries, _names(targets, device), described, keys.declared if state is not None else {})


def _entries(function: Any) -> Mapping[str, Callable[..., Any]]:
    """The functions by the names of their entries; JitgraphError for a name that cannot be called."""
    if not isinstance(function, Mapping):
        return {MAIN: function}
    if not function or not all(map(callable, function.values())):
        others = [
            f"there is {type(each).__name__} under {name!r}" for name, each in function.items() if not callable(each)
        ]
        raise JitgraphError(
            f"jg.save saves a function or a dict of functions, not a state dict: {(*others, 'it is empty')[0]}\n"
            "  hint: jg.save(model, path, example_inputs=(x,)), or safetensors.numpy.save_file(state, path) for arrays"
        )
    for name in function:
        if not isinstance(name, str) or not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
            raise JitgraphError(f"jg.save: {name!r} cannot name an entry, which is called as model.name(...)")
        if name in reserved_names() or name.startswith("_"):
            raise JitgraphError(f"jg.save: {name!r} cannot name an entry: models have an attribute of that name")
    return function


def _examples(functions: Mapping[str, Any], example_inputs: Any, *, is_dict: bool) -> dict[str, list[tuple[Any, ...]]]:
    """The examples of each entry: one, or several in a list of tuples."""
    given = example_inputs if is_dict else {MAIN: example_inputs}
    if is_dict and not isinstance(given, Mapping):
        raise JitgraphError(
            "jg.save: each of several functions has example inputs of its own\n"
            f"  hint: example_inputs={{{', '.join(f'{name!r}: (x,)' for name in functions)}}}"
        )
    if strange := [name for name in given if name not in functions]:
        raise JitgraphError(f"jg.save: there is no function {strange[0]!r} for its example inputs")
    examples: dict[str, list[tuple[Any, ...]]] = {}
    for name in functions:
        own = given.get(name)
        if is_dict and own is None:
            raise JitgraphError(f"jg.save: example_inputs has none for {name!r}\n  hint: {{{name!r}: (x,)}}")
        if isinstance(own, list) and own and all(type(each) is tuple for each in own):
            examples[name] = own
        else:
            examples[name] = [_as_tuple(own, f"{{{name!r}: (x,)}}" if is_dict else "(x,)")]
    return examples


def _declared(state: Any, functions: Mapping[str, Any]) -> dict[str, Tensor]:
    """The tensors that have a key before any function is looked at."""
    declared: dict[str, Tensor] = {} if state is None else tensors_of(state)
    if state is None:
        for function in functions.values():
            if isinstance(function, SavedModel):
                declared |= {key: tensor for key, tensor in function.state.items() if key not in declared}
    return declared


def _distinct(name: str, entries: list[FileEntry]) -> list[FileEntry]:
    """The specialisations of an entry; JitgraphError where a call could be for two of them."""
    if len(entries) == 1:
        (entry,) = entries
        alone = entry.arguments and tuple(
            argument.but_with(optional=argument.optional or not paths_of(argument)) for argument in entry.arguments
        )
        return [options_last(entry._replace(arguments=alone))]
    described = [
        None if entry.arguments is None else [without_inputs(each.structure) for each in entry.arguments]
        for entry in entries
    ]
    for number, structure in enumerate(described):
        if structure is None or structure in described[:number]:
            raise JitgraphError(
                f"jg.save: two examples of {name!r} differ in no string, number, None or key\n"
                "  hint: dynamic_shapes for sizes that vary, and an entry of its own for another rank or dtype"
            )
    return [options_last(entry) for entry in entries]


def _verify_sharing(entries: Mapping[str, Sequence[FileEntry]], declared: Mapping[str, Any], *, is_dict: bool) -> None:
    """JitgraphError for an entry that shares no state with the rest of the file: it belongs into a file of its own."""
    reached = {name: {s.key for entry in group for s in entry.state} for name, group in entries.items()}
    for name, keys in reached.items():
        others = {*declared}.union(*(other for each, other in reached.items() if each != name)) if is_dict else declared
        if (declared or (is_dict and len(entries) > 1)) and not keys & {*others}:
            raise JitgraphError(
                f"jg.save: {name!r} uses {'nothing of the state' if declared else 'no state of the other functions'}\n"
                "  hint: save it in a file of its own, or have it use the same modules, and no copies of them"
            )


def retarget(model: SavedModel, path: str | os.PathLike[str], targets: Sequence[str]) -> None:
    """Save a loaded function again, all entries of its file, with native code for these targets.

    Errors are those of ``save``.
    """
    _write(path, _saved_again(model), _names(targets, model.device), dict(model.metadata), model.state)


def compiled_for(model: SavedModel, target: str | None = None) -> Any:
    """What a loaded function's graph becomes for a target by its name, or for this machine: nothing of it is run.

    The result has ``stages``, ``llvm_ir`` and ``asm``, which for a GPU is the PTX. CompileError or UnsupportedOp where
    the target cannot run it, DeviceError for a name that is no target's.
    """
    compiled_target = Target.host() if target is None else Target.named(target)
    return compile_entry(entry_of_saved(model), compiled_target.without_python())


def _saved_again(model: SavedModel) -> dict[str, list[FileEntry]]:
    """The entries of the file that a function came from."""
    return {name: [entry_of_saved(each) for each in entry.specialisations] for name, entry in model.entries.items()}


def entry_of_saved(model: SavedModel) -> FileEntry:
    """The entry that a loaded function came from, with its state as it is now."""
    signature, graph = model.signature, model.graph
    values = graph.inputs[len(signature.inputs) :]
    state = [
        FileState(spec.key, model.state[spec.key].detach().numpy(), value)
        for spec, value in zip(signature.state, values, strict=True)
    ]
    return FileEntry(
        graph,
        tuple(spec.default for spec in signature.inputs),
        tuple(state),
        signature.writes,
        signature.structure,
        tuple(spec.name for spec in signature.outputs),
        signature.arguments,
        tuple(spec.name for spec in signature.inputs),
    )


def _write(
    path: str | os.PathLike[str],
    entries: Mapping[str, Sequence[FileEntry]],
    names: Sequence[str],
    described: Mapping[str, Any],
    declared: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Compile entries for these targets and write the file; ``declared`` is state that it has whoever reads it."""
    known: dict[str, Any] = {}
    entries = {
        name: [entry._replace(graph=by_name(entry.graph, known)) for entry in group] for name, group in entries.items()
    }
    weights = {key: np.asarray(tensor.detach().cpu().numpy()) for key, tensor in declared.items()}
    saved: dict[str, SavedEntry] = {}
    for name, group in entries.items():
        for number, entry in enumerate(group):
            title = name if number == 0 else f"{name}-{number + 1}"
            saved[title] = _saved_entry(entry, name, names, weights, of="" if number == 0 else name)
    write_artifact(path, entries=saved, weights=weights, metadata=described)


def _saved_entry(entry: FileEntry, name: str, names: Sequence[str], weights: dict[str, Any], *, of: str) -> SavedEntry:
    """An entry compiled for these targets; its state and constants go into ``weights``."""
    compiled = {target: compile_entry(entry, Target.named(target).without_python()) for target in names}
    first = compiled[names[0]]
    calls = first.stages.schedule.calls
    if any(_types_of(other.stages.schedule.calls) != _types_of(calls) for other in compiled.values()):
        raise JitgraphError(f"{entry.graph.name} cannot be saved: its targets call custom ops in different orders")
    for call in calls:
        if "called_by_name" in call.op.traits:
            continue
        raise UnsupportedOp(
            f"jg.save: {call.op.name} is evaluated by Python, which a file cannot hold",
            location=call.location,
            hint="save what comes before and behind it, each as a function of its own, and call it between them",
        )
    signature = _signature(entry, first.signature, name).but_with(calls=tuple(map(_call, calls)))
    images = {target: executable.image for target, executable in compiled.items() if executable.target.sm is None}
    weights |= {state.key: state.array for state in entry.state}
    weights |= {CONSTANT + digest: constant.value for digest, constant in large_constants(entry.graph).items()}
    devices = []
    for target, executable in compiled.items():
        if executable.target.sm is not None:
            image, constants = device_image(target, executable, first.signature)
            devices.append(image)
            weights |= constants
    assumed = first.stages.schedule.constraints  # what the passes assumed beyond the recorded graph, too
    text = print_graph(replace(entry.graph, constraints=assumed), full=True)  # whatever later versions decompose
    return SavedEntry(signature, text, images, tuple(devices), of)


def _types_of(calls: Sequence[HostCall]) -> list[Any]:
    return [(call.op.name, dict(call.attrs), call.operands, call.results) for call in calls]


def _call(call: HostCall) -> loader.CustomCall:
    """A call of a custom op as a signature has it."""
    sides = (call.operands, call.results)
    operands, results = (
        tuple(loader.ValueSpec(f"{what}{i}", type.dtype.name, sizes_text(type.shape)) for i, type in enumerate(types))
        for what, types in zip(("in", "out"), sides, strict=True)
    )
    location = "" if call.location is None else str(call.location)
    return loader.CustomCall(str(call.attrs["name"]), operands, results, location)


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
    if not callable(function):
        raise JitgraphError(f"jg.save saves a function, not a {type(function).__name__}")
    return traced(function)


def _as_tuple(example_inputs: Any, right: str) -> tuple[Any, ...]:
    if example_inputs is None:
        raise JitgraphError(
            "jg.save records the function on example inputs\n  hint: jg.save(f, path, example_inputs=(x,))"
        )
    if isinstance(example_inputs, tuple | list):
        return tuple(example_inputs)
    raise JitgraphError(f"example_inputs holds the arguments in a tuple\n  hint: example_inputs={right}")


def compile_entry(entry: FileEntry, target: Target) -> Any:
    """An entry compiled for a target; JitgraphError where graphs are interpreted."""
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


def _signature(entry: FileEntry, compiled: loader.Signature, name: str) -> loader.Signature:
    """The compiled graph's signature with its inputs told apart into arguments and state."""
    count = len(entry.defaults)
    own = zip(compiled.inputs[:count], entry.input_names, entry.defaults, strict=True)
    inputs = tuple(spec.but_with(name=input_name, default=default) for spec, input_name, default in own)
    state = tuple(
        loader.StateSpec(spec.name, spec.dtype, spec.shape, key=saved_state.key)
        for spec, saved_state in zip(compiled.inputs[count:], entry.state, strict=True)
    )
    outputs = tuple(spec.but_with(name=name) for spec, name in zip(compiled.outputs, entry.names, strict=True))
    return compiled.but_with(
        inputs=inputs,
        outputs=outputs,
        state=state,
        writes=entry.writes,
        structure=entry.structure,
        name=name,
        arguments=entry.arguments,
    )
