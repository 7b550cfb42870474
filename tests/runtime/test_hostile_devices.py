"""Code for GPUs that is malformed, with every hash right: both loaders refuse it, whichever device they load for."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.mutations import MANIFEST, members_of, rebuilt
from tests.graphs import needs_native
from tests.runtime.c_library import CError
from tests.runtime.device_files import counting_rows

pytestmark = needs_native


def put(*keys: Any) -> Callable[[Any, Any], None]:
    """What puts the last of ``keys`` where the others lead."""

    def change(codes: Any, members: Any) -> None:
        *way, last, value = keys
        for key in way:
            codes = codes[key]
        codes[last] = value

    return change


def drop(key: str) -> Callable[[Any, Any], None]:
    return lambda codes, members: codes["sm_80"].pop(key)


def rename(name: str) -> Callable[[Any, Any], None]:
    return lambda codes, members: codes.update({name: codes.pop("sm_80")})


def member(name: str, change: Callable[[bytes], bytes]) -> Callable[[Any, Any], None]:
    return lambda codes, members: members.update({name: change(members[name])})


CASES: dict[str, tuple[Callable[[Any, Any], None], str]] = {
    "a generation that is none": (rename("sm_x0"), "names no generation of GPUs"),
    "a generation of a level": (rename("x86-64-v3"), "names no generation of GPUs"),
    "a generation too long": (rename("sm_8000"), "names no generation of GPUs"),
    "no host": (drop("host"), "lacks 'host'"),
    "no PTX": (drop("ptx"), "lacks 'ptx'"),
    "no word on failures": (drop("reports"), "lacks 'reports'"),
    "a word that is none": (put("sm_80", "reports", 1), "'reports' is"),
    "a host that is not there": (put("sm_80", "host", "cuda/no"), "'cuda/no' is missing"),
    "a PTX that is not there": (put("sm_80", "ptx", "../x"), "'../x' is missing"),
    "a host that is no image": (put("sm_80", "host", "cuda/sm_80.ptx"), "native image"),
    "a PTX that is none": (put("sm_80", "ptx", "cuda/sm_80.host"), "this is no PTX"),
    "a PTX that ends early": (member("cuda/sm_80.ptx", lambda ptx: ptx[:40] + b"\0" + ptx[40:]), "this is no PTX"),
    "a PTX with other letters": (member("cuda/sm_80.ptx", lambda ptx: ptx + "é".encode()), "this is no PTX"),
    "an empty PTX": (member("cuda/sm_80.ptx", lambda ptx: b""), "this is no PTX"),
    "an entry outside of its code": (
        member("cuda/sm_80.host", lambda image: image[:32] + b"\xff\xff\0\0" + image[36:]), "'entry' at 65535"
    ),
    "an image of another ABI": (member("cuda/sm_80.host", lambda image: image[:8] + b"\x04" + image[9:]), "ABI 4"),
    "a kernel without a name": (put("sm_80", "functions", 0, ""), "is no name of a kernel"),
    "a kernel's name with a space": (put("sm_80", "functions", 0, "k x"), "is no name of a kernel"),
    "a kernel's name with a digit": (put("sm_80", "functions", 0, "0k"), "is no name of a kernel"),
    "a long kernel's name": (put("sm_80", "functions", 0, "k" * 2000), "is no name of a kernel"),
    "a kernel that is no text": (put("sm_80", "functions", 0, 3), "no name of a kernel|not a string"),
    "a kernel twice": (put("sm_80", "functions", ["k", "k"]), "named twice|not distinct"),
    "a place behind the table": (put("sm_80", "driver", "cuLaunchKernel", 256), "is no function of the driver"),
    "a place before the table": (put("sm_80", "driver", "cuLaunchKernel", -1), "is no function of the driver"),
    "a place far off": (put("sm_80", "driver", "cuLaunchKernel", 2**64), "is no function of the driver"),
    "a place that is no number": (put("sm_80", "driver", "cuLaunchKernel", True), "is no function of the driver"),
    "a function of libc": (put("sm_80", "driver", "system", 3), "is no function of the driver"),
    "a function that begins so": (put("sm_80", "driver", "curl_easy_init", 3), "is no function of the driver"),
    "a function with a dash": (put("sm_80", "driver", "cuLaunch-Kernel", 3), "is no function of the driver"),
    "two functions in one place": (put("sm_80", "driver", {"cuInit": 3, "cuLaunchKernel": 3}), "one place"),
    "a constant that is not there": (put("sm_80", "constants", [{"key": "x", "bytes": 8}]), "no constant 'x'"),
    "a constant of another size": (put("sm_80", "constants", [{"key": "table", "bytes": 8}]), "no constant"),
    "a constant of fewer than none": (put("sm_80", "constants", [{"key": "table", "bytes": -1}]), "bytes"),
    "a constant that is a text": (put("sm_80", "constants", ["table"]), "is not a JSON object"),
    "a check of another kind": (put("sm_80", "checks", 0, "kind", "SystemExit"), "a check raises 'SystemExit'"),
    "a check without words": (put("sm_80", "checks", [{}]), "lacks"),
    "no word on pinned memory": (drop("pinned"), "lacks 'pinned'"),
    "pinned memory below nothing": (put("sm_80", "pinned", [-1]), "is no size of pinned memory"),
    "pinned memory by a truth": (put("sm_80", "pinned", [True]), "is no size of pinned memory"),
    "pinned memory by a size that is not known": (put("sm_80", "pinned", ["8*m"]), "unknown"),
    "pinned memory by no size": (put("sm_80", "pinned", ["8*"]), "is not a size"),
    "codes in a list": (lambda codes, members: codes.clear() or codes.update({"sm_80": []}), "is not a JSON object"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_malformed_code_is_refused(case: str, tmp_path: Path, written_loader: Any, c_library: Any) -> None:
    path = tmp_path / "model.jg"
    counting_rows(path, targets=("x86-64-v3", "sm_80"))
    members = members_of(path.read_bytes())
    tree = json.loads(members[MANIFEST])
    written_loader.load(path)
    change, message = CASES[case]
    change(tree["entries"]["forward"]["cuda"], members)
    path.write_bytes(rebuilt(members, tree))
    with pytest.raises(written_loader.LoadError, match=message):
        written_loader.load(path)
    if c_library is not None:
        with pytest.raises(CError, match=message):
            c_library.load(path)
