"""The tests, in folders that mirror the package."""

import os
from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The checkout."""

os.environ["JITGRAPH_CACHE_DIR"] = "off"  # so that each test compiles what it tests, in processes that it starts, too
os.environ.setdefault("JITGRAPH_DISPATCH", "0")  # `make nightly` runs all with 1; tests/tracing/native has it on itself
