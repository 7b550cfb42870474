"""Traces kept on disk: what was recorded once, found by later processes in place of recording."""
