"""A TorchScript archive becomes a C program, with no PyTorch installed: an LSTM written as a loop in Python.

PyTorch wrote the archive by `torch.jit.script(model).save(path)`. Its loop over time, with the list that it appends to,
is one loop in the native code.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import numpy as np

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.standalone import write_loaders

ARCHIVE = Path(jg.__file__).parent.parent / "tests" / "torch" / "jit" / "archives" / "scripted_lstm.pt"
MAIN = r"""
#include "loader.h"
#include <stdio.h>

int main(void) {
    static float steps[12][2][3]; /* time, batch, features */
    for (int i = 0; i < 72; i++) ((float *)steps)[i] = (float)(i % 7) / 7;
    jg_error error;
    jg_model *model = jg_load("model.jg", &error);
    if (!model) return fprintf(stderr, "%s\n", error.message), 1;
    jg_tensor x = {.data = steps, .dtype = JG_FLOAT32, .rank = 3, .shape = {12, 2, 3}}, y = {0};
    if (jg_run(model, NULL, &x, 1, &y, 1, &error) != JG_OK) return fprintf(stderr, "%s\n", error.message), 1;
    for (int64_t i = 0; i < 12 * 2 * 4; i++) printf("%.7f\n", ((const float *)y.data)[i]);
    return jg_tensor_free(&y), jg_close(model), 0;
}
"""


def main(quick: bool = False) -> float:
    """The greatest difference between what C and Python compute."""
    model = torch.jit.load(ARCHIVE)  # runs, trains and has the state dict of a module
    x = np.asarray(np.arange(72) % 7 / 7, np.float32).reshape(12, 2, 3)
    with tempfile.TemporaryDirectory() as folder:
        compiled = jg.script(model, dynamic_shapes={"x": {0: "time"}})
        jg.save(compiled, f"{folder}/model.jg", example_inputs=(x,))
        write_loaders(Path(folder))
        Path(folder, "main.c").write_text(MAIN)
        command = ["cc", "-std=c11", "-O2", "main.c", "loader.c", "-lpthread", "-lm", "-o", "main"]
        subprocess.run(command, cwd=folder, check=True)
        lines = subprocess.run(["./main"], cwd=folder, check=True, capture_output=True, text=True).stdout.split()
        size = Path(folder, "model.jg").stat().st_size
    difference = float(np.abs(np.array(lines, np.float32).reshape(12, 2, 4) - np.asarray(model(x).detach())).max())
    print(f"archive {ARCHIVE.stat().st_size / 1000:.0f} kB, {len(model.code.splitlines())} lines of code in forward")
    print(f"saved {size / 1000:.0f} kB; C and Python differ by {difference:.0e} at most")
    return difference


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="as the tests run it")
    main(parser.parse_args().quick)
