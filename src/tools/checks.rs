//! What the tools make of arguments, for tests that send anything.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::args::Args;
use super::registry::{Built, build};
use crate::config::Rig;

/// What the tools of a rig make of arguments, without carrying anything out.
#[doc(hidden)]
pub struct ArgumentChecks {
    rig: Arc<Rig>,
    tools: Vec<Built>,
}

impl ArgumentChecks {
    /// Of that rig's tools.
    pub fn of(rig: &Arc<Rig>) -> ArgumentChecks {
        ArgumentChecks { rig: rig.clone(), tools: build(Some(rig)) }
    }

    /// Their names.
    pub fn tools(&self) -> Vec<&'static str> {
        self.tools.iter().map(|t| t.spec.name).collect()
    }

    /// The arguments as the tool would have them.
    ///
    /// # Errors
    /// What its client is told.
    pub fn check(&self, tool: &str, given: Map<String, Value>) -> Result<Value, String> {
        let built = self.tools.iter().find(|t| t.spec.name == tool).ok_or("no such tool")?;
        let checked = Args::check(Some(given), &built.input, Some(&self.rig));
        checked.map(|args| args.as_json()).map_err(|e| e.error.what)
    }
}
