"""Values of ops that run at once, the tape that remembers them, and the emitter that makes them."""
