"""The table of what Python's numbers do: expressions over ints i and j, floats f and g, and bools b and c.

The tests of staged numbers run each of them on edge values and in loops and branches, the random scripts use them.
"""

from __future__ import annotations

import math
import re
from typing import Any, Final, NamedTuple


class Operation(NamedTuple):
    """An expression, the names of its operands, and what else it may do than give Python's answer: ``raises`` names the
    error of a check for a number that no graph computes, ``error`` bounds the relative error of a function."""

    text: str
    operands: str
    raises: str = ""
    error: float = 0.0


BEYOND: Final = frozenset(
    ["sorted([i, -2], key=abs)", "1 in (i, i + 1)", "[i, 2, i + 1][i % 3]", "[x * i for x in (1, 2)][1] % 100"]
)
"""Those that compute an int beyond int64 on the way to a small result."""


def _split(table: str) -> tuple[str, ...]:
    """The expressions of a table: they stand two spaces apart."""
    return tuple(re.split(r"\s{2,}", table.strip()))


INTS: Final = _split("""
    -i  +i  abs(i)  ~i  int(i)  float(i)  bool(i)  round(i)  round(i, 2)  round(i, -1)  round(i, -18)  round(i, -19)
    round(i, -25)  i + 1  3 - i  i * 3  i * i  i ** 0  i ** 1  i ** 2  i ** 5  i // 7  i // -3  i % 7  i % -3
    7 // i  -7 % i  divmod(i, 5)  divmod(-9, i)  i << 3  i >> 2  1 >> i  i & 255  i | 6  i ^ -5  i & -8  i % 10 ** 6
    i == 3  i != 3  i < 2 ** 70  i > -(2 ** 70)  i == 10 ** 30  3 <= i  0 < i < 5  -1 <= i <= 1 <= i + 1 - 1  not i
    i and 5  i or 7  1 if i else 2  min(i, 3)  max(i, 3, -2)  sum([i, 1])  sum((i, 2), 3)  sorted([i, 2, -1])
    sorted([3, i, 0], reverse=True)  sorted([i, -2], key=abs)  any([i, 0])  all([i, 1])  i.bit_length()
    i.bit_count()  i.real  i.imag  i.numerator  i.denominator  i.conjugate()  i.as_integer_ratio()
    i.__index__ is None  type(i) is int  type(i) is float  isinstance(i, int)  isinstance(i, (float, str))
    isinstance(i, bool)  type(i / 3) is float  type(i // 3) is int  type(i > 3) is bool  isinstance(i + 0.5, float)
    callable(i)  hasattr(i, 'shape')  hasattr(i, 'bit_length')  hasattr(i, '__dict__')
    hasattr(i, '__name__')  i is None  i is not None  i == None  i == 'a'
    i != (1, 2)  i is True  i in {3, 5}  i not in {3, 5}  i in (0, 1.0, 'a')  i in [2.0, 3.5]
    i in frozenset([62, -7])  i in {0: 1, 3: 2}  i in range(-3, 64, 3)  i in range(10, 0, -2)  i in {3: 1}.keys()
    i in ()  3 in [i, 5]  1 in (i, i + 1)  {0: 4, 3: 5}.get(i, 9)  {0: 4, 3: 5}.get(i, 9) + 1  {}.get(i, 3)
    {1: 2, 3: 9, 0: 0}[i]  (4, 7, 9)[i]  [4, 7, 9, 1][i % 4]  [0.5, 1.5][i]  [True, False][i]  [i, 2, i + 1][i % 3]
    range(3, 30, 4)[i]  bytes([7, 9])[i]  ('a', 'a')[i]  [[1, 2], [3, 4]][i % 2][1]  [[1, 2], [3, 4]][i % 2][i % 2]
    [1, 3, 3].count(i)  [0, 3, -7, 3].index(i)  (i, 2, i).count(2)  [i, 62].index(62)  i * True  True + i  i - False
    int(i) is None  pow(i, 2)  pow(3, i % 5)  math.floor(i)  math.ceil(i)  math.trunc(i)  math.fabs(i)
    math.isqrt(i)  math.factorial(i)  math.gcd(i, 12)  math.gcd(i)  math.gcd(12, i, 18)  math.lcm(i, 6)
    math.sqrt(i)  math.prod([i, 3])  math.comb(i, 3)  math.comb(30, i)  math.perm(i, 2)  math.perm(9, i)
    math.isfinite(i)  math.isnan(i)  math.ldexp(0.75, i)  math.copysign(2, i)  math.fmod(i, 7)  math.modf(i)
    math.perm(i % 7)  (i, 1)  [i, i * 1]  {'a': i}  (lambda x: x + 1)(i % 100)  [x * i for x in (1, 2)][1] % 100
""")
PAIRS: Final = _split("""
    i + j  i - j  i * j  i // j  i % j  divmod(i, j)  i << j  i >> j  i & j  i | j  i ^ j  i == j  i != j  i < j
    i <= j  i > j  i >= j  i < j < 9  min(i, j)  max(i, j)  sum([i, j])  sorted([i, j, 1])  math.gcd(i, j)
    math.lcm(i, j)  i and j  i or j  i if i > j else j  [i, j].count(1)  i in (j, 3)  (i, j) == None  i * (j > 0)
    math.copysign(i, j)  math.fmod(i, j)
""")
FLOATS: Final = _split("""
    -f  +f  abs(f)  int(f)  float(f)  bool(f)  round(f)  round(f, 0)  round(f, 2)  round(f, 5)  round(f, 15)
    round(f, -2)  round(f, -20)  f + 1  2 - f  f * 0.1  f / 3  1 / f  f // 0.3  7.0 // f  f % 0.7  -3.5 % f
    divmod(f, 1.5)  f == 0.5  f != f  f < 1  1 <= f  f > 2 ** 60  f == 2 ** 53 + 1  0 < f < 3  not f  f and 1.5
    f or 2.5  1 if f else 2  min(f, 1.0)  max(f, 0.5)  sum([f, 0.1, 0.2])  sum([1, f, 1e100, -1e100])
    sorted([f, 0.25])  f.is_integer()  f.real  f.imag  f.conjugate()  type(f) is float  isinstance(f, float)
    isinstance(f, int)  type(round(f, 1)) is float  f in (0.5, 1, 3.5)  f in {1, 2.5}  f in range(-2, 9, 2)
    {1: 2.0, 0.5: 3.0}.get(f, 0.0)  {1.0: 4, 2.5: 6}[f]  f.__class__ is float  math.floor(f)  math.ceil(f)
    math.trunc(f)  math.fabs(f)  math.sqrt(f)  math.isnan(f)  math.isinf(f)  hasattr(f, 'dtype')  math.isfinite(f)
    math.copysign(1.0, f)  math.copysign(f, -1)  math.fmod(f, 0.7)  math.fmod(2.5, f)  math.modf(f)
    math.ldexp(f, 3)  math.ldexp(f, -1070)  math.isclose(f, 0.5)  math.isclose(f, 1e-10, abs_tol=1e-9)  f * True
    f ** 2  f ** 0  f ** 1  (f > 0) + (f < 1)
""")
MIXED: Final = _split("""
    i + f  f - i  i * f  i / 4  f / i  i / f  i // f  f // i  f % i  i % f  divmod(f, i)  i == f  i != f  i < f
    f <= i  i > f  f >= i  min(i, f) == 1  sum([i, f])  sum([f, i, 0.5])  f + g  f - g  f * g  f / g  f // g  f % g
    divmod(f, g)  f < g  f == g  f >= g  min(f, g)  max(f, g)  sum([f, g])  math.copysign(f, g)  math.fmod(f, g)
    math.isclose(f, g)  sorted([f, g])  f if i > 2 else g  [f, g][i % 2]  i in (f, g)  f in [i, g]  math.ldexp(f, i)
""")
BOOLS: Final = _split("""
    b & c  b | c  b ^ c  b + c  b - c  b * c  b / c  b // c  b % c  b << c  b ** c  ~b  -b  +b  abs(b)  not b
    b and c  b or c  b == c  b != c  b < c  b == 1  b is True  b is not False  int(b)  float(b)  bool(b)  round(b)
    b & 3  2 | b  b ^ 5  b + 1  b * 2.5  b in (1, 7)  b in {0}  [4, 9][b]  (1.5, 2.5)[b]  {True: 1, False: 0}[b]
    {0: 5}.get(b, 6)  type(b) is bool  isinstance(b, int)  type(b & c) is bool  type(b + c) is int
    type(b & 1) is int  sum([b, c, True])  min(b, c)  b.bit_length()  b.real  any([b, c])  all((b, c))
    1 if b else 0  b is None  math.sqrt(b)
""")
APPROXIMATE: Final = _split("""
    math.exp(f)  math.expm1(f)  math.log(f)  math.log2(f)  math.log10(f)  math.log1p(f)  math.log(f, 3)  math.sin(f)
    math.cos(f)  math.tan(f)  math.asin(f)  math.acos(f)  math.atan(f)  math.sinh(f)  math.cosh(f)  math.tanh(f)
    math.asinh(f)  math.acosh(f)  math.atanh(f)  math.erf(f)  math.erfc(f)  math.degrees(f)  math.radians(f)
    math.exp2(f)  math.hypot(f, 1.5)  math.hypot(f)  math.atan2(f, g)  math.pow(f, g)  f ** 0.5  f ** -2  f ** g
    2.5 ** f  math.pow(2, f)  math.hypot(f, g, 2.0)  2 ** f
""")
REFUSED: Final = _split("""
    hash(i)  str(i)  repr(f)  f'{i}'  f'{f:.2f}'  f'{i!r}'  format(i, 'd')  '%d' % i  '{}'.format(f)
    i.to_bytes(8, 'big')  bin(i)  hex(i)  oct(i)  chr(i)  {i: 1}  {i}  complex(i)  i + 1j  f * 2j  [0] * i  'ab' * i
    list(range(i))  bytes(i)  math.frexp(f)  math.nextafter(f, g)  math.gamma(f)  math.fsum([f, 1.0])  math.ulp(f)
    f.hex()  f.as_integer_ratio()  round(f, i)  i + 2 ** 64  max(b, 2)  i * 2 ** 63  'abc'[i]  [1, 2.5][i]  [1, 'a'][i]
    [[1], [2]][i]  int(str(i))  json.dumps(i)  numpy.sqrt(f)  slice(i).indices(3)  [1, 2, 3][i:]  [1, 2, 3][:i]
    float.fromhex(str(i))  set([i])  dict([(i, 1)])  functools.lru_cache(abs)(i)  memoryview(b'abc')[i]
    pickle.dumps(i)  sorted([i, j], key=str)  collections.Counter([i, j])
    ' '.join([str(i)])
""")
"""What no graph computes: the line is refused."""

