"""A structure is compiled in a process of its own before it is compiled here: what takes too much is refused."""
