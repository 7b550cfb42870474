"""Looking inside: what a traced function captured, became and costs.

In come a traced function and its specialisations. Out go texts, tables and pages for people, and comparisons with
eager.
"""
