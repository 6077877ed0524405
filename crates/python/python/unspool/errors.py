"""Exceptions of unspool. All of them are an :class:`Error`, and have the place where something is wrong as far as it is known."""

from __future__ import annotations

__all__ = ["Error", "OpenError", "DamagedError", "SelectionError", "WriteError", "InternalError"]


class Error(Exception):
    """What unspool could not do.

    Attributes:
        file: Path of the file or directory, if it is about one.
        position: Where it is wrong: an offset, a record or a line.
        unit: What ``position`` counts: ``"offset"``, ``"record"``, ``"line"`` or ``"step"``.
    """

    file: str | None
    position: int | None
    unit: str | None

    def __init__(
        self, message: str, *, file: str | None = None, position: int | None = None, unit: str | None = None
    ) -> None:
        super().__init__(message)
        self.file = file
        self.position = position
        self.unit = unit if position is not None else None


class OpenError(Error):
    """A trace or one of its sources cannot be read. If the system refused it, ``__cause__`` is its ``OSError``."""


class DamagedError(Error):
    """A trace is damaged. What comes after the damage can still be read: see ``damage`` of :meth:`Trace.instructions`."""


class SelectionError(Error):
    """A trace does not have what was selected: a source, a function, a process, times."""


class WriteError(Error):
    """A file cannot be written, or its format cannot express a step."""


class InternalError(Error):
    """A defect of unspool, which should be reported. The trace that was read may be incomplete."""
