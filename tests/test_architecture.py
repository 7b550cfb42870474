"""A lower layer never imports a higher one; heavy libraries are imported only where they are needed."""

from __future__ import annotations

import ast
import gc
import re
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import networkx
import pytest

from jitgraph import ops
from jitgraph.ir.op import Op
from jitgraph.standalone.python_text import PARTS
from tests import ROOT
from tests.processes import FORKS, in_child

PACKAGE = ROOT / "jitgraph"
SOURCES = sorted(PACKAGE.rglob("*.py"))
TESTING = ROOT / "jitgraph_testing"
SOURCES_FOR_TESTS = sorted(TESTING.rglob("*.py"))
"""What is no part of an installed jitgraph: the simulator of GPUs and the executors of kernels, on which tests run."""
STUBS = sorted(PACKAGE.rglob("*.pyi"))  # which say what packages load when a name of theirs is first used

LAYERS: list[tuple[int, str]] = [  # the first pattern that fits a module's name gives its layer
    (0, r"runtime(\.loader(\..*)?)?"),
    (
        1,
        r"runtime\..*|errors|config|dtypes|foreign|tree|location|own_code|records|once|migration_hints"
        r"|foreign_files",
    ),
    (2, r"ir(\..*)?"),
    (3, r"ops(\..*)?"),
    (4, r"passes(\..*)?"),
    (5, r"codegen(\..*)?"),
    (6, r"compiler|compilation|code_cache|graph_signature|artifact"),
    (
        7,
        r"eager(\..*)?|tensor(\..*)?|tracing(\..*)?"
        r"|saved(\..*)?|opt|debug",
    ),
    (
        8,
        r"transforms(\..*)?|autograd(\..*)?|cache|checkpoints|diagnosis|cuda|nn(\..*)?|optim(\..*)?|profiler(\..*)?|data(\..*)?|random(\..*)?|special(\..*)?|fft|spectra|linalg(\..*)?|amp|native(\..*)?",
    ),
    (9, r"__init__|__main__|standalone(\..*)?|torch(\..*)?|foreign_einops|conversion|onnx(\..*)?|cli(\..*)?"),
]
HEAVY = {"llvmlite": r"$^", "networkx": r"ir\.drawing", "numba": r"$^", "pycuda": r"runtime\.cuda\.pycuda_driver"}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def layer_of(module: str) -> int:
    for layer, pattern in LAYERS:
        if re.fullmatch(pattern, module):
            return layer
    pytest.fail(f"jitgraph.{module} is on no layer; give it one in LAYERS and in docs/architecture.md")


@cache
def nodes_of(path: Path) -> tuple[ast.AST, ...]:
    """All nodes of a source's syntax tree, in the order of ``ast.walk``; nobody changes them."""
    gc.disable()  # there are two million, none of which is garbage
    try:
        return tuple(ast.walk(ast.parse(path.read_text())))
    finally:
        gc.enable()


@cache
def imports(path: Path) -> list[tuple[int, str]]:
    """(line, module) of every import that runs, function-local ones included; not those for type checkers alone."""
    nodes = nodes_of(path)
    skipped = {
        id(inner)
        for node in nodes
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    results = []
    for node in nodes:
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            results += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: relative import"
            base = node.module or ""
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                results.append((node.lineno, inner if is_module(inner) else base))
    return results


@cache
def is_module(name: str) -> bool:
    """Whether a module or a folder of modules has this full name."""
    on_disk = ROOT / Path(*name.split("."))
    return on_disk.with_suffix(".py").exists() or on_disk.is_dir()


def in_strings(nodes: Iterable[ast.AST]) -> list[tuple[int, str]]:
    """(line, module) of the package's modules that strings name, with what they name in them or without it.

    So whatever looks modules up by name counts: ``importlib``, ``runtime/imports.py``, tables, ``sys.modules``,
    ``__module__``. Of a string that is completed at run time the package counts in which its beginning stands.
    """
    parts: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.JoinedStr):
            parts |= {id(part) for part in node.values[1:]}
    results = []
    for node in nodes:
        match node:
            case ast.Constant(value=str(text)) if id(node) not in parts and PATH_OF_MODULE.fullmatch(text):
                results.append((node.lineno, longest_module(text)))
            case (
                ast.JoinedStr(values=[ast.Constant(value=str(text)), *_])
                | ast.BinOp(left=ast.Constant(value=str(text)))
            ):
                if BEGINNING_OF_PATH.fullmatch(text):
                    results.append((node.lineno, longest_module(text.rpartition(".")[0])))
            case ast.Subscript(value=ast.Attribute(attr="modules"), slice=ast.Constant(value="jitgraph")):
                results.append((node.lineno, "jitgraph"))
            case ast.Call(
                func=ast.Attribute(attr="get" | "module" | "import_module"), args=[ast.Constant(value="jitgraph"), *_]
            ):
                results.append((node.lineno, "jitgraph"))
    return results


