"""What stands below the tensor: the base class of handles, and the emitter of the outermost context."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import jitgraph as jg
from jitgraph.eager.emitter import EAGER
from jitgraph.eager.handle import HandleStore, ValueHandle
from jitgraph.eager.tape import EagerValue
from jitgraph.ir import context
from jitgraph.ir.builder import GraphBuilder
from jitgraph.tensor import lifting
from jitgraph.tracing.record.trace import Trace
from tests import ROOT


def test_any_handle_is_an_operand() -> None:
    handle = ValueHandle._of(EagerValue(np.array([1.0, 2.0], np.float32)))
    assert lifting.value_of(handle) is handle.value
    np.testing.assert_array_equal((jg.asarray([1.0, 1.0]) + handle).numpy(), [2.0, 3.0])
    assert isinstance(jg.asarray(0.0), ValueHandle)


def test_gradients_reach_any_leaf() -> None:
    leaf = jg.asarray(3.0, requires_grad=True)
    record = leaf.value.record
    assert record.handle() is leaf and leaf.grad_fn is None
    del leaf
    assert record.handle() is None  # the tape does not keep a handle


def asked_of_traces(path: Path) -> set[str]:
    """The attributes of what a file calls a trace."""
    actual = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Attribute(value=ast.Name(id="trace") | ast.Attribute(attr="trace"), attr=name):
                actual.add(name)
    return actual


def test_what_is_asked_of_a_trace_is_what_its_protocol_says() -> None:
    """By all that does not itself record traces; the recorder has it."""
    rooms = ("eager", "tensor", "autograd", "nn", "optim", "random")
    files = [path for room in rooms for path in (ROOT / "jitgraph" / room, *(ROOT / "jitgraph" / room).rglob("*.py"))]
    requested = set().union(*(asked_of_traces(path) for path in files if path.is_file()))
    said = {name for name in (*vars(HandleStore), *HandleStore.__annotations__) if not name.startswith("_")}
    assert requested == said
    assert not {name for name in said if not hasattr(Trace("f"), name)}


def test_the_outermost_context_names_the_eager_emitter() -> None:
    assert context.current().emitter is EAGER and context.emitter() is EAGER
    builder = GraphBuilder()
    with context.using(emitter=builder):
        assert context.emitter() is builder
    assert context.emitter() is EAGER


def test_without_an_emitter_an_op_says_so() -> None:
    code = (
        "import numpy as np\n"
        "from jitgraph import ops\n"
        "from jitgraph.errors import JitgraphError\n"
        "try:\n"
        "    ops.iota(shape=(2,), axis=0, dtype=np.dtype(np.int64))\n"
        "except JitgraphError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("nobody is here to apply iota")


@pytest.mark.parametrize("dtype", [jg.float32, jg.bool, jg.int32])
def test_rows_of_a_loop_without_turns_keep_their_type(dtype: np.dtype[np.generic]) -> None:
    """The second gradient of a traced scan runs it op by op; without turns it stacks no rows, of whatever dtype."""

    def loss(x: jg.Tensor) -> jg.Tensor:
        last, rows = jg.scan(lambda c, row: (c * x, (row, c)), x, jg.zeros((0, 2), dtype=dtype))
        return last * last * x + rows[1].sum() + rows[0].astype(jg.float32).sum()

    assert jg.grad(jg.grad(jg.trace(loss)))(jg.asarray(2.0)).item() == 12.0
