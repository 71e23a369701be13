"""Data of other libraries: RecBole's atomic files and OBP's bandit feedback."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ._errors import Error
from ._frames import Frame, frame
from ._model import PathLike

_ATOMIC = {"clicks": ".inter", "items": ".item", "people": ".user"}


def read_recbole(path: PathLike) -> dict[str, Frame]:
    """Reads atomic files of RecBole: fit(**read_recbole("ml-100k"), threshold=4, log="ignored").

    Args:
        path: the folder of a dataset, or one of its files without the suffix: ml-100k/ml-100k

    Returns:
        clicks (.inter), and items (.item) and people (.user) where there are. The header's types give those of the
        columns: token and token_seq are texts, float is a number, float_seq a list of them.
    """
    at = Path(path)
    folder, stem = (at, at.name) if at.is_dir() else (at.parent, at.stem if at.suffix in _ATOMIC.values() else at.name)
    if at.is_dir() and not (at / f"{stem}.inter").exists():
        found = sorted(at.glob("*.inter"))
        if len(found) != 1:
            raise Error(f"{at} has {len(found)} files .inter", "name the one to read, without the suffix")
        stem = found[0].stem
    if not (folder / f"{stem}.inter").exists():
        raise Error(f"there is no file {folder / stem}.inter", "name the folder of atomic files")
    return {
        name: _atomic(folder / (stem + suffix))
        for name, suffix in _ATOMIC.items()
        if (folder / (stem + suffix)).exists()
    }


def _atomic(path: Path) -> Frame:
    with path.open(encoding="utf-8", newline="") as f:
        rows = csv.reader(f, delimiter="\t", quoting=csv.QUOTE_NONE)
        header = [name.rsplit(":", 1) for name in next(rows, [])]
        if not header or any(len(h) != 2 or h[1] not in _TYPES for h in header):
            raise Error(f"{path}: the first line has no names with types", "write it as user_id:token, item_id:token")
        columns: list[list[Any]] = [[] for _ in header]
        convert = [_TYPES[kind] for _, kind in header]
        for row in rows:
            if len(row) != len(header):
                raise Error(
                    f"{path}, line {rows.line_num}: {len(row)} columns instead of {len(header)}",
                    "separate columns by tabs",
                )
            try:
                for column, as_, value in zip(columns, convert, row, strict=True):
                    column.append(as_(value) if value != "" else None)
            except ValueError as e:
                raise Error(f"{path}, line {rows.line_num}: {e}", "correct the value, or its type in the header") from e
    return frame({name: column for (name, _), column in zip(header, columns, strict=True)})


def _floats(text: str) -> list[float]:
    return [float(v) for v in text.replace(",", " ").split()]


_TYPES: dict[str, Any] = {"token": str, "token_seq": str, "float": float, "float_seq": _floats}


def read_obp(feedback: Mapping[str, Any]) -> dict[str, Frame]:
    """Turns OBP's bandit feedback into clicks and impressions: fit(**read_obp(feedback), log="complete").

    Rounds whose context has the same features are one person. A round with a reward is a click.

    Args:
        feedback: a dict with context, action and reward, and position and pscore where there are

    Returns:
        clicks (user, item) and impressions (user, item, position, probability, clicked)
    """
    log = _rounds(feedback)
    clicked = [k for k, outcome in enumerate(log["outcome"]) if outcome > 0]
    if not clicked:
        raise Error("no round has a reward", "give feedback in which something was clicked")
    impressions = {
        "user": log["context"],
        "item": log["item"],
        "position": log["place"],
        "probability": log["probability"],
        "clicked": [outcome > 0 for outcome in log["outcome"]],
    }
    return {
        "clicks": frame({"user": [log["context"][k] for k in clicked], "item": [log["item"][k] for k in clicked]}),
        "impressions": frame({k: v for k, v in impressions.items() if v[0] is not None}),
    }


def obp_log(feedback: Mapping[str, Any], action_dist: Any = None) -> Frame:
    """Turns OBP's bandit feedback into a log for value(): context, item, place, probability and outcome.

    Args:
        feedback: a dict with context, action, reward and pscore, and position where there is one
        action_dist: probabilities of a policy by round, action and position, as OBP's policies give them; the column
            target has those of the logged actions: value(obp_log(feedback, action_dist), "column:target")
    """
    log = _rounds(feedback)
    if log["probability"][0] is None:
        raise Error("the feedback has no pscore", "give the probability of each logged action, or estimate it first")
    log["place"] = [place or 1 for place in log["place"]]
    if action_dist is not None:
        target = []
        for k, (action, place) in enumerate(zip(feedback["action"], log["place"], strict=True)):
            chances: Any = action_dist[k][int(action)]
            target.append(float(chances[place - 1] if hasattr(chances, "__len__") else chances))
        log["target"] = target
    return frame(log)


def _rounds(feedback: Mapping[str, Any]) -> dict[str, list[Any]]:
    for key in ("context", "action", "reward"):
        if feedback.get(key) is None:
            raise Error(f"the feedback has no {key}", "give the dict that OBP's datasets return")
    n = len(feedback["action"])
    out: dict[str, list[Any]] = {}
    seen: dict[tuple[float, ...], int] = {}
    out["context"] = [f"context {seen.setdefault(_key(row), len(seen))}" for row in feedback["context"]]
    out["item"] = [str(int(action)) for action in feedback["action"]]
    places, scores = feedback.get("position"), feedback.get("pscore")
    out["place"] = [None] * n if places is None else [int(p) + 1 for p in places]
    out["probability"] = [None] * n if scores is None else [float(p) for p in scores]
    out["outcome"] = [float(reward) for reward in feedback["reward"]]
    if n == 0 or len({len(column) for column in out.values()}) > 1:
        raise Error("the feedback's arrays have different lengths, or none", "give every round one of each")
    return out


def _key(row: Any) -> tuple[float, ...]:
    return tuple(float(v) for v in row) if isinstance(row, Iterable) else (float(row),)
