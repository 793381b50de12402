//! A stop that is badly written is a stop all the same: it is carried out, and then refused for its form.

use rmcp::RoleServer;
use rmcp::model::{ClientRequest, JsonRpcMessage};
use rmcp::service::RxJsonRpcMessage;
use serde_json::Value;

/// Batches within batches are looked into so deep.
const DEPTH: u32 = 4;

/// Whether a line is meant as a call of `stop`, however wrong its form: in a batch, without an id, with arguments
/// that are none, in capitals, with a NaN, a byte that is no text, or an end that was cut off.
pub(in crate::gateway) fn means_stop(line: &[u8]) -> bool {
    if !line.windows(4).any(|w| w.eq_ignore_ascii_case(b"stop")) {
        return false;
    }
    serde_json::from_slice(line).map_or_else(|_| reads_like_stop(line), |value| calls_stop(&value, DEPTH))
}

/// Whether what is no JSON was a call of `stop` before it was damaged. In a text within JSON the quotes would be escaped.
fn reads_like_stop(line: &[u8]) -> bool {
    let packed: Vec<u8> = line.iter().filter(|b| !b.is_ascii_whitespace()).map(u8::to_ascii_lowercase).collect();
    let has = |what: &str| packed.windows(what.len()).any(|w| w == what.as_bytes());
    has(r#""method":"stop""#) || has(r#""name":"stop""#) && has(r#""tools/call""#)
}

fn calls_stop(value: &Value, depth: u32) -> bool {
    match value {
        Value::Array(members) if depth > 0 => members.iter().any(|m| calls_stop(m, depth - 1)),
        Value::Object(message) => {
            let is = |value: Option<&Value>, word: &str| {
                value.and_then(Value::as_str).is_some_and(|text| text.trim().eq_ignore_ascii_case(word))
            };
            let named = is(message.get("params").and_then(|p| p.get("name")), "stop");
            is(message.get("method"), "tools/call") && named || is(message.get("method"), "stop")
        }
        _ => false,
    }
}

/// Whether the tool itself will carry it out.
pub(in crate::gateway) fn reaches_the_tool(message: &RxJsonRpcMessage<RoleServer>) -> bool {
    matches!(
        message,
        JsonRpcMessage::Request(r) if matches!(&r.request, ClientRequest::CallToolRequest(c) if c.params.name == "stop")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_known_in_whatever_form_it_comes() {
        for line in [
            r#"{"method":"tools/call","params":{"name":"stop","arguments":[]}}"#,
            r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"STOP"}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":" stop"}}"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},{"method":"tools/call","params":{"name":"stop"}}]"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"stop"}"#,
            r#"{"id":1,"method":"tools/call","params":{"name":"stop","arguments":{"stage":NaN}}}"#,
            r#"{"id":1, "method": "tools/call", "params": {"name": "stop", "arg"#,
        ] {
            assert!(means_stop(line.as_bytes()), "{line}");
        }
        for line in [
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"move_to","arguments":{"a":"stop"}}}"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            "stop",
            "stop {",
            r#"{"method":"tools/call","params":{"name":"save_position","arguments":{"name":"stop"}}}"#,
            r#"{"method":"tools/call","params":{"name":"move_to","a":"\"name\":\"stop\"", NaN"#,
        ] {
            assert!(!means_stop(line.as_bytes()), "{line}");
        }
    }
}
