//! `--http`: the address that is asked for, taken or refused before any device is opened.

use std::io;
use std::net::{SocketAddr, TcpListener};

use clap::Args;
use serde_json::json;

use super::say;
use crate::gateway::http::{check_path, loopback, who_listens};

/// Serving over HTTP instead of standard input and output.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Over HTTP")]
pub(super) struct HttpArgs {
    /// Serve many clients over HTTP, on this machine, instead of one on standard input and output.
    ///
    /// Standard input isn't read then: the program runs, as a service does, until SIGTERM or Ctrl-C. `POST /stop` on the
    /// same port stops everything without MCP; `GET /healthz` and `GET /readyz` are for supervisors.
    #[arg(long)]
    http: bool,
    /// The address. Only addresses of this machine are served: there is no authentication yet.
    #[arg(long, visible_alias = "mcp-host", value_name = "ADDRESS", default_value = "127.0.0.1", requires = "http")]
    host: String,
    /// The port; 0 takes a free one.
    #[arg(long, visible_alias = "mcp-port", value_name = "PORT", default_value_t = 8050, requires = "http")]
    port: u16,
    /// The path of MCP's endpoint.
    #[arg(long, visible_alias = "mcp-path", value_name = "PATH", default_value = "/mcp", requires = "http")]
    path: String,
    /// Accepted for command lines of gateways with a worker process. There is none here.
    #[arg(long, value_name = "ENDPOINT", hide = true)]
    worker_endpoint: Option<String>,
    /// Accepted for command lines of gateways with a worker process. There is none here.
    #[arg(long, value_name = "SECONDS", hide = true)]
    worker_startup_timeout_s: Option<f64>,
}

/// An address that is ours.
#[derive(Debug)]
pub(super) struct Listening {
    /// Where connections come in.
    pub(super) listener: TcpListener,
    /// MCP's path.
    pub(super) path: String,
    /// Where that is.
    address: SocketAddr,
}

impl HttpArgs {
    /// Takes the address, if HTTP is asked for.
    ///
    /// # Errors
    /// An address that others can reach, a path that can't be one, or a port that is taken: by whom, as far as that can
    /// be known, and what to do.
    pub(super) fn listen(&self) -> Result<Option<Listening>, String> {
        for (flag, given) in [
            ("--worker-endpoint", self.worker_endpoint.is_some()),
            ("--worker-startup-timeout-s", self.worker_startup_timeout_s.is_some()),
        ] {
            if given {
                say(io::stderr(), &format!("note: {flag} is not needed: this program drives the devices itself."));
            }
        }
        if !self.http {
            return Ok(None);
        }
        let path = check_path(&self.path).map_err(|e| e.to_string())?;
        let address = loopback(&self.host, self.port).map_err(|e| e.to_string())?;
        let listener = TcpListener::bind(address).map_err(|error| refused(address, &error))?;
        let address = listener.local_addr().map_err(|e| e.to_string())?;
        Ok(Some(Listening { listener, path, address }))
    }
}

/// Why an address can't be had.
fn refused(address: SocketAddr, error: &io::Error) -> String {
    let port = address.port();
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            let who = who_listens(address).unwrap_or_else(|| {
                let find = if cfg!(windows) { "netstat -ano" } else { "ss -ltnp" };
                format!("another program (`{find}` lists who)")
            });
            format!("port {port} is taken by {who}. End that one, or choose another port: --port {}", next(port))
        }
        io::ErrorKind::PermissionDenied => {
            format!("the system doesn't give port {port} to this user ({error}). Choose one above 1023: --port 8050")
        }
        _ => format!("{address} can't be had: {error}"),
    }
}

fn next(port: u16) -> u16 {
    port.checked_add(1).unwrap_or(8050)
}

impl Listening {
    /// MCP's address.
    fn url(&self) -> String {
        format!("http://{}{}", self.address, self.path)
    }

    /// What a person reads who started the server: where it is, and what clients are told.
    pub(super) fn how_to_connect(&self) -> String {
        let (url, root) = (self.url(), format!("http://{}", self.address));
        let entry = json!({ "mcpServers": { "steadyhand": { "type": "http", "url": url } } });
        format!(
            "steadyhand {} serves MCP at {url}, to programs on this machine.\n\n\
             Claude Code:    claude mcp add --transport http steadyhand {url}\n\
             Codex:          codex mcp add steadyhand --url {url}\n\
             Others, EAA:    {entry}\n\
             Claude Desktop: starts its own server over stdio; see `steadyhand serve` on a terminal.\n\n\
             Stop all axes:  curl -X POST {root}/stop\n\
             Health:         {root}/healthz, {root}/readyz\n\n\
             Ctrl-C or SIGTERM stops the axes and ends it.",
            env!("CARGO_PKG_VERSION"),
        )
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        http: HttpArgs,
    }

    fn listen(line: &[&str]) -> Result<Option<Listening>, String> {
        let all = std::iter::once("steadyhand").chain(line.iter().copied());
        Line::try_parse_from(all).map_err(|e| e.to_string())?.http.listen()
    }

    #[test]
    fn both_ways_to_name_the_address_are_understood() {
        for line in [
            ["--http", "--host", "127.0.0.1", "--port", "0", "--path", "/lab/"],
            ["--http", "--mcp-host", "localhost", "--mcp-port", "0", "--mcp-path", "/lab"],
        ] {
            let listening = listen(&line).expect("free").expect("asked for");
            let url = listening.url();
            assert!(url.starts_with("http://127.0.0.1:") && url.ends_with("/lab"), "{url}");
            assert!(listening.how_to_connect().contains(&url));
        }
        assert!(listen(&[]).expect("fine").is_none());
        assert!(listen(&["--worker-endpoint", "tcp://x:1", "--worker-startup-timeout-s", "5"]).is_ok());
        assert!(listen(&["--port", "8051"]).is_err(), "a port without --http is a misunderstanding");
    }

    #[test]
    fn what_others_could_reach_is_refused() {
        let text = listen(&["--http", "--host", "0.0.0.0", "--port", "0"]).expect_err("refused");
        assert!(text.contains("no authentication yet") && text.contains("ssh -L"), "{text}");
        assert!(listen(&["--http", "--port", "0", "--path", "/stop"]).expect_err("refused").contains("/stop"));
    }

    #[test]
    fn a_taken_port_is_told_with_what_to_do() {
        let other = TcpListener::bind("127.0.0.1:0").expect("a port");
        // Whoever asks it is sent away at once.
        let port = other.local_addr().expect("an address").port().to_string();
        std::thread::spawn(move || while other.accept().is_ok() {});
        let text = listen(&["--http", "--port", &port]).expect_err("taken");
        assert!(text.contains("another program") && text.contains("--port"), "{text}");
    }
}
