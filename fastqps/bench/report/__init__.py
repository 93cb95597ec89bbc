"""Shows a run of ``fastqps bench`` on the terminal, as points.csv, and as one self-contained report.html.

Everything here reads the result's JSON and nothing else, so that a report can be drawn again from report.json.
``terminal`` needs rich and ``page`` matplotlib, the extra ``fastqps[bench]``.
"""
