"""A client of Blizzard's game data API: lists the replay packs of a game version.

In: credentials and a client version like "4.9.2". Out: the packs' addresses. Requests have
deadlines and a bounded number of retries with backoff; an expired token is renewed. The token
goes to the API's own host only, and no message contains the token or the secret.
"""

import base64
import dataclasses
import http.client
import json
import logging
import math
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from starmill.schema import errors

_LOG = logging.getLogger(__name__)

NAMESPACE = "s2-client-replays"
_PAGE_SIZE = 100
_MAX_PAGES = 10_000
_MAX_JSON_BYTES = 64 << 20
_MAX_RETRY_AFTER_SECONDS = 300.0
# Network errors after which another attempt may succeed.
NETWORK_ERRORS = (urllib.error.URLError, http.client.HTTPException, OSError)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Credentials:
    """The user's own API client.

    Attributes:
        client_id: of the client.
        client_secret: of the client; never shown.
    """

    client_id: str
    client_secret: str = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Service:
    """The API's addresses, and how often and how long to try.

    Attributes:
        token_url: address that issues tokens.
        api_url: address of the API, without a slash at the end.
        attempts: how many times a request is tried in total.
        wait_seconds: before the second attempt; doubled before each further one.
        timeout_seconds: longest time without a byte arriving.
    """

    token_url: str = "https://us.battle.net/oauth/token"
    api_url: str = "https://us.api.blizzard.com"
    attempts: int = 6
    wait_seconds: float = 1.0
    timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Checks the numbers and addresses."""
        for url in (self.token_url, self.api_url):
            checked_url(url)
        if self.attempts < 1 or self.wait_seconds < 0 or self.timeout_seconds <= 0:
            raise errors.ConfigError(
                "expected at least one attempt and positive times, found "
                f"{self.attempts}, {self.wait_seconds}, {self.timeout_seconds}"
            )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirect, because it would pass the token on to another host."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


def checked_url(url: str) -> str:
    """Returns the URL; raises ConfigError unless it is http or https."""
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise errors.ConfigError(f"expected an http or https URL, found {url!r}")
    return url


def retried(service: Service, title: str, action: Callable[[], Any]) -> Any:
    """Returns the action's result; tries again after failures that may be temporary.

    Args:
        service: how many attempts there are, and how long to wait between them.
        title: names the action in messages.
        action: what to do.

    Raises DownloadError if the server refuses, or if the last attempt fails too.
    """
    for attempt in range(1, service.attempts + 1):
        wait = service.wait_seconds * 2 ** (attempt - 1)
        try:
            return action()
        except urllib.error.HTTPError as error:
            with error:
                problem = f"HTTP {error.code} {error.reason}"
                wait = max(wait, _retry_after(error.headers.get("Retry-After")))
            if is_refusal(error):
                raise errors.DownloadError(f"{title}: {problem}") from error
            last: Exception = error
        except NETWORK_ERRORS as error:
            problem, last = f"{type(error).__name__}: {error}", error
        if attempt == service.attempts:
            raise errors.DownloadError(f"{title}: {problem}, {attempt} times") from last
        _LOG.warning("%s: %s; trying again in %.1f s", title, problem, wait)
        time.sleep(wait)
    raise AssertionError("unreachable: the last attempt returns or raises")


def is_refusal(error: urllib.error.HTTPError) -> bool:
    """Returns whether the server's answer is final: an error that is not temporary."""
    return error.code != http.HTTPStatus.TOO_MANY_REQUESTS and error.code < 500


def _retry_after(text: str | None) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:  # a date: our own backoff is enough
        return 0.0
    return min(seconds, _MAX_RETRY_AFTER_SECONDS) if math.isfinite(seconds) else 0.0


