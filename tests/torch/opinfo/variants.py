"""The variants of an op: how each is called in both libraries, and what has to agree."""

from __future__ import annotations

import contextlib
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

from tests.torch.opinfo.comparison import Differs, Manner
from tests.torch.opinfo.translation import Missing, Translator, Untranslatable, array_of

VARIANTS = ("forward", "strided", "traced", "gradient", "method", "operator", "in_place", "out", "views", "errors")
# Results that are unique up to a sign or a phase.
PHASES = {"svd", "linalg.svd", "linalg.eigh", "linalg.eig", "geqrf", "linalg.qr", "qr", "pca_lowrank", "svd_lowrank"}
# Results whose elements are whatever was in memory.
UNINITIALISED = {
    "empty",
    "empty_like",
    "empty_strided",
    "empty_permuted",
    "new_empty",
    "new_empty_strided",
    "resize_",
    "resize_as_",
}


class Failure(Exception):
    """What a sample showed, with its status: "differs", "missing", "raises" or "slow"."""

    def __init__(self, status: str, text: str) -> None:
        super().__init__(status, text)
        self.status, self.text = status, text


class Slow(BaseException):
    """The time of one sample is over; a BaseException, so that no ``except Exception`` takes it for an answer."""


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise Slow

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Case:
    """An op with the samples of one dtype, and the translation to the module under test."""

    def __init__(self, op: Any, dtype: torch.dtype, translator: Translator, count: int | None) -> None:
        self.op, self.dtype, self.to, self.count = op, dtype, translator, count
        self.random = False

    @property
    def path(self) -> str:
        return str(self.op.name)

    def samples(self, requires_grad: bool = False) -> list[Any]:
        """Up to ``count`` of the op's samples, spread over all of them."""
        torch.manual_seed(0)
        np.random.seed(0)
        samples = []
        for sample in self.op.sample_inputs("cpu", self.dtype, requires_grad=requires_grad):
            samples.append(sample)
            if len(samples) == 200:
                break
        if self.count is not None and len(samples) > self.count:
            step = len(samples) / self.count
            samples = [samples[int(i * step)] for i in range(self.count)]
        return samples

    def manner(self, sample: Any, call: Callable[[Any], Any] | None = None) -> Manner:
        """How the result of a sample is compared; ``call`` computes it in PyTorch, in double precision."""
        if self.random or self.path in UNINITIALISED:
            return Manner(values=False)
        call = call or (lambda s: self.op.op(s.input, *s.args, **s.kwargs))

        def precise() -> Any:
            try:
                return call(sample.transform(_double))
            except Exception:  # not every op takes all its arguments in double precision
                return None

        return Manner(phases=self.path not in PHASES, precise=precise)

    def ours(self, sample: Any, strided: bool = False, expanded: bool = False) -> tuple[Any, list[Any], dict[str, Any]]:
        if sample.kwargs.get("sparse") is True:
            raise Untranslatable("a sparse gradient")
        memo: dict[int, Any] = {}
        parts = [
            self.to.value(part, strided, expanded, memo) for part in (sample.input, list(sample.args), sample.kwargs)
        ]
        return parts[0], parts[1], parts[2]

    def find_random(self) -> None:
        """Note whether two seeds make two results: then shapes and dtypes alone are compared."""
        functions = [f for f in (self.op.op, self.op.get_inplace()) if f is not None]
        self.random = any(is_random(f, sample) for sample in self.samples() for f in functions)


def is_random(f: Callable[..., Any], sample: Any) -> bool:
    """Whether different seeds make different results."""
    first, *others = [_with_seed(seed, f, sample) for seed in (1, 2, 3, 4)]
    with contextlib.suppress(RuntimeError):  # sparse tensors cannot be compared
        return not all(_equal(first, other) for other in others)
    return False


def _with_seed(seed: int, f: Callable[..., Any], sample: Any) -> Any:
    """The result for a seed, which the wrappers of some ops set to a number of theirs."""
    theirs = torch.manual_seed
    torch.manual_seed = lambda _: theirs(seed)
    try:
        theirs(seed)
        return f(_copies(sample.input), *sample.args, **sample.kwargs)
    except Exception:  # not every sample is one of the form in place
        return None
    finally:
        torch.manual_seed = theirs


