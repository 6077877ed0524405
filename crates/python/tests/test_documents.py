"""The examples of the documents do what they show."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest
import unspool
from conftest import EXAMPLES, ROOT


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the example traces, which examples may write to."""
    (tmp_path / "examples").symlink_to(EXAMPLES)
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("here")
def test_the_document() -> None:
    path = ROOT / "docs" / "python.md"
    sessions = "\n".join(re.findall(r"^```pycon\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE))
    document = doctest.DocTestParser().get_doctest(sessions, {}, path.name, str(path), 0)
    done = doctest.DocTestRunner().run(document)
    assert done.attempted > 10 and done.failed == 0


@pytest.mark.usefixtures("here")
def test_the_docstring_of_the_module() -> None:
    done = doctest.testmod(unspool)
    assert done.attempted > 2 and done.failed == 0


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("document", [ROOT / "README.md", ROOT / "crates" / "python" / "README.md"])
def test_programs_run(document: Path) -> None:
    programs = re.findall(r"^```python\n(.*?)^```", document.read_text(), re.DOTALL | re.MULTILINE)
    for program in programs:
        exec(compile(program, str(document), "exec"), {})


def test_everything_has_a_docstring() -> None:
    for name in unspool.__all__:
        thing = getattr(unspool, name)
        assert thing.__doc__, name
        if thing.__module__.startswith("unspool"):
            members = [member for member in vars(thing).values() if hasattr(member, "__doc__")] if isinstance(thing, type) else []
            public = [member for member in members if not getattr(member, "__name__", "_").startswith("_")]
            assert all(member.__doc__ for member in public), name
