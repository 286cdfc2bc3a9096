"""Properties of an engine that follow from its name."""

DEVICE_ENGINES = ("device",)


class NamesEngine:
    """Base class of settings and plans that contain the name of an engine."""

    __slots__ = ()
    engine: str

    @property
    def has_workers(self) -> bool:
        """Whether worker processes step the environments."""
        return self.engine == "workers"

    @property
    def on_device(self) -> bool:
        """Whether Atari is emulated on the learner's device."""
        return self.engine in DEVICE_ENGINES
