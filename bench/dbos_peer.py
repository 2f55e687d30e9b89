"""One process of DBOS's own queue, told over standard input what to repeat: run by an interpreter that has it."""

from __future__ import annotations

import logging
import sys
import uuid


def main(url: str, name: str) -> None:
    """The queue's own calls: enqueue, take one, record its outcome; what a worker adds around them is left out."""
    logging.disable(logging.CRITICAL)
    import dbos

    if name == "racer0":
        dbos.DBOS.migrate(url)
    client = dbos.DBOSClient(system_database_url=url)
    queue = client.register_queue("work", worker_concurrency=1, on_conflict="never_update")
    rows = client._sys_db  # noqa: SLF001 - what its workers call has no public name
    options: dbos.EnqueueOptions = {"queue_name": "work", "workflow_name": "work", "app_version": "one"}
    held: list[tuple[str, str]] = []
    print("ready", flush=True)
    for line in sys.stdin:
        operation, count = line.split()
        if operation == "enqueue":
            held.clear()
        for number in range(int(count)):
            if operation == "enqueue":
                client.enqueue(options, number)
            elif operation == "claim":
                owner = uuid.uuid4().hex
                (taken,), _ = rows.start_queued_workflows(queue, f"{name}-{number}", "one", None, owner_xid=owner)
                held.append((taken, owner))
            elif operation == "done":
                taken, owner = held[number]
                assert rows.update_workflow_outcome(taken, "SUCCESS", output="{}", owner_xid=owner)
        print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
