"""docs/python.md and README.md are notebooks: their cells run in Jupyter, and print what the pages show.

UNSEEN_UPDATE_DOCS=1 writes what they print into the pages.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
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


@pytest.mark.parametrize(("name", "figures", "tables"), [("docs/python.md", 2, 4), ("README.md", 0, 0)])
def test_page_is_a_notebook(tmp_path: Path, name: str, figures: int, tables: int) -> None:
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    page = ROOT / name
    text = page.read_text(encoding="utf-8")
    found = list(CELL.finditer(text))
    assert found
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(m[1]) for m in found])
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = dict(zip((m[1] for m in found), notebook.cells, strict=True))
    if os.environ.get("UNSEEN_UPDATE_DOCS"):
        for m in reversed(found):
            if m[2] is not None:
                text = text[: m.start(2)] + printed(cells[m[1]]) + text[m.end(2) :]
        page.write_text(text, encoding="utf-8")
        return
    for m in found:
        if m[2] is not None:
            assert printed(cells[m[1]]) == m[2], m[1]
    shown = [set(o.data) for c in notebook.cells for o in c.outputs if o.output_type == "execute_result"]
    assert sum("image/svg+xml" in data for data in shown) == figures
    assert sum("text/html" in data for data in shown) >= tables
