"""Addresses of fields of the structs that the native runtime is given, as lines of LLVM IR."""

from __future__ import annotations


def field(result: str, base: str, offset: int) -> str:
    """The line that makes ``result`` the address ``offset`` bytes behind ``base``."""
    return f"  {result} = getelementptr i8, ptr {base}, i64 {offset}\n"
