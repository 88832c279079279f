"""Article pages in the current layout, and the pages that are shown in place of an article."""

import json
from datetime import datetime
from html import escape

from local_stack.naver_site.articles import CANONICAL_BASE, SEOUL, Article, Kind
from local_stack.naver_site.body_html import body_html
from local_stack.naver_site.page_frame import meta_property, page


def visible_time(moment: datetime) -> str:
    """As Naver prints a time, in Seoul: "2020.09.19. 오후 8:28"; noon is 오후 12, midnight 오전 12."""
    local = moment.astimezone(SEOUL)
    half, hour = ("오후" if local.hour >= 12 else "오전"), local.hour % 12 or 12
    return f"{local:%Y.%m.%d}. {half} {hour}:{local:%M}"


def og_metas(article: Article, base: str, address: str, with_press: bool = True) -> str:
    """The Open Graph tags of an article; a title may be as long as it likes."""
    metas = (
        meta_property("og:title", article.title)
        + meta_property("og:type", "article")
        + meta_property("og:url", address)
        + meta_property("og:description", " ".join(article.paragraphs)[:120])
    )
    if with_press:
        metas += meta_property("og:article:author", f"{article.press} | 네이버")
    if image := article.thumbnail_url(base):
        metas += meta_property("og:image", image)
    return metas


def current_page(article: Article, base: str) -> str:
    """A page of today's layout, with or without what its kind takes away."""
    tag = "article" if article.fingerprint[28] % 2 else "div"
    content = (
        f'{_head(article)}<div id="contents" class="newsct_body">\n'
        '<div id="newsct_article" class="newsct_article _article_body">\n'
        f'<{tag} id="dic_area" class="go_trans _article_content">{body_html(article)}</{tag}>\n</div>\n'
        f"{_byline(article)}{_copyright(article)}</div>"
    )
    return page(article.title, _metas(article, base), "n_news_mnews as_article", content)


def unreadable_page(article: Article, base: str) -> str:
    """A page with a head but neither a body nor a notice that says why."""
    content = f'{_head(article)}<div id="contents" class="newsct_body"><div class="skeleton"></div></div>'
    return page(article.title, _metas(article, base), "n_news_mnews as_article", content)


def notice_page(notice: str) -> str:
    """What is shown in place of an article that is not there."""
    content = (
        '<div class="newsct_error"><div class="error_area"><h2 class="error_title">알려드립니다</h2>'
        f'<p class="error_desc">{escape(notice)}</p><a href="#">이전 화면</a></div></div>'
    )
    return page("알림", "", "n_news_mnews as_error", content)


def _metas(article: Article, base: str) -> str:
    metas = og_metas(article, base, f"{CANONICAL_BASE}/mnews/article/{article.oid}/{article.aid}")
    if article.kind is Kind.DATE_IN_META and article.published_at:
        metas += meta_property("article:published_time", article.published_at.isoformat())
    if article.kind is Kind.DATE_IN_JSON_LD and article.published_at:
        # "<" as an escape: a title must not be able to end the script.
        linked = json.dumps(
            {
                "@context": "https://schema.org",
                "@type": "NewsArticle",
                "headline": article.title,
                "datePublished": article.published_at.isoformat(),
            },
            ensure_ascii=False,
        ).replace("<", "\\u003c")
        metas += f'<script type="application/ld+json">{linked}</script>\n'
    return metas


def _head(article: Article) -> str:
    logo = (
        f'<img data-src="/logo/{article.oid}.png" height="32" alt="{escape(article.press)}" '
        f'title="{escape(article.press)}" class="media_end_head_top_logo_img light_type _LAZY_LOADING">'
    )
    title = (
        ""
        if article.kind is Kind.OG_TITLE_ONLY
        else f'<h2 id="title_area" class="media_end_head_headline"><span>{escape(article.title)}</span></h2>'
    )
    return (
        '<div class="media_end_head go_trans">\n<div class="media_end_head_top _LAZY_LOADING_WRAP">'
        f'<a href="https://{article.oid}.press.example" class="media_end_head_top_logo">{logo}</a></div>\n'
        f'<div class="media_end_head_title">{title}</div>\n<div class="media_end_head_info nv_notrans">\n'
        f'<div class="media_end_head_info_datestamp">{datestamps(article)}'
        f"</div>\n{_journalists(article)}</div>\n</div>\n"
    )


def datestamps(article: Article) -> str:
    """The two time stamps below a title, each only where the article has it there."""
    stamps = ""
    if article.published_at and article.kind not in (Kind.DATE_IN_META, Kind.DATE_IN_JSON_LD):
        stamps += _datestamp("입력", "_ARTICLE_DATE_TIME", "data-date-time", article.published_at)
    if article.modified_at:
        stamps += _datestamp(
            "수정", "_ARTICLE_MODIFY_DATE_TIME", "data-modify-date-time", article.modified_at
        )
    return stamps


def _datestamp(term: str, css_class: str, attribute: str, moment: datetime) -> str:
    return (
        '<div class="media_end_head_info_datestamp_bunch">'
        f'<em class="media_end_head_info_datestamp_term">{term}</em>'
        f'<span class="media_end_head_info_datestamp_time {css_class}" '
        f'{attribute}="{moment.astimezone(SEOUL):%Y-%m-%d %H:%M:%S}">{visible_time(moment)}</span></div>\n'
    )


def _journalists(article: Article) -> str:
    names = "".join(
        f'<a href="https://{article.oid}.press.example/journalist/{n}" class="media_end_head_journalist_box">'
        f'<em class="media_end_head_journalist_name">{escape(name)}</em></a>\n'
        for n, name in enumerate(article.reporters)
    )
    return f'<div class="media_end_head_journalist">{names}</div>\n' if names else ""


def _byline(article: Article) -> str:
    lines = "".join(
        '<p class="byline_p"><span '
        f'class="byline_s">{escape(name)}(reporter{n}@{article.oid}.press.example)</span></p>'
        for n, name in enumerate(article.reporters)
    )
    return f'<div class="byline">{lines}</div>\n' if lines else ""


def _copyright(article: Article) -> str:
    return (
        f'<div class="copyright"><div class="c_inner"><p class="c_text">Copyright ⓒ {escape(article.press)}. '
        "All rights reserved. 무단 전재 및 재배포 금지.</p></div></div>\n"
        '<div class="media_end_categorize">이 기사는 언론사에서 <em '
        'class="media_end_categorize_item">경제</em> '
        "섹션으로 분류했습니다.</div>\n"
    )
