"""Plots of reports are rendered only in tests with the fixture `rendered`, because rendering takes most of the time."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def savefig():
    """Replace Figure.savefig for all tests of a module, and yield the original."""
    from matplotlib.figure import Figure

    original = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"not rendered"))
        yield original


@pytest.fixture
def rendered(savefig, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", savefig)
