"""Models from tables of every kind are those of the command line."""

from __future__ import annotations

import csv
import datetime
import io
from pathlib import Path
from typing import Any

import conftest
import numpy
import pandas
import polars
import pyarrow
import pyarrow.csv
import pytest
import scipy.sparse

import unseen

KINDS = {
    "pandas": pandas.read_csv,
    "pandas, times": lambda p: pandas.read_csv(p, parse_dates=["time"] if p.name != "users.csv" else []),
    "pandas, categories": lambda p: pandas.read_csv(p).astype({"item": "category"} if p.name != "users.csv" else {}),
    "pandas, id as index": lambda p: pandas.read_csv(p, index_col=0),
    "polars": polars.read_csv,
    "polars, lazy": polars.scan_csv,
    "arrow": pyarrow.csv.read_csv,
    "arrow, batches": lambda p: pyarrow.csv.open_csv(p),
    "rows": conftest.rows,
    "columns": lambda p: pandas.read_csv(p).to_dict("list"),
    "path": str,
}


def lists_of(text: str) -> list[dict[str, Any]]:
    """Lists as the command line prints them as CSV."""
    return [
        {
            "source": r["source"],
            "rank": int(r["rank"]),
            "target": r["target"],
            "link": float(r["link"]),
            "propensity": float(r["propensity"]),
            "corrected_rank": int(r["corrected_rank"]),
            "seen_rank": int(r["seen_rank"]),
            "hidden": r["hidden"] == "true",
        }
        for r in csv.DictReader(io.StringIO(text))
    ]


@pytest.mark.filterwarnings("ignore::unseen.Doubt")
@pytest.mark.parametrize("kind", KINDS)
def test_same_as_command_line(kind: str, shop: dict[str, Path], by_command_line: Path) -> None:
    model = unseen.fit(**{name: KINDS[kind](path) for name, path in shop.items()}, log="complete", progress=False)
    people = ["u00003", "u00007", "u00011"]
    got = model.recommend(people, k=4)[conftest.LISTED].to_dict("records")
    at = by_command_line
    want = lists_of(
        conftest.program(
            "recommend", at / "model.safetensors", at / "dataset", *people, "-k", 4, "--format", "csv", "--quiet"
        )
    )
    assert len(got) == len(want) == 12
    for g, w in zip(got, want, strict=True):
        assert {k: v for k, v in g.items() if k not in ("link", "propensity")} == {
            k: v for k, v in w.items() if k not in ("link", "propensity")
        }
        assert g["link"] == pytest.approx(w["link"], rel=1e-5)
        assert g["propensity"] == pytest.approx(w["propensity"], rel=1e-5)
    assert model.doctor.raw == unseen.load(at).doctor.raw


def test_everybody(model: unseen.Model, tmp_path: Path) -> None:
    got = model.recommend(k=3)
    conftest.program(
        "recommend", model.path, model.dataset, "--all", "-k", 3, "-o", tmp_path / "l", "--format", "csv", "--quiet"
    )
    want = pandas.read_csv(tmp_path / "l" / "part-00000.csv")
    pandas.testing.assert_frame_equal(got, want, check_dtype=False, rtol=1e-5)
    with pytest.raises(unseen.Error, match="give ids"):
        model.recommend(diversity=0.5)


def test_tables_are_named() -> None:
    with pytest.raises(unseen.Error, match=r"name it: unseen\.fit\(clicks="):
        unseen.fit({"user": ["a"], "item": ["b"]})


