"""Measurements: ``python -m bench`` runs all, ``python -m bench matmul`` one. Nothing here passes or fails."""

import os

# What is measured is compiled, whatever the user has set; ``bench/cache.py`` measures the cache itself.
os.environ["JITGRAPH_CACHE_DIR"] = os.environ.get("BENCH_CACHE_DIR", "off")
