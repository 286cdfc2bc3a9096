"""The rules of which module may import which are checked in the source code, including imports inside functions."""

import ast
import functools
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "accel_rl"

# A room (subpackage) may import rooms of earlier floors (entries of this list), and of its own floor without cycles.
FLOORS = [
    {"version"},
    {"ops", "processes"},
    {"text"},
    {"machine"},
    {"files"},
    {"metrics", "kernels"},
    {"checkpoints", "data"},
    {"emulator", "models", "optim"},
    {"envs", "agents", "distributed", "compat"},
    {"replays"},
    {"samplers", "algos"},
    {"speed"},
    {"settings"},
    {"planning", "run", "results", "parsing"},
    {"training"},
    {"ranks"},
    {"gorila", "sweeps"},
    {"papers"},
    {"report"},
    {"api"},
    {"gym"},
    {"cli"},
    {"launch", "benchmarks"},
    {"experiments"},
    {"__main__"},
]
RANK = {room: i for i, floor in enumerate(FLOORS) for room in floor}

# Maps each module to the paths of the files and folders that may import this module.
CONFINED = {
    "multiprocessing": (),
    "subprocess": (
        "accel_rl/samplers/workers/", "accel_rl/ranks/", "accel_rl/run/run_folder.py",
        "accel_rl/gorila/ray_session.py", "accel_rl/processes/child.py", "accel_rl/processes/guard.py",
        "accel_rl/emulator/rom_compiler.py", "accel_rl/emulator/device/block_kernel.py",
        "accel_rl/machine/visible_gpus.py",
        "accel_rl/sweeps/", "benchmarks/", "experiments/sampling.py",
    ),
    "socket": (
        "accel_rl/samplers/workers/", "accel_rl/distributed/process_group.py", "accel_rl/gorila/",
    ),
    "threading": (
        "accel_rl/gorila/", "accel_rl/kernels/", "accel_rl/samplers/", "accel_rl/speed/",
        "accel_rl/run/", "accel_rl/training/", "accel_rl/ranks/", "accel_rl/checkpoints/writer.py",
        "accel_rl/sweeps/", "accel_rl/distributed/patient_store.py", "accel_rl/emulator/translation.py",
        "accel_rl/emulator/device/block_kernel.py", "benchmarks/",
    ),
    "ctypes": (
        "accel_rl/kernels/native.py", "accel_rl/distributed/robust_lock.py", "accel_rl/processes/process.py",
        "accel_rl/sweeps/pinned_run.py", "accel_rl/emulator/device/", "accel_rl/emulator/rom_compiler.py",
        "accel_rl/data/page_locked.py", "accel_rl/envs/global_generators.py", "accel_rl/machine/gpu_energy.py",
        "accel_rl/files/code_cache.py",
    ),
    "cuda": ("accel_rl/emulator/device/",),
    "torch.distributed": ("accel_rl/distributed/collective.py", "accel_rl/distributed/process_group.py", "benchmarks/"),
    "ray": ("accel_rl/gorila/",),
    "accel_rl.kernels._native": ("accel_rl/kernels/native.py",),
    "triton": ("accel_rl/kernels/",),
    "accel_rl.emulator._core": ("accel_rl/emulator/atari.py",),
}  # fmt: skip
# Modules of the parameter server that do not use Ray.
SHARD_SIDE = ("shard", "sharded_sync", "transport")
# Modules that a worker process imports before its environments.
# Modules of worker processes may not import torch, which would cost each process a second and 200 MB.
WORKER_SIDE = (
    "accel_rl/envs/",
    "accel_rl/text/",
    "accel_rl/machine/",
    "accel_rl/files/",
    "accel_rl/processes/",
    "accel_rl/data/__init__.py",
    "accel_rl/data/rollout_arrays.py",
    "accel_rl/data/shared_memory.py",
    "accel_rl/data/spec.py",
    "accel_rl/samplers/__init__.py",
    "accel_rl/samplers/workers/__init__.py",
    "accel_rl/samplers/workers/channel.py",
    "accel_rl/samplers/workers/stepper.py",
    "accel_rl/samplers/workers/worker.py",
)
# A C++ source may include files of its own folder, of subfolders, and of the folders listed here.
INCLUDES = {
    "accel_rl/kernels/src/nn": ("accel_rl/kernels/src",),
    "accel_rl/emulator/core/fast": ("accel_rl/emulator/core",),
    "accel_rl/emulator/device": ("accel_rl/emulator", "accel_rl/emulator/core"),
    "accel_rl/emulator/device/kernels": ("accel_rl/emulator/core", "accel_rl/emulator/core/fast"),
}
FILES = sorted(p for d in ("accel_rl", "experiments", "launch", "benchmarks") for p in (ROOT / d).rglob("*.py"))
SOURCES = sorted(p for end in ("*.h", "*.cpp") for p in PACKAGE.rglob(end))


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@functools.cache
def nodes(path: Path) -> list[ast.AST]:
    return [*ast.walk(ast.parse(path.read_text()))]


