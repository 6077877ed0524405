"""Write the tables of captures and trace files with the workers of a Dask cluster.

>>> from dask.distributed import Client                                   # doctest: +SKIP
>>> from unspool.distributed import write_tables                          # doctest: +SKIP
>>> summary = write_tables(["run1", "run2.astf"], "runs.tables", Client("tcp://head:8786"))  # doctest: +SKIP

A capture is split at synchronization points into shards, each of which is a task. A shard ends where a decoder that starts at the
next one arrives at the same state; one whose start cannot be trusted is read by the task of the one before. Every shard is read
twice: it is counted, and when the numbers of those before are known, its rows are written with the numbers that one process gives them.

A task writes its files under temporary names and renames them when they are complete, to names that do not depend on the attempt. So what
is lost with a worker is done again, and nothing is there twice. The whole folder gets its name at the end.

Needs the packages of ``pip install unspool[distributed]``. The paths of the traces and of the folder must be the same for all workers.
"""

from __future__ import annotations

import json
import os
import shutil
import uuid
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Iterable, Optional, Sequence, Tuple, cast

from . import _unspool
from ._unspool import Trace
from ._unspool import open as open_trace
from .errors import Error, WriteError
from .types import Path, Table

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["DamagedShard", "Summary", "write_tables"]

TABLES: Tuple[Table, ...] = ("sources", "blocks", "instructions", "calls", "accesses", "events")

SHARD_BYTES = 64 << 20
"""Bytes of a source in a shard, unless another number is given."""

MERGED = 16
"""Records of code that one task merges."""


@dataclass(frozen=True)
class DamagedShard:
    """Part of a trace that is damaged, or a trace that cannot be read."""

    path: str
    """Path of the trace."""
    shard: Optional[int]
    """Number of the shard in the trace. None: the trace or one of its sources could not be read, or only in part."""
    gaps: int
    """Gaps because of damage: rows of the table ``events``."""
    position: Optional[int]
    """Position of the first of them, as in the table ``events``."""
    problem: Optional[str]
    """Why reading ended early."""


@dataclass(frozen=True)
class Summary:
    """What :func:`write_tables` has written."""

    folder: str
    """The folder of tables."""
    rows: dict[str, int]
    """Rows of each table."""
    traces: int
    """Traces that were read."""
    shards: int
    """Shards that have rows."""
    merged_shards: int
    """Shards that belong to the one before, since decoding cannot start where they do."""
    gaps: int
    """Gaps of the execution: rows of the table ``events``."""
    damaged: list[DamagedShard] = field(default_factory=list)
    """Where traces are damaged."""


def write_tables(
    paths: Path | Iterable[Path],
    folder: Path,
    client: Optional[Client] = None,
    *,
    tables: Optional[Sequence[Table]] = None,
    image: Path | list[Path] | None = None,
    shard_bytes: int = SHARD_BYTES,
    retries: int = 3,
    force: bool = False,
) -> Summary:
    """Write the tables of traces into one folder, with the workers of a cluster.

    The rows are those that ``unspool tables`` writes. Of several traces, sources, versions of the code and instructions are numbered one
    trace after the other.

    Args:
        paths: A capture or trace file, or several of them.
        folder: The folder of tables, which appears when it is complete. All workers must be able to write beside it.
        client: The cluster. None: a cluster of processes on this machine, which ends with the call.
        tables: Names of tables; all of them if None. ``calls`` need the whole execution, and are made by one task for each source.
        image: Path of an ELF file with code and symbols, or a list of them, for all traces.
        shard_bytes: Bytes of a source in a shard.
        retries: How often a task is done again after an error of the system. Tasks of lost workers are done again in any case, as often
            as the setting ``distributed.scheduler.allowed-failures`` of Dask allows.
        force: Replace tables that are there.

    Raises:
        ImportError: If Dask is not installed.
        WriteError: If there is something at the path of the folder, or it cannot be written.
    """
    try:
        from distributed import Client as NewClient
    except ImportError as error:
        raise ImportError("the package 'distributed' is missing: pip install 'unspool[distributed]'") from error
    target = os.path.abspath(os.fspath(folder))
    if os.path.exists(target) and not force:
        raise WriteError("there is something at this path already; use force=True to replace tables", file=target)
    names = [os.fspath(paths)] if isinstance(paths, (str, os.PathLike)) else [os.fspath(path) for path in paths]
    wanted = [table for table in TABLES if table in (TABLES if tables is None else tables)]
    images = None if image is None else [os.fspath(one) for one in (image if isinstance(image, list) else [image])]
    unfinished = f"{target}.{uuid.uuid4().hex}.part"
    os.makedirs(unfinished)
    own = None if client else NewClient(processes=True, threads_per_worker=1, dashboard_address=None)
    try:
        run = _Run(cast(Any, client or own), names, wanted, images, unfinished, shard_bytes, retries)
        return run.write(target)
    finally:
        if own:
            own.close()
        shutil.rmtree(unfinished, ignore_errors=True)


