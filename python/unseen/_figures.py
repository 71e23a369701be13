"""Figures as the program draws them."""

from __future__ import annotations

import html
import tempfile
from pathlib import Path

from ._errors import Error
from ._program import run_json


class Figure:
    """A figure as SVG. It shows itself in a notebook."""

    def __init__(self, name: str, svg: str, png: bytes) -> None:
        self.name, self.svg, self.png = name, svg, png

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> Path:
        """Writes the figure to a file, .svg or .png, and returns its path."""
        path = Path(path)
        if path.suffix == ".png":
            path.write_bytes(self.png)
        elif path.suffix == ".svg":
            path.write_text(self.svg, encoding="utf-8")
        else:
            raise Error(f"{path}: a figure can be .svg or .png", "choose another name")
        return path

    def __repr__(self) -> str:
        return f"<unseen.Figure {self.name}>"


def figures_of(run: Path) -> dict[str, Figure]:
    """Returns the figures of a model or an evaluation by their names, without the section before the first dash."""
    with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
        to = Path(folder)
        made, _ = run_json(["report", "--figures", str(to / "figures"), "-o", str(to / "page.html"), "--", str(run)])
        out = {}
        for name in made.get("figures") or []:
            path = Path(name)
            if path.suffix == ".svg":
                short = path.stem.split("-", 1)[-1]
                out[short] = Figure(short, path.read_text(encoding="utf-8"), path.with_suffix(".png").read_bytes())
        return out


def choose(figures: dict[str, Figure], name: str | None) -> Figure:
    """Returns a figure by its name, or the first."""
    if not figures:
        raise Error("there is no figure of this", "fit with another method, or evaluate on held-out links")
    if name is None:
        return next(iter(figures.values()))
    if name not in figures:
        raise Error(f"there is no figure {name!r}", "there is " + ", ".join(figures))
    return figures[name]


def paragraphs(title: str, sentences: list[str], advice: list[str]) -> str:
    """Returns HTML for a notebook."""
    items = "".join(f"<li>{html.escape(s)}</li>" for s in sentences)
    items += "".join(f"<li style='list-style-type: \"→ \"'>{html.escape(s)}</li>" for s in advice)
    return f"<div><strong>{html.escape(title)}</strong><ul>{items}</ul></div>"
