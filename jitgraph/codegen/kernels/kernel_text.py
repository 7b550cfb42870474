"""Text of kernels and schedules: what ``low.kernels`` shows and golden tests hold. Deterministic; floats print exactly.

The text of a kernel can be read back (``kernel_parser.py``, for tests); a schedule's is for reading alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from jitgraph.codegen.kernels.kernel import (
    Attend,
    Body,
    Carry,
    CheckStatement,
    Contract,
    IndexValue,
    Kernel,
    Let,
    Load,
    Local,
    Loop,
    Param,
    Statement,
    Store,
    Var,
)
from jitgraph.codegen.kernels.schedule import (
    Branch,
    Exchange,
    HostStep,
    Launch,
    ParallelCopy,
    Pop,
    PrintStep,
    Push,
    Schedule,
    ScheduleBuffer,
    Step,
    While,
)
from jitgraph.dtypes import SHORT_NAMES

_INDENT = "  "
Marked = tuple[Statement | None, str]


def print_kernel(kernel: Kernel) -> str:
    """The text of ``kernel``, one statement a line."""
    return "\n".join(line for _, line in kernel_lines(kernel))


def kernel_lines(kernel: Kernel) -> list[Marked]:
    """The lines of the text, each with the statement that it begins (None for brackets and the heading)."""
    params = ", ".join(map(_param, kernel.params))
    heading = f"kernel @{kernel.name}({params})"
    if kernel.sizes:
        heading += f" sizes({', '.join(kernel.sizes)})"
    if kernel.aliases:
        heading += f" aliases({', '.join(f'{written} = {read}' for written, read in kernel.aliases)})"
    if kernel.fastmath:
        heading += " fastmath"
    return [(None, heading + " {"), *_indented(_body(kernel.body)), (None, "}")]


def print_schedule(schedule: Schedule) -> str:
    """The text of ``schedule``: its buffers, its memory plan, its steps, and every distinct kernel once."""
    kernels: list[Kernel] = []
    lines = [f"schedule @{schedule.name}({', '.join(schedule.sizes)}) {{"]
    offsets = schedule.plan.offsets if schedule.plan else {}
    for buffer in schedule.buffers:
        suffix = f" at {offsets[buffer.name]}" if buffer.name in offsets else ""
        lines.append(_INDENT + _buffer(buffer) + suffix)
    lines += [f"{_INDENT}require {constraint}" for constraint in schedule.constraints]
    lines += [f"{_INDENT}extent {extent}" for extent in schedule.extents]
    lines += [f"{_INDENT}number {n.name} = {n.kind}({n.dim})" for n in schedule.numbers]
    lines += [f"{_INDENT}stack {stack}" for stack in schedule.stacks]
    for number, site in enumerate(schedule.checks):
        where = f"  # {site.location}" if site.location else ""
        lines.append(f"{_INDENT}check {number}: {site.kind} {site.message!r}{where}")
    for number, print_site in enumerate(schedule.prints):
        where = f"  # {print_site.location}" if print_site.location else ""
        lines.append(f"{_INDENT}print {number}: {'{}'.join(print_site.texts)!r} to {print_site.stream}{where}")
    for number, call in enumerate(schedule.calls):
        where = f"  # {call.location}" if call.location else ""
        lines.append(f"{_INDENT}host {number}: {call.op.name}{where}")
    if plan := schedule.plan:
        lines.append(f"{_INDENT}arena {plan.arena_bytes} bytes, {plan.unplanned} without the plan")
        lines += [f"{_INDENT}donate {donor} for {output}" for output, donor in sorted(plan.donations.items())]
    lines += [_INDENT + line for line in _steps(schedule.steps, kernels)]
    lines.append("}")
    return "\n\n".join(["\n".join(lines), *map(print_kernel, kernels)])


def _buffer(buffer: ScheduleBuffer) -> str:
    text = f"{buffer.role} {buffer.name}: {buffer.type}"
    return f"{text} = {buffer.value.digest[:12]}" if buffer.value is not None else text


def _steps(steps: Iterable[Step], kernels: list[Kernel]) -> Iterator[str]:
    for step in steps:
        match step:
            case Launch(kernel, buffers):
                if kernel not in kernels:
                    kernels.append(kernel)
                yield f"launch @{kernel.name}({', '.join(buffers)})"
            case Branch(predicate, then, otherwise):
                yield f"if {predicate} {{"
                yield from (_INDENT + line for line in _steps(then, kernels))
                yield "} else {"
                yield from (_INDENT + line for line in _steps(otherwise, kernels))
                yield "}"
            case While(condition, predicate, body, count):
                yield "while {" if count is None else f"while {count} times {{"
                yield from (_INDENT + line for line in _steps(condition, kernels))
                yield f"}} {predicate} {{"
                yield from (_INDENT + line for line in _steps(body, kernels))
                yield "}"
            case Push(stack, name):
                yield f"push {stack} <- {name}"
            case Pop(stack, name):
                yield f"pop {stack} -> {name}"
            case PrintStep(site, names):
                yield f"print {site}({', '.join(names)})"
            case HostStep(site, reads, writes):
                yield f"{', '.join(writes)} = host {site}({', '.join(reads)})"
            case ParallelCopy(copies):
                yield "at once {"
                yield from (_INDENT + line for line in _steps(copies, kernels))
                yield "}"
            case Exchange(names, _):
                yield f"exchange {', '.join(names)}"


def _param(param: Param) -> str:
    return f"{param.access} {param.name}: {SHORT_NAMES[param.dtype]}[{param.size}]"


def _define(var: Var) -> str:
    return f"{var.name}: {SHORT_NAMES[var.dtype]}"


def _list(variables: Iterable[Var]) -> str:
    return ", ".join(var.name for var in variables)


def _definitions(variables: Iterable[Var]) -> str:
    return ", ".join(map(_define, variables))


def _masked(mask: Var | None) -> str:
    return f" if {mask.name}" if mask else ""


def _literal(param: float | int | bool | str | None) -> str:
    if isinstance(param, bool):
        return "true" if param else "false"
    return param if isinstance(param, str) else repr(param)


def _indented(lines: Iterable[Marked]) -> Iterator[Marked]:
    for statement, line in lines:
        yield statement, _INDENT + line


def _body(body: Body) -> Iterator[Marked]:
    for statement in body:
        yield from _statement(statement)


def _statement(statement: Statement) -> Iterator[Marked]:
    match statement:
        case Let(var, op, args, param):
            extra = f" {_literal(param)}" if param is not None else ""
            yield statement, f"{_define(var)} = {op}{extra}" + (f"({_list(args)})" if args else "")
        case IndexValue(var, index):
            yield statement, f"{_define(var)} = index {index}"
        case Load(var, buffer, index, mask):
            yield statement, f"{_define(var)} = load {buffer}[{index}]{_masked(mask)}"
        case Store(buffer, index, value, mask, update):
            yield statement, f"store {buffer}[{index}] {update or ''}= {value.name}{_masked(mask)}"
        case CheckStatement(ok, check, value, bound):
            extra = (f" value {value.name}" if value else "") + (f" bound {bound.name}" if bound else "")
            yield statement, f"check {check} {ok.name}{extra}"
        case Local(buffer, dtype, size):
            yield statement, f"local {buffer}: {SHORT_NAMES[dtype]}[{size}]"
        case Loop():
            yield from _loop(statement)
        case Contract():
            yield from _contract(statement)
        case Attend():
            yield from _attend(statement)


def _carry(carry: Carry) -> str:
    return f"{_define(carry.var)} = {carry.init.name}"


def _window(loop: Loop | Contract) -> str:
    return (f" from {loop.begin}" if loop.begin != 0 else "") + (f" span {loop.span}" if loop.span is not None else "")


def _loop(loop: Loop) -> Iterator[Marked]:
    results = f"{_definitions(carry.result for carry in loop.carries)} = " if loop.carries else ""
    window = _window(loop)
    order = (f" lanes {loop.lanes}" if loop.lanes != 1 else "") + (f" chain {loop.chain}" if loop.chain else "")
    carries = f" carry({', '.join(map(_carry, loop.carries))})" if loop.carries else ""
    yield loop, f"{results}{loop.kind} {loop.axis} < {loop.extent}{window}{order}{carries} {{"
    yield from _indented(_body(loop.body))
    if loop.carries:
        yield None, f"{_INDENT}next {_list(carry.next for carry in loop.carries)}"
    if (combine := loop.combine) is None:
        yield None, "}"
        return
    yield None, f"}} combine({_definitions(combine.left)} with {_definitions(combine.right)}) {{"
    yield from _indented(_body(combine.body))
    yield None, f"{_INDENT}next {_list(combine.results)}"
    if loop.slots is not None:
        yield None, f"}} slots {loop.slots.axis} {{"
        yield from _indented(_body(loop.slots.body))
    yield None, "}"


def _contract(contract: Contract) -> Iterator[Marked]:
    m, n, k = contract.extents
    axes = f"{contract.m} < {m}, {contract.n} < {n}, {contract.k} < {k}{_window(contract)} by {contract.block_k}"
    yield contract, f"{_define(contract.acc)} = contract {axes} {{"
    for side, operand in (("left", contract.left), ("right", contract.right)):
        yield None, f"{_INDENT}{side} {{"
        yield from _indented(_indented(_body(operand.body)))
        yield None, f"{_INDENT}{_INDENT}next {operand.value.name}"
        yield None, f"{_INDENT}}}"
    yield None, f"{_INDENT}epilogue {{"
    yield from _indented(_indented(_body(contract.epilogue)))
    yield None, f"{_INDENT}}}"
    yield None, "}"


def _attend(attend: Attend) -> Iterator[Marked]:
    (m, n), (begin, end) = attend.extents, attend.window
    softmax = f" softmax({_definitions(attend.softmax)})" if attend.softmax is not None else ""
    yield attend, f"attend {attend.m} < {m}, {attend.n} < {n} from {begin} to {end}{softmax} {{"
    inner: list[tuple[str, Body, tuple[Var, ...]]] = []
    for side, factors in (("rows", attend.rows), ("columns", attend.columns)):
        inner += [(f"{side} {one.axis} < {one.extent}", one.operand.body, (one.operand.value,)) for one in factors]
    inner.append((f"score({_definitions(attend.products)})", attend.score.body, (attend.score.value,)))
    weights = tuple(one.weight for one in attend.sums)
    inner.append((f"weights({_define(attend.weight)})", attend.derived, weights))
    inner.append(("row", attend.row, ()))
    inner += [(f"sum {one.factor}({_define(one.acc)})", one.epilogue, ()) for one in attend.sums]
    for heading, body, results in inner:
        yield None, f"{_INDENT}{heading} {{"
        yield from _indented(_indented(_body(body)))
        if results:
            yield None, f"{_INDENT}{_INDENT}next {_list(results)}"
        yield None, f"{_INDENT}}}"
    yield None, "}"
