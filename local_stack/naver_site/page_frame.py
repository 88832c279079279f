"""What surrounds the content of every page: head, navigation, inline scripts, footer.

Real pages are mostly this: a page of the site weighs 60–120 KB, so that a parser's cost is measured on
something like the real thing. Nothing here is a link or a text that a crawler may take.
"""

from functools import cache
from html import escape

from local_stack.naver_site.articles import SECTIONS

NO_CHARSET = "text/html"
UTF8 = "text/html;charset=UTF-8"

_MENU = ("속보", "정치", "경제", "사회", "생활/문화", "세계", "IT/과학", "사설/칼럼", "신문보기", "랭킹")
_MODULES = 300
_COMPONENTS = 160


def page(title: str, metas: str, body_class: str, content: str, charset: str = "utf-8") -> str:
    """A whole page; `content` and `metas` are HTML, `title` is text. `charset` is what the page claims."""
    return (
        '<!doctype html>\n<html lang="ko" data-useragent="granary-stand-in">\n<head>\n<meta '
        f'charset="{charset}">\n'
        '<meta http-equiv="X-UA-Compatible" content="IE=edge">\n<meta name="referrer" content="always">\n'
        f"{metas}<title>{escape(title)} : 네이버 뉴스 모형</title>\n{_styles()}{_settings_script()}</head>\n"
        f'<body class="{body_class}">\n<div class="end_container">\n{_navigation()}'
        f'<div id="ct_wrap" class="ct_wrap">\n{content}\n</div>\n{_footer()}'
        f"</div>\n{_module_script()}</body>\n</html>\n"
    )


def meta_property(name: str, content: str) -> str:
    return f'<meta property="{name}" content="{escape(content)}">\n'


@cache
def _styles() -> str:
    rules = "".join(
        f".nw_c{n} .inner{n % 7} {{ margin: {n % 13}px {n % 5}px; color: #{n * 4096 % 0xFFFFFF:06x}; }}\n"
        for n in range(_COMPONENTS)
    )
    return f"<style>\n{rules}</style>\n"


@cache
def _settings_script() -> str:
    rows = ",\n".join(
        f'  "_NW_{n:04d}": {{"area": "nw{n % 17}", "nclick": "nw.{n % 29}", "template": "<a '
        f'href=\\"#\\">{n}</a>"}}'
        for n in range(_MODULES)
    )
    return f'<script>\nvar svt = "fixed";\nvar nwSettings = {{\n{rows}\n}};\n</script>\n'


@cache
def _module_script() -> str:
    functions = "\n".join(
        f'  nw.define("module{n}", function (el) {{ if (el && el.dataset.nw === "{n}") {{ '
        f"el.hidden = {n} % 2; }} }});"
        for n in range(_MODULES // 2)
    )
    template = '<ul><li class="sa_item"><a href="/mnews/article/{{oid}}/{{aid}}">{{title}}</a></li></ul>'
    return (
        f"<script>\n(function (nw) {{\n{functions}\n}})(window.nw || {{ define: function () "
        f"{{}} }});\n</script>\n"
        f'<script type="x-tmpl-mustache" class="_TEMPLATE_SOURCE">{template}</script>\n'
    )


@cache
def _navigation() -> str:
    menu = "".join(
        f'<li class="Nlist_item _LNB_ITEM" data-nw="{n}"><a href="#" class="Nitem_link" data-clk="lnb{n}">'
        f'<span class="Nitem_link_menu">{name}</span></a></li>\n'
        for n, name in enumerate(_MENU)
    )
    sections = "".join(
        f'<li class="ct_snb_nav_item"><a href="/breakingnews/section/101/{sid2}" '
        f'class="ct_snb_nav_item_link">{escape(name)}</a></li>\n'
        for sid2, name in SECTIONS.values()
    )
    return (
        '<div class="u_skip"><a href="#ct">본문 바로가기</a></div>\n<header role="banner" '
        'class="as_gnb_mnews">\n'
        f'<div class="header_inner"><ul class="Nlnb_menu_list" role="menu">\n{menu}</ul></div></header>\n'
        f'<div class="ct_snb"><h2 class="ct_snb_h2">경제</h2><ul class="ct_snb_nav">\n{sections}</ul></div>\n'
    )


@cache
def _footer() -> str:
    components = "".join(
        f'<div class="nw_c{n} _COMPONENT" data-nw="{n}" data-persist="nw{n}"><i class="icon '
        f'inner{n % 7}"></i></div>\n'
        for n in range(_COMPONENTS)
    )
    return (
        f'<footer class="footer" role="contentinfo">\n{components}<p>이 페이지는 시험용으로 '
        "지은 글입니다.</p></footer>\n"
    )
