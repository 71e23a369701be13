"""The conventions of scikit-learn: settings in the constructor, what is learned with an underscore behind."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from ._errors import Error
from ._fit import fit
from ._frames import Frame, Table
from ._model import Model


class Recommender:
    """fit() as an estimator, for sklearn.base.clone and searches over settings.

        Recommender(method="mle", log="complete").fit(clicks, items=items, impressions=impressions).predict(["u7"])

    After fit, model_ is the Model. The settings are those of unseen.fit.
    """

    def __init__(
        self,
        *,
        method: str | None = None,
        exposure: str | None = None,
        log: str | None = None,
        threshold: float | None = None,
        split: str | None = None,
        negatives: int | None = None,
        negative_scheme: str | None = None,
        fields_by: str | Sequence[str] | None = None,
        doctor: str | None = None,
        replicates: int | None = None,
        random_state: int = 1,
        n_jobs: int | None = None,
        k: int = 10,
        progress: bool = False,
    ) -> None:
        self.method = method
        self.exposure = exposure
        self.log = log
        self.threshold = threshold
        self.split = split
        self.negatives = negatives
        self.negative_scheme = negative_scheme
        self.fields_by = fields_by
        self.doctor = doctor
        self.replicates = replicates
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.k = k
        self.progress = progress

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the settings."""
        return {
            name: getattr(self, name) for name in inspect.signature(Recommender.__init__).parameters if name != "self"
        }

    def set_params(self, **params: Any) -> Recommender:
        """Changes settings and returns the estimator."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise Error(f"there is no setting {name!r}", "there is " + ", ".join(known))
            setattr(self, name, value)
        return self

    def fit(self, X: Table, y: None = None, **tables: Table) -> Recommender:
        """Learns from clicks X. Keywords are the other tables of unseen.fit: items, impressions, people."""
        settings = self.get_params()
        seed, threads = settings.pop("random_state"), settings.pop("n_jobs")
        del settings["k"]
        self.model_: Model = fit(clicks=X, **tables, **settings, seed=seed, threads=threads)
        return self

    def predict(self, X: object = None) -> Frame:
        """Recommends k items to each of the people X, or to everybody."""
        return self._fitted().recommend(X, k=self.k, progress=self.progress)

    def score(self, X: object = None, y: None = None) -> float:
        """Returns the recall of held-out clicks among the first k, by ŷ. Clicks follow exposure: see Model.evaluate."""
        ranks = self._fitted().evaluate(rank=self.k, progress=self.progress).raw["ranks"]
        return float(ranks[0]["recall"])

    def _fitted(self) -> Model:
        if not hasattr(self, "model_"):
            raise Error("this Recommender is not fitted", "call fit first")
        return self.model_

    def __repr__(self) -> str:
        defaults = {name: p.default for name, p in inspect.signature(Recommender.__init__).parameters.items()}
        changed = (f"{k}={v!r}" for k, v in self.get_params().items() if v != defaults[k])
        return f"Recommender({', '.join(changed)})"
