"""Whose code a file is, also where the package is reached through a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from jitgraph.own_code import OWN, STAGED, STATEFUL, STATELESS, Folders
from jitgraph.tracing.capture import kinds as followed
from tests import ROOT
from tests.processes import in_child

LINKED = """
import sys
sys.path.insert(0, {folder!r})
import jitgraph as jg
assert jg.__file__.startswith({folder!r})
drop, x = jg.nn.Dropout(0.5), jg.ones(64)
layers = jg.nn.Sequential(jg.nn.ReLU())
once = jg.trace(lambda x: drop(x), strict=True)
chain = jg.trace(lambda x: layers(x), strict=True)
drop.eval()
print(float(once(x).sum()) == 64, float(chain(-x).sum()) == 0)
drop.train()
layers.append(jg.nn.Sigmoid())
print(float(once(x).sum()) != 64, float(chain(-x).sum()) == 32)
print(once.cache_info().misses, chain.cache_info().misses)
try:
    jg.ones(3) + jg.ones(4)
except jg.errors.ShapeError as error:
    print(error.location)
"""


def test_a_package_behind_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """State of its modules is guarded, its other code is not followed, and errors name the user's line."""
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "linked"
    folder.mkdir()
    (folder / "jitgraph").symlink_to(ROOT / "jitgraph")
    (tmp_path / "user.py").write_text(LINKED.format(folder=str(folder)))
    said = in_child(f"import runpy; runpy.run_path({str(tmp_path / 'user.py')!r})").splitlines()
    assert said == [
        "True True",
        "True True",
        "2 2",
        f"user.py:{LINKED.splitlines().index('    jg.ones(3) + jg.ones(4)') + 1}",
    ]


def test_what_files_are(tmp_path: Path) -> None:
    package = ROOT / "jitgraph"
    files = [
        package / name
        for name in ("location.py", "nn/module.py", "nn/functional/layers.py", "optim/gradient_descent.py")
    ]
    assert all(file.exists() for file in files)
    kinds = [[folders.have(str(file)) for folders in (OWN, STATEFUL, STATELESS, STAGED)] for file in files]
    assert kinds == [
        [True, False, False, False],
        [True, True, False, True],
        [True, True, True, True],
        [True, True, False, False],
    ]
    assert not OWN.have(str(ROOT / "jitgraph_of_another" / "x.py")) and not OWN.have(str(tmp_path / "x.py"))


def test_folders_by_their_real_paths(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    for registered, requested in (("real", "link"), ("link", "real")):
        folders = Folders(str(tmp_path / registered))
        assert folders.have(str(tmp_path / requested / "x.py")) and not folders.have(str(tmp_path / "reality" / "x.py"))


def test_the_functions_that_scripts_call_are_followed() -> None:
    """They do what the user's code would do."""
    assert len(followed._STAGING) == 4
    assert all(Path(file).exists() and followed.is_followed(file) for file in followed._STAGING)
    assert not followed.is_followed(str(ROOT / "jitgraph" / "tracing" / "script" / "rewrite.py"))
