"""Where the elements of an operand's panel lie in shared memory, so that no two lanes access one bank at once.

A panel has 64 bytes of k for each of its rows. Its elements lie in lines: those of a row along k, or those of a step of
k along the rows. A line is cut into chunks of 16 bytes, whose number is combined with that of the line by an exclusive
or, so that a chunk of eight neighbouring lines covers all banks.
"""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.cuda.int32_arithmetic import Int32Writer
from jitgraph.codegen.llvm.operand import LlvmScalar
from jitgraph.records import dataclass

CHUNK: Final = 16
DEPTH_BYTES: Final = 64
"""Of k, in a panel."""

_AT_ONCE: Final = 8
"""Lines that a matrix of ``ldmatrix`` has, or chunks that all banks have."""

_STEPS_AT_ONCE: Final = 4
"""Of k, where fragments are read by elements."""


@dataclass(frozen=True)
class PanelLayout:
    """The layout of ``side`` rows of elements of ``itemsize`` bytes: lines along k, or along the rows.

    ``matrices``: fragments are read as matrices of eight lines, else by elements, of four steps of k at once.
    """

    side: int
    itemsize: int
    along_k: bool
    matrices: bool

    @property
    def of_chunk(self) -> int:
        """Elements of a chunk."""
        return CHUNK // self.itemsize

    @property
    def depth(self) -> int:
        """Steps of k."""
        return DEPTH_BYTES // self.itemsize

    @property
    def pitch(self) -> int:
        """Bytes of a line."""
        return DEPTH_BYTES if self.along_k else self.side * self.itemsize

    @property
    def chunks(self) -> int:
        """Chunks of a line."""
        return self.pitch // CHUNK

    @property
    def bytes(self) -> int:
        return self.side * DEPTH_BYTES

    def offset(
        self, words: Int32Writer, line: LlvmScalar, lines: int, chunk: LlvmScalar, chunks: int = 0
    ) -> tuple[LlvmScalar, int]:
        """The offset of chunk ``chunk + chunks`` of line ``line + lines``, as a register and what is added to it."""
        fixed = 0 if lines % (_AT_ONCE if self.matrices else _STEPS_AT_ONCE) else lines
        far = chunks - chunks % _AT_ONCE  # which no turn reaches
        line, chunk = words.add(line, lines - fixed), words.add(chunk, chunks - far)
        swizzled = words.xor(chunk, self._turn(words, line))
        start = words.add(words.times(line, self.pitch), words.times(swizzled, CHUNK))
        return start, fixed * self.pitch + far * CHUNK

    def _turn(self, words: Int32Writer, line: LlvmScalar) -> LlvmScalar:
        """What the numbers of a line's chunks are combined with; it is the same so many lines further on."""
        together = max(1, _AT_ONCE // self.chunks)  # lines that lie in all banks side by side
        first, phases = together.bit_length() - 1, min(self.chunks, _AT_ONCE)
        if self.matrices:
            return words.bits(line, first, phases - 1)
        if self.along_k:
            return words.bits(line, 0, 2)
        return words.times(words.bits(line, first, phases // 2 - 1), 2)  # eight rows are two chunks, or four
