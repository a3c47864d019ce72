"""Two programs of Ray that import all of Ray only to do little, in the few lines that tests need (`kit.clusters`).

One sets the variables of a task and becomes the worker. The other, an agent of the dashboard that nobody looks at, says
that it has no ports, and lives as long as its node: the node would end with it.
"""

import json
import os
import sys
import time
from pathlib import Path

PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port")


def value(option: str) -> str:
    """What the command line gives for an option, or nothing."""
    return next((word.partition("=")[2] for word in sys.argv if word.startswith(f"{option}=")), "")


if sys.argv[1].endswith("default_worker.py"):
    context = json.loads(value("--serialized-runtime-env-context") or "{}")
    os.environ.update(context.get("env_vars") or {})
    ray_options = ("--serialized-runtime-env-context=", "--language=")
    os.execv(sys.executable, [sys.executable, *(word for word in sys.argv[1:] if not word.startswith(ray_options))])

node = os.getppid()
for port in PORTS:
    place = Path(value("--session-dir")) / f"{port}_{os.environ['RAY_NODE_ID']}"
    # The node reads it as soon as it is there.
    whole = place.with_name(f"{place.name}.begun")
    whole.write_text("-1")
    whole.rename(place)
while os.getppid() == node:
    time.sleep(0.2)
