"""The calls of the driver's stand-in, by subject; each module has a table CALLS of its functions by symbol."""
