"""Exported programs of PyTorch as modules: what ``jg.from_torch`` gives."""
