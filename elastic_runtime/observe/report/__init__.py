"""What people are shown: a job's page (`render`), pages like it (`document`), the pod table of pipelines."""

from elastic_runtime.observe.report.markdown import pod_table_markdown
from elastic_runtime.observe.report.page import document, render
from elastic_runtime.observe.report.tables import Fact

__all__ = ["Fact", "document", "pod_table_markdown", "render"]
