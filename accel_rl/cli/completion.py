"""The command accel-rl completion SHELL prints a script with which bash, zsh or fish completes commands and options.

The script contains all words in tables, so that a completion does not start Python.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from accel_rl.cli.main import COMMANDS, function_of
from accel_rl.envs.atari_games import GAMES
from accel_rl.parsing import arguments
from accel_rl.parsing.arguments import positionals, stdout
from accel_rl.parsing.help import Option, asked
from accel_rl.settings.changeable import CHANGEABLE, flag
from accel_rl.settings.registry import ALGORITHMS, papers
from accel_rl.text.errors import ConfigError, nearest

SHELLS = {
    "bash": "accel-rl completion bash > ~/.local/share/bash-completion/completions/accel-rl",
    "zsh": "accel-rl completion zsh > ~/.accel-rl.zsh, and in ~/.zshrc: source ~/.accel-rl.zsh",
    "fish": "accel-rl completion fish > ~/.config/fish/completions/accel-rl.fish",
}
WITHOUT_OPTIONS = ("games", "completion")
OF_ALGORITHM = ("train", "doctor")
"""Commands whose first argument is an algorithm, on which their options depend."""
USAGE = """usage: accel-rl completion SHELL

Print a script that completes commands, algorithms, options and values with the tab key. SHELL is bash, zsh or fish.
Install it once, and begin a new shell:

