"""Arrays from files and to files by their endings: NumPy's, safetensors, JSON, and images where Pillow is."""

from __future__ import annotations

import json
import math
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from jitgraph.artifact import safetensors
from jitgraph.errors import DTypeError, LoadError
from jitgraph.runtime.atomic_file import replacing
from jitgraph.runtime.loader import dtype_named, read_safetensors
from jitgraph.runtime.loader.specs import SAFETENSORS_DTYPES

Array: TypeAlias = NDArray[Any]

IMAGES: Final = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
READ: Final = (".npy", ".npz", ".safetensors", ".json", *IMAGES)
WRITTEN: Final = (".npy", ".npz", ".safetensors", ".json")
_CHANNELS: Final = (1, 3, 4)


class LooseArray:
    """Numbers whose file says no dtype, or an image: what they are as an array depends on the input that takes them."""

    def __init__(self, content: Any, *, is_image: bool = False) -> None:
        self.content = content
        self.is_image = is_image


def read_arrays(path: str | os.PathLike[str]) -> dict[str, Array | LooseArray]:
    """The arrays of a file by name; "" is the name of the only one in a file that has no names.

    JSON is an object of arrays by name, or one array as nested lists. LoadError for a file that is damaged, has an
    ending that is not known, or holds pickled objects, which are not read.
    """
    file = Path(path)
    ending = file.suffix.lower()
    try:
        if ending == ".npy":
            with open(file, "rb") as stream:
                return {"": _numpy(stream)}
        if ending == ".npz":
            return _npz(file)
        if ending == ".safetensors":
            return dict(read_safetensors(memoryview(file.read_bytes()), "it"))
        if ending == ".json":
            return _json(file)
        if ending in IMAGES:
            return {"": _image(file)}
    except OSError as error:
        raise LoadError(f"{file} cannot be read: {error.strerror or error}") from None
    except LoadError as error:
        raise LoadError(f"{file}: {error}") from None
    kind = "a folder" if file.is_dir() else ending or "a file without ending"
    raise LoadError(f"{file}: arrays are read from {', '.join(READ)}, not from {kind}")


def _numpy(file: Any) -> Array:
    try:
        array = np.load(file, allow_pickle=False)
    except (ValueError, EOFError, zipfile.BadZipFile, MemoryError, OverflowError) as error:
        raise LoadError(f"it is no sound .npy file: {error}") from None
    if not isinstance(array, np.ndarray):
        raise LoadError("it is no .npy file but an archive; name it .npz")
    return array


def _npz(file: Path) -> dict[str, Array | LooseArray]:
    try:
        with open(file, "rb") as stream, np.load(stream, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, KeyError, AttributeError, TypeError, zipfile.BadZipFile, MemoryError) as error:
        raise LoadError(f"it is no sound .npz file: {error}") from None
    except (NotImplementedError, RuntimeError, OverflowError) as error:  # a zip that is encrypted or of a new kind
        raise LoadError(f"it is no sound .npz file: {error}") from None


def _json(file: Path) -> dict[str, Array | LooseArray]:
    try:
        content = parsed(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise LoadError(f"it is no JSON: {error}") from None
    named = content if isinstance(content, dict) else {"": content}
    return {name: loose_array(value, name[:60] or "its content") for name, value in named.items()}


def parsed(text: str | bytes) -> Any:
    """JSON; ValueError for what is none, for a name that stands twice, and for a number too large for float64."""
    return json.loads(text, parse_float=_number, object_pairs_hook=_unique)


def _number(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"float64 does not hold {text[:40]}")
    return value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    named = dict(pairs)
    if len(named) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)[:60]!r} stands twice")
    return named


def loose_array(value: Any, name: str) -> LooseArray:
    """Nested lists as an array that takes the dtype of its input; LoadError where they are none."""
    _verify_numbers(value, name)
    return LooseArray(value)


def _verify_numbers(value: Any, where: str) -> None:
    """LoadError where nested lists are not numbers, bools, or "nan", "inf" and "-inf" in the shape of one array."""
    level = [value]
    while any(isinstance(item, list) for item in level):
        if not all(isinstance(item, list) for item in level) or len({len(item) for item in level}) > 1:
            raise LoadError(f"{where} is no array: its lists differ in length or depth")
        level = [inner for item in level for inner in item]
    for item in level:
        if not isinstance(item, bool | int | float) and item not in _WORDS:
            raise LoadError(f"{where} is no array of numbers: {str(item)!r:.40} stands in it")


_WORDS: Final = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def _with_words(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_with_words, value))
    return _WORDS.get(value, value) if isinstance(value, str) else value


