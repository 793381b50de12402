//! What is done with any bytes from outside, and what must hold then: the bodies of the fuzz targets, which
//! `tests/corpora.rs` replays on what they have found.

use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rmcp::ServerHandler;
use steadyhand::config::{self, Condition, Rig, Type, Value, Vocabulary};
use steadyhand::devices::settings::{Controller, Order, Setting, SettingsEvent, Table};
use steadyhand::devices::{self, CameraEvent, Devices, link::memory::Far};
use steadyhand::flash::journal::Journal;
use steadyhand::flash::plan::plan;
use steadyhand::flash::profile::{Read, keeping};
use steadyhand::gateway::local::{Hello, Request};
use steadyhand::gateway::stdio::{self, Ending, StdioControl};
use steadyhand::model::Time;
use steadyhand::store;
use steadyhand::tools::ArgumentChecks;
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Runtime;

/// A target: its name, and what it does.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// All of them.
pub(crate) const TARGETS: [Target; 14] = [
    ("controller", controller),
    ("chain", chain),
    ("asi", asi),
    ("settings", settings),
    ("camera", camera),
    ("box", simio),
    ("rig_file", rig_file),
    ("rule", rule),
    ("profile", profile),
    ("journal", journal),
    ("client", client),
    ("arguments", arguments),
    ("local", local),
    ("log", log),
];

fn rig(text: &str) -> Arc<Rig> {
    let text = text.replace("@SCOPE@", "/dev/none").replace("@CAM@", "127.0.0.1:1").replace("@IO@", "127.0.0.1:2");
    match config::parse(&text, Path::new("example.toml"), &devices::known()) {
        Ok(rig) => Arc::new(rig),
        Err(problems) => panic!("{}", problems.render_plain()),
    }
}

/// A virtual moment, and the far end of a link on it.
struct Line {
    far: Far,
    now: Time,
}

impl Line {
    /// The devices of a rig, all behind one line.
    fn with(rig: &Arc<Rig>) -> (Line, Devices) {
        let far = Far::default();
        let made = devices::make(rig, &mut |_| far.connector("fuzz")).expect("devices of an example");
        (Line { far, now: Time::ZERO }, made)
    }

    /// Pieces of the input: the first byte of each tells its length, with `bits`, and when it comes.
    fn pieces(&mut self, data: &[u8], bits: u32, mut each: impl FnMut(&mut Line, u8, &[u8])) {
        let mut rest = data;
        while let [head, tail @ ..] = rest {
            let (piece, next) = tail.split_at(usize::from(head & ((1 << bits) - 1)).min(tail.len()));
            self.now = self.now + Duration::from_millis(1 << ((head >> 6) * 4));
            each(self, *head, piece);
            rest = next;
        }
    }
}

/// The frames of a protocol are the same wherever the bytes are cut, and take no more room than a few times theirs.
fn frames_are_the_same_in_pieces(driver: &str, data: &[u8]) {
    let whole = devices::frames(driver, &[data]).expect("a codec of its own");
    let single: Vec<&[u8]> = data.chunks(1).collect();
    assert_eq!(Some(&whole), devices::frames(driver, &single).as_ref());
    let cut = data.iter().map(|b| usize::from(*b)).sum::<usize>() % (data.len() + 1);
    assert_eq!(Some(&whole), devices::frames(driver, &[&data[..cut], &data[cut..]]).as_ref());
    // Each byte is a letter of Rust's escapes at most, and each frame has words around it.
    assert!(whole.iter().map(String::len).sum::<usize>() <= 10 * data.len() + 400 * whole.len());
}

// ---- devices ----------------------------------------------------------------------------------------------

/// Bytes from a controller, in pieces, against the GRBL driver: it may report what it likes, but not panic, and what it
/// sends is only what a driver sends.
pub(crate) fn controller(data: &[u8]) {
    static RIG: LazyLock<Arc<Rig>> = LazyLock::new(|| rig(include_str!("../../rigs/minimal.toml")));
    frames_are_the_same_in_pieces("grbl", data);
    let (mut line, mut made) = Line::with(&RIG);
    let (stage, mut events) = (&mut made.stages[0], Vec::new());
    stage.tick(line.now, &mut events);
    line.pieces(data, 6, |line, head, piece| {
        line.far.give(piece);
        stage.poll(line.now);
        stage.tick(line.now, &mut events);
        if head >= 0b1100_0000 {
            stage.stop(line.now);
        }
    });
    for byte in line.far.take() {
        assert!(byte.is_ascii_graphic() || b"\n\x18\x85".contains(&byte), "sent {byte:#x}");
    }
}

