"""A bench that hw-sim serves, for hosts that drive its devices and compare with the truth."""

import contextlib
import json
import socket
import subprocess


class Control:
    def __init__(self, address):
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)))
        self.lines = self.socket.makefile("r")

    def ask(self, **request):
        self.socket.sendall((json.dumps(request) + "\n").encode())
        reply = json.loads(self.lines.readline())
        assert "error" not in reply, reply
        return reply


def near(what, here, wanted, tolerance):
    print(f"{what}: {here:.4f}, wanted {wanted:.4f}")
    assert abs(here - wanted) <= tolerance, what


@contextlib.contextmanager
def served(program, device, *bench):
    """The path of a device and the bench's control socket; the program ends with the block."""
    simulator = subprocess.Popen(
        [program, "serve", *bench, "--until-eof"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        path, control = None, None
        while control is None:
            line = simulator.stdout.readline()
            assert line, "the simulator ended early"
            said = json.loads(line)
            if said.get("device") == device:
                path = said["path"]
            control = said.get("control")
        yield path, Control(control)
    finally:
        simulator.stdin.close()
        status = simulator.wait(timeout=10)
    assert status == 0, f"the simulator ended with {status}"
