"""What a call on a GPU costs the host beside the driver: launches and copies do nothing here and return at once.

No GPU is needed, and nothing is computed. All candidates take turns in one process; a line gives the least and the
median time of a call over the rounds.
"""

from __future__ import annotations

import ctypes
import gc
import os
from collections.abc import Callable

import numpy as np

from bench.timing import ROUNDS, interleaved

CALLS = int(os.environ.get("CALLS", "300"))
Run = Callable[[], object]

_NOTHING = (
    "cuLaunchKernel", "cuMemsetD8Async", "cuMemsetD32Async", "cuMemcpyHtoDAsync_v2", "cuMemcpyDtoDAsync_v2",
    "cuEventRecord", "cuEventSynchronize", "cuStreamWaitEvent", "cuStreamBeginCapture_v2", "cuStreamEndCapture",
    "cuGraphDestroy", "cuGraphExecDestroy",
)  # fmt: skip
_TEXT = """
define i32 @nothing() {
  ret i32 0
}
define i32 @record(ptr %to, i64 %from, i64 %size, ptr %stream) {
  %is = icmp eq i64 %size, 40
  br i1 %is, label %told, label %out
told:
  %number = ptrtoint ptr %to to i64
  store i64 %number, ptr inttoptr (i64 <LAST> to ptr)
  %order = getelementptr i64, ptr %to, i64 1
  store i64 -1, ptr %order
  br label %out
out:
  ret i32 0
}
define i32 @instantiate(ptr %to, ptr %graph, i64 %flags) {
  %known = load i64, ptr inttoptr (i64 <LAST> to ptr)
  %handle = or i64 %known, 1
  store i64 %handle, ptr %to
  store i64 0, ptr inttoptr (i64 <LAST> to ptr)
  ret i32 0
}
define i32 @replay(i64 %graph, ptr %stream) {
  %has = icmp ugt i64 %graph, 1
  br i1 %has, label %told, label %out
told:
  %at = add i64 %graph, 7
  %order = inttoptr i64 %at to ptr
  store i64 -1, ptr %order
  br label %out
out:
  ret i32 0
}
"""
_OTHERS = {
    "cuMemcpyDtoHAsync_v2": "record",
    "cuGraphInstantiateWithFlags": "instantiate",  # the handle of a graph is the place of the call's error record
    "cuGraphLaunch": "replay",
}


def silent_driver() -> object:
    """A driver whose launches do nothing, on a simulator that does all else; error records tell of no failure."""
    from jitgraph.runtime.cuda.driver import Driver
    from jitgraph_testing.simulator.driver import FakeDriver
    from jitgraph_testing.simulator.native import mapped
    from jitgraph_testing.simulator.simulated_driver import SimulatedDriver

    fake = FakeDriver()
    last = ctypes.c_uint64()  # where the last error record lies
    text = _TEXT.replace("<LAST>", str(ctypes.addressof(last)))
    image, actual = mapped(text, ("nothing", *_OTHERS.values()), hot=True)
    result = SimulatedDriver(fake)
    silent = dict.fromkeys(_NOTHING, actual["nothing"]) | {symbol: actual[name] for symbol, name in _OTHERS.items()}
    Driver.__init__(result, {**fake.addresses, **silent}, "a driver that does nothing")
    result.kept = image, last  # type: ignore[attr-defined]  # for as long as its functions are called
    return result


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
        runs = candidates()
        gc.collect()
        gc.freeze()  # what the compiler has left is not looked at again
        for name, times in interleaved(runs, rounds=ROUNDS, calls=CALLS).items():
            print(f"{name:<42} least {1e6 * times.min():7.2f} us   median {1e6 * float(np.median(times)):7.2f} us")


if __name__ == "__main__":
    main()
