"""Types of arguments and properties, for annotations."""

from __future__ import annotations

from os import PathLike
from typing import List, Literal, Optional, Tuple, TypedDict, Union

__all__ = ["AddressRange", "Damage", "Direction", "ExceptionKind", "Format", "Isa", "Path", "Range", "Security", "Selection", "Table", "TimeUnit"]

Path = Union[str, "PathLike[str]"]
"""A path."""

Isa = Literal["a64", "a32", "t32", "rv32", "rv64"]
"""An instruction set."""

Format = Literal["astf", "stf", "tarmac"]
"""A format of trace files."""

TimeUnit = Literal["s", "ms", "us", "ns", "ps", "cycles"]
"""A unit of times."""

Direction = Literal["read", "write", "both", "neither"]
"""Direction of a memory access."""

ExceptionKind = Literal["unknown", "reset", "synchronous", "irq", "fiq", "serror", "debug"]
"""Kind of an exception."""

Security = Literal["secure", "nonsecure", "root", "realm"]
"""A Security state."""

Table = Literal["sources", "blocks", "instructions", "calls", "accesses", "events"]
"""A table, as docs/tables.md describes it."""

Damage = Literal["raise", "collect"]
"""What iteration does at damage."""

AddressRange = Union[int, Tuple[Optional[int], Optional[int]]]
"""An address, or the first address and the one after the last."""

Range = Tuple[Optional[int], Optional[int]]
"""A start and an end, which is not part of it. Either may be None."""


class Selection(TypedDict, total=False):
    """Keyword arguments that select a part of the execution: see :class:`unspool.Trace`."""

    function: Union[str, List[str], None]
    address: Union[AddressRange, List[AddressRange], None]
    level: Union[int, List[int], None]
    mode: Literal["user", "kernel", None]
    process: Union[int, str, List[Union[int, str]], None]
    time: Optional[Range]
    instructions: Optional[Range]
