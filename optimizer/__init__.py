"""Loopwright: verifier-driven optimization.

`optimizer.optimize` is the Python API; it and `Result` are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optimizer.api import Result, optimize

__all__ = ["Result", "optimize"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from optimizer import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
