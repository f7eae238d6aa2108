//! The access log: written by a thread of its own, so that a reader that stands still does not stop the server.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use relent_flaky::{Cause, Counters, Done, Record};

use crate::durations::short;
use crate::terminal::style;

/// How many lines wait for a slow reader; those beyond are left out.
const WAITING: usize = 10_000;
/// How long the end waits for it.
const PATIENCE: Duration = Duration::from_secs(1);

pub(super) struct Log {
    sender: Sender,
    written: Receiver<()>,
    json: bool,
}

#[derive(Clone)]
pub(super) struct Sender {
    lines: Option<SyncSender<Box<Record>>>,
    left_out: Arc<AtomicU64>,
}

impl Sender {
    pub(super) fn request(&self, record: &Record) {
        if let Some(lines) = &self.lines
            && lines.try_send(Box::new(record.clone())).is_err()
        {
            self.left_out.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Log {
    pub(super) fn start(json: bool, quiet: bool) -> Self {
        let (lines, records) = mpsc::sync_channel::<Box<Record>>(WAITING);
        let (done, written) = mpsc::channel();
        if !quiet {
            thread::spawn(move || {
                for record in records {
                    // Nobody reads it any more; the server has others to serve.
                    if write(&record, json).is_err() {
                        break;
                    }
                }
                drop(done);
            });
        }
        let lines = (!quiet).then_some(lines);
        Self { sender: Sender { lines, left_out: Arc::default() }, written, json }
    }

    pub(super) fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Writes what is still to be written, and how it ended.
    pub(super) fn end(self, reason: &str, counters: &Counters) {
        let left_out = Arc::clone(&self.sender.left_out);
        drop(self.sender);
        let _ = self.written.recv_timeout(PATIENCE);
        let left_out = left_out.load(Ordering::Relaxed);
        // The same: there may be no reader.
        let _ = if self.json {
            let ended = serde_json::json!({
                "v": 1, "event": "ended", "reason": reason, "left_out": left_out, "counters": counters,
            });
            writeln!(anstream::stdout(), "{ended}")
        } else {
            writeln!(anstream::stderr(), "{}", summary(reason, counters, left_out))
        };
    }
}

fn write(record: &Record, json: bool) -> io::Result<()> {
    if json {
        let record = serde_json::to_string(record)?;
        let fields = record.strip_prefix('{').unwrap_or(&record);
        return writeln!(anstream::stdout(), "{{\"v\":1,\"event\":\"request\",{fields}");
    }
    writeln!(anstream::stderr(), "{}", line(record))
}

/// `  1.5s  POST /orders #3  503 after 20ms (overload)  attempt 2  key a  body 11`
fn line(record: &Record) -> String {
    let colour = match record.status {
        Some(200..400) if !record.answer.contains('+') => style::GOOD,
        Some(_) => style::WARNING,
        None => style::BAD,
    };
    let faint = style::FAINT;
    let mut line = format!(
        "{faint}{:>7}{faint:#}  {} {} {faint}#{}{faint:#}  {colour}{}{colour:#}",
        short(record.at),
        harmless(&record.method),
        harmless(&record.path),
        record.number,
        record.answer,
    );
    // Writing to a string cannot fail.
    if !record.wait.is_zero() {
        let _ = write!(line, " after {}", short(record.wait));
    }
    if record.cause != Cause::Script {
        let _ = write!(line, " ({})", record.cause.as_str());
    }
    if let Some(attempt) = &record.attempt {
        let _ = write!(line, "  attempt {}", harmless(attempt));
    }
    if let Some(key) = &record.key {
        let _ = write!(line, "  key {}", harmless(key));
    }
    if record.body_length > 0 {
        let _ = write!(line, "  body {}", record.body_length);
    }
    if record.done == Done::Duplicate {
        let bad = style::BAD;
        let _ = write!(line, "  {bad}done twice{bad:#}");
    }
    line
}

fn summary(reason: &str, counters: &Counters, left_out: u64) -> String {
    let answers: Vec<String> =
        counters.answers.iter().map(|(answer, count)| format!("{count} x {answer}")).collect();
    let mut text = format!("ended ({reason}): {} requests", counters.requests);
    if !answers.is_empty() {
        let _ = write!(text, ": {}", answers.join(", "));
    }
    if counters.effects > 0 {
        let twice = counters.duplicates.with_key + counters.duplicates.without_key;
        let _ = write!(text, "; {} effects, {twice} of them again", counters.effects);
    }
    if left_out > 0 {
        let _ = write!(text, "; {left_out} lines left out");
    }
    text
}

/// What clients send, without what would move the cursor or colour the terminal, and not too long.
fn harmless(text: &str) -> String {
    const SHOWN: usize = 200;
    let show = |letter: char| {
        if letter.is_control() { letter.escape_unicode().collect() } else { String::from(letter) }
    };
    text.chars().take(SHOWN).map(show).collect()
}