OPERATIONS: Final = (
    *(Operation(text, "i", raises="OverflowError" if text in BEYOND else "") for text in INTS),
    *(Operation(text, "ij") for text in PAIRS),
    *(Operation(text, "f") for text in FLOATS),
    *(Operation(text, "ijfg") for text in MIXED),
    *(Operation(text, "bc") for text in BOOLS),
    *(Operation(text, "fg", error=2e-15) for text in APPROXIMATE if "exp2" not in text or hasattr(math, "exp2")),
    *(Operation(text, "ij", raises="TypeError") for text in ("i ** j", "pow(i, j)", "2 ** i", "10 ** j", "(-1) ** i")),
    Operation("i ** -2", "i", error=1e-15),
    *(Operation(text, "ij") for text in ("i / j", "1 / i", "i / 3")),
    *(Operation(text, "ij", raises="OverflowError") for text in ("math.pow(i, 2)",)),
    *(Operation(text, "ij", raises="OverflowError") for text in ("pow(i, 5, 7)", "pow(3, abs(i), 11)", "pow(j, 3, i)")),
)  # fmt: skip
INT_VALUES: Final = (
    *(0, 1, -1, 2, 3, 5, -7, 20, 21, 62, 63, 64, -64, 1000003, 2**31, 3037000500, 2**53 + 1, -(2**53) - 1),
    *(5 * 10**18, -5 * 10**18 - 1, 9 * 10**18, 2**62, 2**63 - 1, 1 - 2**63, -(2**63)),
)  # fmt: skip
FLOAT_VALUES: Final = (
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, 3.5, -1.5, 2.675, 1.005, 0.1, 123456.785, -2.345, 1250.0, 1e-320, 1e16),
    *(4503599627370497.5, 9007199254740993.0, 1e22, 1e300, -1e300, 9.3e18, -(2.0**63), 2.0**63, 1e-10, 709.0, 710.0),
    *(math.inf, -math.inf, math.nan),
)  # fmt: skip


SMALL: Final = (0, 1, -1, 2, -2, 3, -3, 7, 10, 20, 21, 30, 31, 39, 40, 62, 63, 64, 65)
"""Ints where greater ones would take Python long."""


def is_small(operation: Operation) -> bool:
    """Whether greater ints would take Python long."""
    return any(part in operation.text for part in ("factorial", "** i", "** j", "<< j", "pow(i, j)"))


def plain(text: str, operands: dict[str, Any]) -> Any:
    """The value in Python, or the error."""
    try:
        return eval(text, {"math": math, **operands})
    except Exception as error:
        return error
