"""Draw the pictures of the documentation: `python docs/tools/pictures.py` writes docs/pictures/*.svg, and writes the
pictures and tables of the suite's runs into the pages."""

import re
from pathlib import Path

import curves
from svg import BLUE, GREEN, GREY, ORANGE, VIOLET, Drawing

ROOT = Path(__file__).parents[2]


def processes() -> str:
    d = Drawing(880, 430, "Processes of a run")
    for i, x in enumerate((20, 190, 400)):
        name = f"worker {i}" if i < 2 else "worker n"
        d.box(x, 46, 150, 116, GREY)
        d.text(x + 10, 66, name, bold=True)
        d.text(x + 140, 66, f"core {i if i < 2 else 'n'}", 12, GREY, "end")
        for g, (group, colour) in enumerate((("group A", BLUE), ("group B", ORANGE))):
            d.box(x + 10, 78 + 40 * g, 130, 32, colour)
            d.text(x + 18, 99 + 40 * g, f"{group}: games", 13)
    d.text(370, 110, "…", 22, GREY, "middle")
    d.text(20, 30, "Worker processes step their games of one group, then those of the other.", 13, GREY)

    d.box(20, 216, 530, 66, GREEN)
    d.text(34, 240, "Rollout [T, B] in shared memory", bold=True)
    d.text(34, 262, "frames, age, action, reward, terminated, truncated, ended, valid", 13)
    d.arrow((70, 162), (70, 216))
    d.text(80, 194, "newest frame, reward, flags: written in place, once", 13, GREY)

    d.box(20, 336, 300, 74, VIOLET)
    d.text(34, 360, "action server", bold=True)
    d.text(34, 382, "acts for group A in one batch", 13)
    d.text(34, 400, "while the workers step group B", 13)
    d.arrow((90, 282), (90, 336))
    d.text(100, 314, "observations", 13, GREY)
    d.arrow((250, 336), (250, 282))
    d.text(240, 314, "actions", 13, GREY, "end")

    d.box(610, 46, 250, 364, GREY)
    d.text(626, 70, "learner", bold=True)
    steps = (
        ("algo.ingest(rollout)", "advantages, or the replay"), ("algo.batches()", "epochs, or draws"),
        ("algo.loss(batch)", "the equation of the paper"), ("gradient [P]", "one flat vector"),
        ("sync", "none, all-reduce, locked chunks"), ("optimizer", "flat parameters [P]"),
    )  # fmt: skip
    for i, (name, note) in enumerate(steps):
        y = 84 + 54 * i
        d.box(626, y, 218, 42, VIOLET if i == 2 else BLUE if i < 2 else GREEN)
        d.text(636, y + 18, name, 14, bold=True)
        d.text(636, y + 35, note, 12, GREY)
        if i:
            d.arrow((735, y - 12), (735, y))
    d.arrow((550, 249), (580, 249), (580, 105), (626, 105))
    d.arrow((626, 375), (320, 375))
    d.text(470, 368, "new parameters", 13, GREY, "middle")
    return d.svg()


def timing() -> str:
    d = Drawing(880, 300, "Two alternating groups")
    d.text(20, 28, "Two groups: while the server acts for one group, the workers step the other", 15, bold=True)
    left, step, act = 130, 110, 84
    for w in range(2):
        y = 56 + 46 * w
        d.text(20, y + 22, f"worker {w}", 14)
        for i in range(6):
            colour = BLUE if i % 2 == 0 else ORANGE
            d.box(left + step * i, y, step - 4, 34, colour, 3)
            d.text(left + step * i + step / 2 - 2, y + 22, f"step {'AB'[i % 2]}", 13, anchor="middle")
    y = 166
    d.text(20, y + 22, "server", 14)
    for i in range(5):
        x = left + step * (i + 1)
        d.box(x, y, act, 34, BLUE if i % 2 == 0 else ORANGE, 3)
        d.text(x + act / 2, y + 22, f"act {'AB'[i % 2]}", 13, anchor="middle")
    d.arrow((left + step, 136), (left + step, 164))
    d.text(left + step - 8, 157, "all workers have stepped A", 12, GREY, "end")
    d.arrow((left + step + act, 166), (left + 2 * step + 1, 139))
    d.text(left + 2 * step + 10, 157, "A's actions are there", 12, GREY)
    d.line(left, 222, left + 6 * step, 222, GREY)
    d.arrow((left, 222), (left + 6 * step + 10, 222), colour=GREY)
    d.text(left + 6 * step + 16, 227, "time", 13, GREY)
    d.text(
        20,
        256,
        "The slower of the two hides the faster. With one group (--sampler.groups 1) they take turns.",
        13,
        GREY,
    )
    d.text(20, 278, "With the emulator on a CPU a group can have workers and a server thread of its own.", 13, GREY)
    return d.svg()


