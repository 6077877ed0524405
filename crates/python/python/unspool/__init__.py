"""Decode, convert and analyze processor instruction traces.

>>> import unspool
>>> trace = unspool.open("examples/hello-qemu")
>>> next(trace.instructions()).address == next(trace.blocks()).start
True

A trace is a capture (a directory or zip archive of CoreSight trace, a perf.data file), an ASTF file, an STF file or a Tarmac log.
:func:`open` finds out which, and :class:`Trace` iterates over it: packets, blocks, instructions, calls, steps, and tables for data frames. Only a few
thousand items are in memory at any time, and decoding continues while Python works. :class:`Writer`, :func:`convert` and :func:`encode`
write traces.
"""

from ._unspool import (
    Access,
    ArrowTable,
    Block,
    BlockIterator,
    Call,
    CallIterator,
    Context,
    Conversion,
    Encoded,
    Instruction,
    InstructionIterator,
    Packet,
    PacketIterator,
    RegisterWrite,
    Step,
    StepIterator,
    TakenException,
    Trace,
    Writer,
    convert,
    encode,
    open,
)
from .errors import DamagedError, Error, InternalError, OpenError, SelectionError, WriteError

__all__ = [
    "Access",
    "ArrowTable",
    "Block",
    "BlockIterator",
    "Call",
    "CallIterator",
    "Context",
    "Conversion",
    "DamagedError",
    "Encoded",
    "Error",
    "Instruction",
    "InstructionIterator",
    "InternalError",
    "OpenError",
    "Packet",
    "PacketIterator",
    "RegisterWrite",
    "SelectionError",
    "Step",
    "StepIterator",
    "TakenException",
    "Trace",
    "WriteError",
    "Writer",
    "convert",
    "encode",
    "open",
]
