"""A small made-up shop, as tables of every kind."""

from __future__ import annotations

import csv
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unseen

NAMES = ("clicks", "impressions", "items", "people")
LISTED = ["source", "rank", "target", "link", "propensity", "corrected_rank", "seen_rank", "hidden"]


def program(*args: object, cwd: Path | None = None) -> str:
    """What the command line prints."""
    done = subprocess.run(
        [unseen.binary(), *map(str, args)], cwd=cwd, check=True, capture_output=True, text=True, encoding="utf-8"
    )
    return done.stdout


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The paths of the tables."""
    folder = tmp_path_factory.mktemp("shop")
    program("generate", folder / "raw", "--people", 120, "--items", 40, "--pairs", 10, "--seed", 3, "--quiet")
    return {name: folder / "raw" / f"{'users' if name == 'people' else name}.csv" for name in NAMES}


@pytest.fixture(scope="session")
def model(shop: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> unseen.Model:
    return unseen.fit(**shop, log="complete", out=tmp_path_factory.mktemp("model") / "shop")  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def naive(model: unseen.Model) -> unseen.Model:
    return unseen.fit(dataset=model.dataset, method="naive", log="ignored")


@pytest.fixture(scope="session")
def by_command_line(shop: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the dataset and the model that the command line makes of the same files."""
    at = tmp_path_factory.mktemp("line")
    flags = [f"--{'users' if name == 'people' else name}={path}" for name, path in shop.items()]
    program("import", "interactions", *flags, "--log", "complete", "-o", at / "dataset", "--quiet")
    program("fit", at / "dataset", "-o", at / "model.safetensors", "--quiet")
    return at


@pytest.fixture
def returned() -> Any:
    """Restores what tables are returned as."""
    yield unseen.use
    unseen.use(None)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f))


def python(code: str, *args: object, **env: str) -> subprocess.Popen[str]:
    """Starts another Python with this package."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, args)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **env},
    )
