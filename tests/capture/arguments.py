"""Rules over the number argument ``n`` of the program, which varies from call to call."""

from __future__ import annotations

from tests.capture.rule import INDEX, NAME, Rule, rule

_FLOATS = "a float among the arguments is an input, whose value a trace does not know"


def _argument(name: str, text: str, gives: str = "num", lines: str = "") -> Rule:
    return rule(f"argument: {name}", text, gives=gives, lines=lines, scope="program", refuses=_FLOATS)


ARGUMENTS: tuple[Rule, ...] = (
    _argument("as it is", "n"),
    _argument("arithmetic", "(n * 2 + 1)"),
    _argument("compared", "(1 if n > 1 else 2)"),
    _argument("equal", "(1 if n == 2 else 3)"),
    _argument("truth", "(n or 5)"),
    _argument("isinstance int", "(1 if isinstance(n, int) else 2)"),
    _argument("isinstance bool", "(1 if isinstance(n, bool) else 2)"),
    _argument("isinstance of two", "(1 if isinstance(n, (float, complex)) else 2)"),
    _argument("type", "(1 if type(n) is int else 2)"),
    _argument("looked up", "{0: 5, 1: 6, 2.5: 7, True: 8}.get(n, 9)"),
    _argument("in a set", "(1 if n in {0, 1, 3} else 2)"),
    _argument("in a list", "(1 if n in [0, 2.5, 3] else 2)"),
    _argument("f-string", "len(f'{n}')"),
    _argument("str", "len(str(n))"),
    _argument("repr", "(1 if repr(n) == '-0.0' else 2)"),
    _argument("hash", "hash(n) % 1000"),
    _argument("sign", "math.copysign(1.0, n)"),
    _argument("negative", "(-n)"),
    _argument("abs", "abs(n)"),
    _argument("floor division", "(n // 2)"),
    _argument("remainder", "(n % 3)"),
    _argument("power", "(n ** 2)"),
    _argument("reciprocal", "(1 / n)"),
    _argument("int", "int(n)"),
    _argument("float", "float(n)"),
    _argument("bool", "bool(n)"),
    _argument("round", "round(n)"),
    _argument("min", "min(n, 2)"),
    _argument("max of a list", "max([n, 1, 3])"),
    _argument("sorted", "sorted([3, n, 1])[0]"),
    _argument("sum", "sum([n, n])"),
    _argument("is None", "(1 if n is None else n)"),
    _argument(
        "match",
        "r$n_",
        lines="""\
match n:
    case 0:
        r$n_ = 4
    case bool():
        r$n_ = 5
    case int():
        r$n_ = 6
    case _:
        r$n_ = 7""",
    ),
    _argument("range", "sum(range(int(n > 1) + 1))"),
    _argument("held by a list", "[n, 1][0]"),
    _argument("held by a box", "Box(a=n).a"),
    _argument("through a helper", "plus(n, q=n)"),
    _argument("through a lambda", "(lambda p: p + n)(1)"),
    _argument("bit_length", "(n.bit_length() if isinstance(n, int) else 3)"),
    _argument("is_integer", "(1 if float(n).is_integer() else 2)"),
    _argument("math.sqrt", "math.sqrt(abs(n))"),
    _argument("divmod", "divmod(n, 2)[1]"),
    _argument("chained comparison", "(1 if 0 < n < 3 else 2)"),
    _argument("as an index", "(int(n > 1))", gives=INDEX),
    _argument("as a name", "('a' if n > 1 else 'bb')", gives=NAME),
)
