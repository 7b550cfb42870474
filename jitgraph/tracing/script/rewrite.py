"""Rewrites a function's syntax tree: statements that steer become calls of the staging functions, its bodies closures.

``if`` becomes two inner functions that bind the variables of the outer one by ``nonlocal``, and a call of ``if_``; a
loop becomes a body (and a test) and a call of ``while_`` or ``for_``. The staging functions read and write variables
by the cells of these closures, so on Python values everything means what Python means.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Sequence, Set
from typing import Any, Final

from jitgraph.errors import ScriptError
from jitgraph.location import Location
from jitgraph.tracing.capture.kinds import STAGING
from jitgraph.tracing.script.exits import without_exits
from jitgraph.tracing.script.matching import MatchesAsTests, permanent
from jitgraph.tracing.script.names import (
    Position,
    bound,
    bound_by_assignment,
    copied,
    lines_of,
    own,
    position,
    possibly_unbound,
    read_positions,
    reads,
)
from jitgraph.tracing.script.texts import TextArgument, may_print

_ITEM: Final = "jg_item_"
_DEEPEST: Final = 3  # indices that follow each other
_COMPARISONS: Final[dict[type[ast.cmpop], str]] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Is: "is",
    ast.IsNot: "is not",
    ast.In: "in",
    ast.NotIn: "not in",
}
_OPERATORS: Final[dict[type[ast.operator], str]] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.LShift: "<<", ast.RShift: ">>", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.MatMult: "@",
}  # fmt: skip
_GROWING: Final = ("append", "extend", "insert")
_FRAMES: Final = {"locals": 1, "vars": 1, "dir": 1, "eval": 2, "exec": 2}  # with fewer arguments they read their frame


def rewritten(node: ast.FunctionDef | ast.Lambda, file: str) -> ast.FunctionDef | ast.Lambda:
    """A new node for the function; ScriptError at what cannot be captured."""
    node = copied(node)
    if isinstance(node, ast.Lambda):
        node.body = _Rewriter(node, file, frozenset()).expression(node.body)
        return node
    node.decorator_list = []
    MatchesAsTests(_call).visit(node)
    return _definition(ast.fix_missing_locations(node), file, frozenset())


def _definition(node: ast.FunctionDef, file: str, unsure: Set[str]) -> ast.FunctionDef:
    unbound = possibly_unbound(node)
    owned = _shared_below(node)
    node.body = without_exits(node, file)
    rewriter = _Rewriter(node, file, unsure)
    rewriter.unsure |= unbound
    free = sorted(bound(node.body) - rewriter.declared)
    node.body = rewriter.block(node.body)
    if free:  # never run: it makes the variables the function's own, so that inner functions can bind them
        targets: list[ast.expr] = [ast.Name(id=name, ctx=ast.Store()) for name in free]
        dead = ast.If(
            test=ast.Constant(value=False),
            body=[ast.Assign(targets=targets, value=ast.Constant(value=None))],
            orelse=[],
        )
        for inner in ast.walk(dead):
            ast.copy_location(inner, node)
        declarations = sum(isinstance(s, ast.Global | ast.Nonlocal) for s in node.body[:1])
        node.body.insert(declarations, dead)
        if owned:
            names: Any = tuple(owned)
            first = ast.copy_location(ast.Constant(value=None), node.body[-1])
            own_cells = rewriter.call("owning", rewriter.cells_of(owned, first), ast.Constant(value=names), at=node)
            node.body.insert(declarations + 1, _statement(own_cells, node))
    return ast.fix_missing_locations(node)


def _shared_below(node: ast.FunctionDef) -> list[str]:
    """The function's own variables that functions inside it rebind."""
    inner = (s for statement in node.body for s in ast.walk(statement) if isinstance(s, ast.Nonlocal))
    declared = {name for s in own(node.body) if isinstance(s, ast.Global | ast.Nonlocal) for name in s.names}
    parameters = {arg.arg for arg in ast.walk(node.args) if isinstance(arg, ast.arg)}
    return sorted(({name for s in inner for name in s.names} - declared) & (bound(node.body) | parameters))


