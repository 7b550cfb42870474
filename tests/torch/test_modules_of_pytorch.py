"""Modules that PyTorch's programs import: by their paths, with what they do here, or with the reason they are none."""

from __future__ import annotations

import hashlib
import importlib
import math
import pathlib
from typing import Any

import pytest

import jitgraph.torch as torch
from jitgraph.torch import nn
from jitgraph.torch.nn.utils import prune

SAME = [
    ("nn.modules.loss", "CrossEntropyLoss", "nn"),
    ("nn.modules.linear", "Linear", "nn"),
    ("nn.modules.upsampling", "Upsample", "nn"),
    ("nn.utils.clip_grad", "clip_grad_norm_", "nn.utils"),
    ("nn.utils.convert_parameters", "parameters_to_vector", "nn.utils"),
    ("optim.adam", "Adam", "optim"),
    ("utils.dlpack", "from_dlpack", ""),
]


@pytest.mark.parametrize(("path", "name", "owner"), SAME)
def test_modules_of_pytorchs_layout_have_the_names_of_their_package(path: str, name: str, owner: str) -> None:
    module = importlib.import_module(f"jitgraph.torch.{path}")
    package = importlib.import_module(f"jitgraph.torch.{owner}".rstrip("."))
    assert getattr(module, name) is getattr(package, name)
    with pytest.raises(AttributeError):
        module.unknown  # noqa: B018


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("utils.tensorboard", r"torch\.utils\.tensorboard': .*tensorboardX"),
        ("utils.cpp_extension", "custom_op"),
        ("onnx", r"jitgraph\.onnx\.export writes ONNX models"),
        ("sparse", "no sparse tensors"),
        ("nn.quantized", "no quantised tensors"),
        ("mps", "NVIDIA GPUs"),
        ("unknown", r"^No module named 'jitgraph\.torch\.unknown'$"),
    ],
)
def test_a_module_that_cannot_be_imported_says_why(path: str, reason: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=reason):
        importlib.import_module(f"jitgraph.torch.{path}")
    owner, _, name = path.rpartition(".")
    with pytest.raises(AttributeError):
        getattr(importlib.import_module(f"jitgraph.torch.{owner}".rstrip(".")), name)


UNARY = "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal "
UNARY += "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
OTHERS: dict[str, tuple[Any, ...]] = {
    "add": (1.5,), "sub": ("others",), "mul": ("others",), "div": ("scalars",), "pow": (2,), "maximum": (0.6,),
    "minimum": ("others",), "clamp_min": (0.6,), "clamp_max": ("scalars",), "lerp": ("others", 0.5),
    "addcmul": ("others", "others", 2.0), "addcdiv": ("others", "others", "scalars"),
}  # fmt: skip


@pytest.mark.parametrize("name", [*UNARY.split(), *OTHERS])
def test_a_function_of_several_tensors_is_that_of_each(name: str) -> None:
    tensors = [torch.tensor([0.5, 0.25]), torch.tensor([0.75])]
    lists = {"others": [torch.tensor([0.1, 0.9]), torch.tensor([0.8])], "scalars": [0.5, 2.0]}
    args = [lists.get(arg, arg) if isinstance(arg, str) else arg for arg in OTHERS.get(name, ())]
    results = getattr(torch, f"_foreach_{name}")(tensors, *args)
    for i, x in enumerate(tensors):
        own = [arg[i] if isinstance(arg, list) else arg for arg in args]
        kwargs = {"value": own.pop()} if name.startswith("addc") else {}
        one = "clamp_min" if name == "maximum" else name  # of a number
        expected = getattr(x, one)(*own, **kwargs)
        assert results[i].tolist() == expected.tolist()
    written = [x.clone() for x in tensors]
    assert getattr(torch, f"_foreach_{name}_")(written, *args) is None
    assert [x.tolist() for x in written] == [x.tolist() for x in results]


def test_functions_of_several_tensors_without_a_method() -> None:
    tensors = [torch.ones(2), torch.full((3,), 4.0)]
    assert [x.item() for x in torch._foreach_norm(tensors, 1)] == [2.0, 12.0]
    torch._foreach_copy_(tensors, [torch.zeros(2), torch.ones(3)])
    torch._foreach_zero_(tensors[1:])
    assert [x.tolist() for x in tensors] == [[0.0, 0.0], [0.0, 0.0, 0.0]]
    with pytest.raises(RuntimeError, match="same number of tensors"):
        torch._foreach_add(tensors, [torch.ones(2)])
    with pytest.raises(AttributeError, match="_foreach_unknown"):
        torch._foreach_unknown  # noqa: B018


