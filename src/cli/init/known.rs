//! What the rig file that exists says already: it is proposed again, so that nothing is widened unasked. Pure.

use toml_edit::{DocumentMut, Item, Table, TableLike};

use super::axis::AxisPlan;
use super::probe::{FoundAxis, Place, spelled};
use super::render::Port;
use crate::units::{Distance, Unit, plain};

/// An axis as the file has it; numbers in its unit. What the file lacks is `None`.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct KnownAxis {
    pub(super) name: String,
    pub(super) channel: String,
    pub(super) counts: Option<f64>,
    pub(super) unit: Unit,
    pub(super) sign: Option<f64>,
    pub(super) origin: Option<f64>,
    pub(super) travel: Option<[f64; 2]>,
    pub(super) speed: Option<f64>,
    pub(super) tolerance: Option<f64>,
    pub(super) trust: Option<String>,
    pub(super) holds_unpowered: Option<bool>,
    pub(super) toward_sample: Option<char>,
    pub(super) why: Option<String>,
}

/// How a stage homes by the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum KnownHome {
    Never,
    Order(Vec<String>),
}

/// What the file says; empty where there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct Known {
    /// The rig's name.
    pub(super) rig: Option<String>,
    /// The stage's name.
    pub(super) stage: Option<String>,
    /// The stage's driver.
    pub(super) driver: Option<String>,
    /// The stage's link.
    pub(super) link: Option<String>,
    pub(super) home: Option<KnownHome>,
    pub(super) on_client_lost: Option<String>,
    pub(super) axes: Vec<KnownAxis>,
    /// Link and channel of the axes of other stages.
    elsewhere: Vec<(String, String)>,
    links: Vec<Table>,
}

impl Known {
    /// From the text of the file. `stage` names the stage that is meant; without it, it is the first.
    pub(super) fn of(old: Option<&str>, stage: Option<&str>) -> Known {
        let Some(file) = old.and_then(|text| text.parse::<DocumentMut>().ok()) else { return Known::default() };
        let section = |name: &str, key: &str| text(file.get(name)?.as_table_like()?, key);
        let same = |t: &&Table| stage.is_none_or(|s| text(*t, "id").as_deref() == Some(s));
        let there = file.get("stage").and_then(Item::as_array_of_tables).and_then(|s| s.iter().find(same));
        let axes = there.and_then(|t| t.get("axes")?.as_table_like());
        let all = |name: &str| file.get(name).and_then(Item::as_array_of_tables).into_iter().flatten();
        let of_others = all("stage").filter(|t| there.is_none_or(|own| text(own, "id") != text(*t, "id")));
        let elsewhere = of_others.flat_map(|t| {
            let link = text(t, "link").unwrap_or_default();
            let axes = t.get("axes").and_then(Item::as_table_like).into_iter().flat_map(|a| a.iter());
            axes.map(|(name, a)| {
                let channel = a.as_table_like().and_then(|a| text(a, "channel"));
                (link.clone(), channel.unwrap_or_else(|| name.to_uppercase()))
            })
            .collect::<Vec<_>>()
        });
        Known {
            rig: section("rig", "name"),
            on_client_lost: section("calls", "on_client_lost"),
            stage: there.and_then(|t| text(t, "id")),
            driver: there.and_then(|t| text(t, "driver")),
            link: there.and_then(|t| text(t, "link")),
            home: there.and_then(|t| home(t.get("home")?)),
            elsewhere: elsewhere.collect(),
            links: all("link").cloned().collect(),
            axes: axes.map_or_else(Vec::new, |axes| {
                axes.iter().filter_map(|(name, item)| axis(name, item.as_table_like()?)).collect()
            }),
        }
    }

    /// The file's axis for one of the controller's: by its channel, whatever it is called.
    pub(super) fn axis(&self, driver: &str, found: &FoundAxis) -> Option<&KnownAxis> {
        self.axes.iter().find(|a| spelled(driver, &a.channel) == spelled(driver, &found.channel))
    }

    /// The file's link to that port, whosever it is.
    pub(super) fn link_to(&self, port: &Port) -> Option<String> {
        let leads = |link: &&Table| match port {
            Port::Place(Place::Tcp(address)) => text(*link, "tcp").as_ref() == Some(address),
            Port::Place(Place::Path(path)) => text(*link, "serial").as_ref() == Some(path),
            Port::Usb { id, number, .. } => link
                .get("serial")
                .and_then(Item::as_table_like)
                .is_some_and(|serial| text(serial, "usb").as_ref() == Some(id) && text(serial, "number") == *number),
        };
        self.links.iter().find(leads).and_then(|link| text(link, "id"))
    }

    /// Whether another stage on that link has the axis.
    pub(super) fn is_elsewhere(&self, link: &str, driver: &str, found: &FoundAxis) -> bool {
        let same = |channel: &str| spelled(driver, channel) == spelled(driver, &found.channel);
        self.elsewhere.iter().any(|(other, channel)| other == link && same(channel))
    }

    /// How an axis is called: as in the file, where it has it.
    pub(super) fn name<'a>(&'a self, driver: &str, found: &'a FoundAxis) -> &'a str {
        self.axis(driver, found).map_or(&found.name, |a| &a.name)
    }
}

