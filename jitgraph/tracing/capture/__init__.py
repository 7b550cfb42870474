"""What a function reads and changes of Python state while it is recorded.

In come the instructions of the frames that are followed, with the objects on their stacks. Out go observations: the
objects that were read and how they were reached, guards on them, and the effects that each call repeats.
"""
