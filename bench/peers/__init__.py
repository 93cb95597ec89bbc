"""Other software that the bench compares with, each in a virtual environment that is installed when it is first needed.

``environment`` installs them and writes MiniLM as an ONNX file; ``process`` starts a runtime as a program of its own,
``servers`` a server. The programs, ``export`` and ``run_*``, import nothing of fastqps or of the rest of ``bench`` (but
``run_fastqps``).
"""
