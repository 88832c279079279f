"""What is stripped from a body, and what only looks like it (contract: "Article pages")."""

import pytest

from assets.economy_news.article_body import clean_body
from assets.economy_news.page_text import parse_tree

SENTENCE = "누리조선이 컨테이너선 6척을 수주했다."


def clean(html: str) -> str:
    return clean_body(parse_tree(f"<body><div>{html}</div></body>"))


@pytest.mark.parametrize(
    "surroundings",
    [
        "<script>x()</script>",
        "<style>.x{}</style>",
        "<!-- 주석 -->",
        '<strong class="media_end_summary">요약</strong>',
        '<span class="end_photo_org"><div><img></div><em class="img_desc">설명</em></span>',
        '<em class="img_desc">설명</em>',
        '<table class="nbd_table"><tr><td><img></td></tr><tr><td>설명</td></tr></table>',
        '<div class="vod_player_wrap">영상</div>',
        '<div class="_VOD_PLAYER_WRAP">영상</div>',
        '<div class="_VIDEO_AREA_WRAP">영상</div>',
        '<div class="ab_photo">사진</div>',
        '<p class="artical-btm">바닥글</p>',
    ],
)
def test_surroundings_are_stripped_wherever_they_stand(surroundings: str) -> None:
    assert clean(f"{surroundings}{SENTENCE}<br>{surroundings}끝이다.{surroundings}") == f"{SENTENCE}\n끝이다."


@pytest.mark.parametrize(
    ("end", "left"),
    [
        ("서도담 기자 dodam@saebyeok.example", "서도담 기자"),
        ("서도담 기자(dodam@saebyeok.example)", "서도담 기자"),
        ("[서도담 기자 dodam@saebyeok.example]", "[서도담 기자]"),
        ("서도담·박이든 기자 dodam@saebyeok.example, ideun@saebyeok.example", "서도담·박이든 기자"),
        ("서도담 기자 dodam@saebyeok.example.", "서도담 기자"),
    ],
)
def test_a_reporters_address_at_the_end_is_stripped(end: str, left: str) -> None:
    assert clean(f"{SENTENCE}<br><br>{end}") == f"{SENTENCE}\n{left}"


def test_a_line_that_was_only_an_address_leaves_nothing() -> None:
    assert clean(f"{SENTENCE}<br>dodam@saebyeok.example<br>") == SENTENCE


def test_an_address_inside_the_text_stays() -> None:
    text = "문의는 help@nuri.example로 받는다."
    assert clean(f"접수처는 apply@nuri.example<br>{text}") == f"접수처는 apply@nuri.example\n{text}"


@pytest.mark.parametrize(
    "line",
    [
        "▶ 새벽경제 채널 구독하기",
        "▶ <a>네이버에서 새벽경제를 받아보세요</a>",
        "▶제보를 기다립니다.",
        "► 관련 기사: 조선 3사 실적",
        "▶ https://saebyeok.example",
    ],
)
def test_a_promotional_line_is_stripped_in_the_middle_and_at_the_end(line: str) -> None:
    assert clean(f"{SENTENCE}<br>{line}<br>끝이다.<br>{line}") == f"{SENTENCE}\n끝이다."


def test_a_pointer_to_another_article_is_stripped_at_the_end_only() -> None:
    pointer = "▶ [단독] 옆 동네 이야기"
    assert clean(f"{SENTENCE}<br>{pointer}<br>{pointer}") == SENTENCE
    assert clean(f"{pointer}<br>{SENTENCE}") == f"{pointer}\n{SENTENCE}"


@pytest.mark.parametrize(
    "line",
    [
        "▶ 내년에도 동결한다.",
        "▶ 구독 경제가 커진 덕이 크다.",
        "▶ 내년에는 오를 것으로 봅니다.",
        "앞의 ▶ 표시를 누르면 된다",
    ],
)
def test_an_answer_marked_with_the_same_sign_stays(line: str) -> None:
    assert clean(f"{SENTENCE}<br>{line}") == f"{SENTENCE}\n{line}"


@pytest.mark.parametrize(
    "line",
    [
        "ⓒ 새벽경제, 무단 전재 및 재배포 금지",
        "© 새벽경제",
        "&lt;저작권자(c) 온누리통신, 무단 전재-재배포, AI 학습 및 활용 금지&gt;",
        "&lt;저작권자 ⓒ 온누리통신&gt;",
        "Copyright ⓒ 새벽경제. All rights reserved.",
        "[새벽경제 무단전재 및 재배포 금지]",
        "*재판매 및 DB 금지",
    ],
)
def test_the_copyright_line_at_the_end_is_stripped(line: str) -> None:
    assert clean(f"{SENTENCE}<br>{line}<br>") == SENTENCE


@pytest.mark.parametrize(
    "line",
    [
        "저작권자 단체는 무단 전재를 막겠다고 밝혔다.",
        "ⓒ 표시는 1955년에 국제 협약으로 정해졌다. " + "그 뒤 널리 쓰인다. " * 20,
    ],
)
def test_an_article_about_copyright_keeps_its_last_line(line: str) -> None:
    assert clean(f"{SENTENCE}<br>{line}") == f"{SENTENCE}\n{line.strip()}"


def test_everything_below_the_article_is_stripped_in_any_order() -> None:
    address, pointer, copyright_line = "dodam@saebyeok.example", "▶ 다른 이야기", "ⓒ 새벽경제"
    end = "<br>".join([address, copyright_line, pointer, address, "▶ 구독하기", copyright_line])
    assert clean(f"{SENTENCE}<br>{end}") == SENTENCE


def test_a_body_of_surroundings_alone_is_empty() -> None:
    assert clean('<span class="end_photo_org"><img></span>▶ 구독하기<br>ⓒ 새벽경제') == ""
