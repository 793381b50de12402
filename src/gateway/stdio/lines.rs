//! Cuts a byte stream into lines of bounded length.

use std::ops::Range;

use tokio::io::{AsyncRead, AsyncReadExt};

/// The longest line that is read; what is longer is refused whole and skipped.
pub const MAX_LINE: usize = 8 * 1024 * 1024;

/// What one look at the stream brings.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Line {
    /// A whole line, without its end; the range is for [`Lines::text`] and holds until the next call.
    Whole(Range<usize>),
    /// A line that is longer than the bound. Its rest will be skipped.
    TooLong,
    /// The stream has ended or broken. A last line without its end was cut off and counts for nothing.
    End,
}

/// A reader of lines.
pub(in crate::gateway) struct Lines<R> {
    reader: R,
    longest: usize,
    buffer: Vec<u8>,
    /// Where the present line begins.
    begin: usize,
    /// Up to here there is no line end after `begin`.
    searched: usize,
    skipping: bool,
}

const CHUNK: usize = 64 * 1024;

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(in crate::gateway) fn new(reader: R) -> Lines<R> {
        Lines::up_to(reader, MAX_LINE)
    }

    /// With another bound than [`MAX_LINE`].
    pub(in crate::gateway) fn up_to(reader: R, longest: usize) -> Lines<R> {
        Lines { reader, longest, buffer: Vec::new(), begin: 0, searched: 0, skipping: false }
    }

    /// The bytes of a [`Line::Whole`].
    pub(in crate::gateway) fn text(&self, range: &Range<usize>) -> &[u8] {
        self.buffer.get(range.clone()).unwrap_or_default()
    }

    /// The next line. Cancel-safe: what was read stays.
    pub(in crate::gateway) async fn next(&mut self) -> Line {
        loop {
            if let Some(at) = self.buffer[self.searched..].iter().position(|b| *b == b'\n') {
                let line = self.begin..self.searched + at;
                self.begin = line.end + 1;
                self.searched = self.begin;
                if std::mem::take(&mut self.skipping) {
                    continue;
                }
                return if line.len() > self.longest { Line::TooLong } else { Line::Whole(line) };
            }
            self.make_room();
            if self.buffer.len() > self.longest || self.skipping {
                self.buffer.clear();
                self.searched = 0;
                if !std::mem::replace(&mut self.skipping, true) {
                    return Line::TooLong;
                }
            }
            match self.reader.read_buf(&mut self.buffer).await {
                Ok(0) => return Line::End,
                Ok(_) => {}
                Err(error) => {
                    tracing::warn!("reading from the client failed: {error}");
                    return Line::End;
                }
            }
        }
    }

    /// Moves the unfinished line to the front, lets go of what a long line took, and makes room to read.
    fn make_room(&mut self) {
        self.buffer.drain(..self.begin);
        self.begin = 0;
        self.searched = self.buffer.len();
        if self.buffer.is_empty() && self.buffer.capacity() > 4 * CHUNK {
            self.buffer = Vec::new();
        }
        self.buffer.reserve(CHUNK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: &[u8]) -> Vec<Result<Vec<u8>, &'static str>> {
        let mut lines = Lines::new(bytes);
        let mut found = Vec::new();
        loop {
            match lines.next().await {
                Line::Whole(range) => found.push(Ok(lines.text(&range).to_vec())),
                Line::TooLong => found.push(Err("too long")),
                Line::End => return found,
            }
        }
    }

    #[tokio::test]
    async fn lines_come_whole_and_in_order() {
        assert_eq!(all(b"one\n\ntwo\r\n").await, [Ok(b"one".to_vec()), Ok(vec![]), Ok(b"two\r".to_vec())]);
    }

    #[tokio::test]
    async fn a_line_cut_off_by_the_end_is_not_a_line() {
        assert_eq!(all(b"whole\n{\"cut\":").await, [Ok(b"whole".to_vec())]);
    }

    #[tokio::test]
    async fn a_line_cut_at_every_byte_is_the_same_line() {
        let (mut client, server) = tokio::io::duplex(1);
        tokio::spawn(async move { tokio::io::AsyncWriteExt::write_all(&mut client, b"{\"a\":1}\nx\n").await });
        let mut lines = Lines::new(server);
        let mut found = Vec::new();
        while let Line::Whole(range) = lines.next().await {
            found.push(lines.text(&range).to_vec());
        }
        assert_eq!(found, [b"{\"a\":1}".to_vec(), b"x".to_vec()]);
    }

    #[tokio::test]
    async fn the_longest_line_passes_and_one_byte_more_does_not() {
        let mut bytes = vec![b'a'; MAX_LINE];
        bytes.extend(b"\n");
        bytes.extend(vec![b'b'; MAX_LINE + 1]);
        bytes.extend(b"\nafter\n");
        let found = all(&bytes).await;
        assert_eq!(
            found.iter().map(|l| l.as_ref().map(Vec::len)).collect::<Vec<_>>(),
            [Ok(MAX_LINE), Err(&"too long"), Ok(5)]
        );
    }

    #[tokio::test]
    async fn an_endless_line_is_told_once_and_takes_bounded_memory() {
        let endless = tokio::io::AsyncReadExt::take(tokio::io::repeat(b'x'), 40 * 1024 * 1024);
        let mut lines = Lines::new(endless);
        assert_eq!(lines.next().await, Line::TooLong);
        assert_eq!(lines.next().await, Line::End);
        assert!(lines.buffer.capacity() <= 3 * MAX_LINE, "{}", lines.buffer.capacity());
    }
}
