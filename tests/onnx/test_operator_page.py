"""docs/onnx_ops.md says which operators there are."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from tests.onnx.operator_page import PAGE, page


def test_the_page_lists_the_operators_that_are_read() -> None:
    own, listed = page().splitlines(), PAGE.read_text().splitlines()
    assert own[0] == listed[0]
    for line in own:
        if line.startswith(("By", "Refused")):  # which depends on the version of onnx
            continue
        assert line in listed, "python -m tests.onnx.operator_page writes docs/onnx_ops.md anew"
