"""``torch.hub``: files of weights that are downloaded. Models come as their code does, by an import."""

from __future__ import annotations

import hashlib
import os
import re
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any, NoReturn

from jitgraph.runtime.atomic_file import replacing
from jitgraph.torch.serialization import load as read

_folder: list[str] = []


def get_dir() -> str:
    """The folder of what is downloaded: ``set_dir``'s, or ~/.cache/torch/hub."""
    return _folder[-1] if _folder else os.path.expanduser("~/.cache/torch/hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Download to this folder from now on."""
    _folder[:] = [os.path.expanduser(d)]


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Write what an address gives to a file; RuntimeError where its SHA-256 does not begin with ``hash_prefix``."""
    digest = hashlib.sha256()
    with urllib.request.urlopen(url) as source, replacing(dst) as file:
        while chunk := source.read(1 << 16):
            digest.update(chunk)
            file.write(chunk)
        if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """``torch.load`` of the file of an address, which is downloaded once, to ``model_dir`` or checkpoints in the hub.

    ``check_hash``: the name has the beginning of the file's SHA-256, as in ``resnet-0676ba61.pth``.
    """
    folder = model_dir or os.path.join(get_dir(), "checkpoints")
    name = file_name or os.path.basename(urllib.parse.urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        Path(folder).mkdir(parents=True, exist_ok=True)
        known = re.search(r"-([a-f0-9]*)\.", name) if check_hash else None
        download_url_to_file(url, path, known[1] if known else None, progress)
    return read(path, map_location=map_location, weights_only=weights_only)


def load(repo_or_dir: str, model: str, *args: Any, **kwargs: Any) -> NoReturn:
    """RuntimeError: a repository's code imports PyTorch itself."""
    raise RuntimeError(
        f"torch.hub.load({repo_or_dir!r}, {model!r}) would run code that imports PyTorch: import that code with "
        "jitgraph.torch in its place, and load its weights with torch.hub.load_state_dict_from_url(url)"
    )


list = help = load