@pytest.mark.filterwarnings("ignore::unseen.Doubt")
def test_many_ids_take_more_than_one_run(model: unseen.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    people = model.recommend(k=1).source
    whole = model.recommend(people, k=2)
    monkeypatch.setattr("unseen._model._MOST_CHARACTERS", 100)
    pandas.testing.assert_frame_equal(whole, model.recommend(people, k=2))
    assert list(dict.fromkeys(whole.source)) == list(people)


@pytest.mark.filterwarnings("ignore::unseen.Doubt")
def test_recommend_settings(model: unseen.Model, naive: unseen.Model) -> None:
    plain = model.recommend("u00007", k=5)
    assert list(plain["rank"]) == [1, 2, 3, 4, 5]
    left = model.recommend("u00007", k=5, exclude=plain.target[:2])
    assert not set(left.target) & set(plain.target[:2])
    field = plain.field[0]
    assert set(model.recommend("u00007", k=3, fields=field).field) == {field}
    assert model.recommend("u00007", k=2, naive=naive).naive_rank.notna().all()
    assert model.recommend("u00007", k=2, explain=True).why[0]["children"]
    assert len(model.recommend(history=plain.target[:2], shown=[plain.target[2]], k=3)) == 3
    assert (model.recommend("u00007", k=5, explore=0.5, seed=2).shown < 1).any()


def test_ratings_without_impressions() -> None:
    """A table of MovieLens is enough: what was rated is no log of what was shown."""
    rows = [(user, item, 1 + (user * item) % 5) for user in range(1, 41) for item in range(1, 21) if (user + item) % 3]
    ratings = pandas.DataFrame(rows, columns=["userId", "movieId", "rating"])
    movies = pandas.DataFrame(
        {"movieId": range(1, 21), "genres": ["Comedy|Drama", "Drama", "Action|Comedy"] * 6 + ["Drama"] * 2}
    )
    model = unseen.fit(clicks=ratings, items=movies)
    assert set(model.fields) >= {"Comedy", "Drama", "Action"}
    assert not any("|" in field for field in model.fields)
    assert any("Set log to complete if these people were shown nothing but" in note for note in model.notes)
    assert not any(note.startswith("The exposures hold only") for note in model.notes)
    shown = unseen.fit(clicks=ratings, items=movies, log="complete")
    assert not any("Set log to complete" in note for note in shown.notes)


def test_doubt_is_a_warning(model: unseen.Model) -> None:
    with pytest.warns(unseen.Doubt, match="do not rely"):
        model.recommend("u00007", k=1)


def test_network_with_texts(tmp_path: Path) -> None:
    random = numpy.random.default_rng(5)
    words = {"red": "rose wine brick rust", "blue": "sea sky ice rain"}
    field = random.choice(list(words), 150)
    nodes = pandas.DataFrame(
        {
            "id": numpy.arange(150),  # numbers become texts
            "field": field,
            "text": [" ".join(random.choice((words[f] + " day night").split(), 8)) for f in field],
            "time": [datetime.datetime(2020, 1, 1) + datetime.timedelta(days=i) for i in range(150)],
            "tags": [["x", "y"]] * 150,  # a column that nobody reads
        }
    )
    source = numpy.repeat(numpy.arange(10, 150), 4)
    links = pandas.DataFrame({"source": source, "target": (source * random.random(len(source))).astype(int)})
    links = links.drop_duplicates()
    model = unseen.fit(items=nodes, links=links, method="naive", out=tmp_path / "texts")
    assert (model.dataset / "vectors.npy").exists()
    assert len(model.recommend(149, k=5)) == 5
    assert len(model.recommend(text="rose wine", k=2)) == 2
    with pytest.raises(unseen.Error, match='find some with fields_by="vectors:20"'):
        unseen.fit(items=nodes.drop(columns="field"), links=links, method="naive")
    vectors = random.normal(size=(150, 8))
    mine = unseen.fit(items=nodes, links=links, vectors=vectors, method="naive")
    assert numpy.load(mine.dataset / "vectors.npy").shape == (150, 8)
    words = scipy.sparse.random_array((150, 2000), density=0.01, format="coo", rng=random)
    wide = unseen.fit(items=nodes, links=links, vectors=words, encode="features", method="naive")
    assert numpy.load(wide.dataset / "vectors.npy").shape[1] < 200
    assert any(note.endswith('reduce them in seconds: encode="features"') for note in wide.notes)
    with pytest.raises(unseen.Error, match="vectors"):
        unseen.fit(items=nodes, links=links, vectors=[[1], [1, 2]])
    assert model.doctor.verdict == "no exposure"


def test_missing_ids(shop: dict[str, Path]) -> None:
    clicks = pandas.read_csv(shop["clicks"])
    clicks["user"] = clicks.user.str[1:].astype(int)
    broken = clicks.assign(user=clicks.user.astype(float).where(clicks.index != 5))
    with pytest.raises(unseen.Error, match="empty") as e:
        unseen.fit(clicks=broken)
    assert e.value.hint
    model = unseen.fit(clicks=broken, lenient=True)
    assert any("left out" in note for note in model.notes)
    assert set(model.recommend(k=1).source) <= {str(u) for u in clicks.user}  # 7, not 7.0
    path = unseen._frames.write(broken, shop["clicks"].parent, "broken", "csv")
    assert conftest.rows(path)[0]["user"] == str(clicks.user[0])


def test_people_and_items_share_ids(shop: dict[str, Path]) -> None:
    clicks = pandas.read_csv(shop["clicks"])
    clicks = clicks.assign(user=clicks.user.str[1:].astype(int), item=clicks.item.str[1:].astype(int))
    model = unseen.fit(clicks=clicks, method="naive")
    assert any('people are called "user:"' in note for note in model.notes)
    person = clicks.user[0]
    pandas.testing.assert_frame_equal(model.recommend(person, k=3), model.recommend(f"user:{person}", k=3))
    with model.serve() as service:
        assert list(service.recommend(person, k=3, explore=0).source) == [f"user:{person}"] * 3
    with pytest.raises(unseen.Error, match='no node "100000"'):
        model.recommend(100000)


def test_columns_by_name(shop: dict[str, Path]) -> None:
    clicks = pandas.read_csv(shop["clicks"]).rename(columns={"user": "who", "item": "what", "time": "when"})
    with pytest.raises(unseen.Error) as e:
        unseen.fit(clicks=clicks)
    assert 'columns={"user": …}' in e.value.hint
    model = unseen.fit(clicks=clicks, columns={"user": "who", "item": "what", "time": "when"})
    assert model.method == "mle"


def test_out_is_replaced_and_opens_again(shop: dict[str, Path], tmp_path: Path) -> None:
    for method in ("naive", "mle"):
        unseen.fit(clicks=shop["clicks"], method=method, out=tmp_path / "shop")
    again = unseen.load(tmp_path / "shop")
    assert again.method == "mle"
    copy = again.save(tmp_path / "copy")
    pandas.testing.assert_frame_equal(copy.recommend(k=2), again.recommend(k=2))
    with pytest.raises(unseen.Error, match="choose another"):
        again.save(tmp_path / "copy")


def test_temporary_folders_live_as_long_as_their_models(shop: dict[str, Path]) -> None:
    model = unseen.fit(clicks=shop["clicks"], method="naive")
    path, dataset = model.path, model.dataset
    other = unseen.fit(dataset=dataset, method="naive")
    del model
    assert len(other.recommend(k=1)) > 0
    del other
    assert not path.exists()
    assert not dataset.exists()


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({}, "neither links nor clicks"),
        ({"clicks": [], "links": []}, "both"),
        ({"clicks": 7}, "is no table"),
        ({"clicks": "nowhere.csv"}, "there is no file"),
        ({"clicks": {"user": [1, 2], "item": [1]}}, "1 and 2 rows"),
        ({"links": {"source": ["a"], "target": ["b"]}, "people": []}, "people"),
        ({"links": "conftest.py", "items": "links.parquet"}, "there is no file"),
        ({"clicks": pandas.DataFrame({"user": ["a", 1], "item": [1, 2]})}, "cannot be written"),
        ({"clicks": pandas.DataFrame({"user": ["a"], "item": [[1]]})}, "^clicks: column item"),
        ({"dataset": "x", "clicks": []}, "both dataset and clicks"),
    ],
)
def test_refuses(tables: dict[str, Any], says: str) -> None:
    with pytest.raises(unseen.Error, match=says) as e:
        unseen.fit(**tables)
    assert e.value.hint


