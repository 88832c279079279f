"""A shop for the demo of recommendations: invented products, members and what they did, always the same.

Ids lie far above those that an application's sequence is likely to have given out.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

FIRST_ID = 9_200_000_000
PRODUCTS = 300
MEMBERS = 500
FIRST_DAY = datetime(2026, 11, 11, tzinfo=UTC)
DAYS = 10

_KINDS = {
    "주방": ("도마", "냄비", "프라이팬", "보온병", "접시", "찻주전자"),
    "캠핑": ("텐트", "침낭", "랜턴", "화로", "접이식 의자", "해먹"),
    "문구": ("만년필", "공책", "연필꽂이", "달력", "스티커", "필통"),
    "반려동물": ("고양이 캣타워", "강아지 방석", "급식기", "장난감 공", "산책 줄", "숨숨집"),
    "운동": ("요가 매트", "아령", "러닝 양말", "폼 롤러", "줄넘기", "물통"),
    "원예": ("화분", "모종삽", "물뿌리개", "다육 식물", "비료", "원예 장갑"),
    "음악": ("통기타", "우쿨렐레", "헤드폰", "레코드판", "보면대", "튜너"),
    "침구": ("베개", "이불", "수면 안대", "매트리스 커버", "담요", "향초"),
    "여행": ("캐리어", "목베개", "여권 지갑", "압축 파우치", "우비", "세면 가방"),
    "과학": ("망원경", "현미경", "지구본", "전자 회로 세트", "화석 발굴 세트", "자석 블록"),
}
_MANNERS = ("가벼운", "튼튼한", "작은", "넉넉한", "오래 쓰는")


@dataclass(frozen=True)
class Product:
    id: int
    name: str
    category: str
    text: str
    is_active: bool


@dataclass(frozen=True)
class Deed:
    """An event of a member, before the ten days."""

    member_id: int
    product_id: int
    kind: str
    weight: float
    occurred_at: datetime


def products() -> list[Product]:
    """Every product; one in twenty is not sold any more."""
    made: list[Product] = []
    for category, things in _KINDS.items():
        for manner in _MANNERS:
            for thing in things:
                number = len(made)
                text = f"{manner} {thing}. {category}에 쓰기 좋고 {things[number % len(things)]}와 어울린다."
                made.append(Product(FIRST_ID + number, f"{manner} {thing}", category, text, number % 20 != 7))
    return made


def members() -> list[int]:
    return [FIRST_ID + number for number in range(MEMBERS)]


def opted_out() -> list[int]:
    """Members who refused profiling."""
    return members()[3::50]


def deeds() -> Iterator[Deed]:
    """What members did in the month before: mostly within two categories each; one in ten did nothing."""
    catalogue = products()
    chance = random.Random(20261111)
    of_category: dict[str, list[Product]] = {}
    for product in catalogue:
        of_category.setdefault(product.category, []).append(product)
    for number, member_id in enumerate(members()):
        liked = chance.sample(list(of_category), 2)
        for _ in range(0 if number % 10 == 9 else chance.randint(4, 14)):
            shelf = of_category[chance.choice(liked)] if chance.random() < 0.85 else catalogue
            kind, weight = chance.choice((("view", 1.0), ("view", 1.0), ("like", 3.0), ("purchase", 5.0)))
            ago = timedelta(minutes=chance.randint(60, 30 * 24 * 60))
            yield Deed(member_id, chance.choice(shelf).id, kind, weight, FIRST_DAY - ago)


def visits() -> list[tuple[int, datetime]]:
    """Who came when, over the ten days, most of them in the last two; some again within the session.

    Nobody comes in the last three hours: everybody is due before the ten days are over.
    """
    chance = random.Random(20261121)
    minutes = DAYS * 24 * 60 - 180
    found = []
    for member_id in members():
        first = minutes - 2 * 24 * 60 if chance.random() < 0.9 else 0
        for _ in range(chance.randint(1, 2)):
            moment = FIRST_DAY + timedelta(minutes=chance.randint(first, minutes))
            found.append((member_id, moment))
            if chance.random() < 0.2:
                found.append((member_id, moment + timedelta(minutes=20)))
    return sorted(found, key=lambda visit: visit[1])
