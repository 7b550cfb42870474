"""PyTorch's samples of modules: constructors, state, outputs, gradients and how they print."""

from __future__ import annotations

import argparse
import contextlib
import copy
import fnmatch
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.common_modules import module_db

from tests.torch.opinfo.comparison import Differs, Manner
from tests.torch.opinfo.translation import Missing, Translator, Untranslatable
from tests.torch.opinfo.variants import (
    Failure,
    Slow,
    _double,
    _ours,
    _outcome,
    _replaced,
    _without_none,
    leaves,
    outcome,
    time_limit,
)
from tests.torch.opinfo.workers import Record

VARIANTS = ("constructor", "state_dict", "repr", "forward", "eval", "traced", "gradient")


def jobs(arguments: argparse.Namespace, to: Translator) -> Iterator[tuple[str, Callable[..., None]]]:
    for info in module_db:
        name = info.module_cls.__name__
        if arguments.names and not any(fnmatch.fnmatchcase(name, pattern) for pattern in arguments.names):
            continue

        def job(record: Callable[[Record], None], info: Any = info) -> None:
            _run_module(record, info, to, arguments)

        yield f"nn.{name} float32", job


def _run_module(record: Callable[[Record], None], info: Any, to: Translator, arguments: Any) -> None:
    warnings.simplefilter("ignore")
    count = None if arguments.all else arguments.samples
    for variant in VARIANTS:
        record({"variant": variant, "status": "started"})
        passed = total = 0
        failures: list[tuple[str, str]] = []
        for sample in _samples(info, count, variant != "eval"):
            try:
                with time_limit(arguments.sample_seconds):
                    _check(info, sample, variant, to)
                passed += 1
            except Untranslatable:
                continue
            except Missing as error:
                failures.append(("missing", str(error)))
            except Failure as error:
                failures.append((error.status, error.text))
            except Differs as error:
                failures.append(("differs", str(error)[:300]))
            except Slow:
                failures.append(("slow", f"a sample takes more than {arguments.sample_seconds:.0f} s"))
            total += 1
        record({"variant": variant, **(outcome(passed, total, failures) if total else {"status": "none"})})


def _samples(info: Any, count: int | None, training: bool) -> list[Any]:
    torch.manual_seed(0)
    np.random.seed(0)
    samples = info.module_inputs_func(info, device="cpu", dtype=torch.float32, requires_grad=True, training=training)
    if count is not None and len(samples) > count:
        step = len(samples) / count
        samples = [samples[int(i * step)] for i in range(count)]
    return list(samples)


def _pair(info: Any, sample: Any, training: bool, to: Translator) -> tuple[Any, Any]:
    """PyTorch's module and the one of the module under test with the same state."""
    args, keywords = sample.constructor_input.args, sample.constructor_input.kwargs
    path = f"nn.{info.module_cls.__name__}"
    theirs = info.module_cls(*args, **keywords)
    cls = to.attribute(path)
    ours = _ours(lambda: cls(*_arguments(args, to), **_arguments(keywords, to)), None)
    if not info.is_lazy:
        _copy_state(theirs, ours, to)
    return theirs.train(training), ours.train(training)


def _arguments(value: Any, to: Translator) -> Any:
    """Constructor arguments: modules in them are built anew, from the class and its settings."""
    if isinstance(value, torch.nn.Module):
        if to.module is torch:
            return copy.deepcopy(value)
        return _module(value, to)
    if isinstance(value, tuple | list) and not isinstance(value, torch.Size):
        return type(value)(_arguments(item, to) for item in value)
    if isinstance(value, dict):
        return {key: _arguments(item, to) for key, item in value.items()}
    return to.value(value)


def _module(value: Any, to: Translator) -> Any:
    cls = to.attribute(f"nn.{type(value).__name__}")
    if isinstance(value, torch.nn.TransformerEncoderLayer | torch.nn.TransformerDecoderLayer):
        attention = value.self_attn
        built = cls(
            attention.embed_dim,
            attention.num_heads,
            value.linear1.out_features,
            value.dropout.p,
            to.function(value.activation) if callable(getattr(value, "activation", None)) else "relu",
            batch_first=attention.batch_first,
            norm_first=value.norm_first,
            bias=value.linear1.bias is not None,
        )
    else:
        raise Untranslatable(f"a module of class {type(value).__name__} as an argument")
    _copy_state(value, built, to)
    return built


def _copy_state(theirs: Any, ours: Any, to: Translator) -> None:
    state = {key: to.tensor(value, False) for key, value in theirs.state_dict().items()}
    _ours(lambda: ours.load_state_dict(state), None)


