"""The inside of an article's body: its paragraphs, and between them everything that a reader must strip.

Which blocks an article carries is read from its fingerprint; the kind `all_blocks` carries every one.
"""

from html import escape

from local_stack.naver_site.articles import Article, Kind

_BREAKS = ("<br><br>", "<br/><br/>\n", "<br>\n<br>\n\t\t\t")
_SITE = "https://{oid}.press.example"


def body_html(article: Article) -> str:
    """Paragraphs joined by `<br><br>`, with photos, captions, videos, scripts and promotion around them."""
    everything = article.kind is Kind.ALL_BLOCKS
    choice = article.fingerprint
    line_break = _BREAKS[choice[0] % len(_BREAKS)]
    paragraphs = [_paragraph(article, text, n, everything) for n, text in enumerate(article.paragraphs)]
    blocks = [block for n, block in enumerate(_inner_blocks(article)) if everything or choice[1 + n] % 3 == 0]
    # After every paragraph but the last there is room for one block; what is left goes below the text.
    pieces: list[str] = []
    for position, paragraph in enumerate(paragraphs):
        pieces.append(paragraph)
        if position < len(paragraphs) - 1 and blocks:
            pieces.append(blocks.pop(0))
    lead = _leading_blocks(article) if everything or choice[20] % 2 else ""
    text = line_break.join(pieces) + _address_of_the_reporter(article, line_break)
    return lead + text + line_break + "".join(blocks) + _tail(article, line_break)


def _paragraph(article: Article, text: str, position: int, everything: bool) -> str:
    if article.kind is Kind.ORE_SPANS:
        return " ".join(
            _ore_word(word) if n % 4 == 1 else escape(word) for n, word in enumerate(text.split(" "))
        )
    if everything and position == 1:
        # A comment and a script in the middle of a word leave the word whole.
        return (
            f"{escape(text[:5])}<!-- r_start //-->{escape(text[5:11])}<script>var inText = 1;</script>"
            + escape(text[11:])
        )
    return escape(text, quote=bool(article.fingerprint[21] % 2))


def _ore_word(word: str) -> str:
    if len(word) < 3:
        return escape(word)
    return (
        f'{escape(word[0])}<span data-type="ore" data-translation="true">{escape(word[1:-1])}</span>'
        + escape(word[-1])
    )


def _image(article: Article, number: int) -> str:
    source = f"/image/{article.oid}/{article.aid}_{number:03d}.jpg?type=w860"
    return (
        f'<img id="img{number}" data-src="{source}" class="_LAZY_LOADING _LAZY_LOADING_INIT_HIDE" '
        'alt="설명 사진" style="display: none;">'
    )


def _leading_blocks(article: Article) -> str:
    """Summary and first photo; as on the real pages the text follows them without a line break."""
    return (
        '<strong class="media_end_summary">요약으로 걸러야 할 첫 줄<br>요약으로 걸러야 할 둘째 줄</strong>'
        '<span class="end_photo_org"><div class="nbd_im_w _LAZY_LOADING_WRAP">'
        f'<div class="nbd_a _LAZY_LOADING_ERROR_HIDE" id="img_a1">{_image(article, 1)}</div></div>'
        f'<em class="img_desc">걸러야 할 사진 설명. /사진={escape(article.press)}</em></span>'
    )


def _inner_blocks(article: Article) -> list[str]:
    number = article.aid
    return [
        f'<span class="end_photo_org">{_image(article, 2)}<em class="img_desc">걸러야 할 둘째 '
        "사진 설명</em></span>",
        '<em class="img_desc">사진 밖에 남은 걸러야 할 설명</em>',
        f'<table class="nbd_table" align="center"><tbody><tr><td>{_image(article, 3)}</td></tr>'
        "<tr><td>걸러야 할 표 설명 34.5%</td></tr></tbody></table>",
        f'<div class="vod_player_wrap" id="video_area_{number}"><em class="vod_title">걸러야 할 '
        "영상 제목</em>"
        '<button type="button">재생</button></div>',
        f'<div class="_VOD_PLAYER_WRAP" data-vid="{number}"><span>걸러야 할 재생 오류 안내</span></div>',
        '<div class="_VIDEO_AREA_WRAP"><div class="_VIDEO_AREA"><p>걸러야 할 영상 설명</p></div></div>',
        f'<div class="ab_photo photo_center"><div class="image">{_image(article, 4)}</div>'
        "<p>걸러야 할 묶음 사진 설명</p></div>",
        '<script type="text/javascript">var adSlot = "걸러야 할 광고 " + 12.5 + "%";</script>',
        '<style type="text/css">.ad_in_text { content: "걸러야 할 모양"; }</style>',
        "<!-- 걸러야 할 주석 <b>12.3%</b> -->",
    ]


def _address_of_the_reporter(article: Article, line_break: str) -> str:
    """An e-mail address behind the text, on a line of its own or at the end of the last; to be stripped."""
    choice, everything = article.fingerprint, article.kind is Kind.ALL_BLOCKS
    if not article.reporters or not (everything or choice[22] % 2):
        return ""
    return f"{line_break if choice[23] % 2 else ' '}reporter{article.aid[-3:]}@{article.oid}.press.example"


def _tail(article: Article, line_break: str) -> str:
    """What presses put below the text: promotion, related links, copyright; all to be stripped."""
    choice, everything = article.fingerprint, article.kind is Kind.ALL_BLOCKS
    site = _SITE.format(oid=article.oid)
    lines: list[str] = []
    if everything or choice[24] % 3 == 0:
        lines.append(f"▶ {escape(article.press)} 구독하고 시세판 받기")
        lines.append(f'<a href="{site}/subscribe" target="_blank">▶ [{escape(article.press)} 바로가기]</a>')
    if everything or choice[25] % 3 == 0:
        lines.append(
            f'<div class="artical-btm"><a href="{site}">걸러야 할 {escape(article.press)} 주요 뉴스</a></div>'
        )
    if everything or choice[26] % 2:
        press = escape(article.press)
        lines.append(
            (
                f"&lt;저작권자 ⓒ {press}, 무단 전재 및 재배포 금지&gt;",
                f"Copyright ⓒ {press}. All rights reserved. 무단 전재 및 재배포 금지.",
                f"ⓒ {press}, 무단전재 및 재배포 금지",
            )[choice[27] % 3]
        )
    return line_break.join(lines)