_DOUBLES = {
    torch.float16: torch.float64,
    torch.bfloat16: torch.float64,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        value = value.detach()
        return value.to(_DOUBLES.get(value.dtype, value.dtype))
    return _DOUBLES.get(value, value) if isinstance(value, torch.dtype) else value


def _copies(value: Any) -> Any:
    """The sample's input, with its own memory, so that what is done in place stays there."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if isinstance(value, list | tuple) and not isinstance(value, torch.Size):
        return type(value)(_copies(item) for item in value)
    return value


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        return a.shape == b.shape and bool(torch.equal(_no_nan(a.detach()), _no_nan(b.detach())))
    if isinstance(a, list | tuple):
        return all(_equal(x, y) for x, y in zip(a, b, strict=False))
    return True


def _no_nan(x: torch.Tensor) -> torch.Tensor:
    return torch.nan_to_num(torch.view_as_real(x.resolve_conj()) if x.is_complex() else x)


def leaves(value: Any) -> list[Any]:
    """Tensors in lists, tuples and dicts of either library, in order."""
    if isinstance(value, list | tuple):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value] if hasattr(value, "dtype") and hasattr(value, "shape") else []


def _outcome(f: Callable[[], Any]) -> tuple[Any, Exception | None]:
    """The result of a function of PyTorch, or its error."""
    try:
        return f(), None
    except Exception as error:
        return None, error


def _ours(f: Callable[[], Any], theirs: Exception | None) -> Any:
    """The result of our function; where PyTorch raised ``theirs``, ours has to raise, an error of the same type."""
    try:
        result = f()
    except (Missing, Untranslatable, Failure):
        raise
    except Exception as error:
        if isinstance(theirs, torch.linalg.LinAlgError) and isinstance(
            error, RuntimeError | ValueError | ArithmeticError
        ):
            return None
        if theirs is not None and isinstance(error, _builtin(type(theirs))):
            return None
        if isinstance(error, AttributeError) and "has no attribute" in str(error):
            raise Missing(str(error).splitlines()[0]) from error
        text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        expected = f" instead of {type(theirs).__name__}" if theirs is not None else ""
        raise Failure("raises", text[:300] + expected) from error
    if theirs is not None:
        raise Differs(
            f"no error instead of {type(theirs).__name__}: {str(theirs).splitlines()[0][:120] if str(theirs) else ''}"
        )
    return result


def _builtin(error: type[BaseException]) -> type[BaseException]:
    """The nearest class of Python's own."""
    return next(base for base in error.__mro__ if base.__module__ == "builtins")


# The variants: each yields for each of its samples a function that raises where the libraries disagree


def forward(case: Case, f: Any = None, g: Any = None) -> Iterator[Callable[[], None]]:
    f = f or case.op.op
    g = g or case.to.function(f, case.path if f is case.op.op else None)
    for sample in case.samples():

        def check(sample: Any = sample) -> None:
            want, error = _outcome(lambda: f(_copies(sample.input), *sample.args, **sample.kwargs))
            x, args, keywords = case.ours(sample)
            got = _ours(lambda: g(x, *args, **keywords), error)
            if error is None:
                case.manner(sample, lambda s: f(s.input, *s.args, **s.kwargs)).check(want, got)

        yield check


def strided(case: Case) -> Iterator[Callable[[], None]]:
    """The op on tensors that are every other element of a buffer, in both libraries."""
    f, g = case.op.op, case.to.function(case.op.op, case.path)
    for sample in case.samples():

        def check(sample: Any = sample) -> None:
            sparse = sample.transform(_strided)
            want, error = _outcome(lambda: f(sparse.input, *sparse.args, **sparse.kwargs))
            if error is None:  # a few ops of PyTorch want a contiguous tensor
                x, args, keywords = case.ours(sample, strided=True)
                got = _ours(lambda: g(x, *args, **keywords), None)
                case.manner(sample).check(want, got)

        yield check


def _strided(value: Any) -> Any:
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided:
        return value
    if value.ndim == 0:
        return torch.stack([value.detach(), value.detach()])[1]
    return torch.repeat_interleave(value.detach(), 2, -1)[..., ::2]


def method(case: Case) -> Iterator[Callable[[], None]]:
    f = case.op.get_method()
    if f is not None:
        yield from forward(case, f=f, g=case.to.function(f, f"Tensor.{case.path}"))


def operator(case: Case) -> Iterator[Callable[[], None]]:
    f = case.op.get_operator()
    if f is not None:
        yield from forward(case, f=f, g=f)


def traced(case: Case) -> Iterator[Callable[[], None]]:
    """The op in a trace, called twice: its tensors are the parameters, everything else is constant."""
    f, g = case.op.op, case.to.function(case.op.op, case.path)
    compile_ = case.to.compile
    for sample in case.samples():

        def check(sample: Any = sample) -> None:
            want, error = _outcome(lambda: f(_copies(sample.input), *sample.args, **sample.kwargs))
            if error is not None:
                return
            x, args, keywords = case.ours(sample)
            inputs = leaves([x, args, keywords])
            positions = {id(t): i for i, t in reversed(list(enumerate(inputs)))}

            def body(*tensors: Any) -> Any:
                x2, args2, keywords2 = _replaced((x, args, keywords), positions, tensors)
                return g(x2, *args2, **keywords2)

            compiled = compile_(body)
            for _ in range(2):
                got = _ours(lambda: compiled(*inputs), None)
            case.manner(sample).check(want, got)

        yield check


def _replaced(value: Any, positions: dict[int, int], tensors: Any) -> Any:
    if id(value) in positions and hasattr(value, "dtype"):
        return tensors[positions[id(value)]]
    if isinstance(value, list | tuple):
        items = [_replaced(item, positions, tensors) for item in value]
        return items if isinstance(value, list) else tuple(items) if type(value) is tuple else type(value)(items)
    if isinstance(value, dict):
        return {key: _replaced(item, positions, tensors) for key, item in value.items()}
    return value


def gradient(case: Case) -> Iterator[Callable[[], None]]:
    """Gradients with respect to all inputs, for random cotangents of all outputs."""
    if not case.op.supports_autograd or case.dtype not in case.op.supported_backward_dtypes("cpu") or case.random:
        return
    f, g = case.op.op, case.to.function(case.op.op, case.path)
    for sample in case.samples(requires_grad=True):

        def theirs(s: Any) -> tuple[Any, Any]:
            outputs = [t for t in leaves(s.output_process_fn_grad(f(s.input, *s.args, **s.kwargs))) if t.requires_grad]
            inputs = [t for t in leaves([s.input, list(s.args), s.kwargs]) if t.requires_grad]
            rng = np.random.default_rng(0)
            cotangents = [torch.tensor(_cotangent(rng, t)).to(t.dtype) for t in outputs]
            return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True), cotangents

        def check(sample: Any = sample) -> None:
            result, error = _outcome(lambda: theirs(sample))
            if error is not None or is_random(f, sample):
                return
            want, cotangents = result
            x, args, keywords = case.ours(sample)
            process = case.to.function(sample.output_process_fn_grad)
            grad = case.to.grad

            def ours() -> Any:
                outputs = [t for t in leaves(process(g(x, *args, **keywords))) if t.requires_grad]
                inputs = [t for t in leaves([x, args, keywords]) if t.requires_grad]
                if len(outputs) != len(cotangents):
                    raise Differs(f"{len(outputs)} outputs require gradients instead of {len(cotangents)}")
                return grad(outputs, inputs, [case.to.tensor(c) for c in cotangents], allow_unused=True)

            got = _ours(ours, None)
            want, got = _without_none(want, got)
            manner = case.manner(sample, lambda s: theirs(s.transform(_leaf))[0])
            manner.phases = True
            manner.check(list(want), list(got), "gradient")

        yield check


