//! Sorts a client's lines: what is well-formed is delivered, what asks for an answer and can't have one is refused
//! with a reason, and the rest is let go.

use rmcp::RoleServer;
use rmcp::model::{
    ClientNotification, ClientRequest, JsonRpcMessage, JsonRpcNotification, JsonRpcVersion2_0, ProtocolVersion,
    RequestId,
};
use rmcp::service::RxJsonRpcMessage;
use serde_json::{Map, Value, json};

/// What becomes of a line.
pub(in crate::gateway) enum Verdict {
    /// It goes to the service.
    Deliver(Box<RxJsonRpcMessage<RoleServer>>),
    /// It is answered here.
    Answer(Refusal),
    /// It asks for nothing.
    Ignore,
}

/// An error answer.
#[derive(Debug, PartialEq)]
pub(in crate::gateway) struct Refusal {
    /// The request's id exactly as it came, or null where there is none that could be used.
    pub(super) id: Value,
    /// The JSON-RPC error code.
    pub(in crate::gateway) code: i32,
    /// What is wrong, and what would be right.
    pub(in crate::gateway) message: String,
    /// More, for programs.
    pub(super) data: Option<Value>,
}

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
/// The JSON-RPC error code of a method that there isn't.
pub(in crate::gateway) const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL: i32 = -32603;
const UNSUPPORTED_VERSION: i32 = -32022;

impl Refusal {
    /// An answer to the request of that id.
    pub(in crate::gateway) fn new(id: Value, code: i32, message: impl Into<String>) -> Refusal {
        Refusal { id, code, message: message.into(), data: None }
    }

    /// About a line that names no request.
    pub(in crate::gateway) fn invalid_request(message: impl Into<String>) -> Refusal {
        Refusal::new(Value::Null, INVALID_REQUEST, message)
    }

    /// About a fault of the program's own.
    pub(in crate::gateway) fn internal(message: impl Into<String>) -> Refusal {
        Refusal::new(Value::Null, INTERNAL, message)
    }

    /// The line to send.
    pub(in crate::gateway) fn to_line(&self) -> Vec<u8> {
        let mut line = self.to_json();
        line.push(b'\n');
        line
    }

    /// The answer as JSON.
    pub(in crate::gateway) fn to_json(&self) -> Vec<u8> {
        let mut error = json!({ "code": self.code, "message": self.message });
        if let Some(data) = &self.data {
            error["data"] = data.clone();
        }
        json!({ "jsonrpc": "2.0", "id": self.id, "error": error }).to_string().into_bytes()
    }
}

/// The methods whose parameters have a shape of their own: when they don't fit it, the parameters are at fault and
/// not the method.
const METHODS: &[&str] = &[
    "completion/complete",
    "initialize",
    "logging/setLevel",
    "ping",
    "prompts/get",
    "prompts/list",
    "resources/list",
    "resources/read",
    "resources/subscribe",
    "resources/templates/list",
    "resources/unsubscribe",
    "server/discover",
    "subscriptions/listen",
    "tools/call",
    "tools/list",
];

/// The methods that need neither a handshake nor a version of their own.
const BEFORE_ANY_VERSION: &[&str] = &["initialize", "ping", "server/discover"];

/// Methods that 2026-07-28 no longer has: a request of that version that doesn't fit them means nothing.
const NO_LONGER: &[&str] = &["initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"];

pub(in crate::gateway) const META_VERSION: &str = "io.modelcontextprotocol/protocolVersion";

/// The sorter of one session.
pub(in crate::gateway) struct Triage {
    supported: Vec<ProtocolVersion>,
    initialized: bool,
}

impl Triage {
    /// For a service that supports these versions.
    pub(super) fn new(supported: Vec<ProtocolVersion>) -> Triage {
        Triage { supported, initialized: false }
    }

    /// For a single message of a client that may have shaken hands on another connection, or never: where each
    /// request stands alone.
    pub(in crate::gateway) fn of_one(supported: Vec<ProtocolVersion>) -> Triage {
        Triage { supported, initialized: true }
    }

    /// Sorts one line, given without its line feed.
    pub(in crate::gateway) fn judge(&mut self, line: &[u8]) -> Verdict {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
        if line.is_empty() {
            return Verdict::Ignore;
        }
        match serde_json::from_slice(line) {
            Ok(Value::Object(message)) => self.judge_object(message).unwrap_or_else(Verdict::Answer),
            Ok(Value::Array(_)) => Verdict::Answer(Refusal::invalid_request(
                "Batches are not supported: send one message at a time, each a JSON object.",
            )),
            Ok(_) => Verdict::Answer(Refusal::invalid_request("A message must be a JSON object.")),
            Err(error) => {
                let text = format!("This message is not JSON: {error}.");
                Verdict::Answer(Refusal::new(Value::Null, PARSE_ERROR, text))
            }
        }
    }