PATH_OF_MODULE = re.compile(r"jitgraph(\.\w+)+(:\w+)?|jitgraph_testing(\.\w+)*")
BEGINNING_OF_PATH = re.compile(r"jitgraph(_testing)?\.([\w.]*\.)?\w*")


def longest_module(path: str) -> str:
    """The module in which what a path of names leads to stands."""
    names = re.split(r"[.:]", path)
    return next(name for end in range(len(names), 0, -1) if is_module(name := ".".join(names[:end])))


@cache
def targets(path: Path) -> list[tuple[int, str]]:
    """(line, module) of all that a file imports or names in strings."""
    return [*imports(path), *in_strings(nodes_of(path))]


def test_modules_in_strings_are_seen() -> None:
    text = '''
"""Says jitgraph.nn in prose."""
imports.module("jitgraph.tracing.record.control_flow").scan
TABLE = {"f": "jitgraph.transforms.vmap:f", "g": ("jitgraph.nn.module", "g"), "h": "jitgraph.cache.clear"}
imports.module(f"jitgraph.codegen.cpu.{name}")
importlib.import_module(f"jitgraph.{name}")
sys.modules["jitgraph"]
"jitgraph.ops." + family
name.startswith("jitgraph.")
f"{__name__}.jitgraph.nn"
'''
    named = [
        target.removeprefix("jitgraph").removeprefix(".")
        for _, target in sorted(in_strings(list(ast.walk(ast.parse(text)))))
    ]
    assert named == [
        *("tracing.record.control_flow", "cache", "nn.module", "transforms.vmap", "codegen.cpu", "", "", "ops"),
    ]


def test_imports_are_seen() -> None:
    """In functions too, of modules and of names in them, but not those for type checkers."""
    actual = {imported for _, imported in imports(PACKAGE / "passes" / "partition.py")}
    assert {"jitgraph.ir.dims", "jitgraph.passes.rewriter", "collections.abc"} <= actual
    actual = {imported for _, imported in imports(PACKAGE / "codegen" / "cpu" / "backend.py")}
    assert {"jitgraph.codegen.cpu.entry", "jitgraph.codegen.llvm.machine"} <= actual
    assert "jitgraph.passes.reverse" not in {name for _, name in imports(PACKAGE / "passes" / "control_gradients.py")}


