"""A service that this process starts and stops."""

from __future__ import annotations

import atexit
import collections
import json
import re
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import IO, Any

from ._errors import Error, from_program
from ._frames import Frame, frame_of
from ._program import failure, parse, start, stop

# A proxy of the environment has no way to this machine's own addresses.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

PERSON = "user:"  # what ids of people begin with where people and items share ids

_ADDRESS = re.compile(rb"^Serving .* at (http://\S+)")


class Service:
    """A service on this machine: recommendations, the event log, pages and the API.

        with model.serve() as service:
            service.recommend("u7")

    Attributes:
        url: where it is, such as http://127.0.0.1:40123
    """

    def __init__(self, args: list[str], timeout: float = 60) -> None:
        self._child: subprocess.Popen[bytes] = start(args)
        self._log: collections.deque[dict[str, Any]] = collections.deque(maxlen=1000)
        self._found = threading.Event()
        self.url = ""
        assert self._child.stdout is not None
        assert self._child.stderr is not None
        self._readers = [
            threading.Thread(target=self._read_stdout, args=(self._child.stdout,), daemon=True),
            threading.Thread(target=self._read_stderr, args=(self._child.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()
        atexit.register(self.stop)
        try:
            self._wait(time.monotonic() + timeout)
        except BaseException:
            self.stop()
            raise

    def _read_stdout(self, stream: IO[bytes]) -> None:
        for line in stream:
            m = _ADDRESS.match(line)
            if m:
                self.url = m[1].decode()
                self._found.set()
        self._found.set()  # the end

    def _read_stderr(self, stream: IO[bytes]) -> None:
        for line in stream:
            self._log.append(parse(line))

    def _wait(self, until: float) -> None:
        """Waits until the service says that it is ready."""
        self._found.wait(until - time.monotonic())
        while True:
            code = self._child.poll()
            if code is not None or (self._found.is_set() and not self.url):
                code = self._child.wait()
                for reader in self._readers:
                    reader.join()
                failed: dict[str, Any] = next((e for e in reversed(self._log) if "error" in e and "phase" not in e), {})
                raise failure(failed, self.log, code)
            if self.url and self._ready():
                return
            if time.monotonic() > until:
                raise Error("the service was not ready in time", "raise timeout, or look at what it needs so long for")
            time.sleep(0.02)

    def _ready(self) -> bool:
        try:
            with _opener.open(self.url + "/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    @property
    def log(self) -> list[str]:
        """The last lines that the service has logged."""
        return [e.get("text") or json.dumps(e, ensure_ascii=False) for e in self._log]

    def request(self, path: str, body: Any = None, **query: Any) -> Any:
        """Asks the API, such as request("/api/v1/model"), and returns its answer. A body is posted as JSON."""
        known = {k: v for k, v in query.items() if v is not None}
        url = self.url + path + ("?" + urllib.parse.urlencode(known, doseq=True) if known else "")
        data = None if body is None else json.dumps(body).encode()
        asked = urllib.request.Request(url, data, {"Content-Type": "application/json"} if data else {})
        try:
            with _opener.open(asked, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as e:
            raise _refused(e) from None
        except OSError as e:
            raise Error(f"the service does not answer: {e}", "look whether it was stopped") from e

    def recommend(self, node: object, k: int = 10, **body: Any) -> Frame:
        """Recommends to a node. Some places are drawn at random (explore); log=True logs the list as shown.

        Where people and items share ids, person 7 is called user:7, and 7 finds it.
        """
        asked = str(node)
        try:
            answer = self.request("/api/v1/recommendations", body={"node": asked, "k": k, **body})
        except Error as e:
            asked = PERSON + asked
            try:
                answer = self.request("/api/v1/recommendations", body={"node": asked, "k": k, **body})
            except Error:
                raise e from None
        names = ("rank", "id", "title", "field", "link", "propensity", "shown")
        rows = [{"source": asked, **{n: item.get(n) for n in names}} for item in answer["items"]]
        for row in rows:
            row["target"] = row.pop("id")
        return frame_of(rows, ["source", "rank", "target", "title", "field", "link", "propensity", "shown"])

    def report(self, events: Iterable[Mapping[str, Any]]) -> Any:
        """Logs what happened, such as [{"id": "1", "kind": "clicked", "source": "u7", "target": "i3"}]."""
        return self.request("/api/v1/events", body={"events": [dict(e) for e in events]})

    def stop(self) -> None:
        """Stops the service. Requests in progress may finish."""
        atexit.unregister(self.stop)
        stop(self._child)
        for reader in self._readers:
            reader.join(5)
        for stream in (self._child.stdout, self._child.stderr):
            if stream is not None:
                stream.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<unseen.Service at {self.url}{'' if self._child.poll() is None else ', stopped'}>"

    def _repr_html_(self) -> str:
        return f'<a href="{self.url}">{self.url}</a>' if self._child.poll() is None else "stopped"


def _refused(e: urllib.error.HTTPError) -> Error:
    try:
        problem = json.loads(e.read())
        return from_program(str(problem.get("detail") or problem.get("title")), str(problem.get("hint") or ""), 1)
    except (ValueError, AttributeError):
        return Error(f"the service answers {e.code} {e.reason}")
