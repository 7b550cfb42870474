"""Places of items: what containers of every kind hold, and the ways in which Python hands it out."""

from __future__ import annotations

from tests.capture.rule import Rule, place

_LIST = "L$n = [$old, 0]"
_DICT = 'D$n = {"k": $old, "l": 0}'
_LIST_EDITS = ("L$n[0] = $new", "L$n.insert(0, $new)", "L$n = [$new, 0]")
_DICT_EDITS = ('D$n["k"] = $new', "D$n.update(k=$new)", 'D$n = {"k": $new, "l": 0}')


def _list(name: str, text: str, lines: str = "") -> Rule:
    return place(name, text, *_LIST_EDITS, lines=lines, state=_LIST, path="L$n[0]")


def _dict(name: str, text: str, lines: str = "") -> Rule:
    return place(name, text, *_DICT_EDITS, lines=lines, state=_DICT, path='D$n["k"]')


def _kind(name: str, result: str, text: str, *edits: str, path: str = "") -> Rule:
    return place(f"item of {name}", text, *edits, state=f"D$n = {result}", path=path)


ITEMS: tuple[Rule, ...] = (
    _list("item of list", "L$n[0]"),
    _list("operator.getitem", "operator.getitem(L$n, 0)"),
    _list("__getitem__ called", "L$n.__getitem__(0)"),
    _list("slice", "L$n[0:1][0]"),
    _list("item of list from the end", "L$n[-len(L$n)]"),
    _list("list of a list", "list(L$n)[0]"),
    _list("tuple of a list", "tuple(L$n)[0]"),
    _list("copy of a list", "L$n.copy()[0]"),
    _list("concatenated lists", "(L$n + [1])[0]"),
    _list("repeated list", "(L$n * 2)[0]"),
    _list("starred list", "[*L$n][0]"),
    _list("next of iter", "next(iter(L$n))"),
    _list("reversed", "list(reversed(L$n))[-1]"),
    _list("comprehension", "[e for e in L$n][0]"),
    _list("comprehension inside a comprehension", "[f for e in [L$n] for f in e][0]"),
    _list("generator expression", "next(e for e in L$n)"),
    _list("enumerate", "dict(enumerate(L$n))[0]"),
    _list("zip", "list(zip(L$n, L$n))[0][1]"),
    _list("map", "list(map(echo, L$n))[0]"),
    _list("map of a lambda", "list(map(lambda e: e, L$n))[0]"),
    _list("filter", "list(filter(lambda e: True, L$n))[0]"),
    _list("itertools.chain", "next(itertools.chain(L$n, [1]))"),
    _list("arguments by star", "echo(*L$n[:1])"),
    _list("unpacking", "r$n", "r$n, s$n = L$n[:2]"),
    _list("unpacking with a star", "r$n", "r$n, *s$n = L$n"),
    _list("unpacking what a star takes", "s$n[-1]", "*s$n, r$n = reversed([*L$n, 0])\ns$n = [r$n, *L$n, L$n[0]]"),
    _list("for loop", "r$n", "for r$n in L$n:\n    break"),
    _list("match of a sequence", "r$n", "match L$n:\n    case [r$n, *_]:\n        pass"),
    _list("item of a list in a dict", "{0: L$n}[0][0]"),
    _dict("item of dict", 'D$n["k"]'),
    _dict("dict.get", 'D$n.get("k")'),
    _dict("dict.items", "list(D$n.items())[0][1]"),
    _dict("dict.values", "list(D$n.values())[0]"),
    _dict("loop over a dict", "[D$n[e] for e in D$n][0]"),
    _dict("dict of a dict", 'dict(D$n)["k"]'),
    _dict("dict comprehension", '{e: f for e, f in D$n.items()}["k"]'),
    _dict("starred dict", '{**D$n, "m": 1}["k"]'),
    _dict("merged dicts", '({"m": 1} | D$n)["k"]'),
    _dict("arguments by name", "(lambda k, l: k)(**D$n)"),
    _dict("itemgetter", 'operator.itemgetter("k")(D$n)'),
    _dict("key made of parts", 'D$n["".join(["k"])]'),
    _dict("key from a tuple", 'D$n[("j", "k")[1]]'),
    _dict("match of a mapping", "r$n", 'match D$n:\n    case {"k": r$n, **rest$n}:\n        pass'),
    _dict("MappingProxyType", 'types.MappingProxyType(D$n)["k"]'),
    place(
        "match of an attribute",
        "r$n",
        "B$n.v = $new",
        "B$n = Box(v=$new)",
        lines="match B$n:\n    case Box(v=r$n):\n        pass",
        state="B$n = Box(v=$old)",
        path="B$n.v",
    ),
    place(
        "dict.get with a default",
        'D$n.get("z", $old)',
        'D$n["z"] = $new',
        'D$n.pop("z", None)',
        state="D$n = {}",
    ),
    place(
        "KeyError expected",
        "r$n",
        'D$n["z"] = $new',
        'D$n.pop("z", None)',
        lines='try:\n    r$n = D$n["z"]\nexcept KeyError:\n    r$n = $old',
        state="D$n = {}",
    ),
    place(
        "IndexError expected",
        "r$n",
        "L$n.append($new)",
        "L$n.clear()",
        lines="try:\n    r$n = L$n[0]\nexcept IndexError:\n    r$n = $old",
        state="L$n = []",
    ),
    _kind("a tuple", "($old, 0)", "D$n[0]", "D$n = ($new, 0)", path="D$n[0]"),
    _kind(
        "nested containers",
        '{"k": [{"j": ($old,)}]}',
        'D$n["k"][0]["j"][0]',
        'D$n["k"][0]["j"] = ($new,)',
        'D$n["k"][0] = {"j": ($new,)}',
        'D$n["k"].insert(0, {"j": ($new,)})',
        path='D$n["k"][0]["j"][0]',
    ),
    _kind("an OrderedDict", "OrderedDict(k=$old)", 'D$n["k"]', 'D$n["k"] = $new', path='D$n["k"]'),
    _kind("a deque", "deque([$old, 0])", "D$n[0]", "D$n[0] = $new", "D$n.appendleft($new)", path="D$n[0]"),
    _kind(
        "a ChainMap",
        "ChainMap({}, {'k': $old})",
        'D$n["k"]',
        'D$n["k"] = $new',
        'D$n.maps[1]["k"] = $new',
        "D$n.maps.insert(0, {'k': $new})",
    ),
    _kind("a UserDict", "UserDict(k=$old)", 'D$n["k"]', 'D$n["k"] = $new', 'D$n.data = {"k": $new}', path='D$n["k"]'),
    _kind("a UserList", "UserList([$old])", "D$n[0]", "D$n[0] = $new", "D$n.insert(0, $new)", path="D$n[0]"),
    _kind(
        "a defaultdict",
        "defaultdict(lambda: $old)",
        'D$n["k"]',
        'D$n["k"] = $new',
        "D$n.clear()\nD$n.default_factory = lambda: $new",
    ),
    _kind(
        "a mapping proxy",
        "types.MappingProxyType(E$n := {'k': $old})",
        'D$n["k"]',
        'E$n["k"] = $new',
        path='D$n["k"]',
    ),
    place(
        "__missing__",
        'D$n["k"]',
        "H$n = $new",
        'D$n["k"] = $new',
        "C$n.__missing__ = lambda self, key: $new",
        state="H$n = $old\nclass C$n(dict):\n    def __missing__(self, key):\n        return H$n\nD$n = C$n()",
    ),
    place(
        "list of a user's class",
        "D$n[0]",
        "D$n[0] = $new",
        "C$n.__getitem__ = lambda self, key: $new",
        state="class C$n(list):\n    pass\nD$n = C$n([$old])",
    ),
    place(
        "__getitem__",
        'B$n["k"]',
        'B$n.h["k"] = $new',
        "C$n.__getitem__ = lambda self, key: $new",
        state="""\
class C$n:
    def __init__(self):
        self.h = {"k": $old}
    def __getitem__(self, key):
        return self.h[key]
B$n = C$n()""",
        path='B$n.h["k"]',
    ),
    place(
        "itemgetter replaced",
        "A$n(D$n)",
        'D$n["l"] = $new\nA$n = operator.itemgetter("l")',
        state='A$n = operator.itemgetter("k")\n' + _DICT,
    ),
    place(
        "array of objects",
        "A$n.get()",
        "A$n = Get$n($new)",
        "A$n.h[0] = $new",
        state="""\
class Get$n:
    def __init__(self, held):
        self.h = [held]
    def get(self, at=0):
        return self.h[at]
A$n = Get$n($old)""",
        path="A$n.h[0]",
    ),
)
