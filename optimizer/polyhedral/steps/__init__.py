"""The steps of schedules, one file each. To add one: its file, and its row in `STEPS`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from optimizer.polyhedral.steps.autoschedule import Autoschedule
from optimizer.polyhedral.steps.distribute import Distribute
from optimizer.polyhedral.steps.fuse import Fuse
from optimizer.polyhedral.steps.interchange import Interchange
from optimizer.polyhedral.steps.pack import Pack
from optimizer.polyhedral.steps.parallel import Parallel
from optimizer.polyhedral.steps.privatize import Privatize
from optimizer.polyhedral.steps.reduce import Reduce
from optimizer.polyhedral.steps.register_tile import RegisterTile
from optimizer.polyhedral.steps.reorder import Reorder
from optimizer.polyhedral.steps.reorder_statements import ReorderStatements
from optimizer.polyhedral.steps.reverse import Reverse
from optimizer.polyhedral.steps.shift import Shift
from optimizer.polyhedral.steps.skew import Skew
from optimizer.polyhedral.steps.split import Split
from optimizer.polyhedral.steps.step import Step
from optimizer.polyhedral.steps.stream import Stream
from optimizer.polyhedral.steps.tile import Tile
from optimizer.polyhedral.steps.unroll import Unroll
from optimizer.polyhedral.steps.unroll_and_jam import UnrollAndJam
from optimizer.polyhedral.steps.vectorize import Vectorize
from optimizer.polyhedral.steps.wavefront import Wavefront

STEPS: Mapping[str, type[Step]] = MappingProxyType(
    {
        "autoschedule": Autoschedule,
        "interchange": Interchange,
        "reorder": Reorder,
        "tile": Tile,
        "skew": Skew,
        "shift": Shift,
        "reverse": Reverse,
        "fuse": Fuse,
        "distribute": Distribute,
        "reorder_statements": ReorderStatements,
        "split": Split,
        "parallel": Parallel,
        "wavefront": Wavefront,
        "unroll": Unroll,
        "unroll_and_jam": UnrollAndJam,
        "vectorize": Vectorize,
        "register_tile": RegisterTile,
        "privatize": Privatize,
        "pack": Pack,
        "reduce": Reduce,
        "stream": Stream,
    }
)

__all__ = ["STEPS", "Step"]
