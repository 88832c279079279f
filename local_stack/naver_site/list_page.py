"""List pages of a section and day: the first page, and the fragments that follow it.

On a first page only `div.section_latest` holds the list; headlines, ranking, series and an advertisement
stand outside it with links of the same shape. A fragment has no `.section_latest`.
"""

from collections.abc import Sequence
from datetime import date
from html import escape

from local_stack.naver_site.articles import SECTIONS, SEOUL, Article, Kind
from local_stack.naver_site.page_frame import page

PAGE_SIZE = 36
_TEMPLATE = "SECTION_ARTICLE_LIST_FOR_LATEST"


def page_of(listed: Sequence[Article], cursor: str) -> tuple[list[Article], str]:
    """The articles after the cursor (all if it is empty) that fit a page, and the cursor of the next page."""
    rest = [article for article in listed if not cursor or article.list_key < cursor]
    shown = rest[:PAGE_SIZE]
    return shown, shown[-1].list_key if len(rest) > PAGE_SIZE else ""


def first_page(
    base: str, section: str, day: date, listed: Sequence[Article], aside: Sequence[Article]
) -> str:
    """The whole page; `aside` are the eleven articles in no list that its other blocks show.

    As on the real site one headline is in the list too.
    """
    _, name = SECTIONS[section]
    content = (
        '<div class="ct_scroll_wrapper"><div id="newsct" class="newsct_wrapper" role="main">\n'
        f"{_headlines(base, [*aside[:4], *listed[:1]])}{_ranking(aside)}"
        f"{_series(aside)}{_advertisement(aside)}"
        '<div class="section_latest">\n'
        '<div class="section_component as_section_article_list _PERSIST_CONTENT" '
        'data-persist="SECTION_ARTICLE_LIST">\n'
        f"{_content_list(f'{base}/mnews', base, section, day, listed, '', 1)}"
        '<div class="section_more"><a href="#" class="section_more_inner _CONTENT_LIST_LOAD_MORE_BUTTON" '
        'data-persistable="false">기사 더보기</a></div>\n</div>\n</div>\n'
        '<div id="frontDetect" class="check_visible"></div></div></div>'
    )
    return page(f"{name} 속보", "", "n_news_mnews as_section_home", content)


def fragment(
    section: str, day: date, listed: Sequence[Article], cursor: str, page_number: int
) -> dict[str, object]:
    """The JSON of a "more" request; only the cursor decides what it shows."""
    html = _content_list("", "", section, day, listed, cursor, page_number)
    return {"renderedComponent": {_TEMPLATE: html}}


def _content_list(
    prefix: str, base: str, section: str, day: date, listed: Sequence[Article], cursor: str, page_number: int
) -> str:
    shown, next_cursor = page_of(listed, cursor)
    groups = [shown[start : start + 6] for start in range(0, len(shown), 6)]
    items = "".join(
        f'<div class="section_article _TEMPLATE" data-template-id="{_TEMPLATE}"><ul class="sa_list">\n'
        + "".join(_item(prefix, base, article, group_no * 6 + n + 1) for n, article in enumerate(group))
        + "</ul></div>\n"
        for group_no, group in enumerate(groups)
    )
    return (
        '<div class="section_latest_article _CONTENT_LIST _PERSIST_META" data-sid="101" '
        f'data-sid2="{SECTIONS[section][0]}" data-cluid="" '
        f'data-has-next="{"true" if next_cursor else "false"}" '
        f'data-cursor-name="next" data-cursor="{next_cursor}" data-page-no="{page_number}" '
        f'data-date="{day:%Y%m%d}" data-template="{_TEMPLATE}" data-nclk="airscont" '
        f'data-persist="SECTION_ARTICLE_LIST_META" data-persist-meta-restore="true">\n{items}</div>\n'
    )


def _address(prefix: str, base: str, article: Article) -> str:
    # The old layouts are still linked in their own ways, absolute on first pages and relative in fragments.
    if article.kind is Kind.OLD_END_LAYOUT:
        return f"{base}/main/news_read.naver?article_id={article.aid}&office_id={article.oid}"
    if article.kind is Kind.OLD_2020_LAYOUT:
        return f"{base}/main/read.naver?mode=LSD&mid=sec&sid1=101&oid={article.oid}&aid={article.aid}"
    return f"{prefix}/article/{article.oid}/{article.aid}"


