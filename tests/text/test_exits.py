import os
import sys

import pytest

from accel_rl.text.errors import no_exit


@pytest.mark.parametrize(("module", "name"), [(sys, "exit"), (os, "_exit")])
def test_an_exit_is_an_error(module, name):
    before = os._exit
    with pytest.raises(ValueError) as error, no_exit(ValueError):
        getattr(module, name)(3)
    assert str(error.value) == f"its code called {module.__name__}.{name}(3)" and os._exit is before


def test_a_forked_process_exits():
    with no_exit(ValueError):
        pid = os.fork()
        if not pid:
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
