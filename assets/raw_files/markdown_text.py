"""Text from outside, such as errors that quote a file, as a cell of a Markdown table."""

import re
import unicodedata

MOST_CHARACTERS = 300

_MARKS = re.compile(r"[!#$&()*+:<=>@\[\\\]^_`{|}~]")
# Renderers make links of bare addresses after entities are decoded, so an address is broken up.
_AFTER_LINK_STARTS = re.compile(r"(?<=://)|(?<=www)(?=\.)|(?<=@)", re.IGNORECASE)
_ZERO_WIDTH_SPACE = "\u200b"


def escaped(text: str, most: int = MOST_CHARACTERS) -> str:
    """`text` on one line of at most `most` characters, shown as it is by any Markdown renderer.

    Neither markup, HTML, a cell's end nor a link can come of it: what could mean something is an entity,
    and control, direction and other invisible characters are spaces.
    """
    visible = "".join(" " if unicodedata.category(one)[0] in "CZ" else one for one in text[: most * 10])
    line = " ".join(visible.split())
    if len(line) > most or len(text) > most * 10:
        line = line[: most - 1] + "…"
    unlinked = _AFTER_LINK_STARTS.sub(_ZERO_WIDTH_SPACE, line)
    return _MARKS.sub(lambda mark: f"&#{ord(mark.group())};", unlinked)
