"""From the bytes of a page to text and to a tree of elements; and from elements back to tidy text.

What a page means (lists, articles) is not known here.
"""

import codecs
import re
import unicodedata
from collections.abc import Callable, Set
from typing import Any, TypeAlias

from lxml import etree  # type: ignore[import-untyped]

Element: TypeAlias = Any  # lxml ships no types
Finder: TypeAlias = Callable[[Element], list[Element]]

UNSEEN_TAGS = frozenset({"script", "style", "noscript", "template", "iframe"})

# Control characters that are not white space, lone surrogates, and marks without width.
# U+200D stays: it holds emoji together.
_UNPRINTABLE = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u200b\ufeff\ufffe\uffff\ud800-\udfff]")
# Line breaks of the source are spaces on the screen; the two Unicode separators break a line.
_ON_SCREEN = str.maketrans("\n\r\t\f\u2028\u2029", "    \n\n")
_BLOCK_TAGS = re.findall(
    r"\w+",
    """address article aside blockquote dd div dl dt figcaption figure footer form h1 h2 h3 h4 h5 h6 header
    hr li main ol p pre section table tbody tfoot thead tr ul""",
)
_BREAK_BEFORE = dict.fromkeys([*_BLOCK_TAGS, "br"], "\n") | {"td": " ", "th": " "}
_BREAK_AFTER = dict.fromkeys(_BLOCK_TAGS, "\n")


def decode_page(html: bytes) -> str:
    """The text of a page: strict UTF-8, else cp949, whatever the page says about itself.

    A last character cut in half (a page that stopped arriving) does not count against UTF-8. Where
    neither fits, the reading with fewer unreadable characters is taken, these as U+FFFD.
    """
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(html)
    except UnicodeDecodeError:
        readings = [html.decode(encoding, "replace") for encoding in ("cp949", "utf-8-sig")]
        return min(readings, key=lambda text: text.count("\ufffd"))


def parse_tree(text: str) -> Element:
    """The root element of a page or a fragment; an empty `html` element where there is none.

    Any text parses. Nesting deeper than about 2,000 elements ends the tree there.
    """
    # UTF-8 bytes with the encoding named: lxml refuses text that carries an XML declaration, and
    # bytes alone would let `meta charset` decide.
    clean = _UNPRINTABLE.sub("", text).encode()
    parser = etree.HTMLParser(encoding="utf-8", huge_tree=True, recover=True)
    try:
        root = etree.fromstring(clean, parser)
    except etree.XMLSyntaxError:
        root = None
    return etree.Element("html") if root is None else root


def read_meta(root: Element) -> dict[str, str]:
    """The first non-empty content of each meta element, tidy, by its lower-case property or other name."""
    found: dict[str, str] = {}
    for element in root.iter("meta"):
        content = tidy_line(element.get("content", ""))
        for naming in ("property", "name", "itemprop", "http-equiv"):
            name = element.get(naming, "").strip().lower()
            if name and content:
                found.setdefault(name, content)
    return found


def by_id(name: str) -> Finder:
    """Finds the elements with this id at or below an element, in document order."""
    return _finder(f'@id="{name}"')


def by_class(*names: str) -> Finder:
    """Finds the elements with one of these classes at or below an element, in document order."""
    return _finder(" or ".join(map(_has_class, names)))


def _has_class(name: str) -> str:
    # The first half decides almost always, and saves taking the other elements' classes apart.
    whole = f'contains(concat(" ", normalize-space(@class), " "), " {name} ")'
    return f'(contains(@class, "{name}") and {whole})'


def _finder(condition: str) -> Finder:
    compiled: Finder = etree.XPath(f"descendant-or-self::*[{condition}]")
    return compiled


def rendered_text(
    root: Element, skipped_tags: Set[str] = UNSEEN_TAGS, skipped_classes: Set[str] = frozenset()
) -> str:
    """The text below an element as a browser lays it out: a newline where a line ends, and no other.

    Inline elements join what is around them, so that no word is split. An element of a skipped class
    was something to see (a photo, a video) and leaves a line break; one of a skipped tag leaves nothing.
    """
    pieces: list[str] = []
    walker = etree.iterwalk(root, events=("start", "end", "comment", "pi"))
    for event, node in walker:
        if event == "start":
            if node.tag in skipped_tags:
                walker.skip_subtree()
            elif not skipped_classes.isdisjoint(node.get("class", "").split()):
                walker.skip_subtree()
                pieces.append("\n")
            else:
                pieces += _BREAK_BEFORE.get(node.tag, ""), (node.text or "").translate(_ON_SCREEN)
        else:
            if event == "end":
                pieces.append(_BREAK_AFTER.get(node.tag, ""))
            if node is not root:
                pieces.append((node.tail or "").translate(_ON_SCREEN))
    return "".join(pieces)


def tidy_line(text: str) -> str:
    """One line in NFC without unprintable characters, each run of white space a single space."""
    return " ".join(unicodedata.normalize("NFC", _UNPRINTABLE.sub("", text)).split())


def tidy_lines(text: str) -> list[str]:
    """The lines of a text that hold something, each tidy."""
    return [line for line in map(tidy_line, text.split("\n")) if line]
