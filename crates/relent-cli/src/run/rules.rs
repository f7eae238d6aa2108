//! What an attempt's end means: success, worth another try, or not.

use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::Signal;
use regex::bytes::{Regex, RegexBuilder};
use relent_config::{Checks, Code, Entry, parse_duration};
use relent_core::{Class, Hint, Outcome};

use super::execution::How;
use super::output::Stream;

/// One thing that an attempt's end is compared with.
#[derive(Clone, Debug)]
pub(super) enum Test {
    /// The exit code lies within.
    Code(RangeInclusive<i32>),
    /// It was killed: by this signal, or by any.
    Signal(Option<i32>),
    /// Its time was over.
    Timeout,
    /// It failed, in whatever way.
    Any,
    /// A line of its output matches.
    Output { streams: [bool; 2], pattern: Regex },
}

/// A list of tests, as an option has it: `7`, `64-78,111`, `signal:KILL`, `stderr:REGEX`.
#[derive(Clone, Debug)]
pub(super) struct Tests(Vec<Test>);

impl FromStr for Tests {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(test) = output_test(text) {
            return test.map(|test| Self(vec![test]));
        }
        text.split(',').map(|word| plain_test(word.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn output_test(text: &str) -> Option<Result<Test, String>> {
    let (stream, pattern) = text.split_once(':')?;
    let streams = match stream {
        "stdout" => [true, false],
        "stderr" => [false, true],
        "output" => [true, true],
        _ => return None,
    };
    Some(parse_regex(pattern).map(|pattern| Test::Output { streams, pattern }))
}

/// Reads a regular expression on bytes.
pub(super) fn parse_regex(pattern: &str) -> Result<Regex, String> {
    // Output is bytes in no particular encoding: `.` is any byte, `\w` and `(?i)` mean ASCII.
    RegexBuilder::new(pattern).unicode(false).build().map_err(|error| error.to_string())
}

fn plain_test(word: &str) -> Result<Test, String> {
    match word {
        "any" => return Ok(Test::Any),
        "timeout" => return Ok(Test::Timeout),
        "signal" => return Ok(Test::Signal(None)),
        _ => {}
    }
    if let Some(name) = word.strip_prefix("signal:") {
        return signal_number(name).map(|number| Test::Signal(Some(number)));
    }
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    match (first.parse::<u8>(), last.parse::<u8>()) {
        (Ok(first), Ok(last)) if first <= last => Ok(Test::Code(i32::from(first)..=i32::from(last))),
        (Ok(_), Ok(_)) => Err(format!("{word:?}: the range is empty")),
        _ => Err(format!(
            "{word:?}: expected an exit code from 0 to 255, a range such as 64-78, signal, signal:NAME, timeout, any, \
             or stdout:REGEX, stderr:REGEX, output:REGEX"
        )),
    }
}

fn signal_number(name: &str) -> Result<i32, String> {
    if let Ok(number) = name.parse::<u8>()
        && (1..=64).contains(&number)
    {
        return Ok(i32::from(number));
    }
    let upper = name.to_ascii_uppercase();
    let full = if upper.starts_with("SIG") { upper } else { format!("SIG{upper}") };
    Signal::from_str(&full).map(|signal| signal as i32).map_err(|_| format!("{name:?}: no such signal"))
}

/// What the options say about an attempt's end.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    /// What is a success; exit code 0 where nothing is said.
    pub(super) success_on: Vec<Test>,
    /// What is never retried, whatever `retry_on` says.
    pub(super) stop_on: Vec<Test>,
    /// What alone is retried; every failure but "cannot be run" where nothing is said.
    pub(super) retry_on: Vec<Test>,
    /// Finds a wait that the command asks for.
    pub(super) hint: Option<Regex>,
}

/// Puts lists after one another.
pub(super) fn joined(lists: &[Tests]) -> Vec<Test> {
    lists.iter().flat_map(|list| list.0.iter().cloned()).collect()
}

impl Rules {
    /// What the table `run` of a policy says.
    pub(super) fn of_table(table: &Entry<'_>, checks: &mut Checks) -> Self {
        if !table.is_table() {
            checks.wrong_type(table, "a table");
            return Self::default();
        }
        checks.only_keys(table, &["retry_on", "stop_on", "success_on", "hint_regex"]);
        let mut tests = |key: &str| table.get(key).map(|list| tests_of(&list, checks)).unwrap_or_default();
        let (success_on, stop_on, retry_on) = (tests("success_on"), tests("stop_on"), tests("retry_on"));
        let hint = table.get("hint_regex").and_then(|entry| match entry.string().map(parse_regex) {
            Some(Ok(pattern)) => Some(pattern),
            Some(Err(why)) => {
                refuse(checks, &entry, &why);
                None
            }
            None => {
                checks.wrong_type(&entry, "a regular expression, as a string");
                None
            }
        });
        Self { success_on, stop_on, retry_on, hint }
    }

    /// The streams that have to be looked at.
    pub(super) fn watched(&self) -> [bool; 2] {
        let tests = [&self.success_on, &self.stop_on, &self.retry_on].into_iter().flatten();
        let mut watched = [self.hint.is_some(); 2];
        for test in tests {
            if let Test::Output { streams, .. } = test {
                watched = [watched[0] || streams[0], watched[1] || streams[1]];
            }
        }
        watched
    }

    /// What looks at an attempt's output.
    pub(super) fn watcher(&self) -> Watcher {
        let tests = [&self.success_on, &self.stop_on, &self.retry_on].into_iter().flatten();
        let patterns = tests.filter_map(|test| match test {
            Test::Output { streams, pattern } => {
                Some(Pattern { streams: *streams, pattern: pattern.clone(), found: false })
            }
            _ => None,
        });
        Watcher { patterns: patterns.collect(), hint: self.hint.clone(), asked: None }
    }

    /// What an end means, for the decision.
    pub(super) fn outcome(&self, how: &How, watcher: &Watcher) -> Outcome {
        let mut found = watcher.patterns.iter().map(|pattern| pattern.found);
        // In the order in which `watcher` collected them, so each test meets its own pattern; all are looked at.
        let mut any = |tests: &[Test]| tests.iter().filter(|test| test.meets(how, &mut found)).count() > 0;
        let (success, mut stop, mut retry) = (any(&self.success_on), any(&self.stop_on), any(&self.retry_on));
        if let (How::Exited(0), true) = (how, self.success_on.is_empty()) {
            // What a success says does not make a failure of it; only its number can.
            stop = names_zero(&self.stop_on);
            retry = names_zero(&self.retry_on);
        }
        let class = match how {
            _ if success => Class::Success,
            _ if stop => Class::Permanent,
            How::Exited(0) if self.success_on.is_empty() && !retry => Class::Success,
            _ if !self.retry_on.is_empty() && !retry => Class::Permanent,
            How::Exited(126 | 127) if !retry => Class::Permanent,
            How::NotStarted { busy: true, .. } => Class::NotSent,
            How::NotStarted { .. } | How::Lost | How::Unkillable => Class::Permanent,
            How::TimedOut(_) => Class::Timeout,
            How::Exited(_) | How::Killed(_) if watcher.asked.is_some() => Class::Throttled,
            How::Exited(_) | How::Killed(_) => Class::Transient,
        };
        let outcome = Outcome::of(class);
        match watcher.asked {
            Some(wait) if class != Class::Success => outcome.hint(Hint::After(wait)),
            _ => outcome,
        }
    }
}

/// `[7, "64-78", "stderr:REGEX"]`, or one of them.
fn tests_of(list: &Entry<'_>, checks: &mut Checks) -> Vec<Test> {
    let items = if list.is_array() { list.items() } else { vec![list.clone()] };
    let mut tests = Vec::new();
    for item in items {
        let text = item.string().map(str::to_owned).or(item.integer().map(|code| code.to_string()));
        match text.map(|text| text.parse::<Tests>()) {
            Some(Ok(read)) => tests.extend(read.0),
            Some(Err(why)) => refuse(checks, &item, &why),
            None => {
                checks.wrong_type(&item, "an exit code, or a string such as \"64-78\" or \"stderr:REGEX\"")
            }
        }
    }
    tests
}

fn refuse(checks: &mut Checks, entry: &Entry<'_>, why: &str) {
    checks.refuse(Code::BadValue, entry, &format!("`{}`: {why}", entry.path()), None);
}

fn names_zero(tests: &[Test]) -> bool {
    tests.iter().any(|test| matches!(test, Test::Code(codes) if codes.contains(&0)))
}

impl Test {
    /// Whether the end is this one.
    fn meets(&self, how: &How, found: &mut impl Iterator<Item = bool>) -> bool {
        match (self, how) {
            (Self::Output { .. }, how) => {
                found.next().unwrap_or(false) && !matches!(how, How::NotStarted { .. })
            }
            (Self::Code(codes), How::Exited(code)) => codes.contains(code),
            (Self::Signal(None), How::Killed(_)) | (Self::Timeout, How::TimedOut(_)) => true,
            (Self::Signal(Some(wanted)), How::Killed(signal)) => wanted == signal,
            (Self::Any, How::Exited(_) | How::Killed(_) | How::TimedOut(_)) => true,
            _ => false,
        }
    }
}

/// Looks at the output of one attempt, line by line.
#[derive(Debug)]
pub(super) struct Watcher {
    patterns: Vec<Pattern>,
    hint: Option<Regex>,
    /// The wait that was asked for last.
    asked: Option<Duration>,
}

#[derive(Debug)]
struct Pattern {
    streams: [bool; 2],
    pattern: Regex,
    found: bool,
}

impl Watcher {
    /// Looks at a line. Its end, of either kind, is not part of it.
    pub(super) fn see(&mut self, stream: Stream, line: &[u8]) {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        for pattern in &mut self.patterns {
            let [out, err] = pattern.streams;
            let looks = if stream == Stream::Out { out } else { err };
            pattern.found = pattern.found || looks && pattern.pattern.is_match(line);
        }
        if let Some(captures) = self.hint.as_ref().and_then(|hint| hint.captures(line)) {
            let text = captures.get(1).or(captures.get(0)).map(|found| found.as_bytes());
            let wait = text.and_then(|text| std::str::from_utf8(text).ok()).and_then(parse_wait);
            self.asked = wait.or(self.asked);
        }
    }
}

/// A wait as programs write it: seconds, as in `Retry-After`, or a duration with a unit.
fn parse_wait(text: &str) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse::<f64>() {
        // A number that no duration can hold is longer than any: the policy says what becomes of such waits.
        let longest = (seconds > 0.0 && text.starts_with(|first: char| first.is_ascii_digit()))
            .then_some(Duration::MAX);
        return Duration::try_from_secs_f64(seconds).ok().or(longest);
    }
    parse_duration(&text.replace(' ', "")).ok()
}
