"""Rules over tensors, arrays, iterators and enumerations that the state holds."""

from __future__ import annotations

from tests.capture.rule import Rule, rule

_W = "jg.asarray([2.0, 3.0])"
_OTHER = "jg.asarray([$v, 1.0])"


def _tensor(name: str, lines: str, *edits: str, state: str, text: str = "0", refuses: str = "") -> Rule:
    return rule(name, text, *edits, lines=lines, state=state, refuses=refuses)


TENSORS: tuple[Rule, ...] = (
    _tensor("tensor in a global", "x = x * W$n", f"W$n = {_OTHER}", state=f"W$n = {_W}"),
    _tensor(
        "tensor in an attribute",
        "x = x * B$n.w",
        f"B$n.w = {_OTHER}",
        f"B$n = Box(w={_OTHER})",
        state=f"B$n = Box(w={_W})",
    ),
    _tensor(
        "tensor in a dict",
        "x = x * D$n['w']",
        f"D$n['w'] = {_OTHER}",
        f"D$n = dict(w={_OTHER})",
        state=f"D$n = dict(w={_W})",
    ),
    _tensor(
        "tensors in a list",
        "for w$n in L$n:\n    x = x + w$n",
        f"L$n[0] = {_OTHER}",
        f"L$n.append({_OTHER})",
        state=f"L$n = [{_W}]",
    ),
    _tensor("tensor or None", "x = x if W$n is None else x * W$n", f"W$n = {_OTHER}", "W$n = None", state="W$n = None"),
    _tensor(
        "tensor of one of two objects",
        "x = x * (B$n if K$n else C$n).w",
        "K$n = 0",
        f"C$n.w = {_OTHER}",
        f"B$n.w = {_OTHER}",
        state=f"K$n = 1\nB$n = Box(w={_W})\nC$n = Box(w={_W} + 1)",
    ),
    _tensor(
        "one tensor under two names",
        "x = x * V$n + W$n\nr$n = 1 if V$n is W$n else 2",
        f"V$n = {_OTHER}",
        "V$n = W$n",
        state=f"W$n = {_W}\nV$n = W$n",
        text="r$n",
    ),
    _tensor(
        "dtype of a tensor",
        "r$n = 1 if W$n.dtype == jg.float32 else 2",
        "W$n = jg.asarray([1, 2], dtype=jg.int32)",
        "W$n = jg.asarray([1.0])",
        state=f"W$n = {_W}",
        text="r$n",
    ),
    _tensor(
        "shape of a tensor",
        "r$n = W$n.shape[0]",
        "W$n = jg.zeros((3,))",
        "W$n = jg.zeros((5, 2))",
        state=f"W$n = {_W}",
        text="r$n",
    ),
    _tensor(
        "attribute of a tensor",
        "r$n = W$n.mark",
        "W$n.mark = $v",
        f"W$n = {_OTHER}\nW$n.mark = 4",
        state=f"W$n = {_W}\nW$n.mark = 1",
        text="r$n",
    ),
    _tensor(
        "tensor accumulated",
        "B$n.w = B$n.w * 0.5 + x\nx = x + B$n.w",
        f"B$n.w = {_OTHER}",
        "B$n = Box(w=jg.zeros((2,)))",
        state=f"B$n = Box(w={_W})",
    ),
    _tensor("tensor accumulated in place", "W$n.__iadd__(x)\nx = x + W$n", f"W$n = {_OTHER}", state=f"W$n = {_W}"),
    _tensor("element of a tensor set", "W$n[0] = $num\nx = x + W$n", f"W$n = {_OTHER}", state=f"W$n = {_W}"),
    _tensor(
        "tensor handed on",
        "B$n.v = B$n.w\nB$n.w = x\nx = x + B$n.v",
        f"B$n.v = {_OTHER}",
        f"B$n.w = {_OTHER}",
        state=f"B$n = Box(v={_W}, w={_W})",
    ),
    _tensor("tensors kept in a list", "L$n.append(x)", "L$n.clear()", state="L$n = []", text="len(L$n)"),
    _tensor(
        "array in a global",
        "x = x * A$n",
        "A$n[0] = 5",
        "A$n = np.array([3.0, 4.0], np.float32)",
        state="A$n = np.array([1.0, 2.0], np.float32)",
    ),
    _tensor(
        "element of an array",
        "r$n = float(A$n[0])",
        "A$n[0] = 5",
        "A$n = np.array([3.0, 4.0])",
        state="A$n = np.array([1.0, 2.0])",
        text="r$n",
    ),
    _tensor(
        "sum of an array",
        "r$n = float(A$n.sum())",
        "A$n[0] = 5",
        "A$n = np.array([3.0, 4.0])",
        state="A$n = np.array([1.0, 2.0])",
        text="r$n",
    ),
    _tensor(
        "array through a function of NumPy",
        "r$n = float(np.max(A$n))",
        "A$n[0] = 5",
        state="A$n = np.array([1.0, 2.0])",
        text="r$n",
    ),
    _tensor(
        "iterator of the world outside",
        "r$n = next(I$n)",
        "I$n = iter([$v, 4])",
        state="I$n = iter([1, 2])",
        text="r$n",
        refuses="an iterator older than the call",
    ),
    _tensor(
        "counter of the world outside",
        "r$n = next(I$n)",
        "I$n = itertools.count(5)",
        state="I$n = itertools.count()",
        text="r$n",
        refuses="an iterator older than the call",
    ),
    _tensor(
        "generator of the world outside",
        "r$n = next(I$n)",
        "I$n = (e for e in [$v, 4])",
        state="I$n = (e for e in [1, 2])",
        text="r$n",
        refuses="an iterator older than the call",
    ),
    _tensor(
        "zip of the world outside",
        "r$n = sum(p for p, q in I$n)",
        "I$n = zip([$v, 2], [3, 4])",
        state="I$n = zip([1, 2], [3, 4])",
        text="r$n",
        refuses="an iterator older than the call",
    ),
    _tensor(
        "enumeration by name",
        "r$n = E$n[K$n].value",
        "K$n = 'B'",
        "K$n = 'A'",
        state="K$n = 'A'\nclass E$n(enum.Enum):\n    A = 1\n    B = 2",
        text="r$n",
    ),
    _tensor(
        "enumeration by value",
        "r$n = 1 if E$n(K$n) is E$n.A else 2",
        "K$n = 2",
        "K$n = 1",
        state="K$n = 1\nclass E$n(enum.Enum):\n    A = 1\n    B = 2",
        text="r$n",
    ),
    _tensor(
        "member of an enumeration",
        "r$n = 1 if K$n is E$n.A else 2",
        "K$n = E$n.B",
        "K$n = E$n.A",
        state="class E$n(enum.Enum):\n    A = 1\n    B = 2\nK$n = E$n.A",
        text="r$n",
    ),
    _tensor(
        "match of an enumeration",
        "match K$n:\n    case E$n.A:\n        r$n = 3\n    case _:\n        r$n = 4",
        "K$n = E$n.B",
        "K$n = E$n.A",
        state="class E$n(enum.Enum):\n    A = 1\n    B = 2\nK$n = E$n.A",
        text="r$n",
    ),
)
