"""How commands read the kernel and the size that a person names."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optimizer.kernel_problem import KernelProblem
    from optimizer.polyhedral.nest import Nest

DEFAULT_SIZE = "large"
"""Of bundled kernels; a file of the user's has no size until it is given one."""


def default_size(kernel: str, size: str | None) -> str | None:
    from kernels import catalog

    return DEFAULT_SIZE if size is None and kernel in catalog.names() else size


def load_problem(kernel: str, size: str | None, fp: str, threads: int | None) -> KernelProblem:
    """The problem for a bundled kernel's name or `file.py:function`. Raises `UserError`."""
    from optimizer.kernel_problem import KernelProblem

    return KernelProblem.load(kernel, default_size(kernel, size), fp, threads)


def load_nest(kernel: str, size: str | None, fp: str, threads: int | None) -> tuple[Nest, KernelProblem | None]:
    """The nest alone when it has no size, because a file of the user's can be looked at without one."""
    if default_size(kernel, size) is None and ".py" in kernel:
        from optimizer.polyhedral.frontend import nest_of_file

        return nest_of_file(kernel), None
    problem = load_problem(kernel, size, fp, threads)
    return problem.nest, problem
