"""Commands that run or show one model: run, info, show, bench. Each imports what it needs itself."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from jitgraph.cli import screen
from jitgraph.cli.failures import USAGE, CommandError
from jitgraph.cli.options import (
    AsJson,
    Cast,
    DeviceName,
    EntryName,
    Inputs,
    ModelFile,
    RandomInputs,
    Seed,
    Sizes,
    targets_starting_with,
)

if TYPE_CHECKING:
    from jitgraph.runtime import loader
    from jitgraph.saved.reading import SavedModel

_SHOWN_WEIGHTS: Final = 12

# ----------------------------------------------------------------------
# run


def _runner(model: Path, entry: str, device: str, *, native: bool) -> tuple[loader.Signature, Callable[..., Any]]:
    """The signature of an entry, and what runs it."""
    from jitgraph.cli.inputs import model_of
    from jitgraph.runtime import loader

    if not native:
        loaded = model_of(model, entry, device)
        return loaded.signature, loaded.run_flat
    file = loader.load(model, device=device)
    name = entry or file.main_entry()
    if name not in file.native_entries:
        raise CommandError(f"{model} has no entry {entry!r}; --entry is one of {', '.join(file.native_entries)}", USAGE)
    return file.entry_named(name).signature, lambda *args: file.run_flat(name, *args)


def run(
    model: ModelFile,
    inputs: Inputs = [],  # noqa: B006 - typer reads it
    output: Annotated[
        list[str],
        typer.Option(
            "--output",
            "-o",
            metavar="[NAME=]FILE",
            help="Write results to a .npy, .npz, .safetensors or .json file instead of printing them.",
            show_default=False,
        ),
    ] = [],  # noqa: B006
    random: RandomInputs = False,
    seed: Seed = 0,
    size: Sizes = [],  # noqa: B006
    cast: Cast = False,
    entry: EntryName = "",
    device: DeviceName = "cpu",
    native: Annotated[
        bool, typer.Option("--native", help="Run the native code in the file, which you trust, and compile nothing.")
    ] = False,
    json: AsJson = False,
) -> int:
    """Run a model on arrays, and print or write its results."""
    from jitgraph.cli.inputs import arguments
    from jitgraph.saved.arguments import named_results
    from jitgraph.saved.array_files import plain

    signature, call = _runner(model, entry, device, native=native)
    values = arguments(signature, inputs, sizes=size, fill=random, seed=seed, cast=cast)
    begin = time.perf_counter()
    with screen.progress("running"):
        results = named_results(signature, call(*values))
    seconds = time.perf_counter() - begin
    for text in output:
        _write(text, results)
    if json:
        described = {name: {"dtype": a.dtype.name, "shape": list(a.shape)} for name, a in results.items()}
        if not output:
            described = {name: {**told, "data": plain(results[name])} for name, told in described.items()}
        screen.as_json({"outputs": described, "seconds": seconds})
    elif not output:
        rows = [(name, f"{array.dtype.name}{list(array.shape)}", _preview(array)) for name, array in results.items()]
        screen.table(rows, ("output", "type", "values"), styles=(screen.NAME, screen.FAINT))
    return 0


def _write(text: str, results: Mapping[str, Any]) -> None:
    """Write all results, or the one that ``text`` names, to a file."""
    name, equals, file = text.partition("=")
    if equals and name in results:
        _write_file(Path(file), {name: results[name]})
        return
    _write_file(Path(text), results)


def _write_file(path: Path, arrays: Mapping[str, Any]) -> None:
    from jitgraph.saved.array_files import write_arrays

    try:
        write_arrays(path, arrays)
    except ValueError as error:
        names = ", ".join(arrays)
        raise CommandError(f"--output {error}; the outputs are {names}: --output NAME=FILE takes one", USAGE) from None


def _preview(array: Any) -> str:
    """The elements, or the first and last of many, in a few lines."""
    import numpy as np

    return np.array2string(array, threshold=24, edgeitems=2, precision=5, separator=", ", max_line_width=48)


# ----------------------------------------------------------------------
# info


def info(
    model: ModelFile,
    weights: Annotated[bool, typer.Option("--weights", help="List all weights.")] = False,
    json: AsJson = False,
) -> int:
    """Say what is in a file: entries, inputs, outputs, weights, targets, metadata."""
    from jitgraph.saved.description import describe
    from jitgraph.tracing.report.quantities import bytes_text

    data = describe(model)
    if json:
        screen.as_json(data)
        return 0
    screen.line(f"{data['path']}: {bytes_text(data['bytes'])}, format {data['version']}, hashes right")
    for name, entry in data["entries"].items():
        screen.heading(f"\n{name}")
        rows = [("inputs", _specs(entry["inputs"])), ("outputs", _specs(entry["outputs"]))]
        if entry["sizes"]:
            rows.append(("sizes", ", ".join([*entry["sizes"], *entry["constraints"]])))
        if entry["statics"]:
            rows.append(("for", ", ".join(f"{key} = {value!r}" for key, value in entry["statics"].items())))
        if entry["writes"]:
            rows.append(("writes", ", ".join(entry["writes"])))
        rows.append(("runs on", ", ".join([*entry["targets"], *entry["gpus"]]) or "nothing without jitgraph"))
        ops = ", ".join(f"{op} {count}" for op, count in entry["ops"].items())
        rows.append(("ops", f"{entry['nodes']}: {ops}" if ops else "none"))
        screen.table(rows, styles=(screen.NAME,))
    listed = data["weights"]
    screen.heading(f"\nweights: {data['parameters']} in {_tensors(listed)}, {bytes_text(data['weight_bytes'])}")
    shown = listed if weights else listed[:_SHOWN_WEIGHTS]
    if shown:
        listing_rows = [(w["key"], f"{w['dtype']}{w['shape']}", bytes_text(w["bytes"])) for w in shown]
        screen.table(listing_rows, styles=(screen.NAME, screen.FAINT), right=(2,))
    if len(shown) < len(listed):
        screen.line(f"... and {len(listed) - len(shown)} more: --weights lists them", screen.FAINT)
    if data["metadata"]:
        screen.heading("\nmetadata")
        screen.table([(key, str(value)) for key, value in data["metadata"].items()], styles=(screen.NAME,))
    return 0


def _tensors(listed: Sequence[Any]) -> str:
    return "1 tensor" if len(listed) == 1 else f"{len(listed)} tensors"


def _specs(specs: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for spec in specs:
        default = f" = {spec['default']}" if "default" in spec else ""
        lines.append(f"{spec['name']}: {spec['dtype']}[{', '.join(map(str, spec['shape']))}]{default}")
    return "\n".join(lines) or "none"


# ----------------------------------------------------------------------
# show


def _view(text: str) -> Any:
    return typer.Option(help=text, rich_help_panel="What to show")


def show(
    model: ModelFile,
    graph: Annotated[bool, _view("The graph as the file has it (the default).")] = False,
    optimized: Annotated[bool, _view("The graph after the passes.")] = False,
    fused: Annotated[bool, _view("The same, with what becomes one kernel in a node.")] = False,
    kernels: Annotated[bool, _view("The kernels and the order in which they run.")] = False,
    memory: Annotated[bool, _view("Buffers, and where temporaries lie.")] = False,
    llvm: Annotated[bool, _view("The LLVM IR.")] = False,
    asm: Annotated[bool, _view("The assembly.")] = False,
    ptx: Annotated[bool, _view("The PTX for a GPU; none is needed.")] = False,
    dot: Annotated[bool, _view("The graph as DOT text, for Graphviz.")] = False,
    html: Annotated[bool, _view("A page with graphs, kernels and memory; writes MODEL.html without -o.")] = False,
    target: Annotated[
        str,
        typer.Option(
            "--target",
            metavar="NAME",
            help="What to compile for, such as x86-64-v4 or sm_90; this machine otherwise.",
            autocompletion=targets_starting_with,
            show_default=False,
        ),
    ] = "",
    size: Sizes = [],  # noqa: B006
    entry: EntryName = "",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write to a file.", show_default=False)
    ] = None,
    json: AsJson = False,
) -> int:
    """Show a model at the stages of the compiler; nothing of it is run."""
    from jitgraph.cli.inputs import model_of, sizes_of, targets_of, written
    from jitgraph.saved.listing import VIEWS, listing

    chosen = zip(VIEWS, (graph, optimized, fused, kernels, memory, llvm, asm, ptx, dot, html), strict=True)
    views = [name for name, is_chosen in chosen if is_chosen] or ["graph"]
    name = targets_of(target)[0] if target else None
    loaded = model_of(model, entry)
    with screen.progress("compiling") as advance:
        texts = {}
        for number, view in enumerate(views):
            texts[view] = listing(loaded, view, name, sizes_of(size))
            advance((number + 1) / len(views), view)
    if json:
        screen.as_json(texts)
        return 0
    if output is None and views == ["html"]:
        output = model.with_suffix(".html")
        screen.line(str(output))
    if output is not None:
        with written(output) as file:
            file.write("\n".join(texts.values()).encode())
        return 0
    for view, text in texts.items():
        if len(texts) > 1:
            screen.heading(f"# {view}")
        screen.raw(text)
    return 0


# ----------------------------------------------------------------------
# bench


def bench(
    model: ModelFile,
    inputs: Inputs = [],  # noqa: B006
    seed: Seed = 0,
    size: Sizes = [],  # noqa: B006
    cast: Cast = False,
    seconds: Annotated[float, typer.Option("--seconds", min=0.0, max=3600.0, help="How long to measure each.")] = 1.0,
    native: Annotated[
        bool, typer.Option("--native/--no-native", help="Whether to time the native code in the file, too.")
    ] = True,
    entry: EntryName = "",
    device: DeviceName = "cpu",
    json: AsJson = False,
) -> int:
    """Time a model: to load it, the first call, later calls; random arrays for inputs that are not given."""
    from jitgraph.cli.inputs import arguments, model_of
    from jitgraph.runtime import loader
    from jitgraph.saved.timing import time_calls
    from jitgraph.tracing.report.cost import cost

    rows: dict[str, dict[str, Any]] = {}
    reference = model_of(model, entry)
    values = arguments(reference.signature, inputs, sizes=size, fill=True, seed=seed, cast=cast)
    runners = {"compiled here": False} | ({"native code of the file": True} if native else {})
    sizes = _sizes_of_call(reference, values)
    flops = cost(reference.graph, sizes).flops
    with screen.progress("timing", total=len(runners)) as advance:
        for number, (title, is_native) in enumerate(runners.items()):
            begin = time.perf_counter()
            _, call = _runner(model, entry, device, native=is_native)
            loading = time.perf_counter() - begin
            prepared = _prepared(values, device, is_native=is_native)
            wait = _waiter(device)

            def once(call: Any = call, prepared: Any = prepared, wait: Any = wait) -> None:
                call(*prepared)
                wait()

            timing = time_calls(once, seconds, lambda share, n=number, t=title: advance(n + share, t))  # type: ignore[misc]
            rows[title] = {
                "load": loading,
                **timing._asdict(),
                "gflops": flops / timing.median / 1e9 if timing.median else 0.0,
            }
    if json:
        shapes = {spec.name: list(a.shape) for spec, a in zip(reference.inputs, values, strict=True)}
        screen.as_json({"inputs": shapes, "flops": flops, "threads": loader.process_runtime.threads, "seconds": rows})
        return 0
    told = ", ".join(
        f"{spec.name} {a.dtype.name}{list(a.shape)}" for spec, a in zip(reference.inputs, values, strict=True)
    )
    screen.line(f"{told}; {flops} flops; {loader.process_runtime.threads} threads", screen.FAINT)
    columns = ("", "load", "first", "least", "median", "9 of 10", "GFLOP/s")
    kinds = ("load", "first", "least", "median", "ninth_decile")
    shown = [(title, *(_time(row[kind]) for kind in kinds), f"{row['gflops']:.3g}") for title, row in rows.items()]
    screen.table(shown, columns, styles=(screen.NAME,), right=(1, 2, 3, 4, 5, 6))
    return 0


def _sizes_of_call(model: SavedModel, values: Sequence[Any]) -> dict[str, int]:
    """The named sizes of a call, by the shapes of its arguments."""
    sizes: dict[str, int] = {}
    for spec, array in zip(model.inputs, values, strict=True):
        for size, extent in zip(spec.shape, array.shape, strict=False):
            if isinstance(size, str) and size.isidentifier():
                sizes.setdefault(size, extent)
    return {name: sizes.get(name, 1) for name in model.signature.dims}


def _prepared(values: Sequence[Any], device: str, *, is_native: bool) -> list[Any]:
    """The arguments where the model runs, so that copies to a GPU are not timed; loaders take arrays of the host."""
    if is_native or device == "cpu":
        return list(values)
    from jitgraph.tensor.functions.creation import asarray

    return [asarray(value, device=device) if value.ndim else value for value in values]


def _waiter(device: str) -> Callable[[], None]:
    """What waits for a device."""
    if device == "cpu":
        return lambda: None
    from jitgraph import cuda

    return lambda: cuda.synchronize(device)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"
