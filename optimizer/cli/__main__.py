"""`python -m optimizer.cli` is `loopwright`."""

from optimizer.cli import main

main(prog_name="loopwright")
