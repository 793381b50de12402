//! What the audit log promises: in order, whole, newest first, over restarts, and never in anybody's way.

use std::collections::BTreeMap;

use super::*;
use crate::model::Name;
use serde_json::json;

const SOON: Duration = Duration::from_secs(20);

fn event(kind: &'static str, what: &str) -> Event {
    Event { kind, device: Some(Name::new("sample")), caller: None, what: what.into(), facts: BTreeMap::new() }
}

/// The log's files, the oldest first.
fn log_files(dir: &Path) -> Vec<PathBuf> {
    past::log_files(dir).unwrap().iter().map(|(day, part)| dir.join(past::file_name(day, *part))).collect()
}

fn only_file(dir: &Path) -> PathBuf {
    let [file] = &log_files(dir)[..] else { panic!("not one file") };
    file.clone()
}

fn lines(dir: &Path) -> Vec<Value> {
    let texts = log_files(dir).iter().map(|f| std::fs::read_to_string(f).unwrap()).collect::<Vec<_>>();
    texts.iter().flat_map(|t| t.lines()).filter(|l| !l.is_empty()).map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn whats(log: &EventLog, limit: usize) -> Vec<String> {
    log.recent(&EventFilter::default(), 0, limit).0.into_iter().map(|e| e.what).collect()
}

#[test]
fn a_receipt_says_written_when_the_line_is_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    let (woken, wait) = sync_channel(8);
    log.notify(move || woken.try_send(()).unwrap_or_default());
    let mut facts = BTreeMap::new();
    facts.insert("target_mm", json!(12.5));
    let intent = Event { caller: Some("stdio-1".into()), facts, ..event("intent", "move x to 12.5 mm") };
    let receipt = log.append(intent).unwrap();
    wait.recv_timeout(SOON).unwrap();
    assert_eq!(receipt.written(), Written::Yes);
    let all = lines(dir.path());
    assert_eq!(all.len(), 1);
    let line = &all[0];
    assert_eq!((&line["seq"], &line["kind"], &line["device"]), (&json!(1), &json!("intent"), &json!("sample")));
    assert_eq!((&line["caller"], &line["target_mm"]), (&json!("stdio-1"), &json!(12.5)));
    let t = line["t"].as_str().unwrap();
    assert!(t.len() == 24 && t.ends_with('Z') && t.parse::<Timestamp>().is_ok(), "{t}");
    let text = std::fs::read_to_string(only_file(dir.path())).unwrap();
    assert!(text.starts_with("{\"t\":\"") && text.ends_with("}\n"), "{text}");
}

#[test]
fn dropping_the_log_writes_what_waits_and_the_numbers_go_on_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    for run in 0..3 {
        let log = EventLog::open(dir.path()).unwrap();
        for n in 0..100 {
            log.append(event("outcome", &format!("{run}-{n}"))).unwrap();
        }
    }
    let seqs: Vec<_> = lines(dir.path()).iter().map(|l| l["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=300).collect::<Vec<_>>());
}

#[test]
fn events_of_earlier_runs_are_listed_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    EventLog::open(dir.path()).unwrap().append(event("stop", "earlier")).unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    log.append(event("fault", "later")).unwrap();
    log.append(Event { device: None, ..event("stop", "last") }).unwrap();
    assert!(log.flush(SOON));
    assert_eq!(whats(&log, 10), ["last", "later", "earlier"]);
    let only = |kind: Option<&str>, device: Option<&str>| EventFilter {
        kind: kind.map(Into::into),
        device: device.map(Into::into),
    };
    let (stops, total) = log.recent(&only(Some("stop"), None), 1, 1);
    assert_eq!((stops[0].what.as_str(), total), ("earlier", 2));
    assert_eq!(log.recent(&only(Some("stop"), Some("sample")), 0, 9).1, 1);
    assert_eq!(log.recent(&EventFilter::default(), 3, 9), (vec![], 3));
}

#[test]
fn a_line_that_a_crash_cut_off_spoils_no_other() {
    let dir = tempfile::tempdir().unwrap();
    EventLog::open(dir.path()).unwrap().append(event("stop", "whole")).unwrap();
    let file = only_file(dir.path());
    let text = std::fs::read_to_string(&file).unwrap() + "{\"t\":\"2026-11-30T1";
    std::fs::write(&file, text).unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    log.append(event("stop", "after")).unwrap();
    assert!(log.flush(SOON));
    let [after, torn, whole] = &whats(&log, 9)[..] else { panic!("three") };
    assert_eq!((after.as_str(), whole.as_str()), ("after", "whole"));
    assert!(torn.contains("was cut off"), "{torn}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert_eq!(text.lines().filter(|l| serde_json::from_str::<LoggedEvent>(l).is_ok()).count(), 3);
}

#[test]
fn nothing_a_device_says_reaches_a_terminal_as_a_command() {
    let dir = tempfile::tempdir().unwrap();
    let nasty = "\u{1b}[2J\u{7f}\u{9b}31m\r\n\u{2028}\u{202e}\0 µ";
    let mut facts = BTreeMap::new();
    facts.insert("seq", json!("mine"));
    let log = EventLog::open(dir.path()).unwrap();
    log.append(Event { facts, ..event("fault", nasty) }).unwrap();
    drop(log);
    let file = only_file(dir.path());
    let text = std::fs::read_to_string(file).unwrap();
    let body = text.strip_suffix('\n').unwrap();
    assert!(!body.chars().any(|c| c.is_control() || matches!(c, '\u{2028}' | '\u{202e}')), "{body:?}");
    let read: LoggedEvent = serde_json::from_str(body).unwrap();
    assert_eq!((read.what.as_str(), read.seq, &read.facts["fact_seq"]), (nasty, 1, &json!("mine")));
}

#[test]
fn a_file_that_is_full_is_followed_by_another() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..2 {
        let log = EventLog::with_file_size(dir.path(), 2_000).unwrap();
        for n in 0..40 {
            log.append(event("outcome", &format!("number {n} {}", "x".repeat(60)))).unwrap();
            assert!(log.flush(SOON));
        }
        assert_eq!(whats(&log, 1)[0].split(' ').nth(1), Some("39"));
    }
    let files = log_files(dir.path());
    assert!(files.len() >= 4, "{}", files.len());
    assert!(files.iter().all(|f| f.metadata().unwrap().len() <= 2_000));
    let log = EventLog::open(dir.path()).unwrap();
    let seqs: Vec<_> = log.recent(&EventFilter::default(), 0, 100).0.iter().map(|e| e.seq).collect();
    assert_eq!(seqs, (1..=80).rev().collect::<Vec<_>>());
}

