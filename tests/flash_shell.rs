//! `steadyhand flash` as a person runs it: real processes on a simulated controller's pseudo-terminal.
#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "another process writes in real time here")]

mod process;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use hw_sim::serve::Running;
use process::{Server, bench, signal, steadyhand};
use rustix::process::Signal;
use serde_json::{Value, json};

const PROFILE: &str = "[profile]\nname = \"a test\"\nsource = \"this test\"\ndriver = \"grbl\"\nfirmware = \"1.1\"\n\n\
                       [settings]\n\"$11\" = 0.02\n\"$24\" = 50\n\"$100\" = 320\n\"$101\" = 330\n\"$110\" = 1000\n\"$120\" = 150\n";

/// A person at a shell, with a controller on a port.
struct Shop {
    folder: tempfile::TempDir,
    bench: Running,
    port: String,
}

impl Shop {
    fn new() -> Shop {
        let folder = tempfile::tempdir().expect("a folder");
        let bench = bench(folder.path());
        let port = bench.paths().into_iter().find(|(id, _)| id == "scope").expect("a port").1;
        fs::write(folder.path().join("profile.toml"), PROFILE).expect("written");
        Shop { folder, bench, port }
    }

    fn flash(&self, more: &[&str]) -> Output {
        self.command(more).output().expect("the program runs")
    }

    fn command(&self, more: &[&str]) -> std::process::Command {
        let mut command = steadyhand(self.folder.path());
        command.env("XDG_DATA_HOME", self.folder.path().join("data")).arg("flash").args(more).stdin(Stdio::null());
        command
    }