LATE = {
    ("eager.placement", "eager.device_emitter"): "most processes have no GPU",
    ("eager.placement", "eager.exchange"): "most processes have no GPU",
    ("eager.tape", "eager.versions"): "few programs write what a gradient reads",
    ("nn.functional.layers", "nn.functional.bags"): "few programs have bags of embeddings",
    ("ops.matrices", "ops.by_factors"): "the code of gradients and decompositions of matrices",
    ("ops.registry", "ops"): "an op by its name, in whichever family it is",
    ("passes.autodiff", "passes.reverse"): "most graphs have no gradient",
    ("tensor.functions.method", "tensor.functions"): "a method of Tensor loads the family that has it",
    ("tensor.indexing", "tensor.traced_indexing"): "indices that are tensors, in traces",
    ("tensor.numpy_calls", "tensor.functions.numpy_functions"): "NumPy's functions of tensors, once one is called",
    ("tensor.tensor", "tensor.functions"): "whether an attribute that is missing is a function",
    ("tensor.tensor", "tensor.gradient_hooks"): "few programs have hooks",
    ("torch.nn.parameter", "torch.nn.uninitialized"): "PyTorch has these classes in its module of parameters",
    ("torch.tensors", "torch.autograd.graph"): "few programs ask for nodes",
    ("torch.tensors", "torch.functions"): "the class gets its methods, which load when they are first used",
    ("tracing.cache.fingerprint", "tracing.call.function"): "the class of an object whose trace is stored, by its name",
    ("torch.tensors", "torch.sharing"): "tensors that get the elements of others are seldom",
}
"""Modules that one below them in the order of imports names in a string, in the same package, and why."""


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports in functions and modules named in strings count, too: being late changes nothing of the order of modules.

    The lazy tables of an ``__init__`` say what a package shows, and not what it needs.
    """
    graph: networkx.DiGraph[str] = networkx.DiGraph()
    names = {f"jitgraph.{module_name(path)}".removesuffix(".__init__"): path for path in SOURCES}
    late = {(f"jitgraph.{module}", f"jitgraph.{target}") for module, target in LATE}
    assert all(module.split(".")[1] == target.split(".")[1] for module, target in late)
    for name, path in names.items():
        graph.add_edges_from((name, target) for _, target in imports(path) if target in names and target != name)
    assert not [sorted(circle) for circle in networkx.strongly_connected_components(graph) if len(circle) > 1]
    named = {
        (name, target)
        for name, path in names.items()
        if path.name != "__init__.py"
        for _, target in in_strings(nodes_of(path))
        if target in names and target != name and not graph.has_edge(name, target)
    }
    graph.add_edges_from(named - late)
    assert not [sorted(circle) for circle in networkx.strongly_connected_components(graph) if len(circle) > 1]
    needless = [edge for edge in late if edge not in named or not networkx.has_path(graph, edge[1], edge[0])]
    assert not needless, "these close no circle"


def test_stubs_name_modules_that_exist() -> None:
    for path in STUBS:
        for line, imported in imports(path):
            on_disk = ROOT / Path(*imported.split("."))
            is_module = on_disk.with_suffix(".py").exists() or (on_disk / "__init__.py").exists()
            assert is_module or not imported.startswith("jitgraph"), f"{path}:{line}: there is no {imported}"


UPWARDS = {
    (
        "runtime.cpython.native_fields",
        "jitgraph",
    ): "the name of a type in tracebacks, and no module that is looked up",
}
"""What names a higher layer, and why it may: each entry is a debt."""


def test_no_layer_needs_a_higher_one() -> None:
    """By an import or by a name in a string."""
    upwards = {}
    for path in (*SOURCES, *STUBS):
        module = module_name(path)
        for line, target in targets(path):
            name = target.partition(".")[2] or "__init__"
            if target.partition(".")[0] == "jitgraph" and layer_of(name) > layer_of(module):
                upwards[module, target] = f"{path}:{line}: layer {layer_of(module)} needs {target}"
    assert not {text for key, text in upwards.items() if key not in UPWARDS}
    assert upwards.keys() == UPWARDS.keys(), "a reason that is no longer needed"


PACKAGES_OF_CODEGEN = {
    "kernels": set(),
    "lower": {"kernels"},
    "llvm": {"kernels"},
    "cpu": {"kernels", "llvm"},
    "cuda": {"kernels", "llvm"},
    "dispatch": {"llvm", "cpu"},
}
"""What each folder of codegen may import of the others: a target is a folder beside cpu/, and its ``backend.py`` is
where what it emits meets what lowering makes."""


@pytest.mark.parametrize("package", PACKAGES_OF_CODEGEN)
def test_packages_of_codegen(package: str) -> None:
    folder = PACKAGE / "codegen" / package
    for path in sorted(folder.rglob("*.py")):
        for line, imported in targets(path):
            if imported.startswith("jitgraph.codegen."):
                other = imported.split(".")[2]
                meets = path.name == "backend.py" and other in ("lower", "backend", "cpu")  # the host's image
                assert other == package or other in PACKAGES_OF_CODEGEN[package] or meets, (
                    f"{path}:{line} imports {imported}"
                )


OF_THE_SIMULATOR = (
    r"jitgraph_testing\.simulator(\..*)?|jitgraph\.(codegen\.llvm\.machine|codegen\.cpu(\.linker)?|ir\.target"
    r"|errors|records|runtime(\..*)?)"
)


FOR_TESTS = {("runtime.cuda.devices", "jitgraph_testing"): "JITGRAPH_CUDA=simulated, where a checkout has it"}


def test_the_package_needs_nothing_that_is_for_tests() -> None:
    needed = {
        (module_name(path), target)
        for path in SOURCES
        for _, target in targets(path)
        if target.split(".")[0] in ("jitgraph_testing", "tests")
    }
    assert needed == FOR_TESTS.keys()


def test_the_simulator_stands_apart() -> None:
    """It takes text, makes host code of it and runs it: of the compiler it needs LLVM and the linker alone."""
    inside = [path for path in SOURCES_FOR_TESTS if path.is_relative_to(TESTING / "simulator")]
    assert inside
    for path in inside:
        for line, imported in targets(path):
            if imported.startswith("jitgraph"):
                assert re.fullmatch(OF_THE_SIMULATOR, imported), f"{path}:{line} imports {imported}"


PACKAGES_OF_LAYER_7 = ("eager", "tensor", "tracing", "saved", "debug", "opt")
"""Each imports those before it alone; docs/architecture.md says what they are."""


@pytest.mark.parametrize("package", PACKAGES_OF_LAYER_7)
def test_packages_of_layer_7(package: str) -> None:
    before = PACKAGES_OF_LAYER_7[: PACKAGES_OF_LAYER_7.index(package) + 1]
    own = [path for path in SOURCES if module_name(path).partition(".")[0] == package]
    assert own
    for path in own:
        for line, imported in targets(path):
            if imported.startswith("jitgraph.") and layer_of(imported.removeprefix("jitgraph.")) == 7:
                assert imported.split(".")[1] in before, f"{path}:{line} imports {imported}"


def test_each_module_of_layer_7_is_in_a_package() -> None:
    actual = {module_name(path).partition(".")[0] for path in SOURCES if layer_of(module_name(path)) == 7}
    assert actual == set(PACKAGES_OF_LAYER_7)


def test_heavy_libraries_stay_where_they_belong() -> None:
    elsewhere = [
        f"{path}:{line} imports {imported}"
        for path in SOURCES
        for line, imported in imports(path)
        if not re.fullmatch(HEAVY.get(imported.split(".")[0], ".*"), module_name(path))
    ]
    assert not elsewhere


def test_the_loader_needs_numpy_and_the_standard_library_alone() -> None:
    """Beside its own parts, of which each imports such as stand before it in the written file."""
    before: list[str] = []
    for name in (*PARTS, "__init__"):
        for line, imported in imports(PACKAGE / "runtime" / "loader" / f"{name}.py"):
            top = imported.split(".")[0]
            known = top in sys.stdlib_module_names or top in ("numpy", "ml_dtypes") or imported in before
            assert known, f"loader/{name}.py:{line} imports {imported}"
        before.append(f"jitgraph.runtime.loader.{name}")


def test_the_order_of_the_loader_has_all_of_its_parts() -> None:
    actual = {path.stem for path in (PACKAGE / "runtime" / "loader").glob("*.py")}
    assert actual == {*PARTS, "__init__"} and len(PARTS) == len(set(PARTS))


def test_reference_counts_are_asked_in_one_place() -> None:
    """Those of memory in ``runtime/buffer.py``; ``tensor/tensor.py`` asks whether a handle has a name."""
    actual = {module_name(path) for path in SOURCES if "getrefcount" in path.read_text()}
    assert actual == {"runtime.buffer", "tensor.tensor"}


def modules_after(statement: str) -> set[str]:
    code = f"import sys\n{statement}\nprint(' '.join(sys.modules))"
    return set(in_child(code).split())


OPS_BY_NAME = {  # how often a file above ops/ compares with names of ops; docs/architecture.md says why
    "onnx.exporting.converting": 2,  # tables of the forms that ops have in ONNX
    "eager.saved_operands": 3,  # what PyTorch saves, by its formula for an op
    "passes.decompose": 1,
    "passes.decompose_complex": 2,  # a complex value is put together of its parts, or taken apart
    "passes.fold": 2,
    "passes.rewriter": 1,
    "passes.simplify": 1,  # a rule names the op at its root, whose family need not be loaded
    "saved.entry": 1,  # what a file calls stands in the graph that is saved again
    "tracing.record.recorder": 1,
    "passes.rematerialise": 1,  # the barriers of what is computed anew
    "passes.wide_concats": 1,
}
OP_NAMES = re.compile(r"(\w+\.)*op\.name|op_name")


def compared_ops(path: Path) -> list[int]:
    """The lines that ask which op something is: by its name, or by comparing it with one op of the table."""
    nodes = nodes_of(path)
    imported = {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("jitgraph.ops")
        for alias in node.names
        if isinstance(getattr(ops, alias.name, None), Op)
    }

    def is_name(tree: ast.expr | None) -> bool:
        return tree is not None and OP_NAMES.fullmatch(ast.unparse(tree)) is not None

    def is_op(tree: ast.expr | None) -> bool:
        match tree:
            case ast.Tuple(elts=elements) | ast.List(elts=elements) | ast.Set(elts=elements):
                return any(map(is_op, elements))
            case ast.Name(id=name):
                return name in imported
            case ast.Attribute(value=ast.Name(id="ops")):
                return True
        return False

    results = []
    for node in nodes:
        match node:
            case ast.Compare(left=left, comparators=others):
                asks = any(map(is_name, (left, *others))) or any(map(is_op, others))
            case ast.Match(subject=subject):
                asks = is_name(subject)
            case ast.Subscript(slice=key):
                asks = is_name(key)
            case ast.Call(func=ast.Attribute(attr="get" | "startswith" | "endswith"), args=args):
                asks = any(map(is_name, args)) or is_name(node.func.value)  # type: ignore[attr-defined]
            case ast.Dict(keys=keys):
                asks = any(map(is_op, keys))
            case _:
                continue
        if asks:
            results.append(node.lineno)
    return results


def test_what_an_op_is_to_passes_is_said_by_the_op() -> None:
    """Above ops/ nothing asks which op a node applies, but for what is about that very op."""
    actual = {module_name(path): compared_ops(path) for path in SOURCES if layer_of(module_name(path)) != 3}
    assert OPS_BY_NAME.keys() <= actual.keys()
    differing = {module: lines for module, lines in actual.items() if len(lines) != OPS_BY_NAME.get(module, 0)}
    hint = "ask for a column or trait of the op (jitgraph/ir/op.py); count in OPS_BY_NAME what is about that very op"
    assert not differing, f"lines that ask which op something is, unlike OPS_BY_NAME: {differing}; {hint}"


def test_import_is_lazy() -> None:
    loaded = modules_after("import jitgraph")
    assert not loaded & {"llvmlite", "networkx", "numba", "pycuda", "jitgraph.tensor", "jitgraph.compiler"}


def test_imports_of_pytorch_names_are_lazy() -> None:
    """What programs import at their top loads neither NumPy nor tensors, whose methods are there in any order."""
    first = "import jitgraph.torch as torch, jitgraph.torch.nn as nn, jitgraph.torch.nn.functional as F"
    loaded = modules_after(f"{first}\nfrom jitgraph.torch import optim\nfrom jitgraph.torch.utils import data")
    assert not {name for name in loaded if name.split(".")[0] == "numpy" or name == "jitgraph.tensor"}
    assert len({name for name in loaded if name.startswith("jitgraph")}) < 30
    modules_after("from jitgraph.torch.nn import Linear; p = Linear(2, 3).weight; p.sum(), p.data.add_(1), p.view(6)")


def test_any_module_can_be_imported_first() -> None:
    """As an attribute of the package, too, which loads functions on demand."""
    names = [path.stem for path in PACKAGE.glob("*.py") if path.stem not in ("__init__", "__main__")]
    code = (
        "import importlib, os, numpy, ml_dtypes, jitgraph\n"
        f"for name in {sorted(names)}:\n"
        "    if os.fork() == 0:\n"
        "        importlib.import_module(f'jitgraph.{name}')\n"
        "        os._exit(0)\n"
        "    assert os.waitstatus_to_exitcode(os.wait()[1]) == 0, name\n"
    )
    in_child(code, *FORKS)


def test_eager_calls_need_no_compiler() -> None:
    loaded = modules_after("import jitgraph as jg; ((jg.asarray([1., 2.]) + 1) * 2)[0].item()")
    assert not loaded & {"llvmlite", "networkx", "jitgraph.compiler", "jitgraph.nn", "jitgraph.tracing"}
    assert not loaded & {"jitgraph.ir.parser", "jitgraph.ir.interpreter", "json", "hashlib", "numpy.polynomial"}


def test_a_decorated_function_has_loaded_no_op() -> None:
    """Nor what reads files of models, runs graphs node by node, or is there for a type checker."""
    loaded = modules_after("import jitgraph as jg; jg.trace(lambda x: x + 1); jg.asarray([1., 2.]); jg.tanh, jg.sum")
    assert {name for name in loaded if name.startswith("jitgraph.ops.")} == {
        "jitgraph.ops.registry",
        "jitgraph.ops.rules",
    }
    assert not loaded & {f"jitgraph.runtime.loader.{part}" for part in ("artifact", "model")}
    assert not loaded & {"jitgraph.ir.interpreter", "jitgraph.ir.control", "jitgraph.ir.fault", "jitgraph.eager.replay"}
    assert not loaded & {"numpy.typing", "fractions", "decimal", "string", "json", "base64"}
    assert not loaded & {"jitgraph.eager.rules", "jitgraph.tensor.direct", "jitgraph.tensor.indexing"}
    assert len([name for name in loaded if name.startswith("jitgraph")]) <= 110


def test_an_op_loads_its_family_and_what_that_is_made_of() -> None:
    loaded = modules_after("from jitgraph import ops; ops.add")
    families = {name.removeprefix("jitgraph.ops.") for name in loaded if name.startswith("jitgraph.ops.")}
    assert families == {"arithmetic", "creation", "define", "numeric", "registry", "rules", "sampling"}


def test_modules_and_optimizers_load_no_op_of_losses_or_loops() -> None:
    families = {f"jitgraph.ops.{family}" for family in ("loss", "statistics", "cumulative", "control")}
    loaded = modules_after("import jitgraph as jg; jg.nn.Linear; jg.optim.Adam")
    assert "jitgraph.nn.layers" in loaded and "numpy.typing" not in loaded
    assert not loaded & {*families, *(name for name in loaded if name.endswith("losses"))}
    used = modules_after("import jitgraph as jg; jg.nn.MSELoss(); jg.nn.functional.cross_entropy")
    assert {"jitgraph.nn.losses", "jitgraph.nn.functional.classification_losses"} <= used and not used & families


def test_a_compiled_call_loads_what_it_needs() -> None:
    loaded = modules_after("import jitgraph as jg; jg.trace(lambda x: x + 1)(jg.asarray([1., 2.]))")
    assert "jitgraph.codegen.llvm.machine" in loaded
    assert not loaded & {
        "llvmlite",
        "networkx",
        "numpy.random",
        "concurrent.futures",
        "string",
        "jitgraph.codegen.kernels.kernel_verifier",
        "secrets",
        "shutil",
    }
    assert len([name for name in loaded if name.startswith("jitgraph")]) < 200
    families = {name.removeprefix("jitgraph.ops.") for name in loaded if name.startswith("jitgraph.ops.")}
    assert not families & {"movement", "predicates", "transcendental", "windows"}  # rules name their ops
    assert not [name for name in loaded if name.startswith("jitgraph.tracing.symbolic.staged")]
    assert not loaded & {f"jitgraph.eager.{part}" for part in ("kernels", "launch", "records", "rules")}
    lowerings = ["contraction", "control", "cumulative", "gathering", "reduction", "rows", "scattering", "sorting"]
    assert not loaded & {f"jitgraph.codegen.lower.{lowering}" for lowering in lowerings}
    assert not loaded & {f"jitgraph.passes.{part}" for part in ("control_gradients", "reverse", "split")}


def test_code_of_an_earlier_process_needs_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training step and an eager product, of which the persistent cache has the code."""
    monkeypatch.setenv("JITGRAPH_CACHE_DIR", str(tmp_path / "cache"))
    step = (
        "import jitgraph as jg, numpy as np\n"
        "layer = jg.nn.Linear(3, 2)\n"
        "optimizer = jg.optim.Adam(layer.parameters())\n"
        "def step(x):\n"
        "    loss = (jg.tanh(layer(x)) ** 2).mean()\n"
        "    optimizer.zero_grad()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    return loss\n"
        "jg.trace(step)(np.ones((4, 3), np.float32))\n"
        "jg.ones((4, 3)) @ jg.ones((3, 2))\n"
        "step(np.ones((4, 3), np.float32))\n"  # outside of a trace
    )
    assert "jitgraph.codegen.cpu.entry" in modules_after(step)
    loaded = modules_after(step)
    assert not [name for name in loaded if name.startswith(("llvmlite", "networkx", "jitgraph.codegen"))]
    assert not [name for name in loaded if name.startswith(("jitgraph.passes", "jitgraph.compilation"))]
    assert not loaded & {"secrets", "shutil", "hashlib", "jitgraph.runtime.atomic_file"}


