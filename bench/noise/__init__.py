"""Noisy neighbours: small programs that take a server's CPUs, caches, process table and page cache.

``programs`` are what they do, ``beside`` starts and ends them. They touch nothing but what they make themselves.
"""
