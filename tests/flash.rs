//! Settings of simulated controllers, written on virtual time: what is refused, what is written and proved, and the way
//! back from whatever goes wrong.

#[allow(dead_code, unreachable_pub)]
#[path = "support/random.rs"]
mod random;
mod shop;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use hw_sim::{Bench, Fault, MICROSCOPE_TOML};
use random::{Random, share};
use shop::Shop;
use steadyhand::devices::settings::{Keeping, Order, SettingsEvent};
use steadyhand::flash::run::{Goal, Outcome, Run};

const HEAD: &str =
    "[profile]\nname = \"a test\"\nsource = \"this test\"\ndriver = \"grbl\"\nmodel = \"Grbl\"\nfirmware = \"1.1\"\n";

fn grbl() -> Shop {
    let mut shop = Shop::new("grbl", Bench::from_toml(MICROSCOPE_TOML).expect("a bench"), "scope", 1);
    shop.rest(Duration::from_secs(3));
    shop
}

const OF_GRBL: &str = "model = \"Grbl\"";
const OF_GRBL_HAL: &str = "model = \"grblHAL\"";

/// A controller that says itself what its settings may be.
fn grbl_hal() -> Shop {
    let hal = "build_options = \"VM\"\nsettings_schema = true\nversion = \"1.1f.20260818\"\n\
               banner = \"GrblHAL 1.1f ['$' or '$HELP' for help]\"";
    let bench = MICROSCOPE_TOML.replace("build_options = \"VM\"", hal);
    let mut shop = Shop::new("grbl", Bench::from_toml(&bench).expect("a bench"), "scope", 1);
    shop.rest(Duration::from_secs(3));
    shop
}

fn with(settings: &str) -> String {
    format!("{HEAD}[settings]\n{settings}\n")
}

/// What the controller has when power comes on.
fn stored(shop: &mut Shop) -> Vec<(String, String)> {
    shop.power();
    shop.bench.stored(&shop.device, shop.address)
}

