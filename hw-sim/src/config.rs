//! The bench file: what stands on the bench, strictly read.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::BenchError;
use crate::asi::AsiConfig;
use crate::zaber::ChainConfig;

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BenchConfig {
    #[serde(default)]
    pub seed: u64,
    #[serde(default, rename = "controller")]
    pub controllers: Vec<ControllerConfig>,
    #[serde(default, rename = "io")]
    pub boxes: Vec<IoConfig>,
    #[serde(default, rename = "camera")]
    pub cameras: Vec<CameraConfig>,
    #[serde(default, rename = "zaber")]
    pub chains: Vec<ChainConfig>,
    #[serde(default, rename = "asi")]
    pub asis: Vec<AsiConfig>,
    #[serde(default)]
    pub light: LightConfig,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ControllerConfig {
    pub id: String,
    pub protocol: String,
    #[serde(default = "d_baud")]
    pub baud: u32,
    #[serde(default = "d_os_buffer")]
    pub os_buffer: usize,
    #[serde(default = "d_boot")]
    pub boot_ms: u64,
    #[serde(default)]
    pub eeprom: EepromState,
    #[serde(default)]
    pub eeprom_write_ms: u64,
    /// The file in which its memory outlives the bench.
    pub eeprom_file: Option<std::path::PathBuf>,
    #[serde(default)]
    pub dtr_resets: bool,
    #[serde(default = "d_banner")]
    pub banner: String,
    #[serde(default = "d_version")]
    pub version: String,
    #[serde(default = "d_options")]
    pub build_options: String,
    /// grblHAL: it lists what its settings may be (`$ES`), and refuses what they may not.
    #[serde(default)]
    pub settings_schema: bool,
    #[serde(default)]
    pub report_mode: ReportMode,
    #[serde(default = "d_rx")]
    pub rx_buffer: usize,
    #[serde(default = "d_blocks")]
    pub planner_blocks: usize,
    pub axes: BTreeMap<String, AxisConfig>,
    #[serde(default)]
    pub settings: BTreeMap<String, f64>,
}

/// What the EEPROM holds when power first comes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EepromState {
    #[default]
    Ready,
    Virgin,
}

/// The shape of status reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(crate) enum ReportMode {
    #[default]
    #[serde(rename = "1.1")]
    V11,
    #[serde(rename = "0.9")]
    V09,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AxisConfig {
    pub steps_per_mm: f64,
    #[serde(default)]
    pub invert: bool,
    pub min_mm: f64,
    pub max_mm: f64,
    pub start_mm: f64,
    pub home_switch_mm: Option<f64>,
    #[serde(default)]
    pub home_switch_end: End,
    #[serde(default)]
    pub backlash_mm: f64,
    #[serde(default)]
    pub lost_per_1000: f64,
    #[serde(default)]
    pub lag_ms: f64,
    #[serde(default)]
    pub brake_mm_per_s2: f64,
    #[serde(default)]
    pub falls_unpowered: bool,
    #[serde(default = "d_fall")]
    pub fall_mm_per_s: f64,
}

/// The end of travel that a switch stands at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    #[default]
    Max,
    Min,
}

/// A box of outputs and sensors.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct IoConfig {
    pub id: String,
    pub protocol: String,
    #[serde(default = "d_os_buffer")]
    pub os_buffer: usize,
    #[serde(default = "d_io_serial")]
    pub serial: String,
    pub channels: BTreeMap<String, ChannelConfig>,
}

