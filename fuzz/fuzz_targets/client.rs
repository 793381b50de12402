//! Bytes from a client against the stdio gateway: the session ends with its input, and every line that comes out
//! is JSON-RPC.
#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use rmcp::ServerHandler;
use steadyhand::gateway::stdio::{self, Ending, StdioControl};
use tokio::io::AsyncReadExt as _;
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime"));

#[derive(Clone)]
struct Nothing;

impl ServerHandler for Nothing {}

fuzz_target!(|data: &[u8]| {
    let input = std::io::Cursor::new(data.to_vec());
    let out = RUNTIME.block_on(async {
        let (mut near, far) = tokio::io::duplex(1 << 22);
        let control = StdioControl { ending: Ending::new(|| ()), still: Box::pin(std::future::ready(true)) };
        stdio::serve(Nothing, input, far, control).await;
        let mut out = Vec::new();
        near.read_to_end(&mut out).await.expect("the output");
        out
    });
    for line in out.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        assert!(line.starts_with(b"{\"jsonrpc\":\"2.0\"") || line.windows(9).any(|w| w == b"\"jsonrpc\""));
    }
});
