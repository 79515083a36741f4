"""The linter: what the polyhedral analysis knows about code that people already have.

In the order of processing: `subject` reads functions, or those of their loops that can be read, with `argument_types`
for arguments without annotations; one file each holds related rules (`races`, `parallel_cost`, `subscripts`,
`unwritten`, `dead_stores`, `reachable`, `loop_order`), on top of `dataflow`, `iterations` and `making`; `wording` says
things in the names of the source; `check` calls all rules on all functions of a file. A rule is right or silent.
"""

from optimizer.lint.check import Report, lint_file, lint_source, rules_named
from optimizer.lint.finding import Finding, Rule

__all__ = ["Finding", "Report", "Rule", "lint_file", "lint_source", "rules_named"]
