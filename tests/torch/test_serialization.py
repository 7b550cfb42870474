"""Files of ``torch.save``: written and read, also by PyTorch; files made to harm are refused."""

from __future__ import annotations

import base64
import io
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
import jitgraph.torch as torch
from tests.torch.jit.building import Writer, packed
from tests.torch.jit.records import ARCHIVES

LEGACY = base64.b64decode(
    "gAKKCmz8nEb5IGqoUBkugAJN6QMugAJ9cQAoWBAAAABwcm90b2NvbF92ZXJzaW9ucQFN6QNYDQAAAGxpdHRsZV9lbmRpYW5xAohY"
    "CgAAAHR5cGVfc2l6ZXNxA31xBChYBQAAAHNob3J0cQVLAlgDAAAAaW50cQZLBFgEAAAAbG9uZ3EHSwR1dS6AAn1xAChYAQAAAHdx"
    "AWN0b3JjaC5fdXRpbHMKX3JlYnVpbGRfdGVuc29yX3YyCnECKChYBwAAAHN0b3JhZ2VxA2N0b3JjaApGbG9hdFN0b3JhZ2UKcQRY"
    "DgAAADk0NTU3MTI2NDI4MTkycQVYAwAAAGNwdXEGSwZOdHEHUUsASwNLAoZxCEsBSwOGcQmJY2NvbGxlY3Rpb25zCk9yZGVyZWRE"
    "aWN0CnEKKVJxC3RxDFJxDVgBAAAAbnEOSwN1LoACXXEAWA4AAAA5NDU1NzEyNjQyODE5MnEBYS4GAAAAAAAAAAAAAAAAAIA/AAAA"
    "QAAAQEAAAIBAAACgQA=="
)  # {"w": torch.arange(6.0).reshape(2, 3).t(), "n": 3}, as versions before 1.6 wrote it


def values() -> dict[str, Any]:
    shared = torch.arange(4)
    return {
        "w": torch.nn.Parameter(torch.ones(2, 3)),
        "frozen": torch.nn.Parameter(torch.zeros(2), requires_grad=False),
        "b": shared,
        "again": [shared, shared],
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "half": torch.ones(2, dtype=torch.bfloat16),
        "scalar": torch.tensor(3.0),
        "empty": torch.zeros(0, 3),
        "complex": torch.ones(2, dtype=torch.complex64),
        "mask": torch.tensor([True, False]),
        "plain": [1, -(1 << 40), 1.5, True, None, "é", b"ab\xff", (1, (2,))],
        "set": {1, 2},
        "dtype": torch.float64,
        "size": torch.Size([1, 2]),
        "device": torch.device("cpu"),
        "ordered": OrderedDict([("x", 1)]),
    }


def same(a: Any, b: Any) -> None:
    if hasattr(b, "detach"):
        assert a.requires_grad == b.requires_grad and str(a.dtype) == str(b.dtype) and tuple(a.shape) == tuple(b.shape)
        pairs = [x.detach().to(torch.float32) if "bfloat16" in str(b.dtype) else x.detach() for x in (a, b)]
        np.testing.assert_array_equal(*(np.asarray(x) for x in pairs))
    elif isinstance(b, dict):
        assert type(a) is type(b) and list(a) == list(b)
        for key in b:
            same(a[key], b[key])
    elif isinstance(b, list | tuple):
        assert type(a) is type(b) and len(a) == len(b)
        for x, y in zip(a, b, strict=True):
            same(x, y)
    else:
        assert type(a) is type(b) and a == b


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "x.pt"
    torch.save(values(), path)
    loaded = torch.load(path)
    same(loaded, values())
    assert isinstance(loaded["w"], torch.nn.Parameter) and not loaded["frozen"].requires_grad
    assert loaded["again"][0] is loaded["again"][1] is loaded["b"]
    file = io.BytesIO()
    torch.save(values()["b"], file)
    file.seek(0)
    assert torch.load(file, weights_only=True).tolist() == [0, 1, 2, 3]


def test_a_module_goes_through_its_state_dict() -> None:
    first, second = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second.load_state_dict(torch.load(file))
    same(second.weight, first.weight)


def test_a_file_of_old() -> None:
    loaded = torch.load(io.BytesIO(LEGACY))
    assert loaded["n"] == 3 and loaded["w"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]
    for end in range(0, len(LEGACY) - 1, 7):
        with pytest.raises(jg.errors.LoadError):
            torch.load(io.BytesIO(LEGACY[:end]))
    for at in range(0, len(LEGACY), 3):
        try:
            torch.load(io.BytesIO(LEGACY[:at] + bytes([LEGACY[at] ^ 0x11]) + LEGACY[at + 1 :]))
        except jg.errors.LoadError:
            continue


def test_an_archive_gives_its_module() -> None:
    assert torch.load(ARCHIVES / "newton.pt").original_name == "Newton"


@pytest.mark.parametrize("value", [object(), torch.nn.Linear(1, 1), lambda: 1, {1: {2: [print]}}, 1j, frozenset({1})])
def test_what_cannot_be_saved(value: Any) -> None:
    with pytest.raises(TypeError, match=r"torch\.save"):
        torch.save(value, io.BytesIO())


def test_a_container_that_holds_itself() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(TypeError, match="holds itself"):
        torch.save(value, io.BytesIO())


def test_files_made_to_harm() -> None:
    for data in (b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.", b"\x80\x02]q\x00h\x00a.", b"", b"\x80\x02N"):
        with pytest.raises(jg.errors.LoadError):
            torch.load(packed({"data.pkl": data, "version": b"3"}))
    writer = Writer()
    data = b"\x80\x02" + writer.tensor(np.ones(4, np.float32), offset=3, size=(2,), stride=(1,)) + b"."
    with pytest.raises(jg.errors.LoadError, match="reaches element"):
        torch.load(packed({"data.pkl": data, "data/0": writer.storages[0], "version": b"3"}))
    with pytest.raises(jg.errors.LoadError):
        torch.load(io.BytesIO(b"nothing of PyTorch's"))
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(io.BytesIO(LEGACY), pickle_module=zipfile)


def test_pytorch_reads_what_is_written_and_the_other_way_round() -> None:
    theirs = pytest.importorskip("torch")
    file = io.BytesIO()
    torch.save(values(), file)
    file.seek(0)
    loaded = theirs.load(file, weights_only=True)
    assert [*loaded] == [*values()] and loaded["again"][0] is loaded["b"]
    for key, value in values().items():
        if hasattr(value, "detach"):
            assert (tuple(loaded[key].shape), loaded[key].requires_grad) == (tuple(value.shape), value.requires_grad)
            np.testing.assert_array_equal(np.array(loaded[key].tolist()), np.array(value.tolist()))
    for old in (False, True):
        file = io.BytesIO()
        theirs.save(loaded, file, _use_new_zipfile_serialization=not old)
        file.seek(0)
        same(torch.load(file), values())
