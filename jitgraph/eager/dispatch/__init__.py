"""What takes warm calls past Python: the dispatcher in this process, and its tables of eager ops."""
