"""A server over HTTP, as a service runs it: no standard input, ended by a signal."""

import json
import re
import subprocess
import time
import urllib.error
import urllib.request


class Web:
    """`serve --http` for a bench. With `with`, it ends with its test."""

    def __init__(self, bench, rig=None, *options):
        command = bench.command(rig, "--http", "--port", "0", *options)
        self.log = bench.folder / "http.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log
            )
        end = time.monotonic() + 30
        while not (found := re.search(r"serves MCP at (http://[^/]+)(/\S+),", self.said())):
            assert self.process.poll() is None and time.monotonic() < end, self.said()
            time.sleep(0.02)
        self.root = found[1]
        self.url = found[1] + found[2]

    def said(self):
        return self.log.read_text(errors="replace")

    def get(self, path):
        return self._ask(urllib.request.Request(self.root + path))

    def stop(self, body=b""):
        """A stop without MCP."""
        return self._ask(urllib.request.Request(self.root + "/stop", data=body, method="POST"))

    def _ask(self, request):
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def end(self):
        """Ends it as a supervisor does, and checks that it says nothing on standard output."""
        self.process.terminate()
        try:
            code = self.process.wait(10)
        finally:
            if self.process.poll() is None:
                self.process.kill()
                self.process.wait()
        assert self.process.stdout.read() == b""
        self.process.stdout.close()
        assert code == 0, (code, self.said()[-2000:])

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is None:
            self.end()
        else:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
