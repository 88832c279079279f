"""Article pages in the two layouts that came before the current one and that archives still show."""

from html import escape

from local_stack.naver_site.article_page import datestamps, og_metas, visible_time
from local_stack.naver_site.articles import Article
from local_stack.naver_site.body_html import body_html
from local_stack.naver_site.page_frame import page


def old_end_page(article: Article, base: str) -> str:
    """Title without an id, body straight in `#newsct_article`, press by its logo, reporters by line only."""
    reporters = "".join(f'<span class="byline_s">{escape(name)}</span>' for name in article.reporters)
    content = (
        '<div class="media_end_head"><a href="#" class="media_end_head_top_logo"><img '
        f'src="/logo/{article.oid}.png" '
        f'alt="{escape(article.press)}" class="media_end_head_top_logo_img"></a>\n'
        f'<h3 class="media_end_head_headline">{escape(article.title)}</h3>\n{datestamps(article)}</div>\n'
        '<div class="newsct_body"><div id="newsct_article" '
        f'class="newsct_article">{body_html(article)}</div>\n'
        f'<div class="byline"><p class="byline_p">{reporters}</p></div></div>'
    )
    address = f"https://n.news.naver.com/article/{article.oid}/{article.aid}"
    return page(article.title, og_metas(article, base, address, with_press=False), "n_news as_end", content)


def old_2020_page(article: Article, base: str) -> str:
    """The layout of 2020: times only as visible text, and a `meta charset` that is wrong."""
    time = f'<span class="t11">{visible_time(article.published_at)}</span>' if article.published_at else ""
    content = (
        '<div id="main_content" class="content">\n<div class="article_header"><div '
        'class="press_logo"><a href="#">'
        f'<img src="/logo/{article.oid}.png" height="35" alt="{escape(article.press)}"></a></div>\n'
        f'<div class="article_info"><h3 id="articleTitle">{escape(article.title)}</h3>\n'
        f'<div class="sponsor"><!-- 입력 -->기사입력 {time}<!-- //입력 --> <a href="#">기사원문'
        "</a></div></div></div>\n"
        '<div class="article_body size3 font1" id="articleBody">\n'
        '<div id="articleBodyContents" class="_article_body_contents">\n<!-- 본문 내용 -->\n'
        '<script type="text/javascript">\n// flash\nfunction _flash_removeCallback() {}\n</script>\n'
        f"{body_html(article)}\n<!-- // 본문 내용 -->\n</div></div></div>"
    )
    address = (
        f"https://news.naver.com/main/read.nhn?mode=LSD&mid=sec&oid={article.oid}&aid={article.aid}&sid1=101"
    )
    return page(article.title, og_metas(article, base, address), "n_news as_2020", content, charset="euc-kr")
