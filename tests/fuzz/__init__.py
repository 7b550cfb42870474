"""A fuzzer of ``.jg`` files: sound models, mutated with knowledge of their structure, through every reader.

``python -m tests.fuzz --files 20000`` runs it at length; ``runtime/test_fuzz_files.py`` a little of it. In the order of
reading: ``models.py`` (what is mutated), ``mutations.py`` (how), ``readers.py`` (processes that read and run the
results), ``reader.py``, ``graph_reader.py`` and ``reader.c`` (what runs in them), ``campaign.py`` (the loop and its
counts).

Hashes are computed anew where a mutation should get past them, as the author of a hostile file would. ``jg.load`` runs
whatever it accepts. The standalone loaders execute the native code of a file by design, and with it the signature that
says what the code takes: they load every file, and call those whose native code and signature still belong together.
"""
