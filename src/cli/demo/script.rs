//! The demonstration's conversation: what an assistant would ask, through the real client, printed as it happens.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use rmcp::RoleClient;
use rmcp::model::{CallToolRequestParams, CallToolResult, ContentBlock};
use rmcp::service::{RunningService, serve_client};
use serde_json::{Value, json};

use super::super::say;
use super::super::serve::Running;
use crate::gateway::stdio::{self, Ending, StdioControl};

type Client = RunningService<RoleClient, ()>;

/// The longest part of an answer that is printed.
const SHOWN: usize = 900;

/// Holds the conversation. An error is a fault of the program: each refusal that belongs to it is expected.
pub(super) async fn hold(running: &Running, place: &str) -> Result<(), String> {
    let (near, far) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(far);
    // This session may end without ending the rig.
    let control = StdioControl { ending: Ending::new(|| ()), still: Box::pin(std::future::ready(true)) };
    let session = tokio::spawn(stdio::serve(running.face.clone(), reader, writer, control));
    let client = serve_client((), near).await.map_err(|e| format!("the client could not connect: {e}"))?;
    let talk = Talk { client: &client };
    let told = talk.all(place).await;
    client.cancel().await.map_err(|e| format!("the client could not end: {e}"))?;
    session.await.map_err(|e| format!("the session failed: {e}"))?;
    told
}

struct Talk<'a> {
    client: &'a Client,
}

