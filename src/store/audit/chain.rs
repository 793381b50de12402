//! The chain through the audit log: how a line names the one before it, and the record of the newest.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::model::RigError;
use crate::store::files;

/// What stands for the line before the first.
pub(super) const BEGIN: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The record of the newest line that is on the disk.
pub(super) const NEWEST: &str = "newest.json";

/// Digits of a line's own sum: enough to tell damage; what proves is the hash that the next line carries.
const SUM: usize = 16;

/// How long what [`seal`] adds is.
pub(super) const SEAL: usize = r#","prev":"","sum":""}"#.len() + BEGIN.len() + SUM;

/// A line of the log by its number and its hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Newest {
    /// Its number.
    pub seq: u64,
    /// The SHA-256 of its bytes without the end of line, in lower-case hexadecimal.
    pub hash: String,
}

impl Newest {
    /// Before the first line.
    pub(super) fn none() -> Newest {
        Newest { seq: 0, hash: BEGIN.into() }
    }

    /// What is kept in `dir`; `None` where there is nothing, or nothing that can be read.
    pub(super) fn kept(dir: &Path) -> io::Result<Option<Newest>> {
        match std::fs::read(dir.join(NEWEST)) {
            Ok(bytes) => Ok(serde_json::from_slice(&bytes).ok()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// Keeps it there; it has reached the disk when this comes back.
    pub(super) fn keep(&self, dir: &Path) -> Result<(), RigError> {
        let text = format!("{{\"seq\":{},\"hash\":\"{}\"}}\n", self.seq, self.hash);
        files::replace(&dir.join(NEWEST), text.as_bytes())
    }
}

/// The SHA-256 of bytes, in lower-case hexadecimal.
pub fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// Adds the hash of the line before and the line's own sum to an object that stands on one line.
pub(super) fn seal(json: &str, prev: &str) -> String {
    let body = json.strip_suffix('}').unwrap_or(json);
    let line = format!(r#"{body},"prev":"{prev}""#);
    let sum = hash(line.as_bytes());
    format!(r#"{line},"sum":"{}"}}"#, &sum[..SUM])
}

/// What a line says of itself.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Seal<'a> {
    /// It names the line before it; whether it is as it was written, by its own sum.
    Chained { prev: &'a str, intact: bool },
    /// It carries no hash.
    None,
}

/// Reads a line, without its end.
pub(super) fn read(line: &[u8]) -> Seal<'_> {
    let Some(at) = line.len().checked_sub(SEAL) else { return Seal::None };
    let (body, seal) = line.split_at(at);
    let Some(rest) = seal.strip_prefix(br#","prev":""#) else { return Seal::None };
    let (prev, rest) = rest.split_at(BEGIN.len());
    let sum = rest.strip_prefix(br#"","sum":""#).and_then(|r| r.strip_suffix(br#""}"#));
    let (Some(sum), Ok(prev)) = (sum, std::str::from_utf8(prev)) else { return Seal::None };
    let told = &line[..body.len() + r#","prev":"""#.len() + BEGIN.len()];
    Seal::Chained { prev, intact: hash(told).as_bytes()[..SUM] == *sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_that_of_the_standard() {
        assert_eq!(hash(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }

    #[test]
    fn a_sealed_line_is_json_and_tells_the_line_before_it() {
        let prev = hash(b"before");
        let line = seal(r#"{"seq":1,"what":"x"}"#, &prev);
        assert_eq!(line.len(), r#"{"seq":1,"what":"x"}"#.len() - 1 + SEAL);
        assert_eq!(read(line.as_bytes()), Seal::Chained { prev: &prev, intact: true });
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).unwrap()["prev"], prev);
        assert_eq!(read(br#"{"seq":1,"what":"x"}"#), Seal::None);
        assert_eq!(read(b""), Seal::None);
    }

    #[test]
    fn no_byte_of_a_sealed_line_changes_unseen() {
        let line = seal(r#"{"seq":1,"what":"x"}"#, BEGIN).into_bytes();
        for at in 0..line.len() {
            let mut other = line.clone();
            other[at] ^= 1;
            assert!(!matches!(read(&other), Seal::Chained { intact: true, .. }), "byte {at}");
        }
    }

    #[test]
    fn what_is_kept_is_read_again_and_what_is_no_record_is_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Newest::kept(dir.path()).unwrap(), None);
        let newest = Newest { seq: 7, hash: hash(b"x") };
        newest.keep(dir.path()).unwrap();
        assert_eq!(Newest::kept(dir.path()).unwrap(), Some(newest));
        std::fs::write(dir.path().join(NEWEST), "{").unwrap();
        assert_eq!(Newest::kept(dir.path()).unwrap(), None);
    }
}
