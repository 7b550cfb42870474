"""Modules of archives are modules: parameters, training, guards of what they read, errors."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.torch import jit
from tests.torch.jit.building import archive_of
from tests.torch.jit.records import ARCHIVES, records, require_same

RECORDS = records()


def loaded(name: str) -> Any:
    return jit.load(ARCHIVES / f"{name}.pt")


def test_names_and_state() -> None:
    module = loaded("conv_net")
    assert isinstance(module, jg.nn.Module) and isinstance(module, jit.ScriptModule)
    assert module.original_name == "ConvNet" and not module.training
    assert [name for name, _ in module.named_children()] == ["features", "head"]
    assert "features.1.running_mean" in dict(module.named_buffers())
    state = module.state_dict()
    assert [*state][:3] == ["features.0.weight", "features.1.weight", "features.1.bias"] and len(state) == 12
    other = loaded("conv_net")
    other.load_state_dict({key: value * 0 for key, value in state.items()})
    assert not np.asarray(other.head.weight.detach()).any()
    assert str(inspect.signature(module.forward)) == "(x)" and "self.features" in module.code


def test_training_mode_updates_statistics_and_is_guarded() -> None:
    module = loaded("conv_net")
    x = jg.asarray(RECORDS["conv_net"][0][0])
    step = jg.trace(module)
    with jg.no_grad():
        evaluated = np.asarray(step(x))
        module.train()
        before = np.asarray(module.features.state_dict()["1.running_mean"])
        assert np.abs(np.asarray(step(x)) - evaluated).max() > 1e-4
        after = module.features.state_dict()["1.running_mean"]
        assert np.abs(after - before).max() > 1e-4
        module.eval()
        assert np.abs(np.asarray(step(x)) - np.asarray(module(x))).max() < 1e-5
    assert step.cache_info().misses == 2


def test_an_archive_is_fine_tuned() -> None:
    module = loaded("mlp_traced")
    optimizer = jg.optim.Adam(module.parameters(), lr=1e-2)
    x, labels = RECORDS["mlp_traced"][0][0], np.arange(5) % 3

    @jg.trace
    def step(x: Any, labels: Any) -> Any:
        loss = jg.nn.functional.nll_loss(module(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step(x, labels)) for _ in range(30)]
    assert losses[-1] < 0.5 * losses[0] and step.cache_info().misses == 1


def test_gradients_through_a_loop_are_those_of_differences() -> None:
    module = loaded("scripted_lstm").double()
    rng = np.random.default_rng(0)
    x = rng.standard_normal((5, 2, 3))

    def loss(x: Any) -> Any:
        return module(x).sum()

    gradient = np.asarray(jg.grad(loss)(jg.asarray(x)).detach())
    compiled = np.asarray(jg.trace(jg.grad(loss))(jg.asarray(x)).detach())
    np.testing.assert_allclose(compiled, gradient, rtol=1e-10, atol=1e-12)
    direction = rng.standard_normal(x.shape)
    ends = [float(loss(jg.asarray(x + sign * 1e-6 * direction)).detach()) for sign in (1, -1)]
    np.testing.assert_allclose((gradient * direction).sum(), (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


def test_named_sizes() -> None:
    traced = jg.trace(loaded("conv_net"), dynamic_shapes={"x": {0: "batch"}})
    x = RECORDS["conv_net"][0][0]
    with jg.no_grad():
        require_same(traced(x), RECORDS["conv_net"][1])
        require_same(traced(x[:1]), RECORDS["conv_net"][1][:1])
    assert traced.cache_info().misses == 1


# --- code that is written here ----------------------------------------------------------------------------------------

STATE = """
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  sizes : List[int]
  table : Dict[str, float]
  seen : List[int]
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    sizes = self.sizes
    table = self.table
    _0 = torch.mul(x, sizes[1])
    return torch.add(_0, table["b"])
  def note(self: __torch__.M,
    x: Tensor,
    n: int) -> Tensor:
    seen = self.seen
    _0 = torch.append(seen, n)
    table = self.table
    _1 = torch._set_item(table, "b", 3.)
    return torch.add(x, torch.len(seen))
"""


def test_containers_that_a_trace_reads_and_changes() -> None:
    """Elements of lists and dicts are guarded, and changes of them are made at each call."""
    module = jit.load(archive_of(STATE, {"training": False, "sizes": [1, 2], "table": {"b": 0.5}, "seen": []}))
    step, note = jg.trace(module), jg.trace(module.note)
    x = jg.ones(2)
    assert float(step(x)[0]) == 2.5
    module.sizes[1] = 5
    assert float(step(x)[0]) == 5.5
    module.table["b"] = 1.0
    assert float(step(x)[0]) == 6.0 and step.cache_info().misses == 3
    for count in (1, 2, 3):
        assert float(note(x, 7)[0]) == 1 + count
        assert module.seen == [7] * count
    assert module.table["b"] == 3.0 and float(step(x)[0]) == 8.0


SWAP = """
class M(Module):
  __parameters__ = []
  __buffers__ = ["a", "b", ]
  training : bool
  a : Tensor
  b : Tensor
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    a = self.a
    b = self.b
    self.a = b
    self.b = torch.add(a, x)
    return torch.sub(a, b)
