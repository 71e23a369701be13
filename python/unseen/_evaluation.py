"""How good models are on held-out links, and what a policy is worth by a log."""

from __future__ import annotations

import html
import json
import shutil
import tempfile
import textwrap
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

from ._errors import in_python
from ._figures import Figure, choose, figures_of, paragraphs
from ._frames import Frame, frame_of


class Evaluation:
    """Models on the pairs that were held out. It shows itself in a notebook.

    Attributes:
        raw: everything, as unseen evaluate --json has it
        warnings: how far it can be trusted
        decisions: for each model of against, in a sentence: which is better, as far as the links allow
    """

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.warnings: list[str] = [in_python(s) for s in raw.get("warnings") or []]
        self.decisions: dict[str, str] = {
            m["model"]: m["decision"]["summary"] for m in raw.get("others") or [] if m.get("decision")
        }
        self._figures: dict[str, Figure] | None = None

    def _models(self) -> Iterator[dict[str, Any]]:
        yield self.raw
        yield from self.raw.get("others") or []

    @property
    def risks(self) -> Frame:
        """The risk (log-loss) of each model by every estimator, with intervals. Lower is better."""
        rows = []
        for m in self._models():
            for r in m["panel"]["risks"]:
                row = {"model": m["model"], "scheme": r["scheme"]}
                row |= {_snake(k): r["risk"].get(k) for k in ("estimate", "lower", "upper", "sampling", "nuisance")}
                row["difference"] = (r.get("against") or {}).get("estimate")
                row["difference_lower"] = (r.get("against") or {}).get("lower")
                row["difference_upper"] = (r.get("against") or {}).get("upper")
                rows.append(row)
        return frame_of(rows)

    @property
    def ranks(self) -> Frame:
        """How each model ranks held-out links among all candidates, by ŷ and by π̂ŷ."""
        return frame_of(
            {"model": m["model"], **{_snake(k): v for k, v in r.items() if not isinstance(v, dict)}}
            for m in self._models()
            for r in m.get("ranks") or []
        )

    @property
    def observed(self) -> Frame:
        """AUC and average precision of each model on observed links, where not shown counts as irrelevant."""
        return frame_of(
            {"model": m["model"], **{_snake(k): v for k, v in m["observed"].items() if not isinstance(v, dict)}}
            for m in self._models()
        )

    @property
    def fairness(self) -> Frame:
        """Attention and merit of groups, if it was asked for."""
        rows = []
        for m in self._models():
            for g in (m.get("fairness") or {}).get("groups") or []:
                row = {"model": m["model"], "group": g["name"], "nodes": g["nodes"]}
                for key in ("exposure", "merit", "ratio"):
                    value = g.get(key) or {}
                    row |= {
                        key: value.get("value"),
                        f"{key}_lower": value.get("lower"),
                        f"{key}_upper": value.get("upper"),
                    }
                rows.append(row)
        return frame_of(rows)

    @property
    def figures(self) -> dict[str, Figure]:
        """All figures by name: panel, roc, calibration, ranks and others."""
        if self._figures is None:
            with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
                path = Path(folder) / "evaluation.json"
                self.save(path)
                self._figures = figures_of(path)
        return self._figures

    def figure(self, name: str | None = None) -> Figure:
        """Returns a figure; figures names them. Without a name it is the panel of risks."""
        return choose(self.figures, name)

    def save(self, path: str | Path) -> Path:
        """Writes the evaluation as JSON, which unseen report reads, and returns the path."""
        path = Path(path)
        path.write_text(json.dumps(self.raw, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        return path

    def __str__(self) -> str:
        lines = [
            f"{self.raw['pairs']:,} held-out pairs, {self.raw['links']:,} of them linked; held out {self.raw['held']}"
        ]
        for m in self._models():
            by = {r["scheme"]: r["risk"] for r in m["panel"]["risks"]}
            texts = [f"{s} {r['estimate']:.4f} [{r['lower']:.4f}, {r['upper']:.4f}]" for s, r in by.items()]
            lines.append(textwrap.fill(f"{m['model']}: risk " + ", ".join(texts), 100, subsequent_indent="  "))
        lines += [f"{text}" for text in self.decisions.values()] + [f"note: {text}" for text in self.warnings]
        return "\n".join(lines)

    def __repr__(self) -> str:
        return f"<unseen.Evaluation of {', '.join(m['model'] for m in self._models())}; print() it for the risks>"

    def _repr_html_(self) -> str:
        head = "<th>model</th><th>estimator</th><th>risk</th><th>95% interval</th>"
        rows = "".join(
            f"<tr><td>{html.escape(m['model'])}</td><td>{html.escape(r['scheme'])}</td>"
            f"<td>{r['risk']['estimate']:.4f}</td>"
            f"<td>{r['risk']['lower']:.4f} to {r['risk']['upper']:.4f}</td></tr>"
            for m in self._models()
            for r in m["panel"]["risks"]
        )
        title = f"{self.raw['pairs']:,} held-out pairs, {self.raw['links']:,} of them linked"
        notes = paragraphs(title, [*self.decisions.values(), *self.warnings], [])
        return f"{notes}<table><tr>{head}</tr>{rows}</table>"


class PolicyValue:
    """What a policy would be worth, by a log of what another showed.

    Attributes:
        verdict: better, worse or unknown, compared with what made the log
        message: the same in a sentence
        raw: everything, as unseen evaluate --log --json has it
    """

    def __init__(self, raw: dict[str, Any]) -> None:
        self.raw = raw
        self.verdict: str = raw.get("verdict", "")
        self.message: str = raw.get("message", "")

    @property
    def estimates(self) -> Frame:
        """The mean outcome of a shown item, by each estimator, of the log itself, and the difference."""
        rows = [*(self.raw.get("estimates") or [])]
        for name, key in (("log", "logged"), ("difference", "difference")):
            if self.raw.get(key):
                rows.append({"name": name, **self.raw[key]})
        return frame_of(
            ({_snake(k): v for k, v in row.items()} for row in rows),
            ["name", "estimate", "lower", "upper", "level", "standard_error"],
        )

    def __str__(self) -> str:
        return self.message

    def __repr__(self) -> str:
        return f"<unseen.PolicyValue: {self.verdict}; {self.message}>"


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in name)


def linked_copy(source: Path, to: Path) -> None:
    """Makes a file known under another name, without a copy where the system allows it."""
    try:
        to.symlink_to(source.absolute())
    except OSError:
        shutil.copyfile(source, to)


class Home:
    """A temporary folder that lives as long as whoever holds it."""

    _all: ClassVar[weakref.WeakValueDictionary[Path, Home]] = weakref.WeakValueDictionary()

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="unseen-"))
        self._finish = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)
        Home._all[self.path] = self

    @classmethod
    def of(cls, path: Path) -> Home | None:
        """Returns the temporary folder that a path lies in, if it is one of ours."""
        return next((home for at in path.absolute().parents if (home := cls._all.get(at))), None)
