from prometheus_client.parser import text_string_to_metric_families

from api.metric_families import context_families, news_families
from operations.queue_store import Queue
from resources.exposition import counter_families, exposition


def read(rows: list[tuple[str, dict[str, object], float]]) -> dict[str, tuple[str, dict[str, float]]]:
    """The families by name as a reader of the text sees them: type, and value by sample."""
    text = exposition(counter_families(rows)).decode()
    return {
        family.name: (
            family.type,
            {f"{sample.name}{sorted(sample.labels.items())}": sample.value for sample in family.samples},
        )
        for family in text_string_to_metric_families(text)
    }


def test_a_total_is_a_counter_with_the_labels_of_each_row() -> None:
    rows: list[tuple[str, dict[str, object], float]] = [
        ("calls_total", {"model": "m", "status": "ok"}, 3),
        ("calls_total", {"model": "m"}, 2.5),
        ("calls_total", {}, 1),
    ]
    assert read(rows) == {
        "calls": (
            "counter",
            {
                "calls_total[]": 1,
                "calls_total[('model', 'm')]": 2.5,
                "calls_total[('model', 'm'), ('status', 'ok')]": 3,
            },
        )
    }


def test_a_sum_and_its_count_are_one_summary() -> None:
    rows: list[tuple[str, dict[str, object], float]] = [
        ("seconds_count", {"type": "QUIZ"}, 4),
        ("seconds_sum", {"type": "QUIZ"}, 9.5),
    ]
    samples = {"seconds_count[('type', 'QUIZ')]": 4, "seconds_sum[('type', 'QUIZ')]": 9.5}
    assert read(rows) == {"seconds": ("summary", samples)}


def test_a_name_of_another_form_is_shown_without_a_type() -> None:
    assert read([("oddity", {}, 7)]) == {"oddity": ("unknown", {"oddity[]": 7})}


def test_label_values_of_any_kind_come_through() -> None:
    odd = 'quote " backslash \\ newline \n 한글'
    rows: list[tuple[str, dict[str, object], float]] = [("x_total", {"a": odd, "b": 5, "c": True}, 1e21)]
    assert read(rows)["x"][1] == {f"x_total{[('a', odd), ('b', '5'), ('c', 'True')]}": 1e21}


def test_the_queue_is_a_gauge_by_type_and_status() -> None:
    text = exposition(news_families([("SUMMARY", "PENDING", 12), ("QUIZ_TERM", "FAILED", 1)])).decode()
    assert "# TYPE ai_jobs_queue_size gauge" in text
    assert 'ai_jobs_queue_size{status="PENDING",type="SUMMARY"} 12.0' in text


def test_contexts_are_gauges_and_a_stage_that_is_empty_is_shown_as_zero() -> None:
    queue = Queue("context_tags", {"PENDING": 3}, 12.5)
    text = exposition(context_families(queue, [("keyword", "FAILED", 2)])).decode().splitlines()
    assert "context_requests_waiting 3.0" in text
    assert "context_oldest_waiting_seconds 12.5" in text
    assert 'context_stage_size{stage="keyword",status="FAILED"} 2.0' in text
    assert 'context_stage_size{stage="embedding",status="PENDING"} 0.0' in text
    assert len([line for line in text if line.startswith("context_stage_size{")]) == 6


def test_nothing_counted_yet_is_an_empty_page() -> None:
    assert exposition([]) == b""
