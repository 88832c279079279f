"""What an amount is in a Korean ingredient text: how it is written, and which of several counts.

Numbers stay text, so that `2/3` stays `2/3`. Every pattern is bounded, so that a search takes time linear
in the text. They expect text from `plain`, with single spaces.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_VULGAR_FRACTION = re.compile("[¼-¾⅐-⅟↉]")
# What NFKC leaves alone or makes worse: ㆍ becomes a vowel, the other slashes and waves stay.
_LOOK_ALIKES = str.maketrans({"ㆍ": "·", "〜": "~", "∼": "~", "⁄": "/", "∕": "/"})

SERVINGS = "인분"
_WEIGHTS = frozenset({"kg", "mg", "g", "oz", "lb", "킬로그램", "밀리그램", "그램", "그람", "킬로"})
_VOLUMES = frozenset({"ml", "dl", "cc", "l", "밀리리터", "리터"})
_LENGTHS = frozenset({"cm", "mm"})
_KITCHEN_UNITS = re.findall(
    r"\w+",
    """큰술 작은술 큰스푼 작은스푼 테이블스푼 밥숟가락 숟가락 밥숟갈 숟갈 티스푼 스푼 수저 술 국자 주걱
    종이컵 컵 공기 그릇 대접 접시 잔 꼬집 움큼 웅큼 주먹 줌 방울 마리 토막 덩어리 덩이 조각 가닥
    줄기 뿌리 포기 송이 다발 묶음 자루 줄 대 단 통 톨 알 개입 개 모 장 쪽 편 잎
    봉지 봉 포대 포 팩 캔 병 상자 박스 스틱 판 구 입 손 근 되 홉""",
)
_VAGUE = re.findall(r"\w+", "약간 적당량 적당히 적정량 적량 조금 소량 넉넉히 취향껏 기호껏 필요량 알맞게")
_COUNTING_WORDS = {"한": "1", "두": "2", "세": "3", "네": "4", "반": "1/2"}


def _either(words: Iterable[str]) -> str:
    return "|".join(sorted(words, key=lambda word: (-len(word), word)))


_FRACTION = r"\d{1,3} ?/ ?\d{1,3}"
_NUMBER = (
    rf"(?:\d{{1,4}}(?: ?[과와] ?| ){_FRACTION}|{_FRACTION}"
    r"|\d{1,3}(?:,\d{3}){1,2}(?!\d)|\d{1,7}(?:\.\d{1,4})?)"
)
_ABOUT = "(?: ?(?:씩|정도|가량|내외|분량|쯤)(?![가-힣]))?"
_HALF = "(?: ?반(?![가-힣]))?"
# Where a unit ends: `2대파` is not "2 대", but `30g당근` is "30 g".
_LATIN_UNIT = r"(?:(?i:kg|mg|g|oz|lb|ml|dl|cc|l|cm|mm|tbsp|tbs|tsp|cups?)|Ts|TS|ts|T|t)(?![A-Za-z])"
_MEASURES_IN_HANGUL = [unit for unit in _WEIGHTS | _VOLUMES if not unit.isascii()]
_HANGUL_UNIT = (
    rf"(?:{_either([*_KITCHEN_UNITS, SERVINGS, *_MEASURES_IN_HANGUL])})(?={_HALF}{_ABOUT}(?![가-힣]))"
)
_UNIT = rf"(?:{_LATIN_UNIT}|{_HANGUL_UNIT})"
# A number without a unit stands alone (`밥 180`) or has two places (`밥180`, but not `오메가3`).
_BARE_START = r"(?:(?<![^\s,=/(])|(?<=[가-힣])(?=\d\d|\d[./]))"
_BARE_END = r"(?![\w%+°×*:/]|\.\d)"

AMOUNT = (
    r"(?:(?<![가-힣])(?:(?P<each>각각|각)|총|약|대략) ?)?(?<![\d.])(?<!\d/)(?<!\d/ )(?:"
    rf"(?P<low>{_NUMBER})(?: ?{_UNIT}?~ ?(?P<high>{_NUMBER})| ?- ?(?P<to>{_NUMBER}))?"
    rf" ?(?P<unit>{_UNIT})(?P<half>{_HALF})"
    rf"|{_BARE_START}(?P<bare>{_NUMBER})(?: ?[~-] ?(?P<bare_to>{_NUMBER}))?{_BARE_END}"
    rf"|(?<=\s)(?P<word>{_either(_COUNTING_WORDS)}) ?(?P<word_unit>{_HANGUL_UNIT})"
    rf"){_ABOUT}"
    rf"|(?P<vague>{_either(_VAGUE)}|기호에 따라)씩?(?![가-힣])"
)
# `3×1cm` says how large, not how much.
SIZE = r"(?<![\d.])\d{1,4}(?:\.\d{1,2})?(?:cm|mm)?(?: ?[×xX*] ?\d{1,4}(?:\.\d{1,2})?(?:cm|mm)?){1,2}(?!\w)"


@dataclass(frozen=True, slots=True)
class Amount:
    """One amount; `written` is how the text has it, `each` that it holds for each of several things."""

    quantity: str
    unit: str | None
    written: str
    each: bool = False


def plain(text: str) -> str:
    """The text in NFKC, fractions spelled out before that: `1½` is `1 1/2`, never `11/2`."""
    return unicodedata.normalize("NFKC", _VULGAR_FRACTION.sub(_spelled, text.translate(_LOOK_ALIKES)))


def _spelled(match: re.Match[str]) -> str:
    spelled = unicodedata.normalize("NFKC", match[0]).replace("⁄", "/")
    text, start, end = match.string, match.start(), match.end()
    before = " " if start and text[start - 1].isdigit() else ""
    after = " " if end < len(text) and text[end].isdigit() and not spelled.endswith("/") else ""
    return before + spelled + after


def read_amount(match: re.Match[str]) -> Amount:
    """The amount of a match of `AMOUNT`."""
    found = match.groupdict()
    written, each = match[0].strip(), bool(found["each"])
    if found["vague"]:
        return Amount(found["vague"], None, written)
    if found["word"]:
        return Amount(_COUNTING_WORDS[found["word"]], found["word_unit"], written, each)
    low, high = found["low"] or found["bare"], found["high"] or found["to"] or found["bare_to"]
    quantity = "~".join(_tidy_number(number) for number in (low, high) if number)
    if found["half"] and "/" not in quantity:
        quantity += " 1/2"
    return Amount(quantity, found["unit"], written, each)


def _tidy_number(number: str) -> str:
    joined = re.sub(" ?[과와] ?", " ", number.replace(",", ""))
    return re.sub(" ?/ ?", "/", joined)


def amount_that_counts(name: str, amounts: Sequence[Amount]) -> Amount | None:
    """The one of several amounts of an ingredient that is stored; None where there is none.

    A kitchen unit before grams, since that is what a cook measures with (the contract's prompt rule); for
    meat, fish and seafood the weight, since a piece of them has no usual size. The first of equals.
    """
    order = _ORDER_OF_WEIGHED if is_weighed(name) else _ORDER
    return min(amounts, key=lambda amount: order.index(_kind(amount)), default=None)


_ORDER = ("kitchen", "weight", "volume", "number", "length", "vague", "servings")
_ORDER_OF_WEIGHED = ("weight", *(kind for kind in _ORDER if kind != "weight"))


def _kind(amount: Amount) -> str:
    if amount.unit is None:
        return "number" if amount.quantity[0].isdigit() else "vague"
    unit = amount.unit.lower()
    kinds = {"weight": _WEIGHTS, "volume": _VOLUMES, "length": _LENGTHS, "servings": {SERVINGS}}
    return next((kind for kind, units in kinds.items() if unit in units), "kitchen")


_MEAT_AND_FISH = re.compile(
    "고기|한우|우둔|등심|안심|갈비|삼겹|항정|사태|양지|차돌|홍두깨|닭(?!의장풀)|오리(?!엔탈|지널)|돈육|우육|계육|다짐육|"
    "생선|고등어|갈치|연어|참치|삼치|동태|명태|생태|대구|조기|도미|광어|우럭|장어|가자미|꽁치|임연수|병어|민어|농어|"
    "북어|황태|코다리|오징어|낙지|문어|주꾸미|쭈꾸미|새우|꽃게|대게|홍합|바지락|조개|전복|꼬막|소라|골뱅이|가리비|관자|"
    "해삼|멍게|미더덕|(?:^|생|석)굴$|살$"
)
# What is made from them is measured like any sauce or packet; and some only sound like them.
_NOT_WEIGHED = re.compile(
    "(?:젓|젓갈|액|소스|육수|국물|다시|가루|분말|스톡|양념|기름|오일|버섯|캔|통조림|맛살|알)$|^콩고기"
)


def is_weighed(name: str) -> bool:
    """Whether the name is meat, fish or other seafood, shrimps included; not what is made from them."""
    return bool(_MEAT_AND_FISH.search(name)) and not _NOT_WEIGHED.search(name)
