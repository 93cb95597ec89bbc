"""``fastqps bench`` measures a deployment, shows where its time goes, and tunes its settings.

A mode (``modes/``) asks the ``Context`` to measure points: server settings and a load. The load comes from ``loadgen``
in a child process; what the server says about itself comes from its metrics page. docs/bench.md is for users.
"""
