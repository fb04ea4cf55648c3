"""Pods in virtual time: what decides about pods is tried with ten thousand of them in seconds.

    run(main())          # `main` is any asyncio program; its clock jumps from timer to timer

The state machines of the master are driven by coroutines that sleep in virtual time; see
`tests/benchmarks/simulated_job.py`.
"""

from elastic_runtime.platform.simulated.platform import SimulatedPlatform
from elastic_runtime.platform.simulated.virtual import DeadlockError, run

__all__ = ["DeadlockError", "SimulatedPlatform", "run"]
