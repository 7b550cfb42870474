"""Compiled code in this process: the loader's entry with the texts that it was made from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jitgraph.once import cached_property
from jitgraph.runtime import loader


class Executable:
    """One compiled graph, ready to run. It calls the same image that a saved file holds, by the same code.

    ``stages`` is the compiler's record of how it was made; None where it came from a file.
    """

    def __init__(
        self,
        image: bytes,
        signature: loader.Signature,
        *,
        llvm_ir: str = "",
        asm: Callable[[], str] | None = None,
        runtime: loader.Runtime | None = None,
        callback: loader.CallbackFunction | None = None,
        target: Any = None,
    ) -> None:
        """``asm`` makes the assembly when it is first asked for; ``callback`` serves the graph's Python callbacks;
        ``target`` is what it was compiled for."""
        self.image = image
        self.signature = signature
        self.llvm_ir = llvm_ir
        self._asm = asm
        self.target = target
        self.stages: Any = None
        self.entry = loader.Entry(loader.Image(image), signature, runtime=runtime, callback=callback)

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

    def __call__(self, /, *args: Any, **named: Any) -> Any:
        """The result for the user's arguments, in the structure that the function returns."""
        return self.entry(*args, **named)
