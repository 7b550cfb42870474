"""Options that several commands have, of which help and completion need nothing but typer."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

_FILE: Final = {"exists": True, "dir_okay": False, "show_default": False}

ModelFile: TypeAlias = Annotated[Path, typer.Argument(metavar="MODEL", help="A .jg file.", **_FILE)]
Inputs: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--input",
        "-i",
        metavar="[NAME=]WHAT",
        help="An array for an input: a .npy, .npz, .safetensors, .json or image file, a number or list as JSON, "
        "random, or random:LOW:HIGH. Repeat it for several inputs.",
        show_default=False,
    ),
]
RandomInputs: TypeAlias = Annotated[
    bool, typer.Option("--random", help="Random arrays for the inputs that are not given.")
]
Seed: TypeAlias = Annotated[int, typer.Option("--seed", min=0, help="What random arrays are drawn from.")]
Sizes: TypeAlias = Annotated[
    list[str],
    typer.Option("--size", "-s", metavar="NAME=N", help="The value of a named size.", show_default=False),
]
Cast: TypeAlias = Annotated[
    bool, typer.Option("--cast", help="Convert arrays to the dtypes of the inputs, even where that loses something.")
]
EntryName: TypeAlias = Annotated[
    str,
    typer.Option("--entry", metavar="NAME", help="Another entry of the file than its main one.", show_default=False),
]
DeviceName: TypeAlias = Annotated[
    str, typer.Option("--device", metavar="DEVICE", help="Where it runs: cpu, or a GPU such as cuda:0.")
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Tolerance: TypeAlias = Annotated[
    float,
    typer.Option(
        "--tolerance",
        "-t",
        min=0.0,
        metavar="X",
        help="The greatest difference allowed, relative to the greatest value; 0: the same bits.",
    ),
]


def targets_starting_with(incomplete: str) -> list[str]:
    """For completion: the targets that begin so, after the last comma."""
    from jitgraph.ir.target import Target

    before, comma, last = incomplete.rpartition(",")
    return [f"{before}{comma}{name}" for name in (*Target.names(), "cuda") if name.startswith(last)]
