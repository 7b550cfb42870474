"""Sizes and numbers that vary from call to call."""