/// `body` with its checksum: what is well framed gets deeper.
fn summed(body: &[u8]) -> Vec<u8> {
    let sum = body.iter().fold(0_u8, |sum, b| sum.wrapping_add(*b)).wrapping_neg();
    [b"@", body, format!(":{sum:02X}\r\n").as_bytes()].concat()
}

/// Bytes from a chain of devices, in pieces, against the Zaber driver: it may report what it likes, but not panic, and
/// what it sends is only what asks or stops.
pub(crate) fn chain(data: &[u8]) {
    static RIG: LazyLock<Arc<Rig>> = LazyLock::new(|| rig(include_str!("../../rigs/zaber-chain.toml")));
    frames_are_the_same_in_pieces("zaber", data);
    let (mut line, mut made) = Line::with(&RIG);
    let mut events = Vec::new();
    for stage in &mut made.stages {
        stage.tick(line.now, &mut events);
    }
    line.pieces(data, 5, |line, head, piece| {
        if head & 32 == 0 {
            line.far.give(piece);
        } else {
            // An answer to what was asked last, with that text.
            let asked = line.far.take();
            let last = asked.split(|b| *b == b'\n').rfind(|l| l.starts_with(b"/")).unwrap_or_default();
            let text = String::from_utf8_lossy(last);
            let mut words = text.split(' ');
            let address = words.next().unwrap_or_default().trim_start_matches('/').parse::<u8>().unwrap_or(1);
            let (axis, id) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
            let begin = format!("{address:02} {axis} {id} ");
            line.far.give(&summed(&[begin.as_bytes(), piece].concat()));
            asks_or_stops(&asked);
        }
        for stage in &mut made.stages {
            stage.poll(line.now);
            stage.tick(line.now, &mut events);
        }
        if head >= 0b1100_0000 {
            made.stages[0].stop(line.now);
        }
    });
    asks_or_stops(&line.far.take());
}

fn asks_or_stops(sent: &[u8]) {
    for line in sent.split(|b| *b == b'\n') {
        let whole = line.rsplit(|b| *b == 0x7f).next().unwrap_or_default();
        let text = std::str::from_utf8(whole).expect("text");
        assert!(text.is_empty() || [" get ", " warnings", " stop:"].iter().any(|w| text.contains(w)), "sent {text:?}");
    }
}

/// Bytes from an ASI controller, in pieces, against its driver: no panic, and what it sends asks or stops.
pub(crate) fn asi(data: &[u8]) {
    static RIG: LazyLock<Arc<Rig>> = LazyLock::new(|| rig(include_str!("../../rigs/asi-xy.toml")));
    let (mut line, mut made) = Line::with(&RIG);
    let (stage, mut events) = (&mut made.stages[0], Vec::new());
    stage.tick(line.now, &mut events);
    line.pieces(data, 5, |line, head, piece| {
        line.far.give(piece);
        if head & 32 != 0 {
            line.far.give(b"\r\n");
        }
        stage.poll(line.now);
        stage.tick(line.now, &mut events);
        if head >= 0b1100_0000 {
            stage.stop(line.now);
        }
    });
    for sent in line.far.take().split(|b| *b == b'\r') {
        let text = std::str::from_utf8(sent).expect("text");
        let saves_or_moves = ["M ", "R ", "SS", "S ", "HERE", "H ", "Z", "!"].iter().any(|w| text.starts_with(w));
        assert!(!saves_or_moves || text.contains('?'), "sent {text:?}");
    }
}

