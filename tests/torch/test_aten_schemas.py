"""Operators of ``aten_ops`` take the arguments of ATen's schemas: by name, by position, and their defaults."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from jitgraph.torch import aten_ops

torch = pytest.importorskip("torch")


def schemas() -> list[Any]:
    """Those of operators on tensors that give new values."""
    chosen = []
    for schema in torch._C._jit_get_all_schemas():
        types = [str(argument.type) for argument in (*schema.arguments, *schema.returns)]
        if not schema.name.startswith("aten::") or not any("Tensor" in text for text in types):
            continue
        writes = any(argument.alias_info is not None and argument.alias_info.is_write for argument in schema.arguments)
        if not writes and not any("Dict" in text or text in ("List[t]", "t") for text in types):
            chosen.append(schema)
    return chosen


ON_LISTS = {"aten::eq.Tensor_list", "aten::ne.Tensor_list"}  # of Python's lists, which no exported graph compares


def test_signatures_are_those_of_the_schemas() -> None:
    bound, wrong = 0, []
    for schema in schemas():
        name = schema.name + ("." if schema.overload_name else "") + schema.overload_name
        function = aten_ops.lookup(schema.name, schema.overload_name)
        if function is None or name in ON_LISTS:
            continue
        bound += 1
        by_position = [argument.name for argument in schema.arguments if not argument.kwarg_only]
        by_name = {argument.name: argument.name for argument in schema.arguments if argument.kwarg_only}
        required = [argument for argument in schema.arguments if not argument.has_default_value()]
        try:
            signature = inspect.signature(function)
            arguments = signature.bind(*by_position, **by_name).arguments
            signature.bind(
                *(argument.name for argument in required if not argument.kwarg_only),
                **{argument.name: argument.name for argument in required if argument.kwarg_only},
            )
        except TypeError as error:
            wrong.append(f"{schema}: {error}")
            continue
        wrong += [
            f"{schema}: {own} takes {given}"
            for own, given in arguments.items()
            if isinstance(given, str) and given != own.rstrip("_")
        ]
    assert not wrong
    assert bound > 600


def test_every_operator_is_one_of_atens() -> None:
    names = {
        (schema.name.removeprefix("aten::").rstrip("_"), schema.overload_name or "default")
        for schema in torch._C._jit_get_all_schemas()
        if schema.name.startswith("aten::")
    } | {
        (schema.name.removeprefix("aten::"), schema.overload_name or "default")
        for schema in torch._C._jit_get_all_schemas()
    }
    keys = {f"{name}_{overload}" for name, overload in names} | {name for name, _ in names}
    assert [name for name in aten_ops.names() if name not in keys] == []


def test_the_page_lists_what_is_there() -> None:
    from tests.torch import aten_page  # here, as it imports PyTorch

    assert aten_page.PAGE.read_text() == aten_page.page(), "python -m tests.torch.aten_page writes it anew"