""" + "\n".join(f"  {line}" for line in SHELLS.values())


@dataclass(frozen=True, slots=True)
class Words:
    """`Words` has the words that a shell may complete. A context is a command, such as `resume`, or a command with its
    algorithm, such as `train ppo`."""

    first: Mapping[str, Iterable[str]]
    """Maps each command to the words that may follow it. Any further arguments are completed as files."""
    flags: Mapping[str, Mapping[str, str]]
    """Maps each context to a map from its flags to the first sentence of each flag's description. Flags that contain a
    point are full names."""
    values: Mapping[str, tuple[str, ...]]
    """Maps each flag to the words that may follow it."""

    @classmethod
    def collect(cls) -> "Words":
        """Collect the words from the options of all commands."""
        contexts = {command: [command] for command in COMMANDS if command not in WITHOUT_OPTIONS}
        for command in OF_ALGORITHM:
            del contexts[command]
            contexts |= {f"{command} {algorithm}": ["train", algorithm] for algorithm in ALGORITHMS}
        flags, values = dict[str, dict[str, str]](), dict[str, tuple[str, ...]]()
        collected = dict[tuple[str, ...], list[Option]]()
        for context, (command, *words) in contexts.items():
            if (key := (command, *words)) not in collected:
                collected[key] = options(command, words)
            flags[context] = {}
            for option in collected[key]:
                for name in _names(option, collected[key]):
                    flags[context][name] = option.text.partition(". ")[0].rstrip(".")
                    values |= {name: option.choices} if option.choices else {}
        for algorithm in ALGORITHMS:
            flags[f"doctor {algorithm}"]["--machine"] = "File that describes a machine"
        for name, text in CHANGEABLE.items():
            short = "--" + name.rpartition(".")[2].replace("_", "-")
            flags["resume"] |= {flag(name): text, **({short: text} if short in flags["train ppo"] else {})}
        first = dict.fromkeys(OF_ALGORITHM, tuple(ALGORITHMS))
        return cls(
            {**first, "starts": GAMES, "completion": SHELLS, "sweep": [f"{p}:" for p in papers()]}, flags, values
        )


def options(command: str, words: list[str]) -> list[Option]:
    """Return the options of a command."""
    with arguments.collected() as result:
        function_of(command)([*words, "--help"])
    return result


def _names(option: Option, options: Iterable[Option]) -> list[str]:
    """Return the names of an option: the full name and, if it is unique, the name without its group."""
    short = "--" + option.flag[2:].rpartition(".")[2]
    of_env = ["--env"] if option.flag == "--env.id" else []
    same = [o for o in options if o.flag[2:].rpartition(".")[2] == short[2:]]
    return [option.flag, *of_env, *([short] if len(same) == 1 and short != option.flag else [])]


def bash(words: Words) -> str:
    """Return the completion script for bash."""
    first = [f"    {command}) words={_quoted(names)} ;;" for command, names in words.first.items()]
    flags = [f"    {_quoted([context])}) flags={_quoted(names)} ;;" for context, names in words.flags.items()]
    values = [f"    {flag}) words={_quoted(names)} ;;" for flag, names in words.values.items()]
    return "\n".join([
        "# Completion of accel-rl for bash, by `accel-rl completion bash`.",
        "_accel_rl() {",
        "  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}",
        "  local context=$command words= flags=",
        f'  [[ " {" ".join(OF_ALGORITHM)} " == *" $command "* ]] && context="$command ${{COMP_WORDS[2]}}"',
        "  if (( COMP_CWORD == 1 )); then",
        f'    COMPREPLY=($(compgen -W {_quoted(COMMANDS)} -- "$cur")); return',
        "  fi",
        '  case "$prev" in',
        *values,
        "  esac",
        '  if [[ -z $words && $cur == -* ]]; then',
        '    case "$context" in',
        *flags,
        # For a user's algorithm, the flags of PPO are completed.
        *(f'    "{command} "*) flags={_quoted(words.flags[f"{command} ppo"])} ;;' for command in OF_ALGORITHM),
        "    esac",
        "    # Full names with a point are offered after the point.",
        '    [[ $cur != *.* ]] && flags=$(printf "%s\\n" $flags | grep -v "\\.")',
        '    words=$flags',
        '  elif [[ -z $words && $COMP_CWORD == 2 ]]; then',
        '    case "$command" in',
        *first,
        "    esac",
        "  fi",
        '  COMPREPLY=($(compgen -W "$words" -- "$cur"))',
        # Bash splits words at colons, so the part before the colon is removed from the completions.
        "  [[ -n $BASH_VERSION ]] && declare -F __ltrim_colon_completions > /dev/null &&",
        '    __ltrim_colon_completions "$cur"',
        "}",
        "complete -o bashdefault -o default -F _accel_rl accel-rl",
    ]) + "\n"  # fmt: skip


def zsh(words: Words) -> str:
    """Return the completion script for zsh, which runs the script for bash."""
    return "autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit\n" + bash(words)


def fish(words: Words) -> str:
    """Return the completion script for fish."""
    lines = [
        "# Completion of accel-rl for fish, by `accel-rl completion fish`.",
        "complete -c accel-rl -n __fish_use_subcommand -f",
    ]
    for command, text in COMMANDS.items():
        lines.append(f"complete -c accel-rl -n __fish_use_subcommand -f -a {command} -d {_quoted([text])}")
    for command, names in words.first.items():
        test = _quoted([f"__fish_seen_subcommand_from {command}; and test (count (commandline -opc)) -eq 2"])
        lines.append(f"complete -c accel-rl -n {test} -a {_quoted(names)}")
    for context, flags in words.flags.items():
        seen = "; and ".join(f"__fish_seen_subcommand_from {word}" for word in context.split())
        for name, text in flags.items():
            value = f" -x -a {_quoted(words.values[name])}" if name in words.values else ""
            lines.append(f"complete -c accel-rl -n {_quoted([seen])} -l {name[2:]}{value} -d {_quoted([text])}")
    return "\n".join(lines) + "\n"


def _quoted(words: Iterable[str]) -> str:
    return "'" + " ".join(words).replace("'", "") + "'"


def main(argv: list[str]) -> int:
    """Run the command accel-rl completion SHELL."""
    if asked(argv):
        stdout(USAGE)
        return 0
    (shell,), options = positionals(argv, ["the shell (bash, zsh or fish)"], "accel-rl completion")
    if options:
        raise ConfigError(f"accel-rl completion takes no options; got {options[0]!r}")
    if shell not in SHELLS:
        raise ConfigError(f"shell {shell!r}: must be {', '.join(SHELLS)}{nearest(shell, SHELLS)}")
    stdout({"bash": bash, "zsh": zsh, "fish": fish}[shell](Words.collect()).rstrip())
    return 0