def test_errors_speak_of_tables(shop: dict[str, Path]) -> None:
    with pytest.raises(unseen.Error, match=r"^dataset: ") as e:  # no temporary folder
        unseen.fit(clicks=shop["clicks"], impressions=shop["impressions"])
    assert "log" in e.value.hint
    if hasattr(e.value, "__notes__"):  # from Python 3.11 on
        assert any("have no link" in note for note in e.value.__notes__)
    links = {"source": ["a", "b", "c"], "target": ["b", "c", "a"]}
    with pytest.raises(unseen.Error, match="titles or texts"):
        unseen.fit(links=links)
    model = unseen.fit(clicks=shop["clicks"], method="naive")
    with pytest.raises(unseen.Error, match=r"with encode=True$"):
        model.recommend(text="a new text")


@pytest.mark.parametrize("items", ["pandas", "pandas, times", "polars", "arrow", "rows", "columns", "path"])
@pytest.mark.parametrize("links", ["path", "rows", "pandas"])
def test_formats_may_differ(items: str, links: str, shop: dict[str, Path], tmp_path: Path) -> None:
    chain = tmp_path / "links.csv"
    ids = [row["item"] for row in conftest.rows(shop["items"])]
    later = [(b, a) for i, a in enumerate(ids) for b in ids[i + 1 : i + 4]]
    chain.write_text("source,target\n" + "".join(f"{b},{a}\n" for b, a in later))
    out = tmp_path / "dataset"
    tables = {"items": KINDS[items](shop["items"]), "links": KINDS[links](chain)}
    settings = dict.fromkeys(["log", "threshold", "min_count"])
    columns = {"id": "item"}
    unseen._fit.tables_to(out, tables, vectors=None, columns=columns, settings=settings, notes=[], progress=False)
    nodes = pandas.read_parquet(out / "nodes.parquet")
    assert nodes.id.tolist() == ids
    assert len(pandas.read_parquet(out / "links.parquet")) == len(later)
    assert str(nodes.time[0])[:10] == conftest.rows(shop["items"])[0]["time"][:10]


