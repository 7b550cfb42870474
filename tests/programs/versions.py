"""Random programs that write tensors between ops and their gradient, as text for PyTorch and for jitgraph.torch."""

from __future__ import annotations

import random

_UNARY = ("exp()", "sin()", "tanh()", "sigmoid()", "relu()", "clone()", "sqrt()", "square()", "neg()", "cos()")
_FORMS = ("", "", "[0]", "[1:2]", "[:1].expand(4)", ".data", ".view(4)")
_VIEWS = (".view(4)", ".data", ".detach()", "[:]", ".reshape(2, 2).view(4)")
_PARTS = ("", "", "[1:]", "[:2]", ".view(2, 2)[0]", ".data", ".detach()", ".data[1:]")
_WRITES = (
    *("{0}.add_(0.25)", "{0}.mul_(1.5)", "{0}[...] = 0.75", "{0}.copy_({1})", "{0}.sin_()"),
    "target = {0}; target += {1}",
    *("{0}.exp_()", "{0}.zero_()", "{0}.pow_(2)", "{0}.clamp_(max=0.5)"),
)


class VersionProgram:
    """The text of ``f(torch, w, x)``, w and x of 4 elements, which gives w's gradient.

    ``forms`` are the kinds of its statements.
    """

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = ["w", "x"]
        self.forms: list[str] = []
        lines = [self._line() for _ in range(self._random.randrange(4, 10))]
        terms = [f"({name} * {number + 1}).sum()" for number, name in enumerate(self._names[2:])]
        body = [*lines, f"loss = {' + '.join([*terms, 'w.sum()'])}", "loss.backward()", "return w.grad"]
        self.text = "def f(torch, w, x):\n" + "".join(f"    {line}\n" for line in body)

    def _line(self) -> str:
        choose = self._random.choice
        kind = choose(("op", "op", "product", "view", "write", "write", "write without grad"))
        self.forms.append(kind)
        name, other = choose(self._names), choose(self._names)
        if kind in ("op", "product", "view"):
            new = f"t{len(self._names)}"
            self._names.append(new)
            if kind == "product":
                return f"{new} = {name} {choose('*+-/')} {other}{choose(_FORMS)}"
            return f"{new} = {name}{choose(_VIEWS)}" if kind == "view" else f"{new} = {name}.{choose(_UNARY)}"
        part = choose(_PARTS)
        source = f"{other}{part}{choose(('.detach()', ''))}.clone()"
        line = choose(_WRITES).format(f"{name}{part}", source)
        return f"with torch.no_grad(): {line}" if kind == "write without grad" else line
