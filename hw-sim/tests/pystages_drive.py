#!/usr/bin/env python3
"""An independent host drives the simulated GRBL: pystages' CNCRouter, over the pseudo-terminal.

Usage: pystages_drive.py PATH-TO-HW-SIM (needs pystages 1.4.2). Exits nonzero when anything differs from the truth that
the control socket tells.
"""

import sys
import time

from served import near, served
from pystages import CNCRouter, Vector
from pystages.cncrouter import CNCStatus


def settle(stage, timeout=30.0):
    # The status lags its command: idle counts only once it stays.
    deadline = time.monotonic() + timeout
    still = 0
    while still < 3:
        assert time.monotonic() < deadline, "the stage did not come to rest"
        status = stage.get_current_status()
        still = still + 1 if status is not None and status[0] == CNCStatus.IDLE else 0
        time.sleep(0.05)


def drive(path, control):
    stage = CNCRouter(path, reset_wait_time=0.5)
    try:
        assert any(line.startswith("Grbl 1.1") for line in stage.atr), stage.atr
        settings = stage.get_grbl_settings()
        assert len(settings) >= 30, settings

        stage.send("$H")
        # pystages reads with a timeout of 1 s; homing answers only at its end.
        assert stage.receive_lines() == [], "homing said more than ok"
        settle(stage)
        truth = control.ask(cmd="positions")["scope"]
        for axis, home in (("x", 74.0), ("y", 49.0), ("z", 3.0)):
            near(f"homed {axis}", truth[axis], home, 0.005)
        near("reported x", stage.position.x, -1.0, 0.0011)

        for target in (Vector(-30.0, -20.0, -2.0), Vector(-31.5, -18.25, -1.5), Vector(-60.0, -40.0, -1.0)):
            stage.position = target
            settle(stage)
            truth = control.ask(cmd="positions")["scope"]
            reported = stage.position
            for axis, at, zero, seen in zip("xyz", target.data, (75.0, 50.0, 4.0), reported.data):
                near(f"reported {axis}", seen, at, 0.0011)
                near(f"true {axis}", truth[axis], zero + at, 0.005)

        stage.position = Vector(-10.0, -40.0, -1.0)
        time.sleep(0.3)
        assert stage.is_moving, "a long move should still be running"
        settle(stage)

        # The truth may part from the count, and only the bench knows.
        before = control.ask(cmd="positions")["scope"]["x"]
        control.ask(cmd="fault", device="scope", fault="jam", axis="x")
        stage.position = Vector(-20.0, -40.0, -1.0)
        settle(stage)
        near("reported x, jammed", stage.position.x, -20.0, 0.0011)
        near("true x, jammed", control.ask(cmd="positions")["scope"]["x"], before, 0.005)
    finally:
        stage.serial.close()


def main():
    with served(sys.argv[1], "scope") as (path, control):
        # Power has just come on: the controller boots for 1.5 s.
        time.sleep(1.8)
        drive(path, control)
    print("pystages drives the simulated GRBL")


if __name__ == "__main__":
    main()
