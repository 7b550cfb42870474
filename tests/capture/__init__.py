"""Random Python programs around a little tensor arithmetic, to see that a trace never serves stale Python state."""
