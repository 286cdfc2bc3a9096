"""The import rules: parts know only those below them. Read from the source, so a breach in a lazy import counts too."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "accel_rl"

# Each layer may import itself and those before it.
LAYERS = [
    {"data", "ops", "hardware", "errors", "process", "version", "counts", "patience"},
    {"envs", "models", "optim", "emulator"},
    {"agents", "replays"},
    {"samplers", "algos"},
    {"metrics", "config", "arguments"},
    {"runners", "report"},
    {"commands", "doctor", "cli", "__main__"},
]
RANK = {name: i for i, layer in enumerate(LAYERS) for name in layer}
# Where processes and collectives may be touched at all.
CONFINED = {
    "multiprocessing": ("data/", "samplers/", "optim/locked_chunk", "runners/ranks"),
    "torch.distributed": ("optim/collective", "optim/process_group"),
}
# What a worker process loads before its environments; torch would cost each of them a second and 200 MB.
WORKER_SIDE = (
    "envs",
    "samplers/worker.py",
    "samplers/channel.py",
    "samplers/stepper.py",
    "hardware.py",
    "errors.py",
    "patience.py",
    "data/shared_memory.py",
    "data/rollout_arrays.py",
    "data/spec.py",
    "data/step.py",
    "samplers/__init__.py",
)
FILES = sorted(p for p in ROOT.rglob("*.py"))


def imports(path: Path, top_level_only: bool = False) -> set[str]:
    tree = ast.parse(path.read_text())
    nodes = tree.body if top_level_only else list(ast.walk(tree))
    found = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
    return found


def part(path: Path) -> str:
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_flow_one_way(path: Path) -> None:
    here = part(path)
    if here == "__init__":
        return
    for name in imports(path):
        if name.startswith("accel_rl."):
            there = name.split(".")[1]
            if there not in RANK:
                continue
            assert RANK[there] <= RANK[here], f"{path.relative_to(ROOT)} imports {name}, which lies above it"
            assert {here, there} != {"samplers", "algos"}, f"{here} imports {there}: they never know each other"


def test_every_part_has_a_place() -> None:
    assert {part(p) for p in FILES} - {"__init__"} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_processes_and_collectives_stay_where_they_belong(path: Path) -> None:
    inside = str(path.relative_to(ROOT))
    for module, places in CONFINED.items():
        if any(n == module or n.startswith(module + ".") for n in imports(path)):
            assert inside.startswith(places), f"{inside} imports {module}"


@pytest.mark.parametrize(
    "path",
    [p for p in FILES if str(p.relative_to(ROOT)).startswith(WORKER_SIDE)],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_workers_start_without_torch(path: Path) -> None:
    assert not any(n.split(".")[0] == "torch" for n in imports(path, top_level_only=True))
