"""From the bytes of an answer to text, and from XML or HTML to the code it reports.

The API is asked for JSON, but reports errors as XML or as an HTML page with an alert too, with status 200.
"""

import re
from dataclasses import dataclass

_MOST_REPORT_CHARACTERS = 64_000
_WITH_ENTITIES = re.compile(r"<!(?:doctype|entity)", re.IGNORECASE)
_ALERT_ABOUT_KEY = re.compile(r"\balert\s*\([^)]{0,300}인증\s?키")
# The API's own reports, and those of the gateway in front of such services.
_REPORT_ROOTS = {"RESULT", "COOKRCP01", "OPENAPI_SERVICERESPONSE"}
_CODE_TAGS = ("CODE", "RETURNREASONCODE")
_MESSAGE_TAGS = ("MSG", "RETURNAUTHMSG", "ERRMSG")


@dataclass(frozen=True, slots=True)
class CodeReport:
    """A code as the answer gives it, and the text beside it."""

    code: str
    message: str


def text_of(body: bytes) -> str:
    """UTF-8, else cp949, whatever the answer says about itself; without a byte order mark and NUL.

    Where neither fits, the reading with fewer unreadable characters is taken, these as U+FFFD.
    """
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError:
        readings = [body.decode(encoding, "replace") for encoding in ("cp949", "utf-8")]
        text = min(readings, key=lambda reading: reading.count("\ufffd"))
    return text.replace("\x00", "").lstrip().removeprefix("\ufeff")


def report_in_markup(text: str) -> CodeReport | None:
    """What an XML report or an HTML alert says, None where the text is neither.

    A wrong key is answered by a page that alerts and goes back; it counts as INFO-100.
    """
    if len(text) > _MOST_REPORT_CHARACTERS:
        return None
    report = _xml_report(text)
    if report is None and _ALERT_ABOUT_KEY.search(text):
        return CodeReport("INFO-100", "")
    return report


def _xml_report(text: str) -> CodeReport | None:
    # No report has a document type; without one there are no entities to expand or to fetch.
    if _WITH_ENTITIES.search(text):
        return None
    from lxml import etree  # type: ignore[import-untyped]

    # The encoding is named here, since the declaration was right at best before the text was decoded.
    parser = etree.XMLParser(
        encoding="utf-8", resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False
    )
    try:
        root = etree.fromstring(text.encode(), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    if not isinstance(root.tag, str) or root.tag.upper() not in _REPORT_ROOTS:
        return None
    texts: dict[str, str] = {}
    for element in root.iter():
        if isinstance(element.tag, str):
            texts.setdefault(element.tag.upper(), (element.text or "").strip())
    code = next((texts[tag] for tag in _CODE_TAGS if texts.get(tag)), None)
    message = next((texts[tag] for tag in _MESSAGE_TAGS if texts.get(tag)), "")
    return None if code is None else CodeReport(code, message)