/// One channel of a box.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ChannelConfig {
    /// A lamp in percent.
    Light,
    /// A shutter and how long it travels.
    Shutter {
        #[serde(default)]
        travel_ms: u64,
    },
    /// A wheel, its positions and how long it takes from one to the next.
    Wheel { slots: usize, ms_per_slot: u64 },
    /// A digital output.
    Line,
    /// A number with noise.
    Analog {
        value: f64,
        #[serde(default)]
        noise: f64,
    },
    /// A digital input.
    Digital {
        #[serde(default)]
        on: bool,
    },
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CameraConfig {
    pub id: String,
    pub protocol: String,
    #[serde(default = "d_os_buffer")]
    pub os_buffer: usize,
    pub sees: Sees,
    #[serde(default = "d_width")]
    pub width: usize,
    #[serde(default = "d_height")]
    pub height: usize,
    #[serde(default = "d_pixel")]
    pub pixel_um: f64,
    #[serde(default = "d_serial")]
    pub serial: String,
    #[serde(default)]
    pub flip_x: bool,
    #[serde(default)]
    pub flip_y: bool,
    #[serde(default)]
    pub rotate: u32,
    #[serde(default = "d_readout")]
    pub readout_ms: f64,
    #[serde(default)]
    pub noise: NoiseConfig,
    pub specimen: SpecimenConfig,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Sees {
    pub x: String,
    pub y: String,
    pub focus: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoiseConfig {
    #[serde(default = "d_dark")]
    pub dark_counts: f64,
    #[serde(default = "d_read")]
    pub read_counts: f64,
    #[serde(default = "d_epc")]
    pub electrons_per_count: f64,
    #[serde(default = "d_hot")]
    pub hot_pixels: usize,
}

impl Default for NoiseConfig {
    fn default() -> Self {
        NoiseConfig { dark_counts: d_dark(), read_counts: d_read(), electrons_per_count: d_epc(), hot_pixels: d_hot() }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpecimenConfig {
    /// Where the specimen's centre lies under the objective, mm of the stage axes.
    pub centre: [f64; 2],
    #[serde(default = "d_size")]
    pub size_mm: f64,
    /// Focus position at the centre, mm, and the plane's tilt in µm per mm along x and y.
    pub focus_mm: f64,
    #[serde(default)]
    pub tilt_um_per_mm: [f64; 2],
    /// Blur (sigma, pixels) per µm of defocus.
    #[serde(default = "d_blur")]
    pub blur_px_per_um: f64,
    /// Counts at 12 bits per ms of exposure at light 1 and full specimen brightness.
    #[serde(default = "d_counts")]
    pub counts_per_ms: f64,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LightConfig {
    #[serde(default)]
    pub constant: f64,
    pub spindle: Option<SpindleLamp>,
    pub flood: Option<CoolantLamp>,
    pub mist: Option<CoolantLamp>,
    pub lamp: Option<BoxLamp>,
}

impl Default for LightConfig {
    fn default() -> Self {
        LightConfig { constant: 1.0, spindle: None, flood: None, mist: None, lamp: None }
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SpindleLamp {
    pub controller: String,
    pub at_full: f64,
}

/// A lamp on a box, perhaps behind a shutter and a filter wheel.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BoxLamp {
    pub io: String,
    pub channel: String,
    pub at_full: f64,
    pub shutter: Option<String>,
    pub wheel: Option<String>,
    /// How much each of the wheel's positions lets through; what lies between two lets nothing through.
    #[serde(default)]
    pub transmission: Vec<f64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CoolantLamp {
    pub controller: String,
    pub adds: f64,
}

pub(crate) fn d_baud() -> u32 {
    115_200
}
pub(crate) fn d_os_buffer() -> usize {
    4096
}
fn d_boot() -> u64 {
    1500
}
/// Of controllers without a bootloader.
pub(crate) fn d_ready() -> u64 {
    500
}
fn d_banner() -> String {
    "Grbl 1.1h ['$' for help]".into()
}
fn d_version() -> String {
    "1.1h.20190830".into()
}
fn d_options() -> String {
    "V".into()
}
fn d_rx() -> usize {
    128
}
fn d_blocks() -> usize {
    15
}
fn d_fall() -> f64 {
    1.0
}
fn d_width() -> usize {
    1024
}
fn d_height() -> usize {
    768
}
fn d_pixel() -> f64 {
    0.65
}
fn d_io_serial() -> String {
    "BX0001".into()
}
fn d_serial() -> String {
    "SC0001".into()
}
fn d_readout() -> f64 {
    15.0
}
fn d_dark() -> f64 {
    100.0
}
fn d_read() -> f64 {
    2.0
}
fn d_epc() -> f64 {
    4.0
}
fn d_hot() -> usize {
    60
}
fn d_size() -> f64 {
    20.0
}
fn d_blur() -> f64 {
    0.35
}
fn d_counts() -> f64 {
    300.0
}

/// The axis letters of a controller, in the order of its reports.
pub(crate) const LETTERS: [&str; 6] = ["x", "y", "z", "a", "b", "c"];

impl BenchConfig {
    /// Reads and checks a bench file.
    pub(crate) fn parse(text: &str) -> Result<BenchConfig, BenchError> {
        let config: BenchConfig =
            toml::from_str(text).map_err(|e| BenchError::Config(e.to_string().trim_end().to_owned()))?;
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), BenchError> {
        let mut seen: Vec<&str> = Vec::new();
        let ids = self.controllers.iter().map(|c| &c.id).chain(self.cameras.iter().map(|c| &c.id));
        let ids = ids.chain(self.chains.iter().map(|c| &c.id));
        let ids = ids.chain(self.boxes.iter().map(|b| &b.id));
        let ids = ids.chain(self.asis.iter().map(|c| &c.id));
        for id in ids {
            need(!id.is_empty(), || "a device has an empty id".into())?;
            need(!seen.contains(&id.as_str()), || format!("two devices are called {id:?}"))?;
            seen.push(id);
        }
        self.controllers.iter().try_for_each(ControllerConfig::check)?;
        self.chains.iter().try_for_each(ChainConfig::check)?;
        self.boxes.iter().try_for_each(IoConfig::check)?;
        self.asis.iter().try_for_each(AsiConfig::check)?;
        self.cameras.iter().try_for_each(|c| self.check_camera(c))?;
        self.light.lamp.iter().try_for_each(|l| self.check_lamp(l))?;
        let light = &self.light;
        let lamps = light
            .spindle
            .iter()
            .map(|l| (&l.controller, l.at_full))
            .chain(light.flood.iter().chain(&light.mist).map(|l| (&l.controller, l.adds)));
        for (controller, brightness) in lamps {
            need(self.controllers.iter().any(|c| c.id == *controller), || {
                format!("light: there is no controller {controller:?}")
            })?;
            need(brightness >= 0.0, || "light: a lamp's brightness is below 0".into())?;
        }
        need(light.constant >= 0.0, || "light.constant is below 0".into())
    }

    fn check_lamp(&self, lamp: &BoxLamp) -> Result<(), BenchError> {
        let found = self.boxes.iter().find(|b| b.id == lamp.io);
        let Some(io) = found else { return need(false, || format!("light: there is no io {:?}", lamp.io)) };
        let is = |name: &str, kind: &str| io.channels.get(name).is_some_and(|c| c.kind() == kind);
        need(is(&lamp.channel, "light"), || format!("light: {:?} has no light {:?}", io.id, lamp.channel))?;
        need(lamp.shutter.iter().all(|s| is(s, "shutter")), || format!("light: {:?} has no such shutter", io.id))?;
        let slots = lamp.wheel.as_ref().map(|w| match io.channels.get(w) {
            Some(ChannelConfig::Wheel { slots, .. }) => *slots,
            _ => 0,
        });
        need(slots.unwrap_or(0) == lamp.transmission.len() && slots != Some(0), || {
            "light: the lamp's transmission needs a number for each position of its wheel".into()
        })?;
        need(lamp.at_full >= 0.0 && lamp.transmission.iter().all(|t| (0.0..=1.0).contains(t)), || {
            "light: a lamp's brightness is below 0, or a transmission not within 0..=1".into()
        })
    }

    fn check_camera(&self, c: &CameraConfig) -> Result<(), BenchError> {
        let id = &c.id;
        need(c.protocol == "simcam-1", || format!("camera {id:?}: unknown protocol {:?}", c.protocol))?;
        need((16..=4096).contains(&c.width) && (16..=4096).contains(&c.height), || {
            format!("camera {id:?}: width and height must be within 16..=4096")
        })?;
        need(c.width.is_multiple_of(4) && c.height.is_multiple_of(4), || {
            format!("camera {id:?}: width and height must be multiples of 4")
        })?;
        need(matches!(c.rotate, 0 | 90 | 180 | 270), || format!("camera {id:?}: rotate must be 0, 90, 180 or 270"))?;
        need(c.pixel_um > 0.0, || format!("camera {id:?}: pixel_um must be above 0"))?;
        need(c.readout_ms >= 0.0, || format!("camera {id:?}: readout_ms is below 0"))?;
        need(c.specimen.size_mm > 0.0, || format!("camera {id:?}: specimen.size_mm must be above 0"))?;
        need(c.noise.electrons_per_count > 0.0, || {
            format!("camera {id:?}: noise.electrons_per_count must be above 0")
        })?;
        for name in [&c.sees.x, &c.sees.y, &c.sees.focus] {
            let known = name.split_once('.').is_some_and(|(controller, axis)| {
                self.controllers.iter().any(|k| k.id == controller && k.axes.contains_key(axis))
                    || self.chains.iter().any(|k| k.id == controller && k.axis_names().any(|n| n == axis))
                    || self.asis.iter().any(|k| k.id == controller && k.axis_names().any(|n| n == axis))
            });
            need(known, || format!("camera {id:?} sees {name:?}, which is not an axis of this bench"))?;
        }
        Ok(())
    }
}

impl ChannelConfig {
    /// The kind as `ID?` names it.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            ChannelConfig::Light => "light",
            ChannelConfig::Shutter { .. } => "shutter",
            ChannelConfig::Wheel { .. } => "wheel",
            ChannelConfig::Line => "line",
            ChannelConfig::Analog { .. } => "analog",
            ChannelConfig::Digital { .. } => "digital",
        }
    }
}

impl IoConfig {
    fn check(&self) -> Result<(), BenchError> {
        let id = &self.id;
        need(self.protocol == "simio-1", || format!("io {id:?}: unknown protocol {:?}", self.protocol))?;
        for (name, channel) in &self.channels {
            let plain = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
            need(plain, || format!("io {id:?}: {name:?} is no channel name"))?;
            let sound = match channel {
                ChannelConfig::Wheel { slots, ms_per_slot } => (2..=32).contains(slots) && *ms_per_slot <= 60_000,
                ChannelConfig::Analog { value, noise } => value.is_finite() && (0.0..1e9).contains(noise),
                ChannelConfig::Shutter { travel_ms } => *travel_ms <= 60_000,
                ChannelConfig::Light | ChannelConfig::Line | ChannelConfig::Digital { .. } => true,
            };
            need(sound, || format!("io {id:?}, channel {name}: a value is out of range"))?;
        }
        Ok(())
    }
}

impl ControllerConfig {
    fn check(&self) -> Result<(), BenchError> {
        let id = &self.id;
        need(self.protocol == "grbl-1.1", || format!("controller {id:?}: unknown protocol {:?}", self.protocol))?;
        need(self.baud > 0 && self.os_buffer > 0, || format!("controller {id:?}: baud and os_buffer must be above 0"))?;
        need(self.rx_buffer >= 8 && self.planner_blocks >= 1, || {
            format!("controller {id:?}: rx_buffer must be at least 8 and planner_blocks at least 1")
        })?;
        let n = self.axes.len();
        need((3..=6).contains(&n), || format!("controller {id:?} has {n} axes; 3 to 6 are possible"))?;
        for letter in &LETTERS[..n] {
            need(self.axes.contains_key(*letter), || {
                format!("controller {id:?}: {n} axes must be the first {n} of x, y, z, a, b, c")
            })?;
        }
        self.axes.iter().try_for_each(|(letter, a)| a.check(&format!("controller {id:?}, axis {letter}")))
    }
}

impl AxisConfig {
    /// Checks the stage of the axis `at`.
    pub(crate) fn check(&self, at: &str) -> Result<(), BenchError> {
        need(self.steps_per_mm > 0.0, || format!("{at}: steps_per_mm must be above 0"))?;
        need(self.min_mm < self.max_mm, || format!("{at}: min_mm must be below max_mm"))?;
        need(self.min_mm <= self.start_mm && self.start_mm <= self.max_mm, || {
            format!("{at}: start_mm lies outside min_mm..max_mm")
        })?;
        let positive = [self.backlash_mm, self.lost_per_1000, self.lag_ms, self.brake_mm_per_s2, self.fall_mm_per_s];
        need(positive.iter().all(|v| *v >= 0.0), || format!("{at}: a value is below 0"))
    }
}

pub(crate) fn need(ok: bool, message: impl FnOnce() -> String) -> Result<(), BenchError> {
    if ok { Ok(()) } else { Err(BenchError::Config(message())) }
}