    fn settings(&self) -> Value {
        let said = self.bench.with_bench(|b| b.control(r#"{"cmd": "settings", "device": "scope"}"#));
        serde_json::from_str(&said).expect("settings")
    }

    fn fault(&self, what: &str) {
        let request = format!(r#"{{"cmd": "fault", "device": "scope", {what}}}"#);
        let said = self.bench.with_bench(|b| b.control(&request));
        assert!(said.contains("ok"), "{said}");
    }

    fn open_journals(&self) -> Vec<PathBuf> {
        let folder = self.folder.path().join("data/steadyhand/controllers.d/open");
        // One that is being written has another name until it is whole.
        let is = |p: &PathBuf| p.extension().is_some_and(|e| e == "toml");
        fs::read_dir(folder)
            .map(|list| list.map(|e| e.expect("an entry").path()).filter(is).collect())
            .unwrap_or_default()
    }
}

/// With single blanks.
fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_technician_looks_writes_and_goes_back() {
    let shop = Shop::new();
    let before = shop.settings();
    let looked = shop.flash(&["profile.toml", "--port", &shop.port, "--dry-run"]);
    let told = text(&looked.stderr);
    assert!(looked.status.success(), "{told}");
    assert!(
        plain(&told).contains("$100 400.000 320.000 steps/mm") && told.contains("6 of 36 settings change"),
        "{told}"
    );
    assert_eq!(shop.settings(), before, "nothing was written");

    // Nobody is there to say yes.
    let silent = shop.flash(&["profile.toml", "--port", &shop.port]);
    assert_eq!(silent.status.code(), Some(1));
    assert!(text(&silent.stderr).contains("--yes"), "{}", text(&silent.stderr));
    assert_eq!(shop.settings(), before);

    // A pseudo-terminal has no line that restarts a board: the settings are there, but that is not proved.
    let written = shop.flash(&["profile.toml", "--port", &shop.port, "--yes", "--json"]);
    assert_eq!(written.status.code(), Some(4), "{}", text(&written.stderr));
    let told: Value = serde_json::from_slice(&written.stdout).expect("JSON");
    assert_eq!((&told["outcome"]["state"], &told["outcome"]["proved"]), (&json!("new"), &json!(false)), "{told}");
    assert_eq!(
        told["changes"][0],
        json!({"setting": "$11", "what": "junction deviation", "unit": "mm", "now": "0.010", "new": "0.020"})
    );
    let backup = told["backup"].as_str().expect("a backup").to_owned();
    assert_eq!((&shop.settings()["$100"], &shop.settings()["$24"]), (&json!("320.000"), &json!("50.000")));
    assert_eq!(shop.open_journals(), [] as [PathBuf; 0]);
    assert!(Path::new(&backup).with_extension("log").exists(), "what was done is on record");

    // Nor does the same command prove it before the power was off, whatever is there.
    for more in [&["--yes"][..], &["--dry-run"]] {
        let again = shop.flash(&[&["profile.toml", "--port", &shop.port], more].concat());
        assert_eq!(again.status.code(), Some(4), "{}", text(&again.stderr));
    }
    shop.fault(r#""fault": "reset""#);
    std::thread::sleep(Duration::from_secs(1));
    let again = shop.flash(&["profile.toml", "--port", &shop.port, "--yes", "--restarted"]);
    assert!(
        again.status.success() && text(&again.stderr).contains("has these settings already"),
        "{}",
        text(&again.stderr)
    );

    let back = shop.flash(&["--restore", &backup, "--yes"]);
    assert_eq!(back.status.code(), Some(4), "{}", text(&back.stderr));
    assert_eq!(shop.settings(), before);

    let differs = shop.flash(&["diff", "profile.toml", &backup]);
    assert_eq!(differs.status.code(), Some(1));
    assert!(text(&differs.stdout).contains("320"), "{}", text(&differs.stdout));
    let dumped = shop.flash(&["dump", "--port", &shop.port]);
    fs::write(shop.folder.path().join("dumped.toml"), &dumped.stdout).expect("written");
    let same = shop.flash(&["dumped.toml", "--port", &shop.port, "--yes"]);
    assert!(same.status.code() == Some(4) && text(&same.stderr).contains("already"), "{}", text(&same.stderr));
}

/// A run whose journal is there.
fn under_way(shop: &Shop) -> std::process::Child {
    let mut command = shop.command(&["profile.toml", "--port", &shop.port, "--yes"]);
    let child = command.stderr(Stdio::null()).spawn().expect("it starts");
    let begun = Instant::now();
    while shop.open_journals().is_empty() && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

/// A run that is killed once its journal is there.
fn cut_off(shop: &Shop) {
    for _ in 0..20 {
        let mut child = under_way(shop);
        child.kill().expect("killed");
        child.wait().expect("dead");
        if !shop.open_journals().is_empty() {
            return;
        }
    }
    panic!("no run was cut off");
}

#[test]
fn a_memory_that_keeps_nothing_is_not_taken_for_one_that_does() {
    let shop = Shop::new();
    let before = shop.settings();
    shop.fault(r#""fault": "store_dead", "on": true"#);
    let run = |more: &[&str]| shop.flash(&[&["profile.toml", "--port", &shop.port], more].concat());
    assert_eq!(run(&["--yes"]).status.code(), Some(4));
    assert_eq!(run(&["--yes"]).status.code(), Some(4), "it was not off in between");
    shop.fault(r#""fault": "reset""#);
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(shop.settings(), before);
    let told = text(&run(&["--yes", "--restarted", "--dry-run"]).stderr);
    assert!(told.contains("6 of 36 settings change"), "{told}");
}

#[test]
fn a_change_that_was_cut_off_goes_on_under_another_name_of_the_port_and_into_no_other_controller() {
    let mut shop = Shop::new();
    let link = shop.folder.path().join("by-id");
    let real = std::mem::replace(&mut shop.port, link.display().to_string());
    std::os::unix::fs::symlink(&real, &link).expect("a link");
    let looked = shop.flash(&["profile.toml", "--port", &shop.port, "--dry-run", "--json"]);
    let told: Value = serde_json::from_slice(&looked.stdout).expect("JSON");
    let backup = told["backup"].as_str().expect("a backup").to_owned();
    cut_off(&shop);
    // Another board answers at that name now, as at the name of an adapter that was plugged in elsewhere.
    let text_of = hw_sim::MICROSCOPE_TOML
        .replace("\"$100\" = 400", "\"$100\" = 250")
        .replace("\"$111\" = 1200", "\"$111\" = 500");
    assert_ne!(text_of, hw_sim::MICROSCOPE_TOML);
    let other = Running::start(hw_sim::Bench::from_toml(&text_of).expect("a bench"), hw_sim::serve::Options::default())
        .expect("a bench");
    let elsewhere = other.paths().into_iter().find(|(id, _)| id == "scope").expect("a port").1;
    let moved = |to: &str| {
        fs::remove_file(&link).expect("removed");
        std::os::unix::fs::symlink(to, &link).expect("a link");
    };
    moved(&elsewhere);
    let refused = shop.flash(&["--resume", "--yes"]);
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("it may be another controller"), "{}", text(&refused.stderr));
    assert_eq!(shop.open_journals().len(), 1, "it stays open");
    let now = other.with_bench(|b| b.control(r#"{"cmd": "settings", "device": "scope"}"#));
    assert!(now.contains("250.000") && !now.contains("320.000"), "{now}");
    // The right one is back, under another name of the system's.
    moved(&real);
    fs::rename(&shop.open_journals()[0], shop.open_journals()[0].with_file_name("dev-ttyUSB7-1.toml"))
        .expect("renamed");
    let resumed = shop.flash(&["--resume", "--yes"]);
    assert_eq!(resumed.status.code(), Some(4), "{}", text(&resumed.stderr));
    assert_eq!(shop.open_journals(), [] as [PathBuf; 0]);
    assert_eq!(shop.settings()["$120"], "150.000");
    // A backup of a controller without a number doesn't go into it either, unless a person says that it is the one.
    let restored = shop.flash(&["--restore", &backup, "--port", &elsewhere, "--yes"]);
    assert!(text(&restored.stderr).contains("--allow other-controller"), "{}", text(&restored.stderr));
    assert_eq!(restored.status.code(), Some(1));
}

#[test]
fn what_was_only_in_working_memory_is_not_kept_along() {
    let folder = tempfile::tempdir().expect("a folder");
    let bench =
        Running::start(hw_sim::Bench::from_toml(hw_sim::ASI_TOML).expect("a bench"), hw_sim::serve::Options::default())
            .expect("a bench");
    let port = bench.paths().into_iter().find(|(id, _)| id == "scope").expect("a port").1;
    fs::write(
        folder.path().join("profile.toml"),
        "[profile]\nname = \"a test\"\nsource = \"this test\"\ndriver = \"asi\"\n[axis.Z.settings]\nS = 1.5\n",
    )
    .expect("written");
    let shop = Shop { folder, bench, port };
    let stored = || shop.bench.with_bench(|b| b.stored("scope", 1));
    let before = stored();
    let of =
        |table: &[(String, String)], name: &str| table.iter().find(|(n, _)| n == name).expect("a setting").1.clone();
    // A server, or a person at the joystick, has set another speed.
    let mut line = fs::OpenOptions::new().write(true).open(&shop.port).expect("the port");
    for _ in 0..3 {
        line.write_all(b"S X=0.9\r").expect("written");
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(line);
    let written = shop.flash(&["profile.toml", "--port", &shop.port, "--yes", "--json"]);
    assert!(written.status.success(), "{}", text(&written.stderr));
    assert!(
        text(&written.stderr).contains("its working memory was not kept: S X was 0.9"),
        "{}",
        text(&written.stderr)
    );
    let after = stored();
    assert_eq!(of(&after, "S X"), of(&before, "S X"), "it is as it was kept");
    assert_eq!(of(&after, "S Z").parse::<f64>().ok(), Some(1.5));
    let told: Value = serde_json::from_slice(&written.stdout).expect("JSON");
    let backup = fs::read_to_string(told["backup"].as_str().expect("a backup")).expect("read");
    assert!(!backup.contains("0.9"), "the backup has what outlived the power: {backup}");
}

#[test]
fn of_two_at_once_the_second_is_told_of_the_first() {
    let shop = Shop::new();
    let mut first = under_way(&shop);
    for arguments in [&["profile.toml", "--port", &shop.port, "--yes"][..], &["--resume", "--yes"]] {
        let second = shop.flash(arguments);
        let told = text(&second.stderr);
        if first.try_wait().expect("asked").is_some() {
            break;
        }
        assert_eq!(second.status.code(), Some(1), "{told}");
        assert!(told.contains(&format!("being changed already, by process {}", first.id())), "{told}");
    }
    assert_eq!(first.wait().expect("ended").code(), Some(4), "it was not disturbed");
}

#[test]
fn a_run_that_is_killed_anywhere_is_finished_and_meanwhile_no_server_opens_the_port() {
    let shop = Shop::new();
    let before = shop.settings();
    let looked = shop.flash(&["profile.toml", "--port", &shop.port, "--dry-run", "--backup-dir", "kept", "--json"]);
    let told: Value = serde_json::from_slice(&looked.stdout).expect("JSON");
    let kept = told["backup"].as_str().expect("a backup").to_owned();
    let mut cut_off = 0;
    for round in 0..12_u64 {
        let mut child = shop
            .command(&["profile.toml", "--port", &shop.port, "--yes"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(120 + 90 * round));
        child.kill().expect("killed");
        child.wait().expect("dead");
        if shop.open_journals().is_empty() {
            let now = shop.settings();
            assert!(now == before || now["$120"] == "150.000", "without a journal it is untouched or done: {now}");
        } else {
            cut_off += 1;
            if cut_off == 1 {
                refused_by_a_server(&shop);
                let second = shop.flash(&["profile.toml", "--port", &shop.port, "--yes"]);
                assert_eq!(second.status.code(), Some(1));
                assert!(text(&second.stderr).contains("--resume"), "{}", text(&second.stderr));
            }
            let resumed = shop.flash(&["--resume", "--yes"]);
            assert_eq!(resumed.status.code(), Some(4), "{}", text(&resumed.stderr));
            assert_eq!(shop.open_journals(), [] as [PathBuf; 0]);
            assert_eq!(shop.settings()["$120"], "150.000");
        }
        let back = shop.flash(&["--restore", &kept, "--yes"]);
        assert!(matches!(back.status.code(), Some(0 | 4)), "{}", text(&back.stderr));
        assert_eq!(shop.settings(), before);
    }
    assert!(cut_off >= 2, "some kills came in the middle: {cut_off}");
}

fn refused_by_a_server(shop: &Shop) {
    let mut command = steadyhand(shop.folder.path());
    command.args(["--data-dir", "data"]).env("XDG_DATA_HOME", shop.folder.path().join("data"));
    let mut server = Server::start(&mut command, shop.folder.path());
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let told = server.call("diagnose", json!({})).to_string();
        if told.contains("flash --resume") {
            break;
        }
        assert!(Instant::now() < end, "{told}");
        std::thread::sleep(Duration::from_millis(100));
    }
    let refused = server.call("move_by", json!({"stage": "scope", "offsets": {"x": 1.0}, "from_epoch": 0}));
    assert_eq!(refused["isError"], true, "{refused}");
}

#[test]
fn a_server_lends_its_port_and_takes_it_back() {
    let shop = Shop::new();
    let mut command = steadyhand(shop.folder.path());
    command.args(["--data-dir", "data"]).env("XDG_DATA_HOME", shop.folder.path().join("data"));
    let mut server = Server::start(&mut command, shop.folder.path());
    let ready = |server: &mut Server| {
        let end = Instant::now() + Duration::from_secs(20);
        while server.call("get_state", json!({}))["structuredContent"]["stages"][0]["activity"] != "idle" {
            assert!(Instant::now() < end, "{}", server.call("get_state", json!({})));
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    ready(&mut server);
    let written = shop.flash(&["profile.toml", "--port", &shop.port, "--yes"]);
    let told = text(&written.stderr);
    assert_eq!(written.status.code(), Some(4), "{told}");
    assert_eq!(shop.settings()["$100"], "320.000");
    ready(&mut server);
}

#[test]
fn who_ends_a_run_gets_the_old_settings_back() {
    let shop = Shop::new();
    let before = shop.settings();
    let mut went_back = 0;
    for round in 0..8_u64 {
        let child = shop
            .command(&["profile.toml", "--port", &shop.port, "--yes"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        std::thread::sleep(Duration::from_millis(250 + 130 * round));
        // One that has ended already is still a child that nobody has waited for.
        signal(Signal::INT, &child);
        let ended = child.wait_with_output().expect("ended");
        let told = text(&ended.stderr);
        assert_eq!(shop.open_journals(), [] as [PathBuf; 0], "{told}");
        match ended.status.code() {
            // The end came too late, or too early.
            Some(4) => {
                let backup = told.split("kept in ").nth(1).and_then(|t| t.split(".toml").next()).expect("a backup");
                assert_eq!(shop.flash(&["--restore", &format!("{backup}.toml"), "--yes"]).status.code(), Some(4));
            }
            Some(1) => {
                went_back += u32::from(told.contains("OLD settings"));
            }
            other => panic!("{other:?}: {told}"),
        }
        assert_eq!(shop.settings(), before, "{told}");
    }
    assert!(went_back > 0, "some ends came in the middle");
}
