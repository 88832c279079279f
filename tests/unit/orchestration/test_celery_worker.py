"""What a Celery worker says that does not know its broker."""

import importlib
import sys

import pytest

MODULE = "orchestration.run_launchers.celery_worker"


@pytest.mark.parametrize("missing", ["CELERY_BROKER_URL", "CELERY_RESULT_URL"])
@pytest.mark.parametrize(
    "given",
    [
        None,
        " ",
        "canary",
        "6379",
        "http://:canary@broker",
        "redis://",
        "redis://:canary@broker:port/0",
        "redis://:canary#x@broker:6379/0",
        "redis://broker:99999/0",
        "redis://broker/canary",
        "redis://[::1/0",
        "rpc://",
    ],
)
def test_an_address_that_is_none_is_named_and_not_shown(
    monkeypatch: pytest.MonkeyPatch, missing: str, given: str | None
) -> None:
    for name in ("CELERY_BROKER_URL", "CELERY_RESULT_URL"):
        monkeypatch.setenv(name, "redis://broker:6379/0")
    if given is None:
        monkeypatch.delenv(missing)
    else:
        monkeypatch.setenv(missing, given)
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    with pytest.raises(SystemExit) as ended:
        importlib.import_module(MODULE)
    assert str(ended.value).startswith(f"{missing} is ") and "canary" not in str(ended.value)


def test_both_addresses_are_the_apps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", "redis://broker:6379/0")
    monkeypatch.setenv("CELERY_RESULT_URL", "rediss://results:6379/1")
    monkeypatch.delitem(sys.modules, MODULE, raising=False)
    app = importlib.import_module(MODULE).app
    assert (app.conf.broker_url, app.conf.result_backend) == (
        "redis://broker:6379/0",
        "rediss://results:6379/1",
    )
