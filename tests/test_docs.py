"""README.md is short, and in README.md and docs, links have targets, examples compile, and commands exist."""

import csv
import importlib
import importlib.util
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from accel_rl.cli.main import COMMANDS, main
from accel_rl.settings.flags import flags_of
from accel_rl.settings.registry import ALGORITHMS, find
from accel_rl.settings.train import TrainConfig, default_config
from accel_rl.text.errors import ConfigError
from accel_rl.version import __version__

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
RESULTS = [ROOT / "experiments/results/README.md", *sorted((ROOT / "benchmarks/results").glob("*.md"))]
FENCED = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
LINK = re.compile(r"\]\(([^)\s]+)\)")
NAME = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def prose(path: Path) -> str:
    """Return the text of a Markdown page without code blocks and inline code."""
    return re.sub(r"`[^`\n]*`", "`", FENCED.sub("", path.read_text()))


def anchors(path: Path) -> set[str]:
    """Return the anchors of a page's headings, as on GitHub."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", path.read_text()), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def blocks(path: Path, language: str) -> list[str]:
    return [code for found, code in FENCED.findall(path.read_text()) if found == language]


def command_lines(path: Path) -> Iterator[list[str]]:
    """Yield the words of each command line in a page's fenced blocks without a language."""
    for block in blocks(path, ""):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.sub(r"\[[^\]]*\]", "", line).split("#")[0].split("&&"):  # without [optional words]
                part = part.strip().removeprefix("PYTHONPATH=. ")
                words = part.split()
                if words and (words[0] in ("accel-rl", "torchrun", "pytest") or words[:2] == ["python", "-m"]):
                    yield shlex.split(part)


def examples() -> dict[str, str]:
    """Return {module: code} of the code blocks that begin with a file name, such as `# my_module.py`."""
    code = [code for path in PAGES for code in blocks(path, "python")]
    return {m.group(1): c for c in code if (m := re.match(r"# (\w+)\.py\n", c))}


def is_there(target: str) -> bool:
    """Whether an object `module:name`, which a page mentions, exists."""
    if target.partition(":")[0] in examples():
        return True
    try:
        return find(target) is not None
    except ConfigError:
        return False


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200


