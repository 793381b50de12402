//! The camera's protocol, and that its image is of what the stage puts under it.

use std::time::{Duration, Instant};

use hw_sim::{Bench, Fault};

struct Cam {
    bench: Bench,
    now: Duration,
}

struct Frame {
    header: String,
    pixels: Vec<u16>,
}

impl Frame {
    fn field(&self, key: &str) -> String {
        let start = format!(" {key}=");
        let rest = self.header.split(&start).nth(1).unwrap_or_else(|| panic!("{key}: {}", self.header));
        rest.split(' ').next().unwrap_or_default().to_owned()
    }

    fn mean(&self) -> f64 {
        self.pixels.iter().map(|v| f64::from(*v)).sum::<f64>() / self.pixels.len() as f64
    }

    /// How much neighbours differ beyond noise: high in focus.
    fn sharpness(&self) -> f64 {
        let w: usize = self.field("width").parse().expect("a number");
        let block = |x: usize, y: usize| -> f64 {
            (0..4)
                .flat_map(|j| (0..4).map(move |i| (i, j)))
                .map(|(i, j)| f64::from(self.pixels[(y + j) * w + x + i]))
                .sum()
        };
        let mut sum = 0.0;
        for y in (0..self.pixels.len() / w - 4).step_by(4) {
            for x in (0..w - 8).step_by(4) {
                sum += (block(x, y) - block(x + 4, y)).powi(2);
            }
        }
        sum
    }
}

impl Cam {
    fn new(bench: Bench) -> Cam {
        Cam { bench, now: Duration::ZERO }
    }

    /// The microscope, with the stage at this place of the bench frame.
    fn at(x: f64, y: f64, z: f64) -> Cam {
        let toml = hw_sim::MICROSCOPE_TOML
            .replace("start_mm = 40.0", &format!("start_mm = {x:.4}"))
            .replace("start_mm = 27.0", &format!("start_mm = {y:.4}"))
            .replace("start_mm = 3.0", &format!("start_mm = {z:.4}"));
        Cam::new(Bench::from_toml(&toml).expect("the bench"))
    }

    fn pass(&mut self, ms: u64) -> Vec<u8> {
        self.now += Duration::from_millis(ms);
        self.bench.advance(self.now);
        self.bench.read("cam")
    }

    fn ask(&mut self, line: &str) -> String {
        self.bench.write("cam", line.as_bytes());
        self.bench.write("cam", b"\n");
        String::from_utf8(self.pass(0)).expect("a line")
    }

    fn snap(&mut self) -> Frame {
        assert_eq!(self.ask("SNAP 9"), "OK SNAP 9\n");
        parse(&self.pass(60_000))
    }
}

fn parse(bytes: &[u8]) -> Frame {
    let end = bytes.iter().position(|b| *b == b'\n').expect("a header");
    let header = String::from_utf8(bytes[..end].to_vec()).expect("ASCII");
    let data = &bytes[end + 1..];
    let frame = Frame { header, pixels: Vec::new() };
    assert_eq!(frame.field("len"), data.len().to_string());
    assert_eq!(frame.field("crc32"), format!("{:08x}", crc32fast::hash(data)));
    let pixels = match frame.field("bits").as_str() {
        "8" => data.iter().map(|b| u16::from(*b)).collect(),
        _ => data.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect(),
    };
    Frame { pixels, ..frame }
}

#[test]
fn the_protocol_is_as_documented() {
    let mut c = Cam::at(38.0, 25.0, 2.0);
    assert_eq!(
        c.ask("ID?"),
        "OK simcam 1 model=SpecimenCam serial=SC0001 width=1024 height=768 bits=12 pixel_um=0.65\n"
    );
    assert_eq!(
        c.ask("SET exposure_ms=5.123 gain=2 roi=10,10,103,50 binning=2 bits=8"),
        "OK exposure_ms=5.12 gain=2 roi=8,8,100,48 binning=2 bits=8\n"
    );
    assert_eq!(c.ask("SET gain=3 exposure_ms=0"), "ERR range exposure_ms 0.01 10000\n");
    assert_eq!(c.ask("GET"), "OK exposure_ms=5.12 gain=2 roi=8,8,100,48 binning=2 bits=8 temperature_c=24.5\n");
    assert_eq!(c.ask("SET bits=11"), "ERR range bits 8 16\n");
    assert_eq!(c.ask("SET exposure_ms=NaN"), "ERR range exposure_ms 0.01 10000\n");
    assert!(c.ask("SET roi=1000,0,100,100").starts_with("ERR range roi"));
    assert_eq!(c.ask("SET colour=red"), "ERR unknown colour\n");
    assert_eq!(c.ask("FOO"), "ERR unknown FOO\n");
    assert!(c.ask(&"x".repeat(300)).starts_with("ERR line longer"));
    let frame = c.snap();
    assert_eq!(frame.field("width"), "50");
    assert_eq!(frame.field("height"), "24");
    assert_eq!(frame.pixels.len(), 50 * 24);
}

