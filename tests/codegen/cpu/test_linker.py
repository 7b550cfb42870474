"""The linker: layout, relocations, refusals, damaged objects."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from jitgraph.codegen.cpu import linker
from jitgraph.codegen.llvm import machine
from jitgraph.errors import CompileError, UnsupportedOp
from jitgraph.ir.target import Target
from jitgraph.runtime import loader
from tests.runtime.handwritten import ENTRY, buffer, entry, image, spec

V2 = Target.named("x86-64-v2")


def assembled(ir: str) -> bytes:
    return machine.assemble(ir, V2)


def run(objects: list[bytes], value: int) -> int:
    """What an entry stores to its int64 output for its int64 input."""
    data = linker.link(objects, {"entry": "entry"})
    (result,) = entry(data, [spec("x", "int64")], [spec("y", "int64")]).run([value])
    return int(result)


CALLS = f"""
{{declare}}
{ENTRY} {{{{
{buffer("%x", 0)}{buffer("%y", 1)}
  %v = load i64, ptr %x
  %w = {{use}}
  store i64 %w, ptr %y
  ret i32 0
}}}}
"""


def test_calls_across_objects() -> None:
    caller = assembled(CALLS.format(declare="declare i64 @double(i64)", use="call i64 @double(i64 %v)"))
    callee = assembled("define i64 @double(i64 %v) nounwind { %w = add i64 %v, %v\n ret i64 %w }")
    assert run([caller, callee], 21) == 42
    assert run([callee, caller], -4) == -8


def test_constants_of_another_object() -> None:
    # An external global is reached through the global offset table, which the linker turns into a direct address.
    caller = assembled(
        CALLS.format(
            declare="@table = external constant [4 x i64]",
            use="load i64, ptr getelementptr ([4 x i64], ptr @table, i64 0, i64 2)",
        )
    )
    callee = assembled("@pad = constant i8 1\n@table = constant [4 x i64] [i64 1, i64 2, i64 33, i64 4], align 64")
    assert b"\x8b" in caller
    assert run([caller, callee], 0) == 33


def test_a_constant_without_elements() -> None:
    none = "@none = private unnamed_addr constant [0 x i8] zeroinitializer, align 64"
    caller = assembled(
        CALLS.format(declare=f"{none}\ndeclare i64 @second(ptr, i64)", use="call i64 @second(ptr @none, i64 %v)")
    )
    assert run([caller, assembled("define i64 @second(ptr %a, i64 %v) nounwind { ret i64 %v }")], 7) == 7


def test_call_through_the_offset_table() -> None:
    caller = assembled(CALLS.format(declare="declare i64 @double(i64) nonlazybind", use="call i64 @double(i64 %v)"))
    callee = assembled("define i64 @double(i64 %v) nounwind { %w = add i64 %v, %v\n ret i64 %w }")
    assert b"\xff\x15" in caller
    assert run([caller, callee], 8) == 16


def test_jump_table() -> None:
    cases = " ".join(f"i64 {i}, label %c{i}" for i in range(8))
    blocks = "\n".join(f"c{i}:\n  store i64 {(i * 37) % 11}, ptr %y\n  ret i32 0" for i in range(8))
    data = assembled(
        f"{ENTRY} {{\n{buffer('%x', 0)}{buffer('%y', 1)}  %v = load i64, ptr %x\n"
        f'  %p = call i64 asm sideeffect "", "=r,0"(i64 %v)\n  switch i64 %p, label %c0 [ {cases} ]\n{blocks}\n}}'
    )
    assert [run([data], i) for i in range(9)] == [(i * 37) % 11 if i < 8 else 0 for i in range(9)]


def test_constants_are_aligned() -> None:
    vector = ", ".join(f"float {i}.0" for i in range(8))
    data = linker.link(
        [
            assembled(
                f"@c = internal constant i8 3\n@v = internal constant <8 x float> <{vector}>, align 64\n"
                f"{ENTRY} {{\n{buffer('%y', 0)}  %a = ptrtoint ptr @v to i64\n  %low = and i64 %a, 63\n"
                "  %b = load volatile i8, ptr @c\n  store i64 %low, ptr %y\n  ret i32 0\n}"
            )
        ],
        {"entry": "entry"},
    )
    assert int(entry(data, [], [spec("y", "int64")]).run([])[0]) == 0


def test_image_runs_anywhere() -> None:
    # The same bytes mapped twice lie at two addresses and both work: nothing absolute is inside.
    data = linker.link(
        [
            assembled(
                "@k = internal constant [2 x i64] [i64 5, i64 6]\n"
                f"{ENTRY} {{\n{buffer('%x', 0)}{buffer('%y', 1)}  %i = load i64, ptr %x\n"
                "  %p = getelementptr [2 x i64], ptr @k, i64 0, i64 %i\n  %v = load i64, ptr %p\n"
                "  store i64 %v, ptr %y\n  ret i32 0\n}"
            )
        ],
        {"entry": "entry"},
    )
    entries = [entry(data, [spec("x", "int64")], [spec("y", "int64")]) for _ in range(2)]
    assert entries[0].image.address != entries[1].image.address
    assert [int(e.run([1])[0]) for e in entries] == [6, 6]


MEMORY = f"""
declare ptr @memset(ptr, i32, i64)
declare ptr @memcpy(ptr, ptr, i64)
declare ptr @memmove(ptr, ptr, i64)
{ENTRY} {{
{buffer("%data", 0)}{buffer("%job", 1)}{buffer("%out", 2)}
  %op = load i64, ptr %job
  %to.at = getelementptr i64, ptr %job, i64 1
  %to.off = load i64, ptr %to.at
  %from.at = getelementptr i64, ptr %job, i64 2
  %from.off = load i64, ptr %from.at
  %size.at = getelementptr i64, ptr %job, i64 3
  %size = load i64, ptr %size.at
  %n = load i64, ptr %dims
  %start = call ptr @memcpy(ptr %out, ptr %data, i64 %n)
  %to = getelementptr i8, ptr %out, i64 %to.off
  switch i64 %op, label %set [ i64 0, label %copy
    i64 1, label %move ]
copy:
  %other = getelementptr i8, ptr %data, i64 %from.off
  %c = call ptr @memcpy(ptr %to, ptr %other, i64 %size)
  ret i32 0
move:
  %same = getelementptr i8, ptr %out, i64 %from.off
  %m = call ptr @memmove(ptr %to, ptr %same, i64 %size)
  ret i32 0
set:
  %value = trunc i64 %from.off to i32
  %s = call ptr @memset(ptr %to, i32 %value, i64 %size)
  ret i32 0
}}
"""


def test_memory_functions() -> None:
    memory = entry(
        image(MEMORY), [spec("data", "uint8", "n"), spec("job", "int64", 4)], [spec("out", "uint8", "n")], dims=("n",)
    )
    rng = np.random.default_rng(0)
    for size in [*range(36), 63, 64, 65, 2047, 2048, 2049, 5000]:
        data = rng.integers(0, 256, size + 40, dtype=np.uint8)
        for to, start in [(0, 0), (3, 5), (5, 3), (0, 1), (1, 0), (0, 16), (16, 0), (0, 15), (15, 0), (32, 0), (0, 32)]:
            expected = data.copy()
            expected[to : to + size] = data[start : start + size]
            for op in (0, 1):
                (got,) = memory.run([data, np.array([op, to, start, size])])
                assert np.array_equal(got, expected), (op, to, start, size)
            expected = data.copy()
            expected[to : to + size] = 0xAB
            assert np.array_equal(memory.run([data, np.array([2, to, 0x1AB, size])])[0], expected)


NOTHING = f"{ENTRY} {{ ret i32 0 }}"

REFUSED = {
    "undefined": (f"declare float @expf(float)\n{ENTRY} {{ %x = call float @expf(float 0.0)\n "
                  "%b = fptosi float %x to i32\n ret i32 %b }", "expf"),
    "writable": (f"@g = global i64 7\n{ENTRY} {{ %v = load i64, ptr @g\n %t = trunc i64 %v to i32\n ret i32 %t }}",
                 r"writable section '\.data'"),
    "zeroed": (f"@g = global [9 x i64] zeroinitializer\n{NOTHING}", r"writable section '\.bss'"),
    "address": (f"@t = constant [1 x ptr] [ptr @entry]\n{NOTHING}", "writable section"),
    "absolute": (f'@t = constant [1 x ptr] [ptr @entry], section ".rodata.t"\n{NOTHING}', "absolute address|writable"),
    "thread local": (f"@g = thread_local global i64 7\n{NOTHING}", "writable section"),
    "common": (f"@g = common global i64 0\n{NOTHING}", "writable|common"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refuses(case: str) -> None:
    ir, message = REFUSED[case]
    with pytest.raises(CompileError, match=message):
        linker.link([assembled(ir)], {"entry": "entry"})


def test_refuses_double_definitions_and_takes_weak_ones() -> None:
    entry_object = assembled(CALLS.format(declare="declare i64 @f(i64)", use="call i64 @f(i64 %v)"))
    strong = assembled("define i64 @f(i64 %v) nounwind { ret i64 1 }")
    weak = assembled("define weak i64 @f(i64 %v) nounwind { ret i64 2 }")
    with pytest.raises(CompileError, match="defined twice"):
        linker.link([entry_object, strong, strong], {"entry": "entry"})
    assert run([entry_object, weak, strong], 0) == run([entry_object, strong, weak], 0) == 1
    assert run([entry_object, weak, weak], 0) == 2


def test_refuses_exports() -> None:
    data = assembled(NOTHING + "\n@c = constant i64 3")
    for exports, message in [
        ({}, "must export an entry"),
        ({"entry": "entry", "other": "entry"}, "cannot export"),
        ({"entry": "missing"}, "no object defines"),
        ({"entry": "c"}, "not code"),
    ]:
        with pytest.raises(CompileError, match=message):
            linker.link([data], exports)


def test_refuses_other_machines() -> None:
    data = bytearray(assembled(NOTHING))
    for number in (183, 243):
        struct.pack_into("<H", data, 18, number)
        with pytest.raises(UnsupportedOp, match="AArch64" if number == 183 else "243"):
            linker.link([bytes(data)], {"entry": "entry"})


def test_damaged_objects_never_do_worse_than_compile_error() -> None:
    full = assembled(
        CALLS.format(declare="@c = internal constant [3 x i64] [i64 1, i64 2, i64 3]", use="add i64 %v, 1")
    )
    rng = np.random.default_rng(1)
    damaged = [full[:size] for size in range(0, len(full), 7)]
    for position in range(len(full)):
        for value in (0xFF, int(rng.integers(256))):
            changed = bytearray(full)
            changed[position] = value
            damaged.append(bytes(changed))
    refused = 0
    for data in damaged:
        try:
            linker.link([data], {"entry": "entry"})
        except CompileError:
            refused += 1
    assert refused > len(full) // 4


def test_header_of_images() -> None:
    good = image(NOTHING)
    assert loader.ImageHeader.parse(good).pack() == good[: loader.HEADER_BYTES]
    changes = {
        "begins with": (0, b"ELF"),
        "speaks ABI": (8, b"\x63"),
        "for machine": (12, b"\x07"),
        "says": (16, b"\x01\x02"),
        "code ends at": (24, b"\xff\xff"),
        "has 'entry'": (32, b"\x00"),
        "has 'arena_bytes'": (40, b"\xff\xff\xff"),
        "has 'worker'": (48, b"\x01"),
        "has 'parallel_for'": (56, b"\xff" * 8),
    }
    for message, (offset, replacement) in changes.items():
        bad = bytearray(good)
        bad[offset : offset + len(replacement)] = replacement
        with pytest.raises(loader.LoadError, match=message):
            loader.Image(bytes(bad))
    for size in range(0, loader.HEADER_BYTES + 1, 8):
        with pytest.raises(loader.LoadError):
            loader.Image(good[:size])


def test_llvm_errors_say_what_llvm_says() -> None:
    """They are the compiler's own faults: what users see of them, a CompileError, is in ``codegen/test_faults.py``."""
    with pytest.raises(RuntimeError, match="expected"):
        assembled("define i32 @f( {")
    with pytest.raises(RuntimeError, match="undefined"):
        assembled("define i32 @f() { ret i32 %undefined }")


def test_full_vectors_for_v4() -> None:
    ir = (
        "define void @f(ptr %a) nounwind { %x = load <16 x float>, ptr %a\n %y = fadd <16 x float> %x, %x\n"
        " %z = fmul <16 x float> %y, %x\n %w = fadd <16 x float> %z, %x\n store <16 x float> %w, ptr %a\n ret void }"
    )
    text = machine.asm(ir, Target.named("x86-64-v4"))
    assert "zmm" in text
    assert "fma" not in text  # multiplication and addition are never contracted
    assert "ymm" in machine.asm(ir, Target.named("x86-64-v3"))
