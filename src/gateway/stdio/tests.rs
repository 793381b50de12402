//! The session as a client meets it: over pipes, on paused time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{DRAIN, Ending, Exit, MAX_LINE, StdioControl, serve};

/// A face with a few tools of known behaviour.
struct Probe {
    ending: Ending,
    cancelled: Arc<AtomicUsize>,
}

impl ServerHandler for Probe {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::default())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        cx: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let said = |text: &str| Ok(CallToolResult::success(vec![ContentBlock::text(text.to_owned())]).into());
        match &*request.name {
            "now" => said("now"),
            "who" => said(&cx.client_info().map_or("nobody".into(), |c| c.name.clone())),
            "version" => said(cx.protocol_version().map_or("none".into(), |v| v.to_string()).as_str()),
            "panic" => panic!("deliberate"),
            "long" => tokio::select! {
                () = self.ending.token().cancelled() => said("stopped"),
                () = cx.ct.cancelled() => {
                    self.cancelled.fetch_add(1, Ordering::SeqCst);
                    said("cancelled")
                }
            },
            "deaf_to_the_end" => {
                cx.ct.cancelled().await;
                said("cancelled")
            }
            "deaf" => std::future::pending().await,
            _ => Err(ErrorData::invalid_params("no such tool", None)),
        }
    }
}

/// A client's end of a session.
struct Client {
    input: Option<WriteHalf<DuplexStream>>,
    output: Lines<BufReader<ReadHalf<DuplexStream>>>,
    session: JoinHandle<Exit>,
    ending: Ending,
    stops: Arc<AtomicU32>,
    cancelled: Arc<AtomicUsize>,
}

impl Client {
    fn start() -> Client {
        Client::start_with(async { true })
    }

    fn start_with(still: impl Future<Output = bool> + Send + 'static) -> Client {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let (output, input) = tokio::io::split(ours);
        let stops = Arc::new(AtomicU32::new(0));
        let count = stops.clone();
        let ending = Ending::new(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let cancelled = Arc::new(AtomicUsize::new(0));
        let probe = Probe { ending: ending.clone(), cancelled: cancelled.clone() };
        let control = StdioControl { ending: ending.clone(), still: Box::pin(still) };
        let session = tokio::spawn(serve(probe, reader, writer, control));
        Client { input: Some(input), output: BufReader::new(output).lines(), session, ending, stops, cancelled }
    }

    async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.input.as_mut().expect("open").write_all(bytes.as_ref()).await.expect("written");
    }

    async fn send_line(&mut self, message: &Value) {
        self.send(format!("{message}\n")).await;
    }

    async fn call(&mut self, id: impl Into<Value>, tool: &str) {
        let message = json!({"jsonrpc": "2.0", "id": id.into(), "method": "tools/call", "params": {"name": tool}});
        self.send_line(&message).await;
    }

    /// The next line, which must be JSON-RPC and must come.
    async fn next(&mut self) -> Value {
        let line = tokio::time::timeout(Duration::from_secs(30), self.output.next_line()).await;
        let line = line.expect("an answer in time").expect("readable").expect("open");
        let message: Value = serde_json::from_str(&line).expect("JSON alone");
        assert_eq!(message["jsonrpc"], "2.0");
        message
    }

    /// That nothing comes for a while.
    async fn silence(&mut self) {
        let line = tokio::time::timeout(Duration::from_secs(5), self.output.next_line()).await;
        assert!(line.is_err(), "{line:?}");
    }

    async fn initialize(&mut self, version: &str) -> Value {
        self.send_line(&initialize(version)).await;
        let answer = self.next().await;
        self.send_line(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        answer
    }

    async fn close_input(&mut self) {
        // Half a duplex can't be closed by dropping it.
        self.input.take().expect("open").shutdown().await.expect("closed");
    }
}

fn initialize(version: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": "init", "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "tester", "version": "1"}}})
}

fn modern(id: u32, method: &str, version: &str, params: Value) -> Value {
    let mut params = params;
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "modern tester", "version": "2"},
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_default()
}

/// X07
#[tokio::test(start_paused = true)]
async fn x07_bad_lines_before_the_handshake_never_end_the_session() {
    for bad in [
        &b"not json\n"[..],
        b"\xEF\xBB\xBF",
        b"\n\r\n  \n",
        b"[2025-12-19] [INFO] text\r\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{}}\n",
        b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n",
        b"\xFF\xFF\n",
    ] {
        let mut client = Client::start();
        client.send(bad).await;
        client.send(format!("{}\r\n", initialize("2025-06-18"))).await;
        let answer = loop {
            let answer = client.next().await;
            if answer["id"] == "init" {
                break answer;
            }
            assert!(answer["id"].is_null() && answer["error"]["code"].is_i64(), "{answer}");
        };
        assert_eq!(answer["result"]["protocolVersion"], "2025-06-18", "after {bad:?}");
    }
}

