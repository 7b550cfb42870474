"""``torch.compile`` and ``torch.jit.script`` of modules: the result has the module's state and is a module itself."""

import copy

import pytest

import jitgraph as jg
import jitgraph.torch as torch
from jitgraph.torch import nn


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.dropout = nn.Dropout(0.5)
        self.factor = 2

    def forward(self, x):
        y = self.dropout(self.linear(x))
        return y * self.factor if y.sum() > -100 else y

    def twice(self, x):
        return self.linear(self.linear(x))


COMPILERS = {
    "compile": torch.compile,
    "script": torch.jit.script,
    "trace": lambda module: torch.jit.trace(module, torch.ones(2, 3), check_trace=False),
}
X = torch.arange(6.0).view(2, 3)


@pytest.fixture(params=COMPILERS)
def pair(request):
    module = Scaled().eval()
    if request.param == "trace":
        module = nn.Sequential(module.linear, module.dropout).eval()
    return module, COMPILERS[request.param](module)


def test_has_the_state_of_the_module(pair):
    module, compiled = pair
    assert isinstance(compiled, nn.Module)
    assert [id(p) for p in compiled.parameters()] == [id(p) for p in module.parameters()]
    keys = [key.removeprefix("_orig_mod.") for key in compiled.state_dict()]
    assert keys == list(module.state_dict())
    assert torch.equal(compiled(X), module(X))


def test_trains_by_an_optimiser_of_its_parameters(pair):
    module, compiled = pair
    optimiser = torch.optim.SGD(compiled.parameters(), lr=0.01)
    before = compiled(X)
    compiled(X).sum().backward()
    optimiser.step()
    assert not torch.equal(compiled(X), before)
    assert torch.equal(compiled(X), module(X))


def test_child_keeps_its_parameters(pair):
    module, compiled = pair
    model = nn.Sequential(compiled, nn.Linear(3, 1))
    assert len(list(model.parameters())) == 4
    assert torch.equal(model(X), model[1](module(X)))


def test_modes_and_copies(pair):
    _, compiled = pair
    assert not compiled.training
    expected = compiled(X)
    compiled.train()
    assert compiled.training
    assert (compiled(torch.ones(50, 3)) == 0).any()
    twin = copy.deepcopy(compiled.eval())
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    assert torch.equal(compiled(X), expected)
    assert (twin(X) == 0).all()


@pytest.mark.parametrize("compiler", [torch.compile, torch.jit.script])
def test_attributes_and_methods(compiler):
    module = Scaled().eval()
    compiled = compiler(module)
    assert torch.equal(compiled.twice(X), module.twice(X))
    assert compiled.linear is module.linear
    compiled.factor = 3
    assert torch.allclose(compiled(X), 3 * module.linear(X))
    with pytest.raises(AttributeError, match="absent"):
        _ = compiled.absent


def test_compiled_module_prints_as_in_pytorch():
    compiled = torch.compile(nn.Sequential(nn.ReLU()))
    assert repr(compiled) == "OptimizedModule(\n  (_orig_mod): Sequential(\n    (0): ReLU()\n  )\n)"
    assert compiled.cache_info().misses == 0


@pytest.mark.parametrize("compiler", [torch.compile, torch.jit.script])
def test_saves(compiler, tmp_path):
    module = Scaled().eval()
    jg.save(compiler(module), tmp_path / "m.jg", example_inputs=(X,))
    assert torch.allclose(torch.from_numpy(jg.load(tmp_path / "m.jg")(X).numpy()), module(X))


def test_grad_takes_only_inputs_before_allow_unused():
    x, unused = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    (slope,) = torch.autograd.grad((x * x).sum(), x, only_inputs=True)
    assert slope.tolist() == [2.0, 2.0]
    assert torch.autograd.grad((x * x).sum(), (x, unused), None, None, False, True, True)[1] is None
    with pytest.raises(RuntimeError):
        torch.autograd.grad((x * x).sum(), (x, unused), None, None, False, True, False)
