"""The program underneath: errors, progress, interrupts, the service, the console script."""

from __future__ import annotations

import functools
import io
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import conftest
import pytest

import unseen
from unseen import _errors, _program


def test_errors_have_hints(model: unseen.Model) -> None:
    with pytest.raises(unseen.Error) as e:
        unseen.fit(dataset=model.dataset, method="bye")
    assert e.value.code == 2
    assert "no method" in e.value.message
    with pytest.raises(unseen.Error) as e:
        unseen.fit(dataset=model.dataset.parent / "none")
    assert e.value.hint == "name the folder of a dataset"
    assert str(e.value).endswith("; name the folder of a dataset")
    with pytest.raises(unseen.Error, match="nobody"):
        model.recommend("nobody")


def test_hints_name_keywords() -> None:
    e = _errors.from_program("x: bad; set --fields-by or --log", "set --fields-by or --log", 1)
    assert (e.message, e.hint, e.code) == ("x: bad", "set fields_by or log", 1)
    assert _errors.from_program("bad; do this", "", 2).hint == "do this"
    assert _errors.from_program("-k is 0; give from 1", "", 2).message == "k is 0"
    assert _errors.in_python("a-k (--log): iconv -f X") == "a-k (log): iconv -f X"
    assert _errors.from_program("bad", "", 2).message == "bad"


def test_no_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNSEEN_BINARY", "/nowhere/unseen")
    with pytest.raises(unseen.Error, match="cannot start"):
        _program.run(["version"])


def test_progress_reaches_a_function(shop: dict[str, Path]) -> None:
    events: list[dict[str, Any]] = []
    unseen.fit(clicks=shop["clicks"], method="naive", progress=events.append)
    assert any(e["phase"].startswith("drawing pairs") for e in events)
    assert all("phase" in e and "done" in e for e in events)


def test_progress_is_a_bar(shop: dict[str, Path]) -> None:
    pytest.importorskip("tqdm")
    made: list[Any] = []

    class Bar:
        def __init__(self, **settings: Any) -> None:
            made.append(self)
            self.n, self.total, self.closed, self.phases = 0, settings["total"], False, [settings["desc"]]

        def reset(self, total: int | None) -> None:
            self.total = total

        def set_description_str(self, text: str, refresh: bool) -> None:
            self.phases.append(text)

        def set_postfix(self, values: dict[str, str], refresh: bool) -> None: ...

        def refresh(self) -> None: ...

        def close(self) -> None:
            self.closed = True

    bar = _program._Bar(Bar, delay=60)
    bar.show({"phase": "soon done", "done": 1, "of": 4})
    bar.show({})
    assert not made
    bar = _program._Bar(Bar, delay=0)
    for event in ({"phase": "a", "done": 1, "of": 4}, {"phase": "b", "done": 2, "of": 3, "values": {"loss": 1}}, {}):
        bar.show(event)
    assert made[0].phases == ["a", "b"]
    assert (made[0].n, made[0].total, made[0].closed) == (2, 3, True)


def test_bar_of_tqdm() -> None:
    """The words of tqdm itself, also of work whose end is unknown."""
    tqdm, printed = pytest.importorskip("tqdm").tqdm, io.StringIO()
    bar = _program._Bar(functools.partial(tqdm, file=printed, mininterval=0), delay=0)
    for event in ({"phase": "drawing pairs", "done": 1, "of": 4}, {"phase": "judging it", "done": 0}, {}):
        bar.show(event)
    assert "drawing pairs:  25%" in printed.getvalue()
    assert "judging it: 0it" in printed.getvalue()


INTERRUPTED = """
import signal, sys, unseen
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell in the background ignores it
def told(event):
    print("PHASE", event["phase"], flush=True)
try:
    unseen.fit(dataset=sys.argv[1], out=sys.argv[2], replicates=2000, threads=1, progress=told)
except KeyboardInterrupt:
    print("INTERRUPTED", flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals are others on Windows")
def test_interrupt_stops_the_program(model: unseen.Model, tmp_path: Path) -> None:
    child = conftest.python(INTERRUPTED, model.dataset, tmp_path / "out")
    assert child.stdout is not None
    for line in child.stdout:
        if "drawing" in line or "judging" in line:
            break
    pids = descendants(child.pid)
    assert pids
    time.sleep(0.3)
    child.send_signal(signal.SIGINT)  # to Python alone, as Jupyter does
    out, err = child.communicate(timeout=30)
    assert "INTERRUPTED" in out, err
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    left = {p.name for p in (tmp_path / "out").iterdir()}
    assert "model.safetensors" not in left
    assert not any(name.startswith(".") or name.endswith(".tmp") for name in left)


def descendants(pid: int) -> list[str]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("no /proc here")
    return path.read_text().split()


def test_serve(model: unseen.Model, naive: unseen.Model, tmp_path: Path) -> None:
    with model.serve(naive=naive, state=tmp_path / "state") as service:
        got = service.recommend("u00007", k=3, explore=0)
        with pytest.warns(unseen.Doubt):
            assert list(got.target) == list(model.recommend("u00007", k=3).target)
        event = {"id": "1", "kind": "clicked", "source": "u00007", "target": got.target[0]}
        assert service.report([event])["stored"] == 1
        assert service.request("/api/v1/overview")
        with pytest.raises(unseen.Error, match="not in the dataset") as e:
            service.recommend("nobody")
        assert str(e.value).count(e.value.hint) == 1
        assert service.url in service._repr_html_()
        with pytest.raises(unseen.Error), model.serve(state=tmp_path / "state"):
            pass  # one at a time has a state folder
    assert "stopped" in repr(service)
    with pytest.raises(unseen.Error, match="does not answer"):
        service.request("/api/v1/overview")
    assert (tmp_path / "state" / "events.db").exists()


def test_service_ends_with_python(model: unseen.Model, tmp_path: Path) -> None:
    code = "import sys, unseen; s = unseen.load(sys.argv[1]).serve(state=sys.argv[2]); print(s.url)"
    nobody = "http://127.0.0.1:9"  # a proxy has no way to this machine's own addresses
    child = conftest.python(code, model.path.parent, tmp_path / "state", http_proxy=nobody, no_proxy="")
    out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    with pytest.raises(OSError):  # noqa: PT011
        urllib.request.build_opener(urllib.request.ProxyHandler({})).open(out.strip() + "/readyz", timeout=2)


def test_console_script(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "unseen", "version", "--json"], capture_output=True, check=True)
    assert json.loads(done.stdout)["version"]
    done = subprocess.run([sys.executable, "-m", "unseen", "fit", "--nope"], capture_output=True)
    assert done.returncode == 2
    assert done.stderr.startswith(b"unseen: unknown flag")
