"""README.md and README.ko.md say the same, and what the documents link to and name exists."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENGLISH, KOREAN = ROOT / "README.md", ROOT / "README.ko.md"
RUNBOOK = ROOT / "docs" / "runbook.md"
SITUATIONS = [
    "The quota is spent",
    "The key was revoked",
    "The site changed its layout",
    "A batch is stuck",
    "The backlog grows",
    "The disk is full",
    "A wrong prompt was shipped",
    "The database was restored from a backup",
    "A day has to be done again",
    "Somebody asks to be erased",
]

_FENCED = re.compile(r"^```[a-z]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_TARGET = re.compile(r"`(make [a-z]+)|^(make [a-z]+)", re.MULTILINE)
_SETTING = re.compile(r"\b[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+\b")
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def command_lines(text: str) -> set[str]:
    """The lines of fenced blocks, without what is said of them behind a `#`."""
    lines = (line.split("  #")[0].strip() for block in _FENCED.findall(text) for line in block.splitlines())
    return {line for line in lines if line}


def make_targets(text: str) -> set[str]:
    """What is written as a command, or begins a line; prose makes things too."""
    return {name for found in _TARGET.findall(text) for name in found if name}


def links(text: str) -> set[str]:
    return {target for target in _LINK.findall(text) if not target.startswith("README")}


@pytest.mark.parametrize(
    "told",
    [command_lines, make_targets, lambda text: set(_SETTING.findall(text)), links],
    ids=["commands", "make targets", "settings", "links"],
)
def test_the_korean_readme_names_all_that_the_english_one_names(told) -> None:  # type: ignore[no-untyped-def]
    english, korean = told(ENGLISH.read_text("utf-8")), told(KOREAN.read_text("utf-8"))
    assert english
    assert english == korean


def test_each_readme_leads_to_the_other_at_its_top() -> None:
    assert "(README.ko.md)" in "".join(ENGLISH.read_text("utf-8").splitlines()[:4])
    assert "(README.md)" in "".join(KOREAN.read_text("utf-8").splitlines()[:4])


def test_both_readmes_have_the_same_parts() -> None:
    parts = [
        re.findall(r"^#+ |^\|---|^\d\. ", path.read_text("utf-8"), re.MULTILINE) for path in (ENGLISH, KOREAN)
    ]
    assert parts[0] == parts[1]


@pytest.mark.parametrize("document", [ENGLISH, KOREAN, RUNBOOK], ids=lambda path: path.name)
def test_every_relative_link_leads_somewhere(document: Path) -> None:
    targets = [target for target in _LINK.findall(document.read_text("utf-8")) if "://" not in target]
    assert targets
    for target in targets:
        file, _, anchor = target.partition("#")
        path = document.parent / file if file else document
        assert path.exists(), target
        if anchor:
            assert anchor in headings_as_anchors(path), target


def headings_as_anchors(path: Path) -> set[str]:
    """As GitHub makes them."""
    found = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        (ENGLISH, ("UI has no login of its own", "listens on loopback only", "a proxy with a login")),
        (KOREAN, ("UI에는 로그인이 없습니다", "루프백에서만 듣습니다", "로그인이 있는 프록시")),
    ],
    ids=["README.md", "README.ko.md"],
)
def test_the_readme_says_how_strangers_are_kept_from_the_ui(document: Path, told: tuple[str, ...]) -> None:
    text = " ".join(document.read_text("utf-8").split())
    assert [phrase for phrase in (*told, "`dagster-webserver --read-only`") if phrase not in text] == []


@pytest.mark.parametrize("document", [ENGLISH, KOREAN], ids=lambda path: path.name)
def test_the_readme_names_whatever_leaves_the_machines_and_how_it_is_kept_at_home(document: Path) -> None:
    """A row for each place of `test_ways_out.GOES_TO` outside our own services, its setting in it."""
    rows = [line for line in document.read_text("utf-8").splitlines() if line.startswith("|")]
    for setting in ("OPENAI_BASE_URL", "RECIPE_API_BASE_URL", "PUSHGATEWAY_URL", "ALERT_URLS"):
        (row,) = [line for line in rows if f"`{setting}`" in line.split("|")[1]]
        assert row.count("|") == 4 and all(cell.strip() for cell in row.split("|")[1:4])
    for setting in ("NAVER_BASE_URL", "FETCH_METADATA=false", "MODEL_PRICES"):
        assert [line for line in rows if f"`{setting}`" in "".join(line.split("|")[3:])], setting


# What a pipeline sends to the model's provider: that much the English row says of each.
SENT = {
    "economy_news": ("titles and bodies", "summaries"),
    "recipes": ("recipes", "ingredients"),
    "context_tags": ("texts of users", "keywords", "searches for"),
    "recommendations": ("names and texts of products",),
}


def test_the_readme_says_what_of_each_pipeline_goes_to_the_models_provider() -> None:
    (row,) = [
        line for line in ENGLISH.read_text("utf-8").splitlines() if line.startswith("| the AI provider")
    ]
    assert [one for told in SENT.values() for one in told if one not in row] == []
    assert "Batch files are deleted" in row
    asking = {
        path.parent.name
        for path in ROOT.glob("assets/*/*.py")
        if re.search(
            r"^from resources\.(chat|embeddings|batches|paid_embeddings) ", path.read_text("utf-8"), re.M
        )
    }
    assert asking == set(SENT)


def test_the_runbook_has_its_situations_each_with_its_three_parts() -> None:
    parts = re.split(r"^## (.+)$", RUNBOOK.read_text("utf-8"), flags=re.MULTILINE)
    assert parts[1::2] == SITUATIONS
    for text in parts[2::2]:
        assert re.findall(r"^### (.+)$", text, re.MULTILINE) == [
            "How it looks",
            "What to do",
            "How to see that it worked",
        ]


def test_every_heading_of_the_runbook_that_our_messages_name_exists() -> None:
    code = "".join(
        path.read_text("utf-8") for path in (*ROOT.glob("operations/*.py"), *ROOT.glob("sensors/*.py"))
    )
    named = set(re.findall(r"_see\('([^']+)'\)", code)) | set(
        re.findall(r'runbook\.md, "([A-Z][^"]+)"', code)
    )
    assert named
    assert named <= set(SITUATIONS)


def test_the_rules_of_prometheus_that_the_runbook_names_exist() -> None:
    rules = (ROOT / "deploy" / "prometheus" / "alerts.yml").read_text("utf-8")
    named = set(re.findall(r"\bGranary[A-Z]\w+", RUNBOOK.read_text("utf-8")))
    assert named
    assert all(f"alert: {name}\n" in rules for name in named), named
