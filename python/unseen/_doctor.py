"""What the doctor found: whether links can tell exposure from relevance."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from ._errors import in_python
from ._figures import Figure, choose, figures_of, paragraphs
from ._frames import Frame, frame_of


class Findings:
    """What the doctor found in a model. It shows itself in a notebook.

    Attributes:
        verdict: identified, weak, not identified, not checked or no exposure
        sentences: what that rests on
        advice: what would make it better
        raw: everything, as in the model file
    """

    def __init__(self, raw: dict[str, Any], fields: list[str], path: Path) -> None:
        self.raw = raw
        self._fields, self._path = fields, path
        self._figures: dict[str, Figure] | None = None
        found = raw.get("class") or "not checked"
        self.verdict: str = "not checked" if found == "unmeasured" else found
        self.sentences: list[str] = [in_python(s) for s in raw.get("verdict") or []]
        self.advice: list[str] = [in_python(s) for s in raw.get("advice") or []]

    @property
    def propensities(self) -> Frame:
        """The mean π̂ from each field to each, with the pairs and links that it rests on."""
        name = dict(enumerate(self._fields))
        return frame_of(
            (
                {
                    "source_field": name.get(cell["source"]),
                    "target_field": name.get(cell["target"]),
                    "pairs": cell["pairs"],
                    "links": cell["links"],
                    "propensity": cell["propensity"],
                    "lower": cell.get("lower"),
                    "upper": cell.get("upper"),
                }
                for cell in self.raw.get("cells") or []
            ),
            ["source_field", "target_field", "pairs", "links", "propensity", "lower", "upper"],
        )

    @property
    def tests(self) -> Frame:
        """The tests of what the model assumes of exposure."""
        return frame_of(self.raw.get("tests") or [], ["of", "estimate", "z", "p", "refuted"])

    @property
    def claims(self) -> Frame:
        """What every assumption says of the mean ŷ and π̂ of all pairs; those with stays explain the links as well."""
        rows = []
        for m in (self.raw.get("set") or {}).get("members") or []:
            row = {k: v for k, v in m.items() if not isinstance(v, (dict, list))}
            for key in ("meanLink", "propensity"):
                value = m.get(key) or {}
                snake = "link" if key == "meanLink" else key
                row[f"{snake}_lower"], row[f"{snake}_upper"] = value.get("lower"), value.get("upper")
            rows.append(row)
        return frame_of(rows)

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures by name."""
        if self._figures is None:
            self._figures = figures_of(self._path)
        return self._figures

    def figure(self, name: str | None = None) -> Figure:
        """Returns a figure; figures names them. Without a name it is the propensities by field where there are any."""
        if name is None and "propensity" in self.figures:
            name = "propensity"
        return choose(self.figures, name)

    def __str__(self) -> str:
        lines = [f"The doctor: {self.verdict}"]
        for mark, texts in (("  - ", self.sentences), ("  → ", self.advice)):
            lines += [textwrap.fill(s, 80, initial_indent=mark, subsequent_indent="    ") for s in texts]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<unseen.Findings: {self.verdict}; print() it for the reasons>"

    def _repr_html_(self) -> str:
        return paragraphs(f"The doctor: {self.verdict}", self.sentences, self.advice)
