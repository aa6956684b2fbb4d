"""Keeps of the wiki's text what is about one kernel: code and methods of its language, and its device's vendor."""

from __future__ import annotations

import re

from agents.text.source import is_python_language
from knowledge_base.pages.wiki import HOST_LANGUAGE
from tools.languages.base import LANGUAGES

CODE_PATTERN = re.compile(r"^```(.*)\n(?:.*\n)*?```[ \t]*\n?", re.MULTILINE)
"""Matches a fenced block of code; its group holds the words after the fence, such as `python triton`."""
LIST_ITEM_PATTERN = re.compile(r"^(?:\d+\.|[-*]) .*\n?(?:[ \t]+\S.*\n?)*", re.MULTILINE)
METHOD_PATTERN = re.compile(r"\bmethods/([\w-]+)\.md\b")
OTHER_VENDOR_PATTERNS = {
    "sm_": re.compile(r"\b(?:AMD|ROCm|CDNA\d*|HIP|rocprof\w*|gfx\d\w*|MI\d{3}\w?)\b"),
    "gfx": re.compile(r"\b(?:NVIDIA|CUDA|PTX|SASS|Hopper|Blackwell|sm_\d+|ncu)\b"),
}
"""Start of an architecture's name -> matches words of the other vendor."""


def text_for_language(text: str, language: str) -> str:
    """Return Markdown without code in other languages, commands for a shell, and items of lists that lead to methods of
    other languages alone."""
    spoken = {language, HOST_LANGUAGE.get(language, language)}

    def is_spoken(words: list[str]) -> bool:
        tagged = LANGUAGES.keys() & set(words)
        if tagged or words[:1] == ["sh"]:
            return bool(tagged & spoken)
        return words[:1] != ["python"] or is_python_language(language)

    def leads_here(item: str) -> bool:
        methods = METHOD_PATTERN.findall(item)
        languages = {start if (start := one.split("-")[0]) in LANGUAGES else "cpp" for one in methods}
        return not methods or bool(spoken & languages)

    if language not in LANGUAGES:
        return text
    text = CODE_PATTERN.sub(lambda block: block[0] if is_spoken(block[1].split()) else "", text)
    return LIST_ITEM_PATTERN.sub(lambda item: item[0] if leads_here(item[0]) else "", text)


def names_other_vendor(text: str, architecture: str) -> bool:
    """Return whether a text is about GPUs of another vendor than that of `architecture`."""
    return any(
        pattern.search(text) for start, pattern in OTHER_VENDOR_PATTERNS.items() if architecture.startswith(start)
    )
