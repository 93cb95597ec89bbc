"""``fastqps bench``: what a deployment can do, where its time goes, and which settings to run.

A mode (``modes/``) asks the ``Context`` to measure points: server settings and a load. The load comes from ``loadgen``
in a child process; what the server says about itself comes from its metrics page. docs/bench.md is for users.
"""