def _leaf(value: Any) -> Any:
    return (
        value.detach().requires_grad_(True)
        if isinstance(value, torch.Tensor) and value.dtype.is_floating_point | value.dtype.is_complex
        else value
    )


def _without_none(want: Any, got: Any) -> tuple[list[Any], list[Any]]:
    """The gradients of both but of unused inputs, whose gradients may be None in one and zero in the other."""
    pairs = []
    for theirs, ours in zip(want, got, strict=True):
        if theirs is None and ours is not None and not np.any(array_of(ours)):
            continue
        if ours is None and (theirs is None or not theirs.any()):
            continue
        pairs.append((theirs, ours))
    return [theirs for theirs, _ in pairs], [ours for _, ours in pairs]


def _cotangent(rng: np.random.Generator, t: torch.Tensor) -> np.ndarray:
    values = rng.standard_normal(tuple(t.shape))
    return values + 1j * rng.standard_normal(tuple(t.shape)) if t.dtype.is_complex else np.asarray(values)


def in_place(case: Case) -> Iterator[Callable[[], None]]:
    """``x.name_()`` and the operator with ``=``: the input has the result, and is what is returned."""
    name = getattr(case.op.get_inplace(), "__name__", "")
    for f, path in ((case.op.get_inplace(), f"Tensor.{name}"), (case.op.get_inplace_operator(), None)):
        if f is None:
            continue
        g = f if path is None else case.to.function(f, path)
        for sample in case.samples():
            if sample.broadcasts_input or not isinstance(sample.input, torch.Tensor):
                continue

            def check(sample: Any = sample, f: Any = f, g: Any = g) -> None:
                target = _copies(sample.input)
                want, error = _outcome(lambda: f(target, *sample.args, **sample.kwargs))
                x, args, keywords = case.ours(sample)
                got = _ours(lambda: g(x, *args, **keywords), error)
                if error is not None:
                    return
                manner = case.manner(sample, lambda s: f(s.input.clone(), *s.args, **s.kwargs))
                manner.check(target, x, "input")
                if want is target and got is not x:
                    raise Differs("another tensor than the input is returned")

            yield check


