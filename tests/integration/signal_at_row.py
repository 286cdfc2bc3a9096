"""Run accel_rl, and send the process a signal as soon as metrics.csv has ROWS rows.

    python -m tests.integration.signal_at_row ROWS SIGNAL train a2c ...

The signal is sent from within the process, because a short run ends within milliseconds after a row.
"""

import os
import sys

from accel_rl.cli.main import main
from accel_rl.metrics.sinks import CsvSink, Row


def install(rows: int, number: int) -> None:
    write = CsvSink.write

    def write_and_signal(self: CsvSink, row: Row) -> None:
        write(self, row)
        if self.rows == rows:
            os.kill(os.getpid(), number)

    CsvSink.write = write_and_signal  # type: ignore[method-assign]


if __name__ == "__main__":
    install(int(sys.argv[1]), int(sys.argv[2]))
    sys.exit(main(sys.argv[3:]))
