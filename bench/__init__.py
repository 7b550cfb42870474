"""Measurements: ``python -m bench`` runs all, ``python -m bench matmul`` one. Nothing here passes or fails."""
