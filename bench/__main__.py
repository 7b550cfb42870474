"""Run the named measurements, or all."""

from __future__ import annotations

import importlib
import sys

NAMES = (
    "trend",
    "startup",
    "first_calls",
    "compile_time",
    "cache",
    "bandwidth",
    "sums",
    "matmul",
    "linalg",
    "accuracy",
    "kernels",
    "digits_step",
    "amp",
    "checkpoint",
    "torch_doors",
    "torch_files",
    "torch_backend",
    "data",
    "eager",
    "models",
    "functions",
    "peers",
    "calls",
    "warm_calls",
    "native_calls",
    "pool",
    "loops",
    "cuda_host",
    "loader_start",
    "custom_ops",
    "files",
    "cuda_static",
    "cuda",
)


def main() -> int:
    wanted = sys.argv[1:] or NAMES
    for name in wanted:
        if name not in NAMES:
            print(f"no measurement {name!r}; there are {', '.join(NAMES)}")
            return 2
        print(f"--- {name}")
        importlib.import_module(f"bench.{name}").main()
    return 0


if __name__ == "__main__":
    sys.exit(main())
