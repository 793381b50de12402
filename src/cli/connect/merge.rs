//! Puts an entry into the text of a client's file without disturbing what else stands there. Pure.

use std::fmt;

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};
use toml_edit::{DocumentMut, Item, Table, value};

/// How a client starts the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    /// What the client calls it.
    pub(super) name: String,
    /// The program, as an absolute path.
    pub(super) command: String,
    /// Its arguments.
    pub(super) args: Vec<String>,
}

/// Why a file can't take an entry. Shown after the file's name: `12: what is wrong`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Broken {
    line: usize,
    what: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.what)
    }
}

fn broken(line: usize, what: impl Into<String>) -> Broken {
    Broken { line, what: what.into() }
}

/// The text with the entry in its `mcpServers`; `typed` adds `"type": "stdio"`, as Claude Code writes it.
pub(super) fn json(text: &str, entry: &Entry, typed: bool) -> Result<String, Broken> {
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let text = if text.trim().is_empty() { "{}\n" } else { text };
    // The clients read strict JSON: what they would refuse is refused here, with the place.
    let known: serde_json::Value = serde_json::from_str(text)
        .map_err(|e| broken(e.line(), format!("this is no JSON ({e}); mend it, or move the file away")))?;
    if !known.is_object() {
        return Err(broken(1, "this is JSON, but no object; mend it, or move the file away"));
    }
    if known.get("mcpServers").is_some_and(|s| !s.is_object()) {
        let line = line_of(text, "mcpServers");
        return Err(broken(line, "`mcpServers` is no object; mend it, or move the file away"));
    }
    if known.get("mcpServers").and_then(|s| s.get(&entry.name)).is_some_and(|e| !e.is_object()) {
        let line = line_of(text, &entry.name);
        return Err(broken(line, format!("the entry `{}` is no object; mend or remove it", entry.name)));
    }
    let root = CstRootNode::parse(text, &ParseOptions::default())
        .map_err(|e| broken(e.line_display(), format!("this is no JSON: {e}")))?;
    let servers = root.object_value_or_set().object_value_or_set("mcpServers");
    let fresh = servers.get(&entry.name).is_none();
    let server = servers.object_value_or_set(&entry.name);
    if typed && fresh {
        set(&server, "type", &known, entry, CstInputValue::String("stdio".into()));
    }
    set(&server, "command", &known, entry, CstInputValue::String(entry.command.clone()));
    let args = entry.args.iter().cloned().map(CstInputValue::String).collect();
    set(&server, "args", &known, entry, CstInputValue::Array(args));
    Ok(format!("{mark}{root}"))
}

/// The arguments of the entry of that name, where the text has one.
pub(super) fn args_in_json(text: &str, name: &str) -> Option<Vec<String>> {
    let known: serde_json::Value = serde_json::from_str(text.trim_start_matches('\u{feff}')).ok()?;
    let args = known.get("mcpServers")?.get(name)?.get("args")?.as_array()?;
    Some(args.iter().filter_map(|a| a.as_str().map(str::to_owned)).collect())
}

/// The same of `[mcp_servers.NAME]`.
pub(super) fn args_in_toml(text: &str, name: &str) -> Option<Vec<String>> {
    let file: DocumentMut = text.parse().ok()?;
    let args = file.get("mcp_servers")?.get(name)?.get("args")?.as_array()?;
    Some(args.iter().filter_map(|a| a.as_str().map(str::to_owned)).collect())
}

/// Sets a key of the entry, unless it says the same already: then its layout stays too.
fn set(server: &CstObject, key: &str, known: &serde_json::Value, entry: &Entry, wanted: CstInputValue) {
    let as_json = match &wanted {
        CstInputValue::String(text) => serde_json::json!(text),
        _ => serde_json::json!(entry.args),
    };
    let there = known.get("mcpServers").and_then(|s| s.get(&entry.name)?.get(key));
    match server.get(key) {
        Some(_) if there == Some(&as_json) => {}
        Some(prop) => prop.set_value(wanted),
        None => drop(server.append(key, wanted)),
    }
}

/// The line on which a key stands first, from 1.
fn line_of(text: &str, key: &str) -> usize {
    let at = text.find(&format!("\"{key}\"")).unwrap_or(0);
    text[..at].matches('\n').count() + 1
}

/// The text with the entry as `[mcp_servers.NAME]`.
pub(super) fn toml(text: &str, entry: &Entry) -> Result<String, Broken> {
    let mut file: DocumentMut = text.parse().map_err(|e: toml_edit::TomlError| {
        let at = e.span().map_or(0, |s| s.start).min(text.len());
        let line = text.get(..at).unwrap_or("").matches('\n').count() + 1;
        broken(line, format!("this is no TOML ({}); mend it, or move the file away", e.message()))
    })?;
    let mut implicit = Table::new();
    implicit.set_implicit(true);
    let servers = file.entry("mcp_servers").or_insert(Item::Table(implicit));
    let Some(servers) = servers.as_table_like_mut() else {
        return Err(broken(line_of_toml(text, "mcp_servers"), "`mcp_servers` is no table; mend or remove it"));
    };
    let server = servers.entry(&entry.name).or_insert(Item::Table(Table::new()));
    let Some(server) = server.as_table_like_mut() else {
        let what = format!("the entry `{}` is no table; mend or remove it", entry.name);
        return Err(broken(line_of_toml(text, &entry.name), what));
    };
    if server.get("command").and_then(Item::as_str) != Some(&entry.command) {
        put(server, "command", value(&entry.command));
    }
    let there: Option<Vec<&str>> = server.get("args").and_then(|a| a.as_array()?.iter().map(|v| v.as_str()).collect());
    if there != Some(entry.args.iter().map(String::as_str).collect()) {
        put(server, "args", value(entry.args.iter().map(String::as_str).collect::<toml_edit::Array>()));
    }
    Ok(file.to_string())
}

