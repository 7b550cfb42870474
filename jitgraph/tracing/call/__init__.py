"""A call of a traced function.

In come a call's arguments and the plans that were recorded for calls of its kind. Out goes the result: the plan that
fits is checked and run, in Python or by the tables of ``native/``, or a new one is recorded.
"""
