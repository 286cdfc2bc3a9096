"""Reports are written without rendering their pictures, which takes most of their time, except in tests with `rendered`."""

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