/// Bytes from a controller whose settings are read and written, in pieces, against the conversation of the driver that
/// the first byte picks: no panic, one answer to an order and of its kind, nothing written that wasn't ordered, and nothing
/// done that the controller hasn't acknowledged.
pub(crate) fn settings(data: &[u8]) {
    let [head, data @ ..] = data else { return };
    let (driver, name, value, yes, writes) = [
        ("grbl", "$110", "123.000", &b"ok"[..], "="),
        ("zaber", "1.maxspeed", "12345", b" OK ", " set "),
        ("asi", "S X", "1.250000", b":A", "="),
    ][usize::from(head % 3)];
    let write = Order::Write { name: name.into(), value: value.into() };
    let orders = [Order::Identify, Order::Read, write.clone(), Order::Save, Order::Restart, Order::Read, write];
    let mut line = Line { far: Far::default(), now: Time::ZERO };
    line.far.wire_dtr(head & 0x80 == 0);
    let mut desk = (keeping(driver).expect("it has settings").open)(line.far.connector("fuzz"), 1);
    let (mut events, mut heard, mut at) = (Vec::new(), Vec::new(), 0);
    desk.order(orders[at].clone(), line.now);
    line.pieces(data, 6, |line, _, piece| {
        // What was due in the meantime; what it has heard may let it ask, and ask again.
        for i in 0..8 {
            if i == 4 {
                line.far.give(piece);
                heard.extend_from_slice(piece);
            }
            desk.tick(line.now, &mut events);
            line.now = line.now + Duration::from_millis(1);
        }
        let order = &orders[at % orders.len()];
        let sent = String::from_utf8_lossy(&line.far.take()).into_owned();
        let written = matches!(order, Order::Write { .. });
        assert!(written || !sent.contains(writes), "{order:?} sent {sent:?}");
        events.retain(|e| !matches!(e, SettingsEvent::NoPort(_)));
        assert!(events.len() <= 1, "{order:?}: {events:?}");
        let Some(event) = events.pop() else { return };
        let fits = match (&event, order) {
            (SettingsEvent::Known(_), order) => *order == Order::Identify,
            (SettingsEvent::Table(_), order) => *order == Order::Read,
            (SettingsEvent::Done, Order::Write { .. }) => heard.windows(yes.len()).any(|w| w == yes),
            (SettingsEvent::Done, order) => !matches!(order, Order::Identify | Order::Read),
            _ => true,
        };
        assert!(fits, "{order:?} was answered by {event:?}");
        at += 1;
        heard.clear();
        desk.order(orders[at % orders.len()].clone(), line.now);
    });
}

const HELLO: &[u8] = b"OK simcam 1 model=M serial=S width=4 height=2 bits=12\n\
OK exposure_ms=1.0 gain=1.0 roi=0,0,4,2 binning=1 bits=12 temperature_c=20\nOK SNAP 1\n";

static DEMO: LazyLock<Arc<Rig>> = LazyLock::new(|| rig(include_str!("../../rigs/demo.toml")));

/// Bytes from a camera, in pieces, against the simulated camera's driver: no panic, and no frame whose size isn't what
/// its header says.
pub(crate) fn camera(data: &[u8]) {
    let (mut line, mut made) = Line::with(&DEMO);
    let (camera, mut events) = (&mut made.cameras[0], Vec::new());
    for piece in HELLO.split_inclusive(|b| *b == b'\n') {
        camera.tick(line.now, &mut events);
        line.now = line.now + Duration::from_millis(1);
        line.far.give(piece);
        camera.tick(line.now, &mut events);
        camera.tick(line.now, &mut events);
        if piece.starts_with(b"OK exposure") {
            camera.shoot(line.now);
        }
    }
    for piece in data.chunks(97) {
        line.now = line.now + Duration::from_millis(5);
        line.far.give(piece);
        camera.tick(line.now, &mut events);
    }
    for event in events {
        if let CameraEvent::Frame(frame) = event {
            let [h, w] = frame.pixels.shape();
            assert!(h * w <= data.len());
        }
    }
}

/// Bytes from a box of outputs and sensors, in pieces: no panic, and nothing is set that nobody ordered.
pub(crate) fn simio(data: &[u8]) {
    let (mut line, mut made) = Line::with(&DEMO);
    let (mut outputs, mut sensors) = (Vec::new(), Vec::new());
    line.pieces(data, 6, |line, _, piece| {
        line.far.give(piece);
        for output in &mut made.outputs {
            output.tick(line.now, &mut outputs);
        }
        for sensor in &mut made.sensors {
            sensor.tick(line.now, &mut sensors);
        }
    });
    assert!(!line.far.take().windows(4).any(|w| w == b"SET "));
}

// ---- files and texts --------------------------------------------------------------------------------------

/// Any text as a rig file: a rig or problems that can be drawn, and no panic.
pub(crate) fn rig_file(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Err(problems) = config::parse(text, Path::new("rig.toml"), &devices::known()) {
        assert!(!problems.list.is_empty());
        assert!(!problems.render(false).is_empty() && !problems.render_plain().is_empty());
    }
}

