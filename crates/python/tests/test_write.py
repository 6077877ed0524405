"""Traces that are written: step by step, converted, encoded."""

from __future__ import annotations

from pathlib import Path
from typing import Callable

import pytest
import unspool
from conftest import EXAMPLES, Lines

NOP = 0xD503201F


def loop(writer: unspool.Writer, laps: int) -> None:
    """A loop that stores a counter."""
    for lap in range(laps):
        writer.instruction(0x8000, 0x91000421, registers={"x1": lap + 1})  # add x1, x1, #1
        writer.instruction(0x8004, 0xF9000001, accesses=[("write", 0x20000, (lap + 1).to_bytes(8, "little"))])  # str x1, [x0]
        taken = lap + 1 < laps
        writer.instruction(0x8008, 0x54FFFFC1, taken=taken, target=0x8000 if taken else None)  # b.ne 0x8000


def test_an_stf_file_is_read_back(tmp_path: Path, command: Callable[..., Lines]) -> None:
    path = tmp_path / "loop.stf"
    with unspool.Writer(path) as writer:
        loop(writer, 5)
        assert writer.instructions == 15
        assert not path.exists()
    assert writer.losses == {}
    steps = [step for step in unspool.open(path).steps() if step.kind == "instruction"]
    assert [step.address for step in steps] == [0x8000, 0x8004, 0x8008] * 5
    assert [write.value for step in steps for write in step.registers] == [1, 2, 3, 4, 5]
    assert [int.from_bytes(access.data or b"", "little") for step in steps for access in step.accesses] == [1, 2, 3, 4, 5]
    assert [step.taken for step in steps if step.taken is not None] == [True] * 4 + [False]
    assert command("stats", path)[0]["instructions"] == 15
    assert command("check", path)[-1]["clean"] is True


def test_an_astf_file_is_read_back(tmp_path: Path, command: Callable[..., Lines]) -> None:
    path = tmp_path / "loop.astf.xz"
    covers = ["instructions", "opcodes", "branches", "accesses", "data", "registers", "times"]
    with unspool.Writer(path, covers=covers, time_unit="us", level=0, security="nonsecure") as writer:
        writer.instruction(0x8000, NOP, time=7)
        writer.instruction(0x8004, 0xF9000001, accesses=[("write", 0x20000, 8)])
        writer.instruction(0x8008, NOP, registers={"x1": 1})
    assert writer.losses == {"registers": 1}
    steps = [step for step in unspool.open(path).steps() if step.kind == "instruction"]
    assert [step.address for step in steps] == [0x8000, 0x8004, 0x8008]
    assert [(access.direction, access.address, access.size, access.data) for access in steps[1].accesses] == [
        ("write", 0x20000, 8, None)
    ]
    assert steps[0].time == 7
    assert command("check", path)[-1]["clean"] is True


def test_all_kinds_of_steps(tmp_path: Path) -> None:
    path = tmp_path / "kinds.stf"
    covers = ["instructions", "opcodes", "exceptions", "levels", "security", "processes", "times"]
    with unspool.Writer(path, covers=covers, time_unit="ns") as writer:
        writer.context(level=0, security="nonsecure", process=12, time=5)
        writer.instruction(0x8000, 0xD4000001)  # svc #0
        writer.exception("synchronous", exception_class=0x15, call=0, return_address=0x8004, target=0x400)
        writer.context(level=1)
        writer.instruction(0x400, 0xD69F03E0)  # eret
        writer.exception_return(0x8004)
        writer.note("the end is near")
        writer.gap("overflow")
        writer.gap("no-code", address=0x9000)
        writer.instruction(0x8010, NOP, time=9)
    steps = list(unspool.open(path).steps())
    exception = next(step.exception for step in steps if step.exception)
    assert (exception.kind, exception.exception_class, exception.return_address) == ("synchronous", 0x15, 0x8004)
    assert [step.gap for step in steps if step.gap] == ["overflow", "no-code"]
    assert [step.note for step in steps if step.note] == ["the end is near"]
    levels = [step.context.level for step in steps if step.context and step.context.level is not None]
    assert levels[:2] == [0, 1]


def test_steps_of_a_trace_can_be_filtered_and_written(tmp_path: Path) -> None:
    path = tmp_path / "part.stf"
    trace = unspool.open(EXAMPLES / "hello-qemu")
    with unspool.Writer(path, covers=trace.covers) as writer:
        for step in trace.steps(function="way"):
            writer.step(step)
    expected = [it.address for it in trace.instructions(function="way")]
    assert [it.address for it in unspool.open(path).instructions()] == expected
    # Accesses and registers of a step can be given to another instruction.
    steps = [step for step in unspool.open(EXAMPLES / "sum.tarmac").steps() if step.kind == "instruction"]
    with unspool.Writer(path, force=True) as writer:
        for step in steps:
            assert step.address is not None
            writer.instruction(step.address, step.opcode, accesses=step.accesses, registers=step.registers)
    again = [step for step in unspool.open(path).steps() if step.kind == "instruction"]
    assert [step.registers for step in again] == [step.registers for step in steps]
    assert [step.accesses for step in again] == [step.accesses for step in steps]