def out(case: Case) -> Iterator[Callable[[], None]]:
    """``out=`` of the right shape, of no elements, and of a higher dtype."""
    if not case.op.supports_out:
        return
    f, g = case.op.op, case.to.function(case.op.op, case.path)
    for sample in case.samples():
        for kind in ("shape", "empty", "dtype"):

            def check(sample: Any = sample, kind: str = kind) -> None:
                plain, error = _outcome(lambda: f(sample.input, *sample.args, **sample.kwargs))
                if error is not None or not leaves(plain) or not isinstance(plain, torch.Tensor | tuple | list):
                    return
                single = isinstance(plain, torch.Tensor)
                targets = [_target(t, kind) for t in leaves(plain)]
                mine = [case.to.tensor(t) for t in targets]

                def call(function: Any, x: Any, args: Any, keywords: Any, outs: list[Any]) -> Any:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        return function(x, *args, **keywords, out=outs[0] if single else tuple(outs))

                returned, error = _outcome(lambda: call(f, sample.input, sample.args, sample.kwargs, targets))
                x, args, keywords = case.ours(sample)
                got = _ours(lambda: call(g, x, args, keywords, mine), error)
                if error is not None:
                    return

                def again(s: Any) -> Any:
                    return f(s.input, *s.args, **s.kwargs) if single else list(f(s.input, *s.args, **s.kwargs))

                manner = case.manner(sample, again)
                manner.tolerance = case.dtype if case.dtype.is_floating_point or case.dtype.is_complex else None
                manner.check(targets[0] if single else targets, mine[0] if single else mine, f"out of {kind}")
                if returned is not None and any(a is not b for a, b in zip(leaves(got), mine, strict=True)):
                    raise Differs("another tensor than out= is returned")

            yield check


_HIGHER = {
    torch.float32: torch.float64,
    torch.float64: torch.complex128,
    torch.complex64: torch.complex128,
    torch.complex128: torch.complex128,
}


def _target(t: torch.Tensor, kind: str) -> torch.Tensor:
    if kind == "empty":
        return torch.empty(0, dtype=t.dtype)
    dtype = t.dtype
    if kind == "dtype":
        dtype = _HIGHER.get(t.dtype, torch.float32)
    return torch.full(tuple(t.shape), 1, dtype=dtype)


