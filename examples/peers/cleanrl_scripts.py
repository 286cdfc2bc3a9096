"""Runs CleanRL's own scripts on the emulator: `python cleanrl_scripts.py CLEANRL/cleanrl/ppo_atari_envpool.py
--num-envs 8`.

This program changes the constructor in a script of a checkout of https://github.com/vwxyzjn/cleanrl, prints the change,
and runs the script with the remaining arguments. The supported scripts are ppo_atari_envpool.py, pqn_atari_envpool.py
(both import Gym before 0.26), ppo_atari.py and dqn_atari.py.
"""

import difflib
import re
import runpy
import sys
import tempfile
from pathlib import Path

ENVPOOL = (r"^import envpool\n", "from accel_rl.compat import envpool\n")
VECTOR = (
    r"envs = gym\.vector\.SyncVectorEnv\(\n.*?\n    \)\n",
    "envs = gymnasium_029.make(args.env_id, args.num_envs, args.seed)\n",
)
GYMNASIUM = (r"^import gymnasium as gym\n", "import gymnasium as gym\nfrom accel_rl.emulator import gymnasium_029\n")
CHANGES = {
    "ppo_atari_envpool.py": [ENVPOOL],
    "pqn_atari_envpool.py": [ENVPOOL],
    "ppo_atari.py": [GYMNASIUM, VECTOR],
    "dqn_atari.py": [GYMNASIUM, VECTOR],
}


def changed(script: Path) -> str:
    """Replace the constructor of environments in a script by that of accel_rl's emulator."""
    text = script.read_text()
    for pattern, instead in CHANGES[script.name]:
        text, n = re.subn(pattern, instead, text, flags=re.MULTILINE | re.DOTALL)
        if n != 1:
            raise SystemExit(f"{script}: {pattern!r} was found {n} times, not once: another version of CleanRL")
    return text


if __name__ == "__main__":
    given = Path(sys.argv[1])
    text = changed(given)
    before, after = given.read_text().splitlines(), text.splitlines()
    print("\n".join(difflib.unified_diff(before, after, "CleanRL", "here", n=0, lineterm="")))
    sys.path.insert(0, str(given.resolve().parents[1]))  # Scripts import cleanrl_utils from the checkout.
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / given.name
        script.write_text(text)
        sys.argv = [str(script), *sys.argv[2:]]
        runpy.run_path(str(script), run_name="__main__")
