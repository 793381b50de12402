//! `steadyhand stop`: a person stops everything, from any shell.

use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};

use super::owners::{Heard, ask_all, candidates, nobody};
use super::say;
use crate::gateway::local::Request;
use crate::gateway::stdio::Exit;

/// How long the server may take: it waits three seconds for the axes to stand.
const PATIENCE: Duration = Duration::from_secs(6);

/// The longest answer that is read over HTTP.
const ANSWER: u64 = 1 << 20;

/// Stop everything, at once.
///
/// Goes past every queue, in every state of the server, and holds until a person releases it. Without --rig it stops
/// the rigs of all servers that this user runs on this machine, and says which. Exit code 0 when all axes were
/// confirmed to stand, 3 when not, 1 when there was no server to ask. It is no emergency stop: when in doubt, use the
/// one of the hardware.
#[derive(Debug, Args)]
pub(super) struct StopArgs {
    /// Stop this rig alone.
    #[arg(long, value_name = "FILE")]
    rig: Option<PathBuf>,
    /// Stop this stage alone; one that the rig doesn't have stops everything.
    #[arg(long, value_name = "NAME")]
    stage: Option<String>,
    /// Stop a server that serves HTTP, such as http://127.0.0.1:8050.
    #[arg(long, value_name = "URL", conflicts_with = "rig")]
    url: Option<String>,
}

pub(super) fn run(args: &StopArgs) -> ExitCode {
    if let Some(url) = &args.url {
        return match over_http(url, args.stage.as_deref()) {
            Ok((well, text)) => told(well, &text),
            Err(error) => unstopped(&format!("THE STOP DID NOT REACH {url}: {error}")),
        };
    }
    let places = match candidates(args.rig.as_deref()) {
        Ok(places) => places,
        Err(error) => return unstopped(&error),
    };
    let request = Request::Stop { stage: args.stage.clone(), for_client: false, at_once: false };
    let heard = ask_all(places, &request, PATIENCE);
    if heard.is_empty() {
        return unstopped(&format!("{}, so nothing was stopped", nobody(args.rig.as_deref())));
    }
    let mut code = Exit::Still;
    for Heard { who, said } in heard {
        match said {
            Ok(said) => {
                say(io::stdout(), &format!("{who}: {}", said.text));
                if !said.ok {
                    code = Exit::NotConfirmed;
                }
            }
            Err(error) => {
                let _ = unstopped(&format!("{who}: the stop may not have reached it: {error}"));
                code = Exit::NotConfirmed;
            }
        }
    }
    code.into()
}

/// Ends a stop that reached nobody: what to do comes first, since whoever reads it may have no time for a second line.
fn unstopped(why: &str) -> ExitCode {
    say(
        io::stderr(),
        &format!(
            "PRESS THE EMERGENCY STOP NOW, if anything moves: software has not stopped it.\nerror: {why}. {HARDWARE}"
        ),
    );
    ExitCode::FAILURE
}

/// What a person does when a stop may not have worked.
pub(super) const HARDWARE: &str = "If something moves, use the emergency stop of the hardware, or switch its power off";

fn told(well: bool, text: &str) -> ExitCode {
    say(io::stdout(), text);
    if well { ExitCode::SUCCESS } else { Exit::NotConfirmed.into() }
}

/// Posts to a server's `/stop`; whether all stands, and its words.
fn over_http(url: &str, stage: Option<&str>) -> Result<(bool, String), String> {
    let (authority, path) = target(url)?;
    let address = authority.to_socket_addrs().map_err(|e| format!("{authority}: {e}"))?.next();
    let address = address.ok_or_else(|| format!("{authority} has no address"))?;
    let talk = || -> io::Result<Vec<u8>> {
        let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let body = stage.map_or_else(|| json!({}), |s| json!({ "stage": s })).to_string();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {authority}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Connection: close\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = Vec::new();
        stream.take(ANSWER).read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = talk().map_err(|e| e.to_string())?;
    read_answer(&String::from_utf8_lossy(&answer))
}

/// Host with port, and the path to post to.
fn target(url: &str) -> Result<(String, String), String> {
    let Some(rest) = url.strip_prefix("http://") else {
        let what = if url.starts_with("https://") { "https is not spoken here" } else { "this is no http:// address" };
        return Err(format!("{what}; for another kind of server: curl -X POST {url}/stop"));
    };
    let (authority, path) = rest.split_once('/').map_or((rest, ""), |(a, p)| (a, p));
    if authority.is_empty() || authority.contains('@') || url.chars().any(|c| c.is_control() || c == ' ') {
        return Err("this is no address of a server".into());
    }
    let host = authority.rsplit_once(']').map_or(authority, |(_, port)| port);
    let authority = if host.contains(':') { authority.to_owned() } else { format!("{authority}:80") };
    let path = if path.trim_end_matches('/').ends_with("stop") { format!("/{path}") } else { "/stop".to_owned() };
    Ok((authority, path))
}

fn read_answer(answer: &str) -> Result<(bool, String), String> {
    let status = answer.split_whitespace().nth(1).and_then(|s| s.parse::<u16>().ok());
    let status = status.filter(|_| answer.starts_with("HTTP/1.")).ok_or("what answers there is no HTTP server")?;
    let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body).trim();
    let facts: Value = serde_json::from_str(body).unwrap_or_default();
    let words = ["text", "message"].into_iter().find_map(|k| facts[k].as_str()).unwrap_or(body).to_owned();
    match status {
        404 | 405 => Err(format!("what answers there knows no /stop (HTTP {status})")),
        200..300 => Ok((facts["standstill"] != false && facts["ok"] != false, words)),
        _ if facts["moved"].is_string() => Ok((false, words)),
        _ => Err(format!("HTTP {status}: {words}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_server_and_the_stop_is_at_its_root() {
        let ok = |url: &str| target(url).unwrap();
        let pair = |a: &str, p: &str| (a.to_owned(), p.to_owned());
        assert_eq!(ok("http://127.0.0.1:8050"), pair("127.0.0.1:8050", "/stop"));
        assert_eq!(ok("http://127.0.0.1:8050/mcp"), pair("127.0.0.1:8050", "/stop"));
        assert_eq!(ok("http://lab/rig-2/stop"), pair("lab:80", "/rig-2/stop"));
        assert_eq!(ok("http://[::1]:8050/"), pair("[::1]:8050", "/stop"));
        assert_eq!(ok("http://[::1]"), pair("[::1]:80", "/stop"));
        for url in ["https://lab", "127.0.0.1:8050", "http://", "http://a b", "http://u@h", "http://h/\r\nx"] {
            assert!(target(url).is_err(), "{url}");
        }
        assert!(target("https://lab").unwrap_err().contains("curl -X POST https://lab/stop"));
    }

    #[test]
    fn only_a_confirmed_standstill_is_success() {
        let answer = |status: &str, body: &str| read_answer(&format!("HTTP/1.1 {status}\r\nX: y\r\n\r\n{body}"));
        assert_eq!(answer("200 OK", r#"{"text":"Stopped.","standstill":true}"#), Ok((true, "Stopped.".into())));
        assert_eq!(answer("200 OK", r#"{"text":"Hm.","standstill":false}"#), Ok((false, "Hm.".into())));
        assert_eq!(answer("503 No", r#"{"message":"Hm.","moved":"unknown"}"#), Ok((false, "Hm.".into())));
        assert!(answer("404 Not Found", "").is_err() && answer("500 No", "").is_err());
        assert!(read_answer("SSH-2.0-OpenSSH_9.9 200").is_err() && read_answer("").is_err());
    }
}
