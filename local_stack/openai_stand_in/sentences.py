"""Small Korean text work: sentences, polite endings, particles, cutting without hurting numbers."""

import re

_BREAKS = re.compile(r"(?<=[.!?])\s+|(?<=[.!?][\"'”’])\s+|[\n\u2028\u2029]+")
_CONTROL = dict.fromkeys(c for c in range(0x20) if chr(c) not in "\t\n\r")
_ONE_SENTENCE = re.compile(r"[^.!?]*(?:\.(?=\w)[^.!?]*)*\.")
_BRACKETS = str.maketrans(dict.fromkeys("\"'“”‘’()[]{}<>「」『』", " "))
_WORD = re.compile(r"[가-힣]{2,}")
_LETTERS = re.compile(r"[^\W\d_]{2,}")
_PARTICLES = re.compile(
    r"(?:에서는|에서|으로|까지|부터|에게|보다|들은|들이|을|를|은|는|이|가|에|의|로|와|과|도|만)$"
)
_NO_NOUN = re.compile(r"(?:다|요|고|며|해|던|한|할|된|될|인|게|면|지|서|려|니|자|여|워)$")

_NIEUN, _BIEUP, _BIEUP_SIOT, _SSANG_SIOT = 4, 17, 18, 20


def sentences_of(text: str) -> list[str]:
    """The sentences and lines of a text, white space collapsed, control characters (NUL too) left out."""
    pieces = _BREAKS.split(text.replace("\r", "\n").translate(_CONTROL))
    return [" ".join(piece.split()) for piece in pieces if piece.strip()]


def is_plain(sentence: str) -> bool:
    """Whether any counter of sentences would count exactly one: a full stop at its end and none inside."""
    return 12 <= len(sentence) <= 220 and _ONE_SENTENCE.fullmatch(sentence) is not None


def made_plain(sentence: str) -> str:
    """One sentence of at most 200 characters out of anything; empty if nothing is left."""
    words = re.sub(r"[.!?]+(?!\w)|[!?]+", " ", sentence).split()
    kept: list[str] = []
    length = 0
    for word in words:
        length += len(word) + 1
        if length > 200:
            break
        kept.append(word)
    # A number that lost its second half ("3조 5,000억" cut after "3조") would be a wrong number.
    while kept and len(kept) < len(words) and _has_digit(kept[-1]):
        kept.pop()
    return f"{' '.join(kept)}." if kept else ""


def without_numbers(text: str) -> str:
    """The text without the words that contain digits."""
    return " ".join(word for word in text.split() if not _has_digit(word))


def polite(clause: str) -> str:
    """The clause as one sentence with a polite ~요 ending."""
    text = clause.rstrip(" .!?\"'”’…,")
    if text.endswith("요"):
        return f"{text}."
    if text.endswith("니다"):
        return f"{_from_formal(text)}."
    if not text.endswith("다") or len(text) < 2:
        return f"{text}{_copula(text)}."
    for plain, ending in (
        ("아니다", "아니에요"),
        ("이다", "이에요"),
        ("한다", "해요"),
        ("된다", "돼요"),
        ("서다", "서예요"),
    ):
        if text.endswith(plain):
            return f"{text.removesuffix(plain)}{ending}."
    if _final(text[-2]) in (_SSANG_SIOT, _BIEUP_SIOT):
        return f"{text[:-1]}어요."
    return f"{text}고 해요."


def polite_tail(sentence: str, limit: int) -> str:
    """The longest end of a sentence that, made polite, has at most `limit` characters; may be empty.

    Korean puts the predicate last, so an end reads as a clause. It never starts inside a number.
    """
    words = sentence.translate(_BRACKETS).split()
    for start in range(len(words)):
        if start and _splits_number(words[start - 1], words[start]):
            continue
        line = polite(" ".join(words[start:]))
        if len(line) <= limit:
            return line
    return ""


def words_of(text: str) -> list[str]:
    """Runs of two letters or more, without repeats, in the order of the text."""
    return list(dict.fromkeys(_LETTERS.findall(text)))


def nouns_of(text: str) -> list[str]:
    """Words that look like nouns, particles stripped, without repeats, in the order of the text."""
    stems = (_PARTICLES.sub("", word) for word in _WORD.findall(text))
    return list(dict.fromkeys(stem for stem in stems if 2 <= len(stem) <= 8 and not _NO_NOUN.search(stem)))


def with_topic(word: str) -> str:
    """The word with 은 or 는."""
    return word + ("은" if _final(word[-1:]) else "는")


def with_object(word: str) -> str:
    """The word with 을 or 를."""
    return word + ("을" if _final(word[-1:]) else "를")


def _final(letter: str) -> int:
    # 0 for a syllable without a final consonant and for everything that is no Korean syllable.
    return (ord(letter) - 0xAC00) % 28 if len(letter) == 1 and "가" <= letter <= "힣" else 0


def _copula(text: str) -> str:
    return "이에요" if _final(text[-1:]) else "예요"


def _from_formal(text: str) -> str:
    if text.endswith("입니다"):
        stem = text.removesuffix("입니다")
        return f"{stem}{_copula(stem)}"
    for formal, ending in (("합니다", "해요"), ("됩니다", "돼요")):
        if text.endswith(formal):
            return f"{text.removesuffix(formal)}{ending}"
    stem = text.removesuffix("니다")
    if stem.endswith("습"):
        verb = stem[:-1]
        in_past = _final(verb[-1:]) in (_SSANG_SIOT, _BIEUP_SIOT)
        return f"{verb}어요" if in_past else f"{verb}다고 해요"
    if _final(stem[-1:]) == _BIEUP:
        return f"{stem[:-1]}{chr(ord(stem[-1]) - _BIEUP + _NIEUN)}다고 해요"
    return f"{text}라고 해요"


def _has_digit(word: str) -> bool:
    return any(letter.isdigit() for letter in word)


def _splits_number(before: str, after: str) -> bool:
    return _has_digit(before) and (after[0].isdigit() or before[-1].isdigit())
