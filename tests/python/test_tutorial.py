"""docs/tutorial.md, as a reader types it."""
import doctest
from pathlib import Path

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorial.md"


def test_every_line_of_the_tutorial_does_what_it_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.IGNORE_EXCEPTION_DETAIL
    result = doctest.testfile(str(TUTORIAL), module_relative=False, optionflags=flags)
    assert result.attempted > 30
    assert result.failed == 0
    assert (tmp_path / "graph.svg").read_text().startswith("<?xml")
    assert (tmp_path / "adder.pellucid").stat().st_size > 0
