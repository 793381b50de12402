//! What the chain promises: whatever is done to the files is found, and what the program itself does never looks so.

use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::*;

const SOON: Duration = Duration::from_secs(20);

fn event(what: &str) -> Event {
    Event { kind: "outcome", device: None, caller: None, what: what.into(), facts: BTreeMap::new() }
}

/// Appends lines in one run of the program, over several small files.
fn run(dir: &Path, whats: impl IntoIterator<Item = String>) {
    let log = EventLog::with_file_size(dir, 2_000).unwrap();
    for what in whats {
        log.append(event(&what)).unwrap();
        assert!(log.flush(SOON));
    }
}

/// A log of `n` lines that two runs wrote.
fn log_of(n: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), (0..n / 2).map(|i| format!("first {i}")));
    run(dir.path(), (n / 2..n).map(|i| format!("second {i}")));
    dir
}

fn files_of(dir: &Path) -> Vec<PathBuf> {
    past::log_files(dir).unwrap().iter().map(|(day, part)| dir.join(past::file_name(day, *part))).collect()
}

fn found(dir: &Path) -> Verified {
    verify(dir, &[], false).unwrap()
}

fn whole(dir: &Path) -> Verified {
    let found = found(dir);
    assert!(found.is_whole(), "{:?}", found.breaks);
    found
}

/// All lines, with the file of each.
fn all_lines(dir: &Path) -> Vec<(PathBuf, String)> {
    let of = |file: PathBuf| {
        let text = fs::read_to_string(&file).unwrap();
        text.lines().map(|l| (file.clone(), l.to_owned())).collect::<Vec<_>>()
    };
    files_of(dir).into_iter().flat_map(of).collect()
}

fn write_lines(dir: &Path, lines: &[(PathBuf, String)]) {
    for file in files_of(dir) {
        let mine = lines.iter().filter(|(f, _)| *f == file).map(|(_, l)| format!("{l}\n"));
        fs::write(&file, mine.collect::<String>()).unwrap();
    }
}

#[test]
fn a_log_of_several_runs_and_files_is_one_chain() {
    let dir = log_of(30);
    let found = whole(dir.path());
    assert!(found.files >= 3 && found.lines == 30 && found.unchained == 0, "{found:?}");
    let last = all_lines(dir.path()).pop().unwrap().1;
    assert_eq!(found.newest, Some(Newest { seq: 30, hash: sha256(last.as_bytes()) }));
    assert_eq!(Newest::kept(dir.path()).unwrap(), found.newest);
}

#[test]
fn a_changed_line_is_named_with_its_file_and_number() {
    let dir = log_of(8);
    let file = files_of(dir.path())[0].clone();
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("first 1", "worse 1")).unwrap();
    let found = found(dir.path());
    assert_eq!((found.breaks.len(), &found.breaks[0].file, found.breaks[0].line), (1, &file, 2), "{found:?}");
}

#[test]
fn a_line_that_was_changed_with_its_sum_is_found_by_the_next() {
    let dir = log_of(8);
    let mut lines = all_lines(dir.path());
    let prev = sha256(lines[1].1.as_bytes());
    let body = lines[2].1.replace("first 2", "worse 2");
    lines[2].1 = chain::seal(&format!("{}}}", &body[..body.len() - chain::SEAL]), &prev);
    write_lines(dir.path(), &lines);
    let found = found(dir.path());
    assert!(found.breaks.len() == 1 && found.breaks[0].what.contains("line before this one is not"), "{found:?}");
}

#[test]
fn a_tail_that_was_cut_off_is_found_before_and_after_the_next_start() {
    let dir = log_of(10);
    let noted = whole(dir.path()).newest.unwrap();
    let mut lines = all_lines(dir.path());
    lines.truncate(7);
    write_lines(dir.path(), &lines);
    let cut = found(dir.path());
    assert!(cut.breaks.len() == 1 && cut.breaks[0].file.ends_with("newest.json"), "{cut:?}");
    run(dir.path(), ["later".to_owned()]);
    let cut = found(dir.path());
    assert!(cut.breaks.len() == 1 && cut.breaks[0].what.contains("line 10 was the newest"), "{cut:?}");
    let noted = verify(dir.path(), &[noted.hash], false).unwrap();
    assert!(noted.breaks.len() == 2, "{noted:?}");
}

#[test]
fn a_hash_that_was_noted_elsewhere_finds_a_log_that_was_made_anew() {
    let (dir, other) = (log_of(6), tempfile::tempdir().unwrap());
    let noted = [whole(dir.path()).newest.unwrap().hash];
    run(dir.path(), ["later".to_owned()]);
    assert!(verify(dir.path(), &noted, false).unwrap().is_whole());
    run(other.path(), (0..7).map(|n| format!("forged {n}")));
    assert!(found(other.path()).is_whole());
    assert!(!verify(other.path(), &noted, false).unwrap().is_whole());
}