#[test]
fn exposure_takes_its_time_and_can_be_aborted() {
    let mut c = Cam::at(38.0, 25.0, 2.0);
    c.ask("SET exposure_ms=100");
    assert_eq!(c.ask("SNAP 1"), "OK SNAP 1\n");
    assert_eq!(c.ask("SNAP 2"), "ERR busy\n");
    assert!(c.pass(116).is_empty());
    let frame = parse(&c.pass(2));
    assert!(frame.header.starts_with("FRAME 1 "));
    let (start, end): (u64, u64) =
        (frame.field("start_us").parse().expect("µs"), frame.field("end_us").parse().expect("µs"));
    assert_eq!((start, end - start), (2000, 100_000));
    c.ask("SNAP 3");
    assert_eq!(c.ask("ABORT"), "OK ABORT\n");
    assert!(c.pass(1000).is_empty());
    assert_eq!(c.snap().field("seq"), "2");
}

#[test]
fn the_image_depends_on_where_the_stage_is() {
    let a = Cam::at(38.0, 25.0, 2.0).snap();
    let b = Cam::at(38.0, 25.0, 2.0).snap();
    assert_eq!(a.pixels, b.pixels, "the same bench gives the same frame");
    let moved = Cam::at(38.0 + 0.065, 25.0, 2.0).snap();
    // 65 µm are 100 pixels: what was at column 500 is now at column 400.
    let apart = |shift: usize| -> f64 {
        (0..768)
            .flat_map(|y| (200..600).map(move |x| (x, y)))
            .map(|(x, y)| (f64::from(a.pixels[y * 1024 + x + shift]) - f64::from(moved.pixels[y * 1024 + x])).powi(2))
            .sum()
    };
    assert!(apart(100) * 5.0 < apart(0), "{} {}", apart(100), apart(0));
    let below = Cam::at(38.0, 25.5, 2.0).snap();
    assert_ne!(a.pixels, below.pixels);
}

#[test]
fn focus_is_sharpest_on_the_specimen() {
    let z0 = 2.0 + 0.0015 * 0.5;
    let sharp: Vec<f64> =
        [-0.1, -0.03, 0.0, 0.03, 0.1].iter().map(|dz| Cam::at(38.0, 25.0, z0 + dz).snap().sharpness()).collect();
    assert!(sharp[0] < sharp[1] && sharp[1] < sharp[2], "{sharp:?}");
    assert!(sharp[2] > sharp[3] && sharp[3] > sharp[4], "{sharp:?}");
}

#[test]
fn brightness_follows_exposure_gain_and_light_until_it_saturates() {
    let mut c = Cam::at(38.0, 25.0, 2.0);
    let dark = |v: f64| v - 100.0;
    let base = dark(c.snap().mean());
    c.ask("SET exposure_ms=20");
    let longer = dark(c.snap().mean());
    assert!((longer / base - 2.0).abs() < 0.05, "{longer} {base}");
    c.ask("SET exposure_ms=10 gain=2");
    let gained = dark(c.snap().mean());
    assert!((gained / base - 2.0).abs() < 0.05, "{gained} {base}");
    c.ask("SET gain=1");
    c.bench.write("scope", b"$X\nM8\n");
    c.pass(100);
    let lit = dark(c.snap().mean());
    assert!((lit / base - 2.0).abs() < 0.05, "{lit} {base}");
    c.ask("SET exposure_ms=10000");
    assert!(c.snap().pixels.iter().filter(|v| **v == 4095).count() > 700_000);
    c.ask("SET exposure_ms=0.01");
    let black = c.snap().mean();
    assert!((black - 100.0).abs() < 5.0, "{black}");
}