def data() -> str:
    d = Drawing(880, 400, "Shapes of a rollout")
    d.text(20, 28, "A rollout stores each frame once; stacks are gathered where they are used", 15, bold=True)
    left, cell = 150, 52
    d.text(20, 74, "frames", 14, bold=True)
    d.text(20, 92, "[S−1+T+1, B, H, W]", 12, GREY)
    for i in range(12):
        colour = GREY if i < 3 else BLUE if i < 11 else GREEN
        d.box(left + cell * i, 58, cell - 4, 40, colour, 3)
        d.text(left + cell * i + cell / 2 - 2, 83, f"{i - 3}".replace("-", "−"), 13, anchor="middle")
    d.text(left + 1.5 * cell, 50, "S − 1 older frames", 12, GREY, "middle")
    d.text(left + 7 * cell, 50, "T steps", 12, GREY, "middle")
    d.text(left + 11.5 * cell - 2, 50, "at T", 12, GREY, "middle")
    for t, y in ((0, 112), (5, 132)):
        x1, x2 = left + cell * t, left + cell * (t + 4) - 4
        d.line(x1, y, x2, y, VIOLET, 3)
        d.text(x2 + 8, y + 5, f"observation at t = {t}", 13, VIOLET)
    d.text(20, 176, "age", 14, bold=True)
    d.text(20, 194, "[T+1, B] uint8", 12, GREY)
    ages = (3, 3, 3, 0, 1, 2, 3, 3, 3)
    for i, age in enumerate(ages):
        d.box(left + cell * (i + 3), 160, cell - 4, 40, ORANGE if age < 3 else GREY, 3)
        d.text(left + cell * (i + 3) + cell / 2 - 2, 185, str(age), 13, anchor="middle")
    d.text(
        left + cell * 3, 218, "An episode began at t = 3: frames before it count as zeros until age is S − 1.", 13, GREY
    )
    rows = (
        ("action, reward, terminated, truncated, ended, valid", "[T, B]", "reward raw; terminated: no bootstrap"),
        ("what the agent recorded: value, log_prob", "[T, B]", "policy gradients"),
        ("observation of a batch", "[N, S, H, W]", "uint8; float32 [N, ...] without pictures"),
        ("ReplayBatch: obs_tm1, a_tm1, r_t, discount_t, obs_t", "[N, ...]", "rlax's notation"),
        ("parameters, gradient", "[P]", "flat"),
    )
    for i, (name, shape, note) in enumerate(rows):
        y = 254 + 26 * i
        d.line(20, y + 9, 860, y + 9)
        d.text(20, y, name, 13)
        d.text(430, y, shape, 13, VIOLET, bold=True)
        d.text(560, y, note, 13, GREY)
    d.text(
        20,
        390,
        "T horizon, B environments, S stacked frames, H x W a frame (104 x 80), N batch, P parameters",
        12,
        GREY,
    )
    return d.svg()


PICTURES = {"processes": processes, "timing": timing, "data": data}
PAGES = {"README.md": "docs/pictures", "docs/README.md": "pictures", "docs/suite.md": "pictures"}
"""Maps each page that shows pictures of the suite to the folder of pictures, relative to the page."""
BLOCK = re.compile(r"(<!-- (\w+), by docs/tools/pictures.py -->\n).*?(<!-- end -->)", re.S)


def written() -> dict[str, str]:
    """Return the text of every picture, and of every page that shows the suite, by the file's path in the
    repository."""
    runs = curves.suite()
    tables = {"tables": curves.tables(runs), "atari_100k": curves.tables(curves.suite(curves.RESULTS / "atari_100k"))}
    found = {name: draw() for name, draw in PICTURES.items()} | curves.pictures(runs)
    pages = {}
    for page, folder in PAGES.items():
        blocks = {"gallery": curves.gallery(runs, folder), **tables}
        pages[page] = BLOCK.sub(lambda m: m[1] + blocks[m[2]] + "\n" + m[3], (ROOT / page).read_text())  # noqa: B023
    return {f"docs/pictures/{name}.svg": text for name, text in found.items()} | pages


def main() -> None:
    for path, text in written().items():
        (ROOT / path).write_text(text)


if __name__ == "__main__":
    main()