#[test]
fn files_that_are_missing_at_the_beginning_are_found_unless_they_were_put_away() {
    let dir = log_of(30);
    let begins = all_lines(dir.path()).iter().filter(|(f, _)| *f == files_of(dir.path())[0]).count() + 1;
    fs::remove_file(&files_of(dir.path())[0]).unwrap();
    let missing = found(dir.path());
    assert!(missing.breaks.len() == 1 && missing.breaks[0].what.contains("--archived"), "{missing:?}");
    let put_away = verify(dir.path(), &[], true).unwrap();
    assert!(put_away.is_whole() && put_away.notes[0].contains(&format!("line {begins};")), "{put_away:?}");
    fs::remove_file(&files_of(dir.path())[1]).unwrap();
    assert!(!verify(dir.path(), &[], false).unwrap().is_whole());
}

#[test]
fn a_line_that_a_kill_cut_off_is_kept_and_marked_and_the_chain_goes_on() {
    let dir = log_of(4);
    let file = files_of(dir.path()).pop().unwrap();
    let torn = r#"{"t":"2026-11-30T1"#;
    fs::write(&file, fs::read_to_string(&file).unwrap() + torn).unwrap();
    let before = whole(dir.path());
    assert!(before.notes.len() == 1 && before.notes[0].contains("is cut off"), "{before:?}");
    run(dir.path(), ["after".to_owned()]);
    let after = whole(dir.path());
    assert_eq!((after.lines, after.notes.len()), (7, 0), "{after:?}");
    let lines = all_lines(dir.path());
    let mark: Value = serde_json::from_str(&lines[5].1).unwrap();
    assert_eq!((lines[4].1.as_str(), &mark["kind"], &mark["bytes"]), (torn, &json!("log_torn"), &json!(torn.len())));
    // The torn line itself is in the chain.
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace(torn, r#"{"t":"2026-12-30T1"#)).unwrap();
    assert!(!found(dir.path()).is_whole());
}

#[test]
fn lines_of_an_older_version_are_no_fault_and_the_chain_begins_on_the_last_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("2026-01-02.jsonl");
    let old = |n: u32| format!("{{\"t\":\"2026-01-02T00:00:00.000Z\",\"seq\":{n},\"kind\":\"stop\",\"what\":\"x\"}}\n");
    fs::write(&file, old(1) + &old(2)).unwrap();
    let before = whole(dir.path());
    assert_eq!((before.lines, before.unchained, before.newest), (2, 2, None));
    run(dir.path(), ["new".to_owned(), "newer".to_owned()]);
    let after = whole(dir.path());
    assert_eq!((after.lines, after.unchained, after.newest.map(|n| n.seq)), (4, 2, Some(4)));
    fs::write(&file, old(1)).unwrap();
    assert!(!found(dir.path()).is_whole(), "the last old line is gone");
}

#[test]
fn a_missing_record_of_the_newest_line_is_a_fault_once_there_is_a_chain() {
    let dir = log_of(4);
    fs::remove_file(dir.path().join("newest.json")).unwrap();
    assert!(!found(dir.path()).is_whole());
    fs::write(dir.path().join("newest.json"), "?").unwrap();
    assert!(!found(dir.path()).is_whole());
    assert_eq!(verify(&dir.path().join("none"), &[], false).unwrap_err().code, Code::NotFound);
}

#[test]
fn two_programs_that_share_a_folder_write_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let one = EventLog::with_file_size(dir.path(), 2_000).unwrap();
    let two = EventLog::with_file_size(dir.path(), 2_000).unwrap();
    for n in 0..20 {
        for log in [&one, &two] {
            log.append(event(&format!("number {n}"))).unwrap();
            assert!(n % 3 == 0 || log.flush(SOON));
        }
    }
    drop((one, two));
    assert_eq!(whole(dir.path()).lines, 40);
}

#[test]
fn a_clock_that_was_set_back_leads_into_no_earlier_file() {
    let dir = log_of(2);
    let file = files_of(dir.path()).pop().unwrap();
    fs::rename(&file, dir.path().join("2099-01-01.jsonl")).unwrap();
    run(dir.path(), ["after".to_owned()]);
    assert_eq!((files_of(dir.path()).len(), whole(dir.path()).lines), (1, 3));
}

