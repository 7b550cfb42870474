"""Whether a ``.jg`` file is sound, and whether all that runs it gives what the eager run of its graph gives."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from numpy.typing import NDArray

from jitgraph.eager import replay
from jitgraph.eager.tape import EagerValue
from jitgraph.errors import JitgraphError, LoadError
from jitgraph.ir import context
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from jitgraph.runtime.c_compiler import c_compiler
from jitgraph.runtime.cuda.devices import devices
from jitgraph.saved.arguments import array_of, named_results
from jitgraph.saved.comparison import ArrayDifference, array_differences
from jitgraph.saved.reading import SavedModel, load, opened
from jitgraph.standalone.c_library import CModel, compiled_loader
from jitgraph.tensor import wrap

RIGHT: Final = "right"
DIFFERS: Final = "differs"
SKIPPED: Final = "skipped"


class VerificationStep(NamedTuple):
    """One step of a verification: what ran, how it went ("right", "differs" or "skipped"), and why."""

    name: str
    outcome: str
    text: str
    differences: tuple[ArrayDifference, ...] = ()


Arrays = Mapping[str, NDArray[Any]]
Values = Sequence[NDArray[Any]]


def verify_file(
    path: str | os.PathLike[str],
    arguments: Callable[[loader.Signature], Values],
    *,
    tolerance: float = 0.0,
    is_native: bool = True,
) -> Iterator[VerificationStep]:
    """Check the hashes and the graph, run the graph eagerly, and compare all else that runs it with that.

    Results and written state are compared by bits; ``tolerance`` allows differences relative to the greatest value.
    ``arguments`` gives the arrays for a signature. With ``is_native`` the file's own native code runs, by the loaders
    in Python and C: only for files whose origin is trusted. Where a file is not sound, a step says so.
    """
    try:
        with opened(path) as artifact:
            listed = artifact.manifest["entries"]
            codes = {
                name: (dict(listed[name].get("native", {})), list(listed[name].get("cuda", {}))) for name in listed
            }
            size = sum(member.size for member in artifact.members.values())
    except LoadError as error:
        yield VerificationStep("hashes", DIFFERS, str(error))
        return
    yield VerificationStep("hashes", RIGHT, f"{len(artifact.members)} members, {size} bytes")
    for name, (native, gpus) in codes.items():
        title = f"{name}: " if len(codes) > 1 else ""
        for step in _verify_entry(path, name, arguments, native, gpus, tolerance=tolerance, is_native=is_native):
            yield step._replace(name=title + step.name)


def _verify_entry(
    path: str | os.PathLike[str],
    entry: str,
    arguments: Callable[[loader.Signature], Values],
    native: Mapping[str, Any],
    gpus: Sequence[str],
    *,
    tolerance: float,
    is_native: bool,
) -> Iterator[VerificationStep]:
    """The steps for one entry of a file."""
    try:
        model = load(path, entry=entry)
    except LoadError as error:
        yield VerificationStep("graph", DIFFERS, str(error))
        return
    yield VerificationStep("graph", RIGHT, f"{len(model.graph.nodes)} nodes are well typed and fit the signature")
    values = list(arguments(model.signature))
    expected = _eagerly(model, values)
    yield VerificationStep("eager", RIGHT, f"{len(expected)} results, by which the others go")

    def compared(name: str, run: Callable[[], tuple[str, Arrays]], wanted: Arrays = expected) -> VerificationStep:
        try:
            title, actual = run()
        except JitgraphError as error:
            return VerificationStep(name, DIFFERS, str(error))
        return _step(name, title, wanted, actual, tolerance)

    def compiled() -> tuple[str, Arrays]:
        again = load(path, entry=entry)
        return f"compiled here for {Target.host().name}", _compiled(again, values)

    yield compared("compiled", compiled)
    if not is_native:
        yield VerificationStep("loaders", SKIPPED, "they would run the native code of the file")
        return
    runnable = [level for level in loader.cpu_levels() if level in native]
    if not runnable:
        yield VerificationStep(
            "loader.py", SKIPPED, f"code for {', '.join(native) or 'no processor'}, none of which runs here"
        )
    for level in runnable:
        yield compared("loader.py", functools.partial(_by_python, path, entry, values, level=level))
    if not runnable:
        yield VerificationStep("loader.c", SKIPPED, "no code of the entry runs here")
    elif c_compiler() is None:
        yield VerificationStep("loader.c", SKIPPED, "there is no C compiler: cc, gcc or clang")
    else:
        results = {spec.name: expected[spec.name] for spec in model.signature.results}
        yield compared("loader.c", lambda: _by_c(path, entry, model.signature, values), results)
    if gpus and devices().count:
        yield compared("GPU", lambda: _by_python(path, entry, values, device="cuda:0"))
    elif gpus:
        yield VerificationStep("GPU", SKIPPED, f"code for {', '.join(gpus)}, and no GPU here")


def _eagerly(model: SavedModel, values: Values) -> dict[str, NDArray[Any]]:
    """Results and written state of the graph, each op applied eagerly."""
    signature = model.signature
    state = [model.state[spec.key].detach().numpy() for spec in signature.state]
    with context.using(grad_enabled=False):
        outputs = [array_of(wrap(value)) for value in replay.run(model.graph, list(map(EagerValue, (*values, *state))))]
    results = {signature.outputs[number].name: outputs[number] for number in signature.shown}
    return results | {f"state {signature.state[at].key}": outputs[number] for number, at in signature.writes}


def _compiled(model: SavedModel, values: Values) -> dict[str, NDArray[Any]]:
    """Results and written state of a call of a loaded function."""
    results = named_results(model.signature, model.run_flat(*values))
    written = [model.signature.state[state].key for _, state in model.signature.writes]
    return results | {f"state {key}": array_of(model.state[key]) for key in written}


def _by_python(
    path: Any, entry: str, values: Values, *, level: str | None = None, device: str = "cpu"
) -> tuple[str, Arrays]:
    model = loader.load(path, level=level, device=device)
    native = model.entry_named(entry)
    signature = native.signature
    results = named_results(signature, model.run_flat(entry, *values))
    keys = [signature.state[state].key for _, state in signature.writes]
    title = level or f"on {device}"
    return title, results | {f"state {key}": array_of(model.state[key]) for key in keys}


def _by_c(path: Any, entry: str, signature: loader.Signature, values: Values) -> tuple[str, Arrays]:
    """Results of ``loader.c``, which is compiled for it."""
    with tempfile.TemporaryDirectory() as folder:
        model = CModel(compiled_loader(Path(folder)), path, entry=entry)
        outputs = model(*values)
        title = model.target
        model.close()
    return title, {spec.name: output for spec, output in zip(signature.results, outputs, strict=True)}


def _step(name: str, title: str, expected: Arrays, actual: Arrays, tolerance: float) -> VerificationStep:
    differences = [each for each in array_differences(expected, actual) if each.reason]
    wrong = [each for each in differences if not each.within(tolerance)]
    if wrong:
        return VerificationStep(name, DIFFERS, f"{title}: {wrong[0].name}: {wrong[0].reason}", tuple(wrong))
    if differences:
        most = max(each.relative for each in differences)
        return VerificationStep(name, RIGHT, f"{title}, within {most:.1g} of the greatest value", tuple(differences))
    return VerificationStep(name, RIGHT, f"{title}, the same bits")
