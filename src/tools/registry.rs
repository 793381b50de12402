//! All tools, in one table: what they are called, what they say of themselves, what they take and give.

use std::sync::Arc;

use rmcp::model::{Tool, ToolAnnotations};

use super::call::Handler;
use super::presence::Present;
use super::schema::{self, Object, Schema};
use super::{camera, describe, eaa, images, jobs, motion, outputs, state, stopping};
use crate::access::Policy;
use crate::config::Rig;

/// What a rig must have for a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Need {
    /// Nothing.
    Nothing,
    /// A stage.
    Stage,
    /// A stage, but the tool stays when it is gone.
    AnyStage,
    /// A camera.
    Camera,
    /// An output.
    Output,
    /// A sensor.
    Sensor,
    /// A camera, but the tool stays when it is gone: it reads what was taken.
    Pictures,
    /// The section `[eaa]`; the tool stays when its camera is gone.
    Eaa,
    /// The section `[eaa]` with parameters.
    EaaParameters,
}

impl Need {
    /// Whether the rig has it.
    pub(crate) fn of(self, rig: &Rig) -> bool {
        match self {
            Need::Nothing => true,
            Need::Stage | Need::AnyStage => !rig.stages.is_empty(),
            Need::Camera | Need::Pictures => !rig.cameras.is_empty(),
            Need::Output => !rig.outputs.is_empty(),
            Need::Sensor => !rig.sensors.is_empty(),
            Need::Eaa => rig.eaa.is_some(),
            Need::EaaParameters => rig.eaa.as_ref().is_some_and(|e| !e.parameters.is_empty()),
        }
    }

    /// Whether it is there now.
    pub(crate) fn present(self, present: Present) -> bool {
        match self {
            Need::Stage => present.stages,
            Need::Camera => present.cameras,
            Need::Output => present.outputs,
            Need::Sensor => present.sensors,
            Need::Nothing | Need::AnyStage | Need::Pictures | Need::Eaa | Need::EaaParameters => true,
        }
    }

    /// What a rig lacks for it, in words.
    pub(crate) fn lacking(self) -> &'static str {
        match self {
            Need::Nothing => "nothing is lacking",
            Need::Stage | Need::AnyStage => "this rig has no stage",
            Need::Camera | Need::Pictures => "this rig has no camera",
            Need::Output => "this rig has no output",
            Need::Sensor => "this rig has no sensor",
            Need::Eaa => "the rig file has no [eaa] section",
            Need::EaaParameters => "the rig file's [eaa] section has no parameters",
        }
    }
}

/// What a tool does to the world, for clients that ask before they call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hints {
    pub(crate) read_only: bool,
    pub(crate) destructive: bool,
    pub(crate) idempotent: bool,
}

const READS: Hints = Hints { read_only: true, destructive: false, idempotent: true };
const SETS: Hints = Hints { read_only: false, destructive: false, idempotent: true };
const ADDS: Hints = Hints { read_only: false, destructive: false, idempotent: false };
const MOVES: Hints = Hints { read_only: false, destructive: true, idempotent: false };
const MOVES_TO: Hints = Hints { read_only: false, destructive: true, idempotent: true };

/// One tool.
pub(crate) struct Spec {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its name for people.
    pub(crate) title: &'static str,
    /// What a model reads; `{travel}` becomes the ranges of the rig's axes.
    pub(crate) description: &'static str,
    /// What it does to the world.
    pub(crate) hints: Hints,
    /// What it needs.
    pub(crate) need: Need,
    /// Its arguments, of a rig.
    pub(crate) input: fn(&Rig) -> Schema,
    /// Its result, of a rig.
    pub(crate) output: fn(&Rig) -> Schema,
    /// Calls that its description shows or implies, for the demonstration rig.
    pub(crate) examples: &'static [&'static str],
    /// What runs it.
    pub(crate) run: Handler,
}

/// Whether a tool's answer may be larger than some clients take from a stream of events. As a single JSON document they
/// do, so that over HTTP such a call must show no sign of life that would turn its answer into a stream.
pub fn may_be_large(tool: &str) -> bool {
    tool == "get_attribute_payload"
}

impl Spec {
    /// Whether the policy lets callers have it.
    pub(crate) fn granted(&self, policy: Policy) -> bool {
        policy.grants(self.hints.read_only, self.name == "stop")
    }
}

/// A tool of this rig, ready to be listed and checked against.
pub(crate) struct Built {
    pub(crate) spec: &'static Spec,
    pub(crate) tool: Tool,
    pub(crate) input: Arc<Schema>,
}

