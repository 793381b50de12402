//! A client of the program's own tools, in one process: JSON-RPC lines to the same session that serves others.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};

use crate::gateway::stdio::{self, Ending, StdioControl};
use crate::tools::Face;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(60);

/// A conversation with a face. Must be used within its runtime.
pub(super) struct Talk {
    lines: tokio::io::Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    asked: u64,
}

impl Talk {
    /// Connects and introduces itself.
    ///
    /// # Errors
    /// In words, when the session doesn't answer.
    pub(super) async fn with(face: Face) -> Result<Talk, String> {
        let (near, far) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(far);
        // This conversation may end without ending the rig.
        let control = StdioControl { ending: Ending::new(|| ()), still: Box::pin(std::future::ready(true)) };
        tokio::spawn(stdio::serve(face, reader, writer, control));
        let (reader, writer) = tokio::io::split(near);
        let mut talk = Talk { lines: BufReader::new(reader).lines(), writer, asked: 0 };
        let me = json!({ "name": "steadyhand", "version": env!("CARGO_PKG_VERSION") });
        let hello = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": me });
        talk.ask("initialize", hello).await?;
        talk.say(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" })).await?;
        Ok(talk)
    }

    /// The tools as they are listed.
    ///
    /// # Errors
    /// In words, when there is no answer.
    pub(super) async fn tools(&mut self) -> Result<Vec<Value>, String> {
        let mut answer = self.ask("tools/list", json!({})).await?;
        Ok(answer["tools"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Calls a tool: whether it went well, and its first text.
    ///
    /// # Errors
    /// In words, when there is no answer, or the call was malformed.
    pub(super) async fn call(&mut self, tool: &str, arguments: &Value) -> Result<(bool, String), String> {
        let answer = self.ask("tools/call", json!({ "name": tool, "arguments": arguments })).await?;
        let text = answer["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        Ok((answer["isError"] != json!(true), text))
    }

    async fn ask(&mut self, method: &str, params: Value) -> Result<Value, String> {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await?;
        let answer = tokio::time::timeout(ANSWER, self.answer(id)).await;
        answer.unwrap_or_else(|_| Err(format!("no answer to {method} within {} s", ANSWER.as_secs())))
    }

    async fn answer(&mut self, id: u64) -> Result<Value, String> {
        loop {
            let line = self.lines.next_line().await.map_err(|e| e.to_string())?.ok_or("the session ended")?;
            let mut message: Value = serde_json::from_str(&line).map_err(|e| e.to_string())?;
            if message["id"] != json!(id) {
                continue;
            }
            return match message["error"]["message"].as_str() {
                Some(error) => Err(error.to_owned()),
                None => Ok(message["result"].take()),
            };
        }
    }

    async fn say(&mut self, message: &Value) -> Result<(), String> {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.map_err(|e| e.to_string())
    }
}
