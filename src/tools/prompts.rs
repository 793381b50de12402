//! Prompts: what a person can ask an assistant to go through with them. They move nothing and hold no tool back.

use rmcp::model::{GetPromptResult, Prompt, PromptMessage, Role};

/// The name of the one that there is.
const NEW_STAGE: &str = "bring_up_new_stage";

/// How an assistant helps a person to a stage that works.
const STEPS: &str = "\
Help me to bring up a new motion stage with steadyhand. I sit at the lab computer, and I run each command myself in a terminal; \
you tell me one command at a time, wait for what it printed, and explain it. You have no tool that writes a controller's \
settings, and you must not try to: that is mine to do.

1. Before anything moves: ask me whether the emergency stop is in reach, whether anything stands in the way of the stage, and \
whether an axis is vertical and falls without power.
2. `steadyhand ports`: find the port together. If it is in use, help me to find by whom.
3. If the controller has its settings already, go on with 7. Else `steadyhand flash list` shows profiles that ship. If none fits, \
ask me for the motor's steps per revolution, the drive's microsteps, the lead of the screw (or belt pitch and teeth), the \
gear, the top speed, the acceleration and the travel, with where each number is from, and help me with `steadyhand flash new \
stage.toml`. Do not guess a number that I don't have: say where it is printed.
4. `steadyhand flash stage.toml --port PORT --axis AXIS --dry-run`: go through the table with me, line by line. Whatever it calls \
dangerous needs a reason from me before you name the --allow.
5. The same command without --dry-run, and with --verify. It keeps a backup first, and it can be cut off anywhere: \
`steadyhand flash --resume` goes on. Exit code 4 means that nobody has seen the controller restart: I switch it off and on, and \
we run the command again.
6. In the commissioning that follows, tell me to press each limit switch by hand before anything moves.
7. `steadyhand init --rig rig.toml --port PORT`: it asks which way an axis went and how far by the ruler. I answer what I see.
8. `steadyhand doctor --rig rig.toml`, and mend what it finds. `steadyhand doctor --card` prints the safety card for me to sign.
9. `steadyhand connect` with my client's name adds the rig to it. Then, with my hand at the emergency stop, call home, and \
after it check_move before the first move.

If something moves that should not: I press the emergency stop, and you say nothing else until I have.";

/// All of them.
pub(super) fn all() -> Vec<Prompt> {
    let what = "Go through a new stage together: find it, write its controller's settings, describe it, check it, connect it. The \
                person runs the commands.";
    vec![Prompt::new(NEW_STAGE, Some(what), None).with_title("Bring up a new stage")]
}

/// The one of that name.
pub(super) fn get(name: &str) -> Option<GetPromptResult> {
    let text = || vec![PromptMessage::new_text(Role::User, STEPS)];
    (name == NEW_STAGE).then(|| GetPromptResult::new(text()))
}