/// The tools that this rig has features for, in the table's order; without a rig, `diagnose` alone.
pub(crate) fn build(rig: Option<&Rig>) -> Vec<Built> {
    let ranges = rig.map(schema::ranges).unwrap_or_default();
    let has = |s: &&Spec| rig.map_or(s.name == "diagnose", |r| s.need.of(r));
    TABLE.iter().filter(has).map(|spec| built(spec, rig, &ranges)).collect()
}

fn built(spec: &'static Spec, rig: Option<&Rig>, ranges: &str) -> Built {
    // Without a rig only `diagnose` is built, which takes nothing.
    let (input, output) = match rig {
        Some(rig) => ((spec.input)(rig), (spec.output)(rig)),
        None => (Object::new().build(), schema::result(false).build()),
    };
    let input = Arc::new(input);
    let h = spec.hints;
    let hints = ToolAnnotations::with_title(spec.title)
        .read_only(h.read_only)
        .destructive(h.destructive)
        .idempotent(h.idempotent)
        .open_world(false);
    let tool = Tool::new(spec.name, spec.description.replace("{travel}", ranges), input.clone())
        .with_title(spec.title)
        .with_raw_output_schema(Arc::new(output))
        .with_annotations(hints);
    Built { spec, tool, input }
}

/// The tool of that name.
pub(crate) fn find(name: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|s| s.name == name)
}

/// Whether there is a tool of that name.
pub(crate) fn is_tool(name: &str) -> bool {
    find(name).is_some()
}

fn nothing(_: &Rig) -> Schema {
    Object::new().build()
}

fn reads(_: &Rig) -> Schema {
    schema::result(false).build()
}

fn moves(_: &Rig) -> Schema {
    schema::result(true).build()
}

fn bare(_: &Rig) -> Schema {
    Object::open().build()
}

