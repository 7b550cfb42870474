"""What a ``.jg`` file says of itself, as plain data: nothing of it is compiled or run."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

from jitgraph.ir.graph import Graph
from jitgraph.runtime.loader import Signature, ValueSpec
from jitgraph.runtime.loader.artifact import MANIFEST, Artifact
from jitgraph.runtime.loader.json_objects import get_typed
from jitgraph.runtime.loader.state_files import is_constant
from jitgraph.runtime.loader.structures import statics_of
from jitgraph.saved.reading import graph_of, opened


def describe(path: str | os.PathLike[str]) -> dict[str, Any]:
    """A JSON object on a file: entries with inputs, outputs, sizes, targets and ops; weights; members; metadata.

    All hashes are checked, and graphs are verified; LoadError for a file that is not sound.
    """
    with opened(path) as artifact:
        weights = artifact.weights()
        state = {key: array for key, array in weights.items() if not is_constant(key)}
        entries = {
            name: _entry(artifact, name, signature, graph_of(artifact, name, signature, weights))
            for name, signature in artifact.signatures().items()
        }
        return {
            "path": os.fspath(path),
            "bytes": sum(member.size for member in artifact.members.values()),
            "version": artifact.manifest["version"],
            "entries": entries,
            "weights": [
                {"key": key, "dtype": array.dtype.name, "shape": list(array.shape), "bytes": array.nbytes}
                for key, array in state.items()
            ],
            "parameters": sum(array.size for array in state.values()),
            "weight_bytes": sum(array.nbytes for array in state.values()),
            "constant_bytes": sum(array.nbytes for key, array in weights.items() if is_constant(key)),
            "metadata": artifact.metadata(),
            "members": {name: artifact.manifest["members"][name] for name in artifact.members if name != MANIFEST},
        }


def _entry(artifact: Artifact, name: str, signature: Signature, graph: Graph) -> dict[str, Any]:
    listed, where = artifact.manifest["entries"][name], f"{MANIFEST}, entry {name!r}"
    return {
        "inputs": _specs(signature.inputs),
        "statics": statics_of(signature.arguments or ()),
        "outputs": _specs(signature.results),
        "sizes": list(signature.dims),
        "constraints": list(signature.constraints),
        "writes": [signature.state[state].key for _, state in signature.writes],
        "targets": list(get_typed(listed, "native", dict, where)),
        "gpus": list(get_typed(listed, "cuda", dict, where, default={})),
        "nodes": len(graph.nodes),
        "ops": dict(Counter(node.op.name for node in graph.nodes).most_common()),
    }


def _specs(specs: Sequence[ValueSpec]) -> list[dict[str, Any]]:
    return [spec.to_json() for spec in specs]