    fn judge_object(&mut self, mut message: Map<String, Value>) -> Result<Verdict, Refusal> {
        if !message.contains_key("method") {
            return Self::judge_response(message);
        }
        let id = message.remove("id").map(Self::usable_id).transpose()?;
        let shown = id.as_ref().map_or(Value::Null, |id| id.clone().into_json_value());
        let refuse = |code, text: String| Err(Refusal::new(shown.clone(), code, text));

        if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
            return refuse(INVALID_REQUEST, "A message must say \"jsonrpc\": \"2.0\".".into());
        }
        let Some(Value::String(method)) = message.remove("method") else {
            return refuse(INVALID_REQUEST, "The method must be a string.".into());
        };
        if message.contains_key("result") || message.contains_key("error") {
            return refuse(INVALID_REQUEST, "A message is a request or a response, not both.".into());
        }
        let params = match message.remove("params") {
            None | Some(Value::Null) => None,
            Some(Value::Object(params)) => Some(params),
            Some(_) => return refuse(INVALID_PARAMS, "The parameters must be a JSON object.".into()),
        };
        match id {
            None => Ok(Self::notification(method, params)),
            Some(id) => self.request(id, method, params),
        }
    }

    /// The id as the service will echo it. Ids keep their type: 7 and "7" are different requests.
    fn usable_id(id: Value) -> Result<RequestId, Refusal> {
        serde_json::from_value(id.clone()).map_err(|_| {
            let id: String = id.to_string().chars().take(60).collect();
            Refusal::invalid_request(format!(
                "A request's id must be a string, or a whole number of at most 64 bits; this one is {id}."
            ))
        })
    }

    /// A client's answer to a request of ours, or something unknown. An error is never answered with an error.
    fn judge_response(mut message: Map<String, Value>) -> Result<Verdict, Refusal> {
        if message.contains_key("result") || message.contains_key("error") {
            return Ok(match serde_json::from_value(Value::Object(message)) {
                Ok(response) => Verdict::Deliver(Box::new(response)),
                Err(_) => Verdict::Ignore,
            });
        }
        let id = message.remove("id").map(Self::usable_id).transpose()?;
        let shown = id.map_or(Value::Null, RequestId::into_json_value);
        Err(Refusal::new(shown, INVALID_REQUEST, "A message must have a method, a result or an error."))
    }

    fn notification(method: String, params: Option<Map<String, Value>>) -> Verdict {
        match serde_json::from_value::<ClientNotification>(body(method, params)) {
            Ok(notification) => Verdict::Deliver(Box::new(JsonRpcMessage::Notification(JsonRpcNotification {
                jsonrpc: JsonRpcVersion2_0,
                notification,
            }))),
            Err(_) => Verdict::Ignore,
        }
    }

    fn request(
        &mut self,
        id: RequestId,
        method: String,
        mut params: Option<Map<String, Value>>,
    ) -> Result<Verdict, Refusal> {
        let shown = id.clone().into_json_value();
        if let Some(params) = &mut params
            && params.get("_meta").is_some_and(Value::is_null)
        {
            params.remove("_meta");
        }
        let names_version =
            params.as_ref().and_then(|p| p.get("_meta")).and_then(|meta| meta.get(META_VERSION)).is_some();
        if !self.initialized && !names_version && !BEFORE_ANY_VERSION.contains(&method.as_str()) {
            let text = format!(
                "Before `{method}`, send `initialize`; or give each request `{META_VERSION}` and \
                 `io.modelcontextprotocol/clientCapabilities` in `params._meta`, as from 2026-07-28 on."
            );
            return Err(Refusal::new(shown, INVALID_PARAMS, text));
        }
        let initialize = method == "initialize";
        if initialize {
            self.settle_version(&shown, params.as_mut())?;
        }
        let known = METHODS.contains(&method.as_str());
        let shown_method = if known { method.clone() } else { String::new() };
        let wrong_params = |id| {
            if names_version && NO_LONGER.contains(&shown_method.as_str()) {
                return Refusal::new(id, METHOD_NOT_FOUND, format!("There is no method {shown_method:?} any more."));
            }
            let text = "The parameters don't have the shape that the protocol gives them for this method.";
            Refusal::new(id, INVALID_PARAMS, text)
        };
        let request = match serde_json::from_value::<ClientRequest>(body(method, params)) {
            Ok(ClientRequest::CustomRequest(_)) | Err(_) if known => return Err(wrong_params(shown)),
            Ok(request) => request,
            Err(_) => return Err(wrong_params(shown)),
        };
        self.initialized |= initialize;
        Ok(Verdict::Deliver(Box::new(JsonRpcMessage::request(request, id))))
    }

    /// Settles the version of a handshake: the newest supported one that is not newer than what the client asks for.
    /// It is written into the request, since the service takes its word for the session's version.
    fn settle_version(&self, id: &Value, params: Option<&mut Map<String, Value>>) -> Result<(), Refusal> {
        let Some(asked) = params.and_then(|p| p.get_mut("protocolVersion")) else { return Ok(()) };
        let Some(text) = asked.as_str() else { return Ok(()) };
        match settled(&self.supported, text) {
            Some(version) => {
                *asked = version.into();
                Ok(())
            }
            None => Err(Refusal {
                id: id.clone(),
                code: UNSUPPORTED_VERSION,
                message: "Unsupported protocol version".into(),
                data: Some(json!({ "supported": self.supported, "requested": text })),
            }),
        }
    }
}

