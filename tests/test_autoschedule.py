"""isl's own schedule as a step: legal on every kernel, and what it is good for."""

from __future__ import annotations

import pytest

from kernels import catalog
from optimizer.errors import StepError
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.legality import Legal, judge, parallel_loops
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.polyhedral.steps.autoschedule import FUSIONS, Autoschedule
from optimizer.polyhedral.tree import Sequence, inconsistencies
from tests.hand_nests import gemm


def model_of(name: str) -> Model:
    return Model(nest_of_file(f"{catalog.load(name).__file__}:{catalog.entry(name).function}"))


@pytest.mark.parametrize("name", catalog.names())
def test_it_is_legal_on_every_kernel(name: str) -> None:
    model = model_of(name)
    for fuse in FUSIONS:
        tree = parse_schedule(f"autoschedule(fuse={fuse})").apply(model.nest)
        assert inconsistencies(tree) == ()
        assert judge(model, tree).legal is Legal.YES


def test_a_stencil_becomes_tileable() -> None:
    model = model_of("jacobi-1d")
    text = "autoschedule(); tile(t=8, i=16); wavefront(t_t, i_t)"
    assert judge(model, parse_schedule(text).apply(model.nest)).legal is Legal.YES
    with pytest.raises(StepError):
        parse_schedule("tile(t=8, i=16)").apply(model.nest)


def test_apart_or_together() -> None:
    model = Model(gemm())
    apart = parse_schedule("autoschedule(fuse=none)").apply(model.nest)
    assert isinstance(apart, Sequence)
    assert len(apart.parts) == 2
    assert {"i"} <= parallel_loops(model, apart)


def test_its_text_and_its_options() -> None:
    nest = gemm()
    assert [str(step) for step in Autoschedule.options(nest, nest.tree)] == [
        "autoschedule()",
        "autoschedule(fuse=max)",
        "autoschedule(fuse=none)",
    ]
    tiled = parse_schedule("tile(i=8)").apply(nest)
    assert list(Autoschedule.options(nest, tiled)) == []
    assert str(parse_schedule("autoschedule(fuse=smart)")) == "autoschedule()"
    with pytest.raises(StepError, match="fuse must be one of smart, max, none, not most"):
        parse_schedule("autoschedule(fuse=most)")
