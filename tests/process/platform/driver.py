"""A master that does nothing but run pods, made to be killed: `driver.py FOLDER COUNT COMMAND...`."""

import asyncio
import sys
from pathlib import Path

from elastic_runtime.platform.pods import PodSpec, Role
from elastic_runtime.platform.process import ProcessPlatform, claim


async def main(folder: Path, count: int, command: list[str]) -> None:
    with claim(folder, "j"):
        platform = ProcessPlatform(folder, "j")
        print("begin", flush=True)
        env = {"TEST_RUN_FOLDER": str(folder)}
        specs = [PodSpec(f"pod-{n}", "j", Role.WORKER, n, tuple(command), env) for n in range(count)]
        pods = await asyncio.gather(*map(platform.start, specs))
        print("ready", *(pod.pid for pod in pods), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]))
