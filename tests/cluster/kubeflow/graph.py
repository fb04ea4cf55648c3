"""What KFP's page draws the graph of a run from: the states of its tasks in the metadata store.

There KFP's driver and launcher write how a task gets on. The server, which tells how the run gets on, knows
nothing of it, and neither does Argo: where the launcher is ended before it can write, a state stays.
"""

from __future__ import annotations

from tests.cluster.kit import kfp

CACHED, COMPLETE, FAILED, RUNNING = "CACHED", "COMPLETE", "FAILED", "RUNNING"
_NAMES = ("UNKNOWN", "NEW", RUNNING, COMPLETE, FAILED, CACHED, "CANCELED")  # by the store's own numbers
_STATES = """
    SELECT e.last_known_state FROM Execution e JOIN Association a ON a.execution_id = e.id
    JOIN Context c ON c.id = a.context_id JOIN ExecutionProperty p ON p.execution_id = e.id
    WHERE c.name = ? AND p.name = 'display_name' AND p.string_value = ? ORDER BY e.id
"""


def states(pipelines: kfp.Kfp, run: str, task: str) -> list[str]:
    """What the graph shows of a task, by its name in the pipeline, for each time that it is in the run."""
    with pipelines.metadata() as known:
        return [_NAMES[state or 0] for (state,) in known.execute(_STATES, (run, task))]