def views(case: Case) -> Iterator[Callable[[], None]]:
    """Writes to a result show in the input, and the other way round, just where PyTorch's tensors share memory."""
    f, g = case.op.op, case.to.function(case.op.op, case.path)
    for sample in case.samples():
        if not isinstance(sample.input, torch.Tensor) or sample.input.numel() == 0:
            continue
        for element in (0, -1):

            def check(sample: Any = sample, element: int = element) -> None:
                source = _copies(sample.input)
                want, error = _outcome(lambda: f(source, *sample.args, **sample.kwargs))
                if error is not None or not leaves(want):
                    return
                shared = any(_shares(t, source) for t in leaves(want))
                if not shared and element != 0:
                    return
                x, args, keywords = case.ours(sample)
                got = _ours(lambda: g(x, *args, **keywords), None)
                theirs, ours = leaves(want)[element], leaves(got)[element]
                _, error = _outcome(lambda: theirs.fill_(1))
                _ours(lambda: ours.fill_(1), error)
                manner = Manner(values=not case.random)
                manner.check(source, x, "input after a write to the result")
                if shared and error is None:
                    source.zero_()
                    x.zero_()
                    manner.check(theirs, ours, "result after a write to the input")

            yield check


def _shares(a: torch.Tensor, b: torch.Tensor) -> bool:
    try:
        return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr() != 0
    except Exception:  # sparse tensors have no storage
        return False


def errors(case: Case) -> Iterator[Callable[[], None]]:
    """The calls that PyTorch's tests name as errors raise errors of the same type."""
    g = case.to.function(case.op.op, case.path)
    if case.op.error_inputs_func is None:
        return
    for error_input in case.op.error_inputs("cpu"):

        def check(error_input: Any = error_input) -> None:
            sample = error_input.sample_input
            _, error = _outcome(lambda: case.op.op(sample.input, *sample.args, **sample.kwargs))
            if error is None:
                return
            x, args, keywords = case.ours(sample, expanded=True)
            _ours(lambda: g(x, *args, **keywords), error)

        yield check


FUNCTIONS: dict[str, Callable[[Case], Iterator[Callable[[], None]]]] = {
    "forward": forward,
    "strided": strided,
    "traced": traced,
    "gradient": gradient,
    "method": method,
    "operator": operator,
    "in_place": in_place,
    "out": out,
    "views": views,
    "errors": errors,
}


def run(case: Case, variant: str, seconds: float) -> dict[str, Any] | None:
    """How many samples of a variant agree, and what the others show; None where the op has no such variant."""
    passed = total = 0
    failures: list[tuple[str, str]] = []
    skipped = ""
    try:
        for check in FUNCTIONS[variant](case):
            try:
                with time_limit(seconds):
                    check()
                passed += 1
                total += 1
            except Untranslatable as error:
                skipped = str(error)
            except Missing as error:
                total += 1
                failures.append(("missing", str(error)))
            except Failure as error:
                total += 1
                failures.append((error.status, error.text))
            except Slow:
                total += 1
                failures.append(("slow", f"a sample takes more than {seconds:.0f} s"))
                break
            except Differs as error:
                total += 1
                failures.append(("differs", str(error)))
            except Exception as error:  # of the conversion or the comparison: a result that cannot be read
                total += 1
                failures.append(("raises", f"not compared: {type(error).__name__}: {error}"))
    except Missing as error:
        total += 1
        failures.append(("missing", str(error)))
    except Untranslatable as error:
        skipped = str(error)
    if total == 0:
        return {"skipped": skipped} if skipped else None
    return outcome(passed, total, failures)


def outcome(passed: int, total: int, failures: list[tuple[str, str]]) -> dict[str, Any]:
    """The record of a variant: the status of the first failure, and the different texts of all."""
    texts = list(dict.fromkeys(f"{status}: {text}"[:300] for status, text in failures))
    return {"status": failures[0][0] if failures else "passed", "passed": passed, "total": total, "texts": texts}
