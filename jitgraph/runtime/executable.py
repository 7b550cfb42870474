"""Compiled code in this process: the loader's entry with the texts that it was made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitgraph.once import cached_property
from jitgraph.runtime import loader


class Executable:
    """One compiled graph, ready to run. It calls the same image that a saved file holds, by the same code.

    ``stages`` is the compiler's record of how it was made; None where it came from a file. ``code_bytes`` is about the
    memory that it takes.
    """

    code_bytes = 0
    is_found = False
    """Whether an earlier process made the code."""

    def __init__(
        self,
        image: bytes,
        signature: loader.Signature,
        *,
        llvm_ir: str | Callable[[], str] = "",
        asm: Callable[[], str] | None = None,
        stages: Callable[[], Any] | None = None,
        runtime: loader.Runtime | None = None,
        callback: loader.CallbackFunction | None = None,
        target: Any = None,
        threads: int = 0,
    ) -> None:
        """``asm`` makes the assembly when it is first asked for, and so may ``llvm_ir`` and ``stages``; ``callback``
        serves the graph's Python callbacks; ``target`` is what it was compiled for; ``threads`` limits those that take
        part in a call, 0 for no limit."""
        self.image = image
        self.signature = signature
        self._llvm_ir = llvm_ir
        self._asm = asm
        self._stages = stages
        self.target = target
        self.callback = callback
        self.code_bytes = len(image) + (len(llvm_ir) if isinstance(llvm_ir, str) else 0)
        self.entry = loader.Entry(loader.Image(image), signature, runtime=runtime, callback=callback, threads=threads)

    @cached_property
    def llvm_ir(self) -> str:
        """The LLVM IR that it was made from; empty where it came from a file without it."""
        return self._llvm_ir if isinstance(self._llvm_ir, str) else self._llvm_ir()

    @cached_property
    def stages(self) -> Any:
        """The stages that its graph went through."""
        return self._stages() if self._stages is not None else None

    @cached_property
    def asm(self) -> str:
        """The assembly of the code; empty where the executable came from a file or cache without it."""
        return self._asm() if self._asm is not None else ""

    def run(self, buffers: Sequence[Any], donate: Iterable[int] = ()) -> list[loader.Array]:
        """The outputs in ABI order for ``buffers`` (inputs, then state); arrays are borrowed for the call.

        ``donate`` lists parameters that an aliasing output may take over: that output is then the array given.
        ArgumentError for a dtype, rank or size that does not fit, before anything runs.
        """
        return self.entry.run(buffers, donate)

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The result for the user's arguments, in the structure that the function returns."""
        return self.entry(*args, **kwargs)
