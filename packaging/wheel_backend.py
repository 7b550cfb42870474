"""The build backend: setuptools, but a wheel is built with the compiler's libraries and the dispatcher compiled.

They are made by the code of the package itself, which therefore needs what it imports when a wheel is built. A source
distribution and an editable install need setuptools alone.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (  # noqa: F401 - hooks of the backend
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

_IMPORTED = ("numpy", "llvmlite", "ml_dtypes")


def get_requires_for_build_wheel(config_settings: Any = None) -> list[str]:
    """What setuptools asks for, and what the compiler imports."""
    with open("pyproject.toml", "rb") as file:
        dependencies = tomllib.load(file)["project"]["dependencies"]
    needed = [dependency for dependency in dependencies if dependency.startswith(_IMPORTED)]
    return [*build_meta.get_requires_for_build_wheel(config_settings), *needed]


def build_wheel(wheel_directory: str, config_settings: Any = None, metadata_directory: str | None = None) -> str:
    """The wheel; the files of compiled code are left in the source tree, where git ignores them."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path]), "JITGRAPH_CACHE_DIR": "off"}
    subprocess.run([sys.executable, "-m", "jitgraph.codegen.prebuilt"], check=True, env=environment)
    return str(build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))
