"""docs/onnx_ops.md lists the operators of ONNX that are read; ``python -m tests.onnx.operator_page`` writes it."""

from __future__ import annotations

from jitgraph.onnx import registry
from tests import ROOT

PAGE = ROOT / "docs" / "onnx_ops.md"

HEAD = """# Operators of ONNX

`jg.onnx.load` reads these operators ([ONNX models](guide/onnx_models.md)). A number says since which version of the
operator set a definition holds; those behind "By onnx's definition" are computed by other operators, as onnx defines.
`python -m tests.onnx.operator_page` writes this page.

Of the 2,024 cases of onnx 1.23's own tests (`python -m tests.onnx.backend_cases`) 2,013 are right node by node, none is
wrong, and those of ImageDecoder and Gradient are refused by name. Compiled (`--compiled`) 2,005 are right, none is
wrong, and eight more are refused: their shapes depend on the elements of tensors.
"""


def page() -> str:
    """The text of the page."""
    import onnx.defs

    table = registry.table()
    own: dict[str, list[str]] = {}
    for (domain, name), entries in sorted(table.items()):
        versions = ", ".join(str(entry.since) for entry in entries)
        own.setdefault(domain, []).append(f"{name} {versions}" if versions != "1" else name)
    defined: dict[str, list[str]] = {}
    missing: dict[str, list[str]] = {}
    for schema in onnx.defs.get_all_schemas():
        if (schema.domain, schema.name) in table or schema.deprecated:
            continue
        is_defined = schema.has_function or schema.has_context_dependent_function
        (defined if is_defined else missing).setdefault(schema.domain, []).append(schema.name)
    parts = [HEAD]
    for domain in sorted({*own, *defined, *missing}):
        parts.append(f"## {domain or 'ai.onnx'}\n")
        for title, names in (
            ("", own.get(domain)),
            ("By onnx's definition: ", defined.get(domain)),
            ("Refused by name: ", missing.get(domain)),
        ):
            if names:
                parts.append(f"{title}{', '.join(sorted(names))}.\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
