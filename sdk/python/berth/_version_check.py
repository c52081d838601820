"""App, "Client versions": checked once per process, in the background. No call waits for it or fails because of it."""

from __future__ import annotations

import logging
import os
import re
import threading

import httpx

from . import __version__

_PACKAGE = "berth-sdk"
_ANSWER_SECONDS = 10.0
_TEXT_CHARACTERS_MAX = 200
_LOCK = threading.Lock()
_is_done = False


def check_version_once(url: str) -> None:
    """Warns where the service no longer supports this version. Runs after a first call was answered, so as not to delay it."""
    global _is_done
    if _is_done or os.environ.get("BERTH_NO_VERSION_CHECK"):
        return
    with _LOCK:
        if _is_done:
            return
        _is_done = True
    try:
        # A daemon thread does not keep the process alive.
        threading.Thread(target=_check, args=(url,), name="berth-version-check", daemon=True).start()
    except RuntimeError:
        pass # the process is exiting, or cannot start a thread


def _check(url: str) -> None:
    try:
        answer = httpx.get(f"{url}/v1/client-versions", timeout=_ANSWER_SECONDS, follow_redirects=False)
        client = next(each for each in answer.json()["clients"] if each["package"] == _PACKAGE)
        minimum = str(client["minimum_supported"])
        if _is_older(__version__, minimum):
            said = f"This is {_PACKAGE} {__version__}, and the service supports {minimum} and newer. Try: %s"
            logging.getLogger("berth").warning(said, _plain(client["upgrade_command"]))
    except Exception:
        pass # a failed check must not disturb the program


def _is_older(version: str, than: str) -> bool:
    a, b = (re.fullmatch(r"(\d+)\.(\d+)\.(\d+)", text) for text in (version, than))
    return a is not None and b is not None and [int(part) for part in a.groups()] < [int(part) for part in b.groups()]


def _plain(text: object) -> str:
    """Removes control characters from a service's text before it is printed."""
    return re.sub(r"[^\x20-\x7e]", "?", str(text)[:_TEXT_CHARACTERS_MAX])
