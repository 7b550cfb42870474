"""Random programs of views and writes through them, each as two texts: for PyTorch's API and for NumPy.

NumPy's arrays alias as PyTorch's tensors do, so that they say what a program means. All numbers are int64, so that
results are exact. Shapes and which views may be written are known by running the text for NumPy.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

Texts = tuple[str, str]
"""A statement for ``jitgraph.torch``, and for NumPy."""

MODULUS = 10007


def diagonal(a: Any, offset: int = 0) -> Any:
    """The diagonal of the first two axes as a view that is written to where the array is."""
    view = np.diagonal(a, offset)
    view.flags.writeable = a.flags.writeable
    return view


def unfold(a: Any, size: int, step: int) -> Any:
    """The windows of the first axis, as the last axis."""
    shape = ((a.shape[0] - size) // step + 1, *a.shape[1:], size)
    strides = (a.strides[0] * step, *a.strides[1:], a.strides[0])
    return np.lib.stride_tricks.as_strided(a, shape, strides, writeable=a.flags.writeable)


ARGUMENTS = "arg_x", "arg_y", "arg_z"
"""What NumPy's programs call the arguments, whatever has their names later."""

NAMES: dict[str, Any] = {"np": np, "diagonal": diagonal, "unfold": unfold}


def inputs() -> dict[str, Any]:
    """The arguments of each program."""
    return {
        "x": np.arange(24, dtype=np.int64).reshape(4, 6),
        "y": (np.arange(24, dtype=np.int64) * 7 % 23).reshape(2, 3, 4),
        "z": np.arange(6, dtype=np.int64) - 3,
    }


