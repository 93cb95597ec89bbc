"""Other software that the bench compares with, each in a virtual environment that is installed when it is first needed.

``process`` installs them, writes MiniLM as an ONNX file, and starts a runtime as a program of its own, ``servers`` a
server. ``export`` and ``program`` import nothing of the rest of ``bench``, and of fastqps only the engine
that ``program`` runs.
"""
