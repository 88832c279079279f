"""What tests do in the UI, page by page. Run by itself, it takes the pictures of `docs/`.

`make demo`, `make dev`, then `python -m tests.end_to_end.ui_pages http://127.0.0.1:3000`.
"""

import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from playwright.sync_api import Page, expect, sync_playwright

from orchestration.partitions import PIPELINES

CHROMIUM = shutil.which("chromium")
SIZE = {"width": 1440, "height": 900}
PATIENCE_MS = 90_000
"""For one thing to appear: the machine of the tests may be busy."""
RUN_PATIENCE_MS = 240_000
"""For a run to end, from its place in the queue."""


@contextmanager
def browser_page() -> Iterator[Page]:
    """A page of Debian's Chromium, which `CHROMIUM` must name."""
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        # Without a sandbox, because root may have none; it looks at our own pages only.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": SIZE["width"], "height": SIZE["height"]})
        page.set_default_timeout(PATIENCE_MS)
        yield page
        browser.close()


def open_graph(page: Page, ui: str) -> None:
    """The graph of all assets, with the status of every group."""
    page.goto(f"{ui}/asset-groups")
    for pipeline in PIPELINES:
        expect(page.get_by_text(pipeline, exact=True).first).to_be_visible()
    expect(page.get_by_text("fetching statuses")).to_have_count(0)


def open_group(page: Page, ui: str, pipeline: str) -> None:
    """The graph of one pipeline's assets, each with its latest event, checks and partitions."""
    page.goto(f"{ui}/locations/granary/asset-groups/{pipeline}")
    hide = page.get_by_text("Hide navigation")
    if hide.is_visible():
        hide.click()
        page.reload()  # the graph fits itself into the page only when it is loaded
    expect(page.get_by_text("Latest event").first).to_be_visible()


def open_partition(page: Page, ui: str, asset: str, key: str) -> None:
    """What the asset's materialisation says of the partition."""
    page.goto(f"{ui}/assets/{asset}?view=partitions&partition={quote(key)}")
    expect(page.get_by_text("items_done", exact=True)).to_be_visible()


def metadata(page: Page) -> dict[str, str]:
    """The metadata table of the page, as it is read."""
    rows = page.get_by_role("row").all()
    cells = [row.get_by_role("cell").all_inner_texts() for row in rows]
    return {found[0].strip(): found[1].strip() for found in cells if len(found) > 1}


def launch_backfill(page: Page, ui: str, asset: str, days: str, sections: Sequence[str]) -> None:
    """Starts it from the asset's page and goes on to the backfill's own. `days` as `[first...last]`."""
    page.goto(f"{ui}/assets/{asset}?view=partitions")
    page.get_by_role("button", name="Materialize").first.click()
    dialog = page.get_by_role("dialog")
    range_of_days = dialog.get_by_role("textbox").first
    range_of_days.fill(days)
    range_of_days.press("Enter")
    dialog.get_by_text("Select a partition or create one").click()
    for section in sections:
        page.get_by_role("menuitem", name=section).click()
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Launch backfill").click()
    said = page.get_by_text(re.compile(r"Created backfill \w+")).first.inner_text()
    page.goto(f"{ui}/runs/b/{said.split()[2]}")


def open_run(page: Page, ui: str, run_id: str) -> None:
    """The run's page, with its events."""
    page.goto(f"{ui}/runs/{run_id}")


def rerun_from_failure(page: Page) -> str:
    """The id of a new run that goes on where this page's failed; the page is that of the new one then."""
    before = page.url
    page.get_by_role("button", name="Re-execute all").locator("xpath=following::button[1]").click()
    page.get_by_role("menuitem", name="From failure").click()
    expect(page).not_to_have_url(before)
    return page.url.rpartition("/")[2].partition("?")[0]


def run_ends_as(page: Page, status: str) -> None:
    """Waits until the run of this page has ended so."""
    expect(page.get_by_text(status, exact=True).first).to_be_visible(timeout=RUN_PATIENCE_MS)


def backfill_succeeds(page: Page) -> None:
    """Waits until the backfill of this page has."""
    column_and_status = page.get_by_text("Succeeded", exact=True)
    expect(column_and_status).to_have_count(2, timeout=RUN_PATIENCE_MS)
    expect(page.get_by_text("100% completed")).to_be_visible()


def main(ui: str, folder: Path) -> None:
    """Saves the pictures of a pipeline's graph and of a partition of the demo's day."""
    with browser_page() as page:
        open_graph(page, ui)
        open_group(page, ui, "economy_news")
        expect(page.get_by_text("Passed").first).to_be_visible()
        page.screenshot(path=folder / "ui.png")
        open_partition(page, ui, "article_summaries", "2026-11-27|FINANCE")
        page.screenshot(path=folder / "ui_asset.png")


if __name__ == "__main__":
    main(sys.argv[1].rstrip("/"), Path(__file__).resolve().parents[2] / "docs")
