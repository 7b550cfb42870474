"""Writes kernels as LLVM IR: values are named one after another, declarations are collected."""

from __future__ import annotations

import re


class KernelText:
    """The body of one kernel, an instruction a call; ``text`` is the module."""

    def __init__(self, parameters: str, *, name: str = "k", variables: str = "", threads: int = 0) -> None:
        self.lines: list[str] = []
        self._declared: dict[str, str] = {}
        self._count = 0
        bound = f' "nvvm.maxntid"="{threads}"' if threads else ""
        self._head = f"define ptx_kernel void @{name}({parameters}){bound} {{\nentry:\n"
        self._variables = variables

    def do(self, line: str) -> None:
        self.lines.append("  " + line)

    def label(self, name: str) -> None:
        self.lines.append(name + ":")

    def let(self, expression: str) -> str:
        self._count += 1
        self.do(f"%v{self._count} = {expression}")
        return f"%v{self._count}"

    def nvvm(self, result: str, name: str, *arguments: str) -> str:
        """Call an intrinsic; arguments are ``type value``."""
        types = ", ".join(re.sub(r" [^ ]+$", "", argument) for argument in arguments)
        full = f"llvm.nvvm.{name}"
        self._declared[full] = f"declare {result} @{full}({types})"
        call = f"call {result} @{full}({', '.join(arguments)})"
        if result == "void":
            self.do(call)
            return ""
        return self.let(call)

    def sreg(self, name: str) -> str:
        return self.nvvm("i32", f"read.ptx.sreg.{name}")

    def barrier(self) -> None:
        self.nvvm("void", "barrier.cta.sync.aligned.all", "i32 0")

    def i32(self, operation: str, left: object, right: object) -> str:
        return self.let(f"{operation} i32 {left}, {right}")

    def at(self, element: str, pointer: str, index: object, space: int = 1) -> str:
        return self.let(f"getelementptr {element}, ptr addrspace({space}) {pointer}, i32 {index}")

    def load(self, element: str, pointer: str, index: object = 0, space: int = 1) -> str:
        return self.let(f"load {element}, ptr addrspace({space}) {self.at(element, pointer, index, space)}")

    def store(self, element: str, value: str, pointer: str, index: object = 0, space: int = 1) -> None:
        self.do(f"store {element} {value}, ptr addrspace({space}) {self.at(element, pointer, index, space)}")

    @property
    def text(self) -> str:
        declared = "\n".join(self._declared.values())
        return f"{self._variables}\n{declared}\n{self._head}" + "\n".join(self.lines) + "\n  ret void\n}\n"
