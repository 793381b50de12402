//! What the store promises about pictures: whole, never overwritten, found again, and beneath one root.

use super::files::tests::names;
use super::*;
use crate::config;
use crate::model::{AxisId, AxisReading, CameraSettings, Moved, Name, Pixels, Time, Trust};
use crate::units::{Position, Unit};
use serde_json::json;
use std::time::Duration;

fn a_rig(dir: Option<&Path>) -> Rig {
    let text = r#"
        [rig]
        name = "scope"
        [[link]]
        id = "port"
        serial = "/dev/ttyUSB0"
        baud = 115200
        [[stage]]
        id = "sample"
        driver = "any"
        link = "port"
        home = { order = ["x"] }
        [stage.axes.x]
        unit = "um"
        sign = 1
        origin = 0.0
        travel = [0.0, 5000.0]
        max_speed_per_s = 500.0
        tolerance = 2.0
        trust = "referenced"
        holds_unpowered = true
    "#;
    const KNOWN: config::KnownDrivers = config::KnownDrivers(&[config::KnownDriver::alone("any", config::Kind::Stage)]);
    let mut rig = config::parse(text, Path::new("scope.toml"), &KNOWN).unwrap();
    rig.images.dir = dir.map(Path::to_path_buf);
    rig
}

fn frame(height: usize, width: usize) -> Frame {
    let at = |axis, value: Option<f64>| AxisReading {
        id: AxisId::new("sample", axis),
        position: value.map(|v| Position::new(v, Unit::Um).unwrap()),
        unit: Unit::Um,
        trust: Trust::Referenced,
    };
    Frame {
        camera: Name::new("main"),
        pixels: Pixels::U16(ndarray::Array2::zeros((height, width))),
        significant_bits: 12,
        settings: CameraSettings {
            exposure_ms: 20.0,
            gain: 1.0,
            roi: [0, 0, 4, 4],
            binning: 1,
            bits: 12,
            sensor: [4, 4],
        },
        sequence: 3,
        asked_at: Time(Duration::from_secs(100)),
        received_at: Time(Duration::from_secs(101)),
        before: vec![at("x", Some(300.0)), at("y", None)],
        after: vec![at("x", Some(300.1)), at("y", None)],
        moved_during: Moved::Unknown,
        simulated: true,
    }
}

fn picture(label: Option<&'static str>) -> Picture<'static> {
    Picture {
        png: b"png",
        raw: b"raw",
        raw_format: Raw::Tiff,
        psize_um: Some(0.325),
        stats: json!({ "mean": null }),
        stretch: json!({ "low": 0.0, "high": 9.0, "gamma": 1.0 }),
        label,
        caller: "stdio-1",
        call_id: "call-9",
        now: Time(Duration::from_secs(160)),
    }
}

fn open(dir: &Path) -> Store {
    Store::open(&a_rig(None), Some(dir)).unwrap()
}

fn save(store: &Store, label: Option<&'static str>) -> StoredImage {
    store.save_image(&frame(2, 2), &picture(label)).unwrap()
}

fn today(image: &StoredImage) -> PathBuf {
    image.img_path.parent().unwrap().to_path_buf()
}

#[test]
fn a_picture_is_three_files_with_one_name_and_its_sidecar_says_everything() {
    let dir = tempfile::tempdir().unwrap();
    let saved = save(&open(dir.path()), Some("Flake #3"));
    assert!(saved.img_path.is_absolute() && saved.img_path.to_str().unwrap().ends_with("-0001-flake-3.png"));
    assert_eq!(std::fs::read(&saved.img_path).unwrap(), b"png");
    assert_eq!(std::fs::read(saved.raw_data_path.as_ref().unwrap()).unwrap(), b"raw");
    assert_eq!(names(&today(&saved)).len(), 3);
    let facts = &saved.facts;
    assert_eq!(facts["image_id"], saved.image_id);
    assert_eq!(
        (&facts["caller"], &facts["call_id"], &facts["psize"]),
        (&json!("stdio-1"), &json!("call-9"), &json!(0.325))
    );
    assert_eq!(facts["position_before"]["sample.x"], json!({ "position": 300.0, "unit": "um", "trust": "referenced" }));
    assert_eq!(facts["position_after"]["sample.y"]["position"], json!(null));
    assert_eq!((&facts["moved_during_exposure"], &facts["shape"]), (&json!("unknown"), &json!([2, 2])));
    let time = |key: &str| facts[key].as_str().unwrap().parse::<jiff::Timestamp>().unwrap().as_millisecond();
    assert!((59_900..60_100).contains(&(time("saved_at") - time("exposure_asked_at"))), "a minute ago on its clock");
    let read: serde_json::Value = serde_json::from_slice(&std::fs::read(&saved.sidecar_path).unwrap()).unwrap();
    assert_eq!(read, serde_json::Value::Object(facts.clone()));
    assert_eq!(open(dir.path()).image(&saved.image_id).unwrap(), saved);
}

#[test]
fn numbers_go_on_after_a_restart_and_over_what_others_left() {
    let dir = tempfile::tempdir().unwrap();
    let first = save(&open(dir.path()), None);
    std::fs::write(today(&first).join("235959-0041-old.png"), "").unwrap();
    std::fs::write(today(&first).join("notes-9999.txt"), "").unwrap();
    let store = open(dir.path());
    let ids = [first, save(&store, None), save(&store, Some("x"))].map(|i| i.image_id);
    assert!(ids[0].ends_with("-0001") && ids[1].ends_with("-0042") && ids[2].ends_with("-0043"), "{ids:?}");
}

#[test]
fn a_name_that_is_taken_is_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let first = save(&store, None);
    // Whatever second it is: the next numbers of the next minute are taken by files of somebody else.
    let folder = today(&first);
    let now = jiff::Zoned::now();
    let taken: Vec<_> = (0..60)
        .map(|s| now.checked_add(Duration::from_secs(s)).unwrap().strftime("%H%M%S").to_string())
        .map(|time| folder.join(format!("{time}-0002.json")))
        .collect();
    taken.iter().for_each(|path| std::fs::write(path, "somebody's").unwrap());
    let saved = save(&store, None);
    assert!(saved.image_id.ends_with("-0003"), "{}", saved.image_id);
    assert!(taken.iter().all(|path| std::fs::read(path).unwrap() == b"somebody's"));
    let left = names(&folder).into_iter().filter(|n| n.contains("-0002") && !n.ends_with(".json")).count();
    assert_eq!(left, 0, "nothing is left of the try that failed");
}

