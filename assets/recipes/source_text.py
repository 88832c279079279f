"""Text fields of the recipe source as a reader would see them: references, tags and control characters."""

import html
import re
import unicodedata

_LINE_BREAK = re.compile("\r\n?|[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
_UNPRINTABLE = re.compile(
    "[\x00-\x08\x0e-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2060\ufeff\ufffe\uffff\ud800-\udfff]"
)
# Bounded: `html.unescape` alone raises for a reference of thousands of digits.
_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{1,31}\d{0,2});")
_TAG = re.compile(r"</?([a-zA-Z]{1,10}[1-6]?)(?:[\s/][^<>\n]{0,200})?>")
_BREAKING_TAGS = frozenset(re.findall(r"\w+", "br p div li ul ol tr td table h1 h2 h3 h4 h5 h6"))

_NUMBERING = re.compile(r"\(?\d{1,2} ?[.)．）](?!\d) ?")
# The source ends many steps in the letter of their picture: `…건진다.a`; but `비타민C` ends in its own.
_STRAY_LETTER = re.compile(r"(?:(?<=[.!?]) ?(?:\([A-Za-z]\)|[A-Za-z])|(?<=[다요])[a-z])$")


def readable(text: str) -> str:
    """The text in NFC with `\\n` as its only line break, tags and references resolved, storable everywhere.

    NUL, other control characters, lone surrogates and marks without width are dropped.
    """
    resolved = _REFERENCE.sub(lambda reference: html.unescape(reference[0]), text)
    broken = _LINE_BREAK.sub("\n", _TAG.sub(_tag_as_text, resolved))
    return unicodedata.normalize("NFC", _UNPRINTABLE.sub("", broken))


def _tag_as_text(tag: re.Match[str]) -> str:
    return "\n" if tag[1].lower() in _BREAKING_TAGS else ""


def steps_text(text: str) -> str:
    """A step of the manual on one line, without its number and the source's stray last letter.

    `1. 두부를 건진다.a` is `새우를 건진다.`; `1.5컵을 붓는다.` stays. Empty where nothing is left.
    """
    line = " ".join(readable(text).split())
    numbering = _NUMBERING.match(line)
    return _STRAY_LETTER.sub("", line[numbering.end() :] if numbering else line).strip()