@pytest.mark.parametrize("path", [*PAGES, *RESULTS], ids=name)
def test_links_lead_somewhere(path):
    for link in LINK.findall(prose(path)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        assert target.exists() and target.is_relative_to(ROOT), f"{link}: no such file"
        assert not anchor or anchor in anchors(target), f"{link}: no such heading"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_python_examples_compile(path):
    for code in blocks(path, "python"):
        compile(code, name(path), "exec")


@pytest.fixture
def example_modules(tmp_path, monkeypatch):
    """Write the pages' example modules to files, so that they can be imported."""
    for module, code in examples().items():
        (tmp_path / f"{module}.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for module in examples():
        sys.modules.pop(module, None)


@pytest.mark.parametrize("module", [m for m in examples() if m.startswith("test_")])
def test_the_tests_of_the_walk_throughs_pass(module, example_modules):
    tests = [f for n, f in vars(importlib.import_module(module)).items() if n.startswith("test_")]
    assert tests
    for test in tests:
        test()


@pytest.mark.slow
def test_the_page_on_python_runs(tmp_path, monkeypatch):
    """All Python blocks of docs/python.md run as one script, with fewer env steps and shorter episodes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TrainConfig, "evaluation_limit", 20)
    code = "\n".join(blocks(ROOT / "docs/python.md", "python"))
    size = "horizon=16, minibatch=32, torch_threads=1, engine='in-process'"
    small = {
        "env_steps=1e6, seed=1": f"env_steps=64, envs=4, evaluation__interval=0, {size}",
        "env_steps=1e5": f"env_steps=128, {size}",
        "2e5": "256",
        "episodes=30": "episodes=1",
        '"episode.gif"': '"episode.gif", steps=20',
        "envs=32": "envs=4",
    }
    for long, short in small.items():
        assert long in code, long
        code = code.replace(long, short)
    exec(compile(code, "docs/python.md", "exec"), {"__name__": "__main__"})
    assert (tmp_path / "episode.gif").stat().st_size > 0


SMALL = ["--envs", "4", "--env-steps", "64", "--evaluation.interval", "0", "--decorrelation-steps", "0"]
SMALL += ["--engine", "in-process", "--torch-threads", "1"]
REPLAY = ["--replay.size", "1000", "--replay.start", "32"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("munchausen:MunchausenDQN", ["--game", "pong", "--tau", "0.05", "--network", "a3c", *REPLAY]),
        ("ppo", ["--game", "pong", "--network", "my_net:MyNet", "--horizon", "16", "--minibatch", "32"]),
        ("my_network:SmallPPO", ["--game", "pong", "--horizon", "16", "--minibatch", "32"]),
        ("lion:LionA2C", ["--game", "pong", "--learning-rate", "1e-4"]),
        ("ppo", ["--env", "my_env:make_env", "--horizon", "16", "--minibatch", "32"]),
    ],
)
def test_the_examples_train(target, words, example_modules):
    """Each example of a page trains in a tiny run, and has a finite loss."""
    run = example_modules / "run"
    assert main(["train", target, *words, *SMALL, "--run-dir", str(run)]) == 0
    rows = list(csv.DictReader((run / "metrics.csv").open()))
    assert int(rows[-1]["updates"]) > 0 and abs(float(rows[-1]["loss"])) < float("inf")


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_commands_exist(path):
    for words in command_lines(path):
        line = " ".join(words)
        if "-m" in words[:-1] and words[0] != "pytest":
            module = words[words.index("-m") + 1]
            assert importlib.util.find_spec(module), f"{line}: no module {module}"
            words = [module, *words[words.index("-m") + 2 :]]
        if words[0] in ("accel-rl", "accel_rl"):
            assert words[1] in COMMANDS or words[1] == "ALGORITHM", f"{line}: no command {words[1]}"
            if words[1] == "train" and words[2] not in ("--help", "--config"):
                assert words[2] in ALGORITHMS or NAME.fullmatch(words[2]), f"{line}: no algorithm {words[2]}"
        for word in words:
            if NAME.fullmatch(word):
                assert is_there(word), f"{line}: no {word}"


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_named_tests_exist(path):
    for file in re.findall(r"\btests/[\w/]+\.py", path.read_text()):
        assert (ROOT / file).exists(), file


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_named_files_exist(path):
    """A path in back quotes is relative to the root of the repository or to one of `folders`.

    After the path of a removed file, the page names the last commit with the file.
    """
    folders = (ROOT, *(ROOT / f for f in ("accel_rl", "accel_rl/kernels", "accel_rl/emulator", "docs", "tests")))
    for file, rest in re.findall(r"`([\w.-]+/[\w./-]+\.(?:py|h|cpp|cu))`([^`]{0,20})", path.read_text()):
        is_removed = re.search(r"of\s+commit|and, for measured", rest)
        assert is_removed or any((folder / file).exists() for folder in folders), file


def test_every_page_is_in_the_index():
    linked = set(LINK.findall((ROOT / "docs/README.md").read_text()))
    assert {p.name for p in PAGES if p.parent == ROOT / "docs"} - {"README.md"} <= linked


def test_the_pictures_and_the_command_reference_are_up_to_date(monkeypatch):
    """The pictures and the command reference in docs equal what the programs in docs/tools write."""
    monkeypatch.syspath_prepend(ROOT / "docs/tools")
    curves, pictures, commands = map(importlib.import_module, ("curves", "pictures", "commands"))
    for file, text in pictures.written().items():
        same = curves.fingerprint((ROOT / file).read_text()) == curves.fingerprint(text)
        assert same, f"{file}: run python docs/tools/pictures.py"
    assert (ROOT / "docs/commands.md").read_text() == commands.page(), "run python docs/tools/commands.py"


def test_another_run_of_the_suite_appears_on_the_pages(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "docs/tools")
    curves = importlib.import_module("curves")
    for game in ("breakout", "pong", "freeway"):
        folder = tmp_path / game
        shutil.copytree(ROOT / "experiments/results/suite/pqn_breakout_seed1", folder)
        config = json.loads((folder / "config.json").read_text())
        config["env"]["game"] = game
        config["env_steps"] *= 1 + (game == "freeway")
        (folder / "config.json").write_text(json.dumps(config))
    runs = curves.suite(tmp_path)
    for text, part in (
        (curves.gallery(runs, "pictures"), "pictures/suite_{}.svg"),
        (curves.tables(runs), "| {} | PQN |"),
    ):
        assert part.format("breakout") in text and part.format("pong") in text
        assert "freeway" not in text, "This run is not finished."


def test_pictures_are_small_and_shown():
    shown = {link for page in PAGES for link in LINK.findall(page.read_text())}
    for file in (ROOT / "docs/pictures").glob("*.svg"):
        assert file.stat().st_size < 50_000
        assert {f"pictures/{file.name}", f"docs/pictures/{file.name}"} & shown, f"{file.name} is on no page"


def test_the_settings_named_for_other_libraries_exist():
    """Flags in the right column of coming_from.md, and in the left column of algorithms.md, must exist."""
    known = set().union(*(flags_of(TrainConfig, default_config(name)) for name in ALGORITHMS))
    short = {"--" + ".".join(flag[2:].split(".")[i:]) for flag in known for i in range(flag.count(".") + 1)}
    for page, column in (("coming_from.md", 2), ("algorithms.md", 1)):
        for row in re.findall(r"^\|.*\|$", (ROOT / "docs" / page).read_text(), re.M):
            for flag in re.findall(r"`(--[\w.-]+)", row.split("|")[column]):
                assert flag in short, f"{page}: no {flag}"


@pytest.mark.parametrize("page", ["troubleshooting.md", "faults.md"])
def test_messages_are_the_programs(page):
    """The longest part of each quoted message, without numbers and names, must be in the source code."""
    files = [p for folder in ("accel_rl", "launch") for p in (ROOT / folder).rglob("*.py")]
    source = re.sub(r'"\s*f?"', "", "\n".join(p.read_text() for p in files))
    for row in re.findall(r"^\|.*\|$", (ROOT / "docs" / page).read_text(), re.M):
        for message in re.findall(r"`([^`]*)`", row):
            if len(message.split()) < 4 or message.startswith(("accel-rl", "pip", "ulimit", "--ulimit")):
                continue
            parts = re.split(r"\.\.\.|'[^']*'|[\d.,]*\d|\[[^\]]*\]|RUN|--\w\S*|SIG\w+|\b(?:cpu|cuda)\b|[();=]", message)
            assert max(map(str.strip, parts), key=len) in source, f"{page}: {message}"


def test_every_page_is_in_the_site():
    """mkdocs.yml lists every page of docs and of benchmarks/results."""
    navigation = set(re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.M))
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").glob("*.md")}
    pages |= {name(p) for p in RESULTS} | {"examples/README.md", "experiments/models/README.md"}
    pages |= {"CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"}
    assert navigation == pages


@pytest.mark.needs("mkdocstrings", "material", "latex2mathml")
def test_the_site_builds(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    assert "FORMULA" not in (tmp_path / "algorithms/index.html").read_text()


def test_the_citation_has_the_version():
    version = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.M)
    assert version and version[1] == __version__


def test_what_is_missing_is_seen():
    assert is_there("experiments.stooke:figure_3") and not is_there("experiments.stooke:figure_99")
    assert "atari-protocols" in anchors(ROOT / "docs/runs.md")


def test_recorded_results_name_no_folder_of_the_machine():
    folders = re.compile(r"/(home|root|work|Users)/")
    recorded = [*(ROOT / "benchmarks/results").glob("*.json"), *(ROOT / "experiments/results").rglob("*.json")]
    assert recorded and [p.name for p in recorded if folders.search(p.read_text())] == []
