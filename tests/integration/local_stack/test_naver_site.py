"""The Naver-like site: its lists, its pages against its own manifest, and its misbehaviour."""

import re
import socket
import subprocess
import sys
import threading
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import combinations
from typing import Any

import httpx
import pytest
from bs4 import BeautifulSoup, Comment, Tag
from starlette.testclient import TestClient

from local_stack.naver_site.app import create_app, site_server
from local_stack.naver_site.articles import SECTIONS, SEOUL
from local_stack.naver_site.days import SPECIAL_KINDS, articles_of
from local_stack.naver_site.state import SiteState
from local_stack.naver_site.wording import finance_terms_in

DAY = date(2026, 5, 30)
NOW = datetime(2026, 6, 2, 9, 0, tzinfo=SEOUL)
MORE = "/section/template/SECTION_ARTICLE_LIST_FOR_LATEST"
STRIPPED = (
    "script, style, strong.media_end_summary, .end_photo_org, .img_desc, table.nbd_table, .vod_player_wrap, "
    "._VOD_PLAYER_WRAP, ._VIDEO_AREA_WRAP, .ab_photo, .artical-btm"
)
E_MAIL_AT_THE_END = re.compile(r"\s?[\w.]+@[\w.]+$")
COPYRIGHT_LINE = re.compile(r"ⓒ.*(무단 ?전재)")


@pytest.fixture
def state() -> SiteState:
    return SiteState(clock=lambda: NOW)


@pytest.fixture
def site(state: SiteState) -> TestClient:
    return TestClient(create_app(state), follow_redirects=False)


@pytest.fixture
def served(state: SiteState) -> Iterator[str]:
    """The address of the site behind its own server, for faults that need a connection."""
    server, bound = site_server(state, 0)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    yield f"http://127.0.0.1:{bound.getsockname()[1]}"
    server.should_exit = True
    thread.join(timeout=10)
    bound.close()
    assert not thread.is_alive()


def manifest(site: TestClient, day: date = DAY) -> dict[str, Any]:
    answer: dict[str, Any] = site.get(f"/_control/manifest?date={day}").json()
    return answer


def of_kind(site: TestClient, kind: str) -> list[dict[str, Any]]:
    return [article for article in manifest(site)["articles"] if article["kind"] == kind]


def page_of(site: TestClient, article: dict[str, Any]) -> Any:
    return site.get(f"/mnews/article/{article['oid']}/{article['aid']}")


def section_path(section: str, day: date = DAY) -> str:
    return f"/breakingnews/section/101/{SECTIONS[section][0]}?date={day:%Y%m%d}"


def ids_in(links: list[Any]) -> list[str]:
    """The ids of article links in first-seen order, read as assets/economy_news/README.md says."""
    found = []
    for link in links:
        href = str(link["href"])
        if (match := re.search(r"(?<!ranking)(?<!hotissue)/article/(\d{3})/(\d{10})", href)) or (
            match := re.search(r"/read\.naver\?.*oid=(\d{3})&aid=(\d{10})", href)
        ):
            found.append(f"{match[1]}/{match[2]}")
        elif match := re.search(r"/news_read\.naver\?article_id=(\d{10})&office_id=(\d{3})", href):
            found.append(f"{match[2]}/{match[1]}")
    return list(dict.fromkeys(found))


def listed_on(site: TestClient, section: str, day: date = DAY) -> list[str]:
    return ids_in(
        BeautifulSoup(site.get(section_path(section, day)).text, "lxml").select(".section_latest a")
    )


def decoded(content: bytes) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        return content.decode("cp949")


def body_of(soup: BeautifulSoup) -> str:
    """The cleaned body by the contract's rules, written apart from the site and from the pipeline."""
    body = soup.select_one("#dic_area") or soup.select_one("#newsct_article, #articleBodyContents")
    assert body is not None
    for stripped in body.select(STRIPPED):
        stripped.decompose()
    for comment in body.find_all(string=lambda text: isinstance(text, Comment)):
        comment.extract()
    for line_break in body.find_all("br"):
        line_break.replace_with("\n")
    lines = [line.strip() for line in body.get_text().split("\n") if line.strip()]
    while COPYRIGHT_LINE.search(lines[-1]) or lines[-1].startswith("▶"):
        lines.pop()
    lines[-1] = E_MAIL_AT_THE_END.sub("", lines[-1])
    lines = [line for line in lines if line]
    return unicodedata.normalize("NFC", "\n\n".join(lines))