class _Rewriter(ast.NodeTransformer):
    """Rewrites one function; functions inside get rewriters of their own.

    ``unsure`` are variables of enclosing functions that a ``for``, read outside of it, or a ``:=`` binds.
    """

    def __init__(self, node: ast.FunctionDef | ast.Lambda, file: str, unsure: Set[str]) -> None:
        self.file = file
        self.first = next((arg.arg for arg in (*node.args.posonlyargs, *node.args.args)), None)
        body: Sequence[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else node.body
        self.reads = reads(body)
        self.read_positions = read_positions(body)
        self.loop: Position | None = None  # where the outermost loop around the statement being rewritten starts
        every = [*own(body)]
        self.shared = {n for s in every if isinstance(s, ast.Nonlocal) for n in s.names}
        self.globals = {n for s in every if isinstance(s, ast.Global) for n in s.names}
        self.declared = self.shared | self.globals
        loops = [inner for inner in every if isinstance(inner, ast.For)]
        targets = {name for loop in loops for name in bound([loop.target]) if self.reads[name] > reads([loop])[name]}
        targets |= {inner.target.id for inner in every if isinstance(inner, ast.NamedExpr)}
        self.unsure = (unsure - bound([node.args, *body])) | (targets - self.declared)
        self.grows = any(isinstance(inner, ast.For | ast.While) for inner in every) and any(
            isinstance(inner, ast.Attribute) and inner.attr in _GROWING for root in body for inner in ast.walk(root)
        )
        self.pending: list[ast.stmt] | None = None  # functions to be defined before the statement being rewritten
        self.count = 0
        self.attempts = 0

    # --- pieces -----------------------------------------------------------------------------------------------------

    def refuse(self, what: str, node: ast.AST, hint: str) -> ScriptError:
        return ScriptError(what, location=Location(self.file, getattr(node, "lineno", 0)), hint=hint)

    def call(self, name: str, *args: ast.expr, at: ast.AST) -> ast.Call:
        return _call(name, *args, at=at)

    def thunk(self, body: ast.expr) -> ast.expr:
        """A function of no arguments that gives an expression's value, and says which variables it binds."""
        names = {n for inner in own([body]) for n in (bound([inner]) if isinstance(inner, ast.NamedExpr) else ())}
        names |= {name for inner in own([body]) for name in getattr(inner, "jg_bound", ())}
        if not names:
            none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
            return ast.copy_location(ast.Lambda(args=none, body=body), body)
        if self.pending is None:
            raise self.refuse(
                "an assignment inside an expression whose evaluation depends on another, in a lambda or comprehension",
                body,
                "assign in a statement of its own",
            )
        function = self.inner("value", [ast.copy_location(ast.Return(value=body), body)], names, (), body)
        self.pending.append(function)
        listed: Any = tuple(sorted(names - self.declared))
        call = self.call("binding", self.name(function), ast.Constant(value=listed), at=body)
        call.jg_bound = names  # type: ignore[attr-defined]
        return call

    def inner(self, kind: str, body: list[ast.stmt], names: set[str], args: Sequence[str], at: ast.AST) -> Any:
        """An inner function that binds ``names`` of this one."""
        self.count += 1
        head: list[ast.stmt] = []
        if outer := sorted((names | self.shared) - self.globals):
            head.append(ast.Nonlocal(names=outer))
        if self.globals:
            head.append(ast.Global(names=sorted(self.globals)))
        parameters = ast.arguments(
            posonlyargs=[], args=[ast.arg(arg=a) for a in args], kwonlyargs=[], kw_defaults=[], defaults=[]
        )
        function: Any = ast.FunctionDef(
            name=f"jg_{kind}_{self.count}_", args=parameters, body=[*head, *(body or [ast.Pass()])], decorator_list=[]
        )
        function.type_params = []
        return _on_first_line(function, at)

    def site(self, at: ast.stmt, names: set[str], mutated: Collection[str] = (), stop: Sequence[str] = ()) -> ast.expr:
        """A constant with what ``variables.Site`` holds."""
        here = reads([at])
        start = position(at) if self.loop is None else self.loop
        live = {name for name in names if self.reads_from(name, start) > here[name]}
        groups = (names, mutated, live)
        sides = [lines_of(side) for side in (at.body, at.orelse)] if isinstance(at, ast.If) else []
        lines = tuple(
            tuple((name, tuple(line_numbers)) for name, line_numbers in side.items() if name in live) for side in sides
        )
        targets = tuple(sorted(names & self.unsure if isinstance(at, ast.For | ast.While) else live & self.unsure))
        tested = tuple(sorted(names & bound([at.test]))) if isinstance(at, ast.While) else ()
        value: Any = (*(tuple(sorted(group)) for group in groups), tuple(stop), self.attempts, lines, targets, tested)
        return ast.Constant(value=value)

    def reads_from(self, name: str, start: Position) -> int:
        """How often a variable is read from a position on; of those of the rewriter's own all count."""
        if name.startswith("jg_"):
            return self.reads[name]
        return sum(read >= start for read in self.read_positions.get(name, ()))

    def repeated(self, loop: ast.For | ast.While, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body of a loop: what it binds may be read by the next turn, before that."""
        outside = self.loop
        self.loop = position(loop) if outside is None else outside
        new_body = self.block(body)
        self.loop = outside
        return new_body

    def cells_of(self, names: Sequence[str], at: ast.AST) -> ast.expr:
        """A function, never called, that closes over variables."""
        none = ast.arguments(posonlyargs=[], args=[], kwonlyargs=[], kw_defaults=[], defaults=[])
        parts: list[ast.expr] = [ast.Name(id=name, ctx=ast.Load()) for name in names]
        closing = ast.Lambda(args=none, body=ast.Tuple(elts=parts, ctx=ast.Load()))
        return ast.fix_missing_locations(ast.copy_location(closing, at))

    def name(self, function: Any) -> ast.expr:
        return ast.Name(id=function.name, ctx=ast.Load())

    def expression(self, node: ast.expr) -> ast.expr:
        new_node: ast.expr = self.visit(node)
        return new_node

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        new_statements: list[ast.stmt] = []
        for statement in statements:
            outside, self.pending = self.pending, []
            new = self.visit(statement)
            new_statements += [*self.pending, *(new if isinstance(new, list) else [] if new is None else [new])]
            self.pending = outside
        return new_statements

    # --- statements that steer --------------------------------------------------------------------------------------

    def visit_If(self, node: ast.If) -> Any:
        names = {*permanent(bound([*node.body, *node.orelse]))} - self.declared
        site = self.site(node, names)
        test = self.test(node.test)
        then = self.inner("then", self.block(node.body), names, (), node)
        orelse = self.inner("else", self.block(node.orelse), names, (), node)
        call = self.call("if_", test, self.name(then), self.name(orelse), site, at=node)
        return [then, orelse, _statement(call, node)]

    def visit_While(self, node: ast.While) -> Any:
        names = {*permanent(bound([node.test, *node.body]))} - self.declared
        mutated = names - bound_by_assignment([node.test, *node.body])
        site = self.site(node, names, mutated, node.jg_stop)  # type: ignore[attr-defined]
        result = ast.copy_location(ast.Return(value=self.test(node.test)), node.test)
        test = self.inner("test", [result], names, (), node)
        body = self.inner("body", self.repeated(node, node.body), names, (), node)
        call = self.call("while_", self.name(test), self.name(body), site, at=node)
        return [test, body, _statement(call, node)]

    def visit_For(self, node: ast.For) -> Any:
        names = {*permanent(bound([node.target, *node.body]))} - self.declared
        mutated = names - bound_by_assignment([node.target, *node.body])
        site = self.site(node, names, mutated, node.jg_stop)  # type: ignore[attr-defined]
        item = ast.Name(id=_ITEM, ctx=ast.Load())
        first = ast.copy_location(ast.Assign(targets=[node.target], value=item), node.target)
        statements: list[ast.stmt] = [ast.fix_missing_locations(first), *node.body]
        iterable = self.expression(node.iter)
        body = self.inner("body", self.repeated(node, statements), names, (_ITEM,), node)
        call = self.call("for_", iterable, self.name(body), site, at=node)
        return [body, _statement(call, node)]

    def visit_Try(self, node: Any) -> Any:
        outside = self.attempts
        if node.handlers:
            self.attempts = outside or node.lineno
        node.body, node.orelse = self.block(node.body), self.block(node.orelse)
        for handler in node.handlers:
            handler.type = handler.type and self.expression(handler.type)
        if node.handlers:
            node.body = [self.attempt(node)]
        for handler in node.handlers:
            handler.body = self.block(handler.body)
        node.finalbody = self.block(node.finalbody)
        self.attempts = outside
        return node

    visit_TryStar = visit_Try  # noqa: N815

    def attempt(self, node: Any) -> ast.stmt:
        """The body of a ``try``, which says which errors its handlers take."""
        kinds = [copied(h.type) if h.type else ast.Name(id="BaseException", ctx=ast.Load()) for h in node.handlers]
        kinds_thunk = self.thunk(ast.copy_location(ast.Tuple(elts=kinds, ctx=ast.Load()), node))
        call = self.call("attempt", kinds_thunk, ast.Constant(value=node.lineno), at=node)
        with_node = ast.With(items=[ast.withitem(context_expr=call)], body=node.body)
        return ast.fix_missing_locations(ast.copy_location(with_node, node))

    def visit_With(self, node: ast.With) -> Any:
        """``with x as y[i]`` sets what its target says at the start of its body."""
        first: list[ast.stmt] = []
        for item in node.items:
            item.context_expr = self.expression(item.context_expr)
            if item.optional_vars is not None and not _binds_names_alone(item.optional_vars):
                entered = self.temporary("entered", ast.Constant(value=None), node).targets[0]
                first += self.assigned(item.optional_vars, entered.id, node)
                item.optional_vars = entered
        node.body = [*first, *self.block(node.body)]
        return node

    def visit_Assert(self, node: ast.Assert) -> Any:
        message = self.thunk(self.expression(node.msg) if node.msg is not None else ast.Constant(value=""))
        call = self.call("assert_", self.test(node.test), message, at=node)
        return _statement(call, node)

    def visit_Raise(self, node: ast.Raise) -> Any:
        if node.exc is None:
            return node
        node.exc = self.expression(node.exc)
        call = self.call("raising", self.thunk(copied(node.exc)), at=node)
        return [_statement(call, node), node]

    # --- expressions that steer -------------------------------------------------------------------------------------

    def test(self, node: ast.expr) -> ast.expr:
        """An expression of which only the truth matters."""
        if isinstance(node, ast.BoolOp):
            return self.logical(node, "all_" if isinstance(node.op, ast.And) else "any_", self.test)
        return self.expression(node)

    def logical(self, node: ast.BoolOp, name: str, visit: Any) -> ast.expr:
        first, *rest = [visit(value) for value in node.values]
        return self.call(name, first, *(self.thunk(value) for value in rest), at=node)

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        return self.logical(node, "and_" if isinstance(node.op, ast.And) else "or_", self.expression)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> Any:
        if isinstance(node.op, ast.Not):
            return self.call("not_", self.test(node.operand), at=node)
        return self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        sides = [self.thunk(self.expression(side)) for side in (node.body, node.orelse)]
        return self.call("choose_", self.test(node.test), *sides, at=node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return self.single(node, node.ops[0], node.comparators[0])
        words: Any = tuple(_COMPARISONS[type(op)] for op in node.ops)
        relations = ast.Constant(value=words)
        rest = [self.thunk(value) for value in node.comparators]
        return self.call("compare", relations, node.left, *rest, at=node)

    def single(self, node: ast.Compare, op: ast.cmpop, other: ast.expr) -> ast.expr:
        """A comparison of two: ``in`` may search for a number, ``is`` compare it with a bool or ask whether a
        choice was this object."""
        match op, other:
            case (ast.In() | ast.NotIn(), _) if (
                not isinstance(node.left, ast.Constant) or node.left.value.__class__ is not str
            ):
                call = self.call("contains", node.left, other, at=node)
                return call if isinstance(op, ast.In) else self.call("not_", call, at=node)
            case (ast.Is() | ast.IsNot(), ast.Constant(value=bool())):
                call = self.call("is_bool", node.left, other, at=node)
                return call if isinstance(op, ast.Is) else self.call("not_", call, at=node)
            case (ast.Is() | ast.IsNot(), _) if not isinstance(node.left, ast.Constant) and not isinstance(
                other, ast.Constant
            ):
                call = self.call("is_one", node.left, other, at=node)
                return call if isinstance(op, ast.Is) else self.call("not_", call, at=node)
        return node

    def visit_Subscript(self, node: ast.Subscript) -> Any:
        """``x[i]``, and ``x[i][j]`` at once, where an index may be a number that the graph computes."""
        return self.reading(node)

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        """``x[i].name`` at once, where an index may be a number that the graph computes."""
        return self.reading(node)

    def reading(self, node: ast.Subscript | ast.Attribute) -> Any:
        """An element or attribute, with the steps before it if an index may be a number that the graph computes."""
        if not isinstance(node.ctx, ast.Load):
            return self.generic_visit(node)
        parts: list[ast.Subscript | ast.Attribute] = [node]
        while isinstance(owner := parts[0].value, ast.Subscript | ast.Attribute) and (
            sum(map(_is_index, parts)) < _DEEPEST and not any(_is_index(part) and _binds(part) for part in parts)
        ):
            parts.insert(0, owner)
        while parts and not _may_be_staged(parts[0]):
            del parts[0]
        if not parts:
            return self.generic_visit(node)
        owner = self.expression(parts[0].value)
        call = self.call("item", owner, *(self.step(part, first=part is parts[0]) for part in parts), at=node)
        call.jg_pure = True  # type: ignore[attr-defined]
        return call

    def later(self, key: ast.expr) -> ast.expr:
        """An index, which, if it calls something, is evaluated only where Python does: after the index before it."""
        simple, key = _is_simple(key), self.expression(key)
        return key if simple else self.call("Later", self.thunk(key), at=key)

    def visit_Call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self.first is not None:
            node.args = [ast.Name(id="__class__", ctx=ast.Load()), ast.Name(id=self.first, ctx=ast.Load())]
            return ast.fix_missing_locations(node)
        if isinstance(node.func, ast.Name) and len(node.args) < _FRAMES.get(node.func.id, 0):
            raise self.refuse(f"{node.func.id}() reads the variables of its frame", node, "name the variables")
        match node:
            case ast.Call(func=ast.Name(id="sum" | "list"), args=[ast.GeneratorExp() as given, *_]):
                node.args[0] = ast.copy_location(ast.ListComp(elt=given.elt, generators=given.generators), given)
        self.arguments(node)
        makes_list = isinstance(node.func, ast.Name) and node.func.id == "list"
        node.func = self.call("callee", node.func, at=node.func)
        return self.call("growing", node, at=node) if makes_list else node

    def arguments(self, node: ast.Call) -> None:
        """Rewrite what a call calls, as a method of what the steps before its name lead to, and its arguments."""
        printer = copied(node.func) if may_print(node.func) else None
        if isinstance(node.func, ast.Attribute):
            node.func.value = self.expression(node.func.value)
        else:
            node.func = self.expression(node.func)
        node.args = [self.argument(argument, printer) for argument in node.args]
        for keyword in node.keywords:
            keyword.value = self.expression(keyword.value)

    def argument(self, node: ast.expr, printer: ast.expr | None) -> ast.expr:
        """An argument, which may be a text that ``printer`` prints."""
        if printer is None or (text := TextArgument.of(node)) is None:
            return self.expression(node)
        makers = ast.Tuple(elts=text.makers, ctx=ast.Load())
        values = [self.expression(value) for value in text.values]
        return self.call("text", copied(printer), makers, self.expression(text.function), *values, at=node)

    # --- Python objects that are made or changed --------------------------------------------------------------------

    def visit_List(self, node: Any) -> Any:
        self.generic_visit(node)
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del):
            return node
        grows = isinstance(node, ast.List) and (self.grows or not node.elts)
        return self.call("growing" if grows else "created", node, at=node)

    visit_Dict = visit_Set = visit_List  # noqa: N815

    def visit_GeneratorExp(self, node: Any) -> Any:
        for generator in node.generators:
            if any(isinstance(part, ast.Subscript | ast.Attribute) for part in ast.walk(generator.target)):
                raise self.refuse("a comprehension that sets an element or attribute", node, "write it as a loop")
        outside, self.pending = self.pending, None
        self.generic_visit(node)
        self.pending = outside
        return node

    def visit_ListComp(self, node: Any) -> Any:
        if self.pending is None or _needs_its_scope(node):
            return self.visit_SetComp(node)
        self.count += 1
        name = f"jg_list_{self.count}_"  # before what is gone along, which may hold comprehensions of its own
        iterable = self.expression(node.generators[0].iter)
        function = _definition(_loop_of(node, name), self.file, self.unsure)
        self.pending.append(function)
        return self.call("listed", self.name(function), iterable, at=node)

    def visit_SetComp(self, node: Any) -> Any:
        return self.call("created", self.visit_GeneratorExp(node), at=node)

    visit_DictComp = visit_SetComp  # noqa: N815

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id not in self.unsure or not isinstance(node.ctx, ast.Load):
            return node
        return self.call("sure", node, ast.Constant(value=node.id), at=node)

    def visit_Assign(self, node: ast.Assign) -> Any:
        if all(map(_binds_names_alone, node.targets)):
            self.generic_visit(node)
            return [*self.changes(node.targets, node), node]
        value = self.temporary("value", self.expression(node.value), node)
        return [
            value,
            *(statement for target in node.targets for statement in self.assigned(target, value.targets[0].id, node)),
        ]

    def assigned(self, target: Any, value: str, at: ast.stmt) -> list[ast.stmt]:
        """The assignment of a variable's value to a target: as in Python, from left to right, and each part of a target
        is evaluated as what stands there is set."""
        loaded = ast.copy_location(ast.Name(id=value, ctx=ast.Load()), target)
        if _binds_names_alone(target):
            assign = ast.copy_location(ast.Assign(targets=[target], value=loaded), at)
            return [*self.changes([target], at), ast.fix_missing_locations(assign)]
        if isinstance(target, ast.Tuple | ast.List):
            parts = [self.temporary("part", loaded, at).targets[0] for _ in target.elts]
            stars = [isinstance(element, ast.Starred) for element in target.elts]
            taken = [
                ast.Starred(value=part, ctx=ast.Store()) if star else part
                for part, star in zip(parts, stars, strict=True)
            ]
            unpacked = ast.Assign(targets=[ast.Tuple(elts=taken, ctx=ast.Store())], value=loaded)
            statements: list[ast.stmt] = [ast.fix_missing_locations(ast.copy_location(unpacked, at))]
            for element, part, star in zip(target.elts, parts, stars, strict=True):
                if star:
                    rest = self.call("created", ast.Name(id=part.id, ctx=ast.Load()), at=at)
                    new = ast.Assign(targets=[ast.Name(id=part.id, ctx=ast.Store())], value=rest)
                    statements.append(ast.fix_missing_locations(ast.copy_location(new, at)))
                statements += self.assigned(element.value if isinstance(element, ast.Starred) else element, part.id, at)
            return statements
        owner, steps = self.path(target)
        if not isinstance(target, ast.Subscript) and len(steps) == 1:
            target.value = owner
            assign = ast.Assign(targets=[target], value=loaded)
            return [*self.changes([target], at), ast.fix_missing_locations(ast.copy_location(assign, at))]
        return [_statement(self.call("store", owner, loaded, *steps, at=at), at)]

    def path(self, target: ast.Subscript | ast.Attribute) -> tuple[ast.expr, list[ast.expr]]:
        """What a target is evaluated from, and the steps from there: those from the first on whose index may be a
        number that the graph computes, the last one at least."""
        parts: list[ast.Subscript | ast.Attribute] = [target]
        inner = target.value
        while isinstance(inner, ast.Subscript | ast.Attribute) and sum(map(_is_index, parts)) < _DEEPEST:
            parts.insert(0, inner)
            inner = inner.value
        while len(parts) > 1 and not _may_be_staged(parts[0]):
            del parts[0]
        owner = self.expression(parts[0].value)
        return owner, [self.step(part, first=part is parts[0]) for part in parts]

    def step(self, part: ast.Subscript | ast.Attribute, *, first: bool) -> ast.expr:
        """An index or attribute as a step of a path."""
        if isinstance(part, ast.Attribute):
            return self.call("AttributeStep", ast.Constant(value=part.attr), at=part)
        return self.expression(part.slice) if first else self.later(part.slice)

    def temporary(self, word: str, value: ast.expr, at: ast.stmt) -> Any:
        """An assignment of a value to a name of its own."""
        self.count += 1
        target = ast.Name(id=f"jg_{word}_{self.count}_", ctx=ast.Store())
        return ast.fix_missing_locations(ast.copy_location(ast.Assign(targets=[target], value=value), at))

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        if isinstance(node.target, ast.Subscript | ast.Attribute):
            return self.augmented(node, node.target)
        self.generic_visit(node)
        if node.target.id not in self.declared:
            changed = ast.copy_location(ast.Name(id=node.target.id, ctx=ast.Load()), node)
            if node.target.id in self.unsure:
                target = ast.Name(id=node.target.id, ctx=ast.Store())
                known = ast.copy_location(ast.Assign(targets=[target], value=self.visit_Name(changed)), node)
                return [ast.fix_missing_locations(known), node]
            return [_statement(self.call("changing", changed, at=node), node), node]
        return [*self.changes([node.target], node), node]

    def augmented(self, node: ast.AugAssign, target: ast.Subscript | ast.Attribute) -> list[ast.stmt]:
        """``x[i] += v``: what stands there is read before the value is evaluated, then changed, then set."""
        owner, steps = self.path(target)
        if not isinstance(target, ast.Subscript) and len(steps) == 1:
            target.value = owner
            node.value = self.expression(node.value)
            return [*self.changes([target], node), node]
        path = self.temporary("path", self.call("path", owner, *steps, at=node), node)
        old = self.temporary("old", self.of(path, "get", node), node)
        value = self.temporary("value", self.expression(node.value), node)
        read = [ast.Name(id=bound.targets[0].id, ctx=ast.Load()) for bound in (old, value)]
        symbol = ast.Constant(value=_OPERATORS[type(node.op)])
        staged = _statement(self.of(path, "change", node, symbol, *read), node)
        plain: list[ast.stmt] = [
            _statement(self.call("changing", copied(read[0]), at=node), node),
            ast.AugAssign(target=old.targets[0], op=node.op, value=copied(read[1])),
            _statement(self.of(path, "put", node, copied(read[0])), node),
        ]
        chosen = ast.If(test=self.of(path, "is_staged", node), body=[staged], orelse=plain)
        for part in (chosen, plain[1]):
            ast.fix_missing_locations(ast.copy_location(part, node))
        return [path, old, value, chosen]

    def of(self, variable: ast.Assign, method: str, at: ast.stmt, *args: ast.expr) -> ast.expr:
        """The call of a method of what a temporary variable has."""
        owner: Any = variable.targets[0]
        function = ast.Attribute(value=ast.Name(id=owner.id, ctx=ast.Load()), attr=method, ctx=ast.Load())
        call = ast.copy_location(ast.Call(func=function, args=list(args), keywords=[]), at)
        return ast.fix_missing_locations(call)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        plain = ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)
        return self.visit_Assign(plain)

    def visit_Delete(self, node: ast.Delete) -> Any:
        names = [target.id for target in node.targets if isinstance(target, ast.Name) and target.id in self.declared]
        refused = [self.call("unstaged", ast.Constant(value=f"del {name}"), at=node) for name in names]
        self.generic_visit(node)
        return [*(_statement(call, node) for call in refused), *self.changes(node.targets, node), node]

    def changes(self, targets: Sequence[ast.expr], node: ast.stmt) -> list[ast.stmt]:
        """Calls that announce which objects and outer variables an assignment is about to change."""
        statements: list[ast.stmt] = []
        for target in targets:
            match target:
                case ast.Tuple() | ast.List():
                    statements += self.changes(target.elts, node)
                case ast.Starred():
                    statements += self.changes([target.value], node)
                case ast.Name(id=name) if name in self.declared and not isinstance(target.ctx, ast.Del):
                    if name in self.globals:
                        call = self.call("unstaged", ast.Constant(value=f"an assignment to the global {name}"), at=node)
                    else:
                        call = self.call("rebinding", self.cells_of([name], node), ast.Constant(value=name), at=node)
                    statements.append(_statement(call, node))
                case ast.Attribute() | ast.Subscript():
                    owner = self.owner(target, statements)
                    attribute = target.attr if isinstance(target, ast.Attribute) else None
                    call = self.call("changing", owner, ast.Constant(value=attribute), at=node)
                    statements.append(_statement(call, node))
        return statements

    def owner(self, target: ast.Attribute | ast.Subscript, statements: list[ast.stmt]) -> ast.expr:
        """The object that an assignment changes, evaluated once."""
        if any(_is_active(inner) for inner in ast.walk(target.value)):
            self.count += 1
            name = f"jg_owner_{self.count}_"
            bind = ast.Assign(targets=[ast.Name(id=name, ctx=ast.Store())], value=target.value)
            statements.append(ast.fix_missing_locations(ast.copy_location(bind, target)))
            target.value = ast.copy_location(ast.Name(id=name, ctx=ast.Load()), target)
        return copied(target.value)

    # --- scopes inside ----------------------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.expression(decorator) for decorator in node.decorator_list]
        if any(isinstance(inner, ast.Yield | ast.YieldFrom | ast.Await) for inner in own(node.body)):
            return node
        return _definition(node, self.file, self.unsure)

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        node.body = _Rewriter(node, self.file, self.unsure).expression(node.body)
        return node

    def visit_AsyncFunctionDef(self, node: Any) -> Any:
        return node

    visit_ClassDef = visit_AsyncFunctionDef  # noqa: N815


def _needs_its_scope(node: ast.ListComp) -> bool:
    """Whether a comprehension does what its statements in a function of their own would not do."""
    inner = [*ast.walk(node)]
    return any(generator.is_async for generator in node.generators) or any(
        isinstance(part, ast.NamedExpr | ast.Await | ast.Yield | ast.YieldFrom)
        or (isinstance(part, ast.Name) and part.id in ("super", "__class__", *_FRAMES))
        for part in inner
    )


def _loop_of(node: ast.ListComp, name: str) -> ast.FunctionDef:
    """A comprehension as the loops that it stands for, in a function of what its first ``for`` goes along."""
    result_name, iterable_name = "jg_found_", "jg_given_"
    append = ast.Attribute(value=ast.Name(id=result_name, ctx=ast.Load()), attr="append", ctx=ast.Load())
    body: list[ast.stmt] = [ast.Expr(value=ast.Call(func=append, args=[node.elt], keywords=[]))]
    for generator in reversed(node.generators):
        for test in reversed(generator.ifs):
            body = [ast.If(test=test, body=body, orelse=[])]
        iterable = ast.Name(id=iterable_name, ctx=ast.Load()) if generator is node.generators[0] else generator.iter
        body = [ast.For(target=generator.target, iter=iterable, body=body, orelse=[])]
    start = ast.Assign(targets=[ast.Name(id=result_name, ctx=ast.Store())], value=ast.List(elts=[], ctx=ast.Load()))
    end = ast.Return(value=ast.Name(id=result_name, ctx=ast.Load()))
    arguments = ast.arguments(
        posonlyargs=[], args=[ast.arg(arg=iterable_name)], kwonlyargs=[], kw_defaults=[], defaults=[]
    )
    function: Any = ast.FunctionDef(name=name, args=arguments, body=[start, *body, end], decorator_list=[])
    function.type_params = []
    for part in ast.walk(function):
        if not hasattr(part, "lineno"):
            ast.copy_location(part, node)
    loop: ast.FunctionDef = ast.fix_missing_locations(function)
    return loop


def _is_known(key: ast.expr) -> bool:
    """Whether an index holds no number that a graph could compute: it is written out."""
    match key:
        case ast.Constant():
            return True
        case ast.UnaryOp(operand=operand):
            return _is_known(operand)
        case ast.Slice(lower=lower, upper=upper, step=step):
            return all(part is None or _is_known(part) for part in (lower, upper, step))
        case ast.Tuple(elts=elements):
            return all(map(_is_known, elements))
    return False


def _is_simple(node: ast.expr) -> bool:
    """Whether an expression may be evaluated twice, or later: it calls and binds nothing."""
    return not any(isinstance(inner, ast.Call | ast.NamedExpr | ast.Await) for inner in ast.walk(node))


def _binds(node: ast.expr) -> bool:
    """Whether an expression binds variables, or waits: it is evaluated in the function itself."""
    return any(isinstance(inner, ast.NamedExpr | ast.Await) for inner in ast.walk(node))


def _is_active(node: ast.AST) -> bool:
    """Whether a rewritten expression may do something when it is evaluated."""
    return isinstance(node, ast.NamedExpr) or (isinstance(node, ast.Call) and not hasattr(node, "jg_pure"))


def _binds_names_alone(target: ast.expr) -> bool:
    """Whether a target is a variable, or several, of which none takes a list of what is left."""
    match target:
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return all(map(_binds_names_alone, elements))
    return isinstance(target, ast.Name)


def _is_index(part: ast.expr) -> bool:
    return isinstance(part, ast.Subscript)


def _may_be_staged(part: ast.expr) -> bool:
    """Whether a step is an index that may be a number that the graph computes."""
    return isinstance(part, ast.Subscript) and not _is_known(part.slice)


def _call(name: str, *args: ast.expr, at: ast.AST) -> ast.Call:
    """The call of a staging function."""
    function = ast.Attribute(value=ast.Name(id=STAGING, ctx=ast.Load()), attr=name, ctx=ast.Load())
    call: ast.Call = _on_first_line(ast.Call(func=function, args=list(args), keywords=[]), at)
    return call


def _on_first_line(node: Any, at: Any) -> Any:
    """Place a node on the first line of another, where an error in it is to be reported."""
    node.lineno = node.end_lineno = at.lineno
    node.col_offset = node.end_col_offset = at.col_offset
    return node


def _statement(call: ast.expr, at: ast.AST) -> ast.stmt:
    return ast.copy_location(ast.Expr(value=call), at)
