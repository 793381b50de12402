//! What goes over the local sockets besides sessions: one line there, one line back, bounded in length and time.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use interprocess::ConnectWaitMode;
use interprocess::local_socket::traits::{Stream as _, StreamCommon};
use interprocess::local_socket::{ConnectOptions, Stream};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::folder::{Place, Socket};
use super::relay::{Hello, Welcome};
use crate::gateway::stdio::triage::META_VERSION;
use crate::tools::Said;

/// The longest request, and the longest first line of a session.
pub(super) const REQUEST: usize = 16 * 1024;

/// The longest answer.
const ANSWER: usize = 8 * 1024 * 1024;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(2);

/// What a person's command, or a relay, asks of an owner.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "want", rename_all = "snake_case")]
pub enum Request {
    /// Stop one stage, or everything.
    Stop {
        /// The stage; all without it, and all with one that the rig doesn't have.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<String>,
        /// A client of a relay asked, and not a person: any client may release it.
        #[serde(default)]
        for_client: bool,
        /// Answer once the stop is given, without waiting for standstill.
        #[serde(default)]
        at_once: bool,
    },
    /// How everything stands.
    Status,
    /// What was begun.
    Jobs,
    /// A person releases a person's stop.
    Resume {
        /// Of this stage alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<String>,
    },
    /// A person lends a device's port to another program.
    Release {
        /// The device.
        device: String,
    },
    /// A person takes a lent port back.
    Reclaim {
        /// The device.
        device: String,
    },
    /// A person declares where an axis stands.
    Reference {
        /// The axis, `stage.axis`, or its name alone where there is one stage.
        axis: String,
        /// Where it stands.
        value: f64,
        /// The value's unit; the axis's own without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        unit: Option<String>,
    },
    /// A person has done by hand what a job waits for, or refuses to.
    Confirm {
        /// The job; the only one that waits without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        job: Option<String>,
        /// Whether it is done.
        done: bool,
        /// The person's name, for the log.
        by: String,
    },
    /// What waits for a person's approval.
    Approvals {
        /// That one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<String>,
    },
    /// A person says yes or no to it.
    Approve {
        /// Which.
        id: String,
        /// Yes or no.
        yes: bool,
        /// The person's name, for the log.
        by: String,
        /// Why.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A person allows beforehand what an unattended run needs.
    Allow {
        /// Axes, each with its lowest and its highest position in its own unit.
        bounds: Vec<(String, f64, f64)>,
        /// Of this stage alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stage: Option<String>,
        /// `move`, `home`, `shot`, `output`.
        what: Vec<String>,
        /// For how many commands.
        steps: u32,
        /// For how long.
        seconds: f64,
        /// The person's name, for the log.
        by: String,
    },
    /// A person ends that.
    AllowEnd {
        /// The person's name, for the log.
        by: String,
    },
}

impl Request {
    /// Reads a request. What says that it wants a stop is one, whatever else is wrong with it.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn read(line: &[u8]) -> Result<Request, String> {
        match serde_json::from_slice(line) {
            Ok(request) => Ok(request),
            Err(error) => match serde_json::from_slice::<Value>(line) {
                Ok(value) if value["want"].as_str().is_some_and(|w| w.trim().eq_ignore_ascii_case("stop")) => {
                    Ok(Request::Stop { stage: None, for_client: false, at_once: false })
                }
                _ => Err(error.to_string()),
            },
        }
    }
}

/// Why an owner gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// Nobody listens there.
    #[error("no owner of this rig is running")]
    Nobody,
    /// Somebody may be there, but doesn't answer.
    #[error("the owner of this rig doesn't answer: {0}")]
    Silent(io::Error),
}

/// A stream that never blocks, read and written against deadlines. Both platforms' kinds can do this alike, which
/// they can't with time-outs of the system.
pub(super) struct Patient<'a> {
    stream: &'a Stream,
    until: Instant,
    given_up: Option<&'a AtomicBool>,
}

