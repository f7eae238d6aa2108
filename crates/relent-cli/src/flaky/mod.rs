//! `relent flaky`: a server that fails on command.

mod log;

use std::fmt::Display;
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use relent_flaky::{After, Builder, Flaky, Script};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::{emulate_default_handler, signal_name};

use crate::durations;
use crate::exit::{Error, ExitCode};

use log::Log;

pub(crate) const EXAMPLES: &str = "\
Examples:
  relent flaky --script '503*2,429(retry-after=1),reset,slow(2s),200'
  relent flaky --listen 127.0.0.1:8080 --fail 0.2 --latency 'lognormal(20ms,1.5)' --seed 7
  relent flaky --path 'POST /orders=close(done),201' --path '/static/*=200'
  relent flaky --outage 10s..20s/1m=refuse --capacity 50/s --overload '429(retry-after=2)'
  relent flaky --json --max-requests 10        for scripts: one JSON line each

  curl localhost:8080/_flaky/counters          what it was asked, and what it did
  curl -d 'reset*3,200' localhost:8080/_flaky/script
  curl -X POST localhost:8080/_flaky/reset

The first line of standard output tells the address. \
All steps of the script language are in docs/flaky.md.";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where to listen; port 0 is any free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: String,
    /// Settings: the table [flaky] of a TOML file; options go before it
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,

    /// What happens to the first request to a path, the second, and so on
    #[arg(long, value_name = "SCRIPT", help_heading = "What happens")]
    script: Option<String>,
    /// Script of /path, /prefix* or METHOD /path, as often as needed
    #[arg(long, value_name = "PATH=SCRIPT", help_heading = "What happens")]
    path: Vec<String>,
    /// What follows the end of a script: last (its last step repeats), loop, healthy (200) [default: last]
    #[arg(long, value_name = "WHAT", help_heading = "What happens")]
    after: Option<String>,
    /// Whose requests are counted together: path, all, client, key or header:NAME (but for all, each path apart)
    /// [default: path]
    #[arg(long, value_name = "WHOSE", help_heading = "What happens")]
    per: Option<String>,
    /// What becomes of requests whose Idempotency-Key is known: honour (the first answer is repeated) or ignore
    /// [default: honour]
    #[arg(long, value_name = "HOW", help_heading = "What happens")]
    keys: Option<String>,

    /// Share of the good answers that fail by chance, from 0 to 1
    #[arg(long, value_name = "SHARE", help_heading = "By chance and by the clock")]
    fail: Option<f64>,
    /// What happens to those [default: 503]
    #[arg(long, value_name = "STEP", help_heading = "By chance and by the clock")]
    fail_with: Option<String>,
    /// How long answers take: 20ms, uniform(5ms,50ms), exponential(20ms) or lognormal(MEDIAN,SIGMA)
    #[arg(long, value_name = "LAW", help_heading = "By chance and by the clock")]
    latency: Option<String>,
    /// Time after the start in which all fail, such as 10s..20s, 10s..20s/1m or 10s..20s=reset, as often as needed
    #[arg(long, value_name = "TIME", help_heading = "By chance and by the clock")]
    outage: Vec<String>,
    /// What the server can do: 50/s, or 8 at once [default: everything]
    #[arg(long, value_name = "LIMIT", help_heading = "By chance and by the clock")]
    capacity: Option<String>,
    /// What happens beyond that [default: 503(retry-after=1)]
    #[arg(long, value_name = "STEP", help_heading = "By chance and by the clock")]
    overload: Option<String>,
    /// Other luck: with one seed, request n to a path meets the same fate [default: 0]
    #[arg(long, value_name = "N", help_heading = "By chance and by the clock")]
    seed: Option<u64>,

    /// Path below which counters are shown and scripts are changed, or off
    #[arg(long, value_name = "PATH", default_value = "/_flaky", help_heading = "Serving")]
    admin: String,
    /// Header in which clients tell the number of the attempt [default: the usual ones]
    #[arg(long, value_name = "NAME", help_heading = "Serving")]
    attempt_header: Option<String>,
    /// Connections at the same time; the others get 503
    #[arg(long, value_name = "N", default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..), help_heading = "Serving")]
    max_connections: u32,
    /// End after so many requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Serving")]
    max_requests: Option<u64>,
    /// End after this time
    #[arg(long = "for", value_name = "DURATION", value_parser = durations::parse, help_heading = "Serving")]
    time: Option<Duration>,
    /// Serve TLS with a certificate made now, which goes into this file
    #[cfg(feature = "tls")]
    #[arg(long, value_name = "FILE", help_heading = "Serving")]
    tls: Option<PathBuf>,

    /// Print everything as JSON lines on standard output
    #[arg(long, help_heading = "Output")]
    json: bool,
    /// Do not show the requests
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

/// Why the server is to end.
enum End {
    Signal(i32),
    Requests,
    Time,
}