#[test]
fn a_profile_is_written_proved_by_a_restart_and_touches_nothing_else() {
    let mut shop = grbl();
    let before = stored(&mut shop);
    let text = with("\"$100\" = 320\n\"$110\" = 2500.5\n\"$23\" = 3\n\"$N0\" = \"G54\"");
    let plan = shop.plan(&text, None, &["startup"]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    assert_eq!(plan.changes.len(), 4, "{:?}", plan.changes);
    assert_eq!(shop.run(&plan), Outcome::New { proved: true });
    assert_eq!(shop.asked_person, 0, "its line restarts it");
    let after = stored(&mut shop);
    for ((n, old), (m, new)) in before.iter().zip(&after) {
        assert_eq!(n, m);
        let wanted = match n.as_str() {
            "$100" => "320.000",
            "$110" => "2500.500",
            "$23" => "3",
            _ => old.as_str(),
        };
        assert_eq!(new, wanted, "{n}");
    }
    let table = {
        shop.known();
        shop.table()
    };
    assert_eq!(table.get("$N0").map(|s| s.value.as_str()), Some("G54"));
    // What is so already needs no run.
    assert!(shop.plan(&text, None, &[]).expect("nothing to do").changes.is_empty());
}

#[test]
fn what_a_controller_says_of_its_settings_is_what_they_may_be() {
    let mut shop = grbl_hal();
    // GRBL has no more than 255 there; this one takes milliseconds up to 65535, and prints a tenth of some settings.
    let asked = with("\"$0\" = 4.3\n\"$1\" = 500\n\"$24\" = 33.3\n\"$100\" = 320.12344\n\"$23\" = 3")
        .replace(OF_GRBL, OF_GRBL_HAL);
    let plan = shop.plan(&asked, None, &["idle-power"]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    assert_eq!(shop.run(&plan), Outcome::New { proved: true }, "{plan:?}");
    let after = stored(&mut shop);
    for (name, value) in [("$0", "4.3"), ("$1", "500"), ("$24", "33.3"), ("$100", "320.12344"), ("$23", "3")] {
        assert_eq!(after.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str()), Some(value), "{name}");
    }
    let wrong = asked.replace("500", "70000").replace("4.3", "1.5").replace("33.3", "33.34");
    let told = shop.plan(&wrong, None, &["idle-power"]).expect_err("out of range").render(false);
    assert!(told.contains("65535") && told.contains("$0") && told.contains(" 2 "), "{told}");
    assert!(told.contains("with 1 decimal: write 33.3"), "{told}");
}

#[test]
fn a_board_without_the_line_is_switched_by_a_person_and_else_it_is_not_proved() {
    for (person, proved) in [(true, true), (false, false)] {
        let mut shop = grbl().without_dtr();
        shop.person = person;
        let plan = shop.plan(&with("\"$11\" = 0.02"), None, &[]).expect("a plan");
        assert_eq!(shop.run(&plan), Outcome::New { proved });
        assert_eq!(shop.asked_person, 1);
    }
}

#[test]
fn soft_limits_go_on_after_homing_and_off_before_it() {
    let mut shop = grbl();
    let off = shop.plan(&with("\"$20\" = 0\n\"$22\" = 0"), None, &["limits-off"]).expect("a plan");
    let order: Vec<&str> = off.changes.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(order, ["$20", "$22"]);
    assert_eq!(shop.run(&off), Outcome::New { proved: true });
    let on = shop.plan(&with("\"$20\" = 1\n\"$22\" = 1"), None, &[]).expect("a plan");
    let order: Vec<&str> = on.changes.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(order, ["$22", "$20"]);
    assert_eq!(shop.run(&on), Outcome::New { proved: true });
}

#[test]
fn what_speaks_against_a_profile_is_told_at_once_with_its_lines_and_nothing_is_written() {
    let mut shop = grbl();
    let text = with(concat!(
        "\"$100\" = 0\n\"$110\" = 99999999\n\"$22\" = 0\n\"$1\" = 25\n\"$999\" = 1\n\"$24\" = \"fast\"\n",
        "\"$11\" = 0.0101\n\"$3\" = 1.5\n\"$N1\" = \"G0X10\"\nhome = 1\n\"$101\" = 1e3",
    ));
    let told = shop.plan(&text, None, &[]).expect_err("refused").render(false);
    for (name, why) in [
        ("$100", "can't be 0.000"),
        ("$110", "can't be"),
        ("$22", "--allow limits-off"),
        ("$1", "--allow idle-power"),
        ("$999", "has no setting $999"),
        ("$24", "it is a number"),
        ("$11", "write 0.010"),
        ("$3", "whole number"),
        ("$N1", "--allow startup"),
        ("home", "there can be no setting"),
        ("$101", "without an exponent"),
    ] {
        assert!(told.contains(name) && told.contains(why), "{name}: {why}: {told}");
    }
    assert!(told.contains("profile.toml:8"), "{told}");
    assert!(!shop.orders.iter().any(|o| matches!(o, Order::Write { .. })));
    assert_eq!(shop.journal, None);

    let steep = shop.plan(&with("\"$100\" = 800\n\"$110\" = 6000"), None, &[]).expect_err("too fast").render(false);
    assert!(steep.contains("80000 steps a second") && steep.contains("2250 mm/min"), "{steep}");
    let soft = shop.plan(&with("\"$22\" = 0"), None, &["limits-off"]).expect_err("inconsistent").render(false);
    assert!(soft.contains("soft limits ($20 = 1) need homing"), "{soft}");
    let other = with("\"$11\" = 0.02").replace("firmware = \"1.1\"", "firmware = \"0.9\"");
    assert!(
        shop.plan(&other, None, &[]).expect_err("another firmware").render(false).contains("not for this controller")
    );
}

#[test]
fn a_profile_of_any_axis_goes_to_the_one_that_is_said() {
    let mut shop = grbl();
    let text = format!(
        "{HEAD}[axis.any]\nholds_unpowered = true\nsettings = {{ steps_per_mm = 402, max_rate_mm_per_min = 1000 }}\n"
    );
    let told = shop.plan(&text, None, &[]).expect_err("which?").render(false);
    assert!(told.contains("--axis"), "{told}");
    assert!(shop.plan(&text, Some("B"), &[]).expect_err("no such axis").render(false).contains("has no axis"));
    let plan = shop.plan(&text, Some("y"), &[]).expect("a plan");
    let names: Vec<&str> = plan.changes.iter().map(|c| c.name.as_str()).collect();
    assert_eq!(names, ["$101", "$111"]);
}

#[test]
fn a_controller_that_moves_is_left_alone() {
    let mut shop = grbl();
    let far: Vec<u8> = b"$X\n$J=G91G21X-20F100\n".to_vec();
    shop.bench.write("scope", &far);
    shop.rest(Duration::from_millis(500));
    match shop.ask(Order::Identify) {
        SettingsEvent::Refused(why) => assert!(why.contains("Jog"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_a_journal_nothing_is_written() {
    let mut shop = grbl();
    let plan = shop.plan(&with("\"$11\" = 0.02"), None, &[]).expect("a plan");
    shop.full = true;
    assert!(matches!(shop.run(&plan), Outcome::Old { .. }));
    assert!(!shop.orders.iter().any(|o| matches!(o, Order::Write { .. })));
}

/// The whole promise: whatever goes wrong and whenever the program dies, at the end the controller holds exactly the old
/// or exactly the new settings, or the program says that it doesn't, and truly.
#[test]
fn at_the_end_a_controller_holds_the_old_settings_or_the_new_ones_or_the_program_says_so() {
    let ends = [const { AtomicU32::new(0) }; 3];
    share(0, 1, 240, |seed| {
        let which = match any_run(seed) {
            Outcome::New { .. } => 0,
            Outcome::Old { .. } => 1,
            Outcome::Mixed { .. } => 2,
        };
        ends[which].fetch_add(1, Ordering::Relaxed);
    });
    let ends = ends.map(AtomicU32::into_inner);
    eprintln!("{} new, {} old, {} mixed", ends[0], ends[1], ends[2]);
    assert!(ends.iter().sum::<u32>() < 240 || ends.iter().all(|n| *n > 0), "each of them happens: {ends:?}");
}

/// Troubles of a seed: what happens when, in the first seconds from `begun`; `names` are settings.
fn troubles(random: &mut Random, begun: Duration, names: &[String]) -> shop::Mishaps {
    let mut all = Vec::new();
    for _ in 0..random.below(4) {
        let any = names[random.below(names.len() as u64) as usize].clone();
        let (fault, end) = match random.below(12) {
            0 => (Fault::Drop { bytes: 1 + random.below(40) as usize }, None),
            1 => (Fault::Garble { bytes: 1 + random.below(5) as usize }, None),
            2 => (Fault::Reset, None),
            3 => (Fault::Late { ms: 1 + random.below(3000) }, None),
            4 => (Fault::Unplug, Some(Fault::Plug)),
            5 => (Fault::Silence { on: true }, Some(Fault::Silence { on: false })),
            6 => (Fault::Mute { on: true }, Some(Fault::Mute { on: false })),
            7 => (Fault::StoreDead { on: true }, Some(Fault::StoreDead { on: false })),
            8 => (Fault::StoreAt { setting: any }, None),
            9 => (Fault::StoreRound { to: 7.0 }, Some(Fault::StoreRound { to: 0.0 })),
            10 => (
                Fault::StoreRefuse { setting: any.clone(), on: true },
                Some(Fault::StoreRefuse { setting: any, on: false }),
            ),
            _ => (Fault::StoreReset, None),
        };
        let when = begun + Duration::from_millis(random.below(1800));
        all.push((when, fault));
        // Most troubles end; some last for good.
        if let Some(end) = end.filter(|_| random.chance(75)) {
            all.push((when + Duration::from_millis(1 + random.below(8000)), end));
        }
    }
    all.sort_by_key(|(at, _)| *at);
    all
}

/// A controller of each driver, with settings that a profile may change.
fn any_controller(which: u64, random: &mut Random) -> (Shop, String) {
    let mut lines = |of: &[(&str, u64, u64)]| {
        let mut text = String::new();
        for (i, (name, low, high)) in of.iter().enumerate() {
            if i == 0 || random.chance(50) {
                text += &format!("\"{name}\" = {}\n", low + random.below(high - low));
            }
        }
        text
    };
    match which {
        0 | 3 => {
            let settings = lines(&[
                ("$2", 1, 8),
                ("$100", 50, 200),
                ("$101", 50, 200),
                ("$120", 5, 400),
                ("$24", 10, 60),
                ("$26", 1, 500),
                ("$11", 0, 9),
            ]);
            match which {
                0 => (grbl(), with(&settings)),
                _ => (grbl_hal(), with(&settings).replace(OF_GRBL, OF_GRBL_HAL)),
            }
        }
        1 => {
            let settings = lines(&[
                ("knob.distance", 1000, 4000),
                ("maxspeed", 10_000, 80_000),
                ("motion.accelonly", 10, 80),
                ("motion.decelonly", 10, 80),
                ("limit.max", 50_000, 130_000),
                ("driver.current.hold", 1, 19),
                ("limit.home.offset", 600, 900),
            ]);
            (chain(1), format!("{ZABER}[axis.1.settings]\n{settings}"))
        }
        _ => {
            let settings = lines(&[("AC", 60, 900), ("S", 1, 5), ("B", 1, 3), ("E", 1, 3)]);
            let text = format!("{ASI}[axis.X.settings]\n{settings}[axis.Z.settings]\nPC = 1\n");
            (asi(), text)
        }
    }
}

/// A run of a seed, with its resumptions; what it promised is compared with what the controller has.
fn any_run(seed: u64) -> Outcome {
    let mut random = Random(seed);
    let (mut shop, text) = any_controller(seed % 4, &mut random);
    let plan = shop.plan(&text, None, &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    let old = stored(&mut shop);
    let names: Vec<String> = plan.changes.iter().map(|c| c.name.clone()).collect();
    shop.mishaps = troubles(&mut random, shop.now, &names);
    if random.chance(50) {
        shop.dies = Some(shop.now + Duration::from_millis(random.below(4000)));
    }
    let mut outcome = shop.run(&plan);
    if shop.dead {
        shop = shop.reborn();
        shop.dies = random.chance(50).then(|| shop.now + Duration::from_millis(random.below(4000)));
        outcome = resumed(&mut shop, &plan, outcome);
        if shop.dead {
            shop = shop.reborn();
            outcome = resumed(&mut shop, &plan, outcome);
        }
    }
    // Nothing is wrong any more, and power comes on.
    shop.mishaps.clear();
    let mut ends = vec![Fault::Plug, Fault::Silence { on: false }, Fault::Mute { on: false }];
    ends.extend([Fault::StoreDead { on: false }, Fault::StoreRound { to: 0.0 }]);
    for end in ends {
        let device = shop.device.clone();
        shop.bench.fault(&device, end).expect("it ends");
    }
    let now = stored(&mut shop);
    let same = |name: &str, a: &str, b: &str| plan.old.get(name).is_none_or(|s| s.meaning.form.same(a, b));
    let differs = |wanted: &steadyhand::devices::settings::Table| {
        let all = now.iter().zip(&old).filter(|((name, is), (_, was))| {
            let wanted = wanted.get(name).filter(|s| s.meaning.kept).map_or(was.as_str(), |s| s.value.as_str());
            !same(name, is, wanted)
        });
        all.map(|((name, is), _)| format!("{name} is {is}")).collect::<Vec<_>>()
    };
    match &outcome {
        // What no restart has proved may be gone with the power, and that is said.
        Outcome::New { proved } => {
            assert!(!proved || differs(&plan.new).is_empty(), "{:?}: {outcome:?}", differs(&plan.new));
        }
        Outcome::Old { proved, .. } => {
            assert!(!proved || differs(&plan.old).is_empty(), "{:?}: {outcome:?}", differs(&plan.old));
        }
        Outcome::Mixed { settings, .. } => {
            for ((name, value), (_, before)) in now.iter().zip(&old) {
                let Some(new) = plan.new.get(name).filter(|s| s.meaning.kept) else { continue };
                match settings.iter().find(|d| d.name == *name) {
                    // What it had when it was read last; after that power came on.
                    Some(_) => {}
                    None => assert!(
                        same(name, value, before) && same(name, before, &new.value),
                        "{name} is {value}, and nobody said so: {outcome:?}"
                    ),
                }
            }
            assert!(shop.journal.is_some(), "what is mixed has its journal");
        }
    }
    outcome
}

/// What `flash --resume` does: it goes on from wherever the run was cut off.
fn resumed(shop: &mut Shop, plan: &steadyhand::flash::plan::Plan, before: Outcome) -> Outcome {
    let Some(goal) = shop.journal else {
        // It died before the journal, or after the end.
        return match before {
            Outcome::Mixed { .. } => Outcome::Old { proved: false, why: "nothing was begun".into() },
            ended => ended,
        };
    };
    match (shop.ask(Order::Identify), goal) {
        (SettingsEvent::Known(_), Goal::New | Goal::Old) => {}
        _ => return nobody(plan, shop.keeping),
    }
    let mut run = Run::resumed(goal, plan.who.clone(), plan.old.clone(), plan.new.clone(), shop.keeping);
    shop.carry_out(&mut run)
}

/// Nobody answers: nothing is known.
fn nobody(plan: &steadyhand::flash::plan::Plan, keeping: &Keeping) -> Outcome {
    let mut run = Run::resumed(Goal::New, plan.who.clone(), plan.old.clone(), plan.new.clone(), keeping);
    run.kept(Ok(()));
    for _ in 0..3 {
        run.answer(SettingsEvent::Unclear("nobody".into()));
    }
    match run.step() {
        steadyhand::flash::run::Step::Over(outcome) => outcome,
        other => panic!("{other:?}"),
    }
}

// ---- Zaber -------------------------------------------------------------------------------------------------------

const ZABER: &str = "[profile]\nname = \"a test\"\nsource = \"this test\"\ndriver = \"zaber\"\n";

fn chain(address: u8) -> Shop {
    let bench = Bench::from_toml(hw_sim::ZABER_TOML).expect("a bench");
    let device = bench.devices().into_iter().find(|d| d.protocol.starts_with("zaber")).expect("a chain").id;
    let mut shop = Shop::new("zaber", bench, &device, address);
    shop.rest(Duration::from_secs(2));
    shop
}

#[test]
fn a_device_on_a_chain_gets_its_settings_and_its_neighbours_keep_theirs() {
    let mut shop = chain(1);
    let who = shop.known();
    assert!(!who.serial.is_empty() && who.axes == ["1"], "{who:?}");
    let other = {
        let mut neighbour = chain(2);
        neighbour.known();
        neighbour.table()
    };
    let text = format!(
        "{ZABER}[settings]\n\"system.led.enable\" = false\n[axis.1.settings]\nmaxspeed = 100000\n\"limit.max\" = 100000\n"
    );
    let plan = shop.plan(&text, None, &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    assert_eq!(shop.run(&plan), Outcome::New { proved: true });
    shop.power();
    shop.known();
    let table = shop.table();
    assert_eq!(table.number("1.maxspeed"), Some(100_000.0));
    assert_eq!(table.number("system.led.enable"), Some(0.0));
    let mut neighbour = Shop::new("zaber", shop.bench, &shop.device, 2);
    neighbour.known();
    assert_eq!(neighbour.table().differences(&other), []);
}

#[test]
fn currents_limits_and_addresses_of_a_device_need_a_word() {
    let mut shop = chain(1);
    shop.known();
    let table = shop.table();
    let now = |name: &str| table.number(name).expect("a number");
    let text = |rated: &str| {
        format!(
            "{ZABER}[settings]\n\"comm.address\" = 7\n[axis.1]\n{rated}\n[axis.1.settings]\n\"driver.current.run\" = {}\n\
             \"limit.max\" = {}\n",
            now("1.driver.current.run") + 10.0,
            now("1.limit.max") + 1000.0
        )
    };
    let told = shop.plan(&text(""), None, &[]).expect_err("dangerous").render(false);
    for name in ["address", "current", "limits-off"] {
        assert!(told.contains(&format!("--allow {name}")), "{name}: {told}");
    }
    // A motor that may have that much is no danger.
    let told = shop.plan(&text("rated_current_a = 9.0"), None, &["address", "limits-off"]);
    told.unwrap_or_else(|p| panic!("{}", p.render(false)));
    let told = shop
        .plan(&text("rated_current_a = 0.1"), None, &["address", "limits-off"])
        .expect_err("too much")
        .render(false);
    assert!(told.contains("more than the motor's 0.1 A"), "{told}");
}

#[test]
fn with_a_resolution_goes_everything_that_is_counted_in_it() {
    let mut shop = chain(1);
    shop.known();
    let table = shop.table();
    let text = format!("{ZABER}[axis.1.settings]\nresolution = 32\n");
    let told = shop.plan(&text, None, &[]).expect_err("others change with it").render(false);
    assert!(told.contains("1.limit.max") && told.contains("1.maxspeed"), "{told}");
    let named: Vec<String> = table
        .iter()
        .filter(|s| (shop.keeping.rescales)("1.resolution").contains(&s.name))
        .map(|s| format!("\"{}\" = {}", s.name.trim_start_matches("1."), s.value))
        .collect();
    let whole = format!("{text}{}\n", named.join("\n"));
    let plan = shop.plan(&whole, None, &["limits-off"]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    assert_eq!(plan.changes[0].name, "1.resolution", "the others are counted anew by it, and come after");
    assert_eq!(shop.run(&plan), Outcome::New { proved: true });
    let now = shop.table();
    assert_eq!(now.number("1.resolution"), Some(32.0));
    assert_eq!(now.number("1.limit.max"), table.number("1.limit.max"));
}

// ---- ASI ---------------------------------------------------------------------------------------------------------

const ASI: &str = "[profile]\nname = \"a test\"\nsource = \"this test\"\ndriver = \"asi\"\n";

fn asi() -> Shop {
    let mut shop = Shop::new("asi", Bench::from_toml(hw_sim::ASI_TOML).expect("a bench"), "scope", 1);
    shop.rest(Duration::from_secs(2));
    shop
}

#[test]
fn what_is_only_in_working_memory_is_saved_and_limits_are_left_alone() {
    let mut shop = asi();
    let text = format!("{ASI}[axis.X.settings]\nS = 2.5\nAC = 80\n[axis.Z.settings]\nB = 0.02\n");
    let plan = shop.plan(&text, None, &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
    assert_eq!(shop.run(&plan), Outcome::New { proved: true });
    let now = stored(&mut shop);
    let value = |name: &str| now.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    assert_eq!((value("S X"), value("AC X"), value("B Z")), (Some("2.500000"), Some("80.000000"), Some("0.020000")));
    let limits = format!("{ASI}[axis.X.settings]\nSU = 50\n");
    let told = shop.plan(&limits, None, &[]).expect_err("not kept").render(false);
    assert!(told.contains("SAVEPOS"), "{told}");
}

// ---- what goes wrong with the memory -----------------------------------------------------------------------------

#[test]
fn each_way_in_which_a_memory_can_fail_ends_with_the_old_settings_or_a_true_word() {
    let profiles = [
        ("grbl", with("\"$100\" = 320\n\"$101\" = 330")),
        ("zaber", format!("{ZABER}[axis.1.settings]\nmaxspeed = 50000\n\"knob.distance\" = 2000\n")),
        ("asi", format!("{ASI}[axis.X.settings]\nS = 2.5\nAC = 80\n")),
    ];
    for (driver, text) in &profiles {
        let (one, other) = match *driver {
            "grbl" => ("$100", "$110"),
            "zaber" => ("1.maxspeed", "1.motion.accelonly"),
            _ => ("AC X", "B X"),
        };
        let faults = [
            ("keeps nothing", Fault::StoreDead { on: true }, "after a restart"),
            ("lands elsewhere", Fault::StoreAt { setting: other.into() }, "after writing"),
            ("rounds", Fault::StoreRound { to: 777.0 }, "after writing"),
            ("refuses", Fault::StoreRefuse { setting: one.into(), on: true }, "refused"),
            ("loses its power", Fault::StoreReset, ""),
        ];
        for (what, fault, says) in faults {
            let mut shop = match *driver {
                "grbl" => grbl(),
                "zaber" => chain(1),
                _ => asi(),
            };
            let plan = shop.plan(text, None, &[]).unwrap_or_else(|p| panic!("{}", p.render(false)));
            let old = stored(&mut shop);
            let device = shop.device.clone();
            shop.bench.fault(&device, fault).expect("a fault");
            let outcome = shop.run(&plan);
            let now = stored(&mut shop);
            match &outcome {
                Outcome::Old { why, .. } => {
                    assert!(why.contains(says), "{driver} {what}: {why}");
                    assert_eq!(now, old, "{driver} {what}: {outcome:?}");
                }
                // Rounding and a dead memory last: what was there before can't be written either.
                Outcome::Mixed { why, settings } => {
                    assert!(why.contains(says) && !settings.is_empty(), "{driver} {what}: {outcome:?}");
                }
                Outcome::New { .. } => panic!("{driver} {what}: {outcome:?}"),
            }
        }
    }
}
