"""The step report: a page for people (`render`) and the pod table for pipelines (`pod_table_markdown`)."""

from elastic_runtime.observe.report.markdown import pod_table_markdown
from elastic_runtime.observe.report.page import render
from elastic_runtime.observe.report.tables import Fact

__all__ = ["Fact", "pod_table_markdown", "render"]
