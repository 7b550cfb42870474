"""The weights: a safetensors member as arrays over the file's bytes."""

from __future__ import annotations

import struct

import numpy as np

from jitgraph.runtime.loader.archive import AGAIN, WEIGHTS
from jitgraph.runtime.loader.dtypes import SAFETENSORS_DTYPES, Array, dtype_named
from jitgraph.runtime.loader.errors import LoadError
from jitgraph.runtime.loader.json_objects import MAX_JSON_BYTES, get_typed, parse_json
from jitgraph.runtime.loader.sizes import INT64_MAX, MAX_RANK


def read_safetensors(data: memoryview) -> dict[str, Array]:
    """Read-only arrays over ``data`` (8 bytes of header length, a JSON header, the tensors without gaps).

    Nothing is copied but tensors that are not aligned to their element.
    """
    if len(data) < 8:
        raise LoadError(f"{WEIGHTS} has {len(data)} bytes, less than its header's length field")
    (size,) = struct.unpack_from("<Q", data)
    if size > min(len(data) - 8, MAX_JSON_BYTES):
        raise LoadError(f"{WEIGHTS} says its header has {size} bytes, but the file has {len(data)}; {AGAIN}")
    header = parse_json(bytes(data[8 : 8 + size]), f"the header of {WEIGHTS}")
    header.pop("__metadata__", None)
    body = data[8 + size :]
    arrays: dict[str, Array] = {}
    spans: list[tuple[int, int, str]] = []
    for name, entry in header.items():
        where = f"{WEIGHTS}, tensor {name[:60]!r}"
        code = get_typed(entry, "dtype", str, where)
        if code not in SAFETENSORS_DTYPES:
            raise LoadError(f"{where}: dtype {code[:20]!r} is not supported; one of {', '.join(SAFETENSORS_DTYPES)}")
        dtype = dtype_named(SAFETENSORS_DTYPES[code])
        shape = get_typed(entry, "shape", list, where)
        offsets = get_typed(entry, "data_offsets", list, where)
        sound = all(type(number) is int and 0 <= number <= INT64_MAX for number in (*shape, *offsets))
        if not sound or len(offsets) != 2 or len(shape) > MAX_RANK:
            raise LoadError(f"{where}: shape {shape!r:.60} or offsets {offsets!r:.60} are not sizes")
        begin, end = offsets
        elements = 1
        for extent in shape:
            elements *= extent
        if not begin <= end <= len(body) or end - begin != elements * dtype.itemsize:
            raise LoadError(f"{where}: bytes {begin} to {end} of {len(body)} do not hold {code}{shape!r:.60}; {AGAIN}")
        try:
            array: Array = np.frombuffer(body[begin:end], dtype).reshape(shape)
        except ValueError as error:
            raise LoadError(f"{where}: {error}") from None
        if code == "BOOL" and elements and int(array.view(np.uint8).max()) > 1:
            raise LoadError(f"{where}: a bool that is neither 0 nor 1; {AGAIN}")
        if not array.flags.aligned:
            array = array.copy()
        array.flags.writeable = False
        arrays[name] = array
        spans.append((begin, end, name))
    reached = 0
    for begin, end, name in sorted(spans):
        if begin != reached:
            raise LoadError(f"{WEIGHTS}: tensor {name[:60]!r} begins at {begin}, where {reached} is due; {AGAIN}")
        reached = end
    if reached != len(body):
        raise LoadError(f"{WEIGHTS} has {len(body)} bytes of data, its tensors {reached}; {AGAIN}")
    return arrays