@functools.cache
def imports(path: Path, top_level_only: bool = False) -> frozenset[str]:
    """Return the names of modules and objects that a file imports, also by importlib.import_module."""
    found: set[str] = set()
    module, *_ = nodes(path)
    for node in module.body if top_level_only else nodes(path):  # type: ignore[attr-defined]
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
            found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
    return frozenset(found)


def room_of(module: str) -> str:
    """Return the room of a module: "ops" for accel_rl.ops.returns, "benchmarks" for benchmarks.train, "" for others."""
    first, _, rest = module.partition(".")
    if first in ("experiments", "launch", "benchmarks"):
        return first
    room = rest.partition(".")[0] if first == "accel_rl" else ""
    return room if room in RANK else ""


def room_at(path: Path) -> str:
    parts = path.relative_to(ROOT).parts
    return (parts[1] if parts[0] == "accel_rl" else parts[0]).removesuffix(".py")


def test_imports_flow_one_way() -> None:
    wrong = [
        f"{name_of(path)} imports {module}, which lies above it"
        for path in FILES
        for module in sorted(imports(path))
        if room_at(path) != "__init__" and RANK.get(room_of(module), -1) > RANK[room_at(path)]
    ]
    assert not wrong, "\n".join(wrong)


def test_the_package_imports_no_program_of_a_checkout() -> None:
    """An installed accel_rl lacks the folders experiments, launch, benchmarks and tests."""
    outside = ("experiments", "launch", "benchmarks", "tests")
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in FILES
        if PACKAGE in path.parents
        for module in sorted(imports(path))
        if module.partition(".")[0] in outside
    ]
    assert not wrong, "\n".join(wrong)


def require_no_circle(arrows: dict[str, set[str]]) -> None:
    below: set[str] = set()

    def visit(name: str, path: tuple[str, ...]) -> None:
        assert name not in path, f"a circle: {' -> '.join([*path, name])}"
        if name not in below:
            for imported in arrows.get(name, set()) - {name}:
                visit(imported, (*path, name))
            below.add(name)

    for name in arrows:
        visit(name, ())


def test_no_two_rooms_import_each_other_on_any_path() -> None:
    arrows: dict[str, set[str]] = {}
    for path in FILES:
        arrows.setdefault(room_at(path), set()).update(filter(None, map(room_of, imports(path))))
    require_no_circle(arrows)


def test_no_two_modules_import_each_other_on_any_path() -> None:
    """Import cycles are forbidden, also inside a subpackage."""
    names = {name_of(path).removesuffix(".py").replace("/", "."): path for path in FILES if path.stem != "__init__"}
    require_no_circle({name: set(imports(path)) & set(names) for name, path in names.items()})


def test_samplers_and_algorithms_do_not_know_each_other() -> None:
    for path in FILES:
        if room_at(path) in ("samplers", "algos"):
            assert not {"samplers", "algos"} - {room_at(path)} & set(map(room_of, imports(path))), name_of(path)


def test_shards_know_no_engine() -> None:
    """Modules of parameter-server shards import no processes, collectives, algorithms or runs."""
    for path in (PACKAGE / "gorila" / f"{name}.py" for name in SHARD_SIDE):
        found = imports(path)
        assert {room_of(n) for n in found} <= {
            "settings",
            "distributed",
            "gorila",
            "optim",
            "text",
            "machine",
            "processes",
            "",
        }, name_of(path)
        allowed = [f"accel_rl.gorila.{name}" for name in SHARD_SIDE]
        assert all(n.startswith(tuple(allowed)) for n in found if room_of(n) == "gorila"), name_of(path)
        engines = {"ray", "torch.distributed", "socket", "subprocess", "threading", "accel_rl.distributed.collective"}
        assert not engines & found, name_of(path)


def test_every_room_has_a_floor() -> None:
    assert {room_at(p) for p in FILES} - {"__init__"} <= set(RANK)


def test_equations_import_nothing_compiled() -> None:
    for path in sorted((PACKAGE / "ops").rglob("*.py")):
        assert {n.split(".")[0] for n in imports(path)} <= {"collections", "torch", "typing", "accel_rl"}, name_of(path)
        assert {room_of(n) for n in imports(path)} <= {"ops", ""}, name_of(path)


def test_processes_threads_and_compiled_modules_stay_where_they_belong() -> None:
    wrong = [
        f"{name_of(path)} imports {module}"
        for path in FILES
        for module, places in CONFINED.items()
        if any(n == module or n.startswith(module + ".") for n in imports(path))
        and not name_of(path).startswith(places)
    ]
    assert not wrong, "\n".join(wrong)


