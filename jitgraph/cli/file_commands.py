"""Commands that make or compare files: export, convert, diff, verify, loader. Each imports what it needs itself."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from jitgraph.cli import screen
from jitgraph.cli.failures import FAILS, USAGE, CommandError, reason_of
from jitgraph.cli.options import (
    AsJson,
    Cast,
    EntryName,
    Inputs,
    ModelFile,
    Seed,
    Sizes,
    Tolerance,
    targets_starting_with,
)
from jitgraph.runtime import imports

if TYPE_CHECKING:
    from jitgraph.conversion import ForeignModel
    from jitgraph.saved.comparison import ArrayDifference
    from jitgraph.saved.reading import SavedModel

_SPEC: Final = re.compile(r"(?:(?P<name>[A-Za-z_]\w*)=)?(?P<dtype>[a-z]+\d*)\[(?P<shape>[^\[\]]*)\]")

TargetList = Annotated[
    str,
    typer.Option(
        "--target",
        metavar="NAMES",
        help="What to compile for, with commas: x86-64-v3, x86-64-v4, sm_80 ..., cuda (for sm_80 and sm_90).",
        autocompletion=targets_starting_with,
        show_default=False,
    ),
]


def _written(paths: Sequence[Path], *, json: bool) -> int:
    """Tell what was written."""
    from jitgraph.tracing.report.quantities import bytes_text

    told = [{"path": str(path), "bytes": path.stat().st_size} for path in paths]
    if json:
        screen.as_json({"written": told})
    else:
        screen.table([(each["path"], bytes_text(int(str(each["bytes"])))) for each in told], right=(1,))
    return 0


# ----------------------------------------------------------------------
# export


def export(
    model: ModelFile,
    so: Annotated[
        Path | None,
        typer.Option(
            "--so", metavar="DIR", help="Write a shared library and its header: needs a C compiler here only."
        ),
    ] = None,
    onnx: Annotated[Path | None, typer.Option("--onnx", metavar="FILE", help="Write an ONNX model.")] = None,
    target: TargetList = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write a .jg file with code for --target."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", help="The library's name in C; that of the file otherwise.", show_default=False)
    ] = "",
    json: AsJson = False,
) -> int:
    """Write a model in another form: a shared library for C, ONNX, or a .jg file for other machines."""
    from jitgraph.cli.inputs import targets_of
    from jitgraph.saved.listing import specs_of
    from jitgraph.saved.reading import load
    from jitgraph.saved.writing import retarget
    from jitgraph.standalone.shared_object import write_shared_object

    targets = targets_of(target) if target else []
    if targets and so is None and output is None:
        raise CommandError("--target goes with -o FILE or --so DIR", USAGE)
    if so is None and onnx is None and output is None:
        raise CommandError("export needs --so DIR, --onnx FILE, or --target NAMES -o FILE", USAGE)
    if output is not None and not targets:
        raise CommandError("-o FILE is for the code of --target NAMES", USAGE)
    loaded = load(model)
    written: list[Path] = []
    with screen.progress("compiling"), tempfile.TemporaryDirectory() as scratch:
        source = model
        if targets:
            source = output if output is not None else Path(scratch) / model.name
            retarget(loaded, source, targets)
            written += [] if output is None else [output]
        if so is not None:
            written += write_shared_object(source, so, name or model.stem)
        if onnx is not None:
            module: Any = imports.module("jitgraph.onnx")
            module.export(loaded, onnx, example_inputs=tuple(specs_of(loaded)))
            written.append(onnx)
        return _written(written, json=json)


# ----------------------------------------------------------------------
# convert


def convert(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="An ONNX model, a TorchScript archive (.pt), or a program of torch.export (.pt2).",
            exists=True,
            dir_okay=False,
            show_default=False,
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="The .jg file; SOURCE with this ending otherwise.",
            show_default=False,
        ),
    ] = None,
    inputs: Annotated[
        list[str],
        typer.Option(
            "--input",
            "-i",
            metavar="[NAME=]DTYPE[SIZES]",
            help="An input's dtype and sizes, where the file does not say them; a name stays free. In order.",
            show_default=False,
        ),
    ] = [],  # noqa: B006 - typer reads it
    target: TargetList = "",
    json: AsJson = False,
) -> int:
    """Convert a model of PyTorch or ONNX to a .jg file; neither library is needed for PyTorch's."""
    from jitgraph.cli.inputs import targets_of
    from jitgraph.conversion import model_from
    from jitgraph.saved.writing import save

    path = output or source.with_suffix(".jg")
    targets = targets_of(target) if target else None
    with screen.progress("reading") as advance:
        foreign = model_from(source)
        advance(0.5, "compiling")
        specs = _example_specs(foreign, inputs)
        foreign.module.eval()
        save(foreign.module, path, example_inputs=specs, targets=targets, metadata={"converted from": foreign.kind})
    return _written([path], json=json)


