"""Writes accel_rl/api/train_settings.pyi, the types of the keywords of `accel_rl.train` and `Run.resume`, for editors
and type checkers: `python settings_stub.py`.

setup.py writes the file for each build. A wheel is built without torch, so the classes of settings are read from their
source, and not imported. A test compares the file with the imported classes.
"""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent
OUT = ROOT / "accel_rl/api/train_settings.pyi"
PARAMETERS = {"algorithm", "run_dir", "init"}
"""Settings that `accel_rl.train` has as parameters of its own."""
CLASSES = {"network", "engine", "update", "schedule"}
"""Settings whose values may be a user's class."""
NAMES = {"int": "float", "float": "float", "bool": "bool", "str": "str"}
"""Whole numbers may be given as floats, such as 1e6."""
LISTS = {"distributed.gpus": "str | Sequence[float]"}
"""Texts that may be given as lists of numbers."""
HEAD = '''"""The keywords of `accel_rl.train` and `Run.resume`, written by settings_stub.py.

They are the settings of the algorithms of this project. The settings of a user's algorithm are given by its Config:
`accel_rl.train(MyPPO.Config(...), ...)`.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypedDict
'''


@cache
def statements(module: str) -> list[ast.stmt]:
    path = ROOT / module.replace(".", "/")
    return ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()).body


def assigned(body: list[ast.stmt], name: str) -> ast.expr | None:
    """Return the value that is assigned to a name."""
    for node in body:
        target = (
            node.target
            if isinstance(node, ast.AnnAssign)
            else node.targets[0]
            if isinstance(node, ast.Assign)
            else None
        )
        if isinstance(target, ast.Name) and target.id == name:
            return node.value
    return None


def find(module: str, name: str) -> tuple[str, ast.ClassDef | ast.expr | None]:
    """Return a class, or the value that is assigned to a name, and its module, which may be another one."""
    for node in statements(module):
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        imported = node.names if isinstance(node, ast.ImportFrom) and str(node.module).startswith("accel_rl") else []
        if name in [alias.name for alias in imported]:
            return find(node.module, name)
    return module, assigned(statements(module), name)


def bases(module: str, name: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield the base classes of a class, and the class last."""
    module, node = find(module, name)
    if isinstance(node, ast.ClassDef):
        for base in node.bases:  # DQN[C] is DQN.
            yield from bases(module, ast.unparse(base.value if isinstance(base, ast.Subscript) else base))
        yield module, node


def settings(module: str, name: str, algo: tuple[str, str], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield the full name, such as env.game, and the type of each setting of a class and of its groups. `algo` are
    module and name of the class of the group algo."""
    for base, node in bases(module, name):
        for field in node.body:
            if isinstance(field, ast.AnnAssign) and not ast.unparse(field.annotation).startswith("ClassVar"):
                full = prefix + field.target.id
                group = algo if full == "algo" else (base, ast.unparse(field.annotation))
                if isinstance(find(*group)[1], ast.ClassDef):
                    yield from settings(*group, algo, f"{full}.")
                else:
                    yield full, LISTS.get(full) or kind(base, field.annotation)


def kind(module: str, annotation: ast.expr) -> str:
    """Return the source of the type that a keyword has for a setting with an annotation."""
    match annotation:
        case ast.Constant(value=None):
            return "None"
        case ast.Name(id=name) if name in NAMES:
            return NAMES[name]
        case ast.Name(id=name):
            module, value = find(module, name)
            return kind(module, value) if isinstance(value, ast.expr) else "Any"
        case ast.BinOp(left=left, right=right):
            kinds = dict.fromkeys([kind(module, left), kind(module, right)])
            return "str" if "str" in kinds and "None" not in kinds else " | ".join(kinds)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[item, *_])):
            return f"Sequence[{kind(module, item)}]"
        case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[item, *_])):
            return kind(module, item)
        case ast.Subscript(value=ast.Name(id="Literal"), slice=words):
            words = words.elts if isinstance(words, ast.Tuple) else [words]
            return f"Literal[{', '.join(word for item in words for word in _words(module, item))}]"
    return "Any"


def _words(module: str, item: ast.expr) -> list[str]:
    """Return the words of a part of a Literal, which may be the name of another Literal."""
    if isinstance(item, ast.Name):
        return [kind(*find(module, item.id)).removeprefix("Literal[").removesuffix("]")]
    return [ast.unparse(item).replace("'", '"')]


def train_keywords() -> dict[str, str]:
    """Map each keyword of `accel_rl.train`, full (env__game) or short (game), to its type."""
    kinds: dict[str, dict[str, None]] = {}
    for path in ast.literal_eval(assigned(statements("accel_rl.settings.registry"), "ALGORITHMS")).values():
        configs = [(module, assigned(node.body, "Config")) for module, node in bases(*path.split(":"))]
        *_, algo = [(module, ast.unparse(config)) for module, config in configs if config is not None]
        found = dict(settings("accel_rl.settings.train", "TrainConfig", algo))
        short = Counter(name.rpartition(".")[2] for name in found)
        for name, text in found.items():
            bare = name.rpartition(".")[2]
            for keyword in (name.replace(".", "__"), *[bare] * (short[bare] == 1)):
                kinds.setdefault(keyword, {})[text + " | type" * (bare in CLASSES)] = None
    return {name: " | ".join(texts) for name, texts in kinds.items() if name not in PARAMETERS}


def resume_keywords(train: dict[str, str]) -> dict[str, str]:
    """Map each keyword of `Run.resume` to its type: the options of the command and the settings that may change."""
    changeable = ast.literal_eval(assigned(statements("accel_rl.settings.changeable"), "CHANGEABLE"))
    options = {
        name.rpartition(".")[2]: text for name, text in settings("accel_rl.api.options", "ResumeOptions", ("", ""))
    }
    names = [k for name in changeable for k in (name.replace(".", "__"), name.rpartition(".")[2]) if k in train]
    return {name: train[name] for name in names} | {k: v for k, v in options.items() if k != "env_steps"}


def stub() -> str:
    """Return the source of the file."""
    train = train_keywords()
    text = HEAD
    for name, kinds in {"TrainSettings": train, "ResumeSettings": resume_keywords(train)}.items():
        lines = [f"    {keyword}: {kind}\n" for keyword, kind in sorted(kinds.items())]
        text += f"\nclass {name}(TypedDict, total=False):\n{''.join(lines)}"
    return text


def write() -> None:
    OUT.write_text(stub())


if __name__ == "__main__":
    write()
