"""Faults planted into generated code, to see whether the cascade rejects every one that changes a result.

`site` and `fault` say what a fault is; one file a family holds them; `registry` lists them; `subject` holds the right
code that they are planted into; `judging` finds out whether a mutant changes a result; `scoring` does all of it.
"""
