"""From starting Python to the first result of a saved model with the loader alone, beside importing NumPy."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import jitgraph as jg
from bench.timing import interleaved, run_python
from jitgraph.standalone import write_loaders


def main() -> None:
    model = jg.nn.Sequential(jg.nn.Linear(64, 128), jg.nn.GELU(), jg.nn.Linear(128, 10))

    @jg.trace(dynamic_shapes={"x": {0: "batch"}})
    def predict(x: jg.Tensor) -> jg.Tensor:
        return model(x)

    with tempfile.TemporaryDirectory() as folder:
        jg.save(predict, Path(folder, "m.jg"), example_inputs=(np.zeros((8, 64), np.float32),))
        write_loaders(Path(folder))
        prefix = f"import sys; sys.path.insert(0, {folder!r}); import numpy"
        load = f"{prefix}; import loader; m = loader.load({folder!r} + '/m.jg')"
        call = f"{load}; m(numpy.zeros((8, 64), 'f4'))"
        codes = {"import numpy": prefix, "load": load, "load and call": call}
        times = interleaved(
            {n: lambda c=c: run_python("-I", "-c", c) for n, c in codes.items()},
            rounds=15,
        )
    for name, values in times.items():
        beyond = float(np.median(values - times["import numpy"]))
        print(f"{name:14} {1e3 * float(np.median(values)):6.1f} ms  ({1e3 * beyond:+.1f} ms against importing NumPy)")


if __name__ == "__main__":
    main()
