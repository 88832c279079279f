"""The invented sites that behave: whose they are, in which language, and what they say of themselves.

Belongs here: what a site is. Not here: its HTML (`pages.py`) and who misbehaves (`misbehaviour.py`).
"""

from dataclasses import dataclass

DISALLOWED = "dathin-mun.test"
"""The one site whose robots.txt disallows everything."""

_KOREAN = """
hanbit-news      | 한빛일보         | 아침 여섯 시에 읽는 동네와 나라의 소식
gaon-market      | 가온장터         | 오늘 들어온 제철 과일과 반찬을 문 앞까지
narae-books      | 나래책방         | 작은 출판사의 새 책을 날마다 한 권씩 권합니다
dathin-mun       | 닫힌문           | 로봇에게는 열지 않는 누리집
solbaram-hotel   | 솔바람 여관      | 바닷가 소나무 숲의 방 여덟 칸
byulmaru-school  | 별마루 과학관    | 망원경으로 보는 이번 주 밤하늘
dolgorae-tour    | 돌고래 여행      | 섬으로 가는 배편과 숙소를 한 번에
mirinae-bank     | 미리내 금고      | 적금과 대출 이율을 한눈에 견줍니다
onsaemiro-cafe   | 온새미로         | 직접 볶은 콩과 오래된 노래가 있는 찻집
haetsal-farm     | 햇살농원         | 가지마다 이름표를 단 사과나무를 분양합니다
nuri-sports      | 누리체육         | 우리 동네 리그의 경기 결과와 순위
chorok-garden    | 초록뜰           | 베란다에서 키우는 허브 스무 가지
garam-law        | 가람 법률상담    | 전세 계약 전에 물어볼 열 가지
maru-furniture   | 마루가구         | 못을 쓰지 않고 짠 책상과 의자
yeoul-music      | 여울음반         | 새로 나온 국악과 인디 음반을 들어 보세요
"""
_ENGLISH = """
copper-kettle    | The Copper Kettle     | Slow recipes for small kitchens, tested twice
north-ferry      | North Ferry Lines     | Timetables & fares between nine invented harbours
paper-lantern    | Paper Lantern Review  | Essays on books that nobody has finished
quiet-engine     | Quiet Engine          | Notes about maintaining very old software
tin-rocket       | Tin Rocket Toys       | Clockwork toys, repaired and "as good as new"
willow-clinic    | Willow Street Clinic  | Opening hours, doctors on duty, advice by telephone
marble-ledger    | Marble Ledger         | Bookkeeping for people who dislike bookkeeping
salt-and-slate   | Salt & Slate          | Tableware thrown, glazed and fired by hand
juniper-radio    | Juniper Radio         | Live from the hill: folk, weather and lost cats
orbit-weather    | Orbit Weather         | Hourly forecasts for towns that do not exist
hollow-oak       | Hollow Oak Library    | 12,000 titles, one reading room, no fines
brass-compass    | Brass Compass         | Walking routes with the distance in steps
velvet-owl       | Velvet Owl Theatre    | Tonight's play, tomorrow's cast, last year's bloopers
"""
_JAPANESE = """
asagiri-times    | 朝霧タイムズ     | 港町の朝をつたえる小さな新聞
komorebi-shop    | 木もれ日商店     | 手しごとの器と布をあつめました
yukidoke-onsen   | 雪どけ温泉       | 山あいの湯と囲炉裏の夕ごはん
tsukimi-radio    | 月見ラジオ       | 夜ふけに流れるおたよりと音楽
hidamari-books   | ひだまり書房     | 縁側で読みたい本を毎週ご紹介
sazanami-fish    | さざなみ鮮魚     | 今朝あがった魚をその日のうちに
kazaguruma-toys  | 風車おもちゃ     | 木でできた、こわれてもなおせる玩具
mikazuki-bakery  | 三日月ベーカリー | 天然酵母のパンを一日二回焼いています
hanauta-school   | 鼻歌音楽教室     | 楽譜が読めなくても始められます
kawasemi-rail    | かわせみ鉄道     | 時刻表・運賃・車窓のみどころ
suzunari-farm    | すずなり農園     | 柿と梨の木のオーナーを募集中
aoba-clinic      | 青葉診療所       | 診療時間と休診日のお知らせ
"""


@dataclass(frozen=True)
class Site:
    """One site. `number` counts all sites; the variety of their pages hangs on it."""

    number: int
    host: str
    language: str
    title: str
    description: str


def _read(table: str, language: str, first: int) -> list[Site]:
    rows = [[cell.strip() for cell in line.split("|")] for line in table.strip().splitlines()]
    return [
        Site(number, f"{name}.test", language, title, description)
        for number, (name, title, description) in enumerate(rows, first)
    ]


_KO = _read(_KOREAN, "ko", 0)
_EN = _read(_ENGLISH, "en", len(_KO))
_JA = _read(_JAPANESE, "ja", len(_KO) + len(_EN))

SITES: dict[str, Site] = {site.host: site for site in [*_KO, *_EN, *_JA]}


def domains() -> list[str]:
    """The hosts with a good front page, the one that disallows robots included."""
    return list(SITES)
