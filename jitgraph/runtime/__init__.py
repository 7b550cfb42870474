"""The run time of compiled code: buffers, the host table, threads, executables, and the standalone loader."""

import time
from typing import Final

STARTED: Final = time.time_ns()
"""When the package was imported: a source file that changed later may not be what runs in this process."""
