"""Translates errors of the `anthropic` and `openai` SDKs for users: both have the same kinds of errors, and servers
send the same statuses."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from agents.models.redaction import remove_keys
from agents.models.time_limits import silence_timeout
from tools.errors import KernelwrightError, OverloadedError, ProviderError, RefusalError, SettingsError

PLACEHOLDER_KEY = "none"
"""Key for a server that wants none: without a key the SDKs fail, or use the key of another service."""
MAX_MESSAGE_CHARS = 400
"""Most characters of a server's message that are shown to the user."""
CONTENT_FILTER_PATTERN = re.compile(r"content_filter|content management policy", re.I)
CONTEXT_FULL_PATTERN = re.compile(
    r"context[ _](?:length|size|window|limit)|maximum context|too many tokens|prompt is too long", re.I
)
"""Matches messages of servers about a prompt and answer that exceed the model's context."""

WRONG_KEY_PATTERN = re.compile(r"(?:incorrect|invalid) api.?key|api.?key (?:is )?(?:not valid|invalid)", re.I)
"""Matches messages with which some servers refuse a key by the status 400."""
UNKNOWN_CALL_STATUSES = (400, 404, 405, 422, 501)
"""Statuses of servers that do not know the call for the list of models."""


@dataclass(frozen=True)
class SdkClient(ABC):
    """A client of one of the SDKs with its options, and the translation of its errors."""

    sdk: Any
    options: Any
    """Options of the provider, with model, base_url, max_tokens, max_retries and api_key_env."""
    key: str = ""

    @property
    def model_and_address(self) -> str:
        """Model and address of the server, for messages."""
        return f"{self.options.model} at {self.sdk.base_url}"

    @property
    @abstractmethod
    def error_types(self) -> tuple[type[Exception], ...]:
        """Exceptions that a call can raise."""

    def require_access(self, entry: str, **query: int) -> None:
        """Ask for the list of models, as `query` limits it: it needs the key and costs no tokens. Raises the translated
        error, unless the server refuses no more than the list."""
        sdk = self.sdk.with_options(max_retries=self.options.max_retries)
        try:
            # The raw response: some servers list their models in a form of their own.
            sdk.models.with_raw_response.list(timeout=silence_timeout(self.options.timeout_s), **query)
        except self.error_types as error:
            status, said = getattr(error, "status_code", None), self.error_message(error)
            is_unknown = status in UNKNOWN_CALL_STATUSES and not WRONG_KEY_PATTERN.search(said)
            # A key may be restricted to exchanges.
            if not is_unknown and not (status == 403 and "scope" in said):
                raise self.translate_error(error, entry) from error

    @property
    def credentials_text(self) -> str:
        """Where the key came from, for a message about denied access."""
        return self.options.api_key_env or "a request without a key (name its variable in api_key_env)"

    def error_message(self, error: Exception) -> str:
        """Return the server's message and code on one line, without keys: some servers repeat a refused key."""
        body = getattr(error, "body", None)
        inner = body.get("error", body) if isinstance(body, dict) else None
        # llama.cpp repeats the status as the code, where others send a word.
        code = str(getattr(error, "code", None) or "")
        words = (inner.get("message") if isinstance(inner, dict) else None) or getattr(error, "message", None) or error
        return self.shorten(f"{code}: {words}" if code and not code.isdigit() else str(words))

    def shorten(self, text: str) -> str:
        """Return external `text` on one line, without keys, with at most MAX_MESSAGE_CHARS characters."""
        # Remove keys before cutting: half a key is not recognised.
        return remove_keys(" ".join(text.split()), self.key)[:MAX_MESSAGE_CHARS]

    def translate_error(self, error: Exception, role: str) -> KernelwrightError:
        """Translate an SDK error: SettingsError for what the user can correct, OverloadedError for an overloaded
        server, ProviderError for what may be temporary."""
        said, status, entry = self.error_message(error), getattr(error, "status_code", None), f"models.{role}"
        if CONTENT_FILTER_PATTERN.search(said):
            return RefusalError(f"{entry}: {self.options.model} declined to answer: {said}")
        if CONTEXT_FULL_PATTERN.search(said):
            return ProviderError(
                f"{entry}: {self.model_and_address} has no room for the prompt and {entry}.max_tokens "
                f"{self.options.max_tokens} "
                f"({said}); give the server a larger context, or lower max_tokens"
            )
        if status == 402 or (status == 429 and re.search(r"insufficient_quota|billing|credit", said)):
            return ProviderError(
                f"{entry}: the account at {self.sdk.base_url} has no money left ({said}); add money or choose another "
                f"model"
            )
        if status in (429, 503, 529) or getattr(error, "type", None) in ("overloaded_error", "rate_limit_error"):
            return OverloadedError(
                f"{entry}: {self.model_and_address} is overloaded ({said}), even after up to "
                f"{self.options.max_retries} retries"
            )
        if status in (401, 403) or (status == 400 and WRONG_KEY_PATTERN.search(said)):
            return SettingsError(
                f"{entry}: {self.credentials_text} does not give access ({said}); correct the key or its permissions"
            )
        if status == 404:
            return SettingsError(
                f"{entry}.model: {self.options.model!r} is not available at {self.sdk.base_url} ({said}); name another "
                f"model or base_url"
            )
        return ProviderError(f"{entry}: {self.model_and_address} answered {status}: {said}; check the server")