class _Run:
    """One call of write_tables()."""

    def __init__(
        self,
        client: Client,
        paths: list[str],
        tables: list[Table],
        images: Optional[list[str]],
        folder: str,
        shard_bytes: int,
        retries: int,
    ) -> None:
        self.client, self.paths, self.tables, self.images = client, [os.path.abspath(path) for path in paths], tables, images
        self.names = paths
        self.folder, self.shard_bytes, self.retries = folder, shard_bytes, retries

    def write(self, target: str) -> Summary:
        split = self.gather([self.submit(_split, path, self.images, self.shard_bytes) for path in self.paths])
        traces = [_TracePlan(name, path, *found) for name, path, found in zip(self.names, self.paths, split)]
        self.count(traces)
        self.place(traces)
        written = self.gather(self.written(traces))
        _unspool.finish_tables(self.folder, target, self.tables, [trace.assembled for trace in traces])
        return self.summary(traces, written, target)

    def submit(self, task: Any, *arguments: Any) -> Future:
        return self.client.submit(task, *arguments, retries=self.retries, pure=False)

    def gather(self, futures: list[Future]) -> list[Any]:
        return list(self.client.gather(futures))

    def count(self, traces: list[_TracePlan]) -> None:
        """Count all shards, and put those of each trace together."""
        for trace in traces:
            arguments = [(trace.path, self.images, shard, self.tables) for shard in trace.shards]
            trace.counting = [self.submit(_count, *each) for each in arguments]
        known = [[self.submit(_first, future) for future in trace.counting] for trace in traces]
        for trace, futures in zip(traces, known):
            trace.assemble(self.gather(futures))

    def place(self, traces: list[_TracePlan]) -> None:
        """Merge the code of the shards, and number what all traces have."""
        for trace in traces:
            parts = [self.submit(_second, trace.counting[start["shard"]]) for start in trace.starts]
            while len(parts) > 1:
                groups = [parts[at : at + MERGED] for at in range(0, len(parts), MERGED)]
                parts = [self.submit(_merge, *group) for group in groups]
            trace.code = self.submit(_store, trace.path, self.images, parts[0], self.folder) if parts else None
            trace.counting = []
        first = (0, 0, 0)
        for trace in traces:
            trace.first = first
            trace.code_file, versions, instructions = trace.code.result() if trace.code else (None, 0, 0)
            trace.versions = versions
            first = (first[0] + len(trace.sources), first[1] + versions, first[2] + instructions)

    def written(self, traces: list[_TracePlan]) -> list[Future]:
        """Tasks that write files."""
        futures = []
        for trace in traces:
            about = (trace.path, self.images, trace.first, self.folder)
            if "instructions" in self.tables and trace.code_file:
                futures.append(self.submit(_write_code, *about, trace.code_file))
            code = trace.code_file if trace.versions > 1 else None
            for start in trace.starts:
                shard, text = trace.shards[start["shard"]], json.dumps(start)
                futures.append(self.submit(_write, *about, code, shard, text, self.tables))
                whole = _unspool.whole_shard(shard)
                if whole and start["is_first"] and "calls" in self.tables:
                    futures.append(self.submit(_write, *about, None, whole, text, ["calls"]))
        return futures

    def summary(self, traces: list[_TracePlan], written: list[dict[str, int]], target: str) -> Summary:
        rows: dict[str, int] = {table: sum(counts.get(table, 0) for counts in written) for table in self.tables}
        if "sources" in rows:
            rows["sources"] = sum(len(trace.sources) for trace in traces)
        return Summary(
            folder=target,
            rows=rows,
            traces=len(traces),
            shards=sum(len(trace.starts) for trace in traces),
            merged_shards=sum(len(trace.shards) - len(trace.starts) for trace in traces),
            gaps=sum(counted["gaps"] for trace in traces for counted in trace.counted()),
            damaged=[damage for trace in traces for damage in trace.damage()],
        )