#[test]
fn what_an_earlier_run_was_told_of_a_command_is_known_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let with = |kind: &'static str, id: &str, more: &[(&'static str, Value)]| {
        let mut facts: BTreeMap<&'static str, Value> =
            [("command_id", id.into()), ("client", "c".into()), ("command_hash", "h".into())].into();
        facts.extend([("tool", json!("move_to"))]);
        facts.extend(more.iter().cloned());
        Event { kind, facts, ..event("move") }
    };
    {
        let log = EventLog::open(dir.path()).unwrap();
        assert!(log.earlier_commands().is_empty());
        log.append(with("intent", "a", &[])).unwrap();
        log.append(with("outcome", "a", &[("moved", "yes".into())])).unwrap();
        log.append(with("intent", "b", &[])).unwrap();
    }
    let log = EventLog::open(dir.path()).unwrap();
    let [b, a] = log.earlier_commands() else { panic!("two") };
    assert_eq!((a.id.as_str(), a.outcome.as_ref().unwrap().moved.as_str()), ("a", "yes"));
    assert_eq!((b.id.as_str(), b.hash.as_str(), &b.outcome), ("b", "h", &None));
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_refuses_and_takes_lines_again_once_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let log = EventLog::open(dir.path()).unwrap();
    log.append(event("before")).unwrap();
    assert!(log.flush(SOON));
    // The real error of a full disk: the file of the day leads to a device that has no room.
    let file = files_of(dir.path()).pop().unwrap();
    let aside = dir.path().join("aside");
    fs::rename(&file, &aside).unwrap();
    std::os::unix::fs::symlink("/dev/full", &file).unwrap();
    let refused = log.append(event("no room")).unwrap();
    assert!(!log.flush(SOON));
    let why = log.failing().unwrap();
    assert!(refused.written() == Written::Failed && why.contains("Free space on that disk"), "{why}");
    fs::remove_file(&file).unwrap();
    fs::rename(&aside, &file).unwrap();
    let taken = log.append(event("room again")).unwrap();
    assert!(log.flush(SOON));
    assert_eq!(taken.written(), Written::Yes);
    drop(log);
    let kinds: Vec<String> = events_in(dir.path()).unwrap().into_iter().map(|e| e.what).collect();
    assert!(kinds.ends_with(&["no room".to_owned(), "room again".to_owned()]), "{kinds:?}");
}

/// What somebody may do to a log.
#[derive(Debug, Clone)]
enum Deed {
    Byte { at: prop::sample::Index, to: u8 },
    Delete(prop::sample::Index),
    Swap(prop::sample::Index, prop::sample::Index),
    Double(prop::sample::Index),
    Insert(prop::sample::Index, String),
    Cut(prop::sample::Index),
}

fn deed() -> impl Strategy<Value = Deed> {
    let any_index = any::<prop::sample::Index>;
    prop_oneof![
        4 => (any_index(), any::<u8>()).prop_map(|(at, to)| Deed::Byte { at, to }),
        1 => any_index().prop_map(Deed::Delete),
        1 => (any_index(), any_index()).prop_map(|(a, b)| Deed::Swap(a, b)),
        1 => any_index().prop_map(Deed::Double),
        1 => (any_index(), "[ -~]{0,40}").prop_map(|(at, text)| Deed::Insert(at, text)),
        1 => any_index().prop_map(Deed::Cut),
    ]
}

/// Does it; whether anything is different now.
fn done(dir: &Path, deed: &Deed) -> bool {
    let mut lines = all_lines(dir);
    let before = lines.clone();
    match deed {
        Deed::Byte { at, to } => {
            let files = files_of(dir);
            let lens: Vec<usize> = files.iter().map(|f| fs::metadata(f).unwrap().len() as usize).collect();
            let mut at = at.index(lens.iter().sum());
            let file = lens
                .iter()
                .position(|len| {
                    if at < *len {
                        true
                    } else {
                        at -= len;
                        false
                    }
                })
                .unwrap();
            let mut bytes = fs::read(&files[file]).unwrap();
            let changed = bytes[at] != *to;
            bytes[at] = *to;
            fs::write(&files[file], bytes).unwrap();
            return changed;
        }
        Deed::Delete(at) => drop(lines.remove(at.index(before.len()))),
        Deed::Swap(a, b) => {
            let (a, b) = (a.index(before.len()), b.index(before.len()));
            (lines[a].1, lines[b].1) = (before[b].1.clone(), before[a].1.clone());
        }
        Deed::Double(at) => {
            let at = at.index(before.len());
            lines.insert(at, before[at].clone());
        }
        Deed::Insert(at, text) => {
            let at = at.index(before.len());
            lines.insert(at, (before[at].0.clone(), text.clone()));
        }
        Deed::Cut(at) => lines.truncate(at.index(before.len())),
    }
    write_lines(dir, &lines);
    lines != before
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn whatever_is_done_to_a_log_is_found(deed in deed(), n in 2_usize..12) {
        let dir = log_of(n);
        let changed = done(dir.path(), &deed);
        let found = found(dir.path());
        prop_assert_eq!(changed, !found.is_whole(), "{:?} {:?}", deed, found.breaks);
    }
}
