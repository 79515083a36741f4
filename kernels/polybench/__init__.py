"""The 30 kernels of PolyBench/C 4.2.1, one a file."""
