"""A client that begins a move and then sits there until it is killed. Says the server's process id, then "moving"."""

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.raw import Client  # noqa: E402

client = Client(json.loads(sys.argv[1]))
print(client.process.pid, flush=True)
client.homed().to(x=60, y=40)
client.begin_call("move_to", targets={"x": 10}, unit="mm")
print("moving", flush=True)
time.sleep(60)
