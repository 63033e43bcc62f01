"""Replications on a GPU: one thread each, the rounds those of the CPU.

`turns` is what a thread does, `device` the only place that knows numba-cuda, `waves` the host's part.
"""
