#!/usr/bin/env python3
"""The manufacturer's own client drives the simulated chain: zaber-motion, over the pseudo-terminal.

Usage: zaber_drive.py PATH-TO-HW-SIM (needs zaber-motion 10.3.0; no network: devices are not identified online). Exits
nonzero when anything differs from the truth that the control socket tells.
"""

import sys
import threading
import time
from pathlib import Path

from served import near, served
from zaber_motion.ascii import Connection, DigitalOutputAction, SettingConstants
from zaber_motion.exceptions import (
    BadDataException,
    CommandFailedException,
    MovementFailedException,
    MovementInterruptedException,
    RequestTimeoutException,
)

FOCUS_PER_MM = 5249.344
TILT_PER_MM = 2015.748
BENCH = Path(__file__).parent.parent / "bench" / "zaber.toml"


def refused(kind, act, why=""):
    try:
        act()
    except kind as e:
        print(f"refused, as it should be: {e}")
        assert why in str(e), why
        return
    raise AssertionError(f"no {kind.__name__}")


def drive(path, control):
    with Connection.open_serial_port(path) as line:
        line.enable_alerts()
        devices = line.detect_devices(identify_devices=False)
        assert [d.device_address for d in devices] == [1, 2], devices
        focus = devices[0].get_axis(1)
        tilt = devices[1].get_axis(1)
        assert devices[0].settings.get(SettingConstants.DEVICE_ID) == 50081
        assert devices[1].settings.get(SettingConstants.SYSTEM_AXISCOUNT) == 2

        # Power has just come on.
        assert not focus.is_homed()
        assert focus.warnings.get_flags() == {"WR"}
        refused(BadDataException, lambda: focus.move_absolute(1000))

        line.home_all()
        assert focus.is_homed() and tilt.is_homed()
        assert focus.get_position() == 0
        near("homed focus", control.ask(cmd="positions")["chain"]["focus"], 500 / FOCUS_PER_MM, 0.001)

        for target in (52493, 10000, 10001):
            focus.move_absolute(target)
            assert focus.get_position() == target
            near("focus", control.ask(cmd="positions")["chain"]["focus"], (target + 500) / FOCUS_PER_MM, 0.001)
        focus.move_relative(-1)
        assert focus.get_position() == 10000
        focus.move_absolute(60000, velocity=40000, acceleration=50)
        refused(BadDataException, lambda: focus.move_absolute(200000))

        # Somebody stops it in mid-move.
        focus.move_absolute(120000, wait_until_idle=False)
        time.sleep(0.4)
        assert focus.is_busy()
        focus.stop()
        assert not focus.is_busy() and 60000 < focus.get_position() < 120000
        # Somebody turns the knob in mid-move.
        turn = {"cmd": "fault", "device": "chain", "fault": "knob", "axis": "focus", "mm": 0.1}
        threading.Timer(0.3, lambda: control.ask(**turn)).start()
        refused(MovementInterruptedException, lambda: focus.move_absolute(0))
        focus.wait_until_idle(throw_error_on_fault=False)
        focus.warnings.clear_flags()
        assert focus.warnings.get_flags() == set()

        # The encoder of the controller's first axis sees a jam; the plain axis does not.
        control.ask(cmd="fault", device="chain", fault="jam", axis="tilt")
        refused(MovementFailedException, lambda: tilt.move_absolute(20000), "FS")
        control.ask(cmd="fault", device="chain", fault="unjam", axis="tilt")
        tilt.move_absolute(20000)
        near("tilt", control.ask(cmd="positions")["chain"]["tilt"], 20500 / TILT_PER_MM, 0.001)

        devices[1].io.set_digital_output(3, DigitalOutputAction.ON)
        assert devices[1].io.get_all_digital_outputs() == [False, False, True, False]
        counts = devices[1].io.get_channels_info()
        assert (counts.number_analog_outputs, counts.number_analog_inputs) == (1, 2)
        assert (counts.number_digital_outputs, counts.number_digital_inputs) == (4, 4)
        control.ask(cmd="fault", device="chain", fault="input", address=2, input="di", channel=2, volts=5.0)
        assert devices[1].io.get_digital_input(2)

        focus.driver_disable()
        refused(CommandFailedException, lambda: focus.move_relative(10))
        focus.driver_enable()
        assert not focus.is_homed(), "without an encoder the position is lost with the driver"

        text = " ".join(f"word{i}" for i in range(40))
        assert line.generic_command(f"tools echo {text}", 1).data == text

        control.ask(cmd="fault", device="chain", fault="silence", on=True)
        refused(RequestTimeoutException, lambda: focus.get_position())
        control.ask(cmd="fault", device="chain", fault="silence", on=False)
        assert line.renumber_devices(first_address=3) == 2
        assert [r.device_address for r in line.generic_command_multi_response("get pos")] == [3, 4]


def main():
    with served(sys.argv[1], "chain", BENCH) as (path, control):
        time.sleep(0.8)
        drive(path, control)
    print("zaber-motion drives the simulated chain")


if __name__ == "__main__":
    main()