/// All tools in the order in which they are listed.
pub(crate) const TABLE: &[Spec] = &[
    Spec {
        name: "describe_rig",
        title: "Describe the rig",
        description: "What this rig is: stages, axes with units, limits and directions in words, cameras, outputs, sensors, \
                      interlocks with the owner's reasons, what it cannot do, saved positions. Call it first, once; it \
                      never changes. For the present state call get_state.",
        hints: READS,
        need: Need::Nothing,
        input: nothing,
        output: reads,
        examples: &["{}"],
        run: |call| Box::pin(describe::describe_rig(call)),
    },
    Spec {
        name: "get_state",
        title: "Get the state",
        description: "Where everything stands now: positions with trust and age, what moves, faults, stops, jobs, and the \
                      state_epoch that move_by needs. Cheap. For connection trouble call diagnose.",
        hints: READS,
        need: Need::Nothing,
        input: state::get_state_input,
        output: reads,
        examples: &["{}", r#"{"stage": "scope"}"#],
        run: |call| Box::pin(state::get_state(call)),
    },
    Spec {
        name: "diagnose",
        title: "Diagnose connections",
        description: "Each device's connection: port, identity, last error, and what a person should do. Always answers, \
                      also when the rig file is wrong or everything is unplugged. For positions call get_state.",
        hints: READS,
        need: Need::Nothing,
        input: nothing,
        output: reads,
        examples: &["{}"],
        run: |call| Box::pin(state::diagnose(call)),
    },
    Spec {
        name: "list_events",
        title: "List events",
        description: "The audit log, newest first: who ordered what, what moved, faults, stops. For pictures call list_images.",
        hints: READS,
        need: Need::Nothing,
        input: state::list_events_input,
        output: reads,
        examples: &[r#"{"limit": 10}"#, r#"{"kind": "stop", "limit": 5}"#],
        run: |call| Box::pin(state::list_events(call)),
    },
    Spec {
        name: "check_move",
        title: "Check a move",
        description: "Judges a move without moving: every interlock's verdict, the path swept, the duration, the nearest \
                      allowed target. Give targets (absolute) or offsets (relative). Ranges: {travel}.",
        hints: READS,
        need: Need::AnyStage,
        input: motion::check_move_input,
        output: reads,
        examples: &[r#"{"stage": "scope", "targets": {"x": 12.5}, "unit": "mm"}"#],
        run: |call| Box::pin(motion::check_move(call)),
    },
    Spec {
        name: "move_to",
        title: "Move to a position",
        description: "Moves axes of one stage to absolute positions (targets and unit), or to a saved_position. Out of range \
                      is refused, never clamped. Ranges: {travel}. Example: {\"stage\": \"scope\", \"targets\": {\"x\": 12.5}, \
                      \"unit\": \"mm\"}. For a step from here use move_by.",
        hints: MOVES_TO,
        need: Need::Stage,
        input: motion::move_to_input,
        output: moves,
        examples: &[
            r#"{"stage": "scope", "targets": {"x": 12.5}, "unit": "mm"}"#,
            r#"{"stage": "scope", "targets": {"x": 12000, "y": 10000}, "unit": "um"}"#,
        ],
        run: |call| Box::pin(motion::move_to(call)),
    },
    Spec {
        name: "move_by",
        title: "Move by a distance",
        description: "Moves axes of one stage by signed distances from where they stand. from_epoch is the stage's \
                      state_epoch on which you decided; if the stage has moved since, it is refused. To repeat a call \
                      safely pass command_id. For a known target use move_to.",
        hints: MOVES,
        need: Need::Stage,
        input: motion::move_by_input,
        output: moves,
        // Needs a state_epoch of the moment, so that no literal example can run.
        examples: &[],
        run: |call| Box::pin(motion::move_by(call)),
    },
    Spec {
        name: "home",
        title: "Home a stage",
        description: "References a stage: it drives to its switches, in the order that describe_rig tells. Needed when the \
                      trust of a position is unknown. Check that the way is free.",
        hints: MOVES,
        need: Need::Stage,
        input: motion::home_input,
        output: moves,
        examples: &[r#"{"stage": "scope"}"#],
        run: |call| Box::pin(motion::home(call)),
    },
    Spec {
        name: "stop",
        title: "STOP",
        description: "Stops everything, or one stage, at once, past every queue. Always works. It latches: clear_fault \
                      releases it. To end just one job use cancel_job.",
        hints: SETS,
        need: Need::Nothing,
        input: stopping::stop_input,
        output: moves,
        examples: &["{}", r#"{"stage": "scope"}"#],
        run: |call| Box::pin(stopping::stop(call)),
    },
    Spec {
        name: "clear_fault",
        title: "Clear a fault or stop",
        description: "Acknowledges a device's fault, alarm or stop once its cause is gone. Never releases a person's stop.",
        hints: SETS,
        need: Need::Nothing,
        input: stopping::clear_fault_input,
        output: reads,
        examples: &[r#"{"device": "scope"}"#],
        run: |call| Box::pin(stopping::clear_fault(call)),
    },
    Spec {
        name: "go_back",
        title: "Go back",
        description: "Returns a stage to where its last move began, over a path that is judged anew.",
        hints: MOVES,
        need: Need::Stage,
        input: motion::go_back_input,
        output: moves,
        examples: &[r#"{"stage": "scope"}"#],
        run: |call| Box::pin(motion::go_back(call)),
    },
    Spec {
        name: "save_position",
        title: "Save the position",
        description: "Gives the stage's present position a name for move_to's saved_position.",
        hints: SETS,
        need: Need::Stage,
        input: motion::save_position_input,
        output: reads,
        examples: &[r#"{"stage": "scope", "name": "start"}"#],
        run: |call| Box::pin(motion::save_position(call)),
    },
    Spec {
        name: "set_output",
        title: "Set an output",
        description: "Sets a light (percent), a shutter or line (state) or a wheel (position), and answers once it reads so; \
                      its delay is waited for. Where a person does it by hand the answer is waiting_for_person with a \
                      job_id. For exposure and gain use set_camera, for tuning lists set_parameters.",
        hints: MOVES_TO,
        need: Need::Output,
        input: outputs::set_output_input,
        output: moves,
        examples: &[
            r#"{"output": "lamp", "percent": 30}"#,
            r#"{"output": "shutter", "state": "open"}"#,
            r#"{"output": "filter", "position": "gfp"}"#,
        ],
        run: |call| Box::pin(outputs::set_output(call)),
    },
    Spec {
        name: "read_sensor",
        title: "Read a sensor",
        description: "The newest reading of a sensor with its unit and age. For positions and outputs call get_state.",
        hints: READS,
        need: Need::Sensor,
        input: outputs::read_sensor_input,
        output: outputs::read_sensor_output,
        examples: &[r#"{"sensor": "temperature"}"#],
        run: |call| Box::pin(outputs::read_sensor(call)),
    },
    Spec {
        name: "acquire_image",
        title: "Acquire an image",
        description: "Takes one picture; returns its PNG and exact raw data as paths, with statistics in words. With \
                      x_center, y_center, size_x, size_y (all four) it MOVES THE STAGE there first, judged as motion, and \
                      crops to that region. Settings: set_camera. Earlier pictures: list_images.",
        hints: MOVES,
        need: Need::Camera,
        input: camera::acquire_image_input,
        output: camera::acquire_image_output,
        examples: &["{}", r#"{"label": "overview"}"#],
        run: |call| Box::pin(camera::acquire_image(call)),
    },
    Spec {
        name: "set_camera",
        title: "Set the camera",
        description: "Changes exposure, gain, region of interest, binning or bit depth for the pictures to come; what is \
                      left out stays. Returns what was really set. Moves nothing; for lights see set_output, for tuning \
                      lists of values set_parameters.",
        hints: SETS,
        need: Need::Camera,
        input: camera::set_camera_input,
        output: reads,
        examples: &[r#"{"exposure_ms": 20}"#],
        run: |call| Box::pin(camera::set_camera(call)),
    },
    Spec {
        name: "list_images",
        title: "List images",
        description: "Pictures on disk, newest first, with paths and positions. For who did what call list_events.",
        hints: READS,
        need: Need::Pictures,
        input: images::list_images_input,
        output: reads,
        examples: &[r#"{"limit": 5}"#],
        run: |call| Box::pin(images::list_images(call)),
    },
    Spec {
        name: "export_array",
        title: "Export an array",
        description: "Writes a picture's exact pixels to an NPY or TIFF file under a name of your choice; returns the path.",
        hints: ADDS,
        need: Need::Pictures,
        input: images::export_array_input,
        output: reads,
        examples: &[],
        run: |call| Box::pin(images::export_array(call)),
    },
    Spec {
        name: "whoami",
        title: "Who am I",
        description: "How this server sees you and what it lets you do.",
        hints: READS,
        need: Need::Nothing,
        input: nothing,
        output: reads,
        examples: &["{}"],
        run: |call| Box::pin(state::whoami(call)),
    },
    Spec {
        name: "get_job",
        title: "Get a job",
        description: "How a job stands; when it has ended, exactly what its tool would have answered. With wait_s it waits \
                      for the end that long.",
        hints: READS,
        need: Need::Nothing,
        input: jobs::get_job_input,
        output: reads,
        examples: &[],
        run: |call| Box::pin(jobs::get_job(call)),
    },
    Spec {
        name: "cancel_job",
        title: "Cancel a job",
        description: "Ends one job and stops what it moves; answers when that stands still. To stop everything use stop.",
        hints: SETS,
        need: Need::Nothing,
        input: jobs::cancel_job_input,
        output: reads,
        examples: &[],
        run: |call| Box::pin(jobs::cancel_job(call)),
    },
    Spec {
        name: "get_attribute_payload",
        title: "Get an attribute",
        description: "The value of an attribute (see list_attributes); arrays as encoded_data, null when unset. For big arrays \
                      use export_array.",
        hints: READS,
        need: Need::Eaa,
        input: eaa::payload_input,
        output: bare,
        examples: &[r#"{"name": "psize_k"}"#],
        run: |call| Box::pin(eaa::get_attribute_payload(call)),
    },
    Spec {
        name: "list_attributes",
        title: "List attributes",
        description: "The attributes that get_attribute_payload knows, with type and shape.",
        hints: READS,
        need: Need::Eaa,
        input: nothing,
        output: reads,
        examples: &["{}"],
        run: |call| Box::pin(eaa::list_attributes(call)),
    },
    Spec {
        name: "get_current_image_info",
        title: "Current image info",
        description: "Pixel size, shape and place of the newest image (image_k).",
        hints: READS,
        need: Need::Eaa,
        input: nothing,
        output: reads,
        examples: &["{}"],
        run: |call| Box::pin(eaa::get_image_info(call, eaa::Which::Current)),
    },
    Spec {
        name: "get_previous_image_info",
        title: "Previous image info",
        description: "The same of the image before it (image_km1).",
        hints: READS,
        need: Need::Eaa,
        input: nothing,
        output: reads,
        examples: &["{}"],
        run: |call| Box::pin(eaa::get_image_info(call, eaa::Which::Previous)),
    },
    Spec {
        name: "get_initial_image_info",
        title: "Initial image info",
        description: "The same of the first image (image_0).",
        hints: READS,
        need: Need::Eaa,
        input: nothing,
        output: reads,
        examples: &["{}"],
        run: |call| Box::pin(eaa::get_image_info(call, eaa::Which::Initial)),
    },
    Spec {
        name: "set_parameters",
        title: "Set tuning parameters",
        description: "Sets the rig's tuning parameters as one list, in the order that get_parameters tells. May MOVE STAGES, \
                      judged as motion; all or nothing is judged before anything moves. For one axis use move_to, for the \
                      camera set_camera, for lights set_output.",
        hints: MOVES_TO,
        need: Need::EaaParameters,
        input: eaa::set_parameters_input,
        output: moves,
        examples: &[],
        run: |call| Box::pin(eaa::set_parameters(call)),
    },
    Spec {
        name: "get_parameters",
        title: "Get tuning parameters",
        description: "The present values of the list that set_parameters sets.",
        hints: READS,
        need: Need::EaaParameters,
        input: nothing,
        output: bare,
        examples: &["{}"],
        run: |call| Box::pin(eaa::get_parameters(call)),
    },
];
