"""A fused pointwise chain on arrays far larger than the caches, as a share of what copying reaches.

The chain ``a * b + c`` reads three arrays and writes one: 16 bytes an element. A copy reads one and writes one: 8 bytes
an element. So the physical limit of the chain is twice the time of the copy.
"""

from __future__ import annotations

import numpy as np

import jitgraph as jg
from bench.timing import interleaved, ratio

ELEMENTS = 1 << 24


def main() -> None:
    generator = np.random.default_rng(0)
    arrays = [generator.random(ELEMENTS, dtype=np.float32) for _ in range(3)]
    tensors = [jg.asarray(a) for a in arrays]
    fused = jg.trace(lambda a, b, c: (a * b + c) * 0.5 + a)
    copy = jg.trace(lambda a: jg.abs(a))
    target = np.empty(ELEMENTS, np.float32)
    times = interleaved(
        {
            "fused chain": lambda: fused(*tensors),
            "one-input kernel": lambda: copy(tensors[0]),
            "numpy chain": lambda: (arrays[0] * arrays[1] + arrays[2]) * np.float32(0.5) + arrays[0],
            "numpy copy": lambda: np.copyto(target, arrays[0]),
        }
    )
    traffic = {"fused chain": 16, "one-input kernel": 8, "numpy chain": 16, "numpy copy": 8}
    for name, values in times.items():
        speed = traffic[name] * ELEMENTS / float(np.median(values)) / 1e9
        print(f"{name:17} {1e3 * float(np.median(values)):7.2f} ms  {speed:6.1f} GB/s")
    copied = 8 / times["numpy copy"]
    print(f"fused chain: share of copy bandwidth {ratio(16 / times['fused chain'], copied)}")
    print(f"numpy chain against the fused chain: {ratio(times['numpy chain'], times['fused chain'])} times the time")


if __name__ == "__main__":
    main()
