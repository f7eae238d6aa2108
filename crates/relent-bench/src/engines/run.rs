//! One measurement: how much was done, in what time, in how much memory.

use std::fmt;
use std::fs;
use std::str::FromStr;
use std::time::{Duration, Instant};

/// What a run of an engine came to; printed by the process that ran it, read by the one that compares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Run {
    pub(crate) events: u64,
    /// Of the processor, in all threads, where that is known (to 10 ms), so that other processes disturb it less.
    pub(crate) seconds: f64,
    /// On the wall.
    pub(crate) wall: f64,
    /// The most memory that the process had, in MB.
    pub(crate) megabytes: f64,
    /// A checksum, or what else must be the same in each engine.
    pub(crate) sum: u64,
}

impl Run {
    pub(crate) fn of(events: u64, watch: Stopwatch, sum: u64) -> Self {
        let (seconds, wall) = watch.read();
        Self { events, seconds, wall, megabytes: peak_megabytes(), sum }
    }

    pub(crate) fn nanos_per_event(&self) -> f64 {
        self.seconds * 1e9 / self.events as f64
    }
}

impl fmt::Display for Run {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { events, seconds, wall, megabytes, sum } = self;
        write!(f, "{events} {seconds} {wall} {megabytes} {sum}")
    }
}

impl FromStr for Run {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let &[events, seconds, wall, megabytes, sum] = words.as_slice() else {
            return Err(format!("not a run: {line:?}"));
        };
        let float = |word: &str| word.parse::<f64>().map_err(|error| format!("{word}: {error}"));
        let whole = |word: &str| word.parse::<u64>().map_err(|error| format!("{word}: {error}"));
        Ok(Self {
            events: whole(events)?,
            seconds: float(seconds)?,
            wall: float(wall)?,
            megabytes: float(megabytes)?,
            sum: whole(sum)?,
        })
    }
}

/// Measures the time of the processor, and the wall's.
pub(crate) struct Stopwatch {
    started: Instant,
    used: Option<Duration>,
}

impl Stopwatch {
    pub(crate) fn start() -> Self {
        Self { started: Instant::now(), used: processor_time() }
    }

    fn read(&self) -> (f64, f64) {
        let wall = self.started.elapsed().as_secs_f64();
        let used = processor_time().zip(self.used).map(|(now, then)| now.saturating_sub(then));
        (used.map_or(wall, |used| used.as_secs_f64()), wall)
    }
}

fn processor_time() -> Option<Duration> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The fields after the name in brackets; the 12th and 13th are the time in user and system mode, in ticks of 10 ms.
    let mut fields = stat.rsplit(')').next()?.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u64>().ok();
    Some(Duration::from_millis((ticks()? + ticks()?) * 10))
}

fn peak_megabytes() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = peak.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<f64>().ok());
    kilobytes.unwrap_or(f64::NAN) * 1024.0 / 1e6
}