/// Sets a key, keeping the comment behind its old value.
fn put(table: &mut dyn toml_edit::TableLike, key: &str, mut item: Item) {
    let decor = table.get(key).and_then(Item::as_value).map(|v| v.decor().clone());
    if let (Some(decor), Some(new)) = (decor, item.as_value_mut()) {
        *new.decor_mut() = decor;
    }
    match table.get_mut(key) {
        Some(old) => *old = item,
        None => drop(table.insert(key, item)),
    }
}

fn line_of_toml(text: &str, key: &str) -> usize {
    text.lines().position(|l| l.contains(key)).map_or(1, |i| i + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry { name: "steadyhand".into(), command: "/usr/bin/steadyhand".into(), args: vec!["serve".into()] }
    }

    #[test]
    fn other_servers_their_order_and_their_layout_stay() {
        let old = "{\n    \"zebra\": 1,\n    \"mcpServers\": {\n        \"b\": { \"command\": \"b\" , \"args\": []},\n        \"a\": {\"command\":\"a\"}\n    },\n    \"alpha\": [1,\n 2]\n}\n";
        let new = json(old, &entry(), false).expect("merged");
        let (before, after) = new.split_once("\"steadyhand\"").expect("the entry");
        assert!(before.trim_end().trim_end_matches(',').ends_with("\"a\": {\"command\":\"a\"}"), "{new}");
        assert!(old.starts_with(before.trim_end().trim_end_matches(',')), "{new}");
        assert!(after.ends_with("\n    },\n    \"alpha\": [1,\n 2]\n}\n"), "{new}");
        let value: serde_json::Value = serde_json::from_str(&new).expect("JSON");
        assert_eq!(value["mcpServers"]["steadyhand"]["args"], serde_json::json!(["serve"]));
        assert_eq!(json(&new, &entry(), false).expect("merged"), new, "a second time changes nothing");
    }

    #[test]
    fn an_entry_of_that_name_keeps_what_else_it_says() {
        let old = r#"{"mcpServers": {"steadyhand": {"command": "old", "env": {"RUST_LOG": "debug"}, "args": ["x"]}}}"#;
        let new = json(old, &entry(), true).expect("merged");
        let value: serde_json::Value = serde_json::from_str(&new).expect("JSON");
        let server = &value["mcpServers"]["steadyhand"];
        assert_eq!(server["env"]["RUST_LOG"], "debug");
        assert_eq!(server["command"], "/usr/bin/steadyhand");
        assert!(server.get("type").is_none(), "what was left out stays out");
    }

    #[test]
    fn an_empty_file_and_a_byte_order_mark_are_taken() {
        for old in ["", "  \n", "{}", "\u{feff}{}"] {
            let new = json(old, &entry(), true).expect(old);
            assert_eq!(new.starts_with('\u{feff}'), old.starts_with('\u{feff}'));
            let value: serde_json::Value = serde_json::from_str(new.trim_start_matches('\u{feff}')).expect("JSON");
            assert_eq!(value["mcpServers"]["steadyhand"]["type"], "stdio");
        }
    }

    #[test]
    fn what_a_client_could_not_read_is_refused_with_its_line() {
        for (old, line) in [
            ("{\n \"a\": 1,\n}", 3),
            ("{\n // no comment\n}", 2),
            ("[1]", 1),
            ("{\n\"mcpServers\": []}", 2),
            ("{\"mcpServers\": {\n\"steadyhand\": 5}}", 2),
        ] {
            assert_eq!(json(old, &entry(), false).expect_err(old).line, line, "{old}");
        }
    }

    #[test]
    fn codex_keeps_its_comments_and_other_tables() {
        let old = "# mine\nmodel = \"o\"  # keep\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[profiles.a]\nb = 1\n";
        let new = toml(old, &entry()).expect("merged");
        for kept in
            ["# mine\nmodel = \"o\"  # keep\n", "[mcp_servers.other]\ncommand = \"x\"\n", "[profiles.a]\nb = 1\n"]
        {
            assert!(new.contains(kept), "{new}");
        }
        assert!(
            new.contains("[mcp_servers.steadyhand]\ncommand = \"/usr/bin/steadyhand\"\nargs = [\"serve\"]\n"),
            "{new}"
        );
        assert_eq!(toml(&new, &entry()).expect("merged"), new, "a second time changes nothing");
    }

    #[test]
    fn codex_keeps_what_else_an_entry_says() {
        let old = "[mcp_servers.steadyhand]\ncommand = \"old\" # here\nargs = []\ntool_timeout_sec = 90\n";
        let new = toml(old, &entry()).expect("merged");
        assert!(new.contains("command = \"/usr/bin/steadyhand\" # here\n"), "{new}");
        assert!(new.contains("tool_timeout_sec = 90"), "{new}");
    }

    #[test]
    fn a_broken_or_strange_toml_is_refused_with_its_line() {
        assert_eq!(toml("a = 1\nb = = 2\n", &entry()).expect_err("broken").line, 2);
        assert_eq!(toml("a = 1\nmcp_servers = 3\n", &entry()).expect_err("strange").line, 2);
    }
}
