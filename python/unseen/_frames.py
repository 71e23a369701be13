"""Tables in and out: pandas, polars, Arrow, plain Python, or files."""

from __future__ import annotations

import csv
import importlib.util
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from ._errors import Error

Table = Any
"""A pandas or polars DataFrame, an Arrow table, anything with the Arrow PyCapsule interface, a dict of columns, a list
of dicts, or the path of a CSV, JSON lines or Parquet file (.gz and .zst too)."""

Frame = Any
"""A table that is returned: see use()."""

Kind = Literal["pandas", "polars", "arrow", "python"]

_ORDER: tuple[tuple[Kind, str], ...] = (("pandas", "pandas"), ("polars", "polars"), ("arrow", "pyarrow"))
_chosen: Kind | None = None


def use(kind: Kind | None) -> None:
    """Sets what tables are returned as.

    By default (None) they are pandas DataFrames if pandas is installed, else polars DataFrames, else Arrow tables, and
    without any of these dicts of columns ("python").
    """
    global _chosen
    if kind is not None and kind not in ("pandas", "polars", "arrow", "python"):
        raise Error(f"tables cannot be returned as {kind!r}", "use pandas, polars, arrow or python")
    _chosen = kind


def frame(columns: Mapping[str, list[Any]]) -> Frame:
    """Makes a table of columns."""
    kind = _chosen or next((k for k, module in _ORDER if importlib.util.find_spec(module)), "python")
    if kind == "pandas":
        import pandas

        return pandas.DataFrame(
            {name: pandas.Series(c, dtype=_pandas(_type(name, c), c)) for name, c in columns.items()}
        )
    if kind == "polars":
        import polars

        types = {"int": polars.Int64, "float": polars.Float64, "str": polars.String}
        return polars.DataFrame(
            dict(columns),
            schema_overrides={n: types[t] for n, c in columns.items() if (t := _type(n, c))},
            strict=False,
        )
    if kind == "arrow":
        import pyarrow

        types = {"int": pyarrow.int64(), "float": pyarrow.float64(), "str": pyarrow.string()}
        return pyarrow.table({n: pyarrow.array(c, types.get(_type(n, c) or "")) for n, c in columns.items()})
    return dict(columns)


def frame_of(rows: Iterable[Mapping[str, Any]], names: Iterable[str] | None = None) -> Frame:
    """Makes a table of rows, with the names of the first unless they are given. What a row lacks is missing."""
    rows = list(rows)
    if names is None:
        names = dict.fromkeys(name for row in rows for name in row)
    return frame({name: [row.get(name) for row in rows] for name in names})


# The type of a column must not depend on whether all of its numbers are whole this time, or missing.
_COUNTS = frozenset({
    "corrected_rank", "k", "links", "naive_rank", "nodes", "pairs", "place", "position", "rank", "seen_rank", "sources",
})  # fmt: skip
_TEXTS = frozenset({
    "by", "context", "field", "group", "item", "model", "name", "of", "scheme", "source", "source_field",
    "target_field", "time", "title", "user",
})  # fmt: skip


def _type(name: str, column: list[Any]) -> Literal["int", "float", "str"] | None:
    """Returns the type of a column; None is what suits its values."""
    known = [v for v in column if v is not None]
    if name in _TEXTS and all(isinstance(v, str) for v in known):
        return "str"
    if any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in known):
        return None
    return "int" if name in _COUNTS and all(isinstance(v, int) for v in known) else "float"


def _pandas(type_: str | None, column: list[Any]) -> str | None:
    """Returns a type as pandas calls it."""
    whole = "Int64" if None in column else "int64"
    return {"int": whole, "float": "float64"}.get(type_ or "")


def write(table: Table, folder: Path, name: str, kind: Literal["csv", "jsonl"] | None = None) -> Path:
    """Writes a table for the program and returns where. A path is returned as it is.

    The format is what suits the table, or the kind that is asked for.
    """
    if isinstance(table, (str, os.PathLike)):
        path = Path(table).absolute()
        if not path.exists():
            raise Error(f"{name}: there is no file {table}", "give the path of a table, or the table itself")
        return path
    library = type(table).__module__.split(".")[0]
    try:
        if library == "pandas":
            return _write_pandas(table, folder, name, kind)
        if library == "polars":
            return _write_polars(table, folder, name, kind)
        if library == "pyarrow" or hasattr(table, "__arrow_c_stream__"):
            return _write_arrow(table, folder, name, kind)
    except (OSError, Error):
        raise
    except Exception as e:
        raise Error(f"{name}: the table cannot be written: {e}", "give every column one type") from e
    if isinstance(table, Mapping):
        columns = {str(key): list(values) for key, values in table.items()}
        lengths = {len(values) for values in columns.values()}
        if len(lengths) > 1:
            raise Error(f"{name}: the columns have {_listed(sorted(lengths))} rows", "give all the same number")
        table = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    if isinstance(table, (list, tuple)) and all(isinstance(row, Mapping) for row in table):
        return _write_csv(table, folder, name) if kind == "csv" else _write_lines(table, folder, name)
    raise Error(
        f"{name}: a {type(table).__module__}.{type(table).__qualname__} is no table",
        "give a pandas or polars DataFrame, an Arrow table, a dict of columns, a list of dicts or a path",
    )


