from __future__ import annotations

import threading
import urllib.request

import pytest
from made_up_runs import mnist, not_a_number
from prometheus_client.parser import text_string_to_metric_families

from elastic_runtime.errors import ElasticError
from elastic_runtime.observe.metrics import Metrics, MetricsPage


def scrape(port: int) -> dict[tuple[str, ...], float]:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_page_tells_the_figures_of_the_job() -> None:
    metrics = Metrics()
    for event in mnist():
        metrics.observe(event)
    metrics.lease_ended(0.25)
    with MetricsPage(metrics, port=0) as page:
        figures = scrape(page.port)
    assert figures["elasticdl_job", "mnist", "ParameterServerStrategy"] == 1
    assert figures["elasticdl_records_done_total",] == 12_000
    assert figures["elasticdl_records_retrained_total",] == 704
    assert figures["elasticdl_relaunches_total", "preempted", "worker"] == 1
    assert figures["elasticdl_evaluation_metric", "accuracy"] == pytest.approx(0.972, abs=0.01)
    assert figures["elasticdl_lease_seconds_count",] == 1
    assert figures["elasticdl_checkpoint_seconds_count",] == 4
    assert figures["elasticdl_job_succeeded",] == 1


def test_loss_that_is_no_number_is_served_as_such() -> None:
    metrics = Metrics()
    for event in not_a_number():
        metrics.observe(event)
    with MetricsPage(metrics, port=0) as page:
        assert str(scrape(page.port)["elasticdl_loss",]) == "nan"


def test_taken_port_is_named_with_a_remedy() -> None:
    with MetricsPage(Metrics(), port=0) as page, pytest.raises(ElasticError, match=f"{page.port}.*in use"):
        MetricsPage(Metrics(), port=page.port)


def test_port_that_cannot_be_is_the_users_error() -> None:
    with pytest.raises(ElasticError, match="99999"):
        MetricsPage(Metrics(), port=99999)


def test_closed_page_leaves_no_thread() -> None:
    before = {*threading.enumerate()}
    with MetricsPage(Metrics(), port=0):
        assert {*threading.enumerate()} - before
    assert {*threading.enumerate()} <= before, "one of another test may have ended meanwhile"