#[test]
fn motion_blurs() {
    let still = Cam::at(38.0, 25.0, 2.0).snap().sharpness();
    let mut c = Cam::at(38.0, 25.0, 2.0);
    c.pass(2000);
    c.bench.write("scope", b"$X\n$20=0\nG91 G1 X0.5 F300\n");
    c.pass(50);
    let blurred = c.snap().sharpness();
    assert!(blurred < still * 0.7, "{blurred} {still}");
}

#[test]
fn orientation_is_configurable() {
    let straight = Cam::at(38.0, 25.0, 2.0).snap();
    let toml = hw_sim::MICROSCOPE_TOML
        .replace("start_mm = 40.0", "start_mm = 38.0")
        .replace("start_mm = 27.0", "start_mm = 25.0")
        .replace("start_mm = 3.0", "start_mm = 2.0");
    for (edit, map) in [
        (("flip_x = false", "flip_x = true"), (|x, y| (1023 - x, y)) as fn(usize, usize) -> (usize, usize)),
        (("flip_y = false", "flip_y = true"), |x, y| (x, 767 - y)),
        (("rotate = 0", "rotate = 180"), |x, y| (1023 - x, 767 - y)),
    ] {
        let turned = Cam::new(Bench::from_toml(&toml.replace(edit.0, edit.1)).expect("the bench")).snap();
        let mut off = 0;
        for y in (2..766).step_by(5) {
            for x in (2..1022).step_by(5) {
                let (u, v) = map(x, y);
                let (a, b) = (i32::from(straight.pixels[y * 1024 + x]), i32::from(turned.pixels[v * 1024 + u]));
                off += i32::from((a - b).abs() > 150);
            }
        }
        assert!(off < 200, "{edit:?}: {off}");
    }
    let quarter = Cam::new(Bench::from_toml(&toml.replace("rotate = 0", "rotate = 90")).expect("the bench")).snap();
    assert_ne!(quarter.pixels, straight.pixels);
}

#[test]
fn any_region_anywhere_can_be_rendered() {
    for (x, y, z) in [(-0.5, -0.5, -0.1), (75.5, 50.5, 4.2), (27.5, 15.0, 2.0), (47.5, 35.0, 1.9)] {
        let mut c = Cam::at(x, y, z);
        c.ask("SET roi=1008,752,16,16 binning=4");
        assert_eq!(c.snap().pixels.len(), 16);
        c.ask("SET roi=0,0,1024,768 binning=1 bits=16");
        let frame = c.snap();
        assert_eq!(frame.pixels.len(), 1024 * 768);
    }
}

#[test]
fn frames_can_be_lost_late_cut_and_garbled() {
    let mut c = Cam::at(38.0, 25.0, 2.0);
    c.ask("SET roi=0,0,64,64");
    let fault = |c: &mut Cam, f: Fault| c.bench.fault("cam", f).expect("possible");
    fault(&mut c, Fault::DropFrames { frames: 1 });
    c.ask("SNAP 1");
    assert!(c.pass(1000).is_empty());
    assert_eq!(c.snap().field("seq"), "2");
    fault(&mut c, Fault::TruncateFrame { bytes: 100 });
    c.ask("SNAP 2");
    let cut = c.pass(1000);
    let end = cut.iter().position(|b| *b == b'\n').expect("a header");
    assert_eq!(cut.len() - end - 1, 64 * 64 * 2 - 100);
    c.ask("SNAP 3");
    fault(&mut c, Fault::Late { ms: 500 });
    assert!(c.pass(400).is_empty());
    assert!(!c.pass(200).is_empty());
    c.ask("SNAP 4");
    fault(&mut c, Fault::Garble { bytes: 5 });
    assert!(!c.pass(1000).starts_with(b"FRAME"));
    fault(&mut c, Fault::Silence { on: true });
    assert_eq!(c.ask("ID?"), "");
    fault(&mut c, Fault::Silence { on: false });
    fault(&mut c, Fault::Reset);
    assert!(c.ask("GET").contains("roi=0,0,1024,768"));
}

#[test]
fn a_frame_is_made_fast_enough_for_a_live_view() {
    let mut c = Cam::at(38.0, 25.0, 2.0);
    let started = Instant::now();
    for i in 0..5 {
        c.bench.fault("scope", Fault::Nudge { axis: "x".into(), mm: 0.01 }).expect("possible");
        c.bench.write("cam", format!("SNAP {i}\n").as_bytes());
        c.pass(100);
    }
    // Generous: a busy machine, perhaps without optimisation.
    assert!(started.elapsed() < Duration::from_secs(5), "{:?} a frame", started.elapsed() / 5);
}
