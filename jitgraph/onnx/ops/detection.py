"""Boxes in images: which of them to keep, and what lies in them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jitgraph.onnx import values
from jitgraph.onnx.registry import define
from jitgraph.tensor import functions as fn


def _overlap(a: Any, boxes: Any) -> Any:
    """Intersection over union of a box and others, each as y1, x1, y2, x2 in order."""
    low, high = np.maximum(a[:2], boxes[:, :2]), np.minimum(a[2:], boxes[:, 2:])
    common = np.maximum(high - low, 0).prod(1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    union = (a[2:] - a[:2]).prod() + areas - common
    return np.where(union > 0, common / np.where(union > 0, union, 1), 0)


@define("NonMaxSuppression", host=(0, 1, 2, 3, 4), raw=True)
def non_max_suppression(
    boxes: Any,
    scores: Any,
    most: Any = None,
    iou_threshold: Any = None,
    score_threshold: Any = None,
    center_point_box: int = 0,
) -> Any:
    all_boxes, all_scores = (values.host(each, "which boxes are selected") for each in (boxes, scores))
    count, limit, floor = (
        None if each is None else values.one(values.host(each, "a threshold"))
        for each in (most, iou_threshold, score_threshold)
    )
    selected = []
    for batch, (own, table) in enumerate(zip(all_boxes, all_scores, strict=True)):
        if center_point_box:
            half = own[:, 2:] / 2
            x1y1, x2y2 = own[:, :2] - half, own[:, :2] + half
            corners = np.concatenate([x1y1[:, ::-1], x2y2[:, ::-1]], 1)
        else:
            corners = np.concatenate([np.minimum(own[:, :2], own[:, 2:]), np.maximum(own[:, :2], own[:, 2:])], 1)
        for group, row in enumerate(table):
            order = [int(i) for i in np.argsort(-row, kind="stable") if floor is None or row[i] > floor]
            taken: list[int] = []
            for i in order:
                if len(taken) >= (count or 0):
                    break
                if not taken or (_overlap(corners[i], corners[taken]) <= (limit or 0)).all():
                    taken.append(i)
            selected += [(batch, group, i) for i in taken]
    return np.array(selected, np.int64).reshape(-1, 3)


@define("RoiAlign", since=16)
def roi_align(
    x: Any,
    rois: Any,
    batch_indices: Any,
    coordinate_transformation_mode: str = "half_pixel",
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    shift = 0.5 if coordinate_transformation_mode == "half_pixel" else 0.0
    return _roi_align(x, rois, batch_indices, shift, mode, (output_height, output_width), sampling_ratio, spatial_scale)


@define("RoiAlign")
def old_roi_align(
    x: Any,
    rois: Any,
    batch_indices: Any,
    mode: str = "avg",
    output_height: int = 1,
    output_width: int = 1,
    sampling_ratio: int = 0,
    spatial_scale: float = 1.0,
) -> Any:
    return _roi_align(x, rois, batch_indices, 0.0, mode, (output_height, output_width), sampling_ratio, spatial_scale)


def _roi_align(
    x: Any, rois: Any, batch_indices: Any, shift: float, mode: str, out: tuple[int, int], ratio: int, scale: float
) -> Any:
    """Means, or maxima, of samples in each cell of a region; as many samples as the region has pixels for 0."""
    channels = x.shape[1]
    if ratio <= 0:
        boxes = values.host(rois, "the number of samples of RoiAlign")
        batches = values.host(batch_indices, "the number of samples of RoiAlign")
        spans = [[_extent(box[i + 2] - box[i], scale, shift) / out[1 - i] for i in (1, 0)] for box in boxes]
        counts = [(max(1, math.ceil(rows)), max(1, math.ceil(columns))) for rows, columns in spans]
        parts = [
            _sampled(
                x, fn.asarray(boxes[i : i + 1]), fn.asarray(batches[i : i + 1]), shift, mode, out, counts[i], scale
            )
            for i in range(len(boxes))
        ]
        return fn.concat(parts, axis=0) if parts else fn.zeros((0, channels, *out), dtype=x.dtype)
    return _sampled(x, rois, batch_indices, shift, mode, out, (ratio, ratio), scale)


def _extent(length: float, scale: float, shift: float) -> float:
    own = length * scale
    return own if shift else max(own, 1.0)


def _sampled(
    x: Any, rois: Any, batch: Any, shift: float, mode: str, out: tuple[int, int], samples: tuple[int, int], scale: float
) -> Any:
    _, channels, height, width = x.shape
    count = rois.shape[0]
    box = rois * scale - shift
    places = []
    for first, size, parts, limit in ((1, out[0], samples[0], height), (0, out[1], samples[1], width)):
        start = box[:, first : first + 1]
        length = box[:, first + 2 : first + 3] - start
        if not shift:
            length = fn.maximum(length, 1.0)
        steps = (np.arange(size * parts) + 0.5) / parts
        places.append((start + length / size * fn.asarray(steps, dtype=x.dtype), limit))
    weights = []
    for place, limit in places:
        inside = (place >= -1.0) & (place <= limit)
        own = fn.clip(place, 0, limit - 1)
        low = fn.floor(own)
        high = fn.minimum(low + 1, limit - 1)
        part = own - low
        weights.append((low, high, part, inside))
    (top, bottom, dy, in_y), (left, right, dx, in_x) = weights
    flat = fn.reshape(fn.permute_dims(x, (0, 2, 3, 1)), (-1, channels))
    base = fn.reshape(fn.astype(batch, np.int64), (count, 1, 1)) * (height * width)
    terms = []
    for row, wy in ((top, 1 - dy), (bottom, dy)):
        for column, wx in ((left, 1 - dx), (right, dx)):
            own_rows, own_columns = fn.astype(row, np.int64), fn.astype(column, np.int64)
            index = base + fn.expand_dims(own_rows, axis=2) * width + fn.expand_dims(own_columns, axis=1)
            weight = fn.expand_dims(wy, axis=2) * fn.expand_dims(wx, axis=1)
            terms.append(fn.take(flat, index, axis=0) * fn.expand_dims(weight, axis=3))
    mask = fn.expand_dims(fn.expand_dims(in_y, axis=2) & fn.expand_dims(in_x, axis=1), axis=3)
    shape = (count, out[0], samples[0], out[1], samples[1], channels)
    if mode == "avg":
        total = terms[0] + terms[1] + terms[2] + terms[3]
        own = fn.reshape(fn.where(mask, total, fn.zeros_like(total)), shape)
        result = fn.mean(own, axis=(2, 4))
    else:
        largest = fn.maximum(fn.maximum(terms[0], terms[1]), fn.maximum(terms[2], terms[3]))
        own = fn.reshape(fn.where(mask, largest, fn.zeros_like(largest)), shape)
        result = fn.max(own, axis=(2, 4))
    return fn.permute_dims(result, (0, 3, 1, 2))
