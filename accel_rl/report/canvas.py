"""Helpers for plots: pyplot without a display, figures as bytes, colours."""

import io
from collections.abc import Sequence


def pyplot() -> object:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    return plt


def picture(figure: object, kind: str = "png") -> bytes:
    """Save the figure as bytes (png, pdf or svg) and close it."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind)  # type: ignore[attr-defined]
    pyplot().close(figure)  # type: ignore[attr-defined]
    return buffer.getvalue()


def colours(names: Sequence[str]) -> dict[str, object]:
    """Assign a colour to each name, the same in all plots."""
    import matplotlib

    wheel = matplotlib.colormaps["tab10" if len(names) <= 10 else "turbo"]
    n = len(names)
    return {s: wheel(i) if n <= 10 else wheel(i / (n - 1)) for i, s in enumerate(names)}
