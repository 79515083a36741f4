"""Schedules worth trying on a nest, most promising first. Every one is legal.

`orders` has what they start from, and `families` what is made of each: register tiles (`register`, `panel`), rows side
by side (`jam`, `recurrence`), reductions (`reduce`), tiles of several sweeps (`stencil`), blocks of columns (`column`),
few passes over memory (`fuse`), stores past the caches (`stream`), then threads (`threads_and_vectors`). Every step is
judged on the whole schedule before it is kept, in a `draft`.
"""

from optimizer.polyhedral.templates.families import templates

__all__ = ["templates"]
