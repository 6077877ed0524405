"""Damaged traces: everything that could be read, and where something is missing."""

from __future__ import annotations

import pickle
import random
import shutil
from pathlib import Path

import pytest
import unspool
from conftest import EXAMPLES


@pytest.fixture
def cut(tmp_path: Path) -> Path:
    """An ASTF file whose end is missing."""
    whole = (EXAMPLES / "example.astf").read_bytes()
    path = tmp_path / "cut.astf"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    return path


def test_damage_is_raised_after_what_is_before_it(cut: Path) -> None:
    items: list[unspool.Instruction] = []
    iterator = unspool.open(cut).instructions()
    with pytest.raises(unspool.DamagedError) as error:
        items.extend(iterator)
    # A list keeps what it was extended with before the exception.
    assert items
    assert (error.value.file, error.value.unit) == (str(cut), "record")
    assert error.value.position is not None and error.value.position > items[-1].position
    assert list(iterator) == []


def test_damage_can_be_collected(cut: Path) -> None:
    iterator = unspool.open(cut).instructions(damage="collect")
    items = list(iterator)
    assert items and len(iterator.damage) == 1
    assert isinstance(iterator.damage[0], unspool.DamagedError)
    blocks, steps = unspool.open(cut).blocks(damage="collect"), unspool.open(cut).steps(damage="collect")
    assert list(blocks) and len(blocks.damage) == 1
    assert list(steps) and len(steps.damage) == 1
    calls = unspool.open(cut).calls(damage="collect")
    assert sum(call.own_instructions for call in calls) == len(items)
    assert len(calls.damage) == 1
    with pytest.raises(ValueError, match="'raise' or 'collect'"):
        unspool.open(cut).instructions(damage="ignore")  # type: ignore[arg-type]


def test_errors_can_be_pickled(cut: Path) -> None:
    iterator = unspool.open(cut).instructions(damage="collect")
    list(iterator)
    copy = pickle.loads(pickle.dumps(iterator.damage[0]))
    assert isinstance(copy, unspool.DamagedError)
    assert (str(copy), copy.position) == (str(iterator.damage[0]), iterator.damage[0].position)


def test_malformed_packets_are_items_and_what_follows_is_a_gap(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    shutil.copytree(EXAMPLES / "hello-qemu", capture)
    trace = capture / "trace_0.bin"
    data = bytearray(trace.read_bytes())
    whole = list(unspool.open(capture).packets())
    data[whole[len(whole) // 2].offset] = 0x04  # with its bit 0, which is elsewhere in the frame, a header that is not sent
    trace.write_bytes(data)
    packets = list(unspool.open(capture).packets())
    malformed = [packet for packet in packets if packet.kind == "malformed"]
    assert malformed and all(packet.error and packet.text and packet.fields == {} for packet in malformed)
    steps = unspool.open(capture).steps(damage="collect")
    assert "damaged" in [step.gap for step in steps]


def test_a_source_that_cannot_be_read_does_not_hide_the_next(tmp_path: Path) -> None:
    capture = tmp_path / "capture"
    shutil.copytree(EXAMPLES / "hello-ete", capture)
    ini = capture / "ete_0.ini"
    ini.write_text(ini.read_text().replace("type=ETE", "type=STM"))
    iterator = unspool.open(capture).instructions()
    with pytest.raises(unspool.OpenError, match="ETE_0"):
        next(iterator)
    assert {instruction.core for instruction in iterator} == {1}


@pytest.mark.parametrize("name", ["example.astf", "sum.tarmac", "hello.perf.data", "hello-qemu/trace_0.bin", "hello-ete/trace.bin"])
def test_no_damage_crashes(tmp_path: Path, name: str) -> None:
    """Random damage ends in items or in an Error, and never in a panic."""
    generator = random.Random(name)
    for _ in range(60):
        folder = tmp_path / "damaged"
        shutil.rmtree(folder, ignore_errors=True)
        source = EXAMPLES / name
        if source.parent != EXAMPLES:
            shutil.copytree(source.parent, folder)
        else:
            folder.mkdir()
        data = bytearray(source.read_bytes())
        for _ in range(generator.randint(1, 4)):
            data[generator.randrange(len(data))] = generator.randrange(256)
        (folder / source.name).write_bytes(data[: generator.randint(len(data) // 2, len(data))])
        path = folder if source.parent != EXAMPLES else folder / source.name
        try:
            trace = unspool.open(path)
            repr(list(trace.steps(damage="collect")))
            repr(list(trace.instructions(damage="collect")))
            repr(list(trace.blocks(damage="collect")))
            repr(list(trace.calls(damage="collect")))
            for packet in trace.packets(damage="collect"):
                assert packet.text and isinstance(packet.fields, dict)
        except unspool.InternalError:
            raise
        except unspool.Error:
            pass