/// Any text as a profile: problems that can be drawn, or a profile, which is held against a controller; what comes of that
/// is within what the settings may be, and no danger was allowed that nobody named.
pub(crate) fn profile(data: &[u8]) {
    static TABLE: LazyLock<Table> = LazyLock::new(|| {
        let known = keeping("grbl").expect("it has settings");
        let has = "$0=10 $1=255 $3=0 $11=0.010 $13=0 $20=1 $21=0 $22=1 $23=0 $24=25.000 $25=500.000 $26=250 $27=1.000 \
                   $100=400.000 $101=400.000 $110=600.000 $111=600.000 $120=50.000 $121=50.000 $130=75.000 $131=50.000";
        let setting = |text: &str| {
            let (name, value) = text.split_once('=').expect("a setting");
            let meaning = (known.meaning)(name).expect("known");
            Setting { name: name.into(), value: value.into(), meaning }
        };
        Table::new(has.split(' ').map(setting).collect()).expect("a table")
    });
    let Ok(text) = std::str::from_utf8(data) else { return };
    let read = match Read::parse(text, Path::new("profile.toml")) {
        Ok(read) => read,
        Err(problems) => return assert!(!problems.list.is_empty() && !problems.render(false).is_empty()),
    };
    let Some(keeping) = keeping(&read.profile.driver) else { panic!("{text}") };
    let who = Controller {
        model: "Grbl".into(),
        firmware: "1.1h".into(),
        axes: vec!["X".into(), "Y".into()],
        ..<_>::default()
    };
    match plan(&read, keeping, &who, &TABLE, Some("X"), &[]) {
        Ok(plan) => {
            assert!(plan.allowed.is_empty());
            for change in &plan.changes {
                let within = |n: f64| change.meaning.range.is_none_or(|[low, high]| low <= n && n <= high);
                assert!(change.new.parse::<f64>().map_or(true, within), "{change:?}");
            }
        }
        Err(problems) => assert!(!problems.list.is_empty() && !problems.render(false).is_empty()),
    }
}

/// Any text as the journal of a change of settings: refused in words, or one that is the same when it is written again.
pub(crate) fn journal(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match Journal::parse(text) {
        Ok(journal) => {
            let again = Journal::parse(&journal.render()).expect("what was written by ourselves");
            assert_eq!(again.render(), journal.render());
        }
        Err(what) => assert!(!what.is_empty()),
    }
}

/// Any text as the condition of a rule, with numbers behind a zero byte for its words: a condition that answers for any
/// values, or a flaw within the text.
pub(crate) fn rule(data: &[u8]) {
    static WORDS: LazyLock<Vocabulary> =
        LazyLock::new(|| Vocabulary::of(&rig(include_str!("../../rigs/interlocks.toml")), true));
    let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let Ok(text) = std::str::from_utf8(&data[..end]) else { return };
    let numbers: Vec<f64> =
        data[end..].get(1..).unwrap_or_default().as_chunks::<8>().0.iter().map(|b| f64::from_le_bytes(*b)).collect();
    match Condition::compile(text, &WORDS) {
        Ok(condition) => {
            let of = |(i, r): (usize, &config::Reads)| {
                let word = WORDS.word(&r.name)?;
                let number = numbers.get(i).copied().filter(|v| v.abs() <= 1e12)?;
                Some(match word.of {
                    Type::Number => Value::Number(number),
                    Type::Text => Value::Text(word.texts.first().map_or("", String::as_str).into()),
                    Type::Flag => Value::Flag(number > 0.0),
                })
            };
            let values: Vec<Option<Value>> = condition.reads().iter().enumerate().map(of).collect();
            let known = values.iter().all(Option::is_some);
            let answer = condition.holds(&values);
            // All that was checked answers once all is known.
            assert!(answer.is_ok() || !known, "{text}");
        }
        Err(flaw) => assert!(flaw.at.end <= text.len() && !flaw.message.is_empty() && !flaw.remedy.is_empty()),
    }
}

