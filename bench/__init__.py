"""Measurements: ``python -m bench`` runs all, ``python -m bench matmul`` one. Nothing here passes or fails."""

import os

os.environ["JITGRAPH_CACHE_DIR"] = "off"  # what is measured is compiled; ``bench/cache.py`` measures the cache itself