def text_of(soup: BeautifulSoup, *selectors: str) -> str | None:
    """The first of the selectors that is there: its text, or its content where it is a meta tag."""
    found = next((one for selector in selectors if (one := soup.select_one(selector))), None)
    if not isinstance(found, Tag):
        return None
    return unicodedata.normalize("NFC", str(found.get("content") or found.get_text(strip=True)))


def published_of(soup: BeautifulSoup) -> datetime | None:
    if stamp := soup.select_one("._ARTICLE_DATE_TIME"):
        return datetime.fromisoformat(str(stamp["data-date-time"])).replace(tzinfo=SEOUL)
    if meta := soup.select_one('meta[property="article:published_time"]'):
        return datetime.fromisoformat(str(meta["content"]))
    if linked := re.search(r'"datePublished": "([^"]+)"', str(soup)):
        return datetime.fromisoformat(linked[1])
    if visible := re.search(r"(\d{4})\.(\d\d)\.(\d\d)\. (오전|오후) (\d+):(\d\d)", soup.get_text()):
        year, month, day, half, hour, minute = visible.groups()
        hours = int(hour) % 12 + (12 if half == "오후" else 0)
        return datetime(int(year), int(month), int(day), hours, int(minute), tzinfo=SEOUL)
    return None


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.split()
    return set(zip(words, words[1:], words[2:], strict=False))


def similarity(one: set[tuple[str, ...]], other: set[tuple[str, ...]]) -> float:
    return len(one & other) / len(one | other)


def test_the_same_date_gives_the_same_bytes(site: TestClient) -> None:
    article = of_kind(site, "all_blocks")[0]
    before = [site.get(section_path("STOCK")).content, page_of(site, article).content]
    articles_of.cache_clear()
    again = TestClient(create_app(SiteState(clock=lambda: NOW + timedelta(days=40))))
    assert [again.get(section_path("STOCK")).content, page_of(again, article).content] == before


@pytest.mark.parametrize("day", [date(1999, 12, 31), date(2024, 2, 29), DAY])
def test_every_day_has_the_promised_articles_and_kinds(site: TestClient, day: date) -> None:
    answer = manifest(site, day)
    assert {name: len(listed) for name, listed in answer["lists"].items()} == {
        name: 46 if name == "STOCK" else 12 for name in SECTIONS
    }
    wanted = Counter(kind.value for kinds in SPECIAL_KINDS.values() for kind in kinds)
    found = Counter(article["kind"] for article in answer["articles"])
    assert len(answer["articles"]) == 129
    assert found - Counter({"current": found["current"]}) == wanted
    ids = [(article["oid"], article["aid"]) for article in answer["articles"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"\d{3}/0\d{9}", f"{oid}/{aid}") for oid, aid in ids)


def test_texts_are_long_full_of_finance_terms_and_unlike_each_other(site: TestClient) -> None:
    stored = [article for article in manifest(site)["articles"] if article["expected"] == "stored"]
    for article in stored:
        low, high = (300, 999) if article["kind"] == "short" else (1300, 2500)
        assert low <= article["body_chars"] == len(article["cleaned_body"]) <= high
        assert len(finance_terms_in(article["cleaned_body"])) >= 6
    texts = [(article["duplicate_group"], shingles(article["cleaned_body"])) for article in stored]
    wire = [text for group, text in texts if group]
    assert len(wire) == 3
    assert min(similarity(*pair) for pair in combinations(wire, 2)) >= 0.9
    others = [text for group, text in texts if not group] + wire[:1]
    assert max(similarity(*pair) for pair in combinations(others, 2)) < 0.6


def test_a_first_page_lists_only_inside_section_latest(site: TestClient) -> None:
    soup = BeautifulSoup(site.get(section_path("FINANCE")).text, "lxml")
    answer = manifest(site)
    assert ids_in(soup.select(".section_latest a")) == answer["lists"]["FINANCE"]
    outside = {one for one in ids_in(soup.select("a[href]")) if one not in answer["lists"]["FINANCE"]}
    assert len(outside) == 11
    assert outside <= set(answer["not_listed"])
    for block in (".as_section_headline .sa_item", ".as_section_ranking", ".as_section_series", ".ad_box"):
        assert soup.select(f"{block} a[href]")
        assert not soup.select(f".section_latest {block}")


def test_an_item_links_its_article_twice_and_its_comments(site: TestClient) -> None:
    soup = BeautifulSoup(site.get(section_path("GENERAL")).text, "lxml")
    for item in soup.select(".section_latest .sa_item"):
        thumbnail, title, comments, *_ = [str(link["href"]) for link in item.select("a")]
        assert thumbnail == title
        assert title.startswith("http://testserver/mnews/article/")
        assert re.search(r"/article/comment/\d{3}/\d{10}$", comments)


