//! The rig file as `init` writes it, with a comment wherever a person will want to change something. Pure.

use super::axis::AxisPlan;
use super::probe::Place;
use crate::units::plain;

/// How the stage's link is named in the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Port {
    /// By its path or address.
    Place(Place),
    /// By its USB identity, which survives another socket: the path is only a remark.
    Usb { id: String, number: Option<String>, path: String },
}

/// All that goes into the file.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Draft {
    pub(super) rig: String,
    pub(super) link: String,
    pub(super) stage: String,
    pub(super) driver: String,
    pub(super) controller: String,
    pub(super) port: Port,
    pub(super) baud: u32,
    /// The order of homing; empty means that there is none.
    pub(super) home: Vec<String>,
    pub(super) on_client_lost: &'static str,
    pub(super) axes: Vec<AxisPlan>,
}

/// A text as TOML writes it.
fn quoted(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// A number as TOML reads it as a fraction.
fn fraction(value: f64) -> String {
    let text = plain(value);
    if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
}

/// The text of the file.
pub(super) fn render(draft: &Draft) -> String {
    let mut out = format!(
        "# Written by `steadyhand init` for {}. Every line may be changed;\n# `steadyhand check` says what is wrong, \
         `steadyhand doctor` holds it against the hardware.\n\n[rig]\nname = {}\n",
        draft.controller.trim(),
        quoted(&draft.rig)
    );
    let lengths = |name: &str| {
        let axis = draft.axes.iter().find(|a| a.name == name)?;
        (axis.unit.dimension() == crate::units::Dimension::Length).then_some(axis)
    };
    if let (Some(x), Some(_)) = (lengths("x"), lengths("y")) {
        let focus =
            lengths("z").map_or(String::new(), |_| format!(", focus = {}", quoted(&format!("{}.z", draft.stage))));
        out += &format!(
            "# What region tools mean by x and y.\nscan = {{ x = {}, y = {}{focus}, unit = \"{}\" }}\n",
            quoted(&format!("{}.x", draft.stage)),
            quoted(&format!("{}.y", draft.stage)),
            x.unit
        );
    }
    out += &format!("\n[[link]]\nid = {}\n", quoted(&draft.link));
    out += &match &draft.port {
        Port::Place(place) => place.lines(draft.baud),
        Port::Usb { id, number, path } => {
            let number = number.as_ref().map_or(String::new(), |n| format!(", number = {}", quoted(n)));
            format!(
                "serial = {{ usb = {}{number} }}  # it was {path}; the identity stays when that changes\nbaud = {}\n",
                quoted(id),
                draft.baud
            )
        }
    };
    out += &format!(
        "\n[[stage]]\nid = {}\ndriver = {}\nlink = {}\n",
        quoted(&draft.stage),
        quoted(&draft.driver),
        quoted(&draft.link)
    );
    out += &if draft.home.is_empty() {
        "home = \"never\"  # it has no homing: a person declares where it stands (`steadyhand reference`), anew when it was off\n"
            .into()
    } else {
        let order: Vec<String> = draft.home.iter().map(|n| quoted(n)).collect();
        format!("home = {{ order = [{}] }}  # the order in which the controller homes its axes\n", order.join(", "))
    };
    for axis in &draft.axes {
        out += &axis_text(axis, draft.home.is_empty());
    }
    out += &format!(
        "\n[calls]\n# What happens to a running job when its client goes: \"stop\", or \"continue\".\non_client_lost = \"{}\"\n",
        draft.on_client_lost
    );
    out
}

fn axis_text(axis: &AxisPlan, never_homed: bool) -> String {
    let unit = axis.unit;
    let mut out = format!("\n[stage.axes.{}]\nchannel = {}\n", axis.name, quoted(&axis.channel));
    if let Some(counts) = axis.counts {
        out += &format!(
            "counts_per_unit = {}  # so many counts for 1 {unit}: a wrong number moves too far\n",
            fraction(counts)
        );
    }
    out += &format!("unit = \"{unit}\"\n");
    out += &format!(
        "sign = {}  # {}rig position = sign × controller's counter + origin\norigin = {}\n",
        plain(axis.sign),
        if axis.tried { "" } else { "NOT TRIED: nobody has seen which way it goes (steadyhand jog); " },
        fraction(axis.origin)
    );
    let [low, high] = axis.travel.map(fraction);
    out += &format!("travel = [{low}, {high}]  # {}\n", axis.travel_from);
    out += &format!("max_speed_per_s = {}\n", fraction(axis.speed));
    out += &format!("tolerance = {}  # how near to its target it must come to rest\n", fraction(axis.tolerance));
    let kept = axis.trust.as_deref().filter(|trust| !never_homed || *trust == "assumed");
    out += &if let Some(trust) = kept {
        format!("trust = {}\n", quoted(trust))
    } else if never_homed {
        "trust = \"assumed\"  # moves once a person has declared its position\n".to_owned()
    } else {
        "trust = \"referenced\"  # moves once it is homed\n".to_owned()
    };
    if let Some(toward) = axis.toward_sample {
        out += &format!("toward_sample = \"{toward}\"  # the direction that brings sample and optics together\n");
    }
    out += &format!("holds_unpowered = {}  # false: it sinks or turns freely without power\n", axis.holds_unpowered);
    if let Some(why) = &axis.why {
        out += &format!("why = {}\n", quoted(why));
    }
    out
}

#[cfg(test)]
pub(super) mod tests {
    use std::path::Path;

    use super::*;
    use crate::units::Unit;

    pub(in super::super) fn draft() -> Draft {
        let axis = |name: &str, unit| AxisPlan {
            name: name.into(),
            channel: name.to_uppercase(),
            counts: None,
            unit,
            sign: -1.0,
            tried: true,
            origin: 0.0,
            travel: [0.5, 75.0],
            travel_from: "from the controller's own limit",
            speed: 12.5,
            tolerance: 0.01,
            trust: None,
            holds_unpowered: true,
            toward_sample: None,
            why: Some("the \"lens\"".into()),
        };
        Draft {
            rig: "my-rig".into(),
            link: "stage-port".into(),
            stage: "stage".into(),
            driver: "grbl".into(),
            controller: "Grbl 1.1h".into(),
            port: Port::Place(Place::Path("/dev/pts/5".into())),
            baud: 115_200,
            home: vec!["z".into(), "x".into(), "y".into()],
            on_client_lost: "stop",
            axes: vec![axis("x", Unit::Mm), axis("y", Unit::Mm), axis("z", Unit::Um)],
        }
    }

    #[test]
    fn what_is_written_is_a_rig_file_with_these_numbers() {
        let usb = Port::Usb { id: "1a86:7523".into(), number: Some("A1\"0".into()), path: "/dev/ttyUSB0".into() };
        for port in [draft().port, usb, Port::Place(Place::Tcp("10.0.0.1:23".into()))] {
            let text = render(&Draft { port, ..draft() });
            let rig = crate::config::parse(&text, Path::new("rig.toml"), &crate::devices::known());
            let rig = rig.unwrap_or_else(|p| panic!("{}\n{text}", p.render(false)));
            let x = &rig.stages[0].axes[0];
            assert_eq!((x.sign, x.travel.low.in_base(), x.travel.high.in_base()), (-1.0, 0.5, 75.0));
            assert_eq!(x.max_speed.in_base(), 12.5);
            assert!(rig.scan.is_some());
        }
    }
}