def test_a_file_is_complete_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "none.stf"
    with pytest.raises(RuntimeError, match="stop"):
        with unspool.Writer(path) as writer:
            writer.instruction(0x8000, NOP)
            raise RuntimeError("stop")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(unspool.WriteError, match="finished"):
        writer.instruction(0x8000, NOP)
    writer = unspool.Writer(path)
    writer.instruction(0x8000, NOP)
    writer.discard()
    assert list(tmp_path.iterdir()) == []
    path.write_bytes(b"something")
    with pytest.raises(unspool.WriteError, match="force=True"):
        unspool.Writer(path)


def test_what_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="shows no format"):
        unspool.Writer(tmp_path / "file")
    with pytest.raises(unspool.WriteError, match="ASTF needs Exception levels"):
        unspool.Writer(tmp_path / "a.astf")
    with pytest.raises(unspool.WriteError) as error:
        unspool.Writer(tmp_path / "absent" / "a.stf")
    assert isinstance(error.value.__cause__, FileNotFoundError)
    with pytest.raises(ValueError, match="write STF, and convert it"):
        unspool.Writer(tmp_path / "a.tarmac")
    writer = unspool.Writer(tmp_path / "a.stf")
    with pytest.raises(ValueError, match="does not cover times"):
        writer.instruction(0x8000, NOP, time=1)
    with pytest.raises(ValueError, match="does not cover exceptions"):
        writer.exception()
    with pytest.raises(ValueError, match="unknown direction 'up'"):
        writer.instruction(0x8000, NOP, accesses=[("up", 0, 1)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="does not fit"):
        writer.instruction(0x8000, 0xE1A00000, isa="a32", registers={"r0": 1 << 40})
    with pytest.raises(TypeError, match="bytes or a number"):
        writer.instruction(0x8000, NOP, registers={"x0": "1"})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown instruction set"):
        writer.instruction(0x8000, NOP, isa="x86")  # type: ignore[arg-type]
    # None of these was written.
    writer.instruction(0x8000, NOP)
    writer.finish()
    assert sum(1 for _ in unspool.open(tmp_path / "a.stf").instructions()) == 1


def test_conversions_are_those_of_the_command_line(tmp_path: Path, traces: dict[str, Path], command: Callable[..., Lines]) -> None:
    for kind, name in [("capture", "a.stf"), ("tarmac", "b.stf.gz"), ("astf", "c.tarmac"), ("astf", "d.astf.xz")]:
        ours, theirs = tmp_path / name, tmp_path / f"cli-{name}"
        done = unspool.convert(traces[kind], ours)
        command("convert", traces[kind], "-o", theirs)
        assert ours.read_bytes() == theirs.read_bytes()
        count = sum(1 for _ in unspool.open(ours).instructions())
        assert count == sum(1 for _ in unspool.open(traces[kind]).instructions())
        assert done.instructions == (None if name == "d.astf.xz" else count)
        assert done.damage is None
    with pytest.raises(unspool.WriteError, match="force=True"):
        unspool.convert(traces["capture"], tmp_path / "a.stf")
    with pytest.raises(unspool.WriteError, match="read from this file"):
        unspool.convert(tmp_path / "a.stf", tmp_path / "a.stf", force=True)
    part = unspool.convert(traces["capture"], tmp_path / "a.stf", force=True, function="way")
    assert part.instructions == sum(1 for _ in unspool.open(traces["capture"]).instructions(function="way"))


def test_a_damaged_trace_is_converted_if_that_is_wanted(tmp_path: Path) -> None:
    whole = (EXAMPLES / "example.astf").read_bytes()
    damaged = tmp_path / "cut.astf"
    damaged.write_bytes(whole[: len(whole) * 3 // 4])
    for name in ["cut.stf", "copy.astf"]:
        with pytest.raises(unspool.DamagedError) as error:
            unspool.convert(damaged, tmp_path / name)
        assert error.value.file == str(damaged)
        assert not (tmp_path / name).exists()
        done = unspool.convert(damaged, tmp_path / name, keep_damaged=True)
        assert done.damage and list(unspool.open(tmp_path / name).instructions())


def test_a_capture_is_encoded_and_decoded(tmp_path: Path, traces: dict[str, Path]) -> None:
    path = tmp_path / "loop.stf"
    with unspool.Writer(path) as writer:
        loop(writer, 100)
    for protocol in ["ete", "etm4"]:
        capture = tmp_path / protocol
        encoded = unspool.encode(path, capture, protocol=protocol, registers={"TRCCONFIGR": 0x1001})  # type: ignore[arg-type]
        assert (encoded.instructions, encoded.cores) == (300, 1)
        assert encoded.trace_bytes == sum(packet.length for packet in unspool.open(capture).packets())
        assert [it.address for it in unspool.open(capture).instructions()] == [0x8000, 0x8004, 0x8008] * 100
    with pytest.raises(unspool.WriteError, match="force=True"):
        unspool.encode(path, tmp_path / "ete")
    assert unspool.encode(path, tmp_path / "ete", force=True).instructions == 300
    with pytest.raises(ValueError, match="no register 'TRCNONE'"):
        unspool.encode(path, tmp_path / "other", registers={"TRCNONE": 1})
    with pytest.raises(ValueError, match="unknown protocol"):
        unspool.encode(path, tmp_path / "other", protocol="itm")  # type: ignore[arg-type]
