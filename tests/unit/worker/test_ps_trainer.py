"""What a worker makes of what its parameter servers will not do."""

from types import SimpleNamespace

import numpy as np
import pytest

from elastic_runtime.ps.client import PSRefused, PSUnavailable, Reason
from elastic_runtime.worker.trainers.base import SnapshotLost

pytestmark = pytest.mark.tensorflow


@pytest.mark.parametrize(
    ("reason", "told"), [(Reason.NO_SNAPSHOT, SnapshotLost), (Reason.ERA, PSUnavailable)]
)
def test_a_snapshot_that_no_server_keeps_is_lost_and_one_of_another_era_is_waited_for(
    module_of, reason, told
):
    from elastic_runtime.worker.trainers.ps import PSTrainer

    def pull(weights, state, *, snapshot):
        raise PSRefused(f"no snapshot of version {snapshot} is kept", reason=reason)

    trainer = PSTrainer(
        module_of(lambda: None), worker="w", incarnation="i", token="", use_async=False, pull_every=1, seed=0
    )
    trainer._client = SimpleNamespace(pull=pull)
    trainer._weights = trainer._state = np.zeros(1, np.float32)
    with pytest.raises(told, match="no snapshot of version 50 is kept"), trainer.evaluating(50):
        pass
