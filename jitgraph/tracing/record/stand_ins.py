"""Tensors that stand for views of others, as a staged statement, whose results have values of their own, made them.

A view shares the elements of its root. A loop or branch on tensors that binds a variable to a view in some turns, or on
one side, gives a tensor with the elements that the view has then. It may be read while the root has these elements, and
nothing may be written to it, as no graph says whose elements that would change: both raise where they would be wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from jitgraph.errors import ScriptError
from jitgraph.location import Location
from jitgraph.tracing.record.values import aliases_of

if TYPE_CHECKING:
    from jitgraph.tracing.record.recorder import Recorder


STAGED: Final = "an if or loop on a tensor at {} made of a view, or of one in some cases"


class StandIn:
    """One such tensor: its roots, the recorder and the line at which it was made, where roots were written since, and
    which recorders have read it."""

    __slots__ = ("handle", "home", "location", "reads", "roots", "what", "writes")

    def __init__(self, handle: Any, roots: Sequence[Any], home: Recorder, what: str) -> None:
        self.handle = handle
        self.roots = {id(root): root for root in roots}
        self.home = home
        self.location = Location.of_user()
        self.what = what
        self.writes: dict[int, Recorder] = {}
        self.reads: dict[int, Recorder] = {}


class StandIns:
    """Those of one trace."""

    def __init__(self) -> None:
        self.by_handle: dict[int, StandIn] = {}
        self._by_root: dict[int, list[StandIn]] = {}

    def add(self, handle: Any, roots: Sequence[Any], home: Recorder, what: str = STAGED) -> None:
        """``handle`` was made in ``home`` of what was, or may have been, a view of one of the roots.

        ``what`` tells people how, with the line as ``{}``.
        """
        if not roots:
            return
        known = self.by_handle.get(id(handle))
        every = list(roots) if known is None else [*known.roots.values(), *roots]
        stand_in = self.by_handle[id(handle)] = StandIn(handle, every, home, what)
        for number in stand_in.roots:
            self._by_root.setdefault(number, []).append(stand_in)

    def inherit(self, handle: Any, parent: Any) -> Any:
        """``handle``, which has elements of ``parent``, which may stand for a view."""
        known = self.by_handle.get(id(parent))
        if known is not None:
            self.add(handle, [*known.roots.values()], known.home, known.what)
        return handle

    def roots_of(self, recorder: Recorder, value: Any) -> list[Any]:
        """The tensors whose elements a tensor shares, or may share, where it is or stands for a view."""
        root = value._root
        if root is value:
            known = self.by_handle.get(id(value))
            return [] if known is None else [*known.roots.values()]
        others = [alias.other for alias in aliases_of(recorder, root) if hasattr(alias.other, "_root")]
        return [root, *others, *(self.roots_of(recorder, root) if root._root is root else ())]

    def read(self, handle: Any, recorder: Recorder) -> None:
        """``handle`` is read; ScriptError where it no longer has the elements of the view."""
        stand_in = self.by_handle.get(id(handle))
        if stand_in is None:
            return
        for outer in recorder.outwards():
            if id(outer) in stand_in.writes:
                raise ScriptError(
                    f"a tensor is read that {_is_a_view(stand_in)}, behind a write to the tensor whose elements "
                    "it shares",
                    location=Location.of_user(),
                    hint="take the view anew behind the write, or a copy where the variable gets its value "
                    "(row = x[i].clone())",
                )
        for outer in _up_to(recorder, stand_in.home):
            stand_in.reads[id(outer)] = outer

    def require_unshared(self, handle: Any) -> None:
        """ScriptError where a tensor is written that stands for a view."""
        stand_in = self.by_handle.get(id(handle))
        if stand_in is not None:
            raise ScriptError(
                f"a tensor is written in place that {_is_a_view(stand_in)}: no graph says whose elements change",
                location=Location.of_user(),
                hint="write to the view where it is made (x[i].add_(1)), or take a copy (row = x[i].clone())",
            )

    def note_write(self, root: Any, recorder: Recorder) -> None:
        """``root`` gets other elements; ScriptError where a turn before this write has read what shares them."""
        for stand_in in self._by_root.get(id(root), ()):
            if any(outer.repeats and id(outer) in stand_in.reads for outer in _up_to(recorder, stand_in.home)):
                raise ScriptError(
                    f"a loop on a tensor reads what {_is_a_view(stand_in)}, and writes to the tensor whose elements it "
                    "shares, so that the next turn would read other ones",
                    location=Location.of_user(),
                    hint="take the view in the loop's body, or a copy before the loop (row = x[i].clone())",
                )
            stand_in.writes[id(recorder)] = recorder


def _is_a_view(stand_in: StandIn) -> str:
    return stand_in.what.format(stand_in.location)


def _up_to(recorder: Recorder, home: Recorder) -> Iterator[Recorder]:
    """The recorders from one outwards that are inside of ``home``."""
    for outer in recorder.outwards():
        if outer is home:
            return
        yield outer


def moved(roots: Sequence[Any], new: Mapping[int, Sequence[Any]], lasting: Any) -> list[Any]:
    """What roots inside of a body are outside: the tensors that stand for them there, and those that last."""
    return [each for root in roots for each in (*new.get(id(root), ()), *((root,) if lasting(root) else ()))]
