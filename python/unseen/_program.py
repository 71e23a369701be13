"""Finds and runs the program that the wheel carries."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any

from ._errors import Error, from_program

Progress = bool | Callable[[dict[str, Any]], None]
"""True shows a bar if tqdm is installed, False shows nothing; a function gets every event as a dict."""


def binary() -> str:
    """Returns the path of the program: the wheel's own, or the one that the variable UNSEEN_BINARY names."""
    named = os.environ.get("UNSEEN_BINARY")
    if named:
        return named
    path = Path(__file__).parent / "bin" / ("unseen.exe" if os.name == "nt" else "unseen")
    if not path.is_file():
        raise Error("this installation has no program in it", "install a wheel, or set UNSEEN_BINARY to its path")
    if not os.access(path, os.X_OK):  # some installers drop the permission
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode | 0o111)
    return str(path)


def flags(settings: dict[str, Any]) -> list[str]:
    """Returns settings as flags. None and False are left out, and a list gives its flag once for each value."""
    out: list[str] = []
    for name, value in settings.items():
        flag = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            out.append(flag)
        elif isinstance(value, (list, tuple, set)):
            out += [f"{flag}={v}" for v in value]
        elif isinstance(value, dict):
            out += [f"{flag}={k}={v}" for k, v in value.items()]
        else:
            out.append(f"{flag}={value}")
    return out


def start(args: Sequence[str], cwd: str | os.PathLike[str] | None = None) -> subprocess.Popen[bytes]:
    """Starts the program. Its stderr is a JSON object a line."""
    try:
        return subprocess.Popen(
            [binary(), *args],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env={**os.environ, "UNSEEN_PROGRESS": "json"},
            # On Windows an interrupt reaches a whole group: the child must have one of its own.
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    except OSError as e:
        raise Error(f"cannot start {binary()}: {e}", "install a wheel for this platform again") from e


def stop(child: subprocess.Popen[bytes], patience: float = 15) -> None:
    """Asks the program to stop, as Ctrl-C does, and waits: it leaves its files whole. Then it is killed."""
    if child.poll() is None:
        with contextlib.suppress(OSError):
            child.send_signal(getattr(signal, "CTRL_BREAK_EVENT", signal.SIGINT))
        try:
            child.wait(patience)
        except BaseException as e:
            child.kill()
            child.wait()
            if not isinstance(e, subprocess.TimeoutExpired):
                raise


def run(
    args: Sequence[str], *, progress: Progress = False, cwd: str | os.PathLike[str] | None = None
) -> tuple[bytes, list[str]]:
    """Runs the program to its end and returns what it prints and its notes. It raises Error if the program fails."""
    child = start(args, cwd)
    assert child.stdout is not None
    assert child.stderr is not None
    printed: list[bytes] = []
    reader = threading.Thread(target=_drain, args=(child.stdout, printed), daemon=True)
    reader.start()
    failed: dict[str, Any] = {}
    notes: list[str] = []
    other: list[str] = []
    show = _display(progress)
    try:
        for line in child.stderr:
            event = parse(line)
            if "error" in event:
                failed = event
            elif "note" in event:
                notes.append(event["note"])
            elif "phase" in event:
                show(event)
            else:
                other.append(event["text"])
        code = child.wait()
        reader.join()
    except BaseException:
        stop(child)
        raise
    finally:
        show({})
        child.stdout.close()
        child.stderr.close()
    if code != 0:
        raise failure(failed, other, code)
    return b"".join(printed), notes


def failure(failed: dict[str, Any], other: Sequence[str], code: int) -> Error:
    """Returns the error of a program that has ended."""
    if failed:
        return from_program(failed["error"], failed.get("hint", ""), code)
    if code < 0:
        return Error(f"the program was ended by signal {-code}", "look whether memory ran out", code)
    return Error("\n".join(other[-20:]) or f"the program ended with code {code}", "", code)


def run_json(
    args: Sequence[str], *, progress: Progress = False, cwd: str | os.PathLike[str] | None = None
) -> tuple[Any, list[str]]:
    """Runs the program and returns the one JSON document that it prints, and its notes."""
    end = args.index("--") if "--" in args else len(args)  # what follows are no flags
    printed, notes = run([*args[:end], "--json", *args[end:]], progress=progress, cwd=cwd)
    return json.loads(printed), notes


def parse(line: bytes) -> dict[str, Any]:
    """Returns a line of the program's stderr; {"text": …} if it is no JSON object."""
    try:
        event = json.loads(line)
    except ValueError:
        event = None
    if isinstance(event, dict):
        return event
    return {"text": line.decode("utf-8", "replace").rstrip()}


def _drain(stream: IO[bytes], into: list[bytes]) -> None:
    with contextlib.suppress(ValueError, OSError):  # closed below us
        into.extend(iter(lambda: stream.read(1 << 16), b""))


def _display(progress: Progress) -> Callable[[dict[str, Any]], None]:
    if callable(progress):
        return lambda event: progress(event) if event else None
    if progress:
        bar = _Bar.new()
        if bar:
            return bar.show
    return lambda event: None


class _Bar:
    """A bar for the phase that the program is in."""

    def __init__(self, make: Callable[..., Any], delay: float = 0.5) -> None:
        self._make, self._bar, self._phase = make, None, ""
        self._from = time.monotonic() + delay

    @staticmethod
    def new() -> _Bar | None:
        notebook = "ipykernel" in sys.modules
        if not (notebook or sys.stderr.isatty()) or importlib.util.find_spec("tqdm") is None:
            return None
        if notebook and importlib.util.find_spec("ipywidgets") is not None:
            from tqdm.notebook import tqdm
        else:
            from tqdm import tqdm
        return _Bar(tqdm)

    def show(self, event: dict[str, Any]) -> None:
        if not event:  # the end
            if self._bar is not None:
                self._bar.close()
                self._bar = None
            return
        if time.monotonic() < self._from:  # what is soon done needs no bar
            return
        total = event.get("of") or None
        if self._bar is None:
            self._bar = self._make(total=total, desc=event["phase"], leave=False)
            self._phase = event["phase"]
        bar: Any = self._bar
        if event["phase"] != self._phase:
            self._phase = event["phase"]
            bar.set_description_str(self._phase, refresh=False)
            bar.reset(total or float("inf"))  # which is no total
        bar.n, bar.total = event.get("done", 0), total
        values = {k: f"{v:.4g}" for k, v in (event.get("values") or {}).items() if k in ("loss", "validation")}
        bar.set_postfix(values, refresh=False)
        bar.refresh()
