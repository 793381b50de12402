//! The folder camera on real files: it reads them on threads, so that here real time passes.
#![allow(clippy::disallowed_methods, reason = "its threads take real time")]

use std::time::Instant;

use ndarray::array;
use ndarray_npy::WriteNpyExt;
use tempfile::TempDir;

use super::*;

/// A gray PNG of that depth.
fn write_png(path: &Path, width: u32, height: u32, depth: png::BitDepth, bytes: &[u8]) {
    let mut encoder = png::Encoder::new(File::create(path).unwrap(), width, height);
    encoder.set_color(png::ColorType::Grayscale);
    encoder.set_depth(depth);
    encoder.write_header().unwrap().write_image_data(bytes).unwrap();
}

fn camera(folder: &Path) -> Folder {
    let file = folder.join("rig.toml");
    let text = "[rig]\nname = \"r\"\n[[camera]]\nid = \"cam\"\ndriver = \"folder\"\nfolder = \"pictures\"\npixel_size_um = 1\n";
    let rig = config::parse(text, &file, &crate::devices::known()).unwrap_or_else(|p| panic!("{}", p.render_plain()));
    Folder::new(&rig.cameras[0])
}

/// Ticks it until something happens, at a clock of its own.
fn next(camera: &mut Folder, now: &mut Time) -> CameraEvent {
    let (begun, mut out) = (Instant::now(), Vec::new());
    while out.is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing happens");
        *now = camera.tick(*now, &mut out).min(*now + Duration::from_millis(5));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(out.len(), 1, "{out:?}");
    out.remove(0)
}

fn pictures() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let pictures = folder.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    (folder, pictures)
}

