"""Writes the tables that spark_queries.py asks about, shard by shard. Usage: spark_tables.py FOLDER."""

from __future__ import annotations

import sys
from pathlib import Path

from unspool.distributed import write_tables

from large_loop import make_capture

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def main(folder: Path) -> None:
    traces = [make_capture(folder), EXAMPLES / "hello-qemu", EXAMPLES / "sum.tarmac"]
    print(write_tables(traces, folder / "tables", shard_bytes=8000))


# The processes of the cluster import this file.
if __name__ == "__main__":
    main(Path(sys.argv[1]))
