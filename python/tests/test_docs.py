"""docs/python.md is a notebook: its cells run in Jupyter, and print what the page shows.

UNSEEN_UPDATE_DOCS=1 writes what they print into the page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
CELL = re.compile(r"^```python cell\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def printed(cell: Any) -> str:
    """What a cell prints and returns, as text; warnings aside."""
    texts = []
    for output in cell.outputs:
        if output.output_type == "stream" and output.name == "stdout":
            texts.append(output.text)
        elif output.output_type == "execute_result":
            texts.append(output.data["text/plain"] + "\n")
    return "".join(texts)


def test_page_is_a_notebook(tmp_path: Path) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    text = PAGE.read_text(encoding="utf-8")
    found = list(CELL.finditer(text))
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(m[1]) for m in found])
    (tmp_path / "docs").symlink_to(PAGE.parent)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = dict(zip((m[1] for m in found), notebook.cells, strict=True))
    if os.environ.get("UNSEEN_UPDATE_DOCS"):
        for m in reversed(found):
            if m[2] is not None:
                text = text[: m.start(2)] + printed(cells[m[1]]) + text[m.end(2) :]
        PAGE.write_text(text, encoding="utf-8")
        return
    for m in found:
        if m[2] is not None:
            assert printed(cells[m[1]]) == m[2], m[1]
    shown = [set(o.data) for c in notebook.cells for o in c.outputs if o.output_type == "execute_result"]
    assert sum("image/svg+xml" in data for data in shown) == 2
    assert sum("text/html" in data for data in shown) >= 4
