"""The command accel-rl completion SHELL prints a script with which bash, zsh or fish completes commands and options.

The script contains all words, so that a completion does not start Python, whose import of torch takes seconds.
"""

import contextlib
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from accel_rl.cli.main import COMMANDS, function_of
from accel_rl.envs.atari_games import GAMES
from accel_rl.parsing.arguments import HelpPrinted, positionals, stdout
from accel_rl.parsing.help import Option, asked
from accel_rl.settings.changeable import CHANGEABLE, flag
from accel_rl.settings.hints import named
from accel_rl.settings.registry import ALGORITHMS, papers
from accel_rl.text.errors import ConfigError, nearest
from accel_rl.text.output import print_help

SHELLS = {
    "bash": "accel-rl completion bash > ~/.local/share/bash-completion/completions/accel-rl",
    "zsh": "accel-rl completion zsh > ~/.accel-rl.zsh, and in ~/.zshrc: source ~/.accel-rl.zsh",
    "fish": "accel-rl completion fish > ~/.config/fish/completions/accel-rl.fish",
}
WITHOUT_OPTIONS = ("games", "completion")
USAGE = """usage: accel-rl completion SHELL

Print a script that completes commands, algorithms, options and values with the tab key. SHELL is bash, zsh or fish.
Install it once, and begin a new shell:

""" + "\n".join(f"  {line}" for line in SHELLS.values())
ZSH = "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n"
"""These commands let zsh run the script for bash."""
BASH = r"""# Completion of accel-rl for bash, by `accel-rl completion bash`.
_accel_rl_words() { awk -F ' = ' -v key="$1" '$1 == key { print $2 }' <<'END'
@table
END
}
_accel_rl() {
  local cur=${COMP_WORDS[COMP_CWORD]} words=$(_accel_rl_words "${COMP_WORDS[COMP_CWORD-1]}")
  if [[ -z $words && $cur == -* ]]; then
    words=$(_accel_rl_words "${COMP_WORDS[1]} ${COMP_WORDS[2]} --")
    [[ -n $words ]] || words=$(_accel_rl_words "${COMP_WORDS[1]} --")
    # Full names with a point are offered after the point.
    [[ $cur != *.* ]] && words=$(printf "%s\n" $words | grep -v "\.")
  elif [[ -z $words ]]; then
    case $COMP_CWORD in 1) words=$(_accel_rl_words " :") ;; 2) words=$(_accel_rl_words "${COMP_WORDS[1]} :") ;; esac
  fi
  COMPREPLY=($(compgen -W "$words" -- "$cur"))
  # Bash splits words at colons, so the part before the colon is removed from the completions.
  [[ -n $BASH_VERSION ]] && declare -F __ltrim_colon_completions > /dev/null && __ltrim_colon_completions "$cur"
}
complete -o bashdefault -o default -F _accel_rl accel-rl
"""


@dataclass(frozen=True, slots=True)
class Word:
    """A word that a shell completes after the words `context`, such as `train ppo`. An option has a description, and
    `values` that may follow the option."""

    context: str
    name: str
    text: str = ""
    values: tuple[str, ...] = ()


def words() -> list[Word]:
    """The commands, their algorithms, games and papers, and their options."""
    result = [Word("", command, text) for command, text in COMMANDS.items()]
    after: dict[str, Iterable[str]] = {"train": ALGORITHMS, "doctor": ALGORITHMS, "starts": GAMES, "completion": SHELLS}
    for command, names in {**after, "sweep": [f"{paper}:" for paper in papers()]}.items():
        result += [Word(command, name) for name in names]
    for command in [c for c in COMMANDS if c not in (*WITHOUT_OPTIONS, "train", "doctor")]:
        result += of_options(command, options(command, []))
    for algorithm in ALGORITHMS:
        of_run = options("train", [algorithm])
        result += [*of_options(f"train {algorithm}", of_run), *of_options(f"doctor {algorithm}", of_run)]
        result.append(Word(f"doctor {algorithm}", "--machine", "File that describes a machine"))
    names = [word.name for word in result if word.context == "train ppo"]
    for name, text in CHANGEABLE.items():
        forms = dict.fromkeys([flag(name), flag(name.rpartition(".")[2])])
        result += [Word("resume", form, text) for form in forms if form in names]
    return result


def options(command: str, words: list[str]) -> list[Option]:
    """The options that the help of a command describes."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            function_of(command)([*words, "--help"])
    except HelpPrinted as e:
        return e.options
    return []


def of_options(context: str, options: Iterable[Option]) -> Iterator[Word]:
    """Words for the full name of each option and, if unique, for the name without its group."""
    flags = [option.flag for option in options]
    for option in options:
        bare = option.flag[2:].rpartition(".")[2]
        short = ["--" + bare] if named(bare, flags) == [option.flag] else []
        for name in dict.fromkeys([option.flag, *["--env"] * (option.flag == "--env.id"), *short]):
            yield Word(context, name, option.text.partition(". ")[0].rstrip("."), option.choices)


def bash(words: Iterable[Word]) -> str:
    table: dict[str, list[str]] = {}
    for word in words:
        key = f"{word.context} {'--' if word.name.startswith('--') else ':'}"
        table.setdefault(key, []).append(word.name)
        table.update({word.name: [*word.values]} if word.values else {})
    table |= {f"{command} --": table[f"{command} ppo --"] for command in ("train", "doctor")}  # for users' algorithms
    return BASH.replace("@table", "\n".join(f"{key} = {' '.join(names)}" for key, names in table.items()))


def fish(words: Iterable[Word]) -> str:
    lines = ["# Completion of accel-rl for fish, by `accel-rl completion fish`."]
    for word in words:
        seen = [f"__fish_seen_subcommand_from {w}" for w in word.context.split()]
        if word.name.startswith("--"):
            what = f"-l {word.name[2:]}" + (f" -x -a {_quoted(word.values)}" if word.values else "")
        else:
            seen.append(f"test (count (commandline -opc)) -eq {len(seen) + 1}")
            what = f"-a {word.name}" + " -f" * (not word.context)
        lines.append(f"complete -c accel-rl -n {_quoted(['; and '.join(seen)])} {what} -d {_quoted([word.text])}")
    return "\n".join(lines) + "\n"


def _quoted(words: Iterable[str]) -> str:
    return "'" + " ".join(words).replace("'", "") + "'"


def main(argv: list[str]) -> int:
    if asked(argv):
        print_help(USAGE)
        return 0
    (shell,), options = positionals(argv, ["the shell (bash, zsh or fish)"], "accel-rl completion")
    if options:
        raise ConfigError(f"accel-rl completion takes no options; got {options[0]!r}")
    if shell not in SHELLS:
        raise ConfigError(f"shell {shell!r}: must be {', '.join(SHELLS)}{nearest(shell, SHELLS)}")
    stdout((fish(words()) if shell == "fish" else ZSH * (shell == "zsh") + bash(words())).rstrip())
    return 0
