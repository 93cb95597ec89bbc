"""Measures fastqps against peers and bounds, each figure as a ratio within one run. ``python -m bench --help``."""
