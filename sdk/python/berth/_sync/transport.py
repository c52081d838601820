# Made by tools/sync.py from berth/_async/transport.py. Do not change it by hand.
"""Sends requests, and retries those that may be repeated."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx

from .._requests import IMMEDIATE_REPEATS_MAX, Deadline, Request, may_repeat, query_of, wait_before
from .._waiting import FIRST_CONTACT_SECONDS, Contact, Wait
from ..errors import BerthError, ConnectionFailedError, DeadlineError, error_of_answer
from . import platform

#: Address and token of a request.
Target = Callable[[Deadline], tuple[str, str]]
#: Handles an error before a retry. True: the cause is removed, so the retry needs no delay.
Repair = Callable[[BerthError, Deadline], bool]


def send(
    client: httpx.Client, asked: Request, deadline: Deadline, target: Target, repair: Repair, contact: Contact
) -> httpx.Response:
    """Sends a request until a 2xx answer is read completely, or the retry rules forbid another attempt."""
    return _sent(client, asked, deadline, target, repair, contact, False)


def begin(
    client: httpx.Client, asked: Request, deadline: Deadline, target: Target, repair: Repair, contact: Contact
) -> httpx.Response:
    """Sends as ``send``, without reading the body. The caller must close the answer."""
    return _sent(client, asked, deadline, target, repair, contact, True)


def _sent(
    client: httpx.Client, asked: Request, deadline: Deadline, target: Target, repair: Repair, contact: Contact, is_stream: bool
) -> httpx.Response:
    request = asked.keyed()
    attempt = 0
    waiting = Wait()
    while True:
        deadline.check()
        to = None
        try:
            to = target(deadline)
            return _once(client, request, deadline, to, contact, is_stream)
        except BerthError as error:
            if isinstance(error, DeadlineError):
                raise
            is_repaired = repair(error, deadline)
            if not is_repaired and not may_repeat(error, request.how_it_repeats()):
                raise
            if not contact.is_made and waiting.seconds() > FIRST_CONTACT_SECONDS:
                raise
            if isinstance(error, ConnectionFailedError):
                waiting.because(f"There is no answer{'' if to is None else f' from {to[0]}'}; trying again")
            if not (is_repaired and attempt < IMMEDIATE_REPEATS_MAX):
                wait = wait_before(attempt, error.retry_after_seconds)
                if wait > deadline.left():
                    raise
                platform.sleep(wait)
        attempt += 1


def _once(
    client: httpx.Client, request: Request, deadline: Deadline, target: tuple[str, str], contact: Contact, is_stream: bool
) -> httpx.Response:
    url, token = target
    headers = {"authorization": f"Bearer {token}", **request.headers}
    content = request.body
    if request.json is not None:
        headers["content-type"] = "application/json"
        content = json.dumps(request.json).encode()
    built = client.build_request(
        request.method,
        f"{url}{request.path}",
        params=query_of(request.query) or None,
        headers=headers,
        content=content,
        timeout=max(min(request.attempt_seconds, deadline.left()), 0.001),
    )
    what = f"{request.method} {url}{request.path}: there was no answer"
    try:
        response = client.send(built, stream=True, follow_redirects=False)
        contact.is_made = True
        if is_stream and response.is_success:
            return response
        try:
            response.read()
        finally:
            response.close()
    except httpx.TransportError as cause:
        if deadline.left() <= 0:
            raise DeadlineError from cause
        raise ConnectionFailedError(f"{what} ({str(cause) or type(cause).__name__})") from cause
    if response.is_success:
        return response
    raise error_of_answer(response.status_code, response.headers, response.content)


def json_of(response: httpx.Response) -> Any:
    """Parses an answer; None where it has no body."""
    try:
        return None if response.status_code == 204 else response.json()
    except ValueError:
        # The answer arrived completely, so a retry would return the same.
        raise BerthError("The answer is not JSON", code="unexpected_answer", status=response.status_code) from None