def test_only_the_cursor_leads_to_the_next_page(site: TestClient) -> None:
    def more(number: int, cursor: str) -> Tag:
        asked: dict[str, Any] = {
            "sid": 101,
            "sid2": 258,
            "cluid": "",
            "pageNo": number,
            "date": "20260530",
            "next": cursor,
        }
        html = site.get(MORE, params=asked).json()["renderedComponent"]["SECTION_ARTICLE_LIST_FOR_LATEST"]
        soup = BeautifulSoup(html, "lxml")
        assert not soup.select(".section_latest")
        root = soup.select_one(".section_latest_article._CONTENT_LIST._PERSIST_META")
        assert root is not None
        return root

    first = BeautifulSoup(site.get(section_path("STOCK")).text, "lxml").select_one("._CONTENT_LIST")
    assert first is not None
    assert (first["data-has-next"], first["data-page-no"]) == ("true", "1")
    second = more(2, str(first["data-cursor"]))
    assert (second["data-has-next"], second["data-cursor"], second["data-page-no"]) == ("false", "", "2")
    in_order = [*ids_in(first.select("a")), *ids_in(second.select("a"))]
    assert in_order == manifest(site)["lists"]["STOCK"]
    assert len(first.select(".sa_item")) == 36
    assert all(str(link["href"]).startswith("/article/") for link in second.select("a.sa_text_cmt"))
    assert ids_in(more(2, "").select("a")) == ids_in(first.select("a"))


def test_a_list_shows_what_is_out_and_a_future_day_nothing(site: TestClient) -> None:
    today, tomorrow = NOW.date(), NOW.date() + timedelta(days=1)
    expected = manifest(site, today)
    out = {f"{a['oid']}/{a['aid']}": a["listed_at"] <= NOW.isoformat() for a in expected["articles"]}
    morning = listed_on(site, "GENERAL", today)
    assert morning == [one for one in expected["lists"]["GENERAL"] if out[one]]
    assert 0 < len(morning) < 12
    still_to_come = expected["lists"]["GENERAL"][0]
    assert site.get(f"/article/{still_to_come}").status_code == 404
    assert listed_on(site, "GENERAL", tomorrow) == []
    assert 'data-has-next="false"' in site.get(section_path("GENERAL", tomorrow)).text
    site.post("/_control/clock", json={"now": f"{today}T23:59:59+09:00"})
    assert listed_on(site, "GENERAL", today) == expected["lists"]["GENERAL"]


def test_a_reader_of_the_pages_gets_what_the_manifest_says(site: TestClient) -> None:
    for article in manifest(site)["articles"]:
        if article["expected"] != "stored":
            continue
        soup = BeautifulSoup(decoded(page_of(site, article).content), "lxml")
        modified = soup.select_one("._ARTICLE_MODIFY_DATE_TIME")
        thumbnail = soup.select_one('meta[property="og:image"]')
        logo = soup.select_one("img[alt][class*=logo], .press_logo img")
        author = text_of(soup, 'meta[property="og:article:author"]')
        read = {
            "title": text_of(
                soup, "#title_area", ".media_end_head_headline", "#articleTitle", 'meta[property="og:title"]'
            ),
            "press": author.split(" | ")[0] if author else logo and logo["alt"],
            "reporters": [name.text for name in soup.select(".media_end_head_journalist_name")]
            or [name.text for name in soup.select(".byline_s")],
            "thumbnail_url": thumbnail and thumbnail["content"],
            "modified_at": modified
            and datetime.fromisoformat(str(modified["data-modify-date-time"]))
            .replace(tzinfo=SEOUL)
            .isoformat(),
            "published_at": (moment := published_of(soup)) and moment.isoformat(),
            "cleaned_body": body_of(soup),
        }
        assert {name: article[name] for name in read} == read, article["kind"]


def test_every_structure_to_be_stripped_occurs_in_one_article(site: TestClient) -> None:
    page = BeautifulSoup(page_of(site, of_kind(site, "all_blocks")[0]).text, "lxml")
    body = page.select_one("#dic_area")
    assert body is not None
    assert [selector for selector in STRIPPED.split(", ") if not body.select(selector)] == []
    assert body.find_all(string=lambda text: isinstance(text, Comment))
    text = body.get_text("\n")
    assert "▶" in text
    assert COPYRIGHT_LINE.search(text)
    assert re.search(r"\S+@\S+\.example", text)


