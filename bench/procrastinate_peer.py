"""One process of procrastinate, told over standard input what to repeat: run by an interpreter that has it, not by ours."""

from __future__ import annotations

import asyncio
import logging
import sys


async def main(url: str, name: str) -> None:
    """The queue's own calls: defer, fetch_job, finish_job; what a worker adds around them is left out."""
    logging.disable(logging.CRITICAL)
    import procrastinate  # type: ignore[import-not-found,unused-ignore]
    from procrastinate.jobs import Status  # type: ignore[import-not-found,unused-ignore]

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url, min_size=1, max_size=1))
    async with app.open_async():
        if name == "racer0":
            await app.schema_manager.apply_schema_async()
        manager = app.job_manager
        worker = await manager.register_worker()
        held = []
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            operation, count = line.split()
            if operation == "enqueue":
                held.clear()
            for number in range(int(count)):
                if operation == "enqueue":
                    await app.configure_task("work").defer_async(number=number)
                elif operation == "claim":
                    held.append(await manager.fetch_job(queues=None, worker_id=worker))
                elif operation == "heartbeat":
                    await manager.update_heartbeat(worker_id=worker)
                else:
                    await manager.finish_job(held[number], status=Status.SUCCEEDED, delete_job=False)
            print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
