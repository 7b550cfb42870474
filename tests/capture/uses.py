"""What a program does with objects, functions, sequences, tables, names and numbers, until a number is left."""

from __future__ import annotations

from tests.capture.rule import FN, INDEX, NAME, OBJ, SEQ, TABLE, Rule, rule

_TWO_CLASSES = "class C$n:\n    pass\nclass D$n:\n    pass\nB$n = C$n()"
_TURNS = ("B$n.__class__ = D$n", "B$n.__class__ = C$n")

USES: tuple[Rule, ...] = (
    rule("attribute of an object", "$obj.a"),
    rule("getattr of a computed name", "getattr($obj, $name)"),
    rule("vars of a computed name", "vars($obj)[$name]"),
    rule("hasattr of a computed name", '(1 if hasattr($obj, $name.replace("a", "c")) else 0)'),
    rule("attrgetter of a computed name", "operator.attrgetter($name)($obj)"),
    rule("number of attributes", "len(vars($obj))"),
    rule("dir", "len([e for e in dir($obj) if len(e) == 1])"),
    rule("isinstance of an object", "(1 if isinstance($obj, Box) else 2)"),
    rule("type of an object compared", "(1 if type($obj) is Box else 2)"),
    rule(
        "match of a class",
        "r$n",
        lines="""\
match $obj:
    case Box(a=1):
        r$n = 5
    case Box(a=r$n, bb=_):
        pass
    case _:
        r$n = 3""",
    ),
    rule(
        "one object or two",
        "(1 if P$n is Q$n else 2)",
        "Q$n = Box(a=1)",
        "Q$n = P$n",
        "P$n = Q$n = Box(a=2)",
        state="P$n = Box(a=1)\nQ$n = P$n",
    ),
    rule("isinstance of an object of another class", "(1 if isinstance(B$n, C$n) else 2)", *_TURNS, state=_TWO_CLASSES),
    rule("type of an object of another class", "(1 if type(B$n) is C$n else 2)", *_TURNS, state=_TWO_CLASSES),
    rule(
        "match of an object of another class",
        "r$n",
        *_TURNS,
        lines="match B$n:\n    case C$n():\n        r$n = 1\n    case _:\n        r$n = 2",
        state=_TWO_CLASSES,
    ),
    rule("one list or two", "(1 if P$n is Q$n else 2)", "Q$n = [1]", "Q$n = P$n", state="P$n = [1]\nQ$n = P$n"),
    rule("sum of attributes", "sum(vars($obj).values())"),
    rule("item by a computed index", "$seq[$index]"),
    rule("item by arithmetic", "$seq[($index + 1) % 3]"),
    rule("length", "len($seq)"),
    rule("truth of a sequence", "(1 if $seq else 2)"),
    rule("sum", "sum($seq)"),
    rule("min", "min($seq)"),
    rule("max", "max($seq)"),
    rule("any", "(1 if any($seq) else 2)"),
    rule("all", "(1 if all($seq) else 2)"),
    rule("sum of a generator expression", "sum(e * 2 for e in $seq)"),
    rule("sum of map", "sum(map($fn, $seq))"),
    rule("length of filter", "len(list(filter(None, $seq)))"),
    rule("reduce", "functools.reduce(operator.add, $seq)"),
    rule("reduce of a lambda", "functools.reduce(lambda p, q: p * 0.5 + q, $seq, $num)"),
    rule("sum of zip", "sum(p * q for p, q in zip($seq, $seq2))"),
    rule("sum of enumerate", "sum(p * q for p, q in enumerate($seq))"),
    rule("last of reversed", "list(reversed($seq))[$index]"),
    rule("least of sorted", "sorted($seq)[0]"),
    rule("sorted by a function", "sorted($seq, key=$fn)[0]"),
    rule("number in a sequence", "(1 if $num in $seq else 2)"),
    rule("number not in a sequence", "(1 if $num not in $seq else 2)"),
    rule("size of a set", "len(set($seq))"),
    rule("size of a set comprehension", "len({e for e in $seq if e})"),
    rule("sum of a for loop", "r$n", lines="r$n = 0\nfor e$n in $seq:\n    r$n += e$n"),
    rule(
        "for loop with continue",
        "r$n",
        lines="r$n = 0\nfor e$n in $seq:\n    if e$n:\n        continue\n    r$n = r$n + 1\nelse:\n    r$n += 2",
    ),
    rule(
        "while over indices",
        "r$n",
        lines="r$n = i$n = 0\nq$n = $seq\nwhile i$n < len(q$n):\n    r$n += q$n[i$n]\n    i$n += 1",
    ),
    rule("count of a number", "list($seq).count($num)"),
    rule("equal sequences", "(1 if [bool(e) for e in $seq] == [bool(e) for e in $seq2] else 2)"),
    rule("unpacked into a call", "max(*$seq)"),
    rule("islice", "sum(itertools.islice($seq, 2))"),
    rule("table by a computed name", "$table[$name]"),
    rule("table.get by a computed name", "$table.get($name, 5)"),
    rule("name in a table", '(1 if $name.replace("a", "c") in $table else 2)'),
    rule("length of a table", "len($table)"),
    rule("sum of values", "sum($table.values())"),
    rule("sum of items", "sum(p * len(q) for q, p in $table.items())"),
    rule("loop over the keys", "sum([len(e) for e in $table])"),
    rule("itemgetter of a computed name", "operator.itemgetter($name)($table)"),
    rule("length of a merged table", 'len({**$table, $name.replace("a", "c"): 1})'),
    rule(
        "match of a table",
        "r$n",
        lines="""\
match $table:
    case {"a": 0 | 1}:
        r$n = 4
    case {"a": r$n}:
        pass
    case _:
        r$n = 3""",
    ),
    rule("object as its attributes", "Box(**$table).a"),
    rule("call of a function", "$fn($num)"),
    rule("call with a star", "$fn(*[$num])"),
    rule("call of a call", "$fn($fn2($num))"),
    rule("call made by map", "list(map($fn, [$num]))[0]"),
    rule("call of a partial made inside", "functools.partial($fn, $num)()"),
    rule("name compared", '(1 if $name == "a" else 2)'),
    rule("name in an f-string", 'len(f"{p$n}{q$n}")', lines="p$n, q$n = $name, $num"),
    rule("str.format", 'len("{} {}".format($name, $num))'),
    rule("percent format", 'len("%s %s" % ($name, $num))'),
    rule("name looked up", '{"a": 4, "bb": 5}[$name]'),
    rule("match of a name", "r$n", lines='match $name:\n    case "a":\n        r$n = 4\n    case _:\n        r$n = 5'),
    rule("joined names", 'len("-".join([$name, $name2]))'),
    rule("name upper", '(1 if $name.upper() == "A" else 2)'),
    rule("sum of two", "($num + $num2)"),
    rule("product", "($num * $num2)"),
    rule("difference", "($num - $num2)"),
    rule("conditional", "($num if $num2 else $num3)"),
    rule("conditional of a comparison", "($num if $num2 > 1 else $num3)"),
    rule("chained comparison", "(1 if 0 < $num <= $num2 else 2)"),
    rule("and", "($num and $num2)"),
    rule("or", "($num or $num2)"),
    rule("not", "(3 if not $num else 4)"),
    rule("negative", "(-$num)"),
    rule("positive", "(+$num)"),
    rule("abs", "abs($num)"),
    rule("int", "int($num > 1)"),
    rule("float", "float($num)"),
    rule("bool", "bool($num)"),
    rule("isinstance of a number", "(1 if isinstance($num, int) else 2)"),
    rule("type of a number", "(1 if type($num) is bool else 2)"),
    rule("number looked up", "{0: 5, 1: 6, 2.5: 7}.get($num, 8)"),
    rule("number in a set", "(1 if $num in {0, 1, 2.5} else 2)"),
    rule("sign of a number", "math.copysign(1.0, $num)"),
    rule("str of a number", "len(str($num))"),
    rule("repr of a number", "(1 if repr($num) == '1' else 2)"),
    rule("number in an f-string", "len(f'{q$n:>8}{q$n!r}')", lines="q$n = $num"),
    rule("is None", "(1 if $num is None else $num)"),
    rule(
        "match of a number",
        "r$n",
        lines="""\
match $num:
    case 0:
        r$n = 4
    case int():
        r$n = 6
    case _ if $num2:
        r$n = 7
    case _:
        r$n = 8""",
    ),
    rule("round", "round($num, 1)"),
    rule("floor division", "($num // 2)"),
    rule("remainder", "($num % 3)"),
    rule("power", "($num ** 2)"),
    rule("math.floor", "math.floor($index / 2)"),
    rule("range", "sum(range($index + 1))"),
    rule("bits of an index", "(($index & 3) | 4) ^ ($index << 1)"),
    rule("list of equal numbers", "len([0] * ($index + 1))"),
    rule("length of a name as an index", "(len($name) - 1)", gives=INDEX),
    rule("index from a table of names", '{"a": 0, "bb": 1}[$name]', gives=INDEX),
    rule("index by a truth", "(1 if $num else 0)", gives=INDEX),
    rule("name by a truth", '("a" if $num else "bb")', gives=NAME),
    rule("name by an index", '("a", "bb", "a")[$index]', gives=NAME),
    rule("name in a concatenation", '("" + $name)', gives=NAME),
    rule("object by a truth", "($obj if $num else $obj2)", gives=OBJ),
    rule("object from a list", "[$obj, $obj2][$index % 2]", gives=OBJ),
    rule("object made inside a call", "Box(a=$num, bb=$num2)", gives=OBJ),
    rule("function by a truth", "($fn if $num else $fn2)", gives=FN),
    rule("lambda", "(lambda p: p + $num)", gives=FN),
    rule("function from a table", "{'a': $fn, 'bb': $fn2}[$name]", gives=FN),
    rule("sequence of values", "list($table.values())", gives=SEQ),
    rule("sequence made inside", "[$num, $num2, $num3]", gives=SEQ),
    rule("tuple made inside", "($num, *$seq)", gives=SEQ),
    rule("sequence of mapped numbers", "[$fn(e) for e in $seq]", gives=SEQ),
    rule("sequence of attributes", "[getattr(e, $name) for e in ($obj, $obj2, $obj3)]", gives=SEQ),
    rule("table of an object", "vars($obj)", gives=TABLE),
    rule("table made inside", '{"a": $num, "bb": $num2}', gives=TABLE),
    rule("table made by zip", 'dict(zip(("a", "bb"), $seq))', gives=TABLE),
    rule("table by comprehension", "{e: $num for e in ('a', 'bb')}", gives=TABLE),
)
