"""The tests, in folders that mirror the package."""

from pathlib import Path

ROOT = Path(__file__).parent.parent
"""The checkout."""