class Client:
    """Sends requests to the API; fetches a token when it needs one."""

    def __init__(self, credentials: Credentials, service: Service) -> None:
        self._credentials = credentials
        self._service = service
        self._token = ""
        self._opener = urllib.request.build_opener(_NoRedirect())

    def _fetch_token(self) -> str:
        pair = f"{self._credentials.client_id}:{self._credentials.client_secret}"
        request = urllib.request.Request(
            self._service.token_url,
            data=urllib.parse.urlencode({"grant_type": "client_credentials"}).encode(),
            headers={
                "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
                "Content-Type": "application/x-www-form-urlencoded",
            },
        )
        answer = retried(self._service, "access token", lambda: self._json(request))
        token = answer.get("access_token")
        if not isinstance(token, str) or not token:
            raise errors.DownloadError(
                "access token: expected one in the answer, found none"
            )
        return token

    def _json(self, request: urllib.request.Request) -> dict[str, Any]:
        timeout = self._service.timeout_seconds
        with self._opener.open(request, timeout=timeout) as answer:
            body = answer.read(_MAX_JSON_BYTES + 1)
        if len(body) > _MAX_JSON_BYTES:
            raise errors.DownloadError(
                f"expected at most {_MAX_JSON_BYTES} bytes of JSON"
            )
        try:
            parsed = json.loads(body)
        except (ValueError, RecursionError) as error:
            # Some proxies answer 200 with a page of their own. Another attempt may succeed.
            raise http.client.HTTPException(f"expected JSON: {error}") from error
        if not isinstance(parsed, dict):
            raise http.client.HTTPException("expected a JSON object")
        if parsed.get("status") == "nok":
            raise errors.DownloadError(
                f"the server says: {parsed.get('reason')!r:.200}"
            )
        return parsed

    def get(self, url: str, parameters: dict[str, Any] | None = None) -> dict[str, Any]:
        """Returns the JSON at an address of the API; renews the token once if it expired."""
        if _origin(url) != _origin(self._service.api_url):
            raise errors.DownloadError(
                f"{url}: expected an address at {self._service.api_url}; the token "
                "goes nowhere else"
            )
        for fresh in (False, True):
            if fresh or not self._token:
                self._token = self._fetch_token()
            try:
                answer: dict[str, Any] = retried(
                    self._service,
                    url,
                    lambda: self._json(self._request(url, parameters)),
                )
            except errors.DownloadError as error:
                cause = error.__cause__
                expired = (
                    isinstance(cause, urllib.error.HTTPError) and cause.code == 401
                )
                if not expired or fresh:
                    raise
            else:
                return answer
        raise AssertionError("unreachable: the second round returns or raises")

    def _request(
        self, url: str, parameters: dict[str, Any] | None
    ) -> urllib.request.Request:
        query = urllib.parse.urlencode({"namespace": NAMESPACE, **(parameters or {})})
        joint = "&" if urllib.parse.urlsplit(url).query else "?"
        return urllib.request.Request(
            f"{url}{joint}{query}", headers={"Authorization": f"Bearer {self._token}"}
        )

    def pack_urls(self, client_version: str) -> list[str]:
        """Returns the addresses of all packs of a version, sorted."""
        base = self.get(f"{self._service.api_url}/data/sc2/archive_url/base_url")
        folder = base.get("base_url")
        if not isinstance(folder, str):
            raise errors.DownloadError("base_url: expected an address, found none")
        urls = []
        for href in sorted(self._archive_pages(client_version)):
            path = self.get(href).get("path")
            if not isinstance(path, str):
                raise errors.DownloadError(
                    f"{href}: expected the path of a pack, found none"
                )
            urls.append(checked_url(urllib.parse.urljoin(folder, path)))
        return sorted(set(urls))

    def _archive_pages(self, client_version: str) -> Iterator[str]:
        """Yields, for each pack of a version, the address of its description."""
        url = f"{self._service.api_url}/data/sc2/search/archive"
        for page in range(1, _MAX_PAGES + 1):
            answer = self.get(
                url,
                {
                    "client_version": client_version,
                    "_pageSize": _PAGE_SIZE,
                    "_page": page,
                },
            )
            try:
                results, pages = answer["results"], int(answer["pageCount"])
                for result in results:
                    if result["data"]["client_version"] == client_version:
                        yield str(result["key"]["href"])
            except (KeyError, TypeError, ValueError) as error:
                raise errors.DownloadError(
                    f"{url}: expected results and pageCount in page {page}: "
                    f"{type(error).__name__} {error}"
                ) from error
            if page >= pages:
                return
        raise errors.DownloadError(f"{url}: more than {_MAX_PAGES} pages")


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urllib.parse.urlsplit(url)
    return parts.scheme, parts.hostname, parts.port
