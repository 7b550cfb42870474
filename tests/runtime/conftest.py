"""What tests of files with code for GPUs are given: a library in the place of the driver's, and the written loader."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.device_files import Stub, serving


@pytest.fixture(scope="session")
def stub(tmp_path_factory: pytest.TempPathFactory) -> Stub:
    return Stub(tmp_path_factory.mktemp("stub"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "model.jg"


@pytest.fixture
def serve(stub: Stub, written_loader: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    monkeypatch.setattr(written_loader, "CUDA_LIBRARY", str(stub.path))
    with serving(stub) as begin:
        yield begin
        gc.collect()
