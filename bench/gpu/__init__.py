"""Everything that a CUDA GPU must show: ``make gpu-check``, or ``python -m bench.gpu --help``. docs/gpu-check.md."""
