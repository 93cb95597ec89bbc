"""Chat templates: a checkpoint's Jinja, once at load. What it does to conversations becomes a table where it can.

A template is foreign code. It is compiled in a sandbox, and runs only in processes with limits: a child of the load,
and those of the slow tokenizers.
"""
