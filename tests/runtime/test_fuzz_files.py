"""Mutated files give every reader a result, a LoadError, or an error of jitgraph at the call: nothing else."""

from __future__ import annotations

import shutil

import pytest

from tests.fuzz.campaign import READERS, campaign, table
from tests.fuzz.mutations import MUTATIONS

FILES = 150


@pytest.mark.skipif(shutil.which("gcc") is None, reason="gcc is needed to compile loader.c")
def test_mutated_files_are_refused_or_run() -> None:
    result = campaign(FILES, seed=0)
    print("\n".join(table(result)))
    assert not result.failures, "\n".join(f"{f.number} {f.reader} {f.mutation}: {f.answer}" for f in result.failures)
    for reader in READERS:
        counts = {key[1:]: count for key, count in result.counts.items() if key[0] == reader}
        assert sum(counts.values()) == FILES
        assert {mutation for mutation, _ in counts} == {mutation.__name__ for mutation in MUTATIONS}
        # The campaign sees something only where files of each kind come: refused, refused at the call, and run.
        for outcome in ("refused", "refused at the call", "ran"):
            assert sum(count for (_, actual), count in counts.items() if actual == outcome) >= 5, (reader, outcome)
