"""Records of the loader: made by place or name, equal by their fields, and never assigned to."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from jitgraph.runtime.loader import Check, LoadError, PrintOperand, Signature, StateSpec, ValueSpec

PLAIN = ValueSpec("x", "float32", (2, "n"))


def test_fields_by_place_by_name_and_by_default() -> None:
    by_name = ValueSpec(shape=(2, "n"), dtype="float32", name="x")
    assert by_name == PLAIN and hash(by_name) == hash(PLAIN) and PLAIN.default is None
    assert vars(StateSpec("x", "float32", (), key="w")) == {
        "name": "x",
        "dtype": "float32",
        "shape": (),
        "default": None,
        "key": "w",
    }
    assert repr(Check("no", location="here")) == "Check(message='no', kind='ValueError', location='here')"


def test_records_of_two_classes_differ() -> None:
    own = ValueSpec("x", "float32", ())
    assert own != StateSpec("x", "float32", ()) and own != PrintOperand("x", "float32", ())
    assert own != ValueSpec("x", "float32", (), 0.0)


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (("x",), {}),
        (("x", "float32", (), None, 1), {}),
        (("x", "float32", ()), {"name": "y"}),
        (("x", "float32", ()), {"other": 1}),
    ],
)
def test_each_field_is_given_once(values: tuple[Any, ...], named: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="ValueSpec"):
        ValueSpec(*values, **named)


def test_nothing_is_assigned() -> None:
    with pytest.raises(AttributeError, match="cannot assign to 'name' of a ValueSpec"):
        PLAIN.name = "y"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="cannot delete 'name'"):
        del PLAIN.name


def test_another_with_some_fields() -> None:
    other = PLAIN.but_with(name="y")
    assert (other.name, other.shape, PLAIN.name) == ("y", (2, "n"), "x")
    signature = Signature((PLAIN,), (PLAIN,), dims=("n",), structure={"list": [0]})
    assert hash(signature) == hash(signature.but_with(structure=0)) and signature != signature.but_with(structure=0)
    with pytest.raises(LoadError, match="unknown dims"):  # what is made so is checked, too
        signature.but_with(dims=())


def test_copies_are_equal() -> None:
    for result in (copy.deepcopy(PLAIN), pickle.loads(pickle.dumps(PLAIN))):
        assert result == PLAIN and result is not PLAIN
