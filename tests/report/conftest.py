"""Tests without the fixture `rendered` write reports whose pictures are not rendered, which takes most of the time."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def savefig():
    """Replace matplotlib's rendering for a module, and yield it."""
    from matplotlib.figure import Figure

    original = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"not rendered"))
        yield original


@pytest.fixture
def rendered(savefig, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", savefig)