fn text(table: &dyn TableLike, key: &str) -> Option<String> {
    table.get(key)?.as_str().map(str::to_owned)
}

fn number(item: &Item) -> Option<f64> {
    item.as_float().or_else(|| item.as_integer().map(|i| i as f64))
}

fn home(item: &Item) -> Option<KnownHome> {
    if item.as_str() == Some("never") {
        return Some(KnownHome::Never);
    }
    let order = item.as_table_like()?.get("order")?.as_array()?;
    Some(KnownHome::Order(order.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()))
}

fn axis(name: &str, table: &dyn TableLike) -> Option<KnownAxis> {
    let value = |key: &str| table.get(key).and_then(number);
    let travel = table.get("travel").and_then(Item::as_array).and_then(|ends| {
        let end = |i: usize| ends.get(i).and_then(|v| v.as_float().or_else(|| v.as_integer().map(|i| i as f64)));
        Some([end(0)?, end(1)?])
    });
    Some(KnownAxis {
        name: name.to_owned(),
        channel: text(table, "channel").unwrap_or_else(|| name.to_uppercase()),
        // Without its unit no number means anything.
        unit: Unit::parse(&text(table, "unit")?)?,
        counts: value("counts_per_unit"),
        sign: value("sign"),
        origin: value("origin"),
        travel,
        speed: value("max_speed_per_s"),
        tolerance: value("tolerance"),
        trust: text(table, "trust"),
        holds_unpowered: table.get("holds_unpowered").and_then(Item::as_bool),
        toward_sample: text(table, "toward_sample").and_then(|t| t.chars().next()),
        why: text(table, "why"),
    })
}

impl KnownAxis {
    /// The same with its numbers in another unit of the same dimension.
    pub(super) fn in_unit(&self, unit: Unit) -> KnownAxis {
        let same = self.unit == unit;
        let to = |v: f64| if same { v } else { Distance::new(v, self.unit).map_or(v, |d| d.to(unit)) };
        KnownAxis {
            unit,
            counts: self.counts.map(|c| if same { c } else { Distance::new(c, unit).map_or(c, |d| d.to(self.unit)) }),
            origin: self.origin.map(to),
            travel: self.travel.map(|t| t.map(to)),
            speed: self.speed.map(to),
            tolerance: self.tolerance.map(to),
            ..self.clone()
        }
    }
}

/// What a person is told when the controller's own limits are narrower than the file's; `range` is in counts (base unit)
/// and `fastest` in the axis's unit per second.
pub(super) fn narrower(plan: &AxisPlan, range: Option<[f64; 2]>, fastest: Option<f64>) -> Vec<String> {
    let mut out = Vec::new();
    let (name, unit) = (&plan.name, plan.unit);
    if let Some(range) = range {
        let ends = range.map(|count| plan.sign * Distance::base(count).map_or(count, |d| d.to(unit)) + plan.origin);
        let [low, high] = [ends[0].min(ends[1]), ends[0].max(ends[1])];
        if plan.travel[0] < low - 1e-9 || plan.travel[1] > high + 1e-9 {
            out.push(format!(
                "{name}: the controller lets itself be moved from {} to {} {unit}, and travel = [{}, {}] goes further.",
                plain(low),
                plain(high),
                plain(plan.travel[0]),
                plain(plan.travel[1])
            ));
        }
    }
    if let Some(own) = fastest.filter(|own| *own < plan.speed) {
        out.push(format!(
            "{name}: the controller goes at most {} {unit}/s, and max_speed_per_s = {} allows more.",
            plain(own),
            plain(plan.speed)
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[rig]\nname = \"mine\"\n[[stage]]\nid = \"table\"\nlink = \"usb\"\nhome = \"never\"\n\
                        [stage.axes.focus]\nchannel = \"Z\"\nunit = \"um\"\ntravel = [10, 900.5]\nholds_unpowered = false\n\
                        [[stage]]\nid = \"lift\"\nlink = \"l2\"\nhome = { order = [\"a\"] }\n[calls]\non_client_lost = \"continue\"\n";

    #[test]
    fn what_the_file_says_is_read_and_what_it_lacks_is_not_made_up() {
        let known = Known::of(Some(FILE), None);
        assert_eq!((known.rig.as_deref(), known.stage.as_deref()), (Some("mine"), Some("table")));
        assert_eq!((known.home, known.on_client_lost.as_deref()), (Some(KnownHome::Never), Some("continue")));
        let focus = &known.axes[0];
        assert_eq!((focus.channel.as_str(), focus.travel, focus.speed), ("Z", Some([10.0, 900.5]), None));
        assert_eq!(focus.in_unit(Unit::Mm).travel, Some([0.01, 0.9005]));
        let lift = Known::of(Some(FILE), Some("lift"));
        assert_eq!(lift.home, Some(KnownHome::Order(vec!["a".into()])));
        assert_eq!(Known::of(Some(FILE), Some("new")).axes, []);
        assert!(Known::of(None, None).axes.is_empty());
    }
}