def _example_specs(foreign: ForeignModel, texts: Sequence[str]) -> tuple[Any, ...]:
    """A spec for each argument: those of the file, replaced by those of ``--input``."""
    named: dict[str, Any] = {}
    unnamed: list[Any] = []
    for text in texts:
        name, spec = _spec(text)
        if name:
            named[name] = spec
        else:
            unnamed.append(spec)
    known = dict(foreign.inputs) if foreign.inputs else dict.fromkeys(_parameters(foreign.module))
    if known and (unknown := [name for name in named if name not in known]):
        raise CommandError(f"the model has no input {unknown[0]!r}: {', '.join(known)}", USAGE)
    merged = {**known, **named}
    for name in [name for name in merged if name not in named][: len(unnamed)]:
        merged[name] = unnamed.pop(0)
    values = [*merged.values(), *unnamed]
    while values and values[-1] is None and not foreign.inputs and any(value is not None for value in values):
        values.pop()  # parameters of a TorchScript method that have defaults
    if not values or any(value is None for value in values):
        missing = [name for name, value in merged.items() if value is None] or ["x"]
        raise CommandError(
            f"{foreign.kind} does not say what {missing[0]} is: --input {missing[0]}=float32[batch,4], for example",
            USAGE,
        )
    return tuple(values)


def _spec(text: str) -> tuple[str, Any]:
    from jitgraph.errors import LoadError
    from jitgraph.runtime.loader import dtype_named
    from jitgraph.tracing.call.arguments import TensorSpec

    match = _SPEC.fullmatch(text.replace(" ", ""))
    if match is None:
        raise CommandError(f"--input {text!r} is not like x=float32[batch,3,224,224]", USAGE)
    sizes = [int(size) if size.isdecimal() else size for size in match["shape"].split(",") if size]
    if bad := [size for size in sizes if isinstance(size, str) and not size.isidentifier()]:
        raise CommandError(f"--input {text!r}: {bad[0]!r} is neither a number nor a name", USAGE)
    try:
        return match["name"] or "", TensorSpec(tuple(sizes), dtype_named(match["dtype"]))
    except LoadError as error:
        raise CommandError(f"--input {text!r}: {error}", USAGE) from None