def test_loader_imports_no_compiler() -> None:
    loaded = modules_after("from jitgraph.runtime import loader")
    assert not [name for name in loaded if name.startswith(("llvmlite", "networkx", "numba", "jitgraph.ir"))]


def test_every_flag_is_documented_and_read_in_one_place() -> None:
    from jitgraph import config

    text = (ROOT / "docs" / "flags.md").read_text()
    for flag in config.FLAGS:
        assert flag.name in text, f"docs/flags.md does not mention {flag.name}"
    for path in SOURCES:
        if module_name(path) not in (
            "config",
            "runtime.loader.model",
            "runtime.loader.pool",
            "tracing.capture.impure",
        ):  # refused in traces
            assert "os.environ" not in path.read_text(), f"{path} reads the environment"


OS_EVERYWHERE = frozenset(
    [
        *(
            "PathLike",
            "__file__",
            "close",
            "environ",
            "fdopen",
            "fsencode",
            "fspath",
            "fsync",
            "getenv",
            "getpid",
            "pardir",
            "path",
        ),
        *("replace", "scandir", "sep", "unlink", "urandom"),
    ]
)
ASKS_THE_SYSTEM = {("sys", "platform"), ("ctypes", "pythonapi"), ("signal", "setitimer")}
BY_SYSTEM = frozenset(["fcntl", "grp", "msvcrt", "platform", "posix", "pwd", "resource", "select", "termios", "winreg"])


