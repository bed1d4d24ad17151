//! What a guest says besides its answers: log lines, stdout and stderr, bounded, first and last
//! part kept.
//!
//! One log per sandbox, shared with the streams that WASI gives out. Knows nothing of who reads it.

use std::collections::VecDeque;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::fault::LimitHit;
use crate::limits::Limits;

/// What every write counts besides its bytes, so that a flood of empty lines ends as well.
const BYTES_PER_WRITE: u64 = 16;

/// A guest's log; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct GuestLog(Arc<Mutex<Lines>>);

/// An output stream of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    Stdout,
    Stderr,
}

/// The lines of a log.
#[derive(Debug)]
struct Lines {
    /// The first lines, at most `half` bytes of them.
    first: Vec<String>,
    /// Bytes in `first`.
    first_bytes: usize,
    /// The last lines, at most `half` bytes of them; empty until `first` is full.
    last: VecDeque<String>,
    /// Bytes in `last`.
    last_bytes: usize,
    /// Bytes that were neither among the first nor among the last.
    dropped: usize,
    /// Bytes written in all, whether kept or not.
    written: u64,
    /// What stdout and stderr hold of a line that has not ended.
    unfinished: [String; 2],
    /// The most bytes of `first` and of `last`.
    half: usize,
    /// `limits.log_bytes`.
    written_max: u64,
}

impl GuestLog {
    /// An empty log.
    pub(crate) fn new(limits: &Limits) -> GuestLog {
        GuestLog(Arc::new(Mutex::new(Lines {
            first: vec![],
            first_bytes: 0,
            last: VecDeque::new(),
            last_bytes: 0,
            dropped: 0,
            written: 0,
            unfinished: [String::new(), String::new()],
            half: usize::try_from(limits.log_kept_bytes / 2).unwrap_or(usize::MAX),
            written_max: limits.log_bytes,
        })))
    }

    /// Writes a line.
    pub(crate) fn line(&self, level: &str, text: &str) -> Result<(), LimitHit> {
        let mut lines = self.lock();
        lines.count(text.len())?;
        let room = lines.half.min(text.len());
        let kept = &text[..text.floor_char_boundary(room)];
        lines.dropped += text.len() - kept.len();
        lines.push(format!("{level}: {kept}"));
        Ok(())
    }

    /// Writes to a stream; lines are kept when they end.
    pub(crate) fn bytes(&self, stream: Stream, bytes: &[u8]) -> Result<(), LimitHit> {
        let mut lines = self.lock();
        lines.count(bytes.len())?;
        let text = String::from_utf8_lossy(bytes);
        for piece in text.split_inclusive('\n') {
            let half = lines.half;
            let unfinished = &mut lines.unfinished[stream as usize];
            let room = half.saturating_sub(unfinished.len()).min(piece.len());
            let kept = &piece[..piece.floor_char_boundary(room)];
            unfinished.push_str(kept);
            lines.dropped += piece.len() - kept.len();
            if piece.ends_with('\n') {
                lines.finish(stream);
            }
        }
        Ok(())
    }

    /// The kept lines, with a note where some are missing.
    pub(crate) fn kept(&self) -> Vec<String> {
        let mut lines = self.lock();
        lines.finish(Stream::Stdout);
        lines.finish(Stream::Stderr);
        let mut kept = lines.first.clone();
        if lines.dropped > 0 {
            kept.push(format!("... {} bytes dropped ...", lines.dropped));
        }
        kept.extend(lines.last.iter().cloned());
        kept
    }

    fn lock(&self) -> MutexGuard<'_, Lines> {
        // A panic while the lock is held leaves at worst a half-written line.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn count(&mut self, bytes: usize) -> Result<(), LimitHit> {
        self.written += bytes as u64 + BYTES_PER_WRITE;
        if self.written > self.written_max {
            return Err(LimitHit::Log(self.written_max));
        }
        Ok(())
    }

    fn finish(&mut self, stream: Stream) {
        let line = mem::take(&mut self.unfinished[stream as usize]);
        let line = line.trim_end_matches(['\r', '\n']);
        if !line.is_empty() {
            let name = if stream == Stream::Stdout { "stdout" } else { "stderr" };
            self.push(format!("{name}: {line}"));
        }
    }

    fn push(&mut self, line: String) {
        if self.last.is_empty() && self.first_bytes + line.len() <= self.half {
            self.first_bytes += line.len();
            self.first.push(line);
            return;
        }
        self.last_bytes += line.len();
        self.last.push_back(line);
        while self.last_bytes > self.half && self.last.len() > 1 {
            let oldest = self.last.pop_front().map_or(0, |line| line.len());
            self.last_bytes -= oldest;
            self.dropped += oldest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{GuestLog, Stream};
    use crate::fault::LimitHit;
    use crate::limits::Limits;

    fn log(kept: u64, most: u64) -> GuestLog {
        GuestLog::new(&Limits { log_kept_bytes: kept, log_bytes: most, ..Limits::default() })
    }

    #[test]
    fn first_and_last_lines_are_kept_and_the_rest_is_counted() {
        let log = log(40, 1 << 20);
        for number in 0..100 {
            log.line("info", &format!("line {number:02}")).unwrap();
        }
        let expected = ["info: line 00", "... 1274 bytes dropped ...", "info: line 99"];
        assert_eq!(log.kept(), expected);
    }

    #[test]
    fn streams_are_cut_into_lines_and_stay_apart() {
        let log = log(1000, 1 << 20);
        log.bytes(Stream::Stdout, b"one\ntw").unwrap();
        log.bytes(Stream::Stderr, b"oops").unwrap();
        log.bytes(Stream::Stdout, b"o\n\xff").unwrap();
        let expected = ["stdout: one", "stdout: two", "stdout: \u{fffd}", "stderr: oops"];
        assert_eq!(log.kept(), expected);
    }

    #[test]
    fn long_lines_are_cut_at_a_character() {
        let log = log(20, 1 << 20);
        log.line("warn", &"é".repeat(1000)).unwrap();
        log.bytes(Stream::Stderr, &[b'x'; 5000]).unwrap();
        let kept: usize = log.kept().iter().map(String::len).sum();
        assert!(kept < 100, "{:?}", log.kept());
    }

    #[test]
    fn a_flood_hits_its_limit_even_with_empty_lines() {
        let log = log(100, 1000);
        let hit = (0..1000).find_map(|_| log.line("info", "").err());
        assert_eq!(hit, Some(LimitHit::Log(1000)));
    }
}
