"""What the tests share: example traces, and the command line tool that results are compared with."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Callable

import pytest

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples"

Lines = list[dict[str, Any]]


@pytest.fixture(scope="session")
def unspool_bin() -> str:
    """The command line tool, which UNSPOOL_BIN names."""
    return os.environ["UNSPOOL_BIN"]


@pytest.fixture(scope="session")
def command(unspool_bin: str) -> Callable[..., Lines]:
    """Runs the command line tool, and returns the lines of its JSON."""

    def run(*arguments: object) -> Lines:
        done = subprocess.run(
            [unspool_bin, *map(str, arguments), "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
        )
        assert done.returncode in (0, 1), done.stderr.decode()
        return [json.loads(line) for line in done.stdout.splitlines()]

    return run


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory, unspool_bin: str) -> dict[str, Path]:
    """A trace of each format."""
    stf = tmp_path_factory.mktemp("traces") / "hello.stf"
    subprocess.run([unspool_bin, "convert", EXAMPLES / "hello-qemu", "-o", stf], check=True)
    return {
        "capture": EXAMPLES / "hello-qemu",
        "several sources": EXAMPLES / "hello-ete",
        "perf.data": EXAMPLES / "hello.perf.data",
        "astf": EXAMPLES / "example.astf",
        "stf": stf,
        "tarmac": EXAMPLES / "sum.tarmac",
    }
