"""Kernels beyond PolyBench, one a file."""
