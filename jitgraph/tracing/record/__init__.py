"""One run of the user's function, recorded into a program."""
