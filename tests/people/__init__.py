"""Functions as people write them with NumPy, one file a field; each is a kernel as it stands.

`SIZES` of a module says how large the arrays of the functions in it are when they are timed.
"""
