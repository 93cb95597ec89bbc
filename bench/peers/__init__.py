"""Other runtimes of MiniLM, from text to embedding: OpenVINO and onnxruntime, in a virtual environment of their own.

``environment`` installs it and writes MiniLM as an ONNX file; ``process`` starts a runtime as a program of its own.
The programs, ``export`` and ``run_*``, import nothing of fastqps or of the rest of ``bench`` (but ``run_fastqps``).
"""
