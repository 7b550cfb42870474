"""The question to the host whether a call is to stop, as a function that loops of the calling thread may call often."""

from __future__ import annotations

from typing import Final

from jitgraph.codegen.llvm.builder import Definition
from jitgraph.runtime import loader
from jitgraph.runtime.loader import offsets

_CYCLES: Final = 1 << 27  # about 50 ms: 27 ms at 5 GHz, 107 ms at 1.25 GHz

POLL: Final = Definition(
    "jg_poll",
    "i32 @jg_poll(ptr %host, ptr %call)",
    f"""start:
  %poll.at = getelementptr i8, ptr %host, i64 {offsets.HOST_POLL}
  %last.at = getelementptr i8, ptr %call, i64 {offsets.CALL_LAST_POLL}
  %now = call i64 @llvm.readcyclecounter()
  %last = load i64, ptr %last.at
  %passed = sub i64 %now, %last
  %early = icmp ult i64 %passed, {_CYCLES}
  br i1 %early, label %go.on, label %due
due:
  store i64 %now, ptr %last.at
  %first = icmp eq i64 %last, 0
  br i1 %first, label %go.on, label %ask
ask:
  %poll = load ptr, ptr %poll.at
  %has = icmp ne ptr %poll, null
  br i1 %has, label %call.it, label %go.on
call.it:
  %asked = call i32 %poll(ptr %host)
  %yes = icmp ne i32 %asked, 0
  %result = select i1 %yes, i32 {loader.INTERRUPTED}, i32 0
  ret i32 %result
go.on:
  ret i32 0""",
    linkage="",
    hot=False,
    returns=2,
)
"""INTERRUPTED where the host, which is asked every 50 ms or so, wants the call to stop; else 0."""
