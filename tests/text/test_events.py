"""Events that modules log are written in their order, and only inside `output.written`."""

import logging

from accel_rl.text import output


def test_events_are_written_inside_and_nowhere_else():
    first = []
    second = []
    warnings = []
    logger = logging.getLogger("accel_rl.made_up")
    logger.info("before")
    with output.written(first.append, warnings.append):
        logger.info("shard %d was lost", 3)
        logger.debug("details")
        logger.warning("worker 1 died")
        logging.getLogger("another.library").warning("not ours")
        with output.written(second.append, warnings.append):
            logger.info("twice")
    logger.info("after")
    assert first == ["shard 3 was lost", "twice"] and second == ["twice"]
    assert warnings == ["worker 1 died"]
    assert not logging.getLogger("accel_rl").handlers
