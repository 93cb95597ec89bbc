"""The steps of the suite: each a module with ``measure(run)``."""
