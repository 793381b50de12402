"""A client that uses no library: lines over pipes, each answer read by a strict JSON parser."""

import json
import os
import queue
import subprocess
import threading
import time

import jsonschema

from support.bench import Bench

LEGACY = "2025-11-25"
MODERN = "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
}


def no_constant(name):
    raise ValueError(f"{name} is not JSON")


def strict(line):
    """Parses JSON that has no NaN, no Infinity and no key twice."""

    def once(pairs):
        keys = [k for k, _ in pairs]
        assert len(keys) == len(set(keys)), f"a key twice: {keys}"
        return dict(pairs)

    return json.loads(line, parse_constant=no_constant, object_pairs_hook=once)


class Client:
    """A server's process and its pipes. Everything that it wrote stays in `messages` (parsed) and `lines` (bytes)."""

    running = []

    def __init__(self, command, env=None, hello=True, capabilities=None, modern=False):
        self.modern = modern
        self.lines, self.messages, self.bad, self.called = [], [], [], {}
        self.arrived = threading.Condition()
        self.stderr = queue.SimpleQueue()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, **(env or {})},
        )
        Client.running.append(self)
        self.readers = [threading.Thread(target=f, daemon=True) for f in (self._read, self._read_errors)]
        for reader in self.readers:
            reader.start()
        self.last = 0
        self.ended = False
        if hello and not modern:
            self.hello = self.ask(
                "initialize",
                protocolVersion=LEGACY,
                capabilities=capabilities or {},
                clientInfo={"name": "raw", "version": "1"},
            )["result"]
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _read(self):
        for line in self.process.stdout:
            with self.arrived:
                self.lines.append(line)
                try:
                    self.messages.append(strict(line))
                except (ValueError, AssertionError) as problem:
                    self.bad.append((line[:200], problem))
                self.arrived.notify_all()
        with self.arrived:
            self.ended = True
            self.arrived.notify_all()

    def _read_errors(self):
        for line in self.process.stderr:
            self.stderr.put(line)

    def errors(self):
        """What came on standard error so far."""
        found = []
        while not self.stderr.empty():
            found.append(self.stderr.get())
        return b"".join(found)

    def write(self, data):
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, message):
        self.write(json.dumps(message).encode() + b"\n")

    def wait_for(self, holds, seconds=30.0):
        """The first message that satisfies, of those that came and those that will; None if none does."""
        end = time.monotonic() + seconds
        seen = 0
        with self.arrived:
            while True:
                for message in self.messages[seen:]:
                    if holds(message):
                        return message
                seen = len(self.messages)
                left = end - time.monotonic()
                if left <= 0 or self.ended:
                    return None
                self.arrived.wait(left)

    def answer(self, id, seconds=30.0):
        """The answer to the request with that id, of that type."""

        def holds(m):
            return "method" not in m and type(m.get("id")) is type(id) and m["id"] == id

        found = self.wait_for(holds, seconds)
        assert found is not None, f"no answer to {id!r} within {seconds} s: {self.errors()[-2000:]!r}"
        return found

    def refusals(self, first, expected):
        """Waits for as many error answers since the message `first` as are expected, and for one too many."""
        self.wait_for(lambda _: len(self._refusals(first)) >= len(expected), 5)
        assert self.call("whoami")["status"] == "ok"
        assert self._refusals(first) == expected

    def _refusals(self, first):
        return [(m["id"], m["error"]["code"]) for m in self.messages[first:] if "error" in m]

    def begin(self, method, id=None, **params):
        """Sends a request and returns its id."""
        if id is None:
            self.last += 1
            id = self.last
        if self.modern:
            params["_meta"] = {**META, **params.get("_meta", {})}
        if method == "tools/call":
            self.called[id] = params.get("name")
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        return id

    def ask(self, method, **params):
        return self.answer(self.begin(method, **params))

    def begin_call(self, tool, /, **arguments):
        return self.begin("tools/call", name=tool, arguments=arguments)

    def call(self, tool, /, **arguments):
        """The result of a tool that succeeds."""
        result = self.result(tool, **arguments)
        assert not result["isError"], result["content"][0]["text"]
        return result["structuredContent"]

    def refused(self, tool, /, **arguments):
        """The text of a tool's error, and the facts beside it."""
        result = self.result(tool, **arguments)
        assert result["isError"], result
        return result["content"][0]["text"], result["structuredContent"]

    def result(self, tool, /, **arguments):
        answer = self.ask("tools/call", name=tool, arguments=arguments)
        assert "result" in answer, answer
        return answer["result"]

    def tools(self):
        return self.ask("tools/list")["result"]["tools"]

    def epoch(self):
        return self.call("get_state")["stages"][0]["state_epoch"]

    def ready(self, seconds=10.0):
        """Waits until stage and camera are connected."""
        end = time.monotonic() + seconds
        while True:
            devices = self.call("diagnose")["devices"]
            state = self.call("get_state")
            if all(d["open"] and d["identity"] for d in devices) and all(s["activity"] != "offline" for s in state["stages"]):
                if all(c["ready"] for c in state["cameras"]):
                    return self
            assert time.monotonic() < end, devices
            time.sleep(0.02)

    def homed(self):
        """Ready, released and referenced."""
        self.ready()
        stage = self.call("get_state")["stages"][0]
        if stage.get("stopped_by") or stage.get("fault"):
            self.call("clear_fault", device="scope")
        if any(a["trust"] != "referenced" for a in stage["axes"].values()):
            assert self.call("home", wait_s=60)["status"] == "ok"
        return self

    def to(self, **targets):
        """Moves to a place, in mm, and is there."""
        assert self.call("move_to", targets=targets, unit="mm", wait_s=60)["status"] == "ok"
        return self

    def end(self, seconds=5.0):
        """Closes the input and returns the exit code."""
        if not self.process.stdin.closed:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        try:
            code = self.process.wait(seconds)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        for reader in self.readers:
            reader.join(5)
        Client.running.remove(self)
        return code

    def pure(self):
        """Every line on standard output was one message of JSON-RPC."""
        assert not self.bad, self.bad[:3]
        for message in self.messages:
            assert message["jsonrpc"] == "2.0", message
            kinds = [k for k in ("result", "error", "method") if k in message]
            assert len(kinds) == 1, message
        self.fits()

    def fits(self):
        """Every structured answer, errors included, is what the tool's output schema says: some clients check both."""
        lists = [m["result"]["tools"] for m in self.messages if "tools" in m.get("result", {})]
        if not lists:
            return
        schemas = {t["name"]: jsonschema.Draft202012Validator(t["outputSchema"]) for t in lists[0]}
        for message in self.messages:
            content = message.get("result", {}).get("structuredContent")
            tool = self.called.get(message.get("id"))
            if content is not None and tool in schemas:
                problems = [e.message[:200] for e in schemas[tool].iter_errors(content)]
                assert not problems, (tool, problems, str(content)[:500])


class Shared:
    """The server that tests share as long as none wants one of its own: a port has one owner."""

    client = None

    @classmethod
    def homed(cls, bench):
        if cls.client is None or cls.client.process.poll() is not None:
            cls.client = Client(bench.command())
            cls.client.tools()
        return cls.client.homed()

    @classmethod
    def end(cls):
        client, cls.client = cls.client, None
        if client is not None:
            assert client.end() == 0, client.errors()[-2000:]
            client.pure()


def serve(bench: Bench, rig=None, options=(), data="data", **more):
    """A client of the bench's rig, with a server of its own."""
    Shared.end()
    return Client(bench.command(rig, *options, data=data), **more)