fn shoot(camera: &mut Folder, now: &mut Time) -> RawFrame {
    camera.shoot(*now);
    match next(camera, now) {
        CameraEvent::Frame(frame) => *frame,
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_kind_of_file_is_played_exactly_in_the_order_of_names_over_and_over() {
    let (folder, pictures) = pictures();
    write_png(&pictures.join("a8.PNG"), 3, 2, png::BitDepth::Eight, &[0, 1, 2, 3, 4, 255]);
    write_png(&pictures.join("b16.png"), 2, 1, png::BitDepth::Sixteen, &[0x01, 0x02, 0xff, 0xfe]);
    array![[1_u16, 256, 65_535]].write_npy(File::create(pictures.join("c.npy")).unwrap()).unwrap();
    // Another byte order, and columns first.
    let header = |descr: &str, fortran: &str| {
        let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': (2, 2), }}");
        let padded = format!("{text:<117}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(padded.len()).unwrap().to_le_bytes());
        bytes.extend(padded.as_bytes());
        bytes
    };
    let big = [header(">u2", "False"), vec![0, 1, 1, 0, 2, 0, 0, 3]].concat();
    std::fs::write(pictures.join("d.npy"), big).unwrap();
    std::fs::write(pictures.join("e.npy"), [header("|u1", "True"), vec![1, 2, 3, 4]].concat()).unwrap();
    array![[1.5_f32, f32::NAN]].write_npy(File::create(pictures.join("f.npy")).unwrap()).unwrap();
    let mut encoder = tiff::encoder::TiffEncoder::new(File::create(pictures.join("g.tif")).unwrap()).unwrap();
    encoder.write_image::<tiff::encoder::colortype::Gray16>(2, 2, &[7, 8, 9, 65_000]).unwrap();
    std::fs::write(pictures.join("notes.txt"), "no picture").unwrap();

    let (mut camera, mut now) = (camera(folder.path()), Time::ZERO);
    let CameraEvent::Online(identity, settings) = next(&mut camera, &mut now) else { panic!("not online") };
    assert!(identity.model.starts_with("7 pictures"), "{identity:?}");
    assert_eq!((settings.sensor, settings.roi, settings.bits), ([3, 2], [0, 0, 3, 2], 8));
    for round in 0..2 {
        let mut taken = |camera: &mut Folder| shoot(camera, &mut now);
        let frame = taken(&mut camera);
        assert_eq!(frame.pixels, Pixels::U8(array![[0, 1, 2], [3, 4, 255]]));
        assert_eq!((frame.sequence, frame.significant_bits), (round * 7 + 1, 8));
        assert_eq!(taken(&mut camera).pixels, Pixels::U16(array![[0x0102, 0xfffe]]));
        assert_eq!(taken(&mut camera).pixels, Pixels::U16(array![[1, 256, 65_535]]));
        assert_eq!(taken(&mut camera).pixels, Pixels::U16(array![[1, 256], [512, 3]]));
        assert_eq!(taken(&mut camera).pixels, Pixels::U8(array![[1, 3], [2, 4]]));
        let Pixels::F32(floats) = taken(&mut camera).pixels else { panic!("no floats") };
        assert!(floats[[0, 0]] == 1.5 && floats[[0, 1]].is_nan());
        let last = taken(&mut camera);
        assert_eq!(last.pixels, Pixels::U16(array![[7, 8], [9, 65_000]]));
        assert_eq!((last.settings.sensor, last.significant_bits), ([2, 2], 16));
    }
}

#[test]
fn what_can_not_be_played_is_told_by_name_and_the_next_is_played() {
    let (folder, pictures) = pictures();
    write_png(&pictures.join("a.png"), 1, 1, png::BitDepth::Eight, &[9]);
    std::fs::write(pictures.join("b.png"), b"\x89PNG\r\n\x1a\nand then nothing").unwrap();
    let mut encoder = png::Encoder::new(File::create(pictures.join("c.png")).unwrap(), 1, 1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.write_header().unwrap().write_image_data(&[1, 2, 3]).unwrap();
    array![[1_i64]].write_npy(File::create(pictures.join("d.npy")).unwrap()).unwrap();
    let (mut camera, mut now) = (camera(folder.path()), Time::ZERO);
    assert!(matches!(next(&mut camera, &mut now), CameraEvent::Online(..)));
    assert_eq!(shoot(&mut camera, &mut now).pixels, Pixels::U8(array![[9]]));
    for (name, why) in [("b.png", "can't be read"), ("c.png", "in colour"), ("d.npy", "neither uint8")] {
        camera.shoot(now);
        let CameraEvent::Failed { code, what } = next(&mut camera, &mut now) else { panic!("{name} was played") };
        assert_eq!(code, Code::CameraFailed);
        assert!(what.starts_with(name) && what.contains(why), "{what}");
    }
    assert_eq!(shoot(&mut camera, &mut now).pixels, Pixels::U8(array![[9]]), "it begins anew");
}

#[test]
fn a_region_is_cut_out_and_what_files_do_not_have_is_refused() {
    let (folder, pictures) = pictures();
    write_png(&pictures.join("a.png"), 3, 2, png::BitDepth::Eight, &[0, 1, 2, 3, 4, 5]);
    write_png(&pictures.join("b.png"), 2, 1, png::BitDepth::Eight, &[6, 7]);
    let (mut camera, mut now) = (camera(folder.path()), Time::ZERO);
    next(&mut camera, &mut now);
    let none = CameraChange::default();
    for (change, words) in [
        (CameraChange { roi: Some([1, 0, 3, 1]), ..none.clone() }, "3 × 2"),
        (CameraChange { roi: Some([0, 0, 0, 1]), ..none.clone() }, "3 × 2"),
        (CameraChange { roi: Some([u32::MAX, 0, 2, 1]), ..none.clone() }, "3 × 2"),
        (CameraChange { gain: Some(2.0), ..none.clone() }, "gain must be 1"),
        (CameraChange { binning: Some(2), ..none.clone() }, "binning must be 1"),
        (CameraChange { bits: Some(12), ..none.clone() }, "bits must be 8"),
        (CameraChange { exposure_ms: Some(f64::NAN), ..none.clone() }, "exposure_ms must be"),
    ] {
        camera.set(&change, now);
        let CameraEvent::Failed { code, what } = next(&mut camera, &mut now) else { panic!("{change:?} was taken") };
        assert!(code == Code::InvalidArgument && what.contains(words), "{what}");
    }
    camera.set(&CameraChange { roi: Some([1, 0, 2, 2]), exposure_ms: Some(40.0), ..none }, now);
    let CameraEvent::Settings(settings) = next(&mut camera, &mut now) else { panic!("refused") };
    assert_eq!((settings.roi, settings.exposure_ms), ([1, 0, 2, 2], 40.0));
    let begun = now;
    let frame = shoot(&mut camera, &mut now);
    assert_eq!(frame.pixels, Pixels::U8(array![[1, 2], [4, 5]]));
    assert!(now.since(begun) >= Duration::from_millis(40), "the exposure is waited for");
    // The second picture is smaller than the region.
    camera.shoot(now);
    assert!(matches!(next(&mut camera, &mut now), CameraEvent::Failed { what, .. } if what.contains("2 × 1")));
}

#[test]
fn a_folder_that_is_not_there_is_looked_for_again_and_an_exposure_that_is_given_up_gives_no_frame() {
    let folder = tempfile::tempdir().unwrap();
    let (mut camera, mut now) = (camera(folder.path()), Time::ZERO);
    let CameraEvent::Offline { code, what } = next(&mut camera, &mut now) else { panic!("online") };
    assert!(code == Code::NotConnected && what.contains("pictures"), "{what}");
    let pictures = folder.path().join("pictures");
    std::fs::create_dir(&pictures).unwrap();
    now = now + AGAIN;
    assert!(matches!(next(&mut camera, &mut now), CameraEvent::Offline { what, .. } if what.contains("no PNG")));
    write_png(&pictures.join("a.png"), 1, 1, png::BitDepth::Eight, &[1]);
    write_png(&pictures.join("b.png"), 1, 1, png::BitDepth::Eight, &[2]);
    now = now + AGAIN;
    assert!(matches!(next(&mut camera, &mut now), CameraEvent::Online(..)));
    camera.shoot(now);
    camera.abort(now);
    assert_eq!(shoot(&mut camera, &mut now).pixels, Pixels::U8(array![[2]]));
}