def _parameters(module: Any) -> list[str]:
    """The names of what a module's forward takes, as far as they are known."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


# ----------------------------------------------------------------------
# diff


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", exists=True, dir_okay=False, show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="B", exists=True, dir_okay=False, show_default=False)],
    graph: Annotated[bool, typer.Option("--graph/--no-graph", help="Compare the graphs.")] = True,
    weights: Annotated[bool, typer.Option("--weights/--no-weights", help="Compare the weights.")] = True,
    outputs: Annotated[bool, typer.Option("--outputs/--no-outputs", help="Run both, and compare results.")] = True,
    inputs: Inputs = [],  # noqa: B006
    seed: Seed = 0,
    size: Sizes = [],  # noqa: B006
    cast: Cast = False,
    tolerance: Tolerance = 0.0,
    entry: EntryName = "",
    json: AsJson = False,
) -> int:
    """Compare two models: what they take, graphs, weights, and results for the same inputs.

    The exit code is 1 where they differ.
    """
    from jitgraph.cli.inputs import arguments, model_of
    from jitgraph.saved.comparison import array_differences, graph_difference, interface_difference, weight_differences

    both = model_of(a, entry), model_of(b, entry)
    interface = interface_difference(*both)
    graphs = graph_difference(*both, (str(a), str(b))) if graph else []
    states = [each for each in weight_differences(*both) if not each.within(tolerance)] if weights else []
    same_inputs = both[0].inputs == both[1].inputs
    results: list[ArrayDifference] = []
    if outputs and same_inputs:
        values = arguments(both[0].signature, inputs, sizes=size, fill=True, seed=seed, cast=cast)
        with screen.progress("running both"):
            results = array_differences(*(_results(model, values) for model in both))
    wrong = [each for each in results if not each.within(tolerance)]
    differs = bool(interface or graphs or states or wrong or (outputs and not same_inputs))
    if json:
        compared = {"interface": interface, "graph": graphs, "weights": states, "outputs": results}
        screen.as_json({**compared, "differs": differs})
        return FAILS if differs else 0
    for text in interface:
        screen.line(text, screen.BAD)
    for text in graphs:
        screen.diff_line(text)
    if outputs and not same_inputs:
        screen.line("the inputs differ, so the outputs are not compared", screen.FAINT)
    rows = [(f"weight {each.name}", each.reason) for each in states]
    rows += [(f"output {each.name}", each.reason or "the same bits") for each in results]
    if rows:
        screen.table(rows, styles=(screen.NAME,))
    if not differs:
        screen.line("no difference", screen.GOOD)
    return FAILS if differs else 0


def _results(model: SavedModel, values: Sequence[Any]) -> dict[str, Any]:
    from jitgraph.saved.arguments import named_results

    return named_results(model.signature, model.run_flat(*values))


# ----------------------------------------------------------------------
# verify and loader


def verify(
    model: ModelFile,
    inputs: Inputs = [],  # noqa: B006
    seed: Seed = 0,
    size: Sizes = [],  # noqa: B006
    cast: Cast = False,
    tolerance: Tolerance = 0.0,
    native: Annotated[
        bool, typer.Option("--native/--no-native", help="Whether to run the native code in the file, which you trust.")
    ] = True,
    json: AsJson = False,
) -> int:
    """Check hashes and graph, and that eager, compiled and both loaders give the same bits.

    The exit code is 1 where they do not.
    """
    from jitgraph.cli.inputs import arguments
    from jitgraph.standalone.verification import DIFFERS, RIGHT, verify_file

    steps = []
    with screen.progress("verifying", total=7) as advance:
        for step in verify_file(
            model,
            lambda signature: arguments(signature, inputs, sizes=size, fill=True, seed=seed, cast=cast),
            tolerance=tolerance,
            is_native=native,
        ):
            steps.append(step)
            advance(len(steps), f"after {step.name}")
    right = all(step.outcome != DIFFERS for step in steps)
    if json:
        screen.as_json({"right": right, "steps": steps})
    else:
        styles = {RIGHT: screen.GOOD, DIFFERS: screen.BAD}
        rows = [
            (step.name, screen.cell(step.outcome, styles.get(step.outcome, screen.FAINT)), screen.one_line(step.text))
            for step in steps
        ]
        screen.table(rows, styles=(screen.NAME,))
    return 0 if right else FAILS


def loader(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder, which is made.", show_default=False)],
    json: AsJson = False,
) -> int:
    """Write loader.py, loader.c and loader.h, which run .jg files where jitgraph is not installed."""
    from jitgraph.standalone import write_loaders

    try:
        paths = write_loaders(folder)
    except OSError as error:
        raise CommandError(reason_of(error, folder)) from None
    if json:
        return _written(paths, json=True)
    for path in paths:
        screen.raw(str(path))
    return 0
