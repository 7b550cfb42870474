"""Target: what code is generated for, as plain data: a level of x86-64, or a generation of NVIDIA GPUs."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Final

from jitgraph import config
from jitgraph.errors import CompileError, DeviceError
from jitgraph.records import dataclass
from jitgraph.runtime import loader


@dataclass(frozen=True, slots=True)
class Target:
    """A processor level, or a generation of GPUs, and the sizes that blocking and selection go by.

    The numbers are those of the level, never measured on this machine, so that code made here and code from a file
    made elsewhere for the same level give the same bits.
    """

    name: str  # a psABI level (x86-64-v2, x86-64-v3 or x86-64-v4), or a GPU's compute capability as sm_90
    vector_bits: int
    registers: int  # vector registers; of a GPU those of one thread
    fma: bool  # has a fused multiply-add instruction
    l1_bytes: int  # of a GPU the shared memory that a kernel has without asking for more
    l2_bytes: int
    opaque_composites: frozenset[str] = frozenset()  # ops that codegen takes whole
    fastmath: bool = False  # may reassociate, contract and assume that there is no NaN, infinity or -0.0
    sm: int | None = None  # a GPU's compute capability, ten times its number: 90 is 9.0; None: no GPU
    free_order: bool = False  # sums may go in any order: the bits are then those of this target alone
    tf32: bool = False  # products of float32 may round their operands to 11 bits; only where sums are free, too
    alone: bool = False  # there is no Python to call, as in a file and on a GPU
    library: bool = False  # large plain products may go to a library of this process; only where sums are free, too

    @property
    def vector_bytes(self) -> int:
        """Bytes of one vector register."""
        return self.vector_bits // 8

    def lanes(self, itemsize: int) -> int:
        """Elements of ``itemsize`` bytes in one vector register."""
        return self.vector_bytes // itemsize

    @property
    def text(self) -> str:
        """All of it as text: that of another target is another."""
        values = ((field.name, getattr(self, field.name)) for field in fields(self))
        return ", ".join(f"{name}={sorted(v) if isinstance(v, frozenset) else v!r}" for name, v in values)

    def in_any_order(self) -> Target:
        """This target, whose sums need not keep to the order that they have everywhere.

        A GPU then takes attention whole, whose sums are rescaled as they go on.
        """
        composites = _WHOLE_IN_ANY_ORDER if self.sm is not None else frozenset[str]()
        return replace(self, free_order=True, opaque_composites=self.opaque_composites | composites)

    def in_tf32(self) -> Target:
        """This target, whose products of float32 round operands to tf32 and sum in any order."""
        return replace(self.in_any_order(), tf32=True)

    def with_library(self) -> Target:
        """This target, whose large plain products go to cuBLASLt; for code that never leaves the process's cache."""
        return replace(self, library=True)

    def without_python(self) -> Target:
        """This target, for code that runs where there is no Python to call."""
        return replace(self, alone=True)

    def with_opaque_composites(self, *ops: str) -> Target:
        """This target with more composites that codegen takes whole."""
        return replace(self, opaque_composites=self.opaque_composites | frozenset(ops))

    @staticmethod
    def names() -> tuple[str, ...]:
        """The names of all targets."""
        return tuple(_TARGETS)

    @staticmethod
    def named(name: str) -> Target:
        """The target of that name; DeviceError where jitgraph knows none."""
        if name not in _TARGETS:
            raise DeviceError(f"no target {name!r}", hint=f"one of {', '.join(_TARGETS)}")
        return _TARGETS[name]

    @staticmethod
    def host() -> Target:
        """This machine's level, or the one that JITGRAPH_TARGET_CPU names; DeviceError where it cannot run here.

        CompileError where this machine runs no native code at all.
        """
        cpu = config.TARGET_CPU.text()
        target = Target.named(cpu) if cpu else None
        levels = loader.cpu_levels()
        if not levels:
            raise CompileError(
                loader.lacking(), hint="set JITGRAPH_INTERPRET=1 to run graphs with NumPy; eager calls run as they are"
            )
        if target is not None:
            if cpu not in levels:
                raise DeviceError(
                    f"this machine does not run {cpu}", hint=f"set JITGRAPH_TARGET_CPU to one of {', '.join(levels)}"
                )
            return target
        return _TARGETS[levels[0]]


_WHOLE_IN_ANY_ORDER: Final = frozenset({"attention", "attention_gradient"})

_WHOLE_ON_PROCESSORS: Final = frozenset(
    {"dft", "dft_of_real", "dft_to_real", "search", "slide", "first_positions", "ranked_positions"}
)


def _processor(name: str, **sizes: Any) -> Target:
    return Target(name, opaque_composites=_WHOLE_ON_PROCESSORS, **sizes)


_TARGETS: dict[str, Target] = {
    target.name: target
    for target in (
        _processor("x86-64-v2", vector_bits=128, registers=16, fma=False, l1_bytes=32 << 10, l2_bytes=256 << 10),
        _processor("x86-64-v3", vector_bits=256, registers=16, fma=True, l1_bytes=32 << 10, l2_bytes=256 << 10),
        _processor("x86-64-v4", vector_bits=512, registers=32, fma=True, l1_bytes=32 << 10, l2_bytes=1 << 20),
        *(
            Target(
                f"sm_{sm}",
                vector_bits=32,
                registers=255,
                fma=True,
                l1_bytes=48 << 10,
                l2_bytes=megabytes << 20,
                sm=sm,
                alone=True,
            )
            for sm, megabytes in ((80, 40), (86, 6), (89, 72), (90, 50), (100, 126), (120, 96))
        ),
    )
}

GENERATIONS: Final = tuple(target.sm for target in _TARGETS.values() if target.sm is not None)
"""The compute capabilities, ten times their numbers, that code is made for."""
