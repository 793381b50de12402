//! What kinds of answers a client takes, read generously: many send `*/*`, or JSON alone, or nothing.

use http::{HeaderMap, header};

/// The kinds that the protocol has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Accepts {
    /// One JSON document.
    pub(super) json: bool,
    /// A stream of events.
    pub(super) events: bool,
}

impl Accepts {
    /// What the `Accept` headers say. Without any, everything.
    pub(super) fn of(headers: &HeaderMap) -> Accepts {
        let mut found = Accepts { json: false, events: false };
        let mut any = false;
        for value in headers.get_all(header::ACCEPT) {
            for entry in value.to_str().unwrap_or_default().split(',') {
                let mut parts = entry.split(';').map(str::trim);
                let kind = parts.next().unwrap_or_default().to_ascii_lowercase();
                any |= !kind.is_empty();
                if parts.any(is_zero_weight) {
                    continue;
                }
                let all = kind == "*/*";
                found.json |= all || kind == "application/*" || kind == "application/json";
                found.events |= all || kind == "text/*" || kind == "text/event-stream";
            }
        }
        if any { found } else { Accepts { json: true, events: true } }
    }
}

/// `q=0`, which says "not this".
fn is_zero_weight(parameter: &str) -> bool {
    let weight = parameter.split_once('=').filter(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    weight.is_some_and(|(_, q)| q.trim().parse::<f64>().is_ok_and(|q| q == 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_takes_is_read_generously() {
        for (accept, json, events) in [
            (None, true, true),
            (Some(""), true, true),
            (Some("*/*"), true, true),
            (Some("application/json"), true, false),
            (Some("application/json, text/event-stream"), true, true),
            (Some("APPLICATION/JSON;charset=utf-8 , text/event-stream;q=0.5"), true, true),
            (Some("application/json, text/event-stream;q=0"), true, false),
            (Some("text/event-stream"), false, true),
            (Some("text/html"), false, false),
            (Some("text/html, application/*"), true, false),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().expect("a header"));
            }
            assert_eq!(Accepts::of(&headers), Accepts { json, events }, "{accept:?}");
        }
    }
}
