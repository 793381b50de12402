//! Each profile that ships: it is read, names its source, and can be written into a controller of its kind.

mod shop;

use std::path::Path;
use std::time::Duration;

use hw_sim::Bench;
use shop::Shop;
use steadyhand::devices::settings::DANGERS;
use steadyhand::flash::profile::{Read, Wanted};
use steadyhand::flash::run::Outcome;
use steadyhand::flash::shipped::SHIPPED;

fn controller(driver: &str) -> (Shop, Option<&'static str>) {
    let (bench, device, axis) = match driver {
        "grbl" => (hw_sim::MICROSCOPE_TOML, "scope", None),
        "zaber" => (hw_sim::ZABER_TOML, "chain", Some("1")),
        "asi" => (hw_sim::ASI_TOML, "scope", None),
        other => panic!("no bench for {other}"),
    };
    let mut shop = Shop::new(driver, Bench::from_toml(bench).expect("a bench"), device, 1);
    shop.rest(Duration::from_secs(3));
    (shop, axis)
}

type Screw = (f64, f64, f64);

/// What the source says of each GRBL machine's axes X, Y and Z, or of the first of them: full steps a revolution, microsteps, and mm a revolution;
/// or, as `(steps/mm, 1, 1)`, only what comes of it.
const GRBL_SOURCES: &[(&str, &[Screw])] = &[
    ("bobscnc-e3.toml", &[(80.0, 1.0, 1.0), (80.0, 1.0, 1.0), (2267.717, 1.0, 1.0)]),
    ("cnc3018-xy.toml", &[(200.0, 8.0, 4.0); 2]),
    ("openbuilds-ox.toml", &[(26.67, 1.0, 1.0), (26.67, 1.0, 1.0), (50.0, 1.0, 1.0)]),
    ("pocketnc-fr4.toml", &[(800.0, 1.0, 1.0); 3]),
    ("shapeoko-1.toml", &[(400.0, 8.0, 0.08 * 18.0 * 25.4), (400.0, 8.0, 0.08 * 18.0 * 25.4), (400.0, 2.0, 1.25)]),
    ("shapeoko-2.toml", &[(200.0, 8.0, 40.0), (200.0, 8.0, 40.0), (200.0, 2.0, 1.25)]),
    ("shapeoko-3.toml", &[(200.0, 8.0, 40.0); 3]),
    ("sherline-5400.toml", &[(200.0, 2.0, 0.05 * 25.4); 3]),
    ("x-carve-1000.toml", &[(200.0, 8.0, 40.0), (200.0, 8.0, 40.0), (200.0, 2.0, 2.117)]),
    ("x-carve-500.toml", &[(200.0, 8.0, 40.0), (200.0, 8.0, 40.0), (200.0, 2.0, 2.117)]),
    ("zen-toolworks-7x7.toml", &[(200.0, 8.0, 8.0); 3]),
];

#[test]
fn the_steps_of_each_profile_follow_from_the_motor_and_screw_of_its_source() {
    for (file, text) in SHIPPED {
        let profile = Read::parse(text, Path::new(file)).unwrap_or_else(|p| panic!("{}", p.render(false))).profile;
        if profile.driver != "grbl" {
            continue;
        }
        let (_, axes) = GRBL_SOURCES.iter().find(|(name, _)| name == file).expect("what its source says");
        for (axis, (full, micro, lead)) in ["X", "Y", "Z"].into_iter().zip(*axes) {
            let steps = |w: &&Wanted| w.name == "steps_per_mm" && w.axis.as_deref() == Some(axis);
            let said = &profile.settings.iter().find(steps).expect("steps").value;
            let follows = full * micro / lead;
            let off = (said.parse::<f64>().expect("a number") - follows).abs();
            assert!(off < 0.000_6, "{file}: {axis} has {said} steps/mm; {follows} follow from its source");
        }
    }
}

#[test]
fn each_profile_that_ships_names_its_source_and_is_written() {
    assert!(SHIPPED.len() >= 8);
    let on_disk = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles")).expect("profiles").count();
    assert_eq!(on_disk, SHIPPED.len(), "each file of profiles/ ships");
    let allow: Vec<&str> = DANGERS.iter().map(|(name, _)| *name).collect();
    for (file, text) in SHIPPED {
        let read = Read::parse(text, Path::new(file)).unwrap_or_else(|p| panic!("{}", p.render(false)));
        assert!(read.profile.source.contains("https://"), "{file}: {}", read.profile.source);
        assert!(text.starts_with("# "), "{file} says what to know first");
        let (mut shop, axis) = controller(&read.profile.driver);
        // The bench's stage is slower than the fastest screw.
        let plan = shop.plan(text, axis, &allow).unwrap_or_else(|p| panic!("{file}: {}", p.render(false)));
        assert!(!plan.changes.is_empty(), "{file}");
        // No danger but those that concern what the controller had before.
        for (name, danger) in &plan.allowed {
            let expected = danger.name == "limits-off"
                && (name.starts_with("$13")
                    || ["$5", "$20", "$22"].contains(&name.as_str())
                    || name.ends_with("limit.max"));
            assert!(expected, "{file}: {name}: {danger:?}");
        }
        let outcome = shop.run(&plan);
        assert_eq!(outcome, Outcome::New { proved: true }, "{file}");
    }
}
