"""Writes ``.jg`` files: a zip of stored members that ``runtime/loader`` maps. No pickle.

===========================  ==========================================================================================
member                       content
===========================  ==========================================================================================
``manifest.json``            format, version, opset, entries (signature, graph, native images by target), metadata, and
                             bytes and SHA-256 of each other member
``graph.jgir``               text of the main entry's graph; ``graph.<entry>.jgir`` of each other entry
``weights.safetensors``      the state of all entries, 64-byte aligned in the file
``native/<target>``          flat image of the main entry; ``native/<target>.<entry>`` of each other entry
``cuda/<generation>.host``   the host's image of the main entry for GPUs such as sm_80; ``.<entry>.host`` of another one
``cuda/<generation>.ptx``    the PTX that goes with it
===========================  ==========================================================================================

The zip is a strict one, so that a reader stays small: no compression, no comment, names once and in ASCII, zip64
records only where 4 GiB are passed. Times are fixed: the same model gives the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import struct
import zipfile
from collections.abc import Iterable, Mapping
from typing import IO, Any, Final

import numpy as np

from jitgraph import dtypes
from jitgraph.errors import JitgraphError
from jitgraph.records import dataclass
from jitgraph.runtime import loader
from jitgraph.runtime.atomic_file import replacing
from jitgraph.runtime.loader.artifact import (
    FORMAT,
    FORMAT_VERSION,
    MANIFEST,
    MAX_GRAPH_BYTES,
    PLAIN_VERSION,
    WEIGHTS,
    DeviceCode,
)
from jitgraph.runtime.loader.state_files import safetensors as dense_safetensors

OPSET_VERSION: Final = 1

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PADDING_FIELD: Final = 0x474A  # "JG", a zip extra field that only fills up
_LOCAL_HEADER_BYTES: Final = 30
_ZIP64_BYTES: Final = 20  # what zipfile adds to a local header for a large member


@dataclass(frozen=True)
class DeviceImage:
    """Code of an entry for one generation of GPUs: the host's image, the PTX, and what the manifest says of both."""

    host: bytes
    ptx: bytes
    code: DeviceCode


@dataclass(frozen=True)
class SavedEntry:
    """One entry point to save: its contract, its graph's text, its flat images by target name, its code for GPUs."""

    signature: loader.Signature
    graph_text: str
    images: Mapping[str, bytes]
    devices: tuple[DeviceImage, ...] = ()
    of: str = ""  # the entry that this one is a specialisation of


def write_artifact(
    path: str | os.PathLike[str],
    *,
    entries: Mapping[str, SavedEntry],
    weights: Mapping[str, np.ndarray[Any, np.dtype[Any]]],
    metadata: Mapping[str, Any],
) -> None:
    """Write a model to ``path`` whole or not at all; JitgraphError for a part that no file can hold.

    ``entries`` holds at least one; ``forward``, else the first, is the main one. Every state key of an entry must be in
    ``weights``.
    """
    _verify(entries, weights)
    main = "forward" if "forward" in entries else next(iter(entries))
    members: dict[str, bytes] = {}
    listed: dict[str, Any] = {}
    for name, entry in entries.items():
        graph = "graph.jgir" if name == main else f"graph.{name}.jgir"
        native = {target: f"native/{target}" if name == main else f"native/{target}.{name}" for target in entry.images}
        members[graph] = entry.graph_text.encode()
        members.update((native[target], image) for target, image in entry.images.items())
        listed[name] = {"signature": entry.signature.to_json(), "graph": graph, "native": native}
        listed[name] |= {"of": entry.of} if entry.of else {}
        for image in entry.devices:
            stem = image.code.generation if name == main else f"{image.code.generation}.{name}"
            code = image.code.but_with(host=f"cuda/{stem}.host", ptx=f"cuda/{stem}.ptx")
            members |= {code.host: image.host, code.ptx: image.ptx}
            listed[name].setdefault("cuda", {})[code.generation] = code.to_json()
    is_structured = any(entry.of or entry.signature.arguments is not None for entry in entries.values())
    manifest = {
        "format": FORMAT,
        "version": FORMAT_VERSION if is_structured else PLAIN_VERSION,
        "opset": OPSET_VERSION,
        "entries": listed,
        "metadata": dict(metadata),
    }
    with replacing(path) as file:
        _write_zip(file, manifest, members, weights)


def _verify(entries: Mapping[str, SavedEntry], weights: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> None:
    if not entries:
        raise JitgraphError("a model needs at least one entry to be saved")
    for name, entry in entries.items():
        for part in (name, *entry.images):
            if not re.fullmatch(r"[A-Za-z0-9_-]+", part):
                raise JitgraphError(f"{part!r} cannot name an entry or target in a file; use letters, digits, _ and -")
        if len(entry.graph_text.encode()) > MAX_GRAPH_BYTES:
            raise JitgraphError(
                f"the graph of {name!r} is longer than the {MAX_GRAPH_BYTES} bytes that a file may hold\n"
                "  hint: keep Python loops out of it: jg.scan and jg.while_loop are one node each"
            )
        for image in (*entry.images.values(), *(device.host for device in entry.devices)):
            loader.ImageHeader.parse(image)
        if missing := {spec.key for spec in entry.signature.state} - set(weights):
            raise JitgraphError(f"the state {sorted(missing)} of the entry {name!r} is not among the weights")
    if "__metadata__" in weights:
        raise JitgraphError("a tensor cannot be called '__metadata__' in a safetensors file; rename it")


def _write_zip(
    file: IO[bytes],
    manifest: dict[str, Any],
    members: Mapping[str, bytes],
    weights: Mapping[str, np.ndarray[Any, np.dtype[Any]]],
) -> None:
    hashes: dict[str, Any] = {}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            hashes[name] = _add(archive, file, name, len(data), (data,))
        if weights:
            size, chunks = safetensors(weights)
            hashes[WEIGHTS] = _add(archive, file, WEIGHTS, size, chunks)
        text = json.dumps({**manifest, "members": hashes}, indent=1, allow_nan=False).encode()
        _add(archive, file, MANIFEST, len(text), (text,))


def _add(
    archive: zipfile.ZipFile, file: IO[bytes], name: str, size: int, chunks: Iterable[bytes | memoryview]
) -> dict[str, Any]:
    """Store a member with its first byte at a multiple of 64 and give its entry of the manifest."""
    info = zipfile.ZipInfo(name, _EPOCH)
    info.external_attr = 0o644 << 16
    info.file_size = size
    large = size * 1.05 > zipfile.ZIP64_LIMIT  # zipfile's own rule
    start = file.tell() + _LOCAL_HEADER_BYTES + len(name) + (_ZIP64_BYTES if large else 0) + 4
    info.extra = struct.pack("<HH", _PADDING_FIELD, -start % loader.ALIGNMENT) + bytes(-start % loader.ALIGNMENT)
    digest = hashlib.sha256()
    with archive.open(info, "w") as member:
        for chunk in chunks:
            digest.update(chunk)
            member.write(chunk)
    return {"bytes": size, "sha256": digest.hexdigest()}


def safetensors(weights: Mapping[str, np.ndarray[Any, np.dtype[Any]]]) -> tuple[int, Iterable[bytes | memoryview]]:
    """Size and content of weights of any byte order. Those that keep the alignment go first."""
    return dense_safetensors(
        {name: np.asarray(array, dtype=dtypes.canonical(array.dtype), order="C") for name, array in weights.items()}
    )
