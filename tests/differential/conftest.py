"""Prints a table of the largest relative difference in each comparison with another library."""

from collections.abc import Callable

import pytest
from torch import Tensor

BOUND = 1e-5
_TABLE = pytest.StashKey[list[tuple[str, str, float]]]()
Tensors = dict[str, Tensor] | Tensor | float


def difference(ours: Tensors, theirs: Tensors) -> float:
    """Return max |ours - theirs| / max |theirs|."""
    if isinstance(ours, dict):
        assert isinstance(theirs, dict) and ours.keys() == theirs.keys(), (sorted(ours), sorted(theirs))
        return max(difference(ours[name], theirs[name]) for name in ours)
    if isinstance(ours, Tensor):
        assert isinstance(theirs, Tensor) and ours.shape == theirs.shape, (ours.shape, getattr(theirs, "shape", None))
        return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=1e-12))
    theirs = float(theirs.detach() if isinstance(theirs, Tensor) else theirs)  # type: ignore[arg-type]
    return abs(ours - theirs) / max(abs(theirs), 1e-12)


@pytest.fixture
def same(request: pytest.FixtureRequest) -> Callable[[str, Tensors, Tensors], None]:
    """same("gradient", ours, theirs) compares our tensors with those of another library, and records the largest
    relative difference."""

    def compare(what: str, ours: Tensors, theirs: Tensors) -> None:
        worst = difference(ours, theirs)
        request.config.stash.setdefault(_TABLE, []).append((request.node.name, what, worst))
        assert worst < BOUND, f"{what}: {worst:.1e}"

    return compare


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash.get(_TABLE, [])
    if rows:
        terminalreporter.section("worst relative differences")
        for test, what, worst in rows:
            terminalreporter.write_line(f"{test.removeprefix('test_'):<58} {what:<14} {worst:.1e}")