/// X07
#[tokio::test(start_paused = true)]
async fn x07_a_thousand_bad_lines_get_a_bounded_number_of_answers() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.send("garbage\n".repeat(1000)).await;
    for _ in 0..10 {
        let answer = client.next().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32700)));
    }
    client.silence().await;
    client.call(1, "now").await;
    assert_eq!(text(&client.next().await), "now");
}

#[tokio::test(start_paused = true)]
async fn an_overlong_line_is_refused_and_the_session_lives() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.send(vec![b'x'; MAX_LINE + 2]).await;
    client.send("\n").await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&Value::Null, &json!(-32600)));
    client.call(1, "now").await;
    assert_eq!(text(&client.next().await), "now");
}

#[tokio::test(start_paused = true)]
async fn an_unknown_method_a_batch_and_null_parameters_are_answered() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.send_line(&json!({"jsonrpc": "2.0", "id": 1, "method": "nonsense"})).await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32601)));
    client.send_line(&json!([{"jsonrpc": "2.0", "id": 2, "method": "ping"}])).await;
    assert_eq!(client.next().await["error"]["code"], -32600);
    client.send_line(&json!({"jsonrpc": "2.0", "id": 3, "method": "tools/list", "params": null})).await;
    assert!(client.next().await["result"]["tools"].is_array());
}

/// X34
#[tokio::test(start_paused = true)]
async fn x34_ids_come_back_with_their_type_and_value() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    for id in ["7", "\"7\"", "9007199254740993", "-1", "\"\""] {
        client.send(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n")).await;
        assert_eq!(client.next().await["id"].to_string(), id);
    }
}

/// X34
#[tokio::test(start_paused = true)]
async fn x34_cancelling_a_text_id_leaves_the_number_alone() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.call(7, "long").await;
    client.call("7", "long").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "7"}});
    client.send_line(&cancel).await;
    client.silence().await;
    assert_eq!(client.cancelled.load(Ordering::SeqCst), 1);
    client.close_input().await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], text(&answer)), (&json!(7), "stopped"));
}

/// X02
#[tokio::test(start_paused = true)]
async fn x02_a_cancelled_request_is_not_answered_and_the_session_lives() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.call(99, "long").await;
    let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 99}});
    client.send_line(&cancel).await;
    client.silence().await;
    client.call(100, "now").await;
    assert_eq!(client.next().await["id"], 100);
}

/// X03
#[tokio::test]
async fn x03_cancels_that_race_with_completion_leave_at_most_one_answer() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    let mut answers: BTreeMap<u64, u32> = BTreeMap::new();
    for id in 0..10_000_u64 {
        client.call(id, "now").await;
        if id % 3 != 0 {
            let cancel = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}});
            client.send_line(&cancel).await;
        }
        if id % 3 == 0 {
            // Read on up to this one: the pipe stays short, and the cancels before fall at all kinds of moments.
            loop {
                let answer = client.next().await;
                let got = answer["id"].as_u64().expect("a number");
                *answers.entry(got).or_default() += 1;
                if got == id {
                    break;
                }
            }
        }
    }
    assert!(answers.values().all(|n| *n == 1));
    assert!(answers.len() >= 3_334, "{}", answers.len());
}

#[tokio::test(start_paused = true)]
async fn a_panicking_handler_is_answered() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.call(1, "panic").await;
    assert_eq!(client.next().await["error"]["code"], -32603);
    client.call(2, "now").await;
    assert_eq!(text(&client.next().await), "now");
}

#[tokio::test(start_paused = true)]
async fn calls_pipelined_behind_the_handshake_know_their_client() {
    let mut client = Client::start();
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "who"}});
    client.send(format!("{}\n{call}\n", initialize("2025-11-25"))).await;
    let answers = [client.next().await, client.next().await];
    let call = answers.iter().find(|a| a["id"] == 1).expect("answered");
    assert_eq!(text(call), "tester");
}

/// X28
#[tokio::test(start_paused = true)]
async fn x28_the_modern_era_needs_no_handshake() {
    let mut client = Client::start();
    client.send_line(&modern(1, "server/discover", "2026-07-28", json!({}))).await;
    let answer = client.next().await;
    assert!(
        answer["result"]["supportedVersions"].as_array().is_some_and(|v| v.contains(&json!("2026-07-28"))),
        "{answer}"
    );
    client.send_line(&modern(2, "tools/call", "2026-07-28", json!({"name": "who"}))).await;
    let answer = client.next().await;
    assert_eq!((text(&answer), &answer["result"]["resultType"]), ("modern tester", &json!("complete")));
    client.send_line(&modern(3, "tools/list", "1900-01-01", json!({}))).await;
    let error = client.next().await["error"].clone();
    assert_eq!((&error["code"], &error["data"]["requested"]), (&json!(-32022), &json!("1900-01-01")));
    assert!(error["data"]["supported"].as_array().is_some_and(|v| v.len() >= 5));
}

