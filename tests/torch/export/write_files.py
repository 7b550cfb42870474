"""Writes the ``.pt2`` files of this folder, with arguments and PyTorch's results: needs PyTorch.

    python -m tests.torch.export.write_files

Stack traces keep the names of files alone, so that nothing of a machine is in them.
"""

from __future__ import annotations

import io
import json
import re
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.export import Dim

from tests.torch.export.models import MODELS

FOLDER = Path(__file__).parent / "files"
DYNAMIC: dict[str, Any] = {
    "mlp": ({0: Dim("batch")},),
    "cnn": None,
    "lstm_tagger": ({0: Dim("batch")},),
    "gpt": ({0: Dim("batch")},),
    "branches": ({0: Dim("batch")},),
    "in_place": None,
    "vae": None,
}


def write(name: str) -> None:
    """One file, and its arguments and results beside it."""
    torch.manual_seed(0)
    model, args = MODELS[name]()
    program = torch.export.export(model, args, dynamic_shapes=DYNAMIC[name])
    state = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    buffer = io.BytesIO()
    torch.export.save(program, buffer)
    with (
        zipfile.ZipFile(buffer) as before,
        zipfile.ZipFile(FOLDER / f"{name}.pt2", "w", zipfile.ZIP_STORED) as after,
    ):
        for info in before.infolist():
            if info.filename.endswith((".data/serialization_id", "sample_inputs/model.pt")):
                continue
            data = before.read(info)
            if info.filename.endswith("models/model.json"):
                data = json.dumps(without_paths(json.loads(data)), separators=(",", ":")).encode()
            after.writestr(zipfile.ZipInfo(info.filename.replace("archive/", f"{name}/", 1)), data)
    model.load_state_dict(state)
    results = torch.utils._pytree.tree_leaves(model(*args))
    arrays = {f"arg{number}": arg.numpy() for number, arg in enumerate(args)}
    arrays |= {f"result{number}": result.detach().numpy() for number, result in enumerate(results)}
    np.savez_compressed(FOLDER / f"{name}.npz", **arrays)


def without_paths(document: Any) -> Any:
    """The document with the last names of paths alone, and the innermost frame of each stack."""
    if isinstance(document, dict):
        return {
            key: last_frame(value) if key == "stack_trace" else without_paths(value)
            for key, value in document.items()
            if key not in ("nn_module_stack", "torch_fn")
        }
    return [without_paths(item) for item in document] if isinstance(document, list) else document


def last_frame(trace: str) -> str:
    frames = re.findall(r'File "([^"]+)", line (\d+)', trace)
    frames = [frame for frame in frames if "/torch/nn" not in frame[0]] or frames
    return f'File "{Path(frames[-1][0]).name}", line {frames[-1][1]}, in forward' if frames else ""


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for each in DYNAMIC:
        write(each)