"""


def test_attributes_that_change_places() -> None:
    """What was read from an attribute before it is set stays what it was."""
    state = {"training": False, "a": np.float32([1, 2]), "b": np.float32([10, 20])}
    eager, traced = (jit.load(archive_of(SWAP, state)) for _ in range(2))
    step = jg.trace(traced)
    for _ in range(4):
        x = jg.ones(2)
        require_same(step(x), np.asarray(eager(x)))
        for name in ("a", "b"):
            require_same(getattr(traced, name), np.asarray(getattr(eager, name)))
    assert step.cache_info().misses <= 2


SHARED = """
class M(Module):
  __parameters__ = []
  __buffers__ = ["a", ]
  training : bool
  a : Tensor
  def forward(self: __torch__.M,
    x: Tensor) -> Tensor:
    a = self.a
    self.a = x
    b = torch.select(a, 0, 0)
    _0 = torch.add_(b, 1)
    return a
"""


def test_an_attribute_that_is_written_through_is_bound_as_it_stands() -> None:
    for function in (lambda module: module, jg.trace):
        module = jit.load(archive_of(SHARED, {"training": False, "a": np.float32([1, 2])}))
        require_same(function(module)(jg.asarray(np.float32([5, 6]))), np.float32([2, 2]))


VERSIONS = """
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.M,
    x: Tensor,
    y: Tensor) -> Tuple[Tensor, Tensor]:
    return (torch.div(x, y), torch.full([2], 3))
"""


@pytest.mark.parametrize(
    ("version", "quotient", "full"), [(3, -3, jg.float32), (4, -3.5, jg.float32), (6, -3.5, jg.int64)]
)
def test_operators_mean_what_they_meant_in_their_version(version: int, quotient: float, full: Any) -> None:
    module = jit.load(archive_of(VERSIONS, {"training": False}, version=version))
    divided, filled = module(jg.asarray([-7]), jg.asarray([2]))
    assert divided.item() == quotient and filled.dtype == full


VERSIONS_WITH_OUT = VERSIONS.replace("torch.div(x, y), torch.full([2], 3)", "{}")


@pytest.mark.parametrize("dtype", [jg.int64, jg.float32])
def test_older_operators_write_to_the_tensor_that_they_are_given(dtype: Any) -> None:
    """A quotient of integers is cut only where integers are written."""
    out = f"torch.zeros([1], dtype={6 if dtype == jg.float32 else 4})"
    text = f"torch.div(x, y, out={out}), torch.full([1], 3, out=torch.clone(x))"
    module = jit.load(archive_of(VERSIONS_WITH_OUT.format(text), {"training": False}, version=3))
    divided, filled = module(jg.asarray([-7]), jg.asarray([2]))
    assert (divided.item(), divided.dtype) == ((-3.5, dtype) if dtype == jg.float32 else (-3, dtype))
    assert (filled.item(), filled.dtype) == (3, jg.int64)


ERRORS = """
class M(Module):
  __parameters__ = []
  __buffers__ = []
  training : bool
  def forward(self: __torch__.M,
    x: Tensor,
    n: int=3) -> Tensor:
    if torch.gt(n, 5):
      _0 = torch.format("{} of {}", n, [1.5, 2.])
      ops.prim.RaiseException(_0, "builtins.IndexError")
    else:
      pass
    if bool(torch.any(torch.lt(x, 0))):
      ops.prim.RaiseException("negative", "builtins.ValueError")
    else:
      pass
    if torch.eq(n, 4):
      y = torch.no_such_operator(x)
    else:
      y = x
    torch.warn("careful", 2)
    return torch.sqrt(y)
"""


def test_errors() -> None:
    module = jit.load(archive_of(ERRORS, {"training": False}))
    with pytest.warns(UserWarning, match="careful"):
        assert float(module(jg.asarray([4.0]))[0]) == 2.0
    with pytest.raises(IndexError, match=r"6 of \[1.5, 2\.\]") as caught:
        module(jg.ones(1), 6)
    assert "line 8" in caught.value.__notes__[0] or "line 9" in caught.value.__notes__[0]
    with pytest.raises(ValueError, match="negative"):
        module(-jg.ones(1))
    with pytest.raises(jg.errors.UnsupportedOp, match="no_such_operator"), warnings.catch_warnings():
        module(jg.ones(1), n=4)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jg.trace(module)
        assert float(traced(jg.asarray([4.0]))[0]) == 2.0
        with pytest.raises(ValueError, match="negative"):
            traced(-jg.ones(1))
    for args, kwargs in (((), {}), ((jg.ones(1), 1, 2), {}), ((jg.ones(1),), {"m": 1}), ((jg.ones(1),), {"x": 1})):
        with pytest.raises(TypeError):
            module(*args, **kwargs)


def test_names_for_programs_in_python() -> None:
    """Decorators of ``torch.jit`` compile functions, or leave them as they are."""

    @jit.script
    def countdown(x: Any) -> Any:
        while x.sum() > 0:
            x = x - 1
        return x

    assert countdown(jg.asarray([2.5])).tolist() == [-0.5]
    traced = jit.trace(lambda x: x * 2, (jg.ones(2),))
    assert traced(jg.ones(3)).tolist() == [2.0, 2.0, 2.0]
    module = loaded("mlp_traced")
    assert jit.freeze(module) is module is jit.script(module) is jit.optimize_for_inference(module)
    function = jit.export(jit.unused(jit.ignore(len)))
    assert function is len and jit.ignore(drop=True)(len) is len and jit.interface(int) is int
    assert not jit.is_scripting() and not jit.is_tracing() and jit.annotate(int, 3) == 3
    assert jit.wait(jit.fork(max, 1, 2)) == 2 and jit.script_if_tracing(lambda x: x)(3) == 3
    with pytest.raises(RuntimeError, match=r"jg\.save"):
        jit.save(module, "x.pt")
