"""Traces on disk: what was recorded once, found by later processes in place of recording.

In come a recorded call and its plan. Out goes a file of plain data, and in a later process the plan again, where all
code and guards agree.
"""
