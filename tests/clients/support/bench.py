"""A simulated bench in a process of its own, the rig file that fits it, and what is really true at it."""

import json
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

BIN = Path(os.environ.get("STEADYHAND_BIN", "target/debug")).absolute()
REPOSITORY = Path(__file__).resolve().parents[3]
PROGRAM = str(BIN / "steadyhand")
# Grbl's real-time bytes that end motion: feed hold, soft reset, jog cancel.
STOP_BYTES = {0x21, 0x18, 0x85}


# Boots at once, and homes in four seconds instead of six.
QUICK = [("boot_ms = 1500", "boot_ms = 100"), ('"$24" = 60 ', '"$24" = 240 ')]


class Bench:
    """`hw-sim serve` with its control socket. `changes` are replacements in the bench file's text."""

    def __init__(self, *changes):
        self.folder = Path(tempfile.mkdtemp(prefix="steadyhand-clients-"))
        text = subprocess.run([BIN / "hw-sim", "microscope"], capture_output=True, text=True, check=True).stdout
        for old, new in (*QUICK, *changes):
            assert old in text, f"the bench file has no {old!r}"
            text = text.replace(old, new)
        (self.folder / "bench.toml").write_text(text)
        self.links = self.folder / "links"
        self.links.mkdir()
        command = [BIN / "hw-sim", "serve", self.folder / "bench.toml", "--until-eof"]
        command += ["--link-dir", self.links, "--control", self.folder / "control"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.paths = {}
        while True:
            line = self.process.stdout.readline()
            assert line, "the bench ended at once"
            said = json.loads(line)
            if "control" in said:
                break
            self.paths[said["device"]] = said["path"]
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(self.folder / "control"))
        self.replies = self.socket.makefile("r")
        time.sleep(0.2)  # The controller boots.

    def rig(self, *changes, name="rig.toml"):
        """The path of the demonstration's rig file on this bench, with replacements in its text."""
        text = (REPOSITORY / "rigs/demo.toml").read_text()
        text = text.replace("@SCOPE@", str(self.links / "scope"))
        text = text.replace("@CAM@", self.paths["cam"].removeprefix("tcp://"))
        text = text.replace("@IO@", self.paths["io"].removeprefix("tcp://"))
        for old, new in changes:
            assert old in text, f"the rig file has no {old!r}"
            text = text.replace(old, new)
        path = self.folder / name
        path.write_text(text)
        return path

    def command(self, rig=None, *options, data="data"):
        """The command line that serves a rig file; `data` names the folder that remembers, one for all unless told."""
        data = ["--data-dir", str(self.folder / data)]
        return [PROGRAM, "serve", "--rig", str(rig or self.rig()), *data, *options]

    def ask(self, cmd, **request):
        self.socket.sendall((json.dumps({"cmd": cmd, **request}) + "\n").encode())
        reply = json.loads(self.replies.readline())
        assert "error" not in reply, reply
        return reply

    def fault(self, fault, device="scope", **more):
        self.ask("fault", device=device, fault=fault, **more)

    def now(self):
        """Milliseconds of the bench's clock."""
        return self.ask("now")["now_ms"]

    def position(self, axis):
        """Where the carriage really is, in the rig's millimetres."""
        return self.ask("positions")["scope"][axis]

    def moving(self):
        return any(abs(v) > 1e-6 for v in self.ask("speeds")["scope"].values())

    def received(self, since=0.0):
        """What the controller was sent, as (ms, byte)."""
        log = self.ask("received", device="scope", since_ms=since)
        return list(zip(log["t_ms"], log["bytes"]))

    def lines(self, since=0.0):
        """The lines that the controller was sent, without status questions and other real-time bytes."""
        realtime = {0x3F, 0x7E, 0x21, 0x18}
        text = bytes(b for _, b in self.received(since) if b not in realtime and b < 0x80)
        return [line for line in text.decode().replace("\r", "\n").split("\n") if line]

    def orders(self, since=0.0):
        """Of these, the ones that move something or change a setting: whatever isn't a mere question."""
        return [line for line in self.lines(since) if line not in ("$I", "$$", "$#", "$G", "$N", "$")]

    def stops(self, since=0.0):
        """When stop bytes came."""
        return [t for t, b in self.received(since) if b in STOP_BYTES]

    def until(self, holds, seconds, what):
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"not within {seconds} s: {what}"
            time.sleep(0.01)

    def stands(self, seconds=2.0):
        """Waits for standstill, and holds it for a moment."""
        self.until(lambda: not self.moving(), seconds, "standstill at the bench")
        first = self.ask("positions")
        time.sleep(0.2)
        assert self.ask("positions") == first and not self.moving(), "it moves again"

    def holders(self):
        """The processes, but the bench, that hold the stage's pseudo-terminal open."""
        terminal = os.path.realpath(self.links / "scope")
        found = []
        for process in Path("/proc").iterdir():
            if not process.name.isdigit() or int(process.name) in (os.getpid(), self.process.pid):
                continue
            try:
                if any(os.readlink(fd) == terminal for fd in (process / "fd").iterdir()):
                    found.append(int(process.name))
            except OSError:
                continue
        return found

    def close(self):
        self.socket.close()
        self.process.stdin.close()
        try:
            self.process.wait(timeout=10)
        finally:
            if self.process.poll() is None:
                self.process.kill()
            shutil.rmtree(self.folder, ignore_errors=True)


def gone(pid):
    """Whether a process has ended, be it collected or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True