def test_compile_knows_pytorchs_options_and_no_others() -> None:
    function = lambda x: x.sin() + 1
    for settings in (
        {"mode": "reduce-overhead"},
        {"backend": "eager"},
        {"options": {"max_autotune": True, "threads": 1}},
        {"dynamic": True, "fullgraph": True},
    ):
        assert torch.compile(function, **settings)(torch.zeros(2)).tolist() == [1.0, 1.0]
    for settings, message in (
        ({"mode": "fast"}, "Unrecognized mode=fast"),
        ({"backend": "fast"}, "Invalid backend: 'fast'"),
        ({"options": {"fast": 1}}, "Unexpected optimization option fast, known options are .*threads"),
        ({"mode": "default", "options": {"threads": 1}}, "both can't be specified"),
    ):
        with pytest.raises(RuntimeError, match=message):
            torch.compile(function, **settings)
        with pytest.raises(RuntimeError, match=message):
            torch.compile(nn.Linear(1, 1), **settings)


def test_the_compiler_says_whether_it_compiles() -> None:
    seen: list[bool] = []

    @torch.compiler.disable(recursive=False)
    def plain(x: Any) -> Any:
        return x * 2 if torch.compiler.is_compiling() else x * 3

    assert plain(torch.ones(1)).tolist() == [3.0] and torch.compile(plain)(torch.ones(1)).tolist() == [2.0]
    assert "inductor" in torch.compiler.list_backends() and not seen
    with pytest.raises(RuntimeError, match="JITGRAPH_DISABLE_JIT"):
        torch.compiler.set_stance("force_eager")
    with pytest.raises(AttributeError, match="all are checked"):
        torch.compiler.skip_all_guards_unsafe  # noqa: B018


def test_profiles_record_the_steps_of_their_schedule(tmp_path: pathlib.Path) -> None:
    profiler, ready = torch.profiler, []
    plan = profiler.schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    names = [plan(step).name for step in range(7)]
    assert names == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE", "NONE"]
    with profiler.profile(schedule=plan, on_trace_ready=lambda p: ready.append(p.step_num)) as measured:
        for _ in range(7):
            with profiler.record_function("step"):
                torch.ones(8, 8) @ torch.ones(8, 8)
            measured.step()
    assert ready == [4]
    rows = measured.key_averages()
    assert [row.runs for row in rows] and "total ms" in rows.table(sort_by="cpu_time_total", row_limit=5)
    profiler.tensorboard_trace_handler(str(tmp_path), "one")(measured)
    assert (tmp_path / "one.7.pt.trace.json").stat().st_size > 10
    with torch.autograd.profiler.profile(enabled=False) as silent:
        torch.ones(3) + 1
    assert len(silent.key_averages()) == 0


def test_settings_of_backends_are_those_of_a_block() -> None:
    cudnn = torch.backends.cudnn
    with cudnn.flags(enabled=False, benchmark=True):
        assert (cudnn.enabled, cudnn.benchmark) == (False, True)
    assert (cudnn.enabled, cudnn.benchmark) == (True, False)
    with nn.attention.sdpa_kernel([nn.attention.SDPBackend.MATH]):
        assert torch.backends.cuda.math_sdp_enabled() and not torch.backends.cuda.flash_sdp_enabled()
    assert torch.backends.cuda.flash_sdp_enabled()
    with pytest.raises(AssertionError, match="SDPBackend"), nn.attention.sdpa_kernel("math"):
        pass


def test_devices_by_names_of_no_maker() -> None:
    accelerator = torch.accelerator
    assert accelerator.is_available() == torch.cuda.is_available()
    assert (accelerator.current_accelerator() is None) == (not accelerator.is_available())
    assert not torch.distributed.is_available() and not torch.distributed.is_initialized()
    with pytest.raises(AttributeError, match="one process"):
        torch.distributed.init_process_group  # noqa: B018
    with pytest.raises(RuntimeError, match="one process"):
        nn.parallel.DistributedDataParallel(nn.Linear(1, 1))
    model = nn.DataParallel(nn.Linear(2, 1))
    assert list(model.state_dict()) == ["module.weight", "module.bias"]
    assert nn.parallel.data_parallel(model, torch.ones(1, 2)).shape == (1, 1)


def test_processes_are_awaited() -> None:
    torch.multiprocessing.spawn(math.sqrt, nprocs=1)
    with pytest.raises(torch.multiprocessing.ProcessExitedException, match="process 0 terminated with exit code 1"):
        torch.multiprocessing.spawn(math.log, nprocs=1)