/// The newest supported version with a handshake that is not newer than what is asked for.
pub(in crate::gateway) fn settled<'a>(supported: &'a [ProtocolVersion], asked: &str) -> Option<&'a str> {
    let may = |v: &&str| *v < ProtocolVersion::NO_INITIALIZE.as_str() && is_date(asked) && *v <= asked;
    supported.iter().map(ProtocolVersion::as_str).filter(may).max()
}

/// Whether this is `YYYY-MM-DD` in form, so that its order as text is its order in time.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(i, b)| if i == 4 || i == 7 { b == b'-' } else { b.is_ascii_digit() })
}

fn body(method: String, params: Option<Map<String, Value>>) -> Value {
    let mut body = Map::new();
    body.insert("method".into(), method.into());
    if let Some(params) = params {
        body.insert("params".into(), params.into());
    }
    Value::Object(body)
}

#[cfg(test)]
mod tests {
    use rmcp::model::ProtocolVersion;

    use super::*;

    fn fresh() -> Triage {
        Triage::new(ProtocolVersion::KNOWN_VERSIONS.to_vec())
    }

    fn initialize(version: &str) -> String {
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}})
        .to_string()
    }

    fn open() -> Triage {
        let mut triage = fresh();
        assert!(matches!(triage.judge(initialize("2025-11-25").as_bytes()), Verdict::Deliver(_)));
        triage
    }

    fn refusal(triage: &mut Triage, line: &[u8]) -> Refusal {
        match triage.judge(line) {
            Verdict::Answer(refusal) => refusal,
            Verdict::Deliver(message) => panic!("delivered: {message:?}"),
            Verdict::Ignore => panic!("ignored"),
        }
    }

    fn delivered(triage: &mut Triage, line: &[u8]) -> RxJsonRpcMessage<RoleServer> {
        match triage.judge(line) {
            Verdict::Deliver(message) => *message,
            Verdict::Answer(refusal) => panic!("refused: {refusal:?}"),
            Verdict::Ignore => panic!("ignored"),
        }
    }

    #[test]
    fn a_bom_crlf_and_white_space_around_a_message_are_tolerated() {
        for line in [
            &b"\xEF\xBB\xBF{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}"[..],
            b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\r",
            b" \t{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"} ",
        ] {
            delivered(&mut fresh(), line);
        }
        for line in [&b""[..], b"\r", b"  \t ", b"\xEF\xBB\xBF"] {
            assert!(matches!(fresh().judge(line), Verdict::Ignore), "{line:?}");
        }
    }

    #[test]
    fn what_is_not_json_is_a_parse_error_without_id() {
        for line in [&b"not json"[..], b"{\"jsonrpc\":", b"{\"id\":NaN}", b"\xFF\xFE{\0", b"{} {}", &[b'['; 5000]] {
            let refusal = refusal(&mut open(), line);
            assert_eq!((refusal.id, refusal.code), (Value::Null, -32700), "{line:?}");
        }
    }

    #[test]
    fn json_that_is_no_message_is_an_invalid_request() {
        for (line, id) in [
            ("[]", json!(null)),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, json!(null)),
            ("7", json!(null)),
            ("null", json!(null)),
            ("\"ping\"", json!(null)),
            ("{}", json!(null)),
            (r#"{"jsonrpc":"2.0","id":5}"#, json!(5)),
            (r#"{"id":5,"method":"ping"}"#, json!(5)),
            (r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#, json!("a")),
            (r#"{"jsonrpc":2.0,"id":"a","method":"ping"}"#, json!("a")),
            (r#"{"jsonrpc":"2.0","id":5,"method":7}"#, json!(5)),
            (r#"{"jsonrpc":"2.0","id":5,"method":"ping","result":{}}"#, json!(5)),
        ] {
            let refusal = refusal(&mut open(), line.as_bytes());
            assert_eq!((refusal.id, refusal.code), (id, -32600), "{line}");
        }
    }

    /// X34
    #[test]
    fn ids_keep_their_type_and_value_and_unusable_ones_are_refused() {
        for id in ["7", "\"7\"", "9007199254740993", "-1", "\"\"", "0", "9223372036854775807"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let JsonRpcMessage::Request(request) = delivered(&mut open(), line.as_bytes()) else { panic!("{line}") };
            assert_eq!(request.id.into_json_value().to_string(), id);
        }
        for id in ["1.5", "null", "1e300", "9223372036854775808", "true", "{}", "[1]"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
            let refusal = refusal(&mut open(), line.as_bytes());
            assert_eq!((refusal.id, refusal.code), (Value::Null, -32600), "{line}");
        }
    }

    #[test]
    fn null_parameters_are_absent_ones_and_others_must_be_objects() {
        for params in ["null", "{}", r#"{"_meta":null}"#] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#);
            let message = delivered(&mut open(), line.as_bytes());
            assert!(
                matches!(message, JsonRpcMessage::Request(r) if matches!(r.request, ClientRequest::ListToolsRequest(_)))
            );
        }
        for params in ["[]", "7", "\"x\"", "false"] {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#);
            assert_eq!(refusal(&mut open(), line.as_bytes()).code, -32602, "{line}");
        }
    }

    #[test]
    fn wrong_parameters_of_a_known_method_are_not_an_unknown_method() {
        let line = br#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":7}}"#;
        let refusal = refusal(&mut open(), line);
        assert_eq!((refusal.id, refusal.code), (json!("c"), -32602));
        let unknown = br#"{"jsonrpc":"2.0","id":"c","method":"tools/frobnicate"}"#;
        delivered(&mut open(), unknown);
    }

    #[test]
    fn what_the_newer_era_has_no_more_is_an_unknown_method_there_and_wrong_parameters_before() {
        for method in NO_LONGER {
            let message = |meta: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": meta}});
            let new = message(json!({ META_VERSION: "2026-07-28" })).to_string();
            assert_eq!(refusal(&mut fresh(), new.as_bytes()).code, METHOD_NOT_FOUND, "{method}");
            let old = message(json!({})).to_string();
            assert_eq!(refusal(&mut open(), old.as_bytes()).code, -32602, "{method}");
        }
    }

    #[test]
    fn an_error_or_an_unknown_notification_is_never_answered() {
        for line in [
            r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}"#,
            r#"{"jsonrpc":"2.0","id":1.5,"error":5}"#,
            r#"{"jsonrpc":"2.0","id":99,"result":{}}"#,
            r#"{"jsonrpc":"2.0","method":"$/foo"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1.5}}"#,
        ] {
            assert!(!matches!(open().judge(line.as_bytes()), Verdict::Answer(_)), "{line}");
        }
    }

    #[test]
    fn a_request_that_neither_era_knows_is_told_what_to_send() {
        let line = br#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        let refusal = refusal(&mut fresh(), line);
        assert_eq!(refusal.code, -32602);
        assert!(refusal.message.contains("initialize") && refusal.message.contains(META_VERSION));
        delivered(&mut fresh(), br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
        delivered(&mut open(), line);
    }

    /// X28
    #[test]
    fn a_handshake_is_never_answered_with_a_newer_version_than_asked() {
        for (asked, agreed) in [
            ("2025-11-25", Some("2025-11-25")),
            ("2025-06-18", Some("2025-06-18")),
            ("2024-11-05", Some("2024-11-05")),
            ("2099-01-01", Some("2025-11-25")),
            ("2026-07-28", Some("2025-11-25")),
            ("2025-07-01", Some("2025-06-18")),
            ("1900-01-01", None),
            ("latest", None),
            ("", None),
        ] {
            match fresh().judge(initialize(asked).as_bytes()) {
                Verdict::Deliver(message) => {
                    let JsonRpcMessage::Request(request) = *message else { panic!() };
                    let ClientRequest::InitializeRequest(request) = request.request else { panic!() };
                    assert_eq!(Some(request.params.protocol_version.as_str()), agreed, "{asked}");
                }
                Verdict::Answer(refusal) => {
                    assert_eq!((None, refusal.code), (agreed, -32022), "{asked}");
                    let data = refusal.data.expect("data");
                    assert_eq!(data["requested"], asked);
                    assert!(data["supported"].as_array().is_some_and(|v| v.contains(&json!("2026-07-28"))));
                }
                Verdict::Ignore => panic!("{asked}"),
            }
        }
    }
}
