"""Sections of a report's page."""

from collections.abc import Sequence
from dataclasses import dataclass

from accel_rl.results.table import Table


@dataclass(frozen=True)
class Picture:
    """`narrow` is the PNG for a phone, if phones need another picture."""

    png: bytes
    caption: str
    narrow: bytes = b""


@dataclass(frozen=True)
class Section:
    """A section consists of notes, pictures and tables, in this order."""

    title: str
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, *tables: Table) -> "Section":
        """A section of tables, with the title of the first table."""
        return cls(tables[0].title, tables=tables)
