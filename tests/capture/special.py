"""Special methods: each is read where it stands and is replaced on its class."""

from __future__ import annotations

from tests.capture.rule import Rule, place, rule


def _special(method: str, text: str, body: str, other: str, arguments: str = "self", lines: str = "") -> Rule:
    """A class whose ``method`` gives ``body``, which reads ``H$n`` and ``B$n.h``; replaced, it gives ``other``."""
    return rule(
        f"{method} replaced",
        text,
        f"C$n.{method} = lambda {arguments}: {other}",
        *(["B$n.h = $v"] if "self.h" in body else []),
        "H$n = $index",
        lines=lines,
        state=f"""\
H$n = 1
class C$n:
    def __init__(self, h):
        self.h = h
    def {method}({arguments}):
        return {body}
B$n = C$n(2)""",
    )


SPECIAL: tuple[Rule, ...] = (
    _special("__neg__", "(-B$n)", "self.h + H$n", "5"),
    _special("__abs__", "abs(B$n)", "self.h + H$n", "5"),
    _special("__invert__", "(~B$n)", "self.h + H$n", "5"),
    _special("__add__", "(B$n + 1)", "self.h + H$n", "5", "self, p"),
    _special("__radd__", "(1 + B$n)", "self.h + H$n", "5", "self, p"),
    _special("__iadd__", "r$n", "self.h + H$n", "5", "self, p", "r$n = B$n\nr$n += 1"),
    _special("__matmul__", "(B$n @ 1)", "self.h + H$n", "5", "self, p"),
    _special("__mod__", "(B$n % 3)", "self.h + H$n", "5", "self, p"),
    _special("__pow__", "(B$n ** 2)", "self.h + H$n", "5", "self, p"),
    _special("__floordiv__", "(B$n // 2)", "self.h + H$n", "5", "self, p"),
    _special("__and__", "(B$n & 1)", "self.h + H$n", "5", "self, p"),
    _special("__lt__", "(1 if B$n < 3 else 2)", "self.h + H$n > 2", "self.h > 2", "self, p"),
    _special("__eq__", "(1 if B$n == 3 else 2)", "self.h + H$n > 2", "self.h > 2", "self, p"),
    _special("__ne__", "(1 if B$n != 3 else 2)", "self.h + H$n > 2", "self.h > 2", "self, p"),
    _special("__contains__", "(1 if 3 in B$n else 2)", "self.h + H$n > 2", "self.h > 2", "self, p"),
    _special("__bool__", "(1 if B$n else 2)", "self.h + H$n > 2", "self.h > 2"),
    _special("__len__", "len(B$n)", "H$n + 1 + int(self.h > 1)", "5"),
    rule(
        "truth by __len__",
        "(1 if B$n else 2)",
        "H$n = 1",
        "C$n.__len__ = lambda self: 1",
        state="H$n = 0\nclass C$n:\n    def __len__(self):\n        return H$n\nB$n = C$n()",
    ),
    _special("__float__", "float(B$n)", "float(self.h + H$n)", "5.0"),
    _special("__int__", "int(B$n)", "int(self.h + H$n)", "5"),
    _special("__index__", "(7, 8, 9, 10)[B$n]", "H$n", "3"),
    _special("__round__", "round(B$n)", "self.h + H$n", "5"),
    _special("__str__", "len(str(B$n))", "'x' * (H$n + 2)", "'12345'"),
    _special("__repr__", "len(repr(B$n))", "'x' * (H$n + 2)", "'12345'"),
    _special("__format__", "len(f'{B$n:abc}')", "'x' * (H$n + len(form))", "'12345678'", "self, form"),
    _special("__hash__", "hash(B$n)", "H$n + 5", "9"),
    _special("__call__", "B$n(2)", "self.h + H$n", "5", "self, p"),
    _special("__getitem__", "B$n[2]", "self.h + H$n", "5", "self, p"),
    _special("__reversed__", "reversed(B$n)", "self.h + H$n", "5"),
    rule(
        "__iter__ replaced",
        "sum(B$n)",
        "C$n.__iter__ = lambda self: iter([5, 6])",
        "B$n.h[0] = $v",
        state="""\
class C$n:
    def __init__(self):
        self.h = [1, 2]
    def __iter__(self):
        return iter(self.h)
B$n = C$n()""",
    ),
    rule(
        "__iter__ by a generator",
        "sum(e for e in B$n)",
        "C$n.__iter__ = lambda self: iter([5, 6])",
        "B$n.h[0] = $v",
        "B$n.h.append($v)",
        state="""\
class C$n:
    def __init__(self):
        self.h = [1, 2]
    def __iter__(self):
        for each in self.h:
            yield each
B$n = C$n()""",
    ),
    rule(
        "__next__",
        "sum([e for e in Count$n()])",
        "M$n = 4",
        "Count$n.__next__ = lambda self: self.stop()",
        state="""\
M$n = 2
class Count$n:
    def __init__(self):
        self.at = 0
    def __iter__(self):
        return self
    def stop(self):
        raise StopIteration
    def __next__(self):
        self.at += 1
        if self.at > M$n:
            raise StopIteration
        return self.at""",
    ),
    rule(
        "__getitem__ as an iterator",
        "sum(B$n)",
        "M$n = 4",
        "C$n.__getitem__ = lambda self, at: [5, 6][at]",
        state="""\
M$n = 2
class C$n:
    def __getitem__(self, at):
        if at >= M$n:
            raise IndexError
        return at + 1
B$n = C$n()""",
    ),
    place(
        "__enter__ replaced",
        "r$n",
        "B$n.h = $new",
        "C$n.__enter__ = lambda self: $new",
        lines="with B$n as r$n:\n    pass",
        state="""\
class C$n:
    def __enter__(self):
        return self.h
    def __exit__(self, *found):
        return False
B$n = C$n()
B$n.h = $old""",
        path="B$n.h",
    ),
    place(
        "__exit__ replaced",
        "r$n",
        "C$n.__exit__ = lambda self, *found: setattr(self, 'h', $new) or True",
        "C$n.v = $new",
        lines="with B$n:\n    raise ValueError\nr$n = B$n.h",
        state="""\
class C$n:
    v = $old
    def __enter__(self):
        return self
    def __exit__(self, *found):
        self.h = self.v
        return True
B$n = C$n()""",
    ),
    rule(
        "__instancecheck__ replaced",
        "(1 if isinstance(3, C$n) else 2)",
        "M$n.__instancecheck__ = lambda cls, each: False",
        "M$n.k = 4",
        state="""\
class M$n(type):
    k = 1
    def __instancecheck__(cls, each):
        return each > cls.k
class C$n(metaclass=M$n):
    pass""",
    ),
    rule(
        "total ordering",
        "(1 if C$n(1) >= C$n(K$n) else 2)",
        "K$n = 3",
        "C$n.__lt__ = lambda self, p: self.h > p.h",
        state="""\
K$n = 0
@functools.total_ordering
class C$n:
    def __init__(self, h):
        self.h = h
    def __eq__(self, p):
        return self.h == p.h
    def __lt__(self, p):
        return self.h < p.h""",
    ),
)