def _check(info: Any, sample: Any, variant: str, to: Translator) -> None:
    theirs, ours = _pair(info, sample, variant != "eval", to)
    call = sample.forward_input
    if call is not None:
        call.args, call.kwargs = _leaves(call.args), _leaves(call.kwargs)
    if variant == "constructor":
        if type(ours).__name__ != type(theirs).__name__:
            raise Differs(f"class {type(ours).__name__}")
        names = [name for name, _ in theirs.named_modules()]
        if [name for name, _ in ours.named_modules()] != names:
            raise Differs(f"submodules {[name for name, _ in ours.named_modules()]} instead of {names}"[:200])
        return
    if variant == "repr":
        if repr(ours) != repr(theirs):
            raise Differs(f"{' '.join(repr(ours).split())} instead of {' '.join(repr(theirs).split())}"[:250])
        return
    if call is None:
        return
    before = copy.deepcopy(theirs)
    want, error = _outcome(lambda: theirs(*call.args, **call.kwargs))
    memo: dict[int, Any] = {}
    args, keywords = to.value(list(call.args), memo=memo), to.value(call.kwargs, memo=memo)
    if info.is_lazy:
        _ours(lambda: ours(*args, **keywords), error)
        _copy_state(theirs, ours, to)
        before = copy.deepcopy(theirs)
    manner = Manner(values=not _is_random(before, call))
    if variant == "state_dict":
        _ours(lambda: ours(*args, **keywords), error)
        if error is None:
            manner.check(dict(theirs.state_dict()), dict(ours.state_dict()), "state_dict")
            manner.check(
                [list(p.shape) for p in theirs.parameters()], [list(p.shape) for p in ours.parameters()], "parameters"
            )
        return
    if variant in ("forward", "eval"):
        got = _ours(lambda: ours(*args, **keywords), error)
    elif variant == "traced":
        if error is not None:
            return
        inputs = leaves([args, keywords])
        positions = {id(t): i for i, t in reversed(list(enumerate(inputs)))}

        def body(*tensors: Any) -> Any:
            args2, keywords2 = _replaced((args, keywords), positions, tensors)
            return ours(*args2, **keywords2)

        compiled = to.compile(body)
        got = _ours(lambda: compiled(*inputs), None)
    else:
        if error is None and manner.values:
            _check_gradient(before, theirs, ours, call, args, keywords, to)
        return
    if error is None:
        manner.precise = lambda: _precise(before, call)
        manner.check(want, got)


def _precise(module: Any, call: Any) -> Any:
    with contextlib.suppress(Exception):  # not every module takes all its arguments in double precision
        return copy.deepcopy(module).double()(*_doubles(call.args), **_doubles(call.kwargs))
    return None


def _doubles(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _doubles(item) for key, item in value.items()}
    return type(value)(_doubles(item) for item in value) if isinstance(value, tuple | list) else _double(value)


def _check_gradient(before: Any, theirs: Any, ours: Any, call: Any, args: Any, keywords: Any, to: Translator) -> None:
    """Gradients of inputs and parameters, by ``backward`` of a random linear function of the outputs."""

    def run(library: Any, module: Any, args: Any, keywords: Any, constant: Callable[[torch.Tensor], Any]) -> list[Any]:
        rng = np.random.default_rng(0)
        module.zero_grad()
        outputs = leaves(module(*args, **keywords))
        total: Any = None
        for t in outputs:
            cotangent = torch.tensor(rng.standard_normal(tuple(t.shape)), dtype=torch.float64)
            if not t.requires_grad:
                continue
            part = (t * constant(cotangent)).sum()
            total = part if total is None else total + part
        if total is None:
            return []
        total.backward()
        inputs = [t for t in leaves([args, keywords]) if t.requires_grad]
        return [t.grad for t in [*inputs, *module.parameters()]]

    fresh = copy.deepcopy(before)
    want, error = _outcome(lambda: run(torch, fresh, call.args, call.kwargs, lambda c: c.float()))
    if error is not None:
        return
    got = _ours(lambda: run(to.module, ours, args, keywords, lambda c: to.tensor(c.float())), None)

    def precise() -> Any:
        with contextlib.suppress(Exception):  # not every module takes all its arguments in double precision
            double = copy.deepcopy(before).double()
            return run(torch, double, _leaves(call.args, True), _leaves(call.kwargs, True), lambda c: c)
        return None

    Manner(precise=precise).check(*_without_none(want, got), "gradient")


def _leaves(value: Any, double: bool = False) -> Any:
    """The arguments with tensors that are leaves, so that both libraries give them gradients."""
    if isinstance(value, torch.Tensor):
        return (_double(value) if double else value.detach()).requires_grad_(value.requires_grad)
    if isinstance(value, dict):
        return {key: _leaves(item, double) for key, item in value.items()}
    return type(value)(_leaves(item, double) for item in value) if type(value) in (tuple, list) else value


def _is_random(module: Any, call: Any) -> bool:
    results = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        results.append(_outcome(lambda: copy.deepcopy(module)(*call.args, **call.kwargs))[0])
    pairs = zip(leaves(results[0]), leaves(results[1]), strict=True)
    return any(not torch.equal(torch.nan_to_num(a), torch.nan_to_num(b)) for a, b in pairs)
