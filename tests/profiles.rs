//! Each profile that ships: it is read, names its source, and can be written into a controller of its kind.

mod shop;

use std::path::Path;
use std::time::Duration;

use hw_sim::Bench;
use shop::Shop;
use steadyhand::devices::settings::DANGERS;
use steadyhand::flash::profile::Read;
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
                && (name.starts_with("$13") || name == "$5" || name == "$20" || name == "$22");
            assert!(expected, "{file}: {name}: {danger:?}");
        }
        let outcome = shop.run(&plan);
        assert_eq!(outcome, Outcome::New { proved: true }, "{file}");
    }
}
