"""Link recommendation that corrects for exposure.

A missing link may mean "irrelevant" or "never shown". unseen learns both from tables:

    import unseen

    model = unseen.fit(clicks=clicks, items=items, impressions=impressions, log="complete")
    model.doctor                    # can the data tell exposure from relevance?
    model.recommend("u7", k=5)      # a DataFrame
    model.evaluate(against=naive)   # risks with intervals
    with model.serve() as service:  # the same over HTTP
        service.recommend("u7")

The work is done by one program without dependencies, which the wheel carries; python -m unseen runs it.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from ._doctor import Findings
from ._errors import Doubt, Error
from ._estimator import Recommender
from ._evaluation import Evaluation, PolicyValue
from ._figures import Figure
from ._fit import fit
from ._frames import use
from ._model import Model, load, value
from ._program import binary
from ._readers import obp_log, read_obp, read_recbole
from ._service import Service

try:
    __version__ = version("unseen")
except PackageNotFoundError:  # a checkout that is not installed
    __version__ = "0"

__all__ = [
    "Doubt",
    "Error",
    "Evaluation",
    "Figure",
    "Findings",
    "Model",
    "PolicyValue",
    "Recommender",
    "Service",
    "binary",
    "fit",
    "load",
    "obp_log",
    "read_obp",
    "read_recbole",
    "use",
    "value",
]