impl Talk<'_> {
    async fn all(&self, place: &str) -> Result<(), String> {
        let tools = self.client.list_all_tools().await.map_err(|e| e.to_string())?;
        let names: Vec<&str> = tools.iter().map(|t| t.name.as_ref()).collect();
        head(&format!(
            "A client connects. The stage is a GRBL controller on {place}; {} tools are offered:",
            tools.len()
        ));
        say(io::stdout(), &wrap(&names.join(" ")));
        self.online().await?;

        head("It asks what there is.");
        self.good("describe_rig", json!({})).await?;
        head("It would like to move at once. Nobody knows yet where the stage stands, so it may not.");
        self.refused("move_to", json!({"stage": "scope", "targets": {"x": 39.3}, "unit": "mm"})).await?;
        head("So it homes the stage.");
        self.good("home", json!({"stage": "scope", "wait_s": 60})).await?;
        head("It lowers the focus where it must not: a frame is below. The refusal says why, and what to do.");
        self.refused("move_to", json!({"stage": "scope", "targets": {"z": 1200}, "unit": "um"})).await?;
        head("It asks first, which moves nothing; then it goes to the edge of the flake, and to focus.");
        self.good("check_move", json!({"stage": "scope", "targets": {"x": 39.3, "y": 26.2}, "unit": "mm"})).await?;
        self.good("move_to", json!({"stage": "scope", "targets": {"x": 39.3, "y": 26.2}, "unit": "mm"})).await?;
        self.good("move_to", json!({"stage": "scope", "targets": {"z": 2000}, "unit": "um"})).await?;
        head("It lights the specimen; the lamp's own answer is read back before this counts as done.");
        self.good("set_output", json!({"output": "shutter", "state": "open"})).await?;
        self.good("set_output", json!({"output": "lamp", "percent": 30})).await?;
        head("It takes a picture, moves a quarter of a millimetre, and takes another.");
        let first = self.good("acquire_image", json!({"preview": false})).await?;
        let epoch = self.epoch().await?;
        self.good("move_by", json!({"stage": "scope", "offsets": {"x": 250}, "unit": "um", "from_epoch": epoch}))
            .await?;
        let second = self.good("acquire_image", json!({"preview": false})).await?;
        head("A workflow reads the newest picture's array (image_k) back, exactly.");
        self.array().await?;
        head("A long move is stopped on its way, past everything that waits; lamp and shutter are made safe.");
        self.good("move_to", json!({"stage": "scope", "targets": {"x": 5, "y": 45}, "unit": "mm", "wait_s": 0}))
            .await?;
        tokio::time::sleep(Duration::from_millis(700)).await;
        self.good("stop", json!({})).await?;
        self.good("clear_fault", json!({"device": "scope"})).await?;

        let path = |answer: &Value| answer["img_path"].as_str().unwrap_or("nowhere").to_owned();
        head("The pictures:");
        say(io::stdout(), &format!("  {}\n  {}", path(&first), path(&second)));
        Ok(())
    }

    /// Waits until stage and camera are there.
    async fn online(&self) -> Result<(), String> {
        for _ in 0..100 {
            let state = self.ask("get_state", json!({})).await?.1;
            if state["stages"][0]["activity"] == "idle"
                && state["cameras"][0]["ready"] == true
                && state["outputs"].as_array().is_some_and(|o| o.iter().all(|o| o.get("ready").is_none()))
            {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Err("the simulated devices did not come online".into())
    }

    async fn epoch(&self) -> Result<Value, String> {
        Ok(self.ask("get_state", json!({})).await?.1["stages"][0]["state_epoch"].clone())
    }

    async fn array(&self) -> Result<(), String> {
        let arguments = json!({"name": "image_k"});
        show_call("get_attribute_payload", &arguments);
        let answer = self.ask("get_attribute_payload", arguments).await?.1;
        let array = &answer["result"]["encoded_data"];
        let data = array["data"].as_str().ok_or("no array came back")?;
        let bytes = base64::engine::general_purpose::STANDARD.decode(data).map_err(|e| e.to_string())?;
        let pixels: Vec<u16> = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
        let brightest = pixels.iter().max().copied().unwrap_or_default();
        let text = format!(
            "{} of shape {}: {} pixels, the brightest {brightest}",
            array["dtype"],
            array["shape"],
            pixels.len()
        );
        say(io::stdout(), &format!("  ← {text}"));
        Ok(())
    }

    async fn ask(&self, tool: &'static str, arguments: Value) -> Result<(CallToolResult, Value), String> {
        let Value::Object(arguments) = arguments else { return Err("arguments are an object".into()) };
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let result = self.client.call_tool(params).await.map_err(|e| format!("{tool}: {e}"))?;
        let facts = result.structured_content.clone().unwrap_or(Value::Null);
        Ok((result, facts))
    }

    async fn shown(&self, tool: &'static str, arguments: Value) -> Result<(CallToolResult, Value), String> {
        show_call(tool, &arguments);
        let (result, facts) = self.ask(tool, arguments).await?;
        say(io::stdout(), &wrap(&format!("← {}", text_of(&result))));
        Ok((result, facts))
    }

    async fn good(&self, tool: &'static str, arguments: Value) -> Result<Value, String> {
        let (result, facts) = self.shown(tool, arguments).await?;
        if result.is_error == Some(true) {
            return Err(format!("{tool} was expected to go well"));
        }
        Ok(facts)
    }

    async fn refused(&self, tool: &'static str, arguments: Value) -> Result<(), String> {
        let (result, _) = self.shown(tool, arguments).await?;
        if result.is_error == Some(true) { Ok(()) } else { Err(format!("{tool} was expected to be refused")) }
    }
}

fn text_of(result: &CallToolResult) -> String {
    let mut text = String::new();
    for block in &result.content {
        if let ContentBlock::Text(t) = block {
            text.push_str(&t.text);
            text.push('\n');
        }
    }
    let text = text.trim();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{} …", text[..end].rsplit_once(' ').map_or("", |(whole, _)| whole)),
        None => text.to_owned(),
    }
}

fn head(text: &str) {
    say(io::stdout(), &format!("\n{text}"));
}

fn show_call(tool: &str, arguments: &Value) {
    say(io::stdout(), &format!("  → {tool} {arguments}"));
}

/// Lines of at most 110 characters, indented.
fn wrap(text: &str) -> String {
    let mut lines = Vec::new();
    for paragraph in text.lines() {
        let mut line = String::from("  ");
        for word in paragraph.split_whitespace() {
            if line.len() > 2 && line.chars().count() + word.chars().count() >= 110 {
                lines.push(std::mem::replace(&mut line, "    ".into()));
            } else if line.trim().is_empty() {
                line.push_str(word);
                continue;
            }
            if !line.ends_with(' ') {
                line.push(' ');
            }
            line.push_str(word);
        }
        lines.push(line);
    }
    lines.join("\n")
}