def test_missing_values(shop: dict[str, Path]) -> None:
    rows = [{"user": "a", "item": 1, "time": pandas.NaT}, {"user": "b", "item": numpy.int64(2), "time": None}]
    path = unseen._frames.write(rows, shop["clicks"].parent, "missing")
    assert path.read_text() == '{"user": "a", "item": 1}\n{"user": "b", "item": 2}\n'


def test_load_refuses(tmp_path: Path) -> None:
    (tmp_path / "dataset").mkdir()
    with pytest.raises(unseen.Error, match="No such file"):
        unseen.load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"no model")
    with pytest.raises(unseen.Error, match="is no model"):
        unseen.load(tmp_path)
    with pytest.raises(unseen.Error, match="no dataset"):
        unseen.load(tmp_path / "dataset" / "model.safetensors")


@pytest.mark.filterwarnings("ignore::unseen.Doubt")
@pytest.mark.parametrize(
    ("kind", "type_"),
    [("pandas", pandas.DataFrame), ("polars", polars.DataFrame), ("arrow", pyarrow.Table), ("python", dict)],
)
def test_returned_as(kind: Any, type_: type, model: unseen.Model, naive: unseen.Model, returned: Any) -> None:
    returned(kind)
    evaluation = model.evaluate(naive)
    for table in (
        model.recommend("u00007", k=2), model.recommend(k=1), evaluation.risks, evaluation.ranks, evaluation.observed,
        evaluation.fairness, model.doctor.propensities, model.doctor.tests, model.doctor.claims,
    ):  # fmt: skip
        assert isinstance(table, type_)
    with pytest.raises(unseen.Error):
        unseen.use("excel")  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::unseen.Doubt")
def test_types_of_columns(model: unseen.Model, naive: unseen.Model, returned: Any) -> None:
    for kind, whole, number in (
        ("polars", polars.Int64, polars.Float64),
        ("arrow", pyarrow.int64(), pyarrow.float64()),
    ):
        returned(kind)
        for table in (model.recommend("u00007", k=2), model.recommend("u00007", k=2, naive=naive)):
            types = {name: table.schema.field(name).type if kind == "arrow" else table.schema[name]
                     for name in ("naive_rank", "link", "shown")}  # fmt: skip
            assert types == {"naive_rank": whole, "link": number, "shown": number}
    returned("pandas")
    risks = model.evaluate().risks
    assert risks.difference.dtype == risks.nuisance.dtype == float
