"""A setting may name a class with arguments, such as StopAtScore(score=18). The arguments are plain Python values."""

import ast
from typing import Any

from accel_rl.system.errors import ConfigError


def parse_call(text: str, flag: str, form: str) -> tuple[str, dict[str, Any]]:
    """Return (name, arguments) of `name` or `name(argument=value, ...)`. Values are Python literals. Raises a
    ConfigError that begins with `flag` and has the allowed form."""
    name, bracket, rest = text.partition("(")
    try:
        call = ast.parse(f"f({rest}" if bracket else "f()", mode="eval").body
        assert isinstance(call, ast.Call) and not call.args
        arguments = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords if k.arg}
    except (SyntaxError, ValueError, AssertionError) as e:
        raise ConfigError(f"{flag} {text}: must be {form} or {form}(name=value, ...) with plain values") from e
    return name, arguments
