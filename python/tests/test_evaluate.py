"""Evaluations, findings, figures, policies and the data of other libraries."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import conftest
import numpy
import pandas
import pytest

import unseen


def test_same_as_command_line(model: unseen.Model, naive: unseen.Model, tmp_path: Path) -> None:
    (tmp_path / "mle.safetensors").write_bytes(model.path.read_bytes())
    (tmp_path / "naive.safetensors").write_bytes(naive.path.read_bytes())
    want = json.loads(
        conftest.program(
            "evaluate",
            "mle.safetensors",
            model.dataset.absolute(),
            "--against",
            "naive.safetensors",
            "--fairness",
            "--json",
            "--quiet",
            cwd=tmp_path,
        )
    )
    got = model.evaluate(against=naive, fairness=True)
    assert got.raw == json.loads(json.dumps(want).replace(".safetensors", ""))
    risks = got.risks.set_index(["model", "scheme"])
    assert risks.loc[("mle", "ap"), "estimate"] == next(
        r["risk"]["estimate"] for r in want["panel"]["risks"] if r["scheme"] == "ap"
    )
    assert set(got.ranks.model) == {"mle", "naive"}
    ranks = model.evaluate(rank=10).ranks
    assert (ranks.precision <= ranks.hit_rate).all()
    assert ((ranks.recall <= ranks.hit_rate) & (ranks.ndcg <= ranks.hit_rate) & (ranks.ndcg > 0)).all()
    assert "mle is not called better than naive" in got.decisions["naive"]
    assert len(got.fairness) > 0
    assert "risk naive" in str(got)
    assert "<table>" in got._repr_html_()


def test_names_of_models(model: unseen.Model) -> None:
    got = model.evaluate(against={"other": model.path, "mle": model}, rank=0)
    assert list(dict.fromkeys(got.risks.model)) == ["mle", "other", "mle-2"]
    with pytest.raises(unseen.Error, match="No such file"):
        model.evaluate(against="nowhere.safetensors")


def test_figures(model: unseen.Model, tmp_path: Path) -> None:
    doctor = model.doctor
    assert doctor.figure()._repr_svg_().startswith("<svg")
    evaluation = model.evaluate()
    assert {"panel", "roc", "calibration"} <= set(evaluation.figures)
    assert evaluation.figure("roc").save(tmp_path / "roc.png").read_bytes().startswith(b"\x89PNG")
    evaluation.figure().save(tmp_path / "panel.svg")
    with pytest.raises(unseen.Error, match="there is panel"):
        evaluation.figure("pie")
    with pytest.raises(unseen.Error, match=r"\.svg or \.png"):
        evaluation.figure().save(tmp_path / "panel.pdf")
    assert model.report(tmp_path / "r.html").stat().st_size > 10_000


def test_doctor(model: unseen.Model) -> None:
    doctor = model.doctor
    assert doctor.verdict == "not checked"
    assert "set replicates to 20" in str(doctor)
    assert "<li>" in doctor._repr_html_()
    assert "not checked" in model._repr_html_()
    assert len(doctor.propensities) == len(doctor.raw["cells"])


def bandit(n: int = 3000) -> dict[str, Any]:
    """Feedback as OBP has it: four actions, the last the best and rarely shown."""
    random = numpy.random.default_rng(7)
    pi_b, mean = numpy.array([0.4, 0.3, 0.2, 0.1]), numpy.array([0.1, 0.2, 0.3, 0.4])
    action = random.choice(4, n, p=pi_b)
    return {
        "n_rounds": n,
        "n_actions": 4,
        "context": random.integers(0, 2, (n, 10)).astype(float),
        "action": action,
        "position": None,
        "reward": (random.random(n) < mean[action]).astype(int),
        "pscore": pi_b[action],
    }


def test_obp() -> None:
    feedback = bandit()
    target = numpy.broadcast_to(numpy.array([0.1, 0.2, 0.3, 0.4])[None, :, None], (3000, 4, 1))
    log = unseen.obp_log(feedback, target)
    value = unseen.value(log, "column:target")
    weights = target[numpy.arange(3000), feedback["action"], 0] / feedback["pscore"]
    snips = (weights * feedback["reward"]).sum() / weights.sum()
    estimates = value.estimates.set_index("name").estimate
    assert estimates["SNIPS"] == pytest.approx(snips, rel=1e-9)
    assert estimates["log"] == pytest.approx(feedback["reward"].mean())
    assert value.verdict == "better"
    assert "better" in str(value)
    assert log.context.nunique() == len(numpy.unique(feedback["context"], axis=0))

    tables = unseen.read_obp(feedback)
    assert len(tables["clicks"]) == feedback["reward"].sum()
    assert list(tables["impressions"].columns) == ["user", "item", "probability", "clicked"]
    model = unseen.fit(**tables, log="complete")
    assert model.doctor.raw["support"]["logged"] > 0
    assert len(model.recommend("context 0", k=2, linked=True)) == 2
    for key in ("action", "pscore"):
        with pytest.raises(unseen.Error, match=key):
            unseen.obp_log({**feedback, key: None})
    with pytest.raises(unseen.Error, match="lengths"):
        unseen.read_obp({**feedback, "reward": [1]})
    with pytest.raises(unseen.Error, match="no round"):
        unseen.read_obp({**feedback, "reward": feedback["reward"] * 0})


def test_recbole(tmp_path: Path, shop: dict[str, Path], returned: Any) -> None:
    clicks, items = pandas.read_csv(shop["clicks"]), pandas.read_csv(shop["items"])
    clicks["rating"] = 1 + clicks.index % 5
    folder = tmp_path / "tiny"
    folder.mkdir()
    clicks.rename(columns={"user": "user_id:token", "item": "item_id:token", "rating": "rating:float"}).drop(
        columns="time"
    ).to_csv(folder / "tiny.inter", sep="\t", index=False)
    items.rename(columns={"item": "item_id:token", "title": "title:token_seq", "category": "class:token"}).drop(
        columns="time"
    ).to_csv(folder / "tiny.item", sep="\t", index=False)
    tables = unseen.read_recbole(folder)
    assert list(tables) == ["clicks", "items"]
    assert tables["clicks"].rating.tolist() == clicks.rating.tolist()
    assert tables["items"].title.tolist() == items.title.tolist()
    of_frames = unseen.fit(**tables, threshold=3, log="complete")
    of_files = unseen.fit(clicks=folder / "tiny.inter", threshold=3, log="complete")
    pandas.testing.assert_frame_equal(of_frames.recommend(k=3), of_files.recommend(k=3))
    (folder / "tiny.user").write_text("user_id:token\ttime:float\tposition:float\nu1\t2.5\t1.5\nu2\t\t\n")
    for kind in ("pandas", "polars", "arrow", "python"):
        returned(kind)
        people = unseen.read_recbole(folder)["people"]
        assert [float(people[name][0]) if kind != "arrow" else people[name][0].as_py() for name in ("time", "position")
                ] == [2.5, 1.5]  # fmt: skip
    (folder / "tiny.item").write_text("item_id\ti1\n")
    with pytest.raises(unseen.Error, match="types"):
        unseen.read_recbole(folder / "tiny")
    with pytest.raises(unseen.Error, match="no file"):
        unseen.read_recbole(tmp_path / "none")


def test_estimator(shop: dict[str, Path]) -> None:
    base = pytest.importorskip("sklearn.base")
    tables = {name: pandas.read_csv(path) for name, path in shop.items()}
    estimator = base.clone(unseen.Recommender(log="complete", k=3)).set_params(random_state=2)
    assert estimator.get_params()["log"] == "complete"
    clicks = tables.pop("clicks")
    assert len(estimator.fit(clicks, **tables).predict(["u00003"])) == 3
    assert 0 < estimator.score() < 1
    assert repr(estimator) == "Recommender(log='complete', random_state=2, k=3)"
    with pytest.raises(unseen.Error, match="not fitted"):
        unseen.Recommender().predict()
    with pytest.raises(unseen.Error, match="no setting"):
        estimator.set_params(lr=1)
