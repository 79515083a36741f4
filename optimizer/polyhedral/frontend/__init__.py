"""The front end: from a Python function of loops to its `Nest`, without running it.

In the order of processing: `finding` and `live_source` get the text and the function that is meant; `source` reads the
top level of the module; `signature`, `numba_types` and `shapes` the arguments; `tuples` and `own_variables` make names
plain, `names` and `scope` say what each means.

`body` walks the statements (`drafts`). `spelling` says each in plainer ones first: `iteration` (loops over arrays),
`several_targets`, `inlining` and `stencil_calls` (functions that work on arrays), `choices` (an `if` that depends on
data). The walk goes on with `ranges`, `expressions` (`affine`, `functions`, `local_arrays`) and `rejections`. Where
data decide more than values, a statement stays whole (`opaque`).

`array_statements` makes loops of statements over whole arrays, with `array_expressions` (`array_values`,
`subscripting`, `array_makers`, `quantities`), `accumulation`, `overlap` and `greatest_sizes`.

`kept_elements` checks what choices keep; `scalars`, `renaming` and `dtypes` sort out the scalar variables; `original`
cuts out what is printed again; `bounds` proves that subscripts stay inside their arrays; `stored_scalars` puts elements
in the place of scalars; `build` calls them all.
"""

from optimizer.polyhedral.frontend.bounds import check_bounds
from optimizer.polyhedral.frontend.finding import nest_of_file, nest_of_function, nest_of_source

__all__ = ["check_bounds", "nest_of_file", "nest_of_function", "nest_of_source"]
