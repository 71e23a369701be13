"""From tables to a model."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from ._errors import Error, in_python
from ._evaluation import Home
from ._frames import Table, write
from ._model import Model, PathLike, _path
from ._program import Progress, flags, run_json


def fit(
    *unnamed: Table,
    items: Table | None = None,
    links: Table | None = None,
    clicks: Table | None = None,
    impressions: Table | None = None,
    people: Table | None = None,
    vectors: Any = None,
    dataset: PathLike | None = None,
    columns: Mapping[str, str] | None = None,
    log: str | None = None,
    threshold: float | None = None,
    min_count: int | None = None,
    lenient: bool = False,
    undirected: bool = False,
    nodes_from_links: bool = False,
    encode: bool | str | None = None,
    out: PathLike | None = None,
    method: str | None = None,
    exposure: str | None = None,
    preset: str | None = None,
    link: str | None = None,
    propensity: str | None = None,
    optimiser: str | None = None,
    doctor: str | None = None,
    replicates: int | None = None,
    anchor: str | Sequence[str] | None = None,
    split: str | None = None,
    shares: Sequence[float] | None = None,
    validation_from: object = None,
    test_from: object = None,
    later_targets: bool = False,
    unavailable: bool = False,
    negatives: int | None = None,
    negative_scheme: str | None = None,
    fields_by: str | Sequence[str] | None = None,
    search: Mapping[str, Sequence[float]] | None = None,
    certify: int | None = None,
    refresh: Model | PathLike | None = None,
    resume: bool = False,
    seed: int = 1,
    threads: int | None = None,
    progress: Progress = True,
) -> Model:
    """Learns what is relevant (ŷ) and what was shown (π̂) from tables.

    Give either links, for a network (papers, pages, friends), or clicks, for people and items; or dataset, a folder
    that is there already. A table is a pandas or polars DataFrame, an Arrow table, a dict of columns, a list of dicts,
    or the path of a file. Columns are found by their names.

    Args:
        items: id, and field (a category), title, text, time where there are; of links the nodes
        links: source, target, and time
        clicks: user, item, and time, rating or count
        impressions: what was shown: user, item, and time, position, surface, probability, clicked; of links source,
            target, linked, exposed
        people: id, and field (a segment), title, text, time
        vectors: an array or a sparse matrix of scipy with a row for every row of items, or the path of a .npy or .npz
            file; with links
        dataset: a folder of a dataset, instead of tables
        columns: names of columns that are not found, such as {"user": "visitor", "item_title": "name"}: a key is a flag
            of unseen import interactions (of clicks) or unseen import parquet (of links)
        log: what impressions hold: "complete", all that those people were shown; "sample", pairs that were drawn,
            shown or not; "offered", what was shown after the clicks; "drawn", that, of pairs drawn at random;
            "ignored", the default of ratings without impressions
        threshold: least rating that is a link
        min_count: least count of clicks for a link
        lenient: skip bad rows; they are counted in notes of the model
        undirected: add every link in both directions
        nodes_from_links: make a node for each end of a link that has no row
        encode: True makes vectors from titles and texts; "onnx:FOLDER" does so by a neural encoder; "features" makes
            short ones of wide vectors, such as bags of words. By default texts are encoded where a network has no
            vectors, which it needs; people and items do without
        out: folder for dataset and model, replaced if it is there; load() opens it. If not given, a temporary one that
            goes with the model
        method: bayes (the default), naive, mle (the default of people and items), shown, rw, pu, ap, dr, …
        exposure: what π̂ depends on, such as "fields+text"
        preset: safe, paper or notebook
        link: link model
        propensity: propensity model
        optimiser: adam, lbfgs, alternating
        doctor: "full", or "quick": tries the model alone
        replicates: learn so many times again, for intervals
        anchor: known mean π, such as "same=0.8±0.1"
        split: how to hold out: order, random, date, last-links, random-links, link-date or whole
        shares: shares of training, validation and test
        validation_from: date from which validation begins
        test_from: date from which testing begins
        later_targets: targets may be newer than their source
        unavailable: learn from items newer than a person's last link
        negatives: unlinked pairs per link
        negative_scheme: uniform, field or popularity
        fields_by: makes fields, such as "activity:3", "vectors:20" or "links:50"
        search: settings and values to try, such as {"ridge": [0.1, 1, 10]}
        certify: plant this many known truths and fit each
        refresh: a model to begin at: few links are new
        resume: go on with a training that was interrupted, with the dataset in out
        seed: seed of training
        threads: threads; all processors if not given
        progress: True shows a bar if tqdm is installed, False nothing; a function gets each event as a dict

    Raises:
        Error: with a hint of what to do
    """
    if unnamed:
        raise Error("fit is given a table without its name", "name it: unseen.fit(clicks=…) or unseen.fit(links=…)")
    home = Home() if out is None else None
    folder = Path(out) if out is not None else home.path if home else Path()
    notes: list[str] = []
    tables = {"items": items, "links": links, "clicks": clicks, "impressions": impressions, "people": people}
    given = {name for name, table in tables.items() if table is not None}
    if resume:
        if out is None and dataset is None:
            raise Error("there is nothing to resume in a temporary folder", "give out, the folder of the first time")
        dataset = dataset or folder / "dataset"
    elif dataset is None:
        tables_to(
            folder / "dataset",
            tables,
            vectors=vectors,
            columns=columns,
            notes=notes,
            progress=progress,
            settings={
                "log": log,
                "threshold": threshold,
                "min_count": min_count,
                "lenient": lenient,
                "undirected": undirected,
                "nodes_from_links": nodes_from_links,
            },
        )
        dataset = folder / "dataset"
    elif given:
        raise Error(f"both dataset and {' and '.join(sorted(given))} are given", "give one of them")
    dataset = Path(dataset)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.safetensors"
    asked = flags({
        "method": method, "exposure": exposure, "preset": preset, "link": link, "propensity": propensity,
        "optimiser": optimiser, "doctor": doctor, "replicates": replicates, "anchor": _many(anchor), "split": split,
        "shares": None if shares is None else ",".join(map(str, shares)), "validation_from": _day(validation_from),
        "test_from": _day(test_from), "later_targets": later_targets, "unavailable": unavailable,
        "negatives": negatives, "negative_scheme": negative_scheme, "fields_by": _many(fields_by),
        "search": {k: ",".join(map(str, v)) for k, v in (search or {}).items()}, "certify": certify,
        "refresh": _path(refresh), "resume": resume, "seed": seed, "threads": threads, "log": log,
    })  # fmt: skip
    try:
        if encode or (encode is None and "links" in given and _lacks_vectors(dataset)):
            encoder = {"encoder": encode if isinstance(encode, str) else None, "threads": threads, "seed": seed}
            run_json(["encode", "--force", *flags(encoder), "--", str(dataset)], progress=progress)
        made, said = run_json(["fit", *asked, "-o", str(path), "--", str(dataset)], progress=progress)
    except Error as e:
        raise _told(e, home, notes) from None
    notes += [in_python(text) for text in [*said, *(w["message"] for w in made.get("warnings") or [])]]
    return Model(path, dataset, home=home, notes=notes)


def _told(e: Error, home: Home | None, notes: Sequence[str]) -> Error:
    """Returns an error without the name of a temporary folder, and with what the import said of the tables."""
    inside = f"{home.path}{os.sep}" if home else ""
    told = Error(e.message.replace(inside, ""), e.hint.replace(inside, ""), e.code)
    if hasattr(told, "add_note"):  # from Python 3.11 on
        for note in notes:
            told.add_note(note)
    return told


def tables_to(
    to: Path,
    tables: Mapping[str, Table | None],
    *,
    vectors: Any,
    columns: Mapping[str, str] | None,
    settings: dict[str, Any],
    notes: list[str],
    progress: Progress,
) -> None:
    """Makes a dataset of tables, and adds what the program says of them to notes."""
    given = {name: table for name, table in tables.items() if table is not None}
    if ("links" in given) == ("clicks" in given):
        raise Error(
            "both links and clicks are given" if "links" in given else "there are neither links nor clicks",
            "give links for a network, or clicks for people and items",
        )
    names = {key: value for key, value in (columns or {}).items()}
    with tempfile.TemporaryDirectory(prefix="unseen-") as scratch:
        kind = _kind(given.values()) if "links" in given else None
        at = {name: write(table, Path(scratch), name, kind) for name, table in given.items()}
        if "clicks" in given:
            if vectors is not None:
                raise Error("vectors are for networks", "give items a text, and encode=True")
            asked = ["interactions", *flags({
                "clicks": at["clicks"], "impressions": at.get("impressions"), "items": at.get("items"),
                "users": at.get("people"), **settings, **names,
            })]  # fmt: skip
        else:
            if "people" in given:
                raise Error("people are given with links", "give people with clicks")
            for name in ("threshold", "min_count"):
                if settings.pop(name) is not None:
                    raise Error(f"{name} is for clicks", "leave out links that are none")
            asked = _network(at, Path(scratch), vectors, {**settings, **names})
        to.parent.mkdir(parents=True, exist_ok=True)
        here = re.compile(re.escape(scratch + os.sep) + r"(\w+)\.\w+")  # tables that are no files have a name alone
        try:
            made, said = run_json(["import", asked[0], "--force", "-o", str(to), *asked[1:]], progress=progress)
        except Error as e:
            raise Error(here.sub(r"\1", e.message), _columns(here.sub(r"\1", e.hint)), e.code) from None
    notes += [_columns(here.sub(r"\1", in_python(text))) for text in [*said, *made["notes"]]]
    if made.get("rejected"):
        left = "1 row was" if made["rejected"] == 1 else f"{made['rejected']:,} rows were"
        notes.append(f"{left} left out: see {to}.rejects.csv")


def _columns(text: str) -> str:
    """Says how a column is named here."""
    return re.sub(r"\bset (\w+) to its name", r'set columns={"\1": …}', text)


def _kind(tables: Iterable[Table]) -> Literal["csv", "jsonl"] | None:
    """Returns the format that all tables of a network can have; None is what suits them, Parquet."""
    tables = list(tables)
    formats = {_FORMATS.get(_suffix(Path(t)), "csv") for t in tables if isinstance(t, (str, os.PathLike))}
    if formats:
        return "csv" if formats == {"csv"} else "jsonl" if formats == {"jsonl"} else None
    return "jsonl" if any(isinstance(t, (Mapping, list, tuple)) for t in tables) else None


_FORMATS = {".parquet": "parquet", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def _network(at: dict[str, Path], scratch: Path, vectors: Any, settings: dict[str, Any]) -> list[str]:
    """Returns how to import a network. Its tables are all CSV, JSON lines or Parquet."""
    kinds = {_FORMATS.get(_suffix(path), "csv") for path in at.values()}
    if len(kinds) > 1:
        raise Error(f"the tables are of different formats: {' and '.join(sorted(kinds))}", "read the files first")
    if vectors is not None and not isinstance(vectors, (str, os.PathLike)):
        vectors = _vectors(vectors, scratch)
    if "items" not in at:
        settings["nodes_from_links"] = True
    asked = flags({**settings, "vectors": vectors, "exposures": at.get("impressions")})
    return [kinds.pop(), *asked, "--", *(str(at[name]) for name in ("items", "links") if name in at)]


def _vectors(vectors: Any, scratch: Path) -> Path:
    """Writes an array, or a sparse matrix of scipy, for the program."""
    if type(vectors).__module__.startswith("scipy.sparse"):
        from scipy import sparse

        sparse.save_npz(scratch / "vectors.npz", vectors.tocsr())
        return scratch / "vectors.npz"
    import numpy

    try:
        rows = numpy.asarray(vectors, dtype=numpy.float32)
    except (TypeError, ValueError) as e:
        raise Error(f"vectors: {e}", "give an array of numbers with a row for every item") from e
    numpy.save(scratch / "vectors.npy", rows)
    return scratch / "vectors.npy"


def _suffix(path: Path) -> str:
    suffixes = [s for s in path.suffixes if s not in (".gz", ".zst")]
    return suffixes[-1] if suffixes else ""


def _lacks_vectors(dataset: Path) -> bool:
    """Tells a network, of nodes that are all sources and targets, which has no vectors."""
    about = dataset / "dataset.json"
    if (dataset / "vectors.npy").exists() or not about.exists():
        return False
    return not json.loads(about.read_text(encoding="utf-8")).get("sources")


def _many(value: str | Sequence[str] | None) -> list[str] | None:
    return [value] if isinstance(value, str) else None if value is None else list(value)


def _day(value: object) -> str | None:
    """Returns a date as the program reads it, also one of datetime, pandas or NumPy."""
    return None if value is None else str(value)[:10]
