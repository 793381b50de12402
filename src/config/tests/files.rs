//! Whole files: what can't be read, the examples, and that nothing in a file can make the program panic.

use std::path::Path;

use proptest::prelude::*;

use super::{GOOD, KNOWN, read};
use crate::config::{MAX_BYTES, Problem, load, parse};
use crate::model::AxisId;
use crate::units::Position;

#[test]
fn an_empty_file_lacks_a_rig_and_devices() {
    let problems = read("").unwrap_err();
    assert!(problems.list.iter().all(|p| p.place.is_none()) && problems.list.len() == 2, "{problems}");
    assert!(problems.render(false).contains("begin the file with [rig]"));
}

#[test]
fn a_file_that_is_none_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str, bytes: &[u8]| {
        let path = dir.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    };
    for (path, message) in [
        (dir.path().join("none.toml"), "no such file"),
        (dir.path().to_owned(), "this is a folder"),
        (path("latin1.toml", b"[rig]\nname = \"\xe9\"\n"), "not UTF-8 text: line 2"),
        (path("large.toml", &vec![b'#'; MAX_BYTES + 1]), "larger than 1 MiB"),
    ] {
        let problems = load(&path, &KNOWN).unwrap_err();
        assert!(problems.list.len() == 1 && problems.list[0].message.contains(message), "{problems}");
        assert!(problems.render(false).contains(&path.display().to_string()), "{}", problems.render(false));
    }
    let relative = load(Path::new("no/such/rig.toml"), &KNOWN).unwrap_err();
    let shown = std::path::absolute("no/such/rig.toml").unwrap().display().to_string();
    assert!(relative.render_plain().starts_with(&shown), "a client can't know the folder: {relative}");
    assert!(!relative.render(false).contains(&shown), "a person sees what was typed");
    let good = path("rig.toml", GOOD.as_bytes());
    assert_eq!(load(&good, &KNOWN).unwrap().file, Some(good));
}

#[test]
fn a_relative_folder_starts_beside_the_rig_file() {
    let text = GOOD.replacen("[eaa]", "[images]\ndir = \"pictures\"\n[eaa]", 1);
    let rig = parse(&text, Path::new("/rigs/rig.toml"), &KNOWN).unwrap();
    assert_eq!(rig.images.dir, Some(Path::new("/rigs").join("pictures")));
}

#[test]
fn a_camera_plays_a_folder_or_has_a_link() {
    let rig = |camera: &str| {
        let text = format!("[rig]\nname = \"r\"\n[[camera]]\nid = \"c\"\npixel_size_um = 1\n{camera}\n");
        parse(&text, Path::new("/rigs/rig.toml"), &KNOWN).map_err(|p| p.render_plain())
    };
    let good = rig("driver = \"folder\"\nfolder = \"pictures\"").unwrap();
    assert_eq!((&good.cameras[0].link, good.link_of("c")), (&None, None));
    assert_eq!(good.cameras[0].folder, Some(Path::new("/rigs").join("pictures")));
    for (camera, words) in [
        ("driver = \"folder\"", "`folder` is missing"),
        ("driver = \"folder\"\nfolder = \"~/p\"", "`folder` = \"~/p\" would not be expanded"),
        ("driver = \"folder\"\nfolder = \"p\"\nlink = \"l\"", "`link` has no meaning where a folder is played"),
        ("driver = \"simcam\"\nfolder = \"p\"", "`folder` has no meaning for this driver"),
        ("driver = \"simcam\"", "`link` is missing"),
    ] {
        let told = rig(camera).expect_err(camera);
        assert!(told.contains(words), "{camera}: {told}");
    }
}

#[test]
fn the_example_rigs_load() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("rigs");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let text =
            text.replace("@SCOPE@", "/dev/pts/3").replace("@CAM@", "127.0.0.1:4711").replace("@IO@", "127.0.0.1:4712");
        if let Err(problems) = parse(&text, &path, &KNOWN) {
            panic!("{}", problems.render(false));
        }
        seen += 1;
    }
    assert!(seen >= 4);
}

#[test]
fn the_demo_is_homed_outside_its_keep_outs() {
    let text = include_str!("../../../rigs/demo.toml")
        .replace("@SCOPE@", "COM3")
        .replace("@CAM@", "127.0.0.1:4711")
        .replace("@IO@", "127.0.0.1:4712");
    let rig = parse(&text, Path::new("demo.toml"), &KNOWN).unwrap();
    // Grbl pulls 1 mm off each switch, to -1 mm of its own count.
    let homed = |axis: &AxisId| {
        let axis = rig.axis(axis).unwrap();
        Position::base(-axis.sign).unwrap() + axis.origin
    };
    for axis in &rig.stages[0].axes {
        assert!(axis.travel.contains(homed(&axis.id)), "{}", axis.id);
    }
    assert_eq!(rig.keep_outs.len(), 2);
    for boxed in rig.keep_outs.iter().flat_map(|k| &k.boxes) {
        assert!(boxed.iter().any(|(axis, span)| !span.contains(homed(axis))));
    }
}

#[test]
fn a_file_full_of_mistakes_is_answered_soon_and_briefly() {
    for piece in ["[[link]]\n", "[[stage]]\nid = \"a\"\n", "a b\n", "[[", "{", "a=[", "a.", "a = 1\n", "\"", "é = \n"]
    {
        let text = piece.repeat(200_000 / piece.len());
        let problems = read(&text).unwrap_err();
        assert!(problems.list.len() <= 200 && problems.render_plain().lines().count() <= 21, "{piece}");
        assert!(problems.render(false).len() < 100_000, "{piece}");
    }
    let keys: String = (0..20_000).map(|i| format!("tolerance{i} = 1\n")).collect();
    assert_eq!(read(&keys).unwrap_err().list.len(), 200);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// No text makes the parser or the drawing panic.
    #[test]
    fn no_text_panics(text in any::<String>()) {
        if let Err(problems) = read(&text) {
            prop_assert!(!problems.list.is_empty());
            prop_assert!(!problems.render(true).is_empty() && !problems.render_plain().is_empty());
        }
    }

    /// Nor does a good file with a piece exchanged for another, which gets further into the checks.
    #[test]
    fn no_damaged_file_panics(
        at in 0..GOOD.len(),
        len in 0..40usize,
        with in prop_oneof![Just(String::new()), "[\\[\\]{}=\"'\n#,.0-9a-zµ-]{0,12}", Just("nan".into()), Just("[0,0]".into()), Just("{}".into())],
    ) {
        let end = (at + len).min(GOOD.len());
        let text = format!("{}{with}{}", &GOOD[..at], &GOOD[end..]);
        if let Err(problems) = read(&text) {
            prop_assert!(!problems.list.is_empty());
            prop_assert!(!problems.render(false).is_empty());
            let last = text.matches('\n').count() + 1;
            prop_assert!(problems.list.iter().filter_map(Problem::line).all(|line| 1 <= line && line <= last));
        }
    }
}