/// Any bytes as an audit log, the first of them saying whether there is a record of its end: it is judged and shown, and
/// every line of it is counted.
pub(crate) fn log(data: &[u8]) {
    static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));
    let [head, text @ ..] = data else { return };
    // Two threads of one test would write each other's.
    let dir = FOLDER.path().join(format!("{:?}", std::thread::current().id()));
    std::fs::create_dir_all(&dir).expect("a folder");
    let (newest, log) = (dir.join("newest.json"), dir.join("2026-11-30.jsonl"));
    let (record, text) = if head & 1 == 1 { text.split_at(text.len() / 4) } else { (&[][..], text) };
    if head & 1 == 1 {
        std::fs::write(&newest, record).expect("a record");
    } else {
        drop(std::fs::remove_file(&newest));
    }
    std::fs::write(&log, text).expect("a log");
    let verified = store::verify(&dir, &[], head & 2 == 2).expect("a log that can be read");
    let lines = text.split_inclusive(|b| *b == b'\n').count();
    assert_eq!(verified.lines, lines as u64);
    assert!(verified.breaks.len() <= 50 && verified.breaks.iter().all(|b| b.line <= verified.lines));
    if let Ok(events) = store::events_in(&dir) {
        assert!(events.len() <= lines);
    }
}

// ---- those who ask ----------------------------------------------------------------------------------------

#[derive(Clone)]
struct Nothing;

impl ServerHandler for Nothing {}

/// Bytes from a client against the stdio gateway: the session ends with its input, and every line that comes out is
/// JSON-RPC.
pub(crate) fn client(data: &[u8]) {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"));
    let input = std::io::Cursor::new(data.to_vec());
    let out = RUNTIME.block_on(async {
        let (mut near, far) = tokio::io::duplex(1 << 22);
        let control = StdioControl { ending: Ending::new(|| ()), still: Box::pin(std::future::ready(true)) };
        stdio::serve(Nothing, input, far, control).await;
        let mut out = Vec::new();
        near.read_to_end(&mut out).await.expect("the output");
        out
    });
    for line in out.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let message: serde_json::Value = serde_json::from_slice(line).expect("JSON");
        assert_eq!(message["jsonrpc"], "2.0");
    }
}

/// Any JSON as the arguments of a tool, which the first byte picks: they are taken, and then are good once more as they
/// are, or refused in words that a terminal can show.
pub(crate) fn arguments(data: &[u8]) {
    static CHECKS: LazyLock<ArgumentChecks> = LazyLock::new(|| ArgumentChecks::of(&DEMO));
    let [head, text @ ..] = data else { return };
    let tool = CHECKS.tools()[usize::from(*head) % CHECKS.tools().len()];
    let Ok(serde_json::Value::Object(given)) = serde_json::from_slice(text) else { return };
    match CHECKS.check(tool, given) {
        Ok(taken) => {
            assert!(!mentions_nan(&taken));
            let serde_json::Value::Object(again) = taken.clone() else { panic!("{taken}") };
            assert_eq!(CHECKS.check(tool, again).as_ref(), Ok(&taken));
        }
        Err(what) => {
            assert!(!what.is_empty() && !what.contains(|c: char| c.is_control()), "{what:?}");
            assert!(what.len() < 16 * 1024, "{} bytes", what.len());
        }
    }
}

/// A null is what a workflow's NaN becomes in JSON.
fn mentions_nan(value: &serde_json::Value) -> bool {
    match value {
        serde_json::Value::Null => true,
        serde_json::Value::Array(all) => all.iter().any(mentions_nan),
        serde_json::Value::Object(all) => all.values().any(mentions_nan),
        _ => false,
    }
}

/// A line over the local socket: a session's first words, or a request, of which one that wants a stop is a stop
/// whatever else is wrong with it, and each is what it is when it is said again.
pub(crate) fn local(data: &[u8]) {
    drop(serde_json::from_slice::<Hello>(data));
    let read = Request::read(data);
    let wants =
        serde_json::from_slice::<serde_json::Value>(data).ok().and_then(|v| Some(v["want"].as_str()?.to_owned()));
    if wants.is_some_and(|w| w.trim().eq_ignore_ascii_case("stop")) {
        assert!(matches!(read, Ok(Request::Stop { .. })), "{read:?}");
    }
    if let Ok(request) = read {
        let line = serde_json::to_vec(&request).expect("JSON");
        let again = Request::read(&line).expect("what was said by ourselves");
        assert_eq!(std::mem::discriminant(&again), std::mem::discriminant(&request));
    }
}
