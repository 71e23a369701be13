"""A fitted model with the dataset that it was fitted to."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ._doctor import Findings
from ._errors import Doubt, Error, in_python
from ._evaluation import Evaluation, Home, PolicyValue, linked_copy
from ._figures import paragraphs
from ._frames import Frame, Table, frame, frame_of, write
from ._program import Progress, flags, run_json
from ._service import Service

PathLike = str | os.PathLike[str]

_COLUMNS = {  # of a list, by the keys of the program's JSON
    "rank": "rank", "id": "target", "title": "title", "field": "field", "time": "time", "link": "link",
    "propensity": "propensity", "shown": "shown", "correctedRank": "corrected_rank", "naiveRank": "naive_rank",
    "hidden": "hidden", "seenRank": "seen_rank",
}  # fmt: skip

# Ids are arguments of the program. Windows allows 32,767 characters of them.
_MOST_CHARACTERS = 20_000


class Model:
    """ŷ and π̂, learned from a dataset, and lists from them. fit() makes it, load() opens it again.

    Attributes:
        path: the model's file, which every other command and program of unseen reads
        dataset: the folder of the dataset
    """

    def __init__(
        self, path: PathLike, dataset: PathLike, *, home: Home | None = None, notes: Sequence[str] = ()
    ) -> None:
        self.path, self.dataset = Path(path), Path(dataset)
        self.notes = list(notes)
        self._homes = [home, Home.of(self.path), Home.of(self.dataset)]  # temporary folders live as long as this
        self._meta = metadata(self.path)

    @property
    def method(self) -> str:
        """The method by which it was fitted."""
        return str(self._meta.get("method", ""))

    @property
    def fields(self) -> list[str]:
        """The fields of the dataset, such as categories and segments."""
        return self._all_fields()[1:]

    def _all_fields(self) -> list[str]:
        return list(json.loads(self._meta.get("fields", "[]")))  # the first is for nodes that have none

    @property
    def settings(self) -> dict[str, Any]:
        """All settings that it was fitted with."""
        return dict(json.loads(self._meta.get("hyperparameters", "{}")))

    @property
    def doctor(self) -> Findings:
        """What the doctor found: whether links can tell exposure from relevance."""
        return Findings(json.loads(self._meta.get("findings", "{}")), self._all_fields(), self.path)

    def recommend(
        self,
        ids: object = None,
        *,
        k: int = 10,
        text: str | None = None,
        history: Iterable[object] | None = None,
        shown: Iterable[object] | None = None,
        field: str | None = None,
        naive: Model | PathLike | None = None,
        explain: bool = False,
        seen: bool = False,
        fields: str | Sequence[str] | None = None,
        from_: object = None,
        until: object = None,
        linked: bool = False,
        exclude: Iterable[object] | None = None,
        diversity: float | None = None,
        explore: float | None = None,
        exact: bool = False,
        seed: int | None = None,
        threads: int | None = None,
        progress: Progress = True,
    ) -> Frame:
        """Recommends what each node would link to if everything were shown to it, best first.

        Args:
            ids: an id, or many. Where people and items share ids, person 7 is called user:7, and 7 finds it. Without
                ids, text and history it recommends to everybody, with fewer columns: source, rank, target and link.
                Filters, re-ranking and reasons then cannot be had.
            k: items in a list
            text: recommends for a new text instead, by the dataset's own encoder
            history: recommends to a new person who links to these ids
            shown: ids that the new person was shown and did not link to
            field: field of the new text or person; guessed if not given
            naive: a naive model to compare with: adds the rank that it gives (naive_rank)
            explain: adds the reasons of each item as the column why
            seen: ranks by π̂ŷ, which repeats past exposure
            fields: only targets of these fields
            from_: only targets from this date on
            until: only targets before this date
            linked: include targets that the node links to already
            exclude: ids to leave out
            diversity: from 0, relevance only, to 1, most diverse
            explore: share of places drawn in proportion to ŷ; shown is then the probability of each item
            exact: make lists exactly, though there is an index
            seed: seed of exploration
            threads: threads; all processors if not given
            progress: see fit()

        Returns:
            a table with source, rank, target, title, field, time, link (ŷ), propensity (π̂), shown, corrected_rank,
            naive_rank, hidden and seen_rank. A warning of class Doubt says how far they can be trusted.
        """
        named = _ids(ids)
        filters = {
            "explain": explain, "seen": seen, "fields": [fields] if isinstance(fields, str) else fields,
            "from": from_, "until": until, "linked": linked, "diversity": diversity, "explore": explore, "seed": seed,
            "field": field,
        }  # fmt: skip
        settings = {"k": k, "naive": _path(naive), "exact": exact, "threads": threads}
        with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
            if exclude is not None:
                filters["exclude"] = _lines(Path(folder) / "exclude.txt", exclude)
            if ids is None and text is None and history is None:
                if any(v not in (None, False) for v in filters.values()):
                    raise Error("lists for everybody take no filters, re-ranking or reasons", "give ids")
                return self._everybody(settings, Path(folder), progress)
            asked = [*flags({**settings, **filters}), *_new(text, history, shown)]
            lists = self._lists(asked, named, progress)
        return _frame_of_lists(lists, explain)

    def _lists(self, asked: list[str], ids: list[str], progress: Progress) -> list[dict[str, Any]]:
        lists: list[dict[str, Any]] = []
        for part in _parts(ids) if ids else [[]]:
            args = ["recommend", *asked, "--", str(self.path), str(self.dataset), *part]
            lists += run_json(args, progress=progress)[0]
        return lists

    def _everybody(self, settings: dict[str, Any], folder: Path, progress: Progress) -> Frame:
        out = folder / "lists"
        run_json(
            [
                "recommend",
                *flags(settings),
                "--all",
                "--format=jsonl",
                "-o",
                str(out),
                "--",
                str(self.path),
                str(self.dataset),
            ],
            progress=progress,
        )
        columns: dict[str, list[Any]] = {"source": [], "rank": [], "target": [], "link": []}
        for part in sorted(out.glob("part-*.jsonl")):
            with part.open(encoding="utf-8") as f:
                for line in f:
                    row = json.loads(line)
                    targets = row.get("targets") or []
                    columns["source"] += [row["source"]] * len(targets)
                    columns["rank"] += range(1, len(targets) + 1)
                    columns["target"] += targets
                    columns["link"] += row.get("links") or []
        return frame(columns)

    def evaluate(
        self,
        against: Model | PathLike | Sequence[Model | PathLike] | Mapping[str, Model | PathLike] = (),
        *,
        exact: bool = False,
        certify: int | None = None,
        fairness: int | bool = False,
        groups: Table | None = None,
        rank: int | None = None,
        sources: int | None = None,
        floor: float | None = None,
        seed: int | None = None,
        threads: int | None = None,
        progress: Progress = True,
    ) -> Evaluation:
        """Evaluates the model on the pairs that were held out when it was fitted.

        Args:
            against: models to evaluate on the same pairs: one, many, or a dict of names and models
            exact: also sum the risks over all pairs of the held-out nodes
            certify: plant this many known truths and fit each
            fairness: exposure and merit of groups in lists of so many; True means 10
            groups: a table with id and group; the fields if not given
            rank: recall among so many; 0 skips it (100)
            sources: held-out nodes to sample for ranking (500)
            floor: lower limit of π̂ in R_w and R_PU (0.01)
            seed: seed of planted truths and of the sample
            threads: threads; all processors if not given
            progress: see fit()
        """
        models = _named(self, against)
        with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
            home = Path(folder)
            for name, path in models.items():  # the program speaks of models by the names of their files
                if not path.is_file():
                    raise Error(f"there is no model {path}", "give a Model, or the path of its file")
                linked_copy(path, home / f"{name}.safetensors")
            first, *others = (f"{name}.safetensors" for name in models)
            asked = flags({
                "against": others, "exact": exact, "certify": certify, "fairness": 10 if fairness is True else fairness,
                "groups": None if groups is None else _csv(groups, home), "rank": rank, "sources": sources,
                "floor": floor, "seed": seed, "threads": threads,
            })  # fmt: skip
            raw, _ = run_json(
                ["evaluate", *asked, "--", first, str(self.dataset.absolute())], progress=progress, cwd=home
            )
        return Evaluation(_without_suffix(raw))

    def value(self, log: Table, **settings: Any) -> PolicyValue:
        """Says what lists of this model would be worth, by a log of what another policy showed: see unseen.value."""
        return value(log, self, **settings)

    def serve(
        self,
        *,
        port: int = 0,
        naive: Model | PathLike | None = None,
        state: PathLike | None = None,
        explore: float | None = None,
        timeout: float = 60,
    ) -> Service:
        """Starts a service on this machine's own address and waits until it is ready.

        Args:
            port: a port; a free one if not given
            naive: a naive model to compare with
            state: folder for models and the event log; beside the dataset if not given
            explore: share of a list's places drawn at random (0.1)
            timeout: seconds to wait
        """
        asked = flags(
            {
                "listen": f"127.0.0.1:{port}",
                "model": self.path,
                "naive": _path(naive),
                "state": state,
                "explore": explore,
            }
        )
        return Service(["serve", *asked, "--", str(self.dataset)], timeout)

    def report(self, path: PathLike = "report.html") -> Path:
        """Writes a page about the model, with tables, figures and explanations, and returns its path."""
        run_json(["report", "-o", str(path), "--", str(self.path)])
        return Path(path)

    def save(self, folder: PathLike) -> Model:
        """Copies the model and its dataset into a folder, which load() and unseen serve open; returns the copy."""
        to = Path(folder)
        to.mkdir(parents=True, exist_ok=True)
        target, dataset = to / "model.safetensors", to / "dataset"
        if dataset.absolute() != self.dataset.absolute():
            if dataset.exists():
                raise Error(f"{dataset} exists", "choose another folder, or remove it")
            shutil.copytree(self.dataset, dataset)
        if target.absolute() != self.path.absolute():
            shutil.copyfile(self.path, target)
        return Model(target, dataset)

    def __repr__(self) -> str:
        return f"<unseen.Model {self.method} of {self.dataset}; the doctor: {self.doctor.verdict}>"

    def _repr_html_(self) -> str:
        doctor = self.doctor
        return paragraphs(
            f"{self.method}; the doctor: {doctor.verdict}", [*self.notes, *doctor.sentences], doctor.advice
        )


def load(path: PathLike, dataset: PathLike | None = None) -> Model:
    """Opens a model again.

    Args:
        path: a folder that fit(out=…), Model.save or unseen demo wrote, or the file of a model
        dataset: the folder of its dataset; the one beside the model if not given
    """
    at = Path(path)
    if at.is_dir():
        at, dataset = at / "model.safetensors", dataset or at / "dataset"
    if dataset is None:
        dataset = at.parent / "dataset"
    if not Path(dataset).is_dir():
        raise Error(f"there is no dataset at {dataset}", "give dataset, the folder that the model was fitted to")
    return Model(at, dataset)


def value(
    log: Table,
    policy: Model | str | os.PathLike[str] = "column:target",
    *,
    dataset: PathLike | None = None,
    k: int | None = None,
    explore: float | None = None,
    linked: bool = False,
    examination: Sequence[float] | None = None,
    probability: str | None = None,
    threads: int | None = None,
    progress: Progress = True,
) -> PolicyValue:
    """Says what a policy would be worth before it goes live, by a log of what another policy showed.

    Args:
        log: a table with the columns context, item, place, probability and outcome, and optionally list; or the path
            of the event log of a service (events.db). obp_log() makes one of OBP's bandit feedback.
        policy: a model, "popular", "uniform", or "column:NAME": probabilities in that column of the table
        dataset: the dataset of the contexts and items; that of the model if not given
        k: items of the policy's lists; as in the log if not given
        explore: share of places that the policy draws (0.1)
        linked: the policy shows linked items too
        examination: chances that readers look at places 1, 2, …; learned if not given
        probability: "list" if those in the log are of the item in the list, "place" if at its place
        threads: threads; all processors if not given
        progress: see fit()
    """
    if isinstance(policy, Model):
        dataset = dataset or policy.dataset
    chances = None if examination is None else ",".join(map(str, examination))
    with tempfile.TemporaryDirectory(prefix="unseen-") as folder:
        asked = flags({
            "log": write(log, Path(folder), "log"), "policy": _path(policy), "k": k, "explore": explore,
            "linked": linked, "examination": chances, "probability": probability, "threads": threads,
        })  # fmt: skip
        raw, _ = run_json(["evaluate", *asked, "--", *([] if dataset is None else [str(dataset)])], progress=progress)
    return PolicyValue(raw)


def metadata(path: Path) -> dict[str, str]:
    """Returns the metadata of a model, a safetensors file."""
    try:
        with path.open("rb") as f:
            size = struct.unpack("<Q", f.read(8))[0]
            if size > 1 << 30:
                raise ValueError("its header is too long")
            meta = json.loads(f.read(size)).get("__metadata__", {})
    except OSError as e:
        raise Error(f"{path}: {e.strerror}", "give the path of a model") from e
    except (ValueError, struct.error, AttributeError) as e:
        raise Error(f"{path} is no model: {e}", "give the path of a model that unseen fit made") from e
    if meta.get("format") != "unseen-model":
        raise Error(f"{path} is a safetensors file, but no model of unseen", "give the path of a model")
    return dict(meta)


def _path(model: Model | PathLike | None) -> str | None:
    return None if model is None else str(model.path if isinstance(model, Model) else os.fspath(model))


def _ids(ids: object) -> list[str]:
    """Returns one id or many as texts, also of a pandas or polars column."""
    if ids is None:
        return []
    if isinstance(ids, (str, bytes)) or not isinstance(ids, Iterable):
        return [str(ids)]
    if not (named := [str(i) for i in ids]):
        raise Error("there are no ids to recommend to", "give an id, or None for everybody")
    return named


def _parts(ids: list[str]) -> Iterable[list[str]]:
    part: list[str] = []
    length = 0
    for i in ids:
        if part and length + len(i) > _MOST_CHARACTERS:
            yield part
            part, length = [], 0
        part.append(i)
        length += len(i) + 3
    yield part


def _new(text: str | None, history: Iterable[object] | None, shown: Iterable[object] | None) -> list[str]:
    """Returns the flags of somebody or something that is new."""
    out = [] if text is None else [f"--text={text}"]
    for flag, ids in (("history", history), ("shown", shown)):
        if ids is not None:
            out.append(f"--{flag}=" + ",".join(_ids(ids)))
    return out


def _lines(path: Path, ids: Iterable[object]) -> Path:
    path.write_text("".join(i + "\n" for i in _ids(ids)), encoding="utf-8")
    return path


def _frame_of_lists(lists: list[dict[str, Any]], explain: bool) -> Frame:
    rows = []
    doubts: dict[str, str] = {}
    for made in lists:
        for item in made.get("items") or []:
            row = {"source": made["source"]["id"], **{column: item.get(key) for key, column in _COLUMNS.items()}}
            row["hidden"] = bool(row["hidden"])
            if explain:
                row["why"] = item.get("why")
            rows.append(row)
        for text in made.get("warnings") or []:
            doubts.setdefault(re.sub(r"\d+", "", text), text)  # the same of other numbers is said once
    for text in doubts.values():
        warnings.warn(in_python(text), Doubt, stacklevel=3)
    return frame_of(rows, ["source", *_COLUMNS.values(), *(["why"] if explain else [])])


def _named(first: Model, against: Any) -> dict[str, Path]:
    """Returns models by names: those of a dict, or the methods by which they were fitted."""
    if isinstance(against, (Model, str, os.PathLike)):
        against = [against]
    named = dict(against) if isinstance(against, Mapping) else None
    out = {first.method: first.path}
    for name, other in named.items() if named is not None else ((None, m) for m in against):
        path = Path(_path(other) or "")
        base = str(name) if name is not None else str(metadata(path).get("method") or "model")
        base = base.replace("/", "-").replace("\\", "-")
        unique, n = base, 1
        while unique in out:
            n += 1
            unique = f"{base}-{n}"
        out[unique] = path
    return out


def _without_suffix(value: Any) -> Any:
    """Takes .safetensors from the names of models."""
    if isinstance(value, dict):
        return {k: _without_suffix(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_suffix(v) for v in value]
    return value.replace(".safetensors", "") if isinstance(value, str) else value


def _csv(groups: Table, folder: Path) -> Path:
    """Returns a table of groups as the CSV file that the program reads."""
    path = write(groups, folder, "groups")
    if path.suffix != ".parquet":
        return path
    to = folder / "groups.csv"
    if type(groups).__module__.startswith("pandas"):
        groups.to_csv(to, index=False)
    elif hasattr(groups, "write_csv"):
        groups.write_csv(to)
    else:
        from pyarrow import csv

        csv.write_csv(groups, to)
    return to
