"""Benchmarks: `python -m bench.NAME` prints a table, `--json` the same figures for machines. Times are CPU seconds."""
