"""L-BFGS (Liu and Nocedal 1989): a quasi-Newton method for closures that evaluate one function."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from jitgraph.autograd import enable_grad, no_grad
from jitgraph.dtypes import is_complex, part_of
from jitgraph.errors import JitgraphError, TraceError
from jitgraph.ir import context
from jitgraph.optim.optimizer import Optimizer
from jitgraph.optim.settings import SettingError, rate
from jitgraph.tensor import Tensor
from jitgraph.tensor.functions.complex_numbers import view_as_complex, view_as_real
from jitgraph.tensor.functions.creation import asarray, zeros
from jitgraph.tensor.functions.elementwise import abs as absolute
from jitgraph.tensor.functions.manipulation import concat
from jitgraph.tensor.functions.reductions import max as greatest
from jitgraph.tensor.functions.reductions import sum as total

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


_LEAST_CURVATURE = 1e-10


class LBFGS(Optimizer):
    """Up to ``max_iter`` quasi-Newton moves a step, each by an inverse Hessian estimated from recent moves.

    ``step(closure)`` calls the closure up to ``max_eval`` times; how often depends on what it returns, so the closure
    may be a traced function but the step runs outside of traces (TraceError inside). With
    ``line_search_fn="strong_wolfe"`` each move's length is searched for. One group of parameters alone.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise SettingError(f"LBFGS: line_search_fn is None or 'strong_wolfe', not {line_search_fn!r}")
        defaults = {
            "lr": rate(lr),
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": float(tolerance_grad),
            "tolerance_change": float(tolerance_change),
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """The one group; JitgraphError for a second, or one with settings of its own."""
        if self.param_groups:
            raise SettingError("LBFGS takes one group of parameters, as it moves all of them along one direction")
        super().add_param_group(param_group)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Moves until ``max_iter``, ``max_eval`` or a tolerance is reached; returns what the closure gave first."""
        if closure is None:
            what = "LBFGS evaluates the loss several times a step: step(closure)"
            raise JitgraphError(
                f"{what}\n  hint: def closure(): optimizer.zero_grad(); loss = ...; loss.backward(); return loss"
            )
        if context.current().trace is not None:
            raise TraceError(
                "a step of LBFGS calls its closure as often as the losses ask for, which a trace cannot record",
                hint="trace the closure, and call optimizer.step(closure) outside of traces",
            )
        self._run_hooks("before", (closure,), {})
        with no_grad():
            loss = _Moves(self.param_groups[0], self._states[0], closure).run()
        self._run_hooks("after", (closure,), {})
        return loss

    def state_dict(self) -> dict[str, Any]:
        """The history of moves as PyTorch names it, with NumPy arrays for tensors, and the group's settings."""
        self._notify("saving")
        (own,) = self.param_groups
        group = {**self._saved_settings(own), "params": list(range(len(own["params"])))}
        like = own["params"][0]
        state = {name: self._saved(_tensors(name, value, like)) for name, value in self._states[0].items()}
        saved = {"state": {0: state} if state else {}, "param_groups": [group]}
        changed: dict[str, Any] = self._changed("saved", saved)
        return changed

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what ``state_dict`` gave, here or in PyTorch; JitgraphError where it is none of LBFGS."""
        state = self._changed("loading", dict(state_dict))
        if missing := [key for key in ("state", "param_groups") if key not in state]:
            raise JitgraphError(f"this is no state of an optimiser: it has no {missing[0]!r}")
        (group, *more), own = state["param_groups"], self.param_groups[0]
        if more or len(group["params"]) != len(own["params"]):
            raise SettingError("the saved optimiser has other parameter groups")
        saved = state["state"].get(0, state["state"].get("0", {}))
        if saved and not {"n_iter", "func_evals"} <= saved.keys():
            raise JitgraphError(f"the saved state has {sorted(saved)}; it is of another optimiser than LBFGS")
        size, like = _size(own["params"]), own["params"][0]
        fresh = {name: _loaded(name, value, size, like) for name, value in saved.items() if name != "al"}
        self._states[0].clear()
        self._states[0].update(fresh)
        own.update({name: value for name, value in self._own_settings(group).items() if name != "params"})
        self._notify("loaded")


_VECTORS = ("d", "prev_flat_grad", "old_dirs", "old_stps")


def _tensors(name: str, value: Any, like: Tensor) -> Any:
    """A saved value with tensors of rank 0 for those numbers which PyTorch computes as such."""
    if isinstance(value, list):
        return [_tensors(name, item, like) for item in value]
    if name not in ("H_diag", "ro") or not isinstance(value, float):
        return value
    return asarray(value, dtype=part_of(like.dtype))


def _loaded(name: str, value: Any, size: int, like: Tensor) -> Any:
    if isinstance(value, list):
        return [_loaded(name, item, size, like) for item in value]
    if name in ("func_evals", "n_iter"):
        return int(value)
    if name not in _VECTORS:
        return None if value is None else float(value)
    vector = asarray(value).astype(part_of(like.dtype)).to(like.device)
    if vector.shape != (size,):
        raise JitgraphError(f"the saved {name} has shape {vector.shape}, not {(size,)}")
    return vector


def _size(parameters: Iterable[Tensor]) -> int:
    return sum(_length(p) for p in parameters)


def _length(parameter: Tensor) -> int:
    """How many real numbers it has: the parts of complex ones are parameters of their own."""
    return int(parameter.size) * (2 if is_complex(parameter.dtype) else 1)


class _Moves:
    """One step: the parameters as one vector, and what the closure says along it."""

    def __init__(self, group: Mapping[str, Any], state: dict[str, Any], closure: Callable[[], Any]) -> None:
        self.group = group
        self.state = state
        self.closure = closure
        self.parameters = group["params"]

    def run(self) -> Any:
        """Moves until one of the limits is reached."""
        group, state = self.group, self.state
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first = self._closure()
        loss, calls = float(first), 1
        state["func_evals"] += 1
        gradient = self._gradient()
        if _largest(gradient) <= group["tolerance_grad"]:
            return first
        for turn in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(gradient)
            before, state["prev_flat_grad"], state["prev_loss"] = loss, gradient, loss
            distance = group["lr"]
            if state["n_iter"] == 1:
                distance *= min(1.0, 1.0 / total(absolute(gradient)).item())
            slope = _dot(gradient, direction)
            state["d"], state["t"] = direction, distance
            if slope > -group["tolerance_change"]:
                break
            evaluated = 0
            if group["line_search_fn"] is None:
                self._move(distance, direction)
                if turn != group["max_iter"]:
                    loss, gradient, evaluated = float(self._closure()), self._gradient(), 1
            else:
                start = Point(0.0, loss, gradient, slope)
                point, evaluated = self._search(distance, direction, start, group["max_eval"] - calls)
                state["t"] = distance = point.distance
                loss, gradient = point.loss, point.gradient
                self._move(distance, direction)
            calls += evaluated
            state["func_evals"] += evaluated
            if calls >= group["max_eval"] or _largest(gradient) <= group["tolerance_grad"]:
                break
            if _largest(direction * distance) <= group["tolerance_change"]:
                break
            if abs(loss - before) < group["tolerance_change"]:
                break
        return first

    def _closure(self) -> Any:
        with enable_grad():
            return self.closure()

    def _gradient(self) -> Tensor:
        parts = []
        for p in self.parameters:
            grad = p.grad
            if grad is None:
                parts.append(zeros(_length(p), dtype=part_of(p.dtype), device=p.device))
            else:
                parts.append((view_as_real(grad) if is_complex(p.dtype) else grad).reshape(-1))
        return concat(parts)

    def _move(self, distance: float, direction: Tensor) -> None:
        begin = 0
        for p in self.parameters:
            move = distance * direction[begin : begin + _length(p)]
            p += view_as_complex(move.reshape((*p.shape, 2))) if is_complex(p.dtype) else move.reshape(p.shape)
            begin += _length(p)

    def _direction(self, gradient: Tensor) -> Tensor:
        """Minus the gradient at first, then minus the guessed inverse Hessian times the gradient."""
        state = self.state
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1)
            return -gradient
        changes, moves, weights = state["old_dirs"], state["old_stps"], state["ro"]
        change, move = gradient - state["prev_flat_grad"], state["d"] * state["t"]
        curvature = _dot(change, move)
        if curvature > _LEAST_CURVATURE:
            if len(changes) == self.group["history_size"]:
                for history in (changes, moves, weights):
                    history.pop(0)
            changes.append(change)
            moves.append(move)
            weights.append(1.0 / curvature)
            state["H_diag"] = curvature / _dot(change, change)
        shares = []
        direction: Any = -gradient
        for change, move, weight in zip(reversed(changes), reversed(moves), reversed(weights), strict=True):
            shares.append(_dot(move, direction) * weight)
            direction = direction - shares[-1] * change
        direction = direction * state["H_diag"]
        for change, move, weight, share in zip(changes, moves, weights, reversed(shares), strict=True):
            direction = direction + (share - _dot(change, direction) * weight) * move
        return direction  # type: ignore[no-any-return]

    def _search(self, distance: float, direction: Tensor, start: Point, most: int) -> tuple[Point, int]:
        here = [p.detach().clone() for p in self.parameters]

        def evaluate(distance: float) -> Point:
            self._move(distance, direction)
            loss, gradient = float(self._closure()), self._gradient()
            for p, value in zip(self.parameters, here, strict=True):
                p._rebind(value.value)
            return Point(distance, loss, gradient, _dot(gradient, direction))

        return strong_wolfe(
            evaluate,
            distance,
            start,
            length=_largest(direction),
            tolerance=self.group["tolerance_change"],
            most=most,
        )


def _dot(x: Tensor, y: Tensor) -> float:
    return float(total(x * y).item())


def _largest(x: Tensor) -> float:
    return float(greatest(absolute(x)).item())
