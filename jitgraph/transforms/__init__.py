"""Transforms that record a function as a region: vmap, checkpoint, and gradient rules of the user's."""
