"""Rules that change lists, dicts, sets and their kin inside the call, and read what they changed."""

from __future__ import annotations

from tests.capture.effects import effect
from tests.capture.rule import Rule

_LIST = "L$n = [1, 2]"
_DICT = 'D$n = {"k": 2}'
_LIBRARY = "what code of a library changes is not seen"

CONTAINER_EFFECTS: tuple[Rule, ...] = (
    effect("item set", 'D$n["k"] = $num', 'D$n["k"]', 'D$n["k"] = $v', state=_DICT),
    effect("item counted", 'D$n["k"] += 1', 'D$n["k"]', 'D$n["k"] = $v', state=_DICT),
    effect("item of a list set", "L$n[0] = $num", "L$n[0] + L$n[1]", "L$n[1] = $v", state=_LIST),
    effect("item of a list counted", "L$n[-1] += 1", "sum(L$n)", "L$n[1] = $v", state=_LIST),
    effect(
        "item set and deleted", 'D$n["z"] = $num\nr$n = D$n["z"]\ndel D$n["z"]', "r$n", 'D$n["k"] = $v', state=_DICT
    ),
    effect("item set by a computed key", "D$n[$name] = $num", "len(D$n)", 'D$n["k"] = $v', "D$n.clear()", state=_DICT),
    effect("setdefault", 'r$n = D$n.setdefault("z", $num)', "r$n", 'D$n["z"] = $v', 'D$n.pop("z", None)', state=_DICT),
    effect(
        "tensor put by setdefault and added to",
        "D$n.setdefault('z', jg.asarray([1.0]))\nD$n['z'] += $num",
        "D$n['z'][0]",
        "D$n['z'] = jg.asarray([3.0])",
        "D$n.pop('z', None)",
        state=_DICT,
    ),
    effect(
        "tensor put by update and added to",
        "D$n.update(z=jg.asarray([1.0]))\nD$n['z'] += $num",
        "D$n['z'][0]",
        "D$n['z'] = jg.asarray([3.0])",
        state="D$n = {'z': jg.asarray([2.0])}",
    ),
    effect(
        "list put by setdefault and added to",
        "D$n.setdefault('z', [])\nD$n['z'] += [$num]",
        "sum(D$n['z'])",
        "D$n['z'] = [$v]",
        "D$n.pop('z', None)",
        state=_DICT,
    ),
    effect(
        "tensor put into vars and added to",
        "vars(B$n).setdefault('z', jg.asarray([1.0]))\nB$n.z += $num",
        "B$n.z[0]",
        "B$n.z = jg.asarray([3.0])",
        "vars(B$n).pop('z', None)",
        state="B$n = Box(v=2)",
    ),
    effect("dict updated", "D$n.update(z=$num)", "len(D$n)", 'D$n["k"] = $v', "D$n.pop('z', None)", state=_DICT),
    effect(
        "dict merged in place",
        "B$n.d |= {'z': $num}",
        "len(B$n.d)",
        "B$n.d['k'] = $v",
        "B$n.d = {}",
        state="B$n = Box(d={})",
    ),
    effect("dict popped", 'r$n = D$n.pop("z", 1)', "r$n", 'D$n["z"] = $v', state=_DICT),
    effect(
        "defaultdict filled",
        "D$n['q'] += 1",
        "D$n['q']",
        "D$n.clear()",
        "D$n['q'] = $v",
        state="D$n = defaultdict(int)",
    ),
    effect("appended", "L$n.append($num)", "len(L$n)", "L$n.clear()", "L$n[:] = [$v]", state=_LIST),
    effect("appended and summed", "L$n.append($num)", "sum(L$n)", "L$n.clear()", "L$n[:] = [$v]", state=_LIST),
    effect("popped", "L$n.append($num)\nr$n = L$n.pop(0)", "r$n", "L$n[0] = $v", state=_LIST),
    effect("extended", "L$n.extend([$num, 1])", "len(L$n)", "L$n.clear()", state=_LIST),
    effect("inserted", "L$n.insert(0, $num)", "L$n[0] + len(L$n)", "L$n.clear()", state=_LIST),
    effect("augmented list", "B$n.l += [$num]", "len(B$n.l)", "B$n.l = [$v]", "B$n.l.clear()", state="B$n = Box(l=[])"),
    effect("slice set", "L$n[:1] = [$num, 2]", "len(L$n)", "L$n[:] = [$v]", state=_LIST),
    effect("item of a list deleted", "L$n.append($num)\ndel L$n[0]", "L$n[0]", "L$n[0] = $v", state=_LIST),
    effect("list cleared", "r$n = len(L$n)\nL$n.clear()", "r$n", "L$n.append($v)", state=_LIST),
    effect("list reversed", "L$n.reverse()", "L$n[0]", "L$n[0] = $v", state=_LIST),
    effect("list sorted", "L$n.sort()", "L$n[0]", "L$n[0] = $v", state=_LIST),
    effect(
        "deque turned",
        "L$n.append($num)\nr$n = L$n.popleft()",
        "r$n",
        "L$n[0] = $v",
        state="L$n = deque([1, 2])",
    ),
    effect("deque rotated", "L$n.rotate(1)\nL$n[1] = $num", "L$n[0]", "L$n[0] = $v", state="L$n = deque([1, 2, 3])"),
    effect("deque that is full", "L$n.append($num)", "sum(L$n)", "L$n.clear()", state="L$n = deque([1, 2], maxlen=2)"),
    effect("deque put before", "L$n.appendleft($num)", "L$n[-1]", "L$n.clear()", state="L$n = deque([1, 2])"),
    effect(
        "event set",
        "r$n = int(E$n.is_set())\nE$n.set()\nE$n.wait()",
        "r$n",
        "E$n.clear()",
        state="E$n = threading.Event()",
    ),
    effect("queue filled", "Q$n.put($num)", "Q$n.qsize()", "Q$n.empty() or Q$n.get()", state="Q$n = queue.Queue()"),
    effect(
        "queue turned", "Q$n.put($num)\nr$n = Q$n.get()", "r$n", "Q$n.put($v)", state="Q$n = queue.Queue()\nQ$n.put(5)"
    ),
    effect("set added to", "S$n.add($num)", "len(S$n)", "S$n.clear()", state="S$n = {0}"),
    effect("value before and after", "r$n = L$n[0]\nL$n[0] = $num", "r$n", "L$n[0] = $v", state=_LIST),
    effect("key popped and put back", "D$n['k'] = D$n.pop('k') + 1", "D$n['k']", "D$n['k'] = $v", state=_DICT),
    effect("popitem", "D$n['z'] = $num\nr$n = D$n.popitem()[1]", "r$n", "D$n['k'] = $v", state=_DICT),
    effect(
        "list of a dict appended to",
        "D$n.setdefault($name, []).append($num)",
        "len(D$n)",
        "D$n.clear()",
        state="D$n = {}",
    ),
    effect(
        "ChainMap set",
        "D$n['k'] = $num",
        "D$n['k']",
        "D$n.maps[0].clear()",
        state="D$n = ChainMap({}, {'k': 1})",
        refuses=_LIBRARY,
    ),
    effect(
        "UserDict counted", "D$n['k'] += 1", "D$n['k']", "D$n['k'] = $v", state="D$n = UserDict(k=1)", refuses=_LIBRARY
    ),
    effect("effect of a lambda", "(lambda: L$n.append($num))()", "len(L$n)", "L$n.clear()", state=_LIST),
    effect("effect of map", "list(map(L$n.append, [$num]))", "len(L$n)", "L$n.clear()", state=_LIST),
    effect("effect of a comprehension", "[L$n.append(e) for e in ($num, 2)]", "len(L$n)", "L$n.clear()", state=_LIST),
    effect(
        "cache filled by hand",
        "if $index not in D$n:\n    D$n[$index] = $num",
        "len(D$n)",
        "D$n.clear()",
        "D$n['z'] = $v",
        state="D$n = {}",
    ),
)