#[test]
fn many_threads_save_under_different_names() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..25).for_each(|_| drop(save(&store, None))));
        }
    });
    let (page, total) = store.images(0, 200).unwrap();
    let numbers: Vec<_> = page.iter().map(|i| i.image_id.rsplit('-').next().unwrap().parse::<u32>().unwrap()).collect();
    assert_eq!((numbers, total), ((1..=100).rev().collect(), 100));
}

#[test]
fn pictures_are_listed_newest_first_over_all_days() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let newest = save(&store, None);
    for (day, count) in [("2020-01-01", 3), ("2020-01-02", 2)] {
        let folder = store.images_dir().join(day);
        std::fs::create_dir(&folder).unwrap();
        for n in 1..=count {
            std::fs::write(folder.join(format!("12000{n}-000{n}.json")), "\u{feff}{\"camera\":\"main\"}").unwrap();
        }
    }
    std::fs::create_dir(store.images_dir().join("holiday")).unwrap();
    let ids = |offset, limit| {
        let (page, total) = store.images(offset, limit).unwrap();
        assert_eq!(total, 6);
        page.into_iter().map(|i| i.image_id).collect::<Vec<_>>()
    };
    let old = ["20200102-120002-0002", "20200102-120001-0001", "20200101-120003-0003", "20200101-120002-0002"];
    assert_eq!(ids(0, 1), [newest.image_id.as_str()]);
    assert_eq!(ids(1, 4), old);
    assert_eq!(ids(2, 2), old[1..3]);
    assert_eq!(ids(5, 9).len(), 1);
    assert_eq!(ids(6, 9).len() + ids(usize::MAX, 9).len() + ids(0, 0).len(), 0);
    assert_eq!(store.image(old[3]).unwrap().facts["camera"], "main", "a byte order mark is no damage");
    std::fs::write(store.images_dir().join("2020-01-01/130000-0009.json"), "{").unwrap();
    let (page, total) = store.images(3, 1).unwrap();
    assert_eq!((page[0].image_id.as_str(), total), ("20200101-130000-0009", 7));
    assert!(page[0].facts.contains_key("damaged") && page[0].raw_data_path.is_none());
}