def test_special_pages_are_as_unusual_as_their_kind_says(site: TestClient) -> None:
    odd = {
        kind: of_kind(site, kind)[0] for kind in ("cp949", "nfd_title", "long_title", "ore_spans", "no_date")
    }
    cp949 = page_of(site, odd["cp949"])
    assert "charset" not in cp949.headers["content-type"]
    assert b'<meta charset="utf-8">' in cp949.content
    with pytest.raises(UnicodeDecodeError):
        cp949.content.decode("utf-8")
    nfd = text_of(BeautifulSoup(page_of(site, odd["nfd_title"]).text, "lxml"), "#title_area") or ""
    raw = BeautifulSoup(page_of(site, odd["nfd_title"]).text, "lxml").select("#title_area")[0].text
    assert raw != nfd == odd["nfd_title"]["title"]
    assert raw.startswith("\uf90a")
    assert len(odd["long_title"]["title"]) == 5000
    assert re.search(
        r'[가-힣]<span data-type="ore"[^>]*>[가-힣]+</span>[가-힣]', page_of(site, odd["ore_spans"]).text
    )
    assert odd["no_date"]["published_at"] is None
    old = {
        article["published_at"][11:16]: page_of(site, article) for article in of_kind(site, "old_2020_layout")
    }
    assert sorted(old) == ["00:05", "12:22"]
    assert "오전 12:05" in old["00:05"].text
    assert "오후 12:22" in old["12:22"].text
    assert all(b'<meta charset="euc-kr">' in page.content for page in old.values())
    assert [article["sections"] for article in of_kind(site, "two_sections")] == [["FINANCE", "STOCK"]]


def test_what_is_gone_moved_or_unreadable_answers_so(site: TestClient) -> None:
    gone, notice, moved, unreadable = (
        (page_of(site, of_kind(site, kind)[0]), of_kind(site, kind)[0]["expected"])
        for kind in ("gone_404", "gone_notice", "moved_sports", "unreadable")
    )
    assert (gone[0].status_code, gone[1]) == (404, "gone")
    assert (notice[0].status_code, notice[1], "삭제된 기사" in notice[0].text) == (200, "gone", True)
    assert (moved[0].status_code, moved[1]) == (302, "moved")
    assert moved[0].headers["location"].startswith("https://sports.news.naver.com/")
    assert (unreadable[0].status_code, unreadable[1]) == (200, "unreadable")
    notices = "삭제된 기사|노출 중단|페이지를 찾을 수 없습니다|존재하지 않는 기사|서비스 되지 않는"
    for page in (unreadable[0], page_of(site, of_kind(site, "current")[0])):
        assert not re.search(notices, page.text)
    assert not BeautifulSoup(unreadable[0].text, "lxml").select(
        "#dic_area, #newsct_article, #articleBodyContents"
    )


def test_pages_weigh_what_real_pages_weigh(site: TestClient) -> None:
    weights = [len(page_of(site, article).content) for article in of_kind(site, "current")]
    assert min(weights) >= 60_000
    assert max(weights) <= 120_000


def test_an_article_can_be_published_changed_and_deleted(site: TestClient) -> None:
    new = {
        "date": str(NOW.date()),
        "section": "LIVING",
        "title": "새 글",
        "paragraphs": ["첫 문단이다.", "둘째다."],
    }
    ids = site.post("/_control/articles", json=new).json()
    path = f"{ids['oid']}/{ids['aid']}"
    assert listed_on(site, "LIVING", NOW.date())[0] == path
    assert body_of(BeautifulSoup(page_of(site, ids).text, "lxml")) == "첫 문단이다.\n\n둘째다."
    change = {"date": str(NOW.date()), "oid": ids["oid"], "aid": ids["aid"]}
    site.post("/_control/articles", json={**change, "paragraphs": ["고친 문단이다."]})
    assert body_of(BeautifulSoup(page_of(site, ids).text, "lxml")) == "고친 문단이다."
    assert text_of(BeautifulSoup(page_of(site, ids).text, "lxml"), "#title_area") == "새 글"
    site.post("/_control/articles", json={**change, "deleted": True})
    assert path not in listed_on(site, "LIVING", NOW.date())
    assert page_of(site, ids).status_code == 404
    site.post("/_control/reset")
    assert len(manifest(site, NOW.date())["articles"]) == 129


