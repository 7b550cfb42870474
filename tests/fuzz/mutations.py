"""Mutations of a sound file, each by a seeded generator: what a bad disk does, and what a hostile author writes."""

from __future__ import annotations

import copy
import hashlib
import io
import json
import random
import re
import struct
import zipfile
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from .rewriting import graph_rewritten

MANIFEST: Final = "manifest.json"
GRAPH: Final = "graph.jgir"
WEIGHTS: Final = "weights.safetensors"

NUMBERS: Final = (
    0, 1, 2, 3, 4, 5, 7, 8, 63, 64, 255, 65535, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, 2**63, 2**64 - 1,
    2**64, 10**30, -1, -2, -(2**31), -(2**63), -(2**63) - 1,
)  # fmt: skip
ODD_TEXTS: Final = (
    "", "x", "n", "n + 1", "n//0", "-n", "n*n*n*n", "a.b", "../x", "\x00", "é", "float32", "f16", "__proto__", "class",
    "1" * 40, "(" * 100, "{index}", "n" * 5000, "graph.jgir", "weights.safetensors",
)  # fmt: skip
_TOKENS: Final = """
    n m x 0 1 -1 3 64 f32 i64 bool u8 bf16 none true nan inf -0.0 1e400 [] [[ ] { } %x %0 return graph token add slice
    reshape gather dot conv scan while cond call fused grad softmax sort pad concat scatter constant print check
    stack_pop random_bits dropout
"""
HOSTILE_TOKENS: Final = (
    *_TOKENS.split(),
    *(str(2**31), str(2**62), str(2**64), "n - 5", "n//2", "n % 0", "where n >= 0", "where n == 3", "stack<f32[2]>"),
)


class Mutant(NamedTuple):
    """A mutated file, and what was done to it."""

    data: bytes
    mutation: str


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rebuilt(members: dict[str, bytes], manifest: dict[str, Any] | None = None) -> bytes:
    """A file of these members with every hash right; ``manifest`` in place of the one among them."""
    tree = json.loads(members[MANIFEST]) if manifest is None else manifest
    tree["members"] = {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in members.items()
        if name != MANIFEST
    }
    return zipped({**members, MANIFEST: json.dumps(tree, indent=1).encode()})


