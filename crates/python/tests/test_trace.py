"""Iteration has what the command line reports."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Callable

import pytest
import unspool
from conftest import EXAMPLES, Lines

KINDS = ["capture", "several sources", "perf.data", "astf", "stf", "tarmac"]


@pytest.fixture(params=KINDS)
def path(request: pytest.FixtureRequest, traces: dict[str, Path]) -> Path:
    return traces[request.param]


def totals(lines: Lines) -> Counter[str]:
    """Totals of the lines with the counts of steps."""
    counts: Counter[str] = Counter()
    for line in lines:
        if line["kind"] == "steps":
            keys = ["instructions", "taken", "exceptions", "gaps", "registers", "reads", "read_bytes", "writes", "written_bytes"]
            counts.update({key: line[key] for key in keys})
    return counts


def test_steps_add_up_to_the_statistics(path: Path, command: Callable[..., Lines]) -> None:
    expected = totals(command("stats", path))
    found = Counter({key: 0 for key in expected})
    for step in unspool.open(path).steps():
        found["instructions"] += step.kind == "instruction"
        found["exceptions"] += step.kind == "exception"
        found["gaps"] += step.kind == "gap"
        found["taken"] += step.taken is True
        found["registers"] += len(step.registers)
        for access in step.accesses:
            names = {"read": ("reads", "read_bytes"), "write": ("writes", "written_bytes")}.get(access.direction)
            if names:
                found.update({names[0]: 1, names[1]: access.size})
    assert found == expected


def test_instructions_and_blocks_are_those_of_the_steps(path: Path) -> None:
    trace = unspool.open(path)
    steps = [step for step in trace.steps() if step.kind == "instruction"]
    instructions = list(trace.instructions())
    assert [(it.core, it.position, it.address, it.opcode, it.taken, it.target, it.time) for it in instructions] == [
        (it.core, it.position, it.address, it.opcode, it.taken, it.target, it.time) for it in steps
    ]
    blocks = list(trace.blocks())
    assert sum(block.instructions for block in blocks) == len(instructions)
    assert sum(block.follows_gap for block in blocks) == sum(it.follows_gap for it in instructions)
    assert sum(block.end - block.start for block in blocks) == sum(it.length for it in instructions)


def test_instructions_are_those_that_the_command_line_decodes(traces: dict[str, Path], command: Callable[..., Lines]) -> None:
    for path in [traces["capture"], traces["several sources"]]:
        lines = [line for line in command("decode", path) if line["kind"] == "instruction"]
        expected = [(int(it["address"], 16), int(it["opcode"], 16), it["isa"], it["text"]) for it in lines]
        found = [(it.address, it.opcode, it.isa, it.text) for it in unspool.open(path).instructions()]
        assert found == expected


def test_packets_are_those_of_the_command_line(traces: dict[str, Path], command: Callable[..., Lines]) -> None:
    for path in [traces["capture"], traces["several sources"], traces["perf.data"]]:
        lines = [line for line in command("packets", path) if line["kind"] != "summary"]
        packets = list(unspool.open(path).packets())
        assert [(it.kind, it.offset, it.length) for it in packets] == [
            (it["kind"], it["offset"], it["length"]) for it in lines
        ]
        assert all(it.text and it.error is None for it in packets)
        for packet, line in zip(packets, lines):
            # JSON has addresses as text.
            fields = {name: int(line[name], 16) if str(line[name]).startswith("0x") else line[name] for name in packet.fields}
            assert packet.fields == fields


def test_packets_are_those_of_a_capture_only(traces: dict[str, Path]) -> None:
    with pytest.raises(unspool.OpenError, match="this is an ASTF file, not a capture"):
        unspool.open(traces["astf"]).packets()


def test_calls_are_those_of_the_command_line(path: Path, command: Callable[..., Lines]) -> None:
    trace = unspool.open(path)
    lines = [line for line in command("calls", path) if line["kind"] == "call"]
    calls = list(trace.calls())
    unit = trace.position_unit
    assert [
        (it.depth, it.address, it.began, it.ended, it.position, it.last_position, it.instructions, it.own_instructions)
        for it in calls
    ] == [
        (
            it["depth"], int(it["address"], 16), it["began"], it["ended"], it[unit], it[f"last_{unit}"],
            it["instructions"], it["own_instructions"],
        )
        for it in lines
    ]
    assert [it.name for it in calls if it.name] == [it["name"] for it in lines if "0x" not in it["name"]]
    shallow = list(trace.calls(depth=0))
    assert shallow == [it for it in calls if it.depth == 0]
    assert all(it.began in ("called", "start") for it in trace.calls(complete=True))
    assert all((it.time is not None) == ("times" in trace.covers) for it in calls)


def test_selections_are_those_of_the_command_line(traces: dict[str, Path], command: Callable[..., Lines]) -> None:
    rows: list[tuple[str, dict[str, Any], list[str]]] = [
        ("capture", {"function": "way"}, ["--function", "way"]),
        ("capture", {"function": ["way", "say"]}, ["--function", "way", "--function", "say"]),
        ("capture", {"address": 0x4001B0}, ["--address", "0x4001b0"]),
        ("capture", {"address": [(0x4001B0, 0x4001C0), 0x4001C4]}, ["--address", "0x4001b0..0x4001c0", "--address", "0x4001c4"]),
        ("several sources", {"level": 1}, ["--level", "1"]),
        ("several sources", {"mode": "kernel"}, ["--mode", "kernel"]),
        ("several sources", {"source": "ETE_1"}, ["--source", "ETE_1"]),
        ("several sources", {"process": 0x1234}, ["--process", "0x1234"]),
        ("astf", {"time": (101, None)}, ["--time", "101.."]),
        ("tarmac", {"time": (2, 5), "address": (0, 0x8010)}, ["--time", "2..5", "--address", "0..0x8010"]),
    ]
    for kind, selection, options in rows:
        path = traces[kind]
        expected = totals(command("stats", path, *options))["instructions"]
        trace = unspool.open(path)
        assert 0 < expected, options
        assert len(list(trace.instructions(**selection))) == expected, options
        assert sum(block.instructions for block in trace.blocks(**selection)) == expected, options
        assert [step.kind for step in trace.steps(**selection)].count("instruction") == expected, options
    whole = [it.address for it in unspool.open(traces["capture"]).instructions()]
    part = unspool.open(traces["capture"]).instructions(instructions=(10, 20))
    assert [it.address for it in part] == whole[10:20]


def test_what_cannot_be_selected_is_an_error(traces: dict[str, Path]) -> None:
    capture = unspool.open(traces["capture"])
    with pytest.raises(unspool.SelectionError, match="no function 'absent'") as error:
        capture.instructions(function="absent")
    assert error.value.file == str(traces["capture"])
    with pytest.raises(unspool.SelectionError, match="the trace has none"):
        next(capture.instructions(time=(1, 2)))
    with pytest.raises(unspool.SelectionError, match="no source 'ETE_7'"):
        capture.instructions(source="ETE_7")
    with pytest.raises(ValueError, match="ends before b"):
        capture.instructions(instructions=(2, 2))
    with pytest.raises(ValueError, match="0 to 3"):
        capture.instructions(level=4)
    with pytest.raises(TypeError, match="unexpected keyword argument 'where'"):
        capture.instructions(where=1)  # type: ignore[call-arg]


def test_what_a_trace_is() -> None:
    ete = unspool.open(EXAMPLES / "hello-ete")
    assert (ete.kind, ete.position_unit, ete.sources) == ("capture", "offset", ["ETE_0", "ETE_1"])
    assert {"instructions", "opcodes", "branches"} <= set(ete.covers)
    astf = unspool.open(str(EXAMPLES / "example.astf"))
    assert (astf.kind, astf.position_unit, astf.sources, astf.time_unit) == ("astf", "record", [], "us")
    assert repr(astf).startswith("Trace(path=")


def test_what_is_unknown_is_none(traces: dict[str, Path]) -> None:
    first = next(unspool.open(traces["capture"]).instructions())
    assert (first.time, first.is_executed, first.taken, first.target) == (None, None, None, None)
    assert first.follows_gap is True
    assert repr(first) == "Instruction(address=0x4001b0, opcode=0xa9be7bfd, isa='a64')"
    step = next(step for step in unspool.open(traces["capture"]).steps() if step.kind == "gap")
    assert (step.opcode, step.isa, step.note, step.context, step.accesses, step.registers) == (None, None, None, None, [], [])
    assert step.gap == "start"


def test_items_are_frozen_and_compare(traces: dict[str, Path]) -> None:
    trace = unspool.open(traces["capture"])
    first, again = next(trace.instructions()), next(trace.instructions())
    assert first == again and first is not again
    with pytest.raises(AttributeError):
        first.address = 1  # type: ignore[misc]


def test_registers_and_accesses_have_values(traces: dict[str, Path]) -> None:
    steps = list(unspool.open(traces["tarmac"]).steps())
    written = [write for step in steps for write in step.registers]
    assert written and all(write.value == int.from_bytes(write.data or b"", "little") for write in written)
    stored = [access for step in steps for access in step.accesses if access.direction == "write"]
    assert stored and all(len(access.data or b"") == access.size for access in stored)


def test_symbols(traces: dict[str, Path]) -> None:
    trace = unspool.open(traces["stf"])
    address = next(trace.instructions()).address
    assert trace.function(address) is None
    assert unspool.open(traces["stf"], image=EXAMPLES / "hello-qemu" / "hello").function(address) == "_start"
    assert unspool.open(traces["stf"], image=[EXAMPLES / "hello-qemu" / "hello"]).function(address) == "_start"


def test_the_interpreter_is_free_while_a_trace_is_read(traces: dict[str, Path]) -> None:
    """Another thread makes progress while one waits for items."""
    ticks, done = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not done.is_set():
            ticks += 1
            time.sleep(0)

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        for _ in range(20):
            assert sum(1 for _ in unspool.open(traces["capture"]).instructions()) == 133
    finally:
        done.set()
        thread.join()
    assert ticks > 20


def test_iterators_can_be_dropped_and_used_from_another_thread(traces: dict[str, Path]) -> None:
    iterator = unspool.open(traces["capture"]).instructions()
    next(iterator)
    rest: list[int] = []
    thread = threading.Thread(target=lambda: rest.append(sum(1 for _ in iterator)))
    thread.start()
    thread.join()
    assert rest == [132]
    for _ in range(50):
        next(unspool.open(traces["capture"]).instructions())


def test_errors_name_the_file(tmp_path: Path) -> None:
    absent = tmp_path / "absent.stf"
    with pytest.raises(unspool.OpenError, match="absent.stf") as error:
        unspool.open(absent)
    assert error.value.file == str(absent)
    assert isinstance(error.value.__cause__, FileNotFoundError)
    assert (error.value.position, error.value.unit) == (None, None)
    with pytest.raises(unspool.Error, match="this is an ELF program"):
        unspool.open(EXAMPLES / "hello-qemu" / "hello")
    with pytest.raises(TypeError):
        unspool.open(7)  # type: ignore[arg-type]


def test_a_panic_is_an_exception() -> None:
    from unspool import _unspool

    panic = getattr(_unspool, "panic_in_library", None)
    if panic is None:
        assert os.environ.get("UNSPOOL_STRICT") != "1", "built without the feature test-support"
        pytest.skip("built without the feature test-support")
    with pytest.raises(unspool.InternalError, match="a defect of unspool: as the test wants it"):
        panic()
