"""Archives that are cut, changed or made to harm raise LoadError while they are loaded, in little time and memory."""

# ruff: noqa: E501
from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import struct
import time
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jitgraph.errors import LoadError
from jitgraph.torch import jit
from tests.torch.jit.building import Writer, archive_of, members_of, packed
from tests.torch.jit.records import ARCHIVES

CASES = int(os.environ.get("HOSTILE_ARCHIVES", "200"))

CODE = """
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    return x
"""


def refused(file: Any, match: str = ".") -> None:
    with pytest.raises(LoadError, match=match):
        jit.load(file)


def with_pickle(data: bytes, **others: bytes) -> io.BytesIO:
    members = members_of(CODE, {"training": False})
    return packed({**members, "data.pkl": data, **others})


def test_the_sound_archive() -> None:
    assert isinstance(jit.load(archive_of(CODE, {"training": False})), jit.ScriptModule)


# --- random changes ---------------------------------------------------------------------------------------------------


def changed(data: bytes, rng: random.Random) -> bytes:
    """Bytes with a few of them changed, left out, put in or repeated."""
    content = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 4])):
        if not content:
            break
        at = rng.randrange(len(content))
        match rng.randrange(5):
            case 0:
                content[at] = rng.randrange(256)
            case 1:
                content[at] ^= 1 << rng.randrange(8)
            case 2:
                del content[at : at + rng.randrange(1, 8)]
            case 3:
                content[at:at] = rng.randbytes(rng.randrange(1, 4))
            case _:
                other = rng.randrange(len(content))
                content[at : at + 4] = content[other : other + 4]
    return bytes(content)


