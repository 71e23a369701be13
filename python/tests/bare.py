"""The package without any other: what python/check runs in environments that have nothing but the wheel."""

from __future__ import annotations

import csv
import importlib.util
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import unseen

warnings.simplefilter("ignore", unseen.Doubt)
for name in ("pandas", "polars", "pyarrow", "numpy", "tqdm"):
    assert importlib.util.find_spec(name) is None, f"{name} is here"
with tempfile.TemporaryDirectory() as folder:
    raw = Path(folder) / "raw"
    command = ["unseen", "generate", str(raw), "--people", "80", "--items", "30", "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    with (raw / "clicks.csv").open(newline="") as f:
        rows = list(csv.DictReader(f))
    model = unseen.fit(clicks=rows, items=raw / "items.csv")
    lists = model.recommend(rows[0]["user"], k=3)
    assert isinstance(lists, dict), type(lists)
    assert lists["rank"] == [1, 2, 3], lists
    assert model.evaluate().risks["scheme"][0] == "naive"
    assert model.doctor.figure().svg.startswith("<svg")
    with model.serve() as service:
        assert len(service.recommend(rows[0]["user"], k=2)["target"]) == 2
print(f"Python {sys.version.split()[0]}: unseen {unseen.__version__} works without any other package")
