//! Who may come in: addresses of this machine alone, and no web page from elsewhere.
//!
//! A page that a browser shows can send requests to loopback. It can't hide where it is from: a `POST` carries its
//! `Origin`, and a name that was rebound to 127.0.0.1 stands in `Host`. Both are judged before anything else, for every
//! path. That holds for `/stop` too: a stop does no harm by itself, but a page that could send it could keep a rig
//! from working. Programs send no `Origin`, and are let through.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use http::{HeaderMap, StatusCode, Uri, header};
use thiserror::Error;

/// An address that isn't loopback.
#[derive(Debug, Error)]
pub enum NotLoopback {
    /// It leads out of this machine.
    #[error(
        "{host} can be reached from other machines, and there is no authentication yet: only 127.0.0.1, ::1 and \
         localhost are served. From elsewhere, use a tunnel: ssh -L {port}:127.0.0.1:{port} THIS-MACHINE"
    )]
    Open {
        /// As it was asked for.
        host: String,
        /// The port asked for.
        port: u16,
    },
    /// It is no address.
    #[error("{host:?} is no address of this machine ({why}): try 127.0.0.1")]
    Unknown {
        /// As it was asked for.
        host: String,
        /// What the system says.
        why: String,
    },
}

/// The loopback address of that name. IPv4 first, where a name has both.
///
/// # Errors
/// Any other address, and names that lead to one.
pub fn loopback(host: &str, port: u16) -> Result<SocketAddr, NotLoopback> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let unknown = |why: String| NotLoopback::Unknown { host: host.to_owned(), why };
    let found: Vec<SocketAddr> = (bare, port).to_socket_addrs().map_err(|e| unknown(e.to_string()))?.collect();
    if !found.iter().all(|a| a.ip().is_loopback()) {
        return Err(NotLoopback::Open { host: host.to_owned(), port });
    }
    let first = found.iter().find(|a| a.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| unknown("it has no address".into()))
}

/// A path that can't be MCP's.
#[derive(Debug, Error)]
#[error("{0:?} can't be MCP's path: it must begin with /, have no space, ? or #, and not be one of {RESERVED:?}")]
pub struct BadPath(String);

/// Paths that have a meaning of their own.
const RESERVED: [&str; 3] = ["/stop", "/healthz", "/readyz"];

/// The path as it is compared: without its final slash.
///
/// # Errors
/// When it can't be one.
pub fn check_path(path: &str) -> Result<String, BadPath> {
    let plain = |c: char| c.is_ascii_graphic() && !"?#%\"<>\\".contains(c);
    let bare = path.trim_end_matches('/');
    if !path.starts_with('/') || !path.chars().all(plain) || RESERVED.contains(&bare) {
        return Err(BadPath(path.to_owned()));
    }
    Ok(if bare.is_empty() { "/".into() } else { bare.into() })
}

/// Judges a request by its `Host` and `Origin`.
///
/// # Errors
/// The status, and what is wrong.
pub(super) fn judge(uri: &Uri, headers: &HeaderMap) -> Result<(), (StatusCode, &'static str)> {
    let host = match headers.get(header::HOST) {
        Some(host) => host.to_str().ok().and_then(|h| h.parse::<http::uri::Authority>().ok()),
        None => uri.authority().cloned(),
    };
    let Some(host) = host else {
        return Err((StatusCode::BAD_REQUEST, "The Host header is missing or unreadable."));
    };
    if !is_here(host.host()) {
        return Err((StatusCode::FORBIDDEN, "This server answers to localhost, 127.0.0.1 and [::1] alone."));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    let known = |origin: &http::HeaderValue| {
        let origin: Option<Uri> = origin.to_str().ok().and_then(|o| o.parse().ok());
        origin.is_some_and(|o| {
            matches!(o.scheme_str(), Some("http" | "https")) && o.host().is_some_and(is_here) && o.path() == "/"
        })
    };
    if !origins.all(known) {
        return Err((StatusCode::FORBIDDEN, "This server takes no requests from web pages of other places."));
    }
    Ok(())
}

/// Whether a host's name means this machine.
fn is_here(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    bare.trim_end_matches('.').eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(host: Option<&str>, origin: Option<&str>) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            if let Some(value) = value {
                headers.insert(name, value.parse().expect("a header"));
            }
        }
        judge(&"/mcp".parse().expect("a path"), &headers).map_or_else(|(status, _)| status.as_u16(), |()| 200)
    }

    #[test]
    fn a_host_must_be_this_machine_by_a_name_that_cannot_be_rebound() {
        for host in ["localhost", "LOCALHOST:8050", "localhost.", "127.0.0.1:9", "127.0.0.2", "[::1]:8050", "[::1]"] {
            assert_eq!(judged(Some(host), None), 200, "{host}");
        }
        for host in ["evil.example", "localhost.evil.example:8050", "0.0.0.0", "10.0.0.1", "127.0.0.1.nip.io", "[::]"] {
            assert_eq!(judged(Some(host), None), 403, "{host}");
        }
        for host in [None, Some(""), Some("a b")] {
            assert_eq!(judged(host, None), 400, "{host:?}");
        }
    }

    #[test]
    fn a_web_page_must_be_from_this_machine() {
        for origin in ["http://localhost:3000", "http://127.0.0.1:8050", "https://localhost", "http://[::1]:1"] {
            assert_eq!(judged(Some("localhost"), Some(origin)), 200, "{origin}");
        }
        let foreign =
            ["https://evil.example", "null", "", "http://localhost.evil.example", "file://", "http://localhost@e.x"];
        for origin in foreign {
            assert_eq!(judged(Some("localhost"), Some(origin)), 403, "{origin}");
        }
    }

    #[test]
    fn only_loopback_is_served() {
        for host in ["127.0.0.1", "127.0.0.2", "::1", "[::1]", "localhost"] {
            assert!(loopback(host, 8050).is_ok_and(|a| a.ip().is_loopback() && a.port() == 8050), "{host}");
        }
        for host in ["0.0.0.0", "::", "192.168.0.7"] {
            let text = loopback(host, 8050).expect_err(host).to_string();
            assert!(text.contains(host) && text.contains("ssh -L 8050:"), "{text}");
        }
        assert!(matches!(loopback("", 8050), Err(NotLoopback::Unknown { .. } | NotLoopback::Open { .. })));
    }

    #[test]
    fn mcps_path_is_plain_and_not_another_ones() {
        for (path, bare) in [("/mcp", "/mcp"), ("/mcp/", "/mcp"), ("/a/b", "/a/b"), ("/", "/")] {
            assert_eq!(check_path(path).expect(path), bare);
        }
        for path in ["", "mcp", "/stop", "/healthz/", "/a b", "/a?b", "/a#b", "/ü"] {
            assert!(check_path(path).is_err(), "{path}");
        }
    }
}
