//! The demonstration rig and a state of it, for tests of single tools.

use std::path::Path;
use std::time::Duration;

use crate::config::{self, Rig};
use crate::model::{
    Activity, AxisId, AxisReading, AxisStatus, CameraSettings, CameraStatus, Code, Epoch, Fault, Frame, LinkStatus,
    Moved, Name, OutputStatus, OutputValue, Pixels, Remedy, SensorStatus, SensorValue, Snapshot, Source, StageStatus,
    Time, Trust,
};
use crate::units::{Percent, Position, Unit};

/// The rig of `steadyhand demo`.
pub(crate) fn rig() -> Rig {
    let text = include_str!("../../rigs/demo.toml").replace("@SCOPE@", "/dev/ttyDEMO").replace("@CAM@", "127.0.0.1:9");
    let text = text.replace("@IO@", "127.0.0.1:10");
    let rig = config::parse(&text, Path::new("demo.toml"), &crate::devices::known());
    Rig { file: None, ..rig.unwrap_or_else(|p| panic!("{}", p.render(false))) }
}

/// The demonstration rig, homed and idle at x 12.5 mm, y 10 mm, z 4000 um.
pub(crate) fn state() -> Snapshot {
    let axis = |name: &str, value: f64, unit| AxisStatus {
        axis: Name::new(name),
        position: Position::new(value, unit).ok(),
        trust: Trust::Referenced,
        source: Source::Counter,
        target: None,
        ahead: None,
        speed: None,
        at_limit: false,
    };
    let stage = StageStatus {
        stage: Name::new("scope"),
        activity: Activity::Idle,
        fault: None,
        stopped_by: None,
        axes: vec![axis("x", 12.5, Unit::Mm), axis("y", 10.0, Unit::Mm), axis("z", 4000.0, Unit::Um)],
        epoch: Epoch(42),
        read_at: Some(Time::ZERO),
        came_from: None,
        identity: None,
        told: None,
        link: LinkStatus { port: "/dev/ttyDEMO".into(), open: true, ..LinkStatus::default() },
    };
    let camera = CameraStatus {
        camera: Name::new("cam"),
        ready: true,
        exposing: false,
        fault: None,
        settings: Some(settings()),
        identity: None,
        link: LinkStatus { port: "127.0.0.1:9".into(), open: true, ..LinkStatus::default() },
    };
    let link = || LinkStatus { port: "127.0.0.1:10".into(), open: true, ..LinkStatus::default() };
    let output = |name: &str, value| OutputStatus {
        output: Name::new(name),
        ready: true,
        value: Some(value),
        assumed: false,
        target: None,
        waits_for: None,
        read_at: Some(Time::ZERO),
        fault: None,
        stopped_by: None,
        identity: None,
        link: link(),
    };
    let sensor = SensorStatus {
        sensor: Name::new("temperature"),
        ready: true,
        value: Some(SensorValue::Number(21.5)),
        in_range: true,
        read_at: Some(Time::ZERO),
        fault: None,
        identity: None,
        link: link(),
    };
    Snapshot {
        at: Time::ZERO,
        stages: vec![stage],
        cameras: vec![camera],
        outputs: vec![
            output("lamp", OutputValue::Percent(Percent::ZERO)),
            output("shutter", OutputValue::Open(false)),
            output("filter", OutputValue::At(Name::new("empty"))),
        ],
        sensors: vec![sensor],
        ..Snapshot::default()
    }
}

/// Settings of a small camera.
pub(crate) fn settings() -> CameraSettings {
    CameraSettings { exposure_ms: 20.0, gain: 1.0, roi: [0, 0, 3, 2], binning: 1, bits: 12, sensor: [3, 2] }
}

/// A fault of a device that is gone.
pub(crate) fn fault() -> Fault {
    Fault { code: Code::Unplugged, what: "The connection broke.".into(), at: Time::ZERO, remedy: Remedy::Reconnect }
}

/// A frame of 2 × 3 pixels.
pub(crate) fn frame() -> Frame {
    let readings = vec![AxisReading {
        id: AxisId::new("scope", "x"),
        position: Position::new(12.5, Unit::Mm).ok(),
        unit: Unit::Mm,
        trust: Trust::Referenced,
    }];
    Frame {
        camera: Name::new("cam"),
        pixels: Pixels::U16(ndarray::array![[0, 1, 2], [255, 256, 4095]]),
        significant_bits: 12,
        settings: settings(),
        sequence: 1,
        asked_at: Time(Duration::from_millis(1)),
        received_at: Time(Duration::from_millis(30)),
        before: readings.clone(),
        after: readings,
        moved_during: Moved::No,
        simulated: true,
    }
}
