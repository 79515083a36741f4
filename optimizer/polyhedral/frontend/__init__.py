"""The front end: from a Python function of loops to its `Nest`."""

from optimizer.polyhedral.frontend.bounds import check_bounds, safe_sizes
from optimizer.polyhedral.frontend.finding import nest_of_file, nest_of_function, nest_of_source

__all__ = ["check_bounds", "nest_of_file", "nest_of_function", "nest_of_source", "safe_sizes"]
