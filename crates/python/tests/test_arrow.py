"""Tables as Arrow streams, as other libraries take them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable

import duckdb
import pandas  # type: ignore[import-untyped]
import polars
import pyarrow  # type: ignore[import-untyped]
import pytest
import unspool
from unspool.types import Table

from conftest import EXAMPLES, Lines

TABLES: list[Table] = ["sources", "blocks", "instructions", "calls", "accesses", "events"]


def test_sums_are_those_of_the_command_line(traces: dict[str, Path], command: Callable[..., Lines]) -> None:
    for name, path in traces.items():
        image = EXAMPLES / "hello-qemu" / "hello" if name == "perf.data" else None
        lines = command("stats", path, *(["--image", image] if image else []))
        expected = sum(line["instructions"] for line in lines if line["kind"] == "steps")
        assert expected > 0, name
        trace = unspool.open(path, image=image)
        blocks = pyarrow.table(trace.to_arrow("blocks"))
        assert sum(blocks["instructions"].to_pylist()) == expected, name
        counted = sum(1 for _ in trace.instructions(damage="collect"))
        assert counted == expected, name


def test_every_library_takes_every_table(traces: dict[str, Path]) -> None:
    trace = unspool.open(traces["astf"])
    for name in TABLES:
        table = pyarrow.table(trace.to_arrow(name))
        rows = table.num_rows
        assert polars.DataFrame(trace.to_arrow(name)).height == rows, name
        assert len(pandas.DataFrame.from_arrow(trace.to_arrow(name))) == rows, name
        stream = pyarrow.RecordBatchReader.from_stream(trace.to_arrow(name))
        connection = duckdb.connect()
        connection.register("rows", stream)
        assert connection.execute("select count(*) from rows").fetchall() == [(rows,)], name


def test_large_addresses_are_exact(tmp_path: Path) -> None:
    log = tmp_path / "high.tarmac"
    log.write_text("1 clk IT (1) ffffffc0080102fc d503201f O EL1h_n : NOP\n")
    blocks = unspool.open(log).to_arrow("blocks")
    address = 0xFFFFFFC0080102FC
    assert pyarrow.table(blocks)["address"].to_pylist() == [address]
    assert polars.DataFrame(blocks)["address"].to_list() == [address]
    assert int(pandas.DataFrame.from_arrow(blocks)["address"][0]) == address
    connection = duckdb.connect()
    connection.register("rows", pyarrow.RecordBatchReader.from_stream(blocks))
    assert connection.execute("select address from rows").fetchall() == [(address,)]


def test_filters_reach_the_tables(traces: dict[str, Path]) -> None:
    trace = unspool.open(traces["capture"])
    selected = pyarrow.table(trace.to_arrow("blocks", function="way"))
    expected = sum(1 for _ in trace.instructions(function="way"))
    assert expected > 0
    assert sum(selected["instructions"].to_pylist()) == expected
    several = unspool.open(traces["several sources"])
    of_one = pyarrow.table(several.to_arrow("sources", source=several.sources[0]))
    assert of_one["name"].to_pylist() == [several.sources[0]]


def test_a_table_can_be_taken_again(traces: dict[str, Path]) -> None:
    table = unspool.open(traces["stf"]).to_arrow("instructions")
    assert pyarrow.table(table) == pyarrow.table(table)


def test_a_reader_may_stop_early(traces: dict[str, Path]) -> None:
    reader = pyarrow.RecordBatchReader.from_stream(unspool.open(traces["stf"]).to_arrow("blocks"))
    assert reader.read_next_batch().num_rows > 0
    reader.close()


def test_damage_is_in_the_tables(traces: dict[str, Path], tmp_path: Path) -> None:
    whole = traces["astf"].read_bytes()
    cut = tmp_path / "cut.astf"
    cut.write_bytes(whole[:-40])
    trace = unspool.open(cut)
    assert pyarrow.table(trace.to_arrow("blocks")).num_rows > 0
    assert pyarrow.table(trace.to_arrow("sources"))["problem"].to_pylist() != [None]


def test_a_trace_that_is_gone_is_an_error(traces: dict[str, Path], tmp_path: Path) -> None:
    copy = tmp_path / "copy.stf"
    shutil.copy(traces["stf"], copy)
    table = unspool.open(copy).to_arrow("blocks")
    copy.unlink()
    with pytest.raises(Exception, match="copy.stf"):
        pyarrow.table(table)


def test_an_unknown_table_is_an_error(traces: dict[str, Path]) -> None:
    with pytest.raises(ValueError, match="'blocks'"):
        unspool.open(traces["stf"]).to_arrow("rows")  # type: ignore[arg-type]


def test_calls_need_the_whole_execution(traces: dict[str, Path]) -> None:
    trace = unspool.open(traces["capture"])
    assert pyarrow.table(trace.to_arrow("calls")).num_rows == sum(1 for _ in trace.calls())
    with pytest.raises(ValueError, match="whole execution"):
        trace.to_arrow("calls", function="say")
