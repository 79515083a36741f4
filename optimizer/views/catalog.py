"""The bundled kernels."""

from __future__ import annotations

import inspect
from typing import Any

from kernels import catalog
from kernels.catalog import KernelEntry


def kernels_json() -> list[dict[str, Any]]:
    """Name, suite, sizes and arrays of each bundled kernel."""
    return [_kernel_json(catalog.entry(name)) for name in catalog.names()]


def _kernel_json(entry: KernelEntry) -> dict[str, Any]:
    parameters = inspect.signature(entry.load_function()).parameters.values()
    arrays = [
        {"name": p.name, "dtype": p.annotation.dtypes[0], "shape": p.annotation.dim_str.split()}
        for p in parameters
        if hasattr(p.annotation, "dim_str")
    ]
    return {"name": entry.name, "suite": entry.suite, "sizes": entry.load().SIZES, "arrays": arrays}