def zipped(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return file.getvalue()


# --- JSON -----------------------------------------------------------------------------------------------------------


def places(tree: Any) -> list[tuple[Any, Any]]:
    """(container, key) of every value in a JSON tree."""
    results = []
    items = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in items:
        results.append((tree, key))
        results += places(value)
    return results


def changed_value(rng: random.Random, value: Any, others: list[Any]) -> Any:
    """Another value in place of one: near it, of another type, or one from elsewhere in the tree."""
    kind = rng.randrange(6)
    if kind == 0 and isinstance(value, int):
        return value + rng.choice((-1, 1, 64, -64))
    if kind == 1 and isinstance(value, str) and value:
        at = rng.randrange(len(value))
        return value[:at] + rng.choice(("", "x", "0", "-", "\u0000", "n")) + value[at + 1 :]
    if kind == 2 and isinstance(value, list) and value:
        return rng.choice((value[:-1], value + value[-1:], value[::-1], [*value, rng.choice(NUMBERS)]))
    if kind <= 3:
        return copy.deepcopy(rng.choice(others))
    return rng.choice((rng.choice(NUMBERS), rng.choice(ODD_TEXTS), None, True, 1.5, [], {}, [[]], {"tuple": [0]}))


def change_tree(rng: random.Random, tree: Any, spots: list[tuple[Any, Any]]) -> None:
    """One change at one of ``spots``: a value, a key, or its absence."""
    container, key = rng.choice(spots)
    kind = rng.randrange(8)
    if kind == 0:
        del container[key]
    elif kind == 1 and isinstance(container, dict):
        container[rng.choice(ODD_TEXTS)] = container.pop(key)
    else:
        others = [inner[at] for inner, at in places(tree)]
        container[key] = changed_value(rng, container[key], others)


# --- what a hostile author would write ------------------------------------------------------------------------------


def manifest_field(rng: random.Random, data: bytes) -> bytes:
    """A value of the manifest, outside the list of members."""
    members = members_of(data)
    tree = json.loads(members[MANIFEST])
    for _ in range(rng.choice((1, 1, 2))):
        spots = [(tree, key) for key in tree if key != "members"] + places(tree["entries"])
        change_tree(rng, tree, spots)
        if not isinstance(tree.get("entries"), dict | list):
            break
    return rebuilt(members, tree)


def manifest_members(rng: random.Random, data: bytes) -> bytes:
    """The list of members in the manifest."""
    members = members_of(data)
    tree = json.loads(members[MANIFEST])
    change_tree(rng, tree, places(tree["members"]))
    return zipped({**members, MANIFEST: json.dumps(tree).encode()})


def manifest_text(rng: random.Random, data: bytes) -> bytes:
    """The text of the manifest: JSON that is none, or that Python and C might read differently."""
    members = members_of(data)
    text = members[MANIFEST]
    at = rng.randrange(len(text))
    odd = (
        b"",
        b"NaN",
        b"-0",
        b"1e999",
        b"\\ud800",
        b"\xff",
        b'"',
        b",",
        b"}",
        b"]",
        b"01",
        b"[" * 300,
        b"{}",
        b'"a":1,',
        b"9" * 5000,
    )
    return zipped({**members, MANIFEST: text[:at] + rng.choice(odd) + text[at + rng.randrange(3) :]})


_TOKEN: Final = re.compile(r"sha256:[0-9a-f]{64}|[A-Za-z_][A-Za-z0-9_.]*|-?[0-9.]+|[%@]|[^\sA-Za-z0-9_]")


def graph_token(rng: random.Random, data: bytes) -> bytes:
    """Tokens of the graph's text: replaced, left out, doubled, exchanged."""
    members = members_of(data)
    text = members[GRAPH].decode()
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        tokens = list(_TOKEN.finditer(text))
        one, other = rng.choice(tokens), rng.choice(tokens)
        new = rng.choice(("", one[0] * 2, other[0], rng.choice(HOSTILE_TOKENS), str(rng.choice(NUMBERS))))
        text = text[: one.start()] + new + text[one.end() :]
    return rebuilt({**members, GRAPH: text.encode()})


def graph_line(rng: random.Random, data: bytes) -> bytes:
    """Lines of the graph's text: left out, doubled, moved."""
    members = members_of(data)
    lines = members[GRAPH].decode().split("\n")
    at, to = rng.randrange(len(lines)), rng.randrange(len(lines))
    line = lines.pop(at) if rng.random() < 0.7 else lines[at]
    if rng.random() < 0.7:
        lines.insert(to, line)
    return rebuilt({**members, GRAPH: "\n".join(lines).encode()})


def graph_node(rng: random.Random, data: bytes) -> bytes:
    """A node of the graph, with types, conditions and signature that fit."""
    return rebuilt(*graph_rewritten(rng, members_of(data)))


def constraints(rng: random.Random, data: bytes) -> bytes:
    """Conditions of the sizes: left out, weakened or made up, in the graph, in the signature, or in both."""
    members = members_of(data)
    tree = json.loads(members[MANIFEST])
    signature = tree["entries"]["forward"]["signature"]
    inputs, dims = list(signature["constraints"]), signature["dims"] or ["n"]
    for _ in range(rng.choice((1, 1, 2, len(inputs) or 1))):
        kind = rng.randrange(4)
        if inputs and kind == 0:
            inputs.pop(rng.randrange(len(inputs)))
        elif inputs and kind == 1:
            at = rng.randrange(len(inputs))
            inputs[at] = re.sub(r"[0-9]+", lambda found: str(max(0, int(found[0]) - rng.choice((1, 2)))), inputs[at])
        elif inputs and kind == 2:
            inputs[rng.randrange(len(inputs))] = f"{rng.choice(dims)} >= {rng.choice(NUMBERS)}"
        else:
            left = rng.choice((*dims, f"{rng.choice(dims)}//2", f"-{rng.choice(dims)}", f"7 % {rng.choice(dims)}"))
            inputs.append(f"{left} {rng.choice(('==', '>='))} {rng.choice((*dims, 0, 1, 2, -5, '0 - 5'))}")
    where = rng.choice(("both", "both", "graph", "signature"))
    if where != "graph":
        signature["constraints"] = inputs
    if where != "signature":
        clause = f" where {', '.join(inputs)} {{" if inputs else " {"
        text = re.sub(r"(?: where [^\n{]*)? \{", lambda _: clause, members[GRAPH].decode(), count=1)
        members = {**members, GRAPH: text.encode()}
    return rebuilt(members, tree)


def sizes(rng: random.Random, data: bytes) -> bytes:
    """One size, in every place where it stands in the graph, in the signature, or in both."""
    members = members_of(data)
    tree = json.loads(members[MANIFEST])
    text = members[GRAPH].decode()
    result = re.findall(r"(?<=[\[ ])[0-9]+(?=[\],])", text)
    if not result:
        return graph_token(rng, data)
    old, new = rng.choice(result), str(rng.choice((*NUMBERS[:12], "n", "n + 1", 2**40)))
    where = rng.choice(("both", "graph", "signature"))
    if where != "signature":
        text = re.sub(rf"(?<=[\[ ]){old}(?=[\],])", new, text)
    if where != "graph":
        signature = tree["entries"]["forward"]["signature"]
        for spec in (*signature["inputs"], *signature["state"], *signature["outputs"]):
            spec["shape"] = [(int(new) if new.isdigit() else new) if str(s) == old else s for s in spec["shape"]]
    return rebuilt({**members, GRAPH: text.encode()}, tree)


def weights_header(rng: random.Random, data: bytes) -> bytes:
    """The header of the weights: its JSON, its length, the order of the tensors."""
    members = members_of(data)
    if WEIGHTS not in members:
        return manifest_field(rng, data)
    weights = members[WEIGHTS]
    size = int.from_bytes(weights[:8], "little")
    tree, body = json.loads(weights[8 : 8 + size]), weights[8 + size :]
    kind = rng.randrange(4)
    if kind == 0:
        length = rng.choice((0, 1, size - 1, size + 1, len(weights), 2**32, 2**63, 2**64 - 1))
        return rebuilt({**members, WEIGHTS: length.to_bytes(8, "little") + weights[8:]})
    if kind == 1:
        body = body[: rng.randrange(len(body) + 1)] if rng.random() < 0.5 else body + bytes(rng.randrange(1, 100))
    else:
        change_tree(rng, tree, places(tree))
    text = json.dumps(tree).encode()
    return rebuilt({**members, WEIGHTS: len(text).to_bytes(8, "little") + text + body})


def weights_data(rng: random.Random, data: bytes) -> bytes:
    """Bytes of the weights themselves."""
    members = members_of(data)
    if WEIGHTS not in members:
        return graph_token(rng, data)
    weights = bytearray(members[WEIGHTS])
    start = 8 + int.from_bytes(weights[:8], "little")
    for _ in range(rng.choice((1, 8, 100))):
        weights[rng.randrange(start, len(weights))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    return rebuilt({**members, WEIGHTS: bytes(weights)})


def device_code(rng: random.Random, data: bytes) -> bytes:
    """What the manifest says of the code for GPUs, or the code itself, with every hash right."""
    members = members_of(data)
    tree = json.loads(members[MANIFEST])
    codes = tree["entries"]["forward"].get("cuda")
    if codes is None:
        return manifest_field(rng, data)
    code = rng.choice(list(codes.values()))
    kind = rng.randrange(4)
    if kind == 0:
        ptx = members[code["ptx"]]
        at = rng.randrange(len(ptx))
        odd = rng.choice((ptx[:at], b"", b"\0" + ptx, ptx[:at] + b"\xff" + ptx[at:], ptx + b"\0"))
        return rebuilt({**members, code["ptx"]: odd})
    if kind == 1:
        host = bytearray(members[code["host"]])
        struct.pack_into("<Q", host, 8 * rng.randrange(8), rng.choice(NUMBERS) % 2**64)
        return rebuilt({**members, code["host"]: bytes(host)})
    change_tree(rng, tree, places(codes) + [(codes, key) for key in codes])
    return rebuilt(members, tree)


def other_members(rng: random.Random, data: bytes) -> bytes:
    """Members that are missing, strange, or in another's place."""
    members = members_of(data)
    name, other = rng.choice(list(members)), rng.choice(list(members))
    kind = rng.randrange(4)
    if kind == 0 and name != MANIFEST:
        del members[name]
    elif kind == 1:
        members[rng.choice((*ODD_TEXTS, "native/x86-64-v4", "graph.step.jgir", "/etc/passwd"))] = members[name]
    elif kind == 2 and {name, other} <= {GRAPH, WEIGHTS}:
        members[name] = members[other]
    else:
        members = dict(rng.sample(list(members.items()), len(members)))
    return rebuilt(members)


# --- what damages a file --------------------------------------------------------------------------------------------


def truncation(rng: random.Random, data: bytes) -> bytes:
    """The file's beginning, or its end."""
    at = rng.randrange(len(data))
    return data[:at] if rng.random() < 0.8 else data[at:]


def bit_flips(rng: random.Random, data: bytes) -> bytes:
    """A few bits anywhere."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 16))):
        result[rng.randrange(len(result))] ^= 1 << rng.randrange(8)
    return bytes(result)


def splices(rng: random.Random, data: bytes) -> bytes:
    """A stretch of bytes removed, doubled, zeroed or moved."""
    at, size = rng.randrange(len(data)), rng.choice((1, 2, 8, 64, 1000))
    stretch = data[at : at + size]
    rest = data[:at] + data[at + size :]
    to = rng.randrange(len(rest) + 1)
    return rng.choice(
        (
            rest,
            data[:at] + stretch + data[at:],
            rest[:at] + bytes(len(stretch)) + rest[at:],
            rest[:to] + stretch + rest[to:],
        )
    )


_RECORDS: Final = {b"PK\x03\x04": "<4s5H3L2H", b"PK\x01\x02": "<4s6H3L5H2L", b"PK\x05\x06": "<4s4H2LH"}


def zip_fields(rng: random.Random, data: bytes) -> bytes:
    """A field of one of the zip's records."""
    magic, form = rng.choice(list(_RECORDS.items()))
    starts = [result.start() for result in re.finditer(re.escape(magic), data)]
    starts = [start for start in starts if start + struct.calcsize(form) <= len(data)]
    if not starts:
        return bit_flips(rng, data)
    start = rng.choice(starts)
    fields: list[Any] = list(struct.unpack_from(form, data, start))
    at = rng.randrange(1, len(fields))
    width = struct.calcsize(
        "<" + re.sub(r"(\d+)(?!s)([HL])", lambda m: m[2] * int(m[1]), form[1:]).replace("4s", "")[at - 1]
    )
    fields[at] = rng.choice((*NUMBERS, fields[at] + 1, fields[at] - 1, len(data))) % 256**width
    result = bytearray(data)
    struct.pack_into(form, result, start, *fields)
    return bytes(result)


def image_header(rng: random.Random, data: bytes) -> bytes:
    """A field of a native image's header; its hash stays as it was, since what gets past that is the author's code."""
    at = rng.choice([result.start() for result in re.finditer(b"JGIMAGE1", data)])
    result = bytearray(data)
    if rng.random() < 0.3:
        struct.pack_into("<I", result, at + rng.choice((8, 12)), rng.choice(NUMBERS) % 2**32)
    else:
        struct.pack_into("<Q", result, at + 16 + 8 * rng.randrange(6), rng.choice(NUMBERS) % 2**64)
    return bytes(result)


MUTATIONS: Final[tuple[Callable[[random.Random, bytes], bytes], ...]] = (
    manifest_field, manifest_field, manifest_members, manifest_text, graph_token, graph_token, graph_line, graph_node,
    graph_node, graph_node, constraints, constraints, sizes, device_code, device_code, weights_header, weights_data,
    other_members, truncation, bit_flips, splices, zip_fields, image_header,
)  # fmt: skip


def mutant(seed: int, number: int, models: dict[str, bytes], only: Sequence[str] | None = None) -> Mutant:
    """The file ``number`` of a campaign; the same for the same seed and models."""
    rng = random.Random(f"{seed}/{number}")
    kinds = [mutation for mutation in MUTATIONS if only is None or mutation.__name__ in only]
    mutation = kinds[number % len(kinds)]
    model = rng.choice(sorted(models))
    return Mutant(mutation(rng, models[model]), mutation.__name__)
