"""``python -m jitgraph`` is the command line, as ``jitgraph`` is: see ``jitgraph/cli``."""

import sys

from jitgraph.cli import main

if __name__ == "__main__":
    sys.exit(main())