class Writer:
    """One random program; ``staged`` has loops and branches that only a script stages."""

    def __init__(self, number: int, *, staged: bool) -> None:
        self.random = random.Random(f"views {number}")
        arrays = inputs()
        self.env: dict[str, Any] = {**arrays, "total": np.int64(0), "n": 3, **NAMES}
        self.env.update({f"arg_{name}": array for name, array in arrays.items()})
        self.lines: list[Texts] = []
        self.handles = {name: name.removeprefix("arg_") for name in (*arrays, *ARGUMENTS)}  # equal for names of one
        self.forms: Counter[str] = Counter()
        self.staged = staged
        self.count = 0
        self.index: str | None = None
        for _ in range(self.random.randint(4, 9)):
            if staged and self.random.random() < 0.4:
                self.block("    ")
            else:
                self.statement("    ", inside=False)
        if staged and not any(word in self.forms for word in ("for n", "for row", "if", "while")):
            self.block("    ")
        self.read("    ", self.pick())

    # --- text --------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> list[str]:
        names = [name for name, value in self.env.items() if isinstance(value, np.ndarray)]
        return [name for name in names if name not in ARGUMENTS]

    def texts(self) -> Texts:
        """The function ``f(x, y, z, n)`` that gives all its tensors, and for NumPy what the arguments are then, too."""
        results = ", ".join(["total", *(name for name in self.names)])
        start, arguments = "    total = z.sum() * 0", ", ".join(ARGUMENTS)
        texts = ["\n".join(["def f(x, y, z, n):", start, *lines]) for lines in self._columns()]
        for_numpy = texts[1].replace(start, f"{start}\n    {arguments} = x, y, z", 1)
        return f"{texts[0]}\n    return {results}\n", f"{for_numpy}\n    return {results}, {arguments}\n"

    def _columns(self) -> tuple[list[str], list[str]]:
        return [line[0] for line in self.lines], [line[1] for line in self.lines]

    def pick(self, *, rank: int = 0, writable: bool = False) -> str:
        choices = [
            name
            for name in self.names
            if self.env[name].ndim >= rank and (self.env[name].flags.writeable or not writable)
        ]
        return self.random.choice(choices)

    def emit(self, indent: str, form: str, texts: Texts, handle: str = "") -> bool:
        """Add a statement where NumPy takes it; one that rebinds a name inside of a block keeps its shape.

        A name that it binds is one of those of a handle, or of a new one.
        """
        before = dict(self.env)
        shapes = {name: (value.shape, value.dtype) for name, value in before.items() if isinstance(value, np.ndarray)}
        try:
            exec(texts[1], self.env)
        except (ValueError, IndexError, TypeError):
            self.env = before
            return False
        self.env.pop("__builtins__", None)
        if len(indent) > 4:
            changed = any((self.env[name].shape, self.env[name].dtype) != kind for name, kind in shapes.items())
            if changed or any(
                name in before and before[name].flags.writeable != self.env[name].flags.writeable for name in self.names
            ):
                self.env = before
                return False
        self.lines.append((indent + texts[0], indent + texts[1]))
        self.forms[form] += 1
        name = texts[0].partition(" = ")[0]
        if name in self.env:
            self.handles[name] = handle or f"handle {len(self.lines)}"
        return True

    # --- statements --------------------------------------------------------------------------------------------------

    def statement(self, indent: str, *, inside: bool) -> None:
        weights = 5, 5, 1, 2, 0 if self.staged else 2
        kind = self.random.choices(("view", "write", "fresh", "read", "share"), weights)[0]
        for _ in range(20):
            if kind == "view":
                of = self.pick()
                form, texts = self.random.choice([*self.views(of)])
                same = form == "alias" or (form == "flatten" and self.env[of].ndim == 1)
                handle = self.handles.get(of, "") if same else ""
                done = self.emit(indent, form, self.bound(texts, inside=inside), handle)
            elif kind == "share":
                done = self.emit(indent, *self.share(self.pick()))
            elif kind == "write":
                done = self.emit(indent, *self.write(self.pick(writable=True)))
            elif kind == "fresh":
                done = self.emit(indent, "fresh", self.bound(self.fresh(), inside=inside))
            else:
                done = self.read(indent, self.pick())
            if done:
                return

    def bound(self, texts: Texts, *, inside: bool) -> Texts:
        """A name for a value: a new one, or one that stands for something else already."""
        if self.random.random() < (0.5 if inside else 0.25):
            name = self.pick()
        else:
            self.count += 1
            name = f"v{self.count}"
        return f"{name} = {texts[0]}", f"{name} = {texts[1]}"

    def read(self, indent: str, name: str) -> bool:
        text = f"total = (total * 3 + {name}.sum()) % {MODULUS}"
        return self.emit(indent, "read", (text, text))

    def place(self, size: int) -> str:
        """A position on an axis."""
        if size and self.index is not None and self.random.random() < 0.5:
            return self.random.choice((f"{self.index} % {size}", f"({self.index} + 1) % {size}"))
        return str(self.random.randrange(-size, size)) if size else "0"

    def basic(self, shape: tuple[int, ...]) -> str:
        """A basic index of ints, slices, None and ``...``."""
        parts = []
        for size in shape[: self.random.randint(1, len(shape))]:
            kind = self.random.random()
            if kind < 0.45:
                parts.append(self.place(size))
            elif kind < 0.85:
                start = self.random.choice(("", "0", "1", "-2"))
                stop = self.random.choice(("", str(size), "-1", "2"))
                parts.append(f"{start}:{stop}{self.random.choice(('', '', ':2'))}")
            else:
                parts.append(":")
        if self.random.random() < 0.15:
            parts.insert(self.random.randint(0, len(parts)), "None")
        if self.random.random() < 0.15:
            parts.append("...")
        return ", ".join(parts)

    def views(self, name: str) -> Iterator[tuple[str, Texts]]:
        a = self.env[name]
        shape, rank = a.shape, a.ndim
        draw = self.random
        yield "alias", (name, name)
        yield "unsqueeze", (f"{name}.unsqueeze(-1)", f"np.expand_dims({name}, -1)")
        yield "squeeze", (f"{name}.squeeze()", f"np.squeeze({name})")
        yield "detach", (f"{name}.detach()", f"{name}.view()")
        yield "data", (f"{name}.data", f"{name}.view()")
        if not rank:
            return
        for _ in range(4):
            index = self.basic(shape)
            yield "index", (f"{name}[{index}]", f"{name}[{index}{'' if '...' in index else ', ...'}]")
        if shape[0]:
            yield "compiled", (f"compiled.first({name})", f"{name}[0, ...]")
        yield "compiled", (f"compiled.turned({name})", f"{name}.T")
        yield "T", (f"{name}.permute({', '.join(map(str, reversed(range(rank))))})", f"{name}.T")
        axis = draw.randrange(rank)
        size = shape[axis]
        yield "flatten", (f"{name}.flatten()", f"np.reshape({name}, (-1,))")
        if size:
            k = self.place(size)
            yield "select", (f"{name}.select({axis}, {k})", f"np.moveaxis({name}, {axis}, 0)[{k}, ...]")
            number = draw.randrange(size)
            yield "unbind", (f"{name}.unbind({axis})[{number}]", f"np.moveaxis({name}, {axis}, 0)[{number}, ...]")
            start = draw.randrange(size)
            length = draw.randint(1, size - start)
            cut = ", ".join([":"] * axis + [f"{start}:{start + length}"])
            yield "narrow", (f"{name}.narrow({axis}, {start}, {length})", f"{name}[{cut}]")
            part = draw.randint(1, size)
            cut = ", ".join([":"] * axis + [f":{part}"])
            yield "split", (f"{name}.split({part}, {axis})[0]", f"{name}[{cut}]")
            last = -(-size // part) - 1
            cut = ", ".join([":"] * axis + [f"{last * part}:"])
            yield "split", (f"{name}.split({part}, {axis})[-1]", f"{name}[{cut}]")
            yield (
                "expand",
                (
                    f"{name}.unsqueeze(0).expand(2, {', '.join(['-1'] * rank)})",
                    f"np.broadcast_to({name}, (2, *{shape}))",
                ),
            )
        other = draw.randrange(rank)
        yield "transpose", (f"{name}.transpose({axis}, {other})", f"np.swapaxes({name}, {axis}, {other})")
        yield "movedim", (f"{name}.movedim({axis}, {other})", f"np.moveaxis({name}, {axis}, {other})")
        for to in self.shapes(a.size):
            reshaped = np.reshape(a, to)
            way = "view" if np.shares_memory(reshaped, a) and draw.random() < 0.5 else "reshape"
            yield way, (f"{name}.{way}({to})", f"np.reshape({name}, {to})")
        if rank >= 2:
            offset = draw.randint(-1, 1)
            yield "diagonal", (f"{name}.diagonal({offset})", f"diagonal({name}, {offset})")
        if shape[0] >= 2:
            yield "unfold", (f"{name}.unfold(0, 2, 2)", f"unfold({name}, 2, 2)")

    def shapes(self, count: int) -> list[tuple[int, ...]]:
        every = [(count,), (-1, 1), *((k, -1) for k in (2, 3, 4) if count % k == 0)]
        every += [(2, k, -1) for k in (2, 3) if count % (2 * k) == 0]
        return self.random.sample(every, min(2, len(every))) if count else []

    def operand(self, shape: tuple[int, ...]) -> str:
        """A value that is broadcast to a shape: a number, a tensor that exists, or one computed of it."""
        fitting = [
            name
            for name in self.names
            if self.env[name].ndim <= len(shape) and _broadcasts(self.env[name].shape, shape)
        ]
        if not fitting or self.random.random() < 0.3:
            return str(self.random.randint(-3, 9))
        name = self.random.choice(fitting)
        return self.random.choice((name, name, f"({name} * 2)", f"({name} + 1)"))

    def fresh(self) -> Texts:
        name = self.pick()
        other = self.operand(self.env[name].shape)
        axes = ", ".join(map(str, reversed(range(self.env[name].ndim))))
        return self.random.choice(
            (
                (f"{name} + {other}", f"np.asarray({name} + {other})"),
                (f"{name} * 2", f"np.asarray({name} * 2)"),
                (f"({name} * 2).permute({axes})", f"np.asarray({name} * 2).T"),
                (f"({name} + {other})[...]", f"np.asarray({name} + {other})[...]"),
                (f"{name}.clone()", f"np.array({name})"),
                (f"{name}.contiguous().clone()", f"np.array({name})"),
            )
        )

    def write(self, name: str) -> tuple[str, Texts]:
        a = self.env[name]
        w = self.operand(a.shape)
        draw = self.random
        kinds = ["add_", "sub_", "mul_", "+=", "copy_", "fill_", "remainder_", "mask", "masked_fill_", "clamp_", "out="]
        if a.ndim:
            kinds += ["set", "set", "+= item", "list", "neg_", "index_fill_", "set_[0]"]
        kind = draw.choice(kinds)
        match kind:
            case "add_" | "sub_" | "mul_":
                function = {"add_": "add", "sub_": "subtract", "mul_": "multiply"}[kind]
                texts = f"{name}.{kind}({w})", f"np.{function}({name}, {w}, out={name})"
            case "+=":
                texts = f"{name} += {w}", f"{name} += {w}"
            case "copy_":
                source = draw.choice([other for other in self.names if _broadcasts(self.env[other].shape, a.shape)])
                texts = f"{name}.copy_({source})", f"np.copyto({name}, {source})"
            case "fill_":
                texts = (
                    (f"{name}.zero_()", f"{name}[...] = 0")
                    if w[0] == "-"
                    else (
                        f"{name}.fill_(5)",
                        f"{name}[...] = 5",
                    )
                )
            case "remainder_":
                texts = f"{name}.remainder_({MODULUS})", f"np.remainder({name}, {MODULUS}, out={name})"
            case "mask":
                k = draw.randint(0, 9)
                texts = (f"{name}[{name} > {k}] = {k + 1}",) * 2  # type: ignore[assignment]
            case "masked_fill_":
                k = draw.randint(0, 9)
                texts = f"{name}.masked_fill_({name} % 3 == 1, {k})", f"{name}[{name} % 3 == 1] = {k}"
            case "clamp_":
                texts = f"{name}.clamp_(-5, 99)", f"np.clip({name}, -5, 99, out={name})"
            case "out=":
                texts = f"torch.add({name}, {w}, out={name})", f"np.add({name}, {w}, out={name})"
            case "neg_":
                texts = f"{name}.neg_()", f"np.negative({name}, out={name})"
            case "set" | "+= item":
                index = self.basic(a.shape)
                sign = "=" if kind == "set" else draw.choice(("+=", "*="))
                shape = self.shape_of(f"{name}[{index}{'' if '...' in index else ', ...'}]")
                texts = (f"{name}[{index}] {sign} {self.operand(shape)}",) * 2  # type: ignore[assignment]
            case "set_[0]":
                texts = f"{name}[{self.place(a.shape[0])}].mul_(2)", ""
                texts = texts[0], texts[0].replace("].mul_(2)", ", ...] *= 2")
            case "list":
                places = sorted(draw.sample(range(a.shape[0]), min(2, a.shape[0])))
                texts = (f"{name}[{places}] = {self.operand(a.shape[1:])}",) * 2  # type: ignore[assignment]
            case _:
                axis = draw.randrange(a.ndim)
                position = draw.randrange(a.shape[axis]) if a.shape[axis] else 0
                cut = ", ".join([":"] * axis + [str(position)])
                texts = (
                    f"{name}.index_fill_({axis}, torch.tensor([{position}]), 4)",
                    f"{name}[{cut}] = 4",
                )
        return kind, texts

    def share(self, name: str) -> tuple[str, Texts]:
        """A tensor that has the elements of another one from then on: in NumPy its names are of another array."""
        names = [other for other, handle in self.handles.items() if handle == self.handles[name]]
        kind = self.random.choice(("data =", "data =", "set_", "Parameter", "become"))
        _, (source, for_numpy) = self.random.choice([*self.views(self.pick())])
        if kind == "Parameter":
            texts = f"torch.nn.Parameter({source}, requires_grad=False)", f"({for_numpy}).view()"
            return kind, self.bound(texts, inside=False)
        if kind == "data =":
            text = f"{name}.data = {source}"
        elif kind == "set_":
            text = f"{name}.set_({source})"
        else:
            text, for_numpy = self.random.choice(
                ((f"{name}.unsqueeze_(0)", f"np.expand_dims({name}, 0)"), (f"{name}.squeeze_()", f"np.squeeze({name})"))
            )
        return kind, (text, f"{' = '.join(names)} = ({for_numpy}).view()")

    def shape_of(self, text: str) -> tuple[int, ...]:
        try:
            return eval(text, dict(self.env)).shape  # type: ignore[no-any-return]
        except IndexError:
            return ()

    # --- loops and branches ------------------------------------------------------------------------------------------

    def block(self, indent: str) -> None:
        kind = self.random.choice(("for n", "for row", "if", "while", "for 3"))
        outer, index, start = dict(self.env), self.index, len(self.lines)
        if kind in ("for n", "for 3"):
            self.count += 1
            self.index = f"i{self.count}"
            self.env[self.index] = 0
            head = (f"for {self.index} in range({kind[4:]}):",) * 2
        elif kind == "for row":
            rows = self.pick(rank=1)
            if not self.env[rows].shape[0]:
                return
            self.count += 1
            name = f"row{self.count}"
            self.env[name] = self.env[rows][0, ...]
            head = f"for {name} in {rows}:", f"for {name} in [{rows}[k, ...] for k in range(len({rows}))]:"
        elif kind == "while":
            self.count += 1
            counter = f"k{self.count}"
            self.lines.append((f"{indent}{counter} = n * 0", f"{indent}{counter} = 0"))
            self.index = counter
            self.env[counter] = 0
            head = (f"while {counter} < n:",) * 2
        else:
            name = self.pick()
            test = self.random.choice((f"{name}.sum() % 2 == 0", f"total % 3 > {self.random.randint(0, 1)}"))
            head = (f"if {test}:",) * 2
        self.lines.append((indent + head[0], indent + head[1]))
        self.body(indent, outer)
        if kind == "while":
            self.lines.append((f"{indent}    {counter} = {counter} + 1",) * 2)
        if kind == "if" and self.random.random() < 0.6:
            self.lines.append((f"{indent}else:",) * 2)
            self.body(indent, outer)
        self.index = index
        self.forms[kind] += 1
        assert len(self.lines) > start

    def body(self, indent: str, outer: dict[str, Any]) -> None:
        start = len(self.lines)
        for _ in range(self.random.randint(1, 4)):
            if self.random.random() < 0.15 and len(indent) < 8:
                self.block(indent + "    ")
            else:
                self.statement(indent + "    ", inside=True)
        if len(self.lines) == start:
            self.lines.append((f"{indent}    pass",) * 2)
        self.env = {name: self.env[name] for name in outer}


def _broadcasts(shape: tuple[int, ...], to: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(shape, to) == to
    except ValueError:
        return False
