"""Memory does not grow with the length of a trace."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path

import unspool

# Instructions to iterate over.
COUNT = int(os.environ.get("UNSPOOL_INSTRUCTIONS", 100_000_000))

# Instructions of a lap of the loop.
LAP = 3


def long_capture(folder: Path, instructions: int) -> Path:
    """A capture of a loop, whose longest atom packets are repeated."""
    short, capture = folder / "loop.stf", folder / "capture"
    with unspool.Writer(short) as writer:
        for lap in range(2000):
            writer.instruction(0x8000, 0x91000421)
            writer.instruction(0x8004, 0xD503201F)
            writer.instruction(0x8008, 0x54FFFFC1, taken=lap < 1999, target=0x8000)
    unspool.encode(short, capture)
    longest = max(unspool.open(capture).packets(), key=lambda packet: len(str(packet.fields.get("atoms", ""))))
    trace = capture / "trace_0.bin"
    data = trace.read_bytes()
    start, end = longest.offset, longest.offset + longest.length
    copies = instructions // (LAP * len(str(longest.fields["atoms"])))
    trace.write_bytes(data[:start] + data[start:end] * copies + data[start:])
    return capture


def peak() -> int:
    """Peak of the memory of this process in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def test_memory_is_flat(tmp_path: Path) -> None:
    trace = unspool.open(long_capture(tmp_path, COUNT))
    iterator = trace.instructions()
    for _ in range(100_000):
        next(iterator)
    before, started, count, addresses = peak(), time.monotonic(), 0, 0
    for instruction in iterator:
        count += 1
        addresses += instruction.address
    seconds = time.monotonic() - started
    print(f"{count} instructions in {seconds:.1f} s, {count / seconds / 1e6:.2f} million per second, {peak() - before} bytes more")
    assert count >= COUNT - 100_000
    assert count * 0x8000 <= addresses <= count * 0x8008
    assert peak() - before < 16 << 20
    assert sum(block.instructions for block in trace.blocks()) == count + 100_000
    assert peak() - before < 32 << 20
