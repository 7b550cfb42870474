"""What the texts of options mean: arrays for the inputs of a model, sizes, targets, a file to write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from jitgraph.cli.failures import USAGE, CommandError, reason_of
from jitgraph.ir.target import Target
from jitgraph.runtime.atomic_file import replacing
from jitgraph.runtime.loader import Signature
from jitgraph.saved.arguments import Random, Wording, arguments_for
from jitgraph.saved.array_files import loose_array, parsed, read_arrays
from jitgraph.saved.reading import SavedModel, load


def sizes_of(texts: Sequence[str]) -> dict[str, int]:
    """The values of ``--size``."""
    sizes = {}
    for text in texts:
        name, _, value = text.partition("=")
        if not name.isidentifier() or not value.isdecimal():
            raise CommandError(f"--size {text!r} is not a name and a number, such as batch=8", USAGE)
        if name in sizes:
            raise CommandError(f"the size {name} is given twice", USAGE)
        sizes[name] = int(value)
    return sizes


def inputs_of(texts: Sequence[str], signature: Signature) -> dict[str, Any]:
    """What ``--input`` gives, by the names of inputs; a file without names is for the first input that has none yet."""
    names = [spec.name for spec in signature.inputs]
    provided: dict[str, Any] = {}
    unnamed: list[tuple[str, Any]] = []
    for text in texts:
        name, equals, what = text.partition("=")
        is_name = all(part.isalnum() or part.isidentifier() for part in name.split("."))  # batch.image, xs.0
        if not equals or not (is_name or name in names) or Path(text).is_file():
            name, what = "", text
        arrays = _read(what)
        if name and len(arrays) > 1:
            arrays = {key: value for key, value in arrays.items() if key == name}
        for key, value in arrays.items():
            target = name or key
            if not target:
                unnamed.append((what, value))
            elif target in provided:
                raise CommandError(f"the input {target} is given twice", USAGE)
            else:
                provided[target] = value
        if name and name not in provided:
            raise CommandError(f"{what} has several arrays and none called {name}", USAGE)
    free = [name for name in names if name not in provided]
    if len(unnamed) > len(free):
        raise CommandError(f"{unnamed[len(free)][0]} is for no input: {', '.join(names) or 'there are none'}", USAGE)
    return provided | {name: value for name, (_, value) in zip(free, unnamed, strict=False)}


def _read(what: str) -> dict[str, Any]:
    """The arrays that one WHAT means, by name; "" where it has none."""
    if not what or not Path(what).exists():
        limits = Random.parsed(what)
        if limits is not None:
            return {"": limits}
        try:
            value = parsed(what)
        except (ValueError, RecursionError):
            raise CommandError(f"{what!r} is neither a file, nor a number or list, nor random", USAGE) from None
        if not isinstance(value, int | float | list):
            raise CommandError(f"{what!r} is no number or list of numbers", USAGE)
        return {"": loose_array(value, what[:60])}
    return read_arrays(what)


def arguments(
    signature: Signature,
    inputs: Sequence[str],
    *,
    sizes: Sequence[str] = (),
    fill: bool = False,
    seed: int = 0,
    cast: bool = False,
) -> list[Any]:
    """An array for each input of a signature, by the options of a command."""
    provided = inputs_of(inputs, signature)
    return list(
        arguments_for(signature, provided, sizes=sizes_of(sizes), fill=fill, seed=seed, cast=cast, wording=_IN_OPTIONS)
    )


_IN_OPTIONS: Final = Wording(
    "--input {name}=FILE, --input {name}=random, or --random for all", "--size NAME=NUMBER", "--cast"
)


def model_of(path: Path, entry: str, device: str = "cpu") -> SavedModel:
    """The function of a file that ``--entry`` names, or its main one; CommandError where there is none."""
    loaded = load(path, device=device)
    every = [each for group in loaded.entries.values() for each in group.specialisations]
    for each in every:
        if each.name == (entry or loaded.name):
            return each
    names = ", ".join(each.name for each in every)
    raise CommandError(f"{path} has no entry {entry!r}; --entry is one of {names}", USAGE)


def targets_of(text: str) -> list[str]:
    """The names in a list with commas."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = (*Target.names(), "cuda")
    for name in names:
        if name not in known:
            raise CommandError(f"there is no target {name!r}: one of {', '.join(known)}", USAGE)
    if not names:
        raise CommandError("--target names no target", USAGE)
    return names


@contextmanager
def written(path: Path) -> Iterator[BinaryIO]:
    """A file to write, whole or not at all; CommandError that says why it cannot be."""
    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise CommandError(reason_of(error, path)) from None