#[test]
fn an_id_that_is_no_id_finds_nothing_and_leads_nowhere() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let saved = save(&store, None);
    let longer = format!("{}0", saved.image_id);
    for id in ["", "x", "20200101-120000-0001", "../../-120000-0001", "20260230-120000-1", "é0260230-120000-1", &longer]
    {
        assert_eq!(store.image(id).unwrap_err().code, Code::NotFound, "{id}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_said_with_its_path_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let day = today(&save(&store, None));
    std::fs::remove_dir_all(&day).unwrap();
    std::fs::write(&day, "a file in its place").unwrap();
    let e = store.save_image(&frame(1, 1), &picture(None)).unwrap_err();
    assert_eq!((e.code, e.moved), (Code::StorageFailed, Moved::No));
    assert!(e.what.contains(day.to_str().unwrap()), "{e}");
    assert_eq!(names(store.images_dir()).len(), 1);
    let in_a_file = Store::open(&a_rig(Some(&day)), None).unwrap_err();
    assert_eq!(in_a_file.code, Code::StorageFailed);
}

#[cfg(target_os = "linux")]
#[test]
fn a_read_only_place_is_refused_when_the_store_opens() {
    let dir = tempfile::tempdir().unwrap();
    let e = Store::open(&a_rig(Some(Path::new("/proc/self/images"))), Some(dir.path())).unwrap_err();
    assert!(e.code == Code::StorageFailed && e.what.contains("/proc/self/images"), "{e}");
}

#[cfg(unix)]
#[test]
fn a_day_that_is_a_link_is_not_followed() {
    let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = open(dir.path());
    let day = today(&save(&store, None));
    std::fs::remove_dir_all(&day).unwrap();
    std::os::unix::fs::symlink(outside.path(), &day).unwrap();
    assert_eq!(store.save_image(&frame(1, 1), &picture(None)).unwrap_err().code, Code::StorageFailed);
    assert_eq!((names(outside.path()).len(), store.images(0, 9).unwrap().1), (0, 0));
}

#[test]
fn the_rig_file_says_where_pictures_go() {
    let (data, pictures) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = Store::open(&a_rig(Some(pictures.path())), Some(data.path())).unwrap();
    assert_eq!(store.images_dir(), pictures.path().canonicalize().unwrap().join("scope"));
    assert_eq!(store.data_dir(), data.path().canonicalize().unwrap());
}

#[test]
fn an_export_has_the_name_it_was_given_and_never_another_ones_place() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let path = store.export("Stack 1", Raw::Npy, b"one").unwrap();
    assert_eq!(path, store.images_dir().join("exports").join("stack-1.npy"));
    let e = store.export("stack_1/../stack-1", Raw::Npy, b"x").map(|p| p.file_name().unwrap().to_owned());
    assert_eq!(e.unwrap(), "stack_1-stack-1.npy", "no way out of the folder");
    let e = store.export("stack-1", Raw::Npy, b"two").unwrap_err();
    assert!(e.code == Code::InvalidArgument && e.what.contains("stack-1.npy"), "{e}");
    assert_eq!(std::fs::read(&path).unwrap(), b"one");
    for name in ["", "..", "NUL"] {
        assert_eq!(store.export(name, Raw::Tiff, b"x").unwrap_err().code, Code::InvalidArgument);
    }
}

#[test]
fn recent_frames_stay_within_their_memory_and_the_newest_always_stays() {
    let mut recent = Recent::new(1000);
    let kept = |recent: &Recent| recent.frames.iter().map(|(id, _)| id.clone()).collect::<Vec<_>>();
    for id in ["a", "b", "c"] {
        recent.push(id, Arc::new(frame(20, 10)));
    }
    assert_eq!((kept(&recent), recent.bytes), (vec!["b".to_owned(), "c".into()], 800));
    recent.push("huge", Arc::new(frame(100, 100)));
    assert_eq!((kept(&recent), recent.bytes), (vec!["huge".to_owned()], 20_000));
    recent.push("d", Arc::new(frame(1, 1)));
    assert_eq!((kept(&recent), recent.bytes), (vec!["d".to_owned()], 2));
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    store.remember("x", Arc::new(frame(3, 3)));
    assert_eq!((store.frame("x").map(|f| f.pixels.bytes()), store.frame("y")), (Some(18), None));
}

#[test]
fn paths_are_translated_by_whole_folder_names_and_the_longest_prefix() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let map = [("/data", "Z:\\lab"), ("/data/scope", "/mnt/scope/"), ("/all", "/")];
    store.path_map = map.map(|(here, there)| (PathBuf::from(here), there.to_owned())).to_vec();
    for (here, there) in [
        ("/data/2026/x.png", "Z:\\lab\\2026\\x.png"),
        ("/data/scope/x.png", "/mnt/scope/x.png"),
        ("/data/scopes/x.png", "Z:\\lab\\scopes\\x.png"),
        ("/database/x.png", "/database/x.png"),
        ("/data", "Z:\\lab"),
        ("/all/x", "/x"),
    ] {
        assert_eq!(store.client_path(Path::new(here)), there);
    }
}

#[cfg(unix)]
#[test]
fn a_path_map_written_with_a_link_fits_the_real_paths_too() {
    let dir = tempfile::tempdir().unwrap();
    let link = dir.path().join("link");
    std::fs::create_dir(dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("real"), &link).unwrap();
    let mut rig = a_rig(Some(&link));
    rig.images.path_map = vec![(link.to_str().unwrap().into(), "/there".into())];
    let store = Store::open(&rig, Some(dir.path())).unwrap();
    assert_eq!(store.client_path(&store.images_dir().join("x.png")), "/there/scope/x.png");
}

#[test]
fn two_rig_files_of_one_name_do_not_share_a_folder_and_one_that_was_moved_keeps_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let (one, two) = (dir.path().join("one.toml"), dir.path().join("two.toml"));
    std::fs::write(&one, "x").unwrap();
    std::fs::write(&two, "x").unwrap();
    let of = |file: &Path| belongs(dir.path(), "scope", file);
    of(&one).unwrap();
    of(&one).unwrap();
    let refused = of(&two).unwrap_err();
    assert_eq!(refused.code, Code::StorageFailed);
    assert!(refused.what.contains("one.toml") && refused.what.contains("another name in [rig]"), "{refused}");
    std::fs::remove_file(&one).unwrap();
    of(&two).unwrap();
}

#[test]
fn free_space_is_told_for_a_folder_that_is_yet_to_be_made() {
    let folder = tempfile::tempdir().expect("folder");
    assert!(free_bytes(&folder.path().join("not/yet")).is_some_and(|n| n > 0));
}
