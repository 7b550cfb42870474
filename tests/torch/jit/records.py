"""Nested values with arrays in them as JSON, and how two of them are compared."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

ARCHIVES = Path(__file__).with_name("archives")


def to_json(value: Any) -> Any:
    """A value as JSON."""
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.name, "shape": list(value.shape), "data": value.reshape(-1).tolist()}
    if isinstance(value, tuple):
        return {"tuple": [to_json(item) for item in value]}
    if isinstance(value, dict):
        return {"dict": [[to_json(key), to_json(item)] for key, item in value.items()]}
    return [to_json(item) for item in value] if isinstance(value, list) else value


def from_json(value: Any) -> Any:
    """The value of what ``to_json`` gave."""
    if isinstance(value, list):
        return [from_json(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "dtype" in value:
        return np.array(value["data"], value["dtype"]).reshape(value["shape"])
    if "tuple" in value:
        return tuple(from_json(item) for item in value["tuple"])
    return {from_json(key): from_json(item) for key, item in value["dict"]}


def records() -> dict[str, tuple[tuple[Any, ...], Any]]:
    """By the name of an archive that the repository has, arguments and PyTorch's result."""
    return {
        name: (from_json(record["args"]), from_json(record["result"]))
        for name, record in json.loads((ARCHIVES / "results.json").read_text()).items()
    }


def require_same(actual: Any, expected: Any, where: str = "result") -> None:
    """AssertionError where values differ: floats by more than 1e-5, all else at all."""
    if isinstance(expected, np.ndarray):
        array = np.asarray(actual.detach() if hasattr(actual, "detach") else actual)
        assert (array.shape, array.dtype) == (expected.shape, expected.dtype), where
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-5, err_msg=where)
    elif isinstance(expected, list | tuple):
        assert isinstance(actual, list | tuple) and len(actual) == len(expected), where
        for number, (item, other) in enumerate(zip(actual, expected, strict=True)):
            require_same(item, other, f"{where}[{number}]")
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), where
        for key, item in expected.items():
            require_same(actual[key], item, f"{where}[{key!r}]")
    elif isinstance(expected, float):
        np.testing.assert_allclose(actual, expected, rtol=1e-12, err_msg=where)
    else:
        assert type(actual) is type(expected) and actual == expected, where