/// X28
#[tokio::test(start_paused = true)]
async fn x28_a_tool_call_may_be_the_first_line_in_the_modern_era_only() {
    let mut client = Client::start();
    client.call(1, "now").await;
    assert_eq!(client.next().await["error"]["code"], -32602);
    client.send_line(&modern(2, "tools/call", "2026-07-28", json!({"name": "now"}))).await;
    assert_eq!(text(&client.next().await), "now");
}

/// X28
#[tokio::test(start_paused = true)]
async fn x28_handshakes_settle_on_what_was_asked_or_older_and_results_stay_of_their_era() {
    for (asked, agreed) in [
        ("2025-11-25", "2025-11-25"),
        ("2025-06-18", "2025-06-18"),
        ("2099-01-01", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
    ] {
        let mut client = Client::start();
        assert_eq!(client.initialize(asked).await["result"]["protocolVersion"], agreed);
        client.call(1, "version").await;
        let answer = client.next().await;
        assert_eq!(text(&answer), agreed);
        assert!(answer["result"].get("resultType").is_none(), "{answer}");
    }
    let mut client = Client::start();
    assert_eq!(client.initialize("1900-01-01").await["error"]["code"], -32022);
    assert_eq!(client.initialize("2025-11-25").await["result"]["protocolVersion"], "2025-11-25");
}

/// X10
#[tokio::test(start_paused = true)]
async fn x10_at_the_end_of_input_the_stop_is_ordered_and_calls_are_answered() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.call(1, "long").await;
    client.call(2, "deaf_to_the_end").await;
    client.silence().await;
    assert_eq!(client.stops.load(Ordering::SeqCst), 0);
    let start = Instant::now();
    client.close_input().await;
    let answer = client.next().await;
    assert_eq!((&answer["id"], text(&answer)), (&json!(1), "stopped"));
    assert_eq!(client.stops.load(Ordering::SeqCst), 1);
    assert_eq!(client.next().await["id"], 2);
    assert_eq!(client.session.await.expect("joined"), Exit::Still);
    assert!(start.elapsed() < Duration::from_secs(1), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_hears_nothing_holds_the_end_up_for_two_seconds_at_most() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.call(1, "deaf").await;
    client.silence().await;
    let start = Instant::now();
    client.close_input().await;
    assert_eq!(client.session.await.expect("joined"), Exit::Still);
    assert!(start.elapsed() <= DRAIN + Duration::from_millis(500), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_can_not_hold_up_the_end() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    for id in 0..2000 {
        client.call(id, "now").await;
    }
    let start = Instant::now();
    client.close_input().await;
    assert_eq!(client.session.await.expect("joined"), Exit::Still);
    assert_eq!(client.stops.load(Ordering::SeqCst), 1);
    assert!(start.elapsed() <= DRAIN + Duration::from_millis(500), "{:?}", start.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_signal_ends_the_session_like_the_end_of_input() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    client.call(1, "long").await;
    client.silence().await;
    client.ending.begin("a signal");
    assert_eq!(text(&client.next().await), "stopped");
    assert_eq!(client.session.await.expect("joined"), Exit::Still);
    assert_eq!(client.stops.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_end_is_gone_ends_the_session() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    let (input, output) = (client.input.take().expect("open"), client.output.into_inner().into_inner());
    drop(output.unsplit(input));
    assert_eq!(client.session.await.expect("joined"), Exit::Still);
    assert_eq!(client.stops.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn axes_that_were_not_seen_to_stand_make_another_exit_code() {
    let mut client = Client::start_with(async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        false
    });
    client.close_input().await;
    let exit = client.session.await.expect("joined");
    assert_eq!((exit, exit.code()), (Exit::NotConfirmed, 3));
    assert_eq!(Exit::Still.code(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_a_wrong_form_stops_and_is_then_refused() {
    let mut client = Client::start();
    client.initialize("2025-11-25").await;
    let wrong = [
        r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"stop","arguments":[]}}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"stop"}}"#,
        r#"[{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"stop"}}]"#,
        r#"{"id":7,"method":"tools/call","params":{"name":"stop"}}"#,
    ];
    for (n, line) in (1..).zip(wrong) {
        client.send(format!("{line}\n")).await;
        assert!(client.next().await["error"].is_object(), "{line}");
        assert_eq!(client.stops.load(Ordering::SeqCst), n, "{line}");
    }
    client.send(b"{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"stop\"}}\n").await;
    client.silence().await;
    assert_eq!(client.stops.load(Ordering::SeqCst), 5, "a notification gets no answer, but it stops");
    client.call(8, "now").await;
    assert_eq!(client.next().await["id"], 8, "the session goes on");
}
