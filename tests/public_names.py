"""docs/api.md lists the public names, each with its docstring's first sentence; this writes it and tells what it says.

What stands under "Planned" is kept as it is: those names have no docstring yet.
"""

from __future__ import annotations

import importlib
import re
from types import ModuleType
from typing import Any

import numpy as np

import jitgraph as jg
from tests import ROOT

PAGE = ROOT / "docs" / "api.md"
PLANNED = "\n## Planned\n"

MODULES = (
    *("nn", "nn.functional", "nn.init", "nn.utils", "optim", "optim.lr_scheduler", "data", "random", "special", "fft"),
    *("autograd", "cache", "cuda", "debug", "errors", "ir", "linalg", "profiler", "tree"),
    *("amp", "onnx", "optim.swa_utils"),
)
LOADER = ("load", "Model", "LoadError", "ArgumentError", "JitgraphError")

HEAD = """# Public names

Names on this page keep their meaning by the rule in [CONTRIBUTING.md](../CONTRIBUTING.md); anything else that can be
imported may change at any time. `python -m tests.public_names` writes this page from the docstrings, and a test
compares them.
"""


def names_of(module: str) -> list[str]:
    """The public names of ``jitgraph`` (for "") or of one of its modules."""
    if module == "runtime.loader":
        return sorted(LOADER)
    result: Any = importlib.import_module(f"jitgraph.{module}" if module else "jitgraph")
    return sorted(result.__all__)


def sentence(value: Any) -> str:
    """What a name is, on one line."""
    if isinstance(value, np.dtype):
        return f"The dtype {value.name}."
    if isinstance(value, float) or value is None:
        return f"{value!r}."
    first = re.split(r"\n\s*\n|(?<=\.)\s+(?=[A-Z])", (value.__doc__ or "").strip(), maxsplit=1)[0]
    text = " ".join(first.replace("``", "`").split()).rstrip(":;")
    return text if text.endswith(".") else f"{text}."


def rows(module: str) -> list[str]:
    owner: Any = importlib.import_module(f"jitgraph.{module}" if module else "jitgraph")
    prefix = f"jg.{module}." if module and module != "runtime.loader" else "jg." if not module else "loader."
    return [f"- `{prefix}{name}`: {sentence(getattr(owner, name))}" for name in names_of(module)]


def tensor_members() -> list[str]:
    """What a tensor has beside the operators; names that only refuse, as ``x.cuda()``, are told by their hints."""
    return sorted(name for name in dir(jg.Tensor) if not name.startswith("_") and name not in ("data", "value"))


def page(planned: str) -> str:
    """The text of docs/api.md with this section of planned names."""
    parts = [HEAD, "## jitgraph as jg\n", *rows(""), "\n## jg.Tensor\n"]
    parts.append(", ".join(f"`{name}`" for name in tensor_members()) + "; the operators; `np.asarray(x)`.")
    for module in MODULES:
        parts += [f"\n## jg.{module}\n", *rows(module)]
    parts += ["\n## jitgraph.runtime.loader, or loader.py alone\n", *rows("runtime.loader")]
    return "\n".join(parts) + "\n" + planned


def planned_of(text: str) -> str:
    """The section of planned names, its heading included."""
    return PLANNED + text.partition(PLANNED)[2]


def planned_names(text: str) -> list[str]:
    """The names of the planned section, as ``nn.LSTM``."""
    return re.findall(r"`jg\.([\w.]+)`", planned_of(text))


def find(name: str) -> Any:
    """What ``jg.name`` is; AttributeError where there is nothing."""
    actual: Any = jg
    for part in name.split("."):
        actual = getattr(actual, part)
        assert isinstance(actual, ModuleType | type) or part == name.rpartition(".")[2], name
    return actual


if __name__ == "__main__":
    PAGE.write_text(page(planned_of(PAGE.read_text())))