def _listed(values: Iterable[object]) -> str:
    return " and ".join(map(str, values))


def _write_pandas(table: Any, folder: Path, name: str, kind: str | None) -> Path:
    if not hasattr(table, "columns"):
        raise Error(f"{name}: a pandas {type(table).__name__} is no table", "give a DataFrame")
    if any(index is not None for index in table.index.names):  # such as ids
        table = table.reset_index()
    table = table.rename(columns=str)
    whole = [c for c in table.columns if _whole(table[c])]
    if whole:
        table = table.astype(dict.fromkeys(whole, "Int64"))
    if kind == "jsonl":
        path = folder / f"{name}.jsonl"
        table.to_json(path, orient="records", lines=True, date_format="iso")
        return path
    if kind is None and importlib.util.find_spec("pyarrow"):
        path = folder / f"{name}.parquet"
        table.to_parquet(path, index=False)
        return path
    path = folder / f"{name}.csv"
    table.to_csv(path, index=False, quoting=csv.QUOTE_MINIMAL)
    return path


def _whole(column: Any) -> bool:
    """Tells ids that pandas has made fractions, 7.0 instead of 7, as it does where one is missing."""
    return bool(column.dtype.kind == "f" and column.notna().any() and (column.dropna() % 1 == 0).all())


def _write_polars(table: Any, folder: Path, name: str, kind: str | None) -> Path:
    if hasattr(table, "collect"):
        table = table.collect()
    if kind == "jsonl":
        return _write_lines(table.iter_rows(named=True), folder, name)
    path = folder / f"{name}.{kind or 'parquet'}"
    if kind == "csv":
        table.write_csv(path)
    else:
        table.write_parquet(path)
    return path


def _write_arrow(table: Any, folder: Path, name: str, kind: str | None) -> Path:
    if importlib.util.find_spec("pyarrow"):
        import pyarrow
        from pyarrow import csv, parquet

        if hasattr(table, "read_all"):
            table = table.read_all()
        elif hasattr(table, "to_table"):
            table = table.to_table()
        elif not isinstance(table, pyarrow.Table):
            table = pyarrow.table(table)
        if kind == "jsonl":
            return _write_lines(table.to_pylist(), folder, name)
        path = folder / f"{name}.{kind or 'parquet'}"
        if kind == "csv":
            csv.write_csv(table, path)
        else:
            parquet.write_table(table, path)
        return path
    if importlib.util.find_spec("polars"):
        import polars

        return _write_polars(polars.from_arrow(table), folder, name, kind)
    raise Error(f"{name}: nothing here can write Arrow tables", "install pyarrow or polars")


def _write_csv(rows: Iterable[Mapping[str, Any]], folder: Path, name: str) -> Path:
    rows = list(rows)
    path = folder / f"{name}.csv"
    with path.open("w", encoding="utf-8", newline="") as f:
        writer = csv.DictWriter(f, list(dict.fromkeys(key for row in rows for key in row)))
        writer.writeheader()
        writer.writerows({key: _plain(value) for key, value in row.items()} for row in rows)
    return path


def _write_lines(rows: Iterable[Mapping[str, Any]], folder: Path, name: str) -> Path:
    path = folder / f"{name}.jsonl"
    with path.open("w", encoding="utf-8") as f:
        for row in rows:
            known = {key: _plain(value) for key, value in row.items()}
            f.write(json.dumps({key: v for key, v in known.items() if v is not None}, ensure_ascii=False) + "\n")
    return path


def _plain(value: Any) -> Any:
    """Returns a value as JSON has it: numbers of NumPy, times, and what is missing."""
    if hasattr(value, "item"):
        value = value.item()
    if str(value) in ("nan", "NaT", "<NA>") and not isinstance(value, str):
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value
