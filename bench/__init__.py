"""Benchmarks: ratios from one run; figures and how to reproduce them in bench/README.md."""
