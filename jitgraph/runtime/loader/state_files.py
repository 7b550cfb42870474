"""Files of a model's state: safetensors whose keys are the state's, with a SHA-256 of the tensors' bytes."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from jitgraph.runtime.loader.abi import ALIGNMENT
from jitgraph.runtime.loader.artifact import read_safetensors
from jitgraph.runtime.loader.errors import LoadError
from jitgraph.runtime.loader.json_objects import parse_json
from jitgraph.runtime.loader.specs import SAFETENSORS_DTYPES, Array, ValueSpec, dtype_named

# ----------------------------------------------------------------------
# Files of a model's state: safetensors, as ``loader.c`` writes them to the byte.

STATE_FORMAT: Final = "jitgraph state"
CONSTANT: Final = "constant."
"""Before the SHA-256 of a large constant of a graph, its key among the weights; it is no state."""

_DIGEST_DIGITS: Final = 64
_SAFETENSORS_CODES: Final = {name: code for code, name in SAFETENSORS_DTYPES.items()}


def is_constant(key: str) -> bool:
    """Whether this is the key of a graph's constant, and of no state."""
    digest = key.removeprefix(CONSTANT)
    return digest != key and len(digest) == _DIGEST_DIGITS and all(digit in "0123456789abcdef" for digit in digest)


def safetensors(
    weights: Mapping[str, Array],
    dtypes: Mapping[str, str] = MappingProxyType({}),
    metadata: Mapping[str, str] | None = None,
) -> tuple[int, Iterable[bytes | memoryview]]:
    """Size and content of tensors in dense arrays. The format has no gaps, so those that keep the alignment go first.

    ``dtypes`` names those that are not the arrays' own: bfloat16 is uint16 where ml_dtypes is not installed.
    """
    arrays = {name: np.asarray(array, order="C") for name, array in weights.items()}
    order = sorted(arrays, key=lambda n: (arrays[n].nbytes % ALIGNMENT != 0, -arrays[n].itemsize, n))
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    position = 0
    for name in order:
        array = arrays[name]
        span = [position, position + array.nbytes]
        code = _SAFETENSORS_CODES[dtypes.get(name, array.dtype.name)]
        header[name] = {"dtype": code, "shape": list(array.shape), "data_offsets": span}
        position += array.nbytes
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    start = struct.pack("<Q", len(text)) + text
    bodies = (arrays[name].reshape(-1).view(np.uint8).data for name in order)
    return len(start) + position, (part for parts in ((start,), bodies) for part in parts)


def dtype_names(data: memoryview) -> dict[str, str]:
    """The names of the dtypes in safetensors that ``read_safetensors`` has read."""
    header = _tensors_header(data)
    return {key: SAFETENSORS_DTYPES[entry["dtype"]] for key, entry in header.items() if key != "__metadata__"}


def _tensors_header(data: memoryview) -> dict[str, Any]:
    (size,) = struct.unpack_from("<Q", data)
    return parse_json(bytes(data[8 : 8 + size]), "the header of the tensors")


def state_content(state: Mapping[str, Array], dtypes: Mapping[str, str]) -> Iterable[bytes | memoryview]:
    """The content of a file of this state."""
    import hashlib

    digest = hashlib.sha256()
    (_, *bodies) = safetensors(state, dtypes)[1]
    for body in bodies:
        digest.update(body)
    return safetensors(state, dtypes, {"format": STATE_FORMAT, "sha256": digest.hexdigest()})[1]


def write_state(path: str | os.PathLike[str], state: Mapping[str, Array], dtypes: Mapping[str, str]) -> None:
    """Write a file of this state, whole or not at all; to a device or pipe as it is. OSError as ``open``."""
    target = os.path.realpath(path)
    if not os.path.isdir(folder := os.path.dirname(target)):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder to save in", folder)
    if os.path.isdir(target):
        raise IsADirectoryError(errno.EISDIR, "a folder stands where the file is to be", target)
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:
            file.writelines(state_content(state, dtypes))
        return
    part = os.path.join(folder, f".state-{os.urandom(8).hex()}.part")
    with open(part, "xb") as file:
        try:
            with contextlib.suppress(FileNotFoundError):  # what is replaced passes its mode on
                os.chmod(part, os.stat(target).st_mode & 0o7777)
            for body in state_content(state, dtypes):
                file.write(body)
            file.flush()
            os.fsync(file.fileno())
            file.close()  # before it is renamed, which some systems want
            os.replace(part, target)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):  # an interrupt came behind the renaming
                os.unlink(part)
            raise


def read_state(
    path: str | os.PathLike[str],
    specs: Iterable[ValueSpec],
    *,
    optional: Sequence[str] = (),
    may_have_more: bool = False,
) -> dict[str, Array]:
    """The tensors of these keys, dtypes and shapes in a file of a state; LoadError for any other file.

    Those that are ``optional`` may be missing, and where it ``may_have_more`` others are left out.
    """
    try:
        with open(path, "rb") as file:
            data = memoryview(file.read())
    except OSError as error:
        raise LoadError(f"{os.fspath(path)}: cannot be opened: {error.strerror or error}") from None
    try:
        arrays = read_safetensors(data, "the state")
        _verify_state_digest(data)
        wanted = {spec.name: spec for spec in specs if spec.name in arrays or spec.name not in optional}
        _verify_state_keys(arrays, wanted, may_have_more)
    except LoadError as error:
        raise LoadError(f"{os.fspath(path)}: {error}") from None
    return {name: arrays[name] for name in wanted}


def _verify_state_keys(arrays: Mapping[str, Array], wanted: Mapping[str, ValueSpec], may_have_more: bool) -> None:
    """LoadError where a file has other tensors than those that are wanted."""
    for name in sorted({*wanted} - {*arrays}):
        raise LoadError(f"it has no {name[:60]!r}: it is the state of another model")
    for name in sorted({*arrays} - {*wanted}):
        if not may_have_more:
            raise LoadError(f"it has {name[:60]!r}, which the model has not: it is the state of another one")
    for name, spec in wanted.items():
        array = arrays[name]
        if array.dtype != dtype_named(spec.dtype) or array.shape != spec.shape:
            raise LoadError(f"it has {name[:60]!r} as {array.dtype.name}{list(array.shape)}, and the model {spec}")


def _verify_state_digest(data: memoryview) -> None:
    """LoadError where the file says which bytes its tensors have, and they have others; other writers do not say it."""
    import hashlib

    noted = _tensors_header(data).get("__metadata__", {})
    told = noted.get("sha256") if isinstance(noted, dict) and noted.get("format") == STATE_FORMAT else None
    if told is not None and hashlib.sha256(data[8 + struct.unpack_from("<Q", data)[0] :]).hexdigest() != told:
        raise LoadError("its tensors do not match their SHA-256: it was damaged or changed")