def test_operating_systems_are_asked_in_one_place() -> None:
    """And in the loader, which imports nothing of the package, and where capsules are read through CPython's API."""
    for path in SOURCES:
        if module_name(path).startswith(("runtime.loader", "runtime.system", "runtime.dlpack", "runtime.cpython")):
            continue
        for line, imported in imports(path):
            assert imported.split(".")[0] not in BY_SYSTEM, f"{path}:{line} imports {imported}; see runtime/system.py"
        for node in nodes_of(path):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                owner, name = node.value.id, node.attr
                asks = (owner == "os" and name not in OS_EVERYWHERE) or (owner, name) in ASKS_THE_SYSTEM
                assert not asks, f"{path}:{node.lineno} uses {owner}.{name}; see runtime/system.py"
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                assert not node.value.startswith("/proc"), f"{path}:{node.lineno} reads {node.value}"


LONGEST = 800


def test_files_are_small() -> None:
    sources = (*SOURCES, *SOURCES_FOR_TESTS)
    lengths = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in sources}
    assert sorted(lengths.values())[len(lengths) // 2] <= 200
    longer = {name: length for name, length in lengths.items() if length > LONGEST}
    assert not longer, f"a file of more than one subject? {LONGEST} lines are the cap: {longer}"


def test_files_are_named_by_subject() -> None:
    """By what a reader looks for, and not by what they add to another file."""
    empty = re.compile(r"(test_)?((utils|helpers|common|misc|more|further|rest|extra)|(more|further|extra)_\w+)\.py")
    assert empty.fullmatch("test_more.py") and empty.fullmatch("further_losses.py") and not empty.fullmatch("more.pyi")
    paths = (*SOURCES, *SOURCES_FOR_TESTS, *(ROOT / "tests").rglob("*.py"))
    assert not [path for path in paths if empty.fullmatch(path.name)]


def test_no_class_name_stands_twice() -> None:
    """A traceback, a reader or a search that meets a class by its name meets one class.

    ``jitgraph.torch`` has PyTorch's names for its adapters of jitgraph's classes, of which it has one each.
    """
    positions: dict[str, list[str]] = {}
    for path in (*SOURCES, *SOURCES_FOR_TESTS):
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                name = f"torch.{node.name}" if path.is_relative_to(PACKAGE / "torch") else node.name
                positions.setdefault(name, []).append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert not {name: actual for name, actual in positions.items() if len(actual) > 1}
