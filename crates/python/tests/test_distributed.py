"""Tables that a cluster writes are those of one process, even if a worker is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pyarrow  # type: ignore[import-untyped]
import pyarrow.parquet  # type: ignore[import-untyped]
import pytest
import unspool
from distributed import Client, LocalCluster
from unspool.distributed import Summary, write_tables

from conftest import EXAMPLES
from large_loop import make_capture

TABLES = ["sources", "blocks", "instructions", "calls", "accesses", "events"]


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    """Four worker processes."""
    with LocalCluster(n_workers=4, threads_per_worker=1, processes=True, dashboard_address=None) as cluster:  # type: ignore[no-untyped-call]
        with Client(cluster) as client:  # type: ignore[no-untyped-call]
            yield client


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with many synchronization points."""
    return make_capture(tmp_path_factory.mktemp("capture"))


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    """Rows, sorted. The core of a source of a capture is its number here, and 0 on the command line."""
    columns = [table[name].to_pylist() for name in table.column_names if name != "core"]
    return sorted(zip(*columns), key=repr)


def of_folder(folder: Path, table: str) -> list[tuple[Any, ...]]:
    return rows_of(pyarrow.parquet.read_table(folder / table))


def of_one_process(path: Path, table: Any) -> list[tuple[Any, ...]]:
    return rows_of(pyarrow.table(unspool.open(path).to_arrow(table)))


def assert_same(many: Path, trace: Path, summary: Summary) -> None:
    assert Path(summary.folder) == many
    for table in TABLES:
        rows = of_folder(many, table)
        assert rows == of_one_process(trace, table), table
        assert summary.rows[table] == len(rows), table
    assert sorted(path.name for path in many.iterdir()) == sorted([*TABLES, "tables.json"])
    assert [path for path in many.parent.iterdir() if path.name.endswith(".part")] == []


def test_rows_are_those_of_one_process_while_a_worker_is_killed(
    client: Client, capture: Path, tmp_path: Path
) -> None:
    found: list[Summary] = []
    writing = threading.Thread(
        target=lambda: found.append(write_tables(capture, tmp_path / "many", client, shard_bytes=700))
    )
    workers: dict[str, int] = client.run(os.getpid)
    assert len(workers) == 4
    writing.start()
    victim = kill_one_that_writes(client, workers, tmp_path)
    writing.join(300)
    assert not writing.is_alive() and found, "it ends in spite of the killed worker"
    assert victim not in client.run(os.getpid).values(), "it was killed"
    assert found[0].shards > 20
    assert_same(tmp_path / "many", capture, found[0])


def kill_one_that_writes(client: Client, workers: dict[str, int], folder: Path) -> int:
    """Kills a worker that has tasks, when some files are written and not all of them."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        files = len(list(folder.glob("many.*.part/blocks/*.parquet")))
        busy = {name: tasks for name, tasks in client.processing().items() if tasks}  # type: ignore[no-untyped-call]
        if files and busy and not (folder / "many").exists():
            address = max(busy, key=lambda name: len(busy[name]))
            os.kill(workers[address], signal.SIGKILL)
            assert not (folder / "many").exists(), "tasks were running"
            return workers[address]
        time.sleep(0.005)
    raise AssertionError("no worker ever wrote")


def test_every_format(client: Client, traces: dict[str, Path], tmp_path: Path) -> None:
    for name, path in traces.items():
        many = tmp_path / name
        assert_same(many, path, write_tables(path, many, client, shard_bytes=64))


def test_a_damaged_capture_has_gaps(client: Client, capture: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    subprocess.run(["cp", "-r", capture, damaged], check=True)
    buffer = max(damaged.rglob("*.bin"), key=lambda path: path.stat().st_size)
    content = bytearray(buffer.read_bytes())
    for at in range(1000, len(content) - 100, 5000):
        content[at : at + 60] = bytes([0x05] * 60)
    buffer.write_bytes(content)
    summary = write_tables(damaged, tmp_path / "many", client, shard_bytes=700)
    assert_same(tmp_path / "many", damaged, summary)
    gaps = [row for row in of_folder(tmp_path / "many", "events") if "gap" in row]
    assert summary.gaps == len(gaps) > 5
    assert summary.damaged and all(damage.position is not None for damage in summary.damaged)


def test_a_trace_that_cannot_be_read_does_not_stop_the_others(client: Client, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("this is no trace")
    paths = [EXAMPLES / "hello-qemu", tmp_path / "other.txt", tmp_path / "absent", EXAMPLES / "example.astf"]
    summary = write_tables(paths, tmp_path / "tables", client)
    sources = pyarrow.parquet.read_table(tmp_path / "tables" / "sources").to_pylist()
    assert [source["source"] for source in sources] == list(range(len(sources)))
    assert [source["problem"] is None for source in sources] == [True, False, False, True]
    assert [damage.path for damage in summary.damaged] == [str(paths[1]), str(paths[2])]
    blocks = pyarrow.parquet.read_table(tmp_path / "tables" / "blocks").to_pylist()
    assert {row["source"] for row in blocks} == {0, 3}
    total = sum(source["instructions"] for source in sources)
    assert sum(row["instructions"] for row in blocks) == total > 133


def test_tables_are_not_replaced_unless_forced(client: Client, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    write_tables(EXAMPLES / "hello-qemu", folder, client, tables=["blocks"])
    with pytest.raises(unspool.WriteError, match="force"):
        write_tables(EXAMPLES / "hello-qemu", folder, client)
    write_tables(EXAMPLES / "hello-qemu", folder, client, tables=["events"], force=True)
    assert sorted(path.name for path in folder.iterdir()) == ["events", "tables.json"]


def test_without_dask_there_is_an_error_with_the_command(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['distributed'] = None\n"
        "from unspool.distributed import write_tables\n"
        f"write_tables({str(EXAMPLES / 'hello-qemu')!r}, {str(tmp_path / 'tables')!r})\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, cwd=tmp_path)
    assert done.returncode == 1 and b"pip install 'unspool[distributed]'" in done.stderr
