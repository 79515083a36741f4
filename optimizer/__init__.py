"""Loopwright: verifier-driven optimization."""
