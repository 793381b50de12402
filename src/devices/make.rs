//! Makes all devices of a rig: each link whole, with every device that names it.

use std::sync::Arc;

use super::link::Connector;
use super::link::gate::Gate;
use super::{Camera, Driver, OnLink, Open, Output, Sensor, Stage, driver};
use crate::config;
use crate::interlocks::StageTraits;
use crate::model::{Code, Name, RigError, Source};

/// All that the rig thread needs of a rig's devices; made from the rig file, opened by ticking.
pub struct Devices {
    /// The stages in the rig's order.
    pub stages: Vec<Box<dyn Stage>>,
    /// The cameras in the rig's order.
    pub cameras: Vec<Box<dyn Camera>>,
    /// The outputs in the rig's order.
    pub outputs: Vec<Box<dyn Output>>,
    /// The sensors in the rig's order.
    pub sensors: Vec<Box<dyn Sensor>>,
    /// The traits of the stages.
    pub traits: Vec<StageTraits>,
    /// Where the stages' positions come from.
    pub sources: Vec<Source>,
    /// The gate of each link that a device uses, by the link's name.
    pub gates: Vec<(Name, Gate)>,
}

fn no_driver(driver: &str, id: &dyn std::fmt::Display) -> RigError {
    RigError::new(Code::Unsupported, format!("There is no driver \"{driver}\" for {id}."))
}

/// Devices on their way to their places in the rig's order.
struct Places<T>(Vec<Option<T>>);

impl<T> Places<T> {
    fn new(count: usize) -> Places<T> {
        Places((0..count).map(|_| None).collect())
    }

    fn put(&mut self, indices: Vec<usize>, made: Vec<T>) {
        for (index, one) in indices.into_iter().zip(made) {
            self.0[index] = Some(one);
        }
    }

    fn all<'n>(self, names: impl Iterator<Item = (&'n String, &'n Name)>) -> Result<Vec<T>, RigError> {
        let missing =
            |driver: &String, id: &Name| RigError::new(Code::Internal, format!("Driver {driver} made no {id}."));
        self.0.into_iter().zip(names).map(|(one, (driver, id))| one.ok_or_else(|| missing(driver, id))).collect()
    }
}

/// Makes the devices of a rig. `connect` says how a link is opened: [`link::connector`], or memory in tests.
///
/// # Errors
/// `unsupported` for a driver that isn't there or drives another kind of device; `config` refuses such files
/// before.
pub fn make(
    rig: &Arc<config::Rig>,
    connect: &mut dyn FnMut(&config::Link) -> Box<dyn Connector>,
) -> Result<Devices, RigError> {
    let (mut traits, mut sources, mut cameras) = (vec![], vec![], vec![]);
    let mut gates: Vec<(Name, Gate)> = Vec::new();
    let mut connect = |link: &config::Link| {
        let (gate, connector) = Gate::before(connect(link));
        gates.push((link.id.clone(), gate));
        connector
    };
    for s in &rig.stages {
        let Some(Driver { open: Open::Stage { traits: t, source, .. }, .. }) = driver(&s.driver) else {
            return Err(no_driver(&s.driver, &s.id));
        };
        traits.push(*t);
        sources.push(*source);
    }
    let mut stages = Places::new(rig.stages.len());
    let mut outputs = Places::new(rig.outputs.len());
    let mut sensors = Places::new(rig.sensors.len());
    // Each link is made whole: all devices that name it share its one connection.
    for link in &rig.links {
        let here = |name: &Name| *name == link.id;
        let on_stages = rig.stages.iter().enumerate().filter(|(_, s)| here(&s.link));
        let (stage_places, on_stages): (Vec<usize>, Vec<&config::Stage>) = on_stages.unzip();
        let on_outputs = rig.outputs.iter().enumerate().filter(|(_, o)| o.link.as_ref().is_some_and(here));
        let (output_places, on_outputs): (Vec<usize>, Vec<&config::Output>) = on_outputs.unzip();
        let on_sensors = rig.sensors.iter().enumerate().filter(|(_, s)| here(&s.link));
        let (sensor_places, on_sensors): (Vec<usize>, Vec<&config::Sensor>) = on_sensors.unzip();
        let drivers = on_stages.iter().map(|s| &s.driver).chain(on_outputs.iter().map(|o| &o.driver));
        let first = drivers.chain(on_sensors.iter().map(|s| &s.driver)).next();
        let Some(name) = first else { continue };
        let engine = driver(name).and_then(Driver::engine).ok_or_else(|| no_driver(name, &link.id))?;
        let made = engine(&OnLink { stages: on_stages, outputs: on_outputs, sensors: on_sensors }, connect(link));
        stages.put(stage_places, made.stages);
        outputs.put(output_places, made.outputs);
        sensors.put(sensor_places, made.sensors);
    }
    for (index, o) in rig.outputs.iter().enumerate().filter(|(_, o)| o.link.is_none()) {
        let Some(Driver { open: Open::ByHand { make, .. }, .. }) = driver(&o.driver) else {
            return Err(no_driver(&o.driver, &o.id));
        };
        outputs.put(vec![index], vec![make(o)]);
    }
    for c in &rig.cameras {
        let camera = match (driver(&c.driver).map(|d| &d.open), &c.link) {
            (Some(Open::Camera { make }), Some(link)) => {
                let missing = || RigError::new(Code::NotFound, format!("There is no link {link}."));
                make(c, connect(rig.link(link.as_str()).ok_or_else(missing)?))
            }
            (Some(Open::Folder { make }), None) => make(c),
            _ => return Err(no_driver(&c.driver, &c.id)),
        };
        cameras.push(camera);
    }
    Ok(Devices {
        stages: stages.all(rig.stages.iter().map(|s| (&s.driver, &s.id)))?,
        cameras,
        outputs: outputs.all(rig.outputs.iter().map(|o| (&o.driver, &o.id)))?,
        sensors: sensors.all(rig.sensors.iter().map(|s| (&s.driver, &s.id)))?,
        traits,
        sources,
        gates,
    })
}
