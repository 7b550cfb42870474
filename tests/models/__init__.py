"""Layers, losses, optimisers and schedules compared with PyTorch's: ``python -m tests.models``, where torch is."""
