"""Many mutants through every reader, with counts by reader, mutation and outcome."""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from jitgraph.standalone import write_loaders

from .models import save_all
from .mutations import mutant
from .readers import HERE, Answer, Reader, compiled, driver, python

READERS: Final = ("jg.load", "loader.py", "loader.c")
_SIZES: Final = (0, 1, 2, 3, 4, 5, 8, 11)


class Failure(NamedTuple):
    """A file that a reader did not take as it should."""

    reader: str
    number: int
    mutation: str
    answer: Answer


class Result(NamedTuple):
    counts: Counter[tuple[str, str, str]]  # of (reader, mutation, outcome)
    failures: list[Failure]


def rounds_of(seed: int, number: int) -> list[dict[str, int]]:
    """The sizes at which a mutant is called: all alike, and each its own."""
    rng = random.Random(f"sizes {seed}/{number}")
    names = ("n", "m", "h", "w", "batch")
    return [{"": 8}, {"": rng.choice(_SIZES)}, {"": rng.choice(_SIZES), **{name: rng.choice(_SIZES) for name in names}}]


def campaign(
    files: int,
    seed: int,
    *,
    first: int = 0,
    readers: Sequence[str] = READERS,
    keep: Path | None = None,
    only: Sequence[str] | None = None,
    progress: Callable[[int, Result], None] = lambda done, result: None,
) -> Result:
    """``files`` mutants through ``readers``; those that fail are kept in ``keep``, by number and reader."""
    result = Result(Counter(), [])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        models = save_all(folder)
        sound = [str(folder / f"{model}.jg") for model in models]
        alone = folder / "alone"
        write_loaders(alone)
        library = driver(folder)
        commands = {
            "jg.load": python(str(HERE / "graph_reader.py")),
            "loader.py": python("-I", str(HERE / "reader.py"), str(alone), library, *sound),
        }
        if "loader.c" in readers:
            commands["loader.c"] = [compiled(alone, library)]
        actual = {reader: Reader(reader, commands[reader]) for reader in (*readers, *{"loader.py"} - {*readers})}
        path = folder / "mutant.jg"
        for number in range(first, first + files):
            changed = mutant(seed, number, models, only)
            path.write_bytes(changed.data)
            rounds = rounds_of(seed, number)
            task = json.dumps({"path": str(path), "sizes": rounds})
            if "jg.load" in readers:
                actual["jg.load"].send(task)
            actual["loader.py"].send(task)
            answers = {"loader.py": actual["loader.py"].answer()}
            if "loader.c" in readers:  # it calls what loader.py calls
                call = int(answers["loader.py"].called)
                actual["loader.c"].send(" ".join(map(str, (path, call, *(sizes[""] for sizes in rounds)))))
                answers["loader.c"] = actual["loader.c"].answer()
            if "jg.load" in readers:
                answers["jg.load"] = actual["jg.load"].answer()
            for reader in readers:
                answer = answers[reader]
                result.counts[reader, changed.mutation, answer.outcome] += 1
                if answer.failed:
                    result.failures.append(Failure(reader, number, changed.mutation, answer))
                    if keep is not None:
                        keep.mkdir(parents=True, exist_ok=True)
                        shutil.copy(path, keep / f"{number}.{reader}.jg")
            progress(number - first + 1, result)
        for reader in readers:
            if complaint := actual[reader].close():
                result.failures.append(Failure(reader, -1, "at its end", Answer("FAILED: it complained", complaint)))
        actual["loader.py"].close()
    return result


def table(result: Result) -> list[str]:
    """The counts as lines."""
    lines = []
    for reader in dict.fromkeys(key[0] for key in result.counts):
        outcomes = sorted({key[2] for key in result.counts if key[0] == reader})
        lines.append(f"{reader}: " + ", ".join(
            f"{sum(n for k, n in result.counts.items() if k[0] == reader and k[2] == word)} {word}" for word in outcomes
        ))  # fmt: skip
        for mutation in sorted({key[1] for key in result.counts if key[0] == reader}):
            actual = {word: result.counts[reader, mutation, word] for word in outcomes}
            lines.append(f"  {mutation:18}" + "  ".join(f"{word} {n}" for word, n in actual.items() if n))
    return lines


def printer(files: int) -> Callable[[int, Result], None]:
    """Progress every ten seconds, and every failure as it comes."""
    start = last = time.monotonic()
    shown = 0

    def show(done: int, result: Result) -> None:
        nonlocal last, shown
        for failure in result.failures[shown:]:
            print(f"{failure.number} {failure.reader} {failure.mutation}: {failure.answer.outcome}", flush=True)
            print("    " + failure.answer.detail.strip().replace("\n", "\n    ")[-1500:], flush=True)
        shown = len(result.failures)
        if time.monotonic() - last > 10 or done == files:
            last = time.monotonic()
            print(f"{done} of {files} files, {shown} failures, {last - start:.0f} s", flush=True)

    return show