def rebuilt(data: bytes, change: Callable[[str, bytes], bytes]) -> bytes:
    """The archive with changed members, whose checksums are right."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, content in members:
            archive.writestr(name, change(name, content))
    return out.getvalue()


def test_random_changes_raise_load_errors_alone() -> None:
    rng = random.Random(7)
    files = [path.read_bytes() for path in sorted(ARCHIVES.glob("*.pt"))]
    loads = 0
    for number in range(CASES):
        data = rng.choice(files)
        ends = (None, "data.pkl", ".py", "")[number % 4]
        if ends is None:
            data = changed(data, rng)
        else:
            data = rebuilt(
                data,
                lambda name, content, ends=ends: (
                    changed(content, rng) if name.endswith(ends) and (ends or rng.random() < 0.3) else content
                ),
            )
        try:
            jit.load(io.BytesIO(data))
        except LoadError:
            continue
        loads += 1
    assert loads < CASES  # some changes leave a sound archive


# --- pickles ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["os system", "builtins eval", "builtins exec", "subprocess Popen", "torch load", "jitgraph load", "__main__ x"],
)
def test_foreign_names(name: str) -> None:
    module, _, function = name.partition(" ")
    refused(with_pickle(f"\x80\x02c{module}\n{function}\n(X\x04\x00\x00\x00true\x85R.".encode("latin1")), "names")
    refused(with_pickle(b"\x80\x04\x8c" + bytes([len(module)]) + module.encode() + b"\x8c" + bytes([len(function)])
                        + function.encode() + b"\x93)R."), "names")  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x80\x02",
        b"\x80\x02.",
        b"\x80\x09N.",
        b"\x80\x02NN.",
        b"\x80\x02(.",
        b"\x80\x02t.",
        b"\x80\x02h\x05.",
        b"\x80\x02}Ns.",
        b"\x80\x02](K\x01K\x02u.",
        b"\x80\x02}(K\x01u.",
        b"\x80\x02K\x01K\x02R.",
        b"\x80\x02N}b.",
        b"\x80\x02X\xff\xff\xff\x7fa.",
        b"\x80\x02\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",
        b"\x80\x02NQ.",
        b"\x80\x02i\nos\nsystem\n.",
        b"\x80\x02cos\nsystem",
        b"\x80\x02\x82\x01.",
        b"\x80\x02P1\n.",
        pickle.dumps([1, 2], 2),
        pickle.dumps({"a": 1}, 2),
        b"\x80\x02c__torch__\nM\n)\x81K\x01b.",
        b"\x80\x02c__torch__\nM\n)\x81}(X\x04\x00\x00\x00selfh\x00ub.",
        b"\x80\x02c__torch__\nAbsent\n)\x81}b.",
    ],
)
def test_malformed_pickles(data: bytes) -> None:
    refused(with_pickle(data))


def test_nesting_and_cycles() -> None:
    begin = time.perf_counter()
    refused(with_pickle(b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000 + b"."))
    refused(with_pickle(b"\x80\x02" + b")" + b"\x85" * 100_000 + b"."))
    refused(with_pickle(b"\x80\x02]" + b"]" * 50_000 + b"a" * 50_000 + b"."))
    own = b"\x80\x02c__torch__\nM\n)\x81q\x00}(X\x01\x00\x00\x00x"
    refused(with_pickle(own + b"h\x00ub."), "holds itself")
    refused(with_pickle(own + b"]q\x01h\x01aub."), "holds itself")
    doubled = b"K\x01" + b"2\x86" * 60  # a tuple of itself twice, again and again
    refused(with_pickle(own + b"}" + doubled + b"K\x01sub."), "key")
    refused(with_pickle(own + b"\x8f(" + doubled + b"\x90ub."))
    with contextlib.suppress(LoadError):
        jit.load(with_pickle(own + doubled + b"ub."))
    assert time.perf_counter() - begin < 20


class Tensors(Writer):
    """An archive whose attribute ``t`` is a tensor that lies elsewhere than it may."""

    def archive(self, opcodes: bytes, **changes: bytes) -> io.BytesIO:
        text = b"X\x01\x00\x00\x00t"
        data = b"\x80\x02c__torch__\nM\n)\x81}(" + text + opcodes + b"ub."
        storages = {f"data/{number}": content for number, content in enumerate(self.storages)}
        members = {**members_of(CODE, {"training": False}), "data.pkl": data, **storages}
        return packed({name: changes.get(name.replace("/", "_"), content) for name, content in members.items()})


@pytest.mark.parametrize(
    ("offset", "size", "stride"),
    [
        (1, (4,), (1,)), (0, (5,), (1,)), (0, (2, 2), (3, 1)), (-1, (2,), (1,)), (0, (-1,), (1,)), (0, (2,), (-1,)),
        (0, (2,), (1, 1)), (0, (1 << 62, 1 << 62), (0, 0)), (0, (1 << 40,), (0,)), (1 << 70, (1,), (1,)), (5, (0,), (1,)),
        (0, (2.0,), (1,)), ("0", (2,), (1,)), (0, (True,), (1,)), (0, (1,) * 100, (1,) * 100), (0, (2,), (1 << 61,)),
    ],
)  # fmt: skip
def test_tensors_outside_of_their_storage(offset: Any, size: Any, stride: Any) -> None:
    writer = Tensors()
    array = np.arange(4, dtype=np.float32)
    assert jit.load(writer.archive(writer.tensor(array, offset=1, size=(3,), stride=(1,)))).t.shape == (3,)
    writer = Tensors()
    refused(writer.archive(writer.tensor(array, offset=offset, size=size, stride=stride)))


def test_storages_that_are_not_what_tensors_say() -> None:
    array = np.arange(4, dtype=np.float32)
    for content in (b"", array.tobytes()[:-1]):
        writer = Tensors()
        refused(writer.archive(writer.tensor(array), data_0=content), "fewer bytes")
    writer = Tensors()
    tensor = writer.tensor(array)
    refused(writer.archive(tensor.replace(b"FloatStorage", b"DoubleStorage")))
    refused(writer.archive(tensor.replace(b"FloatStorage", b"OtherStorage")))
    refused(writer.archive(tensor.replace(b"X\x01\x00\x00\x000", b"X\x01\x00\x00\x009")), "no member")
    refused(writer.archive(tensor.replace(b"X\x01\x00\x00\x000", b"X\x06\x00\x00\x00../../")), "no member")
    two = b"(" + tensor + tensor.replace(b"FloatStorage", b"IntStorage") + b"t"
    refused(writer.archive(two), "two types")


def test_a_tensor_that_repeats_its_elements() -> None:
    writer = Tensors()
    module = jit.load(writer.archive(writer.tensor(np.ones(1, np.float32), size=(3, 4), stride=(0, 0))))
    assert module.t.shape == (3, 4) and np.asarray(module.t).all()


# --- the container ----------------------------------------------------------------------------------------------------


def test_zips() -> None:
    members = members_of(CODE, {"training": False})
    good = archive_of(CODE, {"training": False}).getvalue()
    for end in range(0, len(good), 41):
        refused(io.BytesIO(good[:end]))
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"m/{name}", content)
        archive.writestr("m/code/big.py", bytes(1 << 27))
    assert len(bomb.getvalue()) < 1 << 20
    refused(bomb, "unpacks to")
    for name in ("../evil", "/etc/passwd", "m/../../evil", "m\\x", "other/x"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("m/version", b"3")
            archive.writestr(name, b"")
        refused(file)
    nameless = bytearray(packed(members_of(CODE, {"training": False})).getvalue())
    for at in (nameless.index(b"PK\x01\x02"), nameless.rindex(b"PK\x01\x02")):
        count = nameless[at + 28]
        nameless[at + 28 : at + 30] = b"\0\0"
        nameless[at + 32 : at + 34] = struct.pack("<H", count)  # what was the name is the comment
        refused(io.BytesIO(bytes(nameless)), "does not stand in the folder")
    with pytest.warns(UserWarning, match="Duplicate"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("m/version", b"3")
            archive.writestr("m/version", b"4")
    refused(file, "two members")
    at = good.index(b"PK\x01\x02")
    overlapping = bytearray(good)
    second = good.index(b"PK\x01\x02", at + 4)
    overlapping[second + 42 : second + 46] = overlapping[at + 42 : at + 46]
    refused(io.BytesIO(bytes(overlapping)))
    huge = bytearray(good)
    huge[at + 20 : at + 28] = struct.pack("<II", 0x7FFFFFF0, 0x7FFFFFF0)
    refused(io.BytesIO(bytes(huge)))


def test_members_that_are_missing_or_foreign() -> None:
    members = members_of(CODE, {"training": False})
    for name in ("data.pkl", "constants.pkl", "version", "code/__torch__.py"):
        refused(packed({other: content for other, content in members.items() if other != name}))
    for version in (b"", b"0", b"99", b"-1", b"x" * 100, b"\xff"):
        refused(packed({**members, "version": version}))
    refused(packed({**members, "constants.pkl": b"\x80\x02N."}), "no list")
    refused(packed({**members, "model.json": b"{}", "data.pkl": b""}))


def test_archives_of_before_1_4_say_their_version_and_how_to_convert_them() -> None:
    members = {"model.json": b'{"protoVersion": "2", "mainModule": {}}', "attributes.pkl": b"", "code/m.py": b""}
    refused(
        packed(members), r"before version 1\.4.*version 2 of that format\n  hint: torch\.jit\.save\(torch\.jit\.load"
    )
    for text in (b"", b"\xff", b'{"protoVersion": []}', b'{"protoVersion": "' + b"9" * 5000):
        refused(packed({**members, "model.json": text}))


# --- code -------------------------------------------------------------------------------------------------------------


def forward_of(body: str, *, methods: str = "") -> str:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    return f"class M(Module):\n  training : bool\n  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n{lines}\n{methods}"


@pytest.mark.parametrize(
    "body",
    [
        "return __import__('os').system('true')",
        "return [y for y in x]",
        "return (lambda: x)()",
        "import os\nreturn x",
        "exec('1')\nreturn x",
        "return x.__class__.__mro__",
        "try:\n  return x\nexcept Exception:\n  pass",
        "del x\nreturn x",
        "global y\nreturn x",
        "return f'{x}'",
        "return x[1:2]",
        "return not x",
        "return x if x else x",
        "return (y := x)",
        "raise x",
        "assert x",
        "return await_\nasync def g(): pass",
        "return x.numpy",
        'return getattr(x, "__class__")',
        "self.__class__ = x\nreturn x",
        "return torch.add(" * 60 + "x" + ")" * 60,
        "return " + "-" * 5000 + "1",
        "return x" + ".a" * 5000,
        "return b'x'",
        "return ...",
        "return unknown",
        "return unknown(x)",
        "return torch.nn.functional.relu(x)",
        "return __torch__.absent(x, )",
        "return torch.add(*x)",
        "return torch.add(**x)",
        "return CONSTANTS.c7",
        "return CONSTANTS.__class__",
        "def __forked_function(y):\n  return y\nreturn x",
        "return x\nreturn x",
        "return globals()",
    ],
)
def test_code_that_is_no_torchscript(body: str) -> None:
    """It is refused when it is loaded, or, where only its meaning is wrong, when it is called."""
    code = forward_of(body)
    try:
        module = jit.load(archive_of(code, {"training": False}))
    except LoadError:
        return
    with pytest.raises((LoadError, AttributeError)):
        module(np.ones(2, np.float32))


@pytest.mark.parametrize(
    "code",
    [
        "", "x = 1", "class M(Module):\n  x = y()\n", "class M(Module):\n  @staticmethod\n  def f(x): pass\n", "\0", "class M(",
        "class M(Module):\n  def forward(self, *args): pass\n", "class M(Module):\n  def forward(self, x, x): pass\n",
        "class M(Module):\n  training : bool\n  def forward(self, x=[1 for _ in y]): pass\n", "import os",
        "class M(Enum):\n  A = 1\n", "class M(NamedTuple):\n  a : int\n", "class M(ModuleInterface):\n  pass\n", "é" * 100,
        "def M(self): pass", "class M(Module):\n  training : bool\n  def forward(self, x=torch.zeros([1 << 40])): pass\n",
    ],
)  # fmt: skip
def test_classes_that_are_none(code: str) -> None:
    refused(archive_of(code, {"training": False}))


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n  pass",
        "for i in range(1000000000000):\n  pass",
        "self.t = torch.zeros([1000000000000])",
        "self.t = torch.mul([0], 100000000000)",
        "_0 = (self).again(state, )",
        "self.t = ops.aten.zeros([1])",
        "with x:\n  pass",
        "self.t = torch.matmul(state, state)",
        "ops.prim.RaiseException(\"no\", \"builtins.ValueError\")",
    ],
)  # fmt: skip
def test_code_that_runs_while_it_is_loaded(body: str) -> None:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    again = "  def again(self: __torch__.M,\n    state: int) -> NoneType:\n    _0 = (self).again(state, )\n    return None\n"
    set_state = f"  def __setstate__(self: __torch__.M,\n    state: int) -> NoneType:\n{lines}\n    return None\n"
    code = forward_of("return x", methods=set_state + again)
    begin = time.perf_counter()
    refused(packed({**members_of(code, {}), "data.pkl": b"\x80\x02c__torch__\nM\n)\x81K\x03b."}))
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize("name", ["_hooks", "_persistence", "__class__", "__dict__", "script_methods"])
def test_attributes_that_are_not_the_files(name: str) -> None:
    refused(archive_of(CODE, {"training": False, name: 1}))
