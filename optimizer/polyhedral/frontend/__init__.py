"""The front end: from a Python function of loops to its `Nest`, without running it.

In the order of processing: `finding` and `live_source` get the text and the function that is meant; `source` reads the
top level of the module; `signature` and `shapes` the arguments; `names` and `scope` say what each name means; `body`
walks the statements, with `ranges`, `expressions` (`affine`, `functions`, `local_arrays`) and `rejections`; `scalars`,
`renaming` and `dtypes` sort out the scalar variables; `original` cuts out what is printed again; `bounds` proves that
subscripts stay inside their arrays; `stored_scalars` puts elements in the place of scalars; `build` calls them all.
"""

from optimizer.polyhedral.frontend.bounds import check_bounds
from optimizer.polyhedral.frontend.finding import nest_of_file, nest_of_function, nest_of_source

__all__ = ["check_bounds", "nest_of_file", "nest_of_function", "nest_of_source"]
