"""What a call has to find for a recording to serve it.

In come the sources that a recording read: where a Python value is found again, as a root and steps from it. Out go
guards and predicates over them, as plain data, from which the checks of a call are written.
"""