def _item(prefix: str, base: str, article: Article, rank: int) -> str:
    address = escape(_address(prefix, base, article))
    attributes = (
        f'data-clk="airscont" data-extra="{{&quot;airs&quot;:{{&quot;session_id&quot;:&quot;'
        f'{article.fingerprint.hex()[:20]}&quot;}}}}" data-rank="{rank}" '
        f'data-gdid="88{article.oid}_{article.aid.zfill(30)}" data-imp-url="{address}"'
    )
    thumbnail = (
        '<div class="sa_thumb _LAZY_LOADING_ERROR_HIDE"><div class="sa_thumb_inner">'
        f'<a href="{address}" class="sa_thumb_link _NLOG_IMPRESSION" tabindex="-1" '
        f'aria-hidden="true" {attributes}>'
        f'<img data-src="{escape(article.thumbnail_url(base) or "")}" class="_LAZY_LOADING '
        '_LAZY_LOADING_INIT_HIDE" '
        'width="110" height="75" alt="" style="display: none;"></a></div></div>\n'
        if article.has_thumbnail
        else ""
    )
    lede = " ".join(article.paragraphs)[:120]
    return (
        '<li class="sa_item _LAZY_LOADING_WRAP"><div class="sa_item_inner"><div class="sa_item_flex">\n'
        f'{thumbnail}<div class="sa_text"><a href="{address}" class="sa_text_title '
        f'_NLOG_IMPRESSION" {attributes}>'
        f'<strong class="sa_text_strong">{escape(article.title)}</strong></a>\n'
        f'<div class="sa_text_lede">{escape(lede)}</div>\n<div class="sa_text_info"><div '
        'class="sa_text_info_left">'
        f'<div class="sa_text_press">{escape(article.press)}</div><div class="sa_text_datetime is_recent">'
        f"<b>{article.listed_at.astimezone(SEOUL):%H:%M}</b></div></div>"
        f'<div class="sa_text_info_right"><a href="{prefix}/article/comment/{article.oid}/{article.aid}" '
        f'class="sa_text_cmt _COMMENT_COUNT_LIST" data-object-id="news{article.oid},{article.aid}">댓글</a>'
        f"{_cluster_link(article)}</div></div></div></div></div></li>\n"
    )


def _cluster_link(article: Article) -> str:
    if article.duplicate_group is None:
        return ""
    return (
        f'<a href="/cluster/c_{article.duplicate_group}/section/101?oid={article.oid}&amp;aid={article.aid}" '
        'class="sa_text_cluster">관련뉴스 3</a>'
    )


def _headlines(base: str, shown: Sequence[Article]) -> str:
    items = "".join(
        '<li class="sa_item _SECTION_HEADLINE"><div class="sa_item_inner"><div class="sa_text">'
        f'<a href="{base}/mnews/article/{article.oid}/{article.aid}" class="sa_text_title _NLOG_IMPRESSION">'
        f'<strong class="sa_text_strong">{escape(article.title[:120])}</strong></a></div></div></li>\n'
        for article in shown
    )
    return (
        '<div class="section_component as_section_headline _PERSIST_CONTENT" '
        'data-persist="2_sectionHeadline">'
        f'<div class="section_article as_headline _TEMPLATE"><ul class="sa_list">\n{items}</ul></div></div>\n'
    )


def _ranking(aside: Sequence[Article]) -> str:
    items = "".join(
        f'<li class="ra_item"><a href="/ranking/article/{article.oid}/{article.aid}">{n + 1}위</a>'
        f'<a href="/article/{article.oid}/{article.aid}?ntype=RANKING" '
        f'class="ra_title">{escape(article.title[:60])}</a></li>\n'
        for n, article in enumerate(aside[4:8])
    )
    return f'<div class="section_component as_section_ranking"><ol class="ra_list">\n{items}</ol></div>\n'


def _series(aside: Sequence[Article]) -> str:
    items = "".join(
        f'<li class="series_item"><a href="/hotissue/article/{article.oid}/{article.aid}">기획</a>'
        f'<a href="/mnews/article/{article.oid}/{article.aid}?type=series">'
        f"{escape(article.title[:60])}</a></li>\n"
        for article in aside[8:10]
    )
    return (
        '<div class="section_component as_section_series"><ul class="section_series '
        f'_TEMPLATE">\n{items}</ul></div>\n'
    )


def _advertisement(aside: Sequence[Article]) -> str:
    target = aside[10]
    return (
        '<div class="r_group_comp ad_box _da_banner"><div class="ad_area _AD_WRAP" '
        'data-unitid="p_news_newslist">'
        f'<a href="/article/{target.oid}/{target.aid}?from=ad">광고</a></div></div>\n'
    )
