//! The streams of the log. As in klog, all lines go to standard error. With `--log-text-split-stream` and
//! `--log-json-split-stream`, informational lines go to standard output instead, where a buffer may hold them for a
//! while.

use std::{
    io::{self, Write},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

/// The streams of the log. Clones share the buffer. By default all lines go to standard error.
#[derive(Clone, Debug, Default)]
pub struct LogStreams(Option<Arc<Mutex<Buffered<io::Stdout>>>>);

/// A writer of whole lines. A line that finds no room in the buffer makes the buffer empty first.
#[derive(Debug)]
struct Buffered<W> {
    out: W,
    lines: Vec<u8>,
    /// The maximum number of bytes of `lines`. Zero means that each line is written immediately.
    capacity: usize,
}

/// Writes one line to its stream.
#[derive(Debug)]
pub struct StreamWriter<'a>(Stream<'a>);

#[derive(Debug)]
enum Stream<'a> {
    Errors(io::Stderr),
    Informational(MutexGuard<'a, Buffered<io::Stdout>>),
}

impl LogStreams {
    /// Writes lines of the level INFO and below to standard output. A buffer holds up to `n_bytes` of these lines. The
    /// buffer is written at intervals of `flush_every`.
    ///
    /// # Errors
    /// The thread that writes the buffer cannot be started.
    pub fn split(n_bytes: usize, flush_every: Duration) -> io::Result<Self> {
        let buffered = Buffered { out: io::stdout(), lines: Vec::new(), capacity: n_bytes };
        let streams = Self(Some(Arc::new(Mutex::new(buffered))));
        if n_bytes > 0 {
            let streams = streams.clone();
            let flush = move || loop {
                thread::sleep(flush_every);
                streams.flush();
            };
            thread::Builder::new().name("log-flush".to_owned()).spawn(flush)?;
        }
        Ok(streams)
    }

    /// Writes what the buffer holds. Call this before the process ends.
    pub fn flush(&self) {
        if let Some(buffered) = &self.0 {
            // Nothing is left to do if the stream is closed.
            let _ = locked(buffered).flush();
        }
    }
}

fn locked<W>(buffered: &Mutex<Buffered<W>>) -> MutexGuard<'_, Buffered<W>> {
    buffered.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> MakeWriter<'a> for LogStreams {
    type Writer = StreamWriter<'a>;

    fn make_writer(&'a self) -> Self::Writer {
        StreamWriter(Stream::Errors(io::stderr()))
    }

    fn make_writer_for(&'a self, metadata: &Metadata<'_>) -> Self::Writer {
        // `tracing` orders the levels by verbosity: WARN and ERROR are less than INFO.
        match &self.0 {
            Some(buffered) if *metadata.level() >= Level::INFO => StreamWriter(Stream::Informational(locked(buffered))),
            Some(_) | None => self.make_writer(),
        }
    }
}

impl Write for StreamWriter<'_> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        match &mut self.0 {
            Stream::Errors(stderr) => stderr.write(line),
            Stream::Informational(buffered) => buffered.write(line),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.0 {
            Stream::Errors(stderr) => stderr.flush(),
            // The buffer is written when it is full, and at intervals.
            Stream::Informational(_) => Ok(()),
        }
    }
}

impl<W: Write> Write for Buffered<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.lines.len() + line.len() > self.capacity {
            self.flush()?;
        }
        if line.len() > self.capacity {
            self.out.write_all(line)?;
            self.out.flush()?;
        } else {
            self.lines.extend_from_slice(line);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let written = self.out.write_all(&self.lines);
        // Lines that cannot be written now are lost, as without a buffer.
        self.lines.clear();
        written?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_wait_until_the_buffer_is_full_or_flushed() {
        let mut buffered = Buffered { out: Vec::new(), lines: Vec::new(), capacity: 10 };
        let mut write = |line: &str, out: &str| {
            buffered.write_all(line.as_bytes()).expect("memory takes everything");
            assert_eq!(String::from_utf8_lossy(&buffered.out), out, "after {line:?}");
        };
        write("first\n", "");
        write("2nd\n", "");
        write("third\n", "first\n2nd\n");
        write("longer than the buffer\n", "first\n2nd\nthird\nlonger than the buffer\n");
        write("last\n", "first\n2nd\nthird\nlonger than the buffer\n");
        buffered.flush().expect("memory takes everything");
        assert!(buffered.out.ends_with(b"last\n"), "{:?}", buffered.out);
        let mut unbuffered = Buffered { out: Vec::new(), lines: Vec::new(), capacity: 0 };
        unbuffered.write_all(b"a\n").expect("memory takes everything");
        assert_eq!(unbuffered.out, b"a\n");
    }
}
