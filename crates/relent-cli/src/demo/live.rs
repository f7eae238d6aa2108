//! The flaky service, called through a policy: real sockets, real waits, and the timeline while it happens.

use std::fmt;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use relent::{Class, Classify, Event, Hint, Outcome, Policy};

use super::service::{Act, Service};
use crate::durations::short;
use crate::exit::Error;
use crate::terminal::style;

/// What the service does, in turn. The demo is over in three seconds: one second is what it asks for itself.
const SCRIPT: &[Act] = &[Act::Fail, Act::Hang, Act::Throttle(1), Act::Answer];

/// The policy that it is called through.
pub(super) fn policy() -> Result<Policy, relent::PolicyError> {
    Policy::exponential(Duration::from_millis(100))
        .max_attempts(5)
        .attempt_timeout(Duration::from_millis(500))
        .deadline(Duration::from_secs(10))
        .build()
}

/// Calls the service and prints what happens as it happens.
pub(super) fn call(out: &mut impl Write) -> Result<(), Error> {
    let policy = policy().map_err(|error| Error::usage(error.to_string()))?;
    // A sandbox without a loopback takes this part of the demo, not the others.
    let service = match Service::start(SCRIPT) {
        Ok(service) => service,
        Err(error) => return left_out(out, &error),
    };
    // Output that fails inside the hook is kept until the call is over: hooks see, they do not decide.
    let mut written = Ok(());
    let result = relent::blocking::with(&policy)
        .name("hello")
        .notify(|event: &Event<'_, CallError>| {
            if written.is_ok() {
                written = write_event(out, event);
            }
        })
        .retry(|attempt| get(service.address, attempt.remaining()));
    written?;
    let good = style::GOOD;
    let requests = service.served().len();
    match result {
        Ok(body) => {
            let body = body.trim();
            writeln!(
                out,
                "   The caller got {good}\"{body}\"{good:#}; the service saw {requests} requests."
            )?;
        }
        Err(error) => {
            writeln!(out, "   The caller got an error: {error}")?;
            if let (0, Some(CallError::Io(unreachable))) = (requests, error.last()) {
                return left_out(out, unreachable);
            }
        }
    }
    out.flush()?;
    Ok(())
}

fn left_out(out: &mut impl Write, error: &io::Error) -> Result<(), Error> {
    writeln!(out, "   No service can be called on 127.0.0.1 here: {error}.")?;
    writeln!(out, "   The rest needs no network.")?;
    Ok(())
}

fn write_event(out: &mut impl Write, event: &Event<'_, CallError>) -> io::Result<()> {
    let (faint, bad, accent) = (style::FAINT, style::BAD, style::ACCENT);
    let at = event.elapsed.map(short).unwrap_or_default();
    if event.class() == Some(Class::Success) {
        // The error of the attempt before is still there: it belongs to the event's history.
        writeln!(out, "answered {faint}(success){faint:#}")?;
        return out.flush();
    }
    match (event.kind(), event.error, event.wait()) {
        ("attempt_started", ..) => write!(out, "{at:>7}  attempt {}  ", event.attempt())?,
        ("decision", Some(error), Some((wait, source))) => {
            let class = event.class().map_or("", Class::as_str);
            writeln!(out, "{bad}{error}{bad:#} {faint}({class}){faint:#}")?;
            let why = match source {
                relent::Source::Hint => "because the service asked for it",
                _ => "drawn from the schedule",
            };
            writeln!(out, "{:>7}  {accent}wait {}{accent:#} {faint}{why}{faint:#}", "", short(wait))?;
        }
        ("decision", Some(error), None) => writeln!(out, "{bad}{error}{bad:#}")?,
        _ => {}
    }
    out.flush()
}

/// One request.
fn get(address: std::net::SocketAddr, limit: Option<Duration>) -> Result<String, CallError> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(limit.filter(|limit| !limit.is_zero()))?;
    stream.write_all(b"GET /hello HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status =
        head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    if status == 200 {
        return Ok(body.to_owned());
    }
    let retry_after = head.lines().find_map(|line| line.strip_prefix("retry-after: "));
    Err(CallError::Status { status, retry_after: retry_after.and_then(|seconds| seconds.parse().ok()) })
}

/// Why a request failed.
#[derive(Debug)]
enum CallError {
    Status { status: u16, retry_after: Option<u64> },
    Io(io::Error),
}

impl Classify for CallError {
    fn outcome(&self) -> Outcome {
        match self {
            Self::Status { status: 429, retry_after: Some(seconds) } => {
                Outcome::of(Class::Throttled).hint(Hint::After(Duration::from_secs(*seconds)))
            }
            Self::Status { status: 429, .. } => Outcome::of(Class::Throttled),
            Self::Status { status: 500.., .. } => Outcome::of(Class::Transient),
            Self::Status { .. } => Outcome::of(Class::Permanent),
            // A read that times out says so in one of two ways, by the system.
            Self::Io(error) if error.kind() == io::ErrorKind::WouldBlock => Outcome::of(Class::Timeout),
            Self::Io(error) => relent::outcome_of(error),
        }
    }
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<io::ErrorKind> for CallError {
    fn from(kind: io::ErrorKind) -> Self {
        Self::Io(kind.into())
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status { status, retry_after: Some(seconds) } => {
                write!(f, "{status} Retry-After: {seconds}")
            }
            Self::Status { status, retry_after: None } => write!(f, "{status}"),
            Self::Io(error) => match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => f.write_str("no answer"),
                _ => error.fmt(f),
            },
        }
    }
}
