"""Translates errors of the `anthropic` and `openai` SDKs for users: both have the same kinds of errors, and servers
send the same statuses."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from agents.models.redaction import remove_keys
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


@dataclass(frozen=True)
class SdkClient:
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
        if status in (401, 403):
            return SettingsError(
                f"{entry}: {self.credentials_text} does not give access ({said}); correct the key or its permissions"
            )
        if status == 404:
            return SettingsError(
                f"{entry}.model: {self.options.model!r} is not available at {self.sdk.base_url} ({said}); name another "
                f"model or base_url"
            )
        return ProviderError(f"{entry}: {self.model_and_address} answered {status}: {said}")
