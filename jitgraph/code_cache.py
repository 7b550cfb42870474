"""Compiled graphs in the persistent cache: what is in a key and an entry, and the signature of a graph's entry."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from jitgraph import config, dtypes
from jitgraph.errors import CompileError
from jitgraph.ir import dims
from jitgraph.ir.graph import Graph, Value
from jitgraph.ir.op import Op, has
from jitgraph.ir.target import Target
from jitgraph.ir.types import TensorType
from jitgraph.records import NamedTuple
from jitgraph.runtime import disk_cache, loader, sources
from jitgraph.runtime.loader.image import machine_here
from jitgraph.runtime.loader.json_objects import parse_json

if TYPE_CHECKING:
    from jitgraph.codegen.kernels.schedule import Schedule
    from jitgraph.runtime.device_payload import DevicePayload, LibraryProduct

# ----------------------------------------------------------------------
# The contract of a graph with its caller: the signature of its entry.

Donation: TypeAlias = "int | tuple[int, int]"
"""An input whose memory an output may take over, or a pair (output, input)."""


def signature_of(graph: Graph, schedule: Schedule | None) -> loader.Signature:
    """What the entry of a graph takes and gives; with a schedule its checks, sizes and donations too."""
    names: dict[str, int] = {}
    inputs = tuple(_spec(value, f"x{i}", names) for i, value in enumerate(graph.inputs))
    outputs = tuple(_spec(value, f"out{i}", {}) for i, value in enumerate(graph.outputs))
    if schedule is None:
        sizes = sorted({name for value in graph.inputs for extent in value.shape for name in dims.names(extent)})
        return loader.Signature(
            inputs, outputs, dims=tuple(sizes), constraints=tuple(map(str, graph.constraints)), name=graph.name
        )
    positions = {buffer.name: buffer.position for buffer in schedule.buffers}
    donations = schedule.plan.donations if schedule.plan else {}
    return loader.Signature(
        inputs,
        outputs,
        aliases=tuple((positions[output], positions[donor]) for output, donor in donations.items()),
        dims=schedule.sizes,
        constraints=tuple(map(str, schedule.constraints)),
        checks=tuple(
            loader.Check(site.message, site.kind, str(site.location) if site.location else "")
            for site in schedule.checks
        ),
        prints=schedule.prints,
        name=graph.name,
    )


def _spec(value: Value, fallback: str, names: dict[str, int]) -> loader.ValueSpec:
    if not isinstance(value.type, TensorType):
        raise CompileError(f"a {value.type} is no input or output of compiled code")
    name = value.hint or fallback
    names[name] = names.get(name, 0) + 1
    if names[name] > 1:
        name = f"{name}_{names[name] - 1}"
    shape = tuple(extent if isinstance(extent, int) else str(extent) for extent in value.shape)
    return loader.ValueSpec(name, value.dtype.name, shape)


# ----------------------------------------------------------------------
# Compiled graphs in the persistent cache: what is in a key, and what an entry holds.
#
# A key has all that the code or its signature follows from: the graph's canonical text (constants by content), names,
# donations, the target with its options, and the digest of jitgraph's sources and libraries. Source lines as errors
# show them are in the key of code that tells any, and of no other, so that a function may move in its file. An entry is
# the flat image behind the signature in JSON; of code for GPUs also the PTX, the IR that it was made of, and constants.

_LENGTH: Final = struct.Struct("<Q")
_DEVICE: Final = b"JGDEVICE"  # where an image begins, of code for GPUs
_SHOW_STAGES: Final = tuple(sorted(config.LOG_TOPICS - {"cache"}))


class Cached(NamedTuple):
    """A compiled graph as an entry holds it; ``parts`` of code for GPUs."""

    image: bytes
    signature: loader.Signature
    parts: DevicePayload | None = None


class CodeEntry:
    """The place of one compiled graph in the persistent cache, there or yet to be written."""

    def __init__(self, cache: disk_cache.DiskCache, name: str, key: str, key_with_lines: str) -> None:
        self._cache = cache
        self._name = name
        self.key = key
        self.key_with_lines = key_with_lines

    def find(self) -> Cached | None:
        """The code that an earlier process made; None where there is none that is sound."""
        for key, which in (self.key, ""), (self.key_with_lines, ", for these lines"):
            content = self._cache.find(key, f"code of {self._name}{which}")
            if content is not None:
                try:
                    return _decoded(content)
                except loader.LoadError as error:
                    self._cache.remove(key, str(error))
        return None

    def store(self, compiled: Cached) -> None:
        """Remember code that was just made, unless the sources changed meanwhile."""
        if not sources.OWN.unchanged():
            return
        signature = compiled.signature
        text = json.dumps(signature.to_json()).encode()
        code = compiled.image if compiled.parts is None else _packed(compiled.image, compiled.parts)
        content = _LENGTH.pack(len(text)) + text + code
        try:
            decoded = _decoded(content)
            if decoded[:2] != compiled[:2] or not _same(decoded.parts, compiled.parts):
                return
        except loader.LoadError:  # a signature that JSON cannot hold
            return
        tells_lines = bool(signature.checks or signature.prints)
        self._cache.store(self.key_with_lines if tells_lines else self.key, content)


def entry_of(graph: Graph, target: Target, donate: Sequence[Donation]) -> CodeEntry | None:
    """Where the code of ``graph`` belongs; None where no earlier code would do, or there is no cache."""
    cache = disk_cache.current()
    if cache is None:
        return None
    if reason := _unfit(graph):
        config.log("cache", f"code of {graph.name}: not looked up, {reason}")
        return None
    hints = [repr(value.hint) for value in (*graph.inputs, *graph.outputs)]
    donations = [str(each) for each in donate]
    key = disk_cache.key_of(
        "code",
        str(sources.OWN.digest),
        target.text,
        graph.name,
        graph.canonical,
        *(text for part in (hints, donations) for text in (str(len(part)), *part)),
    )
    return CodeEntry(cache, graph.name, key, disk_cache.key_of(key, *_lines(graph)))


def entry_of_op(op: Op, target: Target, parts: Sequence[str]) -> CodeEntry | None:
    """Where the code of a single op belongs, which ``parts`` tell from all other code of ops; None as ``entry_of``.

    The op is its name, and a fused op its meaning, too: no graph has to be made to look its code up.
    """
    cache, is_fused = disk_cache.current(), "fused_op" in op.traits
    if cache is None or unfit_here() or not (is_fused or has(op)):
        return None
    key = disk_cache.key_of("op", str(sources.OWN.digest), target.text, op.name, op.doc if is_fused else "", *parts)
    return CodeEntry(cache, op.name, key, key)


def unfit_here() -> str:
    """Why no earlier code would do in this process, or nothing."""
    if config.VERIFY.is_on() or any(map(config.logs, _SHOW_STAGES)):
        return "as its stages are to be shown or verified"
    if sources.OWN.digest is None:
        return "as jitgraph's sources cannot be read, or have changed since this process began"
    return ""


def _unfit(graph: Graph) -> str:
    """Why no earlier code would do for a graph, or nothing."""
    if reason := unfit_here():
        return reason
    if any(node.op.lowering == "host" for node in graph.walk()):
        return "as it calls Python"
    if not all(map(has, {node.op for node in graph.walk()})):
        return "as it applies an op that is not of the table, whose meaning no text tells"
    return ""


def _lines(graph: Graph) -> list[str]:
    """Where each node comes from, as errors tell it: from the working directory on."""
    locations = [node.location for node in graph.walk()]
    try:
        texts = {location: str(location) for location in set(locations)}
    except OSError:  # that directory is gone
        texts = {location: repr(location) for location in set(locations)}
    return [texts[location] for location in locations]


def _decoded(content: bytes) -> Cached:
    """The content of an entry; LoadError where it is malformed."""
    if len(content) < _LENGTH.size:
        raise loader.LoadError("the entry is too short")
    (length,) = _LENGTH.unpack_from(content)
    end = _LENGTH.size + length
    if end > len(content):
        raise loader.LoadError("the signature is cut")
    signature = loader.Signature.from_json(parse_json(content[_LENGTH.size : end], "the signature"))
    image, parts = content[end:], None
    if image.startswith(_DEVICE):
        try:
            image, parts = _unpacked(image)
        except (KeyError, TypeError, ValueError, struct.error, zlib.error) as error:
            raise loader.LoadError(f"the code for a GPU is malformed: {error!r:.80}") from None
    if loader.ImageHeader.parse(image).machine != machine_here():
        raise loader.LoadError("the image is for another machine")
    return Cached(image, signature, parts)


def _packed(image: bytes, parts: DevicePayload) -> bytes:
    """The image of the host with what goes with it, behind a header in JSON that tells their lengths."""
    arrays = [np.ascontiguousarray(array) for array in parts.constants]
    pieces = [image, parts.ptx, zlib.compress(parts.llvm_ir.encode(), 1), *(array.tobytes() for array in arrays)]
    header = {
        "functions": parts.functions,
        "driver": parts.driver,
        "reports": parts.reports,
        "host_sizes": parts.host_sizes,
        "launches": parts.launches,
        "products": parts.products,
        "constants": [[array.dtype.name, list(array.shape)] for array in parts.constants],
        "bytes": [len(piece) for piece in pieces],
    }
    text = json.dumps(header).encode()
    return _DEVICE + _LENGTH.pack(len(text)) + text + b"".join(pieces)


def _unpacked(content: bytes) -> tuple[bytes, DevicePayload]:
    """What ``_packed`` took; any error of Python's where it is malformed."""
    from jitgraph.runtime.device_payload import DevicePayload, LibraryProduct  # here: most processes have no GPU

    def product(dtype: str, result_dtype: str, tf32: bool, batch: int, *matrices: Sequence[int]) -> LibraryProduct:
        left, right, result = ((int(a), int(b), int(c), int(d), int(e)) for a, b, c, d, e in matrices)
        return LibraryProduct(str(dtype), str(result_dtype), bool(tf32), int(batch), left, right, result)

    start = len(_DEVICE) + _LENGTH.size
    (length,) = _LENGTH.unpack_from(content, len(_DEVICE))
    header = parse_json(content[start : start + length], "the header of code for a GPU")
    pieces, at = [], start + length
    for size in header["bytes"]:
        pieces.append(content[at : at + size])
        at += size
    if at != len(content):
        raise ValueError("it is cut")
    image, ptx, llvm_ir, *data = pieces
    constants = tuple(
        np.frombuffer(each, dtypes.canonical(name)).reshape(shape)
        for (name, shape), each in zip(header["constants"], data, strict=True)
    )
    parts = DevicePayload(
        ptx=ptx,
        llvm_ir=zlib.decompress(llvm_ir).decode(),
        functions=tuple(header["functions"]),
        driver=tuple(header["driver"]),
        constants=constants,
        reports=header["reports"],
        host_sizes=tuple(header["host_sizes"]),
        launches=header["launches"],
        products=tuple(product(*each) for each in header["products"]),
    )
    return image, parts


def _same(a: DevicePayload | None, b: DevicePayload | None) -> bool:
    """Whether an entry holds what it was made of, constants by their bits."""
    if a is None or b is None:
        return a is b
    pairs = zip(a.constants, b.constants, strict=True)
    plain = [[getattr(parts, name) for name in parts._fields if name != "constants"] for parts in (a, b)]
    return plain[0] == plain[1] and all(x.dtype == y.dtype and x.tobytes() == y.tobytes() for x, y in pairs)
