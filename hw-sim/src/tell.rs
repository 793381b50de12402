//! `hw-sim tell`: a request to the control socket of a bench that is served, in words.

use std::io::{self, BufRead, BufReader, Read, Write};

use serde_json::{Map, Value, json};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The control socket: `host:port`, or the path of a Unix socket
    control: String,
    /// `devices`, `positions`, `speeds`, `state`, `settings`, `received`, `fault` and others
    cmd: String,
    /// The device, a fault's name, and what else the request takes
    #[arg(value_name = "DEVICE | FAULT | KEY=VALUE", allow_hyphen_values = true)]
    rest: Vec<String>,
}

/// The bench's reply; one that is an error is one.
pub(crate) fn ask(args: &Args) -> io::Result<Value> {
    let line = format!("{}\n", request(&args.cmd, &args.rest)?);
    let mut reply = String::new();
    let mut stream = connect(&args.control)
        .map_err(|e| io::Error::new(e.kind(), format!("no bench answers at {}: {e}", args.control)))?;
    stream.write_all(line.as_bytes())?;
    BufReader::new(stream).read_line(&mut reply)?;
    let reply: Value = serde_json::from_str(&reply)?;
    match reply.get("error").and_then(Value::as_str) {
        Some(error) => Err(io::Error::other(error.to_owned())),
        None => Ok(reply),
    }
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn connect(control: &str) -> io::Result<Box<dyn Stream>> {
    #[cfg(unix)]
    if control.contains('/') || !control.contains(':') {
        return Ok(Box::new(std::os::unix::net::UnixStream::connect(control)?));
    }
    Ok(Box::new(std::net::TcpStream::connect(control)?))
}

/// Bare words are the device and then the fault; a value that is no JSON is text.
fn request(cmd: &str, words: &[String]) -> io::Result<Value> {
    let mut fields = Map::from_iter([("cmd".to_owned(), json!(cmd))]);
    for word in words {
        let (key, value) = match word.split_once('=') {
            Some((key, text)) => (key, serde_json::from_str(text).unwrap_or_else(|_| json!(text))),
            None if !fields.contains_key("device") => ("device", json!(word)),
            None => ("fault", json!(word)),
        };
        if fields.insert(key.to_owned(), value).is_some() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{key} is given twice")));
        }
    }
    Ok(Value::Object(fields))
}
