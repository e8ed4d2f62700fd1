"""Hides what looks like a key in the words of a program, before they become a reason that people and logs see.

A desk holds no real key; what a program prints may still hold one that an agent was told or found. This knows shapes,
not secrets: it is a net, not a promise.
"""

from __future__ import annotations

import re

MASK = "***"

# lengths have a limit where a text made for it could otherwise be gone through again and again
_SHAPES = (
    # keys that say what they are
    re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[a-z])[-_][A-Za-z0-9_\-]{8,}"),
    re.compile(r"\b(?:hf|npm|dop_v1|xapp)[-_][A-Za-z0-9_\-]{16,}"),
    re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}"),
    re.compile(r"\bAIza[A-Za-z0-9_\-]{30,}"),
    re.compile(r"\b[0-9]{8,10}:[A-Za-z0-9_\-]{35}\b"),  # a Telegram bot
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"),
)
_BLOCK = re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY(?: BLOCK)?)-----.*?(?:-----END \1-----|\Z)", re.DOTALL)
_LOGIN = re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/:@]+:)[^\s/@]+(?=@)")
_NAME = (
    r"(?i)(\b(?:[a-z0-9]+[_-]){0,9}[a-z0-9]{0,20}"
    r"(?:(?:api|access|secret|private|signing|encryption)[ _-]?key|authorization|token|secret|password|passwd"
    r"|passphrase)\b[\"']?\s*[:=]\s*(?:bearer\s+|basic\s+)?)"
)
_NAMED = re.compile(_NAME + r"(?:([\"'])(?:(?!\2)[^\n]){4,500}(?=\2)|([\"']?)[^\s\"',;]{4,})")
_BEARER = re.compile(r"(?i)\b(bearer\s+)[A-Za-z0-9._~+/=-]{8,}")


def masked(text: str) -> str:
    """The text, with asterisks where something looks like a key."""
    for shape in (_BLOCK, *_SHAPES):
        text = shape.sub(MASK, text)
    text = _LOGIN.sub(rf"\1{MASK}", text)
    text = _NAMED.sub(rf"\1\2\3{MASK}", text)
    return _BEARER.sub(rf"\1{MASK}", text)
