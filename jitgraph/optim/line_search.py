"""A line search for the strong Wolfe conditions (Nocedal and Wright 2006, algorithms 3.5 and 3.6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np

_DECREASE: Final = 1e-4
_CURVATURE: Final = 0.9


class Point(NamedTuple):
    """A point of the line: how far, the loss there, its gradient, and its slope along the line."""

    distance: float
    loss: float
    gradient: Any
    slope: float


def strong_wolfe(
    evaluate: Callable[[float], Point], distance: float, start: Point, *, length: float, tolerance: float, most: int
) -> tuple[Point, int]:
    """A point where loss and slope are small enough, or the lowest after ``most`` turns, and how many were evaluated.

    ``length`` is the largest element of the direction; an interval that moves no parameter by ``tolerance`` is narrow
    enough. Which points are tried is as in PyTorch's LBFGS.
    """
    point, before, turns = evaluate(distance), start, 0
    ends = None
    while turns < most:
        if _is_too_high(point, start) or (turns > 1 and point.loss >= before.loss):
            ends = [before, point]
            break
        if _is_flat(point, start):
            return point, turns + 1
        if point.slope >= 0:
            ends = [before, point]
            break
        bounds = (point.distance + 0.01 * (point.distance - before.distance), point.distance * 10)
        before, point = point, evaluate(_cubic_minimum(before, point, bounds))
        turns += 1
    return _narrowed(evaluate, ends or [start, point], start, length, tolerance, most, turns)


def _narrowed(
    evaluate: Callable[[float], Point],
    ends: list[Point],
    start: Point,
    length: float,
    tolerance: float,
    most: int,
    turns: int,
) -> tuple[Point, int]:
    """The interval between two points, one of which is too high or beyond the lowest, made smaller until one does."""
    is_slow = False
    low = 0 if ends[0].loss <= ends[1].loss else 1
    while turns < most:
        if abs(ends[1].distance - ends[0].distance) * length < tolerance:
            break
        least, greatest = sorted((ends[0].distance, ends[1].distance))
        distance = _cubic_minimum(ends[0], ends[1], (least, greatest))
        margin = 0.1 * (greatest - least)
        if min(greatest - distance, distance - least) < margin:
            if is_slow or distance >= greatest or distance <= least:
                at_end = abs(distance - greatest) < abs(distance - least)
                distance = greatest - margin if at_end else least + margin
                is_slow = False
            else:
                is_slow = True
        else:
            is_slow = False
        point = evaluate(distance)
        turns += 1
        if _is_too_high(point, start) or point.loss >= ends[low].loss:
            ends[1 - low] = point
            low = 0 if ends[0].loss <= ends[1].loss else 1
            continue
        is_done = _is_flat(point, start)
        if not is_done and point.slope * (ends[1 - low].distance - ends[low].distance) >= 0:
            ends[1 - low] = ends[low]
        ends[low] = point
        if is_done:
            break
    return ends[low], turns + 1


def _is_too_high(point: Point, start: Point) -> bool:
    return point.loss > start.loss + _DECREASE * point.distance * start.slope


def _is_flat(point: Point, start: Point) -> bool:
    return abs(point.slope) <= -_CURVATURE * start.slope


def _cubic_minimum(x: Point, y: Point, bounds: tuple[float, float]) -> float:
    """Where the cubic through two points with their slopes is least, within ``bounds``; their middle where nowhere."""
    if x.distance > y.distance:
        x, y = y, x
    with np.errstate(all="ignore"):
        span = np.float64(y.distance) - x.distance
        first = x.slope + y.slope - 3 * (x.loss - y.loss) / -span
        square = first * first - x.slope * y.slope
        if not square >= 0:
            return (bounds[0] + bounds[1]) / 2.0
        root = np.sqrt(square)
        minimum = y.distance - span * ((y.slope + root - first) / (y.slope - x.slope + 2 * root))
    return float(min(max(minimum, bounds[0]), bounds[1]))