#[test]
fn a_file_that_cannot_be_written_is_said_and_what_was_kept_follows_when_it_can() {
    let dir = tempfile::tempdir().unwrap();
    let audit = dir.path().join("audit");
    let log = EventLog::with_file_size(&audit, 1).unwrap();
    log.append(event("intent", "one")).unwrap();
    assert!(log.flush(SOON));
    // Each batch needs a new file at this size, so a file in the folder's place fails the next.
    let aside = dir.path().join("aside");
    std::fs::rename(&audit, &aside).unwrap();
    std::fs::write(&audit, "in the way").unwrap();
    let (woken, wait) = sync_channel(8);
    log.notify(move || woken.try_send(()).unwrap_or_default());
    let receipt = log.append(event("intent", "two")).unwrap();
    wait.recv_timeout(SOON).unwrap();
    assert_eq!(receipt.written(), Written::Failed);
    assert!(log.failing().is_some_and(|why| why.contains("audit")), "{:?}", log.failing());
    assert!(!log.flush(SOON));
    assert_eq!(whats(&log, 1), ["two"], "it is still shown");
    std::fs::remove_file(&audit).unwrap();
    std::fs::rename(&aside, &audit).unwrap();
    let receipt = log.append(event("intent", "three")).unwrap();
    assert!(log.flush(SOON));
    assert_eq!((receipt.written(), log.failing()), (Written::Yes, None));
    assert_eq!(lines(&audit).iter().map(|l| l["what"].clone()).collect::<Vec<_>>(), ["one", "two", "three"]);
}

#[test]
fn a_folder_that_cannot_be_made_is_refused_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("audit"), "a file").unwrap();
    let e = EventLog::open(&dir.path().join("audit")).unwrap_err();
    assert!(e.code == Code::StorageFailed && e.what.contains("audit"), "{e}");
}

#[test]
fn a_full_queue_gives_the_event_back_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    // The thread stands in this callback until it is let go.
    let (entered, in_callback) = sync_channel(1);
    let (let_go, gate) = sync_channel::<()>(0);
    log.notify(move || {
        let _ = entered.try_send(());
        let _ = gate.recv();
    });
    log.append(event("intent", "first")).unwrap();
    in_callback.recv_timeout(SOON).unwrap();
    for _ in 0..QUEUE {
        log.append(event("intent", "more")).unwrap();
    }
    let refused = log.append(event("intent", "too many")).unwrap_err();
    assert_eq!(refused.what, "too many");
    drop(let_go);
}

#[test]
fn a_dead_thread_takes_no_events_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    log.notify(|| panic!("the caller's fault"));
    let _ = log.append(event("intent", "x"));
    log.ended.lock().recv_timeout(SOON).unwrap();
    assert!(log.append(event("intent", "y")).is_err());
    assert!(log.failing().is_some());
}

#[test]
fn memory_holds_a_bounded_number_of_events() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    for n in 0..RING + 100 {
        while log.append(event("outcome", &n.to_string())).is_err() {
            assert!(log.flush(SOON) || log.failing().is_none());
        }
    }
    assert!(log.flush(SOON));
    assert_eq!(log.recent(&EventFilter::default(), 0, 1).1, RING);
    drop(log);
    let again = EventLog::open(dir.path()).unwrap();
    let (newest, total) = again.recent(&EventFilter::default(), 0, 1);
    assert_eq!((newest[0].what.as_str(), total), ((RING + 99).to_string().as_str(), RING));
}

#[test]
fn a_log_whose_folder_was_removed_is_made_anew_and_never_written_into_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("audit");
    let log = EventLog::open(&dir).unwrap();
    log.append(event("intent", "before")).unwrap();
    assert!(log.flush(SOON));
    std::fs::remove_dir_all(&dir).unwrap();
    let receipt = log.append(event("intent", "after")).unwrap();
    assert!(log.flush(SOON));
    assert_eq!(receipt.written(), Written::Yes);
    let all = lines(&dir);
    assert_eq!(all.last().unwrap()["what"], "after");
}
