"""Padding, interpolation, windows and sampled grids."""

from __future__ import annotations

from itertools import product
from typing import Any

from tests.coverage.case import Case, case, uniform

IMAGE = (2, 3, 4, 5)


def _call(name: str, **options: Any) -> Any:
    return lambda m, *operands: getattr(m.nn.functional, name)(*operands, **options)


def _interpolated() -> list[Case]:
    results = []
    for mode, shape, corners in (
        ("nearest", (2, 2, 5), None),
        ("nearest-exact", IMAGE, None),
        ("linear", (2, 2, 5), False),
        ("bilinear", IMAGE, False),
        ("bilinear", IMAGE, True),
        ("bicubic", IMAGE, False),
        ("bicubic", IMAGE, True),
        ("trilinear", (1, 2, 3, 4, 2), False),
        ("area", IMAGE, None),
    ):
        for option in ({"size": 7}, {"size": 3}, {"scale_factor": 1.6}):
            options = dict(option, mode=mode) if corners is None else dict(option, mode=mode, align_corners=corners)
            name = ", ".join(f"{key}={value}" for key, value in options.items())
            results.append(case(f"interpolate, {name}", _call("interpolate", **options), None, shape))
    for mode, corners in (("bilinear", False), ("bilinear", True), ("bicubic", False), ("lanczos", False)):
        for option in ({"size": (3, 9)}, {"scale_factor": 0.4}):
            options = {**option, "mode": mode, "align_corners": corners, "antialias": True}
            name = ", ".join(f"{key}={value}" for key, value in options.items())
            results.append(case(f"interpolate, {name}", _call("interpolate", **options), None, (2, 3, 8, 7)))
    return results


CASES = [
    *(
        case(
            f"nn.functional.pad, {mode}",
            lambda m, x, mode=mode: m.nn.functional.pad(x, (1, 2, 2, 1), mode=mode),
            None,
            IMAGE,
        )
        for mode in ("constant", "reflect", "replicate", "circular")
    ),
    case("nn.functional.pad, negative", lambda m, x: m.nn.functional.pad(x, (-1, 2), value=1.5), None, IMAGE),
    *_interpolated(),
    case(
        "nn.functional.unfold",
        _call("unfold", kernel_size=(2, 3), dilation=(1, 2), padding=1, stride=(2, 1)),
        None,
        (2, 3, 5, 6),
    ),
    case("nn.functional.fold", _call("fold", output_size=(4, 5), kernel_size=2, padding=1, stride=2), None, (2, 8, 9)),
    case("pixel_shuffle", _call("pixel_shuffle", upscale_factor=2), None, (2, 8, 2, 3)),
    case("pixel_unshuffle", _call("pixel_unshuffle", downscale_factor=2), None, (2, 2, 4, 6)),
    case(
        "channel_shuffle",
        lambda m, x: m.nn.functional.channel_shuffle(x, 2),
        lambda t, x: t.nn.ChannelShuffle(2)(x),
        (2, 4, 2, 3),
    ),
    case("affine_grid", _call("affine_grid", size=(2, 1, 3, 4), align_corners=False), None, (2, 2, 3)),
    case("affine_grid, corners", _call("affine_grid", size=(2, 1, 2, 3, 4), align_corners=True), None, (2, 3, 4)),
    *(
        case(
            f"grid_sample, {mode}, {padding}, align_corners={corners}",
            _call("grid_sample", mode=mode, padding_mode=padding, align_corners=corners),
            None,
            IMAGE,
            uniform((2, 3, 3, 2), -1.7, 1.7),
            second=False,
        )
        for mode, padding, corners in product(
            ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
        )
    ),
    case(
        "grid_sample of volumes",
        _call("grid_sample", align_corners=False),
        None,
        (1, 2, 3, 2, 4),
        uniform((1, 2, 2, 2, 3), -1.2, 1.2),
        second=False,
    ),
]
