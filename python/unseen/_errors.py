"""What goes wrong, and what to do about it."""

from __future__ import annotations

import re

_ENCODE = re.compile(r"((?:: )|(?:with ))unseen encode(?: \S+)?")
_REDUCE = re.compile(r"unseen encode \S+ --encoder (\w+)( --[a-z]+( \d+)?)*")
_VALUE = re.compile(r"--fields-by (\w+:\d+)")
_FLAG = re.compile(r"(?<![\w-])(?:--(?=[a-z])|-(?=k\b))([a-z0-9-]+)")

# Settings of which the program speaks by the names they have in JSON.
_SETTINGS = {
    "anchors": "anchor",
    "fieldsBy": "fields_by",
    "negativeScheme": "negative_scheme",
    "testFrom": "test_from",
    "validationFrom": "validation_from",
}
_SETTING = re.compile(r"\b(" + "|".join(_SETTINGS) + r")\b")


def in_python(text: str) -> str:
    """Names flags and settings as the keywords that they are here: --fields-by becomes fields_by."""
    text = _REDUCE.sub(r'encode="\1"', text)
    text = _ENCODE.sub(r"\1encode=True", text)
    text = _VALUE.sub(r'fields_by="\1"', text)
    text = _FLAG.sub(lambda m: m[1].replace("-", "_"), text)
    return _SETTING.sub(lambda m: _SETTINGS[m[1]], text)


class Error(Exception):
    """Something that the program or this package refuses or cannot do.

    Attributes:
        message: what is wrong
        hint: what to do about it, or ""
        code: exit code of the program: 1 it failed, 2 wrong settings; 0 if it was not run
    """

    def __init__(self, message: str, hint: str = "", code: int = 0) -> None:
        super().__init__(message, hint, code)
        self.message = message
        self.hint = hint
        self.code = code

    def __str__(self) -> str:
        return f"{self.message}; {self.hint}" if self.hint else self.message


class Doubt(UserWarning):
    """How far a result can be trusted. Silence it with warnings.simplefilter("ignore", unseen.Doubt)."""


def from_program(text: str, hint: str, code: int) -> Error:
    """Makes an error of what the program says. Where it gives no hint apart, the hint follows the last semicolon."""
    text, hint = in_python(text), in_python(hint)
    if hint and hint in text:
        before, after = text.split(hint, 1)
        return Error(before.rstrip("; "), hint + after, code)
    message, _, rest = text.rpartition("; ")
    return Error(message or rest, rest if message else "", code)