class _TracePlan:
    """A trace, and what is known of it so far."""

    def __init__(self, name: str, path: str, shards: list[str], problem: Optional[str]) -> None:
        self.name, self.path, self.shards, self.problem = name, path, shards, problem
        self.counting: list[Future] = []
        self.counts: list[dict[str, Any]] = []
        self.assembled = ""
        self.starts: list[dict[str, Any]] = []
        self.sources: list[dict[str, Any]] = []
        self.code: Optional[Future] = None
        self.code_file: Optional[str] = None
        self.versions = 0
        self.first = (0, 0, 0)

    def assemble(self, counted: list[str]) -> None:
        if self.problem is None:
            self.assembled = _unspool.assemble_shards(counted)
        else:
            self.assembled = _unspool.unreadable_trace(self.name, self.problem)
        self.counts = [json.loads(text) for text in counted]
        found = json.loads(self.assembled)
        self.starts, self.sources = found["starts"], found["sources"]
        for source in self.sources:
            # A file is a source with its path as it was given.
            source["name"] = self.name if source["name"] == self.path else source["name"]
        self.assembled = json.dumps(found)

    def counted(self) -> list[dict[str, Any]]:
        """Of the shards that have rows."""
        return [self.counts[start["shard"]] for start in self.starts]

    def damage(self) -> list[DamagedShard]:
        of_shards = [
            DamagedShard(self.name, start["shard"], counted["damaged"], counted["first_damage"], None)
            for start, counted in zip(self.starts, self.counted())
            if counted["damaged"]
        ]
        problems = [source["problem"] for source in self.sources if source["problem"]]
        return of_shards + [DamagedShard(self.name, None, 0, None, problem) for problem in dict.fromkeys(problems)]


def _open(path: str, images: Optional[list[str]]) -> Trace:
    return open_trace(path, image=cast(Any, images))


def _split(path: str, images: Optional[list[str]], shard_bytes: int) -> tuple[list[str], Optional[str]]:
    try:
        return _unspool.split_trace(_open(path, images), shard_bytes), None
    except Error as error:
        return [], str(error)


def _count(path: str, images: Optional[list[str]], shard: str, tables: list[Table]) -> tuple[str, bytes]:
    return _unspool.count_shard(_open(path, images), shard, tables)


def _first(both: tuple[str, bytes]) -> str:
    return both[0]


def _second(both: tuple[str, bytes]) -> bytes:
    return both[1]


def _merge(*parts: bytes) -> bytes:
    return _unspool.merge_code(list(parts))


def _store(path: str, images: Optional[list[str]], code: bytes, folder: str) -> tuple[str, int, int]:
    """Store the code of a trace, which all tasks of the trace may need."""
    versions, instructions = _unspool.count_code(_open(path, images), code)
    attempt = uuid.uuid4().hex
    stored = FilePath(folder) / f"code-{attempt}"
    stored.mkdir()
    (stored / "code").write_bytes(code)
    return str(stored / "code"), versions, instructions


def _write_code(
    path: str, images: Optional[list[str]], first: tuple[int, int, int], folder: str, code_file: str
) -> dict[str, int]:
    code = FilePath(code_file).read_bytes()
    return _unspool.write_code(_open(path, images), code, first, folder, uuid.uuid4().hex)


def _write(
    path: str,
    images: Optional[list[str]],
    first: tuple[int, int, int],
    folder: str,
    code_file: Optional[str],
    shard: str,
    start: str,
    tables: list[Table],
) -> dict[str, int]:
    code = FilePath(code_file).read_bytes() if code_file else None
    return _unspool.write_shard(_open(path, images), shard, start, tables, code, first, folder, uuid.uuid4().hex)
