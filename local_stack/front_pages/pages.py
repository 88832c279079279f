"""The front page of a site as HTML. Sites differ in what their heads say and in how tidily they say it."""

from html import escape

from local_stack.front_pages.sites import Site

_PARAGRAPHS = 120


def front_page(site: Site, charset: str | None = "utf-8") -> str:
    """A whole page. `charset` is what its meta claims; without one it claims nothing."""
    head = "\n".join(_head(site, charset))
    language = {"ko": "ko", "en": "en-GB", "ja": "ja_JP"}[site.language]
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n{head}\n</head>\n<body>\n'
        f"<h1>{escape(site.title)}</h1>\n{_body(site)}\n</body>\n</html>\n"
    )


def page_without_head(site: Site) -> str:
    """A page as someone may write it by hand: a title and a text, and no other element around them."""
    return f"<title>{escape(site.title)}</title>\n<p>{escape(site.description)}\n<p>{escape(site.title)}"


def _head(site: Site, charset: str | None) -> list[str]:
    title, description = escape(site.title), escape(site.description)
    host, variant = site.host, site.number % 4
    lines = [f'<meta charset="{charset}">'] if charset else []
    if variant == 1:
        lines.append(f"<title>\n    {title}\n    -\t{description}\n</title>")
    else:
        lines.append(f"<title>{title}</title>")
    if variant != 3:
        lines.append(f'<meta name="description" content="{description}">')
    if variant in (0, 1):
        lines += [
            f'<link rel="canonical" href="http://{host}/">',
            f'<meta property="og:title" content="{title}">',
            '<meta property="og:type" content="website">',
            '<meta property="og:image" content="/images/cover.png">',
        ]
    if variant in (0, 2):
        lines += [
            '<link rel="shortcut icon" href="/favicon.ico">',
            f'<link rel="alternate" type="application/rss+xml" title="{title}" href="/feed.xml">',
        ]
    if variant == 2:
        # Shouted and unquoted, as older tools write.
        lines += [
            "<LINK REL=alternate TYPE=application/atom+xml HREF=feeds/atom.xml>",
            f"<META NAME=Keywords CONTENT='{title}'>",
        ]
    return lines


def _body(site: Site) -> str:
    menu = "".join(f'<li><a href="/section/{n}">{n}</a></li>' for n in range(1, 9))
    text = f"<p>{escape(site.description)}</p>\n" * _PARAGRAPHS
    return f"<ul>{menu}</ul>\n<main>\n{text}</main>"