impl<'a> Patient<'a> {
    pub(super) fn new(stream: &'a Stream, patience: Duration) -> io::Result<Patient<'a>> {
        stream.set_nonblocking(true)?;
        Ok(Patient { stream, until: Instant::now() + patience, given_up: None })
    }

    /// Gives up as soon as this is set.
    pub(super) fn unless(mut self, given_up: &'a AtomicBool) -> Patient<'a> {
        self.given_up = Some(given_up);
        self
    }

    /// Reads a line of at most `longest` bytes, without its end. What follows it is not for this conversation.
    pub(super) fn line(&self, longest: usize) -> io::Result<Vec<u8>> {
        let mut found = Vec::new();
        let mut piece = [0; 4096];
        loop {
            let n = self.wait(|| (&*self.stream).read(&mut piece))?;
            if n == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let searched = found.len();
            found.extend_from_slice(piece.get(..n).unwrap_or_default());
            if let Some(at) = found.get(searched..).and_then(|new| new.iter().position(|b| *b == b'\n')) {
                found.truncate(searched + at);
                return Ok(found);
            }
            if found.len() > longest {
                return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a line of more than {longest} bytes")));
            }
        }
    }

    /// Writes a line.
    pub(super) fn say(&self, value: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(value)?;
        line.push(b'\n');
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            let n = self.wait(|| (&*self.stream).write(rest))?;
            rest = rest.get(n..).unwrap_or_default();
        }
        Ok(())
    }

    /// Tries until it goes through. The first looks follow each other closely, since mostly the other side is quick.
    fn wait(&self, mut act: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
        let mut rest = Duration::from_micros(100);
        loop {
            match act() {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
            if self.given_up.is_some_and(|g| g.load(Ordering::Acquire)) || Instant::now() >= self.until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            std::thread::park_timeout(rest);
            rest = (rest * 2).min(Duration::from_millis(10));
        }
    }
}

/// Whether the other end belongs to the same user. Where the platform doesn't say, the socket's folder or the pipe's
/// own rights have kept others out.
pub(super) fn same_user(stream: &impl StreamCommon) -> bool {
    #[cfg(unix)]
    {
        let other = stream.peer_creds().ok().and_then(|c| c.euid());
        other.is_none_or(|user| user == rustix::process::geteuid().as_raw())
    }
    #[cfg(not(unix))]
    {
        let _ = stream;
        true
    }
}

fn connect(place: &Place, which: Socket) -> Result<Stream, Trouble> {
    let name = place.socket(which).map_err(Trouble::Silent)?;
    let options = ConnectOptions::new().name(name).wait_mode(ConnectWaitMode::Timeout(CONNECT));
    options.connect_sync().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => Trouble::Nobody,
        _ => Trouble::Silent(error),
    })
}

/// Asks the owner of a rig, and waits for its answer.
///
/// # Errors
/// [`Trouble`]. A stop may have been carried out all the same when the answer doesn't come.
pub fn ask(place: &Place, request: &Request, patience: Duration) -> Result<Said, Trouble> {
    let stream = connect(place, Socket::Control)?;
    let told = || {
        let talk = Patient::new(&stream, patience)?;
        talk.say(request)?;
        Ok(serde_json::from_slice(&talk.line(ANSWER)?)?)
    };
    told().map_err(Trouble::Silent)
}

/// Asks the owner one request of the protocol, as a client for this request alone; waits as long as it takes. What it
/// begins stops when this process ends before the answer.
///
/// # Errors
/// [`Trouble`]; `Silent` carries the owner's own words when it refuses. A request that was sent may have been carried
/// out.
pub fn request_as_client(place: &Place, hello: &Hello, method: &str, mut params: Value) -> Result<Value, Trouble> {
    let stream = connect(place, Socket::Clients)?;
    params["_meta"] = json!({
        META_VERSION: "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": { "name": "steadyhand", "version": hello.version },
    });
    let told = || {
        let talk = Patient::new(&stream, CONNECT)?;
        talk.say(hello)?;
        let welcome: Welcome = serde_json::from_slice(&talk.line(REQUEST)?)?;
        if let Some(why) = welcome.refusal {
            return Err(io::Error::other(why));
        }
        talk.say(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))?;
        stream.set_nonblocking(false)?;
        for line in BufReader::new(&stream).lines() {
            let message: Value = serde_json::from_str(&line?)?;
            if message["id"] == 1 {
                return Ok(message);
            }
        }
        Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended before it answered"))
    };
    told().map_err(Trouble::Silent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_wants_a_stop_is_one_whatever_else_is_wrong_with_it() {
        let stop = |line: &str| matches!(Request::read(line.as_bytes()), Ok(Request::Stop { .. }));
        for line in [
            r#"{"want":"stop"}"#,
            r#"{"want":"stop","stage":7}"#,
            r#"{"want":" STOP ","at_once":"perhaps"}"#,
            r#"{"want":"stop","of a later version":true}"#,
        ] {
            assert!(stop(line), "{line}");
        }
        for line in ["", "stop", "{}", r#"{"want":"status"}"#, r#"{"want":["stop"]}"#, "[[[[", "\u{0}"] {
            assert!(!stop(line), "{line}");
        }
        let one = Request::Stop { stage: Some("scope".into()), for_client: true, at_once: true };
        assert_eq!(Request::read(&serde_json::to_vec(&one).unwrap()), Ok(one));
    }
}