def test_a_fault_meets_the_requests_it_names_and_no_others(site: TestClient) -> None:
    fault = {
        "path": r"sid2=258|section/101/258\?",
        "status": 503,
        "headers": {"Retry-After": "7"},
        "body": "later",
    }
    site.post("/_control/faults", json={**fault, "skip": 1, "times": 2})
    statuses = [site.get(section_path("STOCK")).status_code for _ in range(4)]
    assert statuses == [200, 503, 503, 200]
    assert site.get(section_path("FINANCE")).status_code == 200
    (entry,) = site.get("/_control/faults").json()
    assert (entry["matched"], entry["fired"]) == (4, 2)
    site.post("/_control/faults", json=fault)
    answer = site.get(section_path("STOCK"))
    assert (answer.status_code, answer.text, answer.headers["retry-after"]) == (503, "later", "7")
    site.delete("/_control/faults")
    assert site.get(section_path("STOCK")).status_code == 200


def test_a_page_can_be_padded_redirected_or_a_bomb(site: TestClient) -> None:
    for answer_of in (
        {"pad_to_bytes": 3_000_000},
        {"redirect": "/mnews/article/1"},
        {"gzip_bomb_bytes": 5_000_000},
    ):
        site.post("/_control/faults", json={"path": "breakingnews", "times": 1, **answer_of})
    padded, redirected, bomb = (site.get(section_path("WORLD")) for _ in range(3))
    assert (len(padded.content), "section_latest" in padded.text) == (3_000_000, True)
    assert (redirected.status_code, redirected.headers["location"]) == (302, "/mnews/article/1")
    assert len(bomb.content) == 5_000_000
    assert int(bomb.headers["content-length"]) < 50_000


def test_a_connection_can_be_cut_dropped_or_left_hanging(served: str, state: SiteState) -> None:
    with httpx.Client(base_url=served) as client:
        for answer_of in ({"truncate_bytes": 1000}, {"drop_connection": True}, {"hang": True}):
            client.post("/_control/faults", json={"path": "robots|breaking", "times": 1, **answer_of})
        with pytest.raises(httpx.RemoteProtocolError, match="received 1000 bytes"):
            client.get(section_path("WORLD"))
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            client.get("/robots.txt")
        with pytest.raises(httpx.ReadTimeout):
            client.get("/robots.txt", timeout=0.3)
        assert client.get("/robots.txt").text == "User-agent: *\nAllow: /\n"
    assert [seen["status"] for seen in state.requests_since(0)] == [200, None, None, 200]


def test_a_delay_is_waited_for(served: str) -> None:
    with httpx.Client(base_url=served) as client:
        client.post("/_control/faults", json={"path": "robots", "delay_seconds": 0.2})
        start = time.monotonic()
        assert client.get("/robots.txt").status_code == 200
        assert time.monotonic() - start >= 0.2


def test_the_site_tells_what_it_was_asked(site: TestClient) -> None:
    site.get("/robots.txt", headers={"user-agent": "granary-test"})
    site.get("/article/001/0000000000?from=x")
    site.get("/_control/faults")
    first, second = site.get("/_control/requests").json()
    assert (first["n"], first["method"], first["path"]) == (1, "GET", "/robots.txt")
    assert (first["user_agent"], first["status"]) == ("granary-test", 200)
    assert (second["path"], second["status"]) == ("/article/001/0000000000?from=x", 404)
    assert first["at_monotonic"] <= second["at_monotonic"]
    assert site.get("/_control/requests?since=1").json() == [second]


def test_robots_txt_says_what_it_is_told(site: TestClient) -> None:
    site.post("/_control/robots", json={"text": "User-agent: *\nDisallow: /\n"})
    assert site.get("/robots.txt").text == "User-agent: *\nDisallow: /\n"
    site.post("/_control/robots", json={"status": 503})
    assert site.get("/robots.txt").status_code == 503
    site.post("/_control/reset")
    assert (site.get("/robots.txt").status_code, site.get("/robots.txt").text) == (
        200,
        "User-agent: *\nAllow: /\n",
    )


@pytest.mark.parametrize(
    ("route", "sent"),
    [
        ("faults", {"path": "("}),
        ("faults", {"path": "x", "statsu": 500}),
        ("clock", {"now": "2026-05-30T10:00:00"}),
        ("articles", {"date": "2026-05-30"}),
        ("articles", {"date": "2026-05-30", "section": "POLITICS"}),
    ],
)
def test_a_control_request_that_makes_no_sense_is_refused(site: TestClient, route: str, sent: Any) -> None:
    assert site.post(f"/_control/{route}", json=sent).status_code == 400


def test_the_module_runs_quietly_on_loopback_until_it_is_stopped() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "local_stack.naver_site", "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        transport = httpx.HTTPTransport(retries=8)
        with httpx.Client(transport=transport, base_url=f"http://127.0.0.1:{port}") as client:
            assert client.get("/robots.txt").status_code == 200
        process.terminate()
        said, _ = process.communicate(timeout=10)
    assert said == b""
