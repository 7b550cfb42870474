"""Writes docs/aten_operators.md: which of ATen's operators the table has. Needs PyTorch.

python -m tests.torch.aten_page
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch

from jitgraph.torch import aten_ops
from jitgraph.torch.programs import running
from tests import ROOT

PAGE = ROOT / "docs" / "aten_operators.md"
OTHERS = {  # by a pattern of the name, in this order
    "lists of tensors, for optimisers": r"_?foreach_|_fused_(adam|sgd|adagrad)|_amp_",
    "sparse, nested and quantised tensors": r"sparse|nested|quant|fake_|choose_qparams|_csr|_coo|dense_dim|coalesce"
    r"|to_dense|_jagged|q_scale|q_zero|q_per|int_repr|_values|_indices|crow_|col_|row_|ccol_|to_padded|wrapped_",
    "libraries and devices of PyTorch": r"cudnn|mkldnn|miopen|mps|fbgemm|cuda|hpu|xla|_int|_weight_int|_efficient"
    r"|_fused|_flash|_cslt|_convert_weight|_scaled_mm|_grouped_mm|_dyn_quant|_thnn|_transform_bias|_triton|nnpack"
    r"|_pin_|pin_memory|_neg_view|_lazy|_cufft",
    "parts of derivatives": r"backward|_double|_jvp|_vjp|_fw_|_forward_grad|_dual",
    "names, versions, storage": r"names|rename|align_|refine_|is_|_version|_has_|storage|record_stream|set_|resize"
    r"|_reshape_|output_nr|retain|_test|_debug|_assert|_print|__lazy|_make_dep|sym_|data|requires_grad|_local_scalar"
    r"|_validate|_shape_as|_foobar|_cast_|_dim_arange|_dimI|_dimV|_nnz|_sobol|_choose|_unsafe_view|result_type"
    r"|can_cast|promote|_parse|__getitem|_new_zeros_with|_is_|_to_cpu|_to_functional|_functional|_from_functional|_sync",
}


def schemas() -> list[Any]:
    """Those that take or give tensors and write to nothing."""
    chosen = []
    for schema in torch._C._jit_get_all_schemas():
        types = [str(value.type) for value in (*schema.arguments, *schema.returns)]
        packet = getattr(torch.ops.aten, schema.name.removeprefix("aten::"), None)
        overload = getattr(packet, schema.overload_name or "default", None) if packet is not None else None
        if not schema.name.startswith("aten::") or overload is None or not any("Tensor" in text for text in types):
            continue
        if not schema.is_mutable and not any("Dict" in text or text in ("List[t]", "t") for text in types):
            chosen.append((schema, overload))
    return chosen


def is_known(schema: Any) -> bool:
    overload = schema.overload_name or "default"
    return f"{schema.name}.{overload}" in running.FUNCTIONS or aten_ops.lookup(schema.name, overload) is not None


def listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names) + "."


def page() -> str:
    core: dict[str, bool] = {}
    plain: dict[str, list[bool]] = defaultdict(list)
    others: dict[str, list[bool]] = {family: [] for family in OTHERS}
    for schema, overload in schemas():
        name = schema.name.removeprefix("aten::")
        known = is_known(schema)
        if torch.Tag.core in overload.tags:
            core[f"{name}.{schema.overload_name or 'default'}"] = known
        family = next((family for family, pattern in OTHERS.items() if re.search(pattern, name)), None)
        if family is None or torch.Tag.core in overload.tags:
            plain[name].append(known)
        else:
            others[family].append(known)
    whole = sorted(name for name, known in plain.items() if all(known))
    partly = sorted(name for name, known in plain.items() if any(known) and not all(known))
    absent = sorted(name for name, known in plain.items() if not any(known))
    lines = [
        "# Operators of ATen",
        "",
        "Exported programs and TorchScript archives consist of ATen's operators. Each that runs here is a function of",
        "ATen's signature in `jitgraph/torch/aten_ops/`, over jitgraph's public functions. Of PyTorch "
        f"{torch.__version__.partition('+')[0]}:",
        "",
        "| operators | overloads | of these here |",
        "| --- | --- | --- |",
        f"| core ATen, into which PyTorch takes others apart | {len(core)} | {sum(core.values())} |",
        f"| all on plain tensors | {sum(map(len, plain.values()))} | {sum(map(sum, plain.values()))} |",
        *(f"| {family} | {len(known)} | {sum(known)} |" for family, known in others.items()),
        "",
        "Operators in place (`add_`) and those with `out=` are written as the operators whose results they store.",
        "",
        f"Core ATen that is absent: {listed(name for name, known in sorted(core.items()) if not known)}",
        "",
        f"## Whole: {len(whole)}",
        "",
        listed(whole),
        "",
        f"## Some overloads: {len(partly)}",
        "",
        listed(partly),
        "",
        f"## Absent: {len(absent)}",
        "",
        listed(absent),
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page())
