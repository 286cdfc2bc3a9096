"""Sections of a report's page."""

from collections.abc import Sequence
from dataclasses import dataclass

from accel_rl.results.table import Table


@dataclass(frozen=True)
class Picture:
    """`narrow` is the PNG for a phone, if it differs."""

    png: bytes
    caption: str
    narrow: bytes = b""


@dataclass(frozen=True)
class Section:
    """Notes, followed by pictures, followed by tables."""

    title: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, *tables: Table) -> "Section":
        """The title is that of the first table."""
        return cls(tables[0].title, tables=tables)
