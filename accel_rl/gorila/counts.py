"""What became of a learner's pushes."""

from dataclasses import dataclass

from accel_rl.gorila.messages import Answer

_NAMES: dict[Answer | None, str] = {
    "accepted": "accepted",
    "stale": "stale",
    "duplicate": "duplicates",
    "not finite": "refused",
    None: "lost",
}


@dataclass(slots=True)
class PushCounts:
    """Numbers of a learner's pushes by the shards' answers; an update is one push to each shard."""

    accepted: int = 0
    stale: int = 0
    duplicates: int = 0
    refused: int = 0
    """Pushes that a shard found not finite."""
    lost: int = 0
    """Pushes without an answer: the shard may have made the update, or not."""
    outliers: int = 0
    """Gradients that the learner itself discarded, for the loss of their batch. They are not pushed."""
    outliers_won: int = 0
    """Those whose batch has a reward above 0."""
    batches_won: int = 0
    """Batches with a reward above 0, as far as the guard is on."""

    def note(self, answer: Answer | None) -> None:
        """Count a push. None: it was not answered."""
        name = _NAMES[answer]
        setattr(self, name, getattr(self, name) + 1)
