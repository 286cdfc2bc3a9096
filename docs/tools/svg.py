"""Draws pictures as SVG text. A drawing has its own background, and dark colours if the reader's system prefers dark
pages."""

from html import escape

INK, GREY, LINE, PAPER = "#1f2430", "#5b6270", "#c9cdd6", "#fbfbfd"
BLUE, ORANGE, GREEN, VIOLET = "#2f5fb3", "#c4651a", "#2e7d4f", "#7a4aa0"
PALE = {BLUE: "#dde8fa", ORANGE: "#fbe6d3", GREEN: "#dbf0e2", VIOLET: "#ebe0f5", GREY: "#eceef2"}
DARK = {
    INK: "#dfe3ea", GREY: "#9aa3b2", LINE: "#3b424e", PAPER: "#14181f", BLUE: "#7fa8ee", ORANGE: "#eda066",
    GREEN: "#72c496", VIOLET: "#b99ae0", PALE[BLUE]: "#1c2f4f", PALE[ORANGE]: "#46301c", PALE[GREEN]: "#1c3a29",
    PALE[VIOLET]: "#33264a", PALE[GREY]: "#262c36",
}  # fmt: skip
_RULES = "".join(f'[{kind}="{light}"]{{{kind}:{dark}}}' for light, dark in DARK.items() for kind in ("fill", "stroke"))


class Drawing:
    """A list of shapes in drawing order. Lengths are in pixels, and the y axis points down."""

    def __init__(self, width: int, height: int, title: str):
        self.width, self.height, self.title = width, height, title
        self._shapes: list[str] = []

    def box(self, x: float, y: float, w: float, h: float, colour: str = GREY, radius: float = 5) -> None:
        self._add(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{radius:g}" fill="{PALE[colour]}" '
            f'stroke="{colour}"/>'
        )

    def text(
        self, x: float, y: float, words: str, size: int = 14, colour: str = INK, anchor: str = "start",
        bold: bool = False,
    ) -> None:  # fmt: skip
        more = ' font-weight="600"' * bold
        self._add(
            f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{colour}" text-anchor="{anchor}"{more}>'
            f"{escape(words)}</text>"
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = LINE, width: float = 1) -> None:
        self._add(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width:g}"/>')

    def arrow(self, *points: tuple[float, float], colour: str = INK) -> None:
        (x1, y1), (x2, y2) = points[-2:]
        length = max(((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5, 1e-9)
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        base = (x2 - 9 * ux, y2 - 9 * uy)
        self.path([*points[:-1], base], colour, 1.6)
        head = [(x2, y2), (base[0] - 4.5 * uy, base[1] + 4.5 * ux), (base[0] + 4.5 * uy, base[1] - 4.5 * ux)]
        self._add(f'<polygon points="{_points(head)}" fill="{colour}"/>')

    def path(self, points: list[tuple[float, float]], colour: str, width: float = 2) -> None:
        self._add(
            f'<polyline points="{_points(points)}" fill="none" stroke="{colour}" stroke-width="{width:g}" '
            'stroke-linejoin="round"/>'
        )

    def svg(self) -> str:
        w, h = self.width, self.height
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {w} {h}" width="{w}" height="{h}" '
                'font-family="Helvetica, Arial, sans-serif" role="img">',
                f"<title>{escape(self.title)}</title>",
                f"<style>@media(prefers-color-scheme:dark){{{_RULES}}}</style>",
                f'<rect width="{w}" height="{h}" rx="8" fill="{PAPER}"/>',
                *self._shapes,
                "</svg>",
                "",
            ]
        )

    def _add(self, shape: str) -> None:
        self._shapes.append(shape)


def _points(points: list[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
