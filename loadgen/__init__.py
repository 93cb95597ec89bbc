"""An open-loop gRPC load generator: a native engine under a Python face. ``python -m loadgen --help``; docs/loadgen.md.

It knows nothing of fastqps: any gRPC method will do. What is sent, and when, is data that exists before the run.
"""
