"""Shows a run of ``fastqps bench`` on the terminal, and as one self-contained report.html.

Everything here reads the result and nothing else.

``terminal`` needs rich and ``page`` matplotlib, the extra ``fastqps[bench]``.
"""
