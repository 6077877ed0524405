"""A capture with many synchronization points: a loop with calls and branches of random outcome, at addresses above 2^63."""

from __future__ import annotations

import random
from pathlib import Path

import unspool

START = 0xFFFFFFC008010000


def make_capture(folder: Path) -> Path:
    """Makes the capture in a folder; returns its path."""
    chance = random.Random(31)
    with unspool.Writer(folder / "loop.stf") as writer:
        for _ in range(60_000):
            is_taken = chance.random() < 0.5
            writer.instruction(START, 0xD503201F)  # nop
            writer.instruction(START + 4, 0x54000060, taken=is_taken, target=START + 16)  # b.eq
            if not is_taken:
                writer.instruction(START + 8, 0x94000006, taken=True, target=START + 32)  # bl
                writer.instruction(START + 32, 0xD65F03C0, taken=True, target=START + 12)  # ret
                writer.instruction(START + 12, 0xD503201F)
            writer.instruction(START + 16, 0x17FFFFFC, taken=True, target=START)  # b
    unspool.encode(folder / "loop.stf", folder / "capture", registers={"TRCSYNCPR": 8})
    return folder / "capture"
