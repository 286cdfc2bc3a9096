"""The phases of a sampler."""

from enum import Enum


class Phase(Enum):
    """What the environments are doing.

    IDLE --begin--> RUNNING --finish--> IDLE
                    RUNNING --begin the next--> AHEAD --finish--> RUNNING
    """

    IDLE = "idle"  # they wait for the first action of a rollout
    RUNNING = "running"  # they play a rollout
    AHEAD = "ahead"  # they play one rollout to its end, and where they can the next one
