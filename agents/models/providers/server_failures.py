"""What an error of the `anthropic` or the `openai` SDK means to a user: both have the same kinds of errors, and
servers the same statuses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agents.models.redaction import without_keys
from tools.errors import KernelwrightError, OverloadedError, ProviderError, RefusalError, SettingsError

NO_KEY = "none"
"""Sent to a server that wants no key: the SDKs refuse to send nothing, or take the key of another service."""
MAX_MESSAGE = 400
"""Characters of a server's message that are repeated to the user."""
FILTERED = re.compile(r"content_filter|content management policy", re.I)
TOO_LONG = re.compile(
    r"context[ _](?:length|size|window|limit)|maximum context|too many tokens|prompt is too long", re.I
)
"""How servers say that prompt and answer pass what their model holds."""


@dataclass(frozen=True)
class Server:
    """A client of one of the SDKs with its options, and the meaning of its errors."""

    client: Any
    options: Any
    """Of the provider, with model, base_url, max_tokens, max_retries and api_key_env."""
    key: str = ""

    @property
    def where(self) -> str:
        """Model and server, for messages."""
        return f"{self.options.model} at {self.client.base_url}"

    @property
    def credentials(self) -> str:
        """What was shown to the server, for a message that it does not give access."""
        return self.options.api_key_env or "a request without a key (name its variable in api_key_env)"

    def message(self, error: Exception) -> str:
        """The server's own words, code included, on one line and without keys: some repeat the one that they refuse."""
        body = getattr(error, "body", None)
        inner = body.get("error", body) if isinstance(body, dict) else None
        # llama.cpp repeats the status as the code, where others have a word.
        code = str(getattr(error, "code", None) or "")
        words = (inner.get("message") if isinstance(inner, dict) else None) or getattr(error, "message", None) or error
        return self.shown(f"{code}: {words}" if code and not code.isdigit() else str(words))

    def shown(self, text: str) -> str:
        """`text`, which came from outside, on one line, without keys and not too long."""
        # First without keys, then cut: half a key is no longer known for one.
        return without_keys(" ".join(text.split()), self.key)[:MAX_MESSAGE]

    def failure(self, error: Exception, role: str) -> KernelwrightError:
        """`error` of the SDK as ours: SettingsError for what the user can correct, OverloadedError for a server without
        room, ProviderError for what may pass."""
        said, status, entry = self.message(error), getattr(error, "status_code", None), f"models.{role}"
        if FILTERED.search(said):
            return RefusalError(f"{entry}: {self.options.model} declined to answer: {said}")
        if TOO_LONG.search(said):
            return ProviderError(
                f"{entry}: {self.where} has no room for the prompt and {entry}.max_tokens {self.options.max_tokens} "
                f"({said}); give it a larger context, or lower that"
            )
        if status == 402 or (status == 429 and re.search(r"insufficient_quota|billing|credit", said)):
            return ProviderError(
                f"{entry}: the account at {self.client.base_url} has no money left ({said}); fill it or choose another "
                f"model"
            )
        if status in (429, 503, 529) or getattr(error, "type", None) in ("overloaded_error", "rate_limit_error"):
            return OverloadedError(
                f"{entry}: {self.where} has no room ({said}), also after up to {self.options.max_retries} retries"
            )
        if status in (401, 403):
            return SettingsError(
                f"{entry}: {self.credentials} does not give access ({said}); correct the key or what it may do"
            )
        if status == 404:
            return SettingsError(
                f"{entry}.model: {self.options.model!r} is not served at {self.client.base_url} ({said}); name another "
                f"model or base_url"
            )
        return ProviderError(f"{entry}: {self.where} answered {status}: {said}")