def test_weights_are_downloaded_once(tmp_path: pathlib.Path) -> None:
    torch.save({"w": torch.ones(2)}, tmp_path / "net.pt")
    digest = hashlib.sha256((tmp_path / "net.pt").read_bytes()).hexdigest()
    named = (tmp_path / "net.pt").rename(tmp_path / f"net-{digest[:8]}.pt")
    before = torch.hub.get_dir()
    torch.hub.set_dir(tmp_path / "hub")
    try:
        for _ in range(2):
            loaded = torch.hub.load_state_dict_from_url(named.as_uri(), check_hash=True)
            assert loaded["w"].tolist() == [1.0, 1.0]
            named.unlink(missing_ok=True)
        (tmp_path / "net-00000000.pt").write_bytes(b"x")
        with pytest.raises(RuntimeError, match="invalid hash value"):
            torch.hub.load_state_dict_from_url((tmp_path / "net-00000000.pt").as_uri(), check_hash=True)
        assert len(list((tmp_path / "hub" / "checkpoints").iterdir())) == 1
    finally:
        torch.hub.set_dir(before)
    with pytest.raises(RuntimeError, match=r"jitgraph\.torch in its place"):
        torch.hub.load("pytorch/vision", "resnet18")


def test_tensors_are_compared_within_tolerances_of_their_dtype() -> None:
    close = torch.testing.assert_close
    close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-6]))
    close({"a": [1.0, torch.ones(2)]}, {"a": [1.0, torch.ones(2)]})
    for actual, expected, message in (
        (torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.1]), r"Mismatched elements: 1 / 2 \(50.0%\)"),
        (torch.ones(2), torch.ones(3), "shape"),
        (torch.ones(2), torch.ones(2).double(), "dtype"),
        (torch.tensor([math.nan]), torch.tensor([math.nan]), "not close"),
        ({"a": 1.0}, {"b": 1.0}, "keys"),
        ([1.0, 2.0], [1.0, 3.0], r"item \[1\]"),
        (torch.tensor([1]), torch.tensor([2]), "not equal"),
    ):
        with pytest.raises(AssertionError, match=message):
            close(actual, expected)
    close(torch.tensor([math.nan]), torch.tensor([math.nan]), equal_nan=True)
    with pytest.raises(ValueError, match="rtol"):
        close(1.0, 1.0, rtol=0.1)


def pruned() -> Any:
    layer = nn.Linear(4, 2)
    with torch.no_grad():
        layer.weight.copy_(torch.arange(8.0).reshape(2, 4) - 3)
        layer.bias.zero_()
    return prune.l1_unstructured(layer, "weight", amount=3)


def test_pruned_parameters_are_masked_learned_and_removed() -> None:
    layer = pruned()
    assert sorted(layer.state_dict()) == ["bias", "weight_mask", "weight_orig"] and prune.is_pruned(layer)
    assert layer.weight.tolist() == [[-3.0, -2.0, 0.0, 0.0], [0.0, 2.0, 3.0, 4.0]]
    layer(torch.ones(1, 4)).sum().backward()
    assert layer.weight_orig.grad.tolist() == [[1.0, 1.0, 0.0, 0.0], [0.0, 1.0, 1.0, 1.0]]
    torch.optim.SGD(layer.parameters(), lr=1.0).step()
    assert layer(torch.ones(1, 4)).tolist() == [[-8.0, 5.0]]
    prune.ln_structured(layer, "weight", amount=1, n=2, dim=0)
    assert layer.weight[1].tolist() == [0.0] * 4 or layer.weight[0].tolist() == [0.0] * 4
    prune.remove(layer, "weight")
    assert sorted(layer.state_dict()) == ["bias", "weight"] and not prune.is_pruned(layer)
    assert isinstance(layer.weight, nn.Parameter)
    with pytest.raises(ValueError, match="has to be pruned"):
        prune.remove(layer, "weight")


def test_several_parameters_are_pruned_as_one() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        model[1].weight.copy_(torch.tensor([[0.1, 0.2], [5.0, 6.0]]))
    pairs = [(model[0], "weight"), (model[1], "weight")]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=0.5)
    assert model[0].weight.tolist() == [[0.0, 0.0], [3.0, 4.0]]
    assert model[1].weight.tolist() == [[0.0, 0.0], [5.0, 6.0]]
    step = torch.compile(lambda x: model(x).sum().backward())
    step(torch.ones(1, 2))
    assert model[1].weight_orig.grad[0].tolist() == [0.0, 0.0]


def test_a_module_of_the_users_may_be_lazy() -> None:
    class Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.w = nn.parameter.UninitializedParameter()

        def initialize_parameters(self, x: Any) -> None:
            if self.has_uninitialized_params():
                with torch.no_grad():
                    self.w.materialize((x.shape[-1],))
                    self.w.fill_(2.0)

        def forward(self, x: Any) -> Any:
            return x * self.w

    layer = Scale()
    assert layer.has_uninitialized_params()
    assert layer(torch.ones(2, 3)).tolist() == [[2.0] * 3] * 2
    assert not layer.has_uninitialized_params() and layer.w.shape == (3,)
    assert torch.compile(layer)(torch.ones(1, 3)).tolist() == [[2.0] * 3]
