"""One run of the user's function, recorded into a program.

In come a function and the arguments of one call. Out go a graph and a plan (``call/plan.py``): its inputs, guards,
effects and the templates of its results.
"""
