"""TorchScript's code as closures: each expression and statement of a method becomes one function of the frame.

A frame is the list of a call's variables. Those that an ``if`` or a loop binds are cells in it, so that the staging
functions of scripts (``jitgraph.tracing.script.staging``) can read and bind them: in a trace, control flow that depends
on tensors becomes ops of the graph by the same functions as that of ``jg.script``. Elsewhere it is Python's.

TorchScript has static types and its variables are set before they are read, which PyTorch has checked. A value that
is ``uninitialized`` is no value: the variable that gets it is not bound.
"""

from __future__ import annotations

import ast
import contextlib
from collections.abc import Callable, Sequence
from types import CellType
from typing import Any, Final, TypeAlias

from jitgraph.errors import LoadError, LocatedError, UnsupportedOp
from jitgraph.ir import context
from jitgraph.tensor import Tensor
from jitgraph.torch.jit.state import get_attribute, get_state, set_attribute, set_state
from jitgraph.torch.torchscript import liveness, operators, values
from jitgraph.torch.torchscript.source import ClassSource, FunctionSource, dotted, function_of, refused, unparsed
from jitgraph.tracing.record.region import UNBOUND
from jitgraph.tracing.script import staging
from jitgraph.tracing.script.variables import Body
from jitgraph.tracing.symbolic.staged_number import StagedNumber

Frame: TypeAlias = "list[Any]"
Evaluated: TypeAlias = "Callable[[Frame], Any]"
_NUMBERS: Final = {"inf": float("inf"), "nan": float("nan"), "infj": complex(0, float("inf"))}
_RAISES: Final = "ops.prim.RaiseException"
_GRAD_MODES: Final = {f"__torch__.torch.autograd.grad_mode.{name}_grad": name == "enable" for name in ("no", "enable")}


def _in_trace() -> bool:
    return context.current().trace is not None


class ScriptFunction:
    """A function or method of an archive; called with its arguments, compiled to closures at the first call."""

    def __init__(self, source: FunctionSource, program: Any) -> None:
        self.source = source
        self.name = source.name
        self.program = program
        self._names = tuple(parameter.name for parameter in source.parameters)
        self._code: _Code | None = None

    @property
    def code(self) -> _Code:
        """The closures."""
        if self._code is None:
            self._code = _Compiler(self.source, self.program).code()
        return self._code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        code = self._code or self.code
        frame = code.frame(args, kwargs, self)
        statement = None
        try:
            for statement in code.body:
                statement(frame)
            return code.result(frame)
        except (LocatedError, ValueError, TypeError, RuntimeError, LookupError, ArithmeticError) as error:
            if not hasattr(error, "__notes__"):
                error.add_note(f"in {self.source.file}, {code.describe(statement)}")
            raise

    def bind_error(self, what: str) -> TypeError:
        """The error for arguments that do not fit."""
        return TypeError(f"{self.name}({', '.join(self._names[1:])}): {what}")


class _Code:
    """A function's statements, and how its frame is made."""

    def __init__(self, compiler: _Compiler, body: Sequence[Evaluated], result: Evaluated) -> None:
        source = compiler.source
        self.body = tuple(body)
        self.result = result
        self.size = len(compiler.slots)
        self.cells = tuple(sorted(compiler.slots[name] for name in compiler.shared))
        self.cell_names = tuple(sorted(compiler.shared))
        self._slots = compiler.slots
        self._lines = compiler.lines
        self._parameters = tuple(
            (
                parameter.name,
                compiler.slots[parameter.name],
                None if parameter.default is None else compiler.expression(parameter.default),
                values.converter(parameter.type),
            )
            for parameter in source.parameters
        )

    def describe(self, statement: Any) -> str:
        """The line of a statement, for an error message."""
        return self._lines.get(id(statement), "")

    def frame(self, args: tuple[Any, ...], kwargs: dict[str, Any], function: ScriptFunction) -> Frame:
        """The frame with the arguments bound; TypeError where they do not fit."""
        frame: Frame = [UNBOUND] * self.size
        for slot in self.cells:
            frame[slot] = CellType()
        if self.cells and context.current().trace is not None:
            staging.owning(self.body_of(frame), self.cell_names)
        if len(args) > len(self._parameters):
            raise function.bind_error(f"{len(args) - 1} arguments are given")
        given = len(args)
        for number, (name, slot, default, convert) in enumerate(self._parameters):
            if number < given:
                value = args[number]
                if name in kwargs:
                    raise function.bind_error(f"{name} is given twice")
            elif name in kwargs:
                value = kwargs[name]
            elif default is not None:
                value = default(frame)
            else:
                raise function.bind_error(f"{name} is missing")
            if convert is not None:
                value = convert(value)
            if type(frame[slot]) is CellType:
                frame[slot].cell_contents = value
            else:
                frame[slot] = value
        if kwargs:
            for name in kwargs:
                if not any(name == parameter[0] for parameter in self._parameters):
                    raise function.bind_error(f"there is no parameter {name}")
        return frame

    def body_of(self, frame: Frame) -> Body:
        """All cells of a frame."""
        return Body(lambda: None, {name: frame[self._slots[name]] for name in self.cell_names})


