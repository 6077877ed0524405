"""Documented views of queries, on DuckDB and on a Spark cluster of which an executor is killed: the rows are the same.

Usage: spark_queries.py TABLES VIEWS, the folder of tables and crates/tables/src/views.rs. Needs pyspark and Java 17.
"""

from __future__ import annotations

import decimal
import os
import re
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
from pyspark.sql import SparkSession  # type: ignore[import-not-found]

TABLES = ["sources", "blocks", "instructions", "calls", "accesses", "events"]

# Views whose SQL both engines take.
PORTABLE = [
    "executed",
    "hot_functions",
    "hot_blocks",
    "mispredict_candidates",
    "branch_targets",
    "call_graph",
    "call_lengths",
    "longest_calls",
    "exceptions",
    "gaps",
    "software_trace",
    "processes",
    "thread_switches",
]


def views_in(source: str) -> dict[str, str]:
    """SQL of the views without parameters, by name, in their order."""
    found = re.findall(r'name: "(\w+)",\s+parameters: "",.*?sql: "((?:[^"\\]|\\.)*)"', source, re.DOTALL)
    return {name: re.sub(r"\\\n\s*", "", sql) for name, sql in found}


def rows_of(rows: Any) -> list[str]:
    """Rows as text, sorted: a number is the same in every type."""

    def plain(value: Any) -> Any:
        if isinstance(value, (int, float, decimal.Decimal)) and not isinstance(value, bool) and value == int(value):
            return int(value)
        return value

    return sorted(repr([plain(value) for value in row]) for row in rows)


def executors(root: int) -> list[int]:
    """Processes of executors below a process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue

    def is_below(pid: int) -> bool:
        while pid in parents and pid != root:
            pid = parents[pid]
        return pid == root

    def is_executor(pid: int) -> bool:
        try:
            return b"CoarseGrainedExecutorBackend" in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    return [pid for pid in parents if is_below(pid) and is_executor(pid)]


def main(folder: Path, views: dict[str, str]) -> None:
    duck = duckdb.connect()
    spark = (
        SparkSession.builder.master("local-cluster[2,1,1024]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    for table in TABLES:
        duck.execute(f"CREATE VIEW {table} AS FROM read_parquet('{folder / table / '*.parquet'}')")
        spark.read.parquet(str(folder / table)).createOrReplaceTempView(table)
    types = dict(spark.table("blocks").dtypes)
    assert types["address"] == "decimal(20,0)", types
    large = "SELECT DISTINCT address FROM blocks WHERE address > 9223372036854775807"
    addresses = rows_of(spark.sql(large).collect())
    assert addresses == rows_of(duck.execute(large).fetchall()) != [], "addresses above 2^63 are exact"
    for name, sql in views.items():
        if name in PORTABLE:
            duck.execute(f"CREATE VIEW {name} AS {sql}")
            spark.sql(sql).createOrReplaceTempView(name)
    print(f"addresses above 2^63: {len(addresses)} are exact", flush=True)
    victims = executors(os.getpid())
    assert len(victims) == 2, victims
    result: list[list[str]] = []
    # So that the query runs long enough: every row of blocks with every one of few numbers.
    slow = (
        "SELECT b.code, b.address, count(*) AS executions, sum(b.instructions * n.instructions) AS product "
        "FROM blocks b CROSS JOIN (SELECT instructions FROM blocks WHERE sequence < 60) n GROUP BY b.code, b.address"
    )
    query = threading.Thread(target=lambda: result.append(rows_of(spark.sql(slow).collect())))
    query.start()
    tracker = spark.sparkContext.statusTracker()
    while not tracker.getActiveStageIds():
        assert query.is_alive(), "the query ended before an executor was killed"
        time.sleep(0.01)
    time.sleep(0.5)
    assert query.is_alive(), "the query ended before an executor was killed"
    os.kill(victims[0], signal.SIGKILL)
    print(f"executor {victims[0]} killed while a query runs", flush=True)
    query.join(300)
    assert result == [rows_of(duck.execute(slow).fetchall())], "the query whose executor was killed"
    assert victims[0] not in executors(os.getpid())
    print(f"the query whose executor was killed: {len(result[0])} rows are the same", flush=True)
    for name in PORTABLE:
        # Columns by name: `SELECT b.*` of a join with USING has another order in Spark.
        columns = ", ".join(column[0] for column in duck.execute(f"DESCRIBE {name}").fetchall())
        rows = rows_of(duck.execute(f"SELECT {columns} FROM {name}").fetchall())
        found = rows_of(spark.sql(f"SELECT {columns} FROM {name}").collect())
        different = [pair for pair in zip(found, rows) if pair[0] != pair[1]][:1]
        assert found == rows, (name, len(found), len(rows), different)
        print(f"{name}: {len(rows)} rows are the same", flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), views_in(Path(sys.argv[2]).read_text()))
