"""What a call on a GPU costs the host beside the driver: launches, copies and events here do nothing and return at once.

No GPU is needed, and nothing is computed. All candidates take turns in one process; a line gives the least and the
median time of a call over the rounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from bench.timing import ROUNDS, interleaved

CALLS = int(os.environ.get("CALLS", "300"))
Run = Callable[[], object]

_NOTHING = (
    "cuLaunchKernel", "cuMemsetD8Async", "cuMemsetD32Async", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2",
    "cuEventRecord", "cuStreamWaitEvent", "cuGraphLaunch",
)  # fmt: skip
_TEXT = """
define i32 @nothing() {
  ret i32 0
}
define i32 @record(ptr %to, i64 %from, i64 %size, ptr %stream) {
  %is = icmp eq i64 %size, 40
  br i1 %is, label %told, label %out
told:
  %order = getelementptr i64, ptr %to, i64 1
  store i64 -1, ptr %order
  br label %out
out:
  ret i32 0
}
"""


def silent_driver() -> object:
    """A driver whose launches do nothing, on a simulator that does all else; error records tell of no failure."""
    from jitgraph.runtime.cuda.driver import Driver
    from jitgraph.simulator.driver import FakeDriver
    from jitgraph.simulator.native import mapped
    from jitgraph.simulator.simulated_driver import SimulatedDriver

    fake = FakeDriver()
    image, found = mapped(_TEXT, ("nothing", "record"), hot=True)
    made = SimulatedDriver(fake)
    silent = dict.fromkeys(_NOTHING, found["nothing"]) | {"cuMemcpyDtoHAsync_v2": found["record"]}
    Driver.__init__(made, {**fake.addresses, **silent}, "a driver that does nothing")
    made.image = image  # type: ignore[attr-defined]  # for as long as its functions are called
    return made


def candidates() -> dict[str, Run]:
    """Calls on the current device, after those that compile."""
    import jitgraph as jg
    from jitgraph.runtime.cuda.devices import devices

    device = devices().device()
    driver, stream = device.context.enter(), device.context.stream
    x, y, z = (jg.ones((64, 64), device="cuda") for _ in range(3))
    model = jg.nn.Sequential(jg.nn.Linear(64, 64), jg.nn.ReLU(), jg.nn.Linear(64, 10)).to("cuda")
    optimizer = jg.optim.Adam(model.parameters(), lr=1e-3)
    labels = jg.asarray(np.zeros(64, np.int64), device="cuda")

    def train(x: jg.Tensor, labels: jg.Tensor) -> jg.Tensor:
        optimizer.zero_grad()
        loss = jg.nn.functional.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    chain, step = jg.trace(lambda x, y, z: x * y + z), jg.trace(train)
    evaluate = jg.trace(lambda x: model(x))

    def forward() -> object:
        with jg.no_grad():
            return evaluate(x)

    runs: dict[str, Run] = {
        "one function of the driver, from Python": lambda: driver.fill_bytes(0, 0, 1, stream),
        "traced x * y + z": lambda: chain(x, y, z),
        "eager x + y": lambda: x + y,
        "eager x.sum()": lambda: x.sum(),
        "traced forward pass of an MLP": forward,
        "traced training step of an MLP, Adam": lambda: step(x, labels),
    }
    for run in runs.values():
        for _ in range(5):
            run()
    return runs


def main() -> None:
    """Print the table."""
    from jitgraph.runtime.cuda.devices import replaced

    with replaced(silent_driver()):  # type: ignore[arg-type]
        for name, times in interleaved(candidates(), rounds=ROUNDS, calls=CALLS).items():
            print(f"{name:<42} least {1e6 * times.min():7.2f} us   median {1e6 * float(np.median(times)):7.2f} us")


if __name__ == "__main__":
    main()