class _Compiler:
    """Turns the nodes of one function into closures."""

    def __init__(self, source: FunctionSource, program: Any) -> None:
        self.source = source
        self.program = program
        self.lines: dict[int, str] = {}
        self.slots: dict[str, int] = {}
        self.shared = liveness.shared_variables(source.body)
        self._inner: dict[str, tuple[Sequence[Evaluated], Evaluated]] = {}
        for parameter in source.parameters:
            self.slot(parameter.name)

    def code(self) -> _Code:
        body = list(self.source.body)
        returned: ast.expr | None = None
        if body and isinstance(body[-1], ast.Return):
            returned = body.pop().value  # type: ignore[attr-defined]
        liveness.annotate(body, liveness.names_read(returned))
        statements = self.block(body)
        result: Evaluated = (lambda f: None) if returned is None else self.returned(returned)
        return _Code(self, statements, result)

    def returned(self, node: ast.expr) -> Evaluated:
        value = self.expression(node)
        if dotted(self.source.returns or node) != "Tensor":
            return value
        return lambda f: values.as_tensor_result(value(f))  # of a number that a traced module returns

    def refuse(self, node: ast.AST) -> LoadError:
        return refused(node, self.source.file)

    # --- variables ----------------------------------------------------------------------------------------------------

    def slot(self, name: str) -> int:
        return self.slots.setdefault(name, len(self.slots))

    def read(self, name: str) -> Evaluated:
        slot = self.slots[name]
        if name not in self.shared:
            return lambda f: f[slot]

        def cell(f: Frame) -> Any:
            try:
                return f[slot].cell_contents
            except ValueError:
                return UNBOUND

        return cell

    def setter(self, target: ast.expr) -> Callable[[Frame, Any], None]:
        match target:
            case ast.Name(id=name):
                slot = self.slot(name)
                if name not in self.shared:

                    def set_slot(f: Frame, value: Any) -> None:
                        f[slot] = value

                    return set_slot

                def set_cell(f: Frame, value: Any) -> None:
                    if value is not UNBOUND:
                        f[slot].cell_contents = value
                    else:
                        f[slot] = _emptied(f[slot])

                return set_cell
            case ast.Attribute(value=owner, attr=name) if values.is_free(name):
                evaluated = self.expression(owner)
                put = set_state if name in self.program.replaced else set_attribute
                return lambda f, value: put(values.with_attributes(evaluated(f)), name, value)
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                setters = [self.setter(target) for target in targets]

                def unpack(f: Frame, value: Any) -> None:
                    for setter, item in zip(setters, values.unpacked(value, len(setters)), strict=True):
                        setter(f, item)

                return unpack
        raise self.refuse(target)

    # --- statements ---------------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt]) -> list[Evaluated]:
        made: list[Evaluated] = []
        for statement in statements:
            evaluated = self.statement(statement)
            if evaluated is not None:
                self.lines[id(evaluated)] = f"line {statement.lineno}: {unparsed(statement)}"
                made.append(evaluated)
        return made

    def statement(self, node: ast.stmt) -> Evaluated | None:
        match node:
            case ast.Assign(targets=[ast.Name() as target], value=value):
                return self.assignment(target, self.bound_value(value))
            case ast.AnnAssign(target=ast.Name() as target, value=value) if value is not None:
                return self.assignment(target, self.bound_value(value))
            case ast.Assign(targets=[target], value=value):
                setter, evaluated = self.setter(target), self.expression(value)
                return lambda f: setter(f, evaluated(f))
            case ast.Expr(value=ast.Call() as call):
                return self.raising(call) if dotted(call.func) == _RAISES else self.expression(call)
            case ast.Expr():
                return self.expression(node.value)
            case ast.Pass():
                return None
            case ast.If():
                return self.branch(node)
            case ast.While():
                return self.while_loop(node)
            case ast.For():
                return self.for_loop(node)
            case ast.With(items=[ast.withitem(context_expr=manager, optional_vars=None | ast.Name())]):
                return self.managed(node, manager)
            case ast.FunctionDef():
                self.inner_function(node)
                return None
        raise self.refuse(node)

    def bound_value(self, node: ast.expr) -> Evaluated:
        """What is bound to a variable: lists that are written out may grow."""
        evaluated = self.expression(node)
        inner = node.args[1] if isinstance(node, ast.Call) and _is_call_of(node, "annotate", 2) else node
        if isinstance(inner, ast.List):
            return lambda f: staging.growing(evaluated(f))
        if isinstance(inner, ast.Dict):
            return lambda f: staging.created(evaluated(f))
        return evaluated

    def assignment(self, target: ast.Name, value: Evaluated) -> Evaluated:
        slot = self.slot(target.id)
        if target.id not in self.shared:

            def assign(f: Frame) -> None:
                f[slot] = value(f)

            return assign
        setter = self.setter(target)
        return lambda f: setter(f, value(f))

    def raising(self, node: ast.Call) -> Evaluated:
        message = self.expression(node.args[0])
        kind = node.args[1].value if len(node.args) > 1 and isinstance(node.args[1], ast.Constant) else ""

        def raise_(f: Frame) -> None:
            values.raise_exception(lambda: message(f), str(kind))

        return raise_

    def cells(self, names: Sequence[str]) -> Callable[[Frame], dict[str, CellType]]:
        slots = [(name, self.slots[name]) for name in names]
        return lambda f: {name: f[slot] for name, slot in slots}

    def branch(self, node: ast.If) -> Evaluated:
        test = self.expression(node.test)
        then, orelse = tuple(self.block(node.body)), tuple(self.block(node.orelse))
        info = liveness.of(node)
        cells, site = self.cells(info.names), info.site()

        def run(f: Frame) -> None:
            condition = test(f)
            if condition is True or condition is False:
                for statement in then if condition else orelse:
                    statement(f)
                return
            bound = cells(f)
            staging.if_(condition, Body(lambda: _run(then, f), bound), Body(lambda: _run(orelse, f), bound), site)

        return run

    def while_loop(self, node: ast.While) -> Evaluated:
        test, body = self.expression(node.test), tuple(self.block(node.body))
        info = liveness.of(node)
        cells, site = self.cells(info.names), info.site()

        def run(f: Frame) -> None:
            if _in_trace():
                bound = cells(f)
                staging.while_(Body(lambda: test(f), bound), Body(lambda: _run(body, f), bound), site)
                return
            while test(f):
                for statement in body:
                    statement(f)

        return run

    def for_loop(self, node: ast.For) -> Evaluated:
        iterable, setter = self.expression(node.iter), self.setter(node.target)
        body = tuple(self.block(node.body))
        info = liveness.of(node)
        cells, site = self.cells(info.names), info.site()

        def run(f: Frame) -> None:
            items = iterable(f)
            if _in_trace():

                def step(item: Any) -> None:
                    setter(f, item)
                    _run(body, f)

                staging.for_(items, Body(step, cells(f)), site)
                return
            for item in items:
                setter(f, item)
                for statement in body:
                    statement(f)

        return run

    def managed(self, node: ast.With, manager: ast.expr) -> Evaluated:
        evaluated = self.expression(manager)
        target = node.items[0].optional_vars
        setter = None if target is None else self.setter(target)
        body = tuple(self.block(node.body))

        def run(f: Frame) -> None:
            entered = evaluated(f)
            enabled = _GRAD_MODES.get(getattr(type(entered), "qualified", ""))
            if enabled is not None:
                with context.using(grad_enabled=enabled):
                    _run(body, f)
                return
            value = values.method(entered, "__enter__")(entered)
            if setter is not None:
                setter(f, value)
            try:
                _run(body, f)
            finally:
                values.method(entered, "__exit__")(entered, None, None, None)

        return run

    def inner_function(self, node: ast.FunctionDef) -> None:
        """The function of a ``fork``, which reads the variables of the one around it."""
        source = function_of(node, self.source.file)
        if source.parameters or not node.body or not isinstance(node.body[-1], ast.Return) or node.name in self.slots:
            raise self.refuse(node)
        statements = self.block(node.body[:-1])
        value = node.body[-1].value
        self._inner[node.name] = statements, (lambda f: None) if value is None else self.expression(value)

    # --- expressions --------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Evaluated:
        match node:
            case ast.Constant(value=constant):
                return lambda f: constant
            case ast.Name(id=name):
                return self.name(node, name)
            case ast.Attribute():
                return self.attribute(node)
            case ast.Call():
                return self.call(node)
            case ast.Tuple(elts=elements):
                parts = [self.expression(element) for element in elements]
                if len(parts) == 2:
                    first, second = parts
                    return lambda f: (first(f), second(f))
                return lambda f: tuple([part(f) for part in parts])
            case ast.List(elts=elements):
                parts = [self.expression(element) for element in elements]
                return lambda f: [part(f) for part in parts]
            case ast.Dict(keys=keys, values=items):
                if any(key is None for key in keys):
                    raise self.refuse(node)
                pairs = [(self.expression(k), self.expression(v)) for k, v in zip(keys, items, strict=True) if k]
                return lambda f: {key(f): value(f) for key, value in pairs}
            case ast.Subscript(value=owner, slice=index):
                container, key = self.expression(owner), self.expression(index)
                return lambda f: values.element(container(f), key(f))
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                number = self.expression(operand)
                return lambda f: -number(f)
        raise self.refuse(node)

    def name(self, node: ast.expr, name: str) -> Evaluated:
        if name in self.slots:
            return self.read(name)
        if name in _NUMBERS:
            number = _NUMBERS[name]
            return lambda f: number
        raise LoadError(f"{self.source.file}, line {node.lineno}: the variable {name} has no value there")

    def attribute(self, node: ast.Attribute) -> Evaluated:
        path = dotted(node)
        if path is not None and path.partition(".")[0] not in self.slots:
            if path.startswith("CONSTANTS."):
                return self.program.constant(path.removeprefix("CONSTANTS."))  # type: ignore[no-any-return]
            if path.startswith("__torch__."):
                member = self.program.enum_member(path)
                source = self.program.sources.find(path)
                if member is None and isinstance(source, FunctionSource):
                    member = self.program.function(path, source)
                if member is not None:
                    return lambda f: member
            raise self.refuse(node)
        return self.attribute_of(self.expression(node.value), node.attr, node)

    def attribute_of(self, owner: Evaluated, name: str, node: ast.expr) -> Evaluated:
        """An attribute of a module or object of the archive."""
        if not values.is_free(name):
            raise self.refuse(node)
        get = get_state if name in self.program.replaced else get_attribute
        return lambda f: get(values.with_attributes(owner(f)), name)

    def call(self, node: ast.Call) -> Evaluated:
        if any(keyword.arg is None for keyword in node.keywords):
            raise self.refuse(node)
        match node.func:
            case ast.Name(id=name) if name not in self.slots:
                return self.builtin(node, name)
        path = dotted(node.func)
        if path is not None and path.partition(".")[0] not in self.slots:
            root, _, rest = path.partition(".")
            if root == "torch" and "." not in rest:
                return self.applied(self.operator(f"aten::{rest}", node), node)
            if root == "ops" and rest.count(".") == 1:
                return self.applied(self.operator(rest.replace(".", "::"), node), node)
            if root == "__torch__":
                return self.own_call(node, path)
            raise self.refuse(node)
        if isinstance(node.func, ast.Attribute):
            return self.method_call(node, node.func)
        if isinstance(node.func, ast.Name):  # a variable that holds a function of the archive
            function = self.expression(node.func)
            return self.value_call(function, node)
        raise self.refuse(node)

    def value_call(self, function: Evaluated, node: ast.Call) -> Evaluated:
        parts = [self.expression(arg) for arg in node.args]
        named = [(keyword.arg or "", self.expression(keyword.value)) for keyword in node.keywords]

        def call(f: Frame) -> Any:
            target = function(f)
            if not isinstance(target, ScriptFunction):
                raise TypeError(f"a {type(target).__name__} is called")
            return target(*[part(f) for part in parts], **{name: value(f) for name, value in named})

        return call

    def operator(self, name: str, node: ast.Call) -> Callable[..., Any]:
        """The function of an operator; where there is none, one that says so when it is called."""
        found = operators.lookup(name, self.program.dialect)
        if found is not None:
            return found
        where = f"{self.source.file}, line {node.lineno}"

        def absent(*args: Any, **kwargs: Any) -> Any:
            raise UnsupportedOp(
                f"the operator {name} of a TorchScript archive is not known here ({where})",
                hint="write the module without it, or export that part by itself",
            )

        return absent

    def applied(self, function: Callable[..., Any], node: ast.Call) -> Evaluated:
        parts = [self.expression(arg) for arg in node.args]
        named = [(keyword.arg or "", self.expression(keyword.value)) for keyword in node.keywords]
        if named:
            return lambda f: function(*[part(f) for part in parts], **{name: value(f) for name, value in named})
        if len(parts) == 1:
            first = parts[0]
            return lambda f: function(first(f))
        if len(parts) == 2:
            first, second = parts
            return lambda f: function(first(f), second(f))
        if len(parts) == 3:
            first, second, third = parts
            return lambda f: function(first(f), second(f), third(f))
        return lambda f: function(*[part(f) for part in parts])

    def own_call(self, node: ast.Call, path: str) -> Evaluated:
        """A function of the archive, a new object, or a named tuple."""
        if path.endswith(".__new__"):
            source = self.program.sources.find(path.removesuffix(".__new__"))
            if not isinstance(source, ClassSource):
                raise self.refuse(node)
            kind = self.program.class_of(source)
            return lambda f: staging.created(kind())
        source = self.program.sources.find(path)
        if isinstance(source, FunctionSource):
            return self.applied(self.program.function(path, source), node)
        if isinstance(source, ClassSource) and source.base == "NamedTuple":
            return self.applied(self.program.class_of(source), node)
        raise LoadError(f"{self.source.file}, line {node.lineno}: the archive has no function {path}")

    def method_call(self, node: ast.Call, function: ast.Attribute) -> Evaluated:
        owner, name = self.expression(function.value), function.attr
        parts = [self.expression(arg) for arg in node.args]
        named = [(keyword.arg or "", self.expression(keyword.value)) for keyword in node.keywords]

        def call(f: Frame) -> Any:
            target = owner(f)
            keywords = {name: value(f) for name, value in named} if named else {}
            return values.method(target, name)(target, *[part(f) for part in parts], **keywords)

        return call

    def builtin(self, node: ast.Call, name: str) -> Evaluated:
        args = node.args
        match name, len(args):
            case ("annotate" | "unchecked_cast", 2):
                return self.expression(args[1])
            case "uninitialized", 1:
                return lambda f: UNBOUND
            case "getattr", 2 if isinstance(args[1], ast.Constant) and isinstance(args[1].value, str):
                return self.attribute_of(self.expression(args[0]), args[1].value, node)
            case "isinstance", 2:
                value, kinds = self.expression(args[0]), args[1]
                fits = values.instance_test(kinds, self.program)
                return lambda f: fits(value(f))
            case (("fork" | "awaitable"), 1) if isinstance(args[0], ast.Name) and args[0].id in self._inner:
                statements, result = self._inner[args[0].id]

                def forked(f: Frame) -> Any:
                    _run(statements, f)
                    return result(f)

                return forked
        function = values.BUILTINS.get(name)
        if function is None:
            raise LoadError(f"{self.source.file}, line {node.lineno}: {name} is no function of TorchScript's")
        return self.applied(function, node)


def _is_call_of(node: ast.Call, name: str, count: int) -> bool:
    return isinstance(node.func, ast.Name) and node.func.id == name and len(node.args) == count


def _run(statements: Sequence[Evaluated], f: Frame) -> None:
    for statement in statements:
        statement(f)


def _emptied(cell: CellType) -> CellType:
    with contextlib.suppress(ValueError):  # it is empty already
        del cell.cell_contents
    return cell


def is_staged(value: Any) -> bool:
    """Whether only the graph knows a value."""
    return type(value) is StagedNumber or isinstance(value, Tensor)