def test_workers_start_without_torch() -> None:
    of_workers = [path for path in FILES if name_of(path).startswith(WORKER_SIDE)]
    wrong = [
        name_of(path)
        for path in of_workers
        if any(n.split(".")[0] == "torch" for n in imports(path, top_level_only=True))
    ]
    assert of_workers and not wrong


def test_the_command_line_loads_no_mode() -> None:
    """`accel-rl train` imports few modules, and none for clusters, sweeps, papers or reports."""
    loaded = "print(*(m for m in sys.modules if m.partition('.')[0] == 'accel_rl'))"
    code = f"import sys; import accel_rl.cli.train_command; {loaded}; import accel_rl.api.launch; {loaded}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    modes = tuple(f"accel_rl.{room}" for room in ("gorila", "sweeps", "papers", "emulator.device", "report"))
    for line, most in zip(done.stdout.splitlines(), (142, 235), strict=True):
        found = line.split()
        assert len(found) <= most and not [m for m in found if m.startswith(modes)], sorted(found)


def test_the_emulator_includes_the_c_plus_plus_library_alone() -> None:
    """The emulator's C++ includes only the C++ library and pybind11, so that it compiles on any machine.

    Files named *_x86.h may also include immintrin.h.
    """
    wrong = []
    for path in (p for p in SOURCES if (PACKAGE / "emulator") in p.parents):
        for name in re.findall(r"#\s*include\s*<([^>]+)>", path.read_text()):
            guarded = name == "immintrin.h" and path.name.endswith("_x86.h")
            if not (re.fullmatch(r"[a-z_]+|pybind11/\w+\.h", name) or guarded):
                wrong.append(f"{name_of(path)} includes <{name}>")
    assert not wrong, "\n".join(wrong)


def test_includes_flow_one_way() -> None:
    wrong = []
    for path in SOURCES:
        room = path.parent.relative_to(ROOT).as_posix()
        for name in re.findall(r'#include "([^"]+)"', path.read_text()):
            target = (path.parent / name).resolve()
            included = target.parent.relative_to(ROOT).as_posix()
            allowed = included == room or included.startswith(room + "/") or included in INCLUDES.get(room, ())
            if not (target.is_file() and allowed):
                wrong.append(f"{name_of(path)} includes {name}")
    assert not wrong, "\n".join(wrong)


def test_no_room_has_the_name_of_something_public() -> None:
    """A subpackage accel_rl/train, for example, would replace the function accel_rl.train when it is imported."""
    source = (PACKAGE / "__init__.py").read_text()
    public = re.findall(r'"(\w+)"', re.search(r"__all__ = \[(.*?)\]", source, re.S)[1])  # type: ignore[index]
    rooms = {path.name.removesuffix(".py") for path in PACKAGE.iterdir()}
    assert len(public) > 10 and set(public) & rooms <= {"gym", "__version__"}


def test_algorithms_and_data_know_nothing_of_speed() -> None:
    """Algorithms, agents, models and data contain no code for captures, fixed addresses or kinds of devices."""
    words = re.compile(
        r"capturable|phase_key|at_fixed_address|is_gpu|parts\(|_cursor|refresh|activation_cache|reading\("
    )
    wrong = [
        f"{name_of(path)}: {word}"
        for room in ("algos", "data", "agents", "models")
        for path in sorted((PACKAGE / room).glob("*.py"))
        for word in words.findall(path.read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_an_algorithm_is_small() -> None:
    """The class Algorithm has at most eleven public methods, and PPO has fewer than 60 lines."""
    body = {}
    for file in ("algorithm", "ppo"):
        for node in ast.parse((PACKAGE / "algos" / f"{file}.py").read_text()).body:
            if isinstance(node, ast.ClassDef):
                body[node.name] = node
    methods = [n.name for n in body["Algorithm"].body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")]
    assert len(methods) <= 11, methods
    assert (body["PPO"].end_lineno or 0) - body["PPO"].lineno < 60


PROGRAMS = ("tests/schedules", "tests/chaos", "tests/calls", "tests/load")
VAGUE = {"at", "there", "here", "own", "whole", "found", "made"}


def test_names_say_what_they_name() -> None:
    """No variable, parameter, attribute, function or class has a vague name, such as `found`."""
    vague = []
    for file in [
        file
        for folder in (PACKAGE, *(ROOT / name for name in ("experiments", "benchmarks", *PROGRAMS)))
        for file in folder.rglob("*.py")
    ]:
        for node in nodes(file):
            stored = isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store)
            name = (node.id if isinstance(node, ast.Name) else node.attr) if stored else getattr(node, "name", None)
            name = node.arg if isinstance(node, ast.arg) else name
            if str(name).strip("_") in VAGUE:
                vague.append(f"{file.relative_to(ROOT)}:{node.lineno}: {name}")
    assert not vague, vague
