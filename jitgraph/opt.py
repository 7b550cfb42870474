"""The pass tool: ``python -m jitgraph.opt file.jgir -p cse,dce`` reads a graph, runs passes, prints the result."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import jitgraph.ops  # noqa: F401  (the parser's table)
from jitgraph.errors import GraphError, JitgraphError
from jitgraph.ir.parser import parse
from jitgraph.ir.printer import print_graph
from jitgraph.ir.target import Target
from jitgraph.passes.pipeline import PASSES, PIPELINE, Pass, run


def named_passes(names: str) -> tuple[Pass, ...]:
    """The passes of a comma-separated list of names, ``all`` standing for the pipeline; GraphError for unknown ones."""
    passes: list[Pass] = []
    for name in filter(None, (word.strip() for word in names.split(","))):
        if name == "all":
            passes += PIPELINE
        elif name in PASSES:
            passes.append(PASSES[name])
        else:
            raise GraphError(f"there is no pass called {name!r}", hint=f"one of all, {', '.join(PASSES)}")
    return tuple(passes)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool; 0 on success, 1 where the text, the graph or a pass is wrong (the reason goes to stderr)."""
    parser = argparse.ArgumentParser(prog="python -m jitgraph.opt", description=__doc__)
    parser.add_argument("file", help="graph text; - reads standard input")
    parser.add_argument("-p", "--passes", default="", help=f"comma-separated: all, {', '.join(PASSES)}; default: none")
    parser.add_argument("--target", help="the level to optimise for, such as x86-64-v3; default: this machine's")
    parser.add_argument("--fastmath", action="store_true", help="allow rules that hold for real numbers only")
    parser.add_argument("--full", action="store_true", help="print the regions of composites")
    args = parser.parse_args(arguments)
    try:
        text = sys.stdin.read() if args.file == "-" else Path(args.file).read_text(encoding="utf-8")
        graph = parse(text, file=None if args.file == "-" else args.file)
        target = Target.host() if args.target is None else Target.named(args.target)
        result = run(graph, replace(target, fastmath=args.fastmath), named_passes(args.passes), verify=True)
    except UnicodeDecodeError:
        print(
            f"{args.file} is no text\n  hint: a .jg file is a zip, and its member graph.jgir a graph", file=sys.stderr
        )
        return 1
    except OSError as error:
        print(f"{args.file} cannot be read: {error.strerror}", file=sys.stderr)
        return 1
    except JitgraphError as error:
        print(error, file=sys.stderr)
        return 1
    print(print_graph(result, full=args.full, locations=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
