//! Who may do what: the identity behind a call, and the policy that the server was started with.

use crate::model::{Caller, Name, Way, is_unfit_to_show};

/// What callers may do, decided when the server starts and by nobody later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Policy {
    /// Only what reads, and `stop`.
    pub read_only: bool,
}

impl Policy {
    /// Whether a tool may be listed and called: one that only reads, or one that stops.
    pub fn grants(self, reads_only: bool, stops: bool) -> bool {
        !self.read_only || reads_only || stops
    }
}

/// The most characters of what a client calls itself that are kept.
const CLIENT_NAME: usize = 80;

/// The caller on standard input: one process, one client. What it calls itself is for the log alone; no right
/// hangs on it.
pub fn stdio_caller(client: Option<(&str, &str)>) -> Caller {
    caller(Name::new("stdio"), Way::Stdio, client)
}

/// The caller behind a session: `id` and `way` are the server's own words, what the client calls itself is for the
/// log alone.
pub fn caller(id: Name, way: Way, client: Option<(&str, &str)>) -> Caller {
    let client = client.map_or_else(|| "unnamed client".to_owned(), |(name, version)| plain_text(name, version));
    Caller { id, client, way }
}

/// Who stands behind a request over HTTP, as far as that is known of somebody who need not say: the client's
/// `User-Agent`, for clients whose handshake was on another connection.
#[derive(Debug, Clone)]
pub struct Visitor {
    /// What it says.
    pub agent: Option<String>,
}

fn plain_text(name: &str, version: &str) -> String {
    let whole = format!("{name} {version}");
    whole.trim().chars().map(|c| if is_unfit_to_show(c) { '?' } else { c }).take(CLIENT_NAME).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_policy_grants_reading_and_stopping_alone() {
        let policy = Policy { read_only: true };
        assert!(policy.grants(true, false) && policy.grants(false, true));
        assert!(!policy.grants(false, false) && Policy::default().grants(false, false));
    }

    #[test]
    fn a_clients_name_cannot_break_a_log_line() {
        let caller = stdio_caller(Some(("evil\nclient\u{1b}[2J\u{202e}", "1")));
        assert_eq!(caller.client, "evil?client?[2J? 1");
        assert_eq!(stdio_caller(Some((&"x".repeat(500), ""))).client.len(), CLIENT_NAME);
        assert_eq!(stdio_caller(None).client, "unnamed client");
    }
}
