"""Reports' plots are rendered only in tests with the fixture `rendered`, because rendering is slow."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def savefig():
    """In all tests of a module, replace matplotlib's Figure.savefig. Yields the original function."""
    from matplotlib.figure import Figure

    original = Figure.savefig
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", lambda figure, file, **options: file.write(b"not rendered"))
        yield original


@pytest.fixture
def rendered(savefig, monkeypatch):
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", savefig)