pub(crate) fn run(args: Args) -> Result<ExitCode, Error> {
    let builder = args.builder()?;
    let (ends, wanted) = mpsc::channel();
    watch_signals(ends.clone())?;
    let log = Log::start(args.json, args.quiet);
    let tell = log.sender();
    let (seen, most) = (AtomicU64::new(0), args.max_requests.unwrap_or(u64::MAX));
    let builder = builder.on_request(move |record| {
        tell.request(record);
        if seen.fetch_add(1, Ordering::Relaxed) + 1 == most {
            // Whoever waited for it has ended already.
            let _ = ends.send(End::Requests);
        }
    });
    let cannot = |source| Error::Failure { what: format!("cannot listen at {}", args.listen), source };
    let server = builder.start_in_thread().map_err(cannot)?;
    let mut out = anstream::stdout();
    if args.json {
        let (address, url) = (server.addr(), server.url());
        let line = serde_json::json!({ "v": 1, "event": "listening", "address": address, "url": url });
        writeln!(out, "{line}")?;
    } else {
        writeln!(out, "listening at {}", server.url())?;
    }
    out.flush()?;
    let end = match args.time {
        Some(time) => wanted.recv_timeout(time).or_else(|error| match error {
            RecvTimeoutError::Timeout => Ok(End::Time),
            RecvTimeoutError::Disconnected => Err(error),
        }),
        None => wanted.recv().map_err(|_| RecvTimeoutError::Disconnected),
    };
    let reason = match end.unwrap_or(End::Time) {
        End::Signal(signal) => signal_name(signal).unwrap_or("signal"),
        End::Requests => "requests",
        End::Time => "time",
    };
    let counters = server.shutdown();
    log.end(reason, &counters);
    Ok(ExitCode::Success)
}

/// The first signal ends the server when its requests are answered, the second one at once.
fn watch_signals(ends: Sender<End>) -> Result<(), Error> {
    let cannot = |source| Error::Failure { what: "cannot catch signals".to_owned(), source };
    let mut signals = Signals::new([SIGTERM, SIGINT]).map_err(cannot)?;
    thread::spawn(move || {
        for (count, signal) in signals.forever().enumerate() {
            if count > 0 {
                let _ = emulate_default_handler(signal);
            }
            let _ = ends.send(End::Signal(signal));
        }
    });
    Ok(())
}

impl Args {
    fn builder(&self) -> Result<Builder, Error> {
        let mut builder = Flaky::builder().listen(address(&self.listen)?);
        if let Some(path) = &self.file {
            let name = path.display().to_string();
            let cannot = |source| Error::Failure { what: format!("cannot read {name}"), source };
            let text = fs::read_to_string(path).map_err(cannot)?;
            builder = builder.read(&text, &name)?;
        }
        let after: After = optional("--after", self.after.as_deref())?.unwrap_or_default();
        if let Some(text) = &self.script {
            builder = builder.script(script("--script", text, after)?);
        }
        for given in &self.path {
            let Some((pattern, text)) = given.split_once('=') else {
                let way_out = "expected PATH=SCRIPT, such as '/orders=503,200'";
                return Err(
                    Error::usage(format!("--path: \"{}\" has no script", given.escape_debug())).help(way_out)
                );
            };
            let script = script(&format!("--path {pattern}"), text, after)?;
            builder =
                builder.path(pattern, script).map_err(|error| Error::usage(format!("--path: {error}")))?;
        }
        if let Some(scope) = optional("--per", self.per.as_deref())? {
            builder = builder.per(scope);
        }
        if let Some(keys) = optional("--keys", self.keys.as_deref())? {
            builder = builder.keys(keys);
        }
        match self.fail {
            Some(share @ 0.0..=1.0) => builder = builder.fail(share),
            Some(share) => return Err(Error::usage(format!("--fail: {share} is no share from 0 to 1"))),
            None => {}
        }
        if let Some(step) = optional("--fail-with", self.fail_with.as_deref())? {
            builder = builder.fail_with(step);
        }
        if let Some(latency) = optional("--latency", self.latency.as_deref())? {
            builder = builder.latency(latency);
        }
        for outage in &self.outage {
            builder = builder.outage(parsed("--outage", outage)?);
        }
        if let Some(capacity) = optional("--capacity", self.capacity.as_deref())? {
            builder = builder.capacity(capacity);
        }
        if let Some(step) = optional("--overload", self.overload.as_deref())? {
            builder = builder.overload(step);
        }
        if let Some(seed) = self.seed {
            builder = builder.seed(seed);
        }
        if let Some(name) = &self.attempt_header {
            builder = builder.attempt_header(name);
        }
        #[cfg(feature = "tls")]
        if let Some(path) = &self.tls {
            builder = builder.tls(identity(path)?);
        }
        let admin = Some(self.admin.as_str()).filter(|admin| *admin != "off");
        if admin.is_some_and(|path| path.trim_matches('/').is_empty()) {
            return Err(Error::usage("--admin: all requests would go there").help("expected a path, or off"));
        }
        Ok(builder.admin(admin).max_connections(usize::try_from(self.max_connections).unwrap_or(usize::MAX)))
    }
}

fn address(text: &str) -> Result<SocketAddr, Error> {
    let way_out = "expected an address with a port, such as 127.0.0.1:8080";
    let wrong = |error: &dyn Display| Error::usage(format!("--listen {text}: {error}")).help(way_out);
    let mut found = text.to_socket_addrs().map_err(|error| wrong(&error))?;
    found.next().ok_or_else(|| wrong(&"there is no such address"))
}

fn script(option: &str, text: &str, after: After) -> Result<Script, Error> {
    Script::parse_with(text, after).map_err(|error| Error::usage(format!("{option}: {error}")))
}

fn optional<T: FromStr<Err: Display>>(option: &str, text: Option<&str>) -> Result<Option<T>, Error> {
    text.map(|text| parsed(option, text)).transpose()
}

fn parsed<T: FromStr<Err: Display>>(option: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|error| Error::usage(format!("{option}: {error}")))
}

#[cfg(feature = "tls")]
fn identity(path: &std::path::Path) -> Result<relent_flaky::Identity, Error> {
    let cannot = |what: &str, source| Error::Failure { what: what.to_owned(), source };
    let identity = relent_flaky::Identity::generate(["localhost", "127.0.0.1", "::1"])
        .map_err(|source| cannot("cannot make a certificate", source))?;
    fs::write(path, identity.certificate_pem())
        .map_err(|source| cannot(&format!("cannot write {}", path.display()), source))?;
    Ok(identity)
}