def _image(file: Path) -> LooseArray:
    try:
        from PIL import Image
    except ModuleNotFoundError:
        raise LoadError("images are read by Pillow, which is not installed\n  hint: pip install pillow") from None
    try:
        with Image.open(file) as image:
            loaded = image if image.mode in ("L", "RGB", "RGBA", "I;16", "F") else image.convert("RGB")
            return LooseArray(np.asarray(loaded), is_image=True)
    except OSError as error:
        if error.errno is not None:
            raise
        raise LoadError("it is no image that Pillow can read") from None
    except (ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise LoadError(f"it is no image that Pillow can read: {error}") from None


def fitted(name: str, value: Array | LooseArray, dtype: str, shape: tuple[int | str, ...], *, cast: bool) -> Array:
    """The array for an input of this dtype and shape; DTypeError where numbers would change that nobody wants changed.

    An array of a file keeps its dtype unless ``cast``. Numbers without a dtype take the input's, if it holds them. An
    image has its channels last, or before its height where ``shape`` says 1, 3 or 4 there, and a batch of one where the
    rank is 4; a float input gets it divided by its greatest value, between 0 and 1.
    """
    wanted = dtype_named(dtype)
    if isinstance(value, LooseArray):
        return _pixels(value.content, wanted, shape) if value.is_image else _numbers(name, value.content, wanted)
    return value.astype(wanted) if cast else value


def _numbers(name: str, content: Any, wanted: np.dtype[Any]) -> Array:
    try:
        plain = np.array(_with_words(content))
        plain = plain.astype(wanted) if plain.size == 0 else plain
        with np.errstate(all="ignore"):
            array = plain.astype(wanted)
    except (ValueError, OverflowError, TypeError) as error:
        raise DTypeError(f"{name}: {wanted.name} does not hold what the JSON has: {error}") from None
    if wanted.kind in "iub":
        is_held = bool((array.astype(plain.dtype) == plain).all())
    else:
        is_held = plain.dtype == object or bool(np.isfinite(array)[np.isfinite(plain)].all())
    if not is_held or (wanted.kind != "b" and plain.dtype == object):
        raise DTypeError(f"{name}: {wanted.name} does not hold every number that the JSON has")
    return array


def _pixels(pixels: Array, wanted: np.dtype[Any], shape: tuple[int | str, ...]) -> Array:
    rank = len(shape)
    if pixels.ndim == 2 and rank > 2:
        pixels = pixels[:, :, None]
    if pixels.ndim == 3 and rank > 2 and shape[-3] in _CHANNELS and shape[-1] not in _CHANNELS:
        pixels = np.moveaxis(pixels, 2, 0)
    if rank == 4:
        pixels = pixels[None]
    if wanted.kind in "iub" or pixels.dtype.kind == "f":
        return np.ascontiguousarray(pixels).astype(wanted)
    return (np.ascontiguousarray(pixels) / np.float64(np.iinfo(pixels.dtype).max)).astype(wanted)


def write_arrays(path: str | os.PathLike[str], arrays: Mapping[str, Array]) -> None:
    """Write arrays by name to a file of the kind that its ending says, whole or not at all.

    An .npy file takes one array. ValueError for another number of them and for an ending that is not known; OSError.
    """
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in WRITTEN:
        raise ValueError(f"{os.fspath(path)}: arrays are written to {', '.join(WRITTEN)}")
    if ending == ".npy" and len(arrays) != 1:
        raise ValueError(f"{os.fspath(path)}: an .npy file takes one array, not {len(arrays)}; write an .npz file")
    if ending == ".safetensors" and (odd := [a.dtype.name for a in arrays.values() if a.dtype.name not in _STORED]):
        raise ValueError(f"{os.fspath(path)}: safetensors has no {odd[0]}; write an .npz file")
    with replacing(path) as file:
        if ending == ".npy":
            np.save(file, next(iter(arrays.values())), allow_pickle=False)
        elif ending == ".npz":
            _write_npz(file, arrays)
        elif ending == ".safetensors":
            for chunk in safetensors(arrays)[1]:
                file.write(chunk)
        else:
            file.write(json.dumps({name: plain(array) for name, array in arrays.items()}, allow_nan=False).encode())


def _write_npz(file: IO[bytes], arrays: Mapping[str, Array]) -> None:
    """As ``np.savez``, which takes no array called ``file``."""
    with zipfile.ZipFile(file, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


_STORED: Final = frozenset(SAFETENSORS_DTYPES.values())


def plain(array: Array) -> Any:
    """An array as JSON: nested lists; "nan", "inf" and "-inf" for what JSON cannot write, [re, im] for complex."""
    if array.dtype.kind == "c":
        return plain(np.stack([array.real, array.imag], axis=-1))
    values = array.astype(np.float64).tolist() if array.dtype.kind not in "iub" else array.tolist()
    return _finite(values)


def _finite(value: Any) -> Any:
    if isinstance(value, list):
        return list(map(_finite, value))
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
