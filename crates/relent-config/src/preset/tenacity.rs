//! tenacity's algebra of stops and waits, as far as a policy can say it.

use std::time::Duration;

use super::{Keys, Making, Preset};
use crate::diagnostic::{Code, Problem};
use crate::names;
use crate::text::{float_text, quoted, shorten};
use crate::tree::Table;

pub(super) const PRESETS: &[Preset] = &[Preset {
    name: "tenacity",
    description: "tenacity's stop and wait, as they are written in Python; without them for ever, at once",
    system: "tenacity",
    version: "9.2.1",
    sources: &[
        "https://tenacity.readthedocs.io/en/latest/api.html",
        "https://github.com/jd/tenacity/blob/main/tenacity/wait.py",
    ],
    checked: "2026-12-01",
    differs: &[
        "a time limit ends a running attempt and a wait that would not fit: there stop_after_delay lets both pass it",
        "both of two stops (`&`) can be asked for only where they are of one kind",
        "what is classed as permanent is not retried; there, every exception is",
    ],
    over: None,
    keys: Keys::Made {
        parameters: &["stop", "wait"],
        example: r#"preset = { name = "tenacity", stop = "stop_after_attempt(5)", wait = "wait_fixed(2)" }"#,
        make,
    },
}];

/// The longest wait that is read, in seconds: a century.
const LONGEST: f64 = 100.0 * 365.0 * 86_400.0;

fn make(making: &mut Making<'_>) -> Option<Table> {
    let mut text = String::from("hint = { mode = \"ignore\" }\n");
    let mut shown = Vec::new();
    for (key, nothing) in [("stop", "stop_never"), ("wait", "wait_none()")] {
        let node = making.parameters.get(key);
        let said = match node {
            Some(node) => making.string(node, key)?,
            None => nothing,
        };
        let keys = expression(said).and_then(|expression| match key {
            "stop" => Stop::of(&expression).map(|stop| stop.keys()),
            _ => Wait::of(&expression).map(|wait| wait.keys()),
        });
        match keys {
            Ok(keys) => text.push_str(&keys),
            Err(why) => {
                let place = &node.unwrap_or(making.named).place;
                making.problems.push(Problem::new(Code::BadValue, place, format!("`{key}`: {why}")));
            }
        }
        shown.push(format!("{key} {said}"));
    }
    if making.problems.is_empty() {
        making.made(format!("tenacity: {}", shown.join(", ")), &text)
    } else {
        None
    }
}

/// When a call ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Stop {
    attempts: Option<u32>,
    time: Option<Duration>,
}

impl Stop {
    const NEVER: Self = Self { attempts: None, time: None };

    fn of(expression: &Expression) -> Result<Self, String> {
        match expression {
            Expression::Both('|', one, other) => Ok(Self::of(one)?.or(Self::of(other)?)),
            Expression::Both('&', one, other) => Self::of(one)?.and(Self::of(other)?),
            Expression::Call(name, arguments) => {
                let name = name.as_str();
                match name {
                    "stop_never" => Ok(Self::NEVER),
                    "stop_after_attempt" => {
                        let [most] = arguments.numbers(name, [("max_attempt_number", None)])?;
                        if most.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&most) {
                            return Err(format!("{} is no number of attempts", float_text(most)));
                        }
                        Ok(Self { attempts: Some(most as u32), ..Self::NEVER })
                    }
                    "stop_after_delay" | "stop_before_delay" => {
                        let [most] = arguments.numbers(name, [("max_delay", None)])?;
                        let time = seconds(most)?;
                        if time.is_zero() {
                            return Err(format!("{name} leaves no time at all"));
                        }
                        Ok(Self { time: Some(time), ..Self::NEVER })
                    }
                    "stop_any" | "stop_all" => {
                        let mut stops = arguments.expressions(name)?.into_iter().map(Self::of);
                        let first = stops.next().ok_or_else(|| format!("{name} of nothing"))??;
                        stops.try_fold(first, |all, stop| match name {
                            "stop_any" => Ok(all.or(stop?)),
                            _ => all.and(stop?),
                        })
                    }
                    _ => Err(unknown(
                        name,
                        &[
                            "stop_never",
                            "stop_after_attempt",
                            "stop_after_delay",
                            "stop_before_delay",
                            "stop_any",
                            "stop_all",
                        ],
                    )),
                }
            }
            _ => Err("stops are put together with `|` and `&`".to_owned()),
        }
    }

    /// Whichever comes first.
    fn or(self, other: Self) -> Self {
        Self { attempts: earlier(self.attempts, other.attempts), time: earlier(self.time, other.time) }
    }

    /// Whichever comes last.
    fn and(self, other: Self) -> Result<Self, String> {
        match (self, other) {
            (Self::NEVER, _) | (_, Self::NEVER) => Ok(Self::NEVER),
            (Self { attempts: Some(one), time: None }, Self { attempts: Some(other), time: None }) => {
                Ok(Self { attempts: Some(one.max(other)), time: None })
            }
            (Self { attempts: None, time: Some(one) }, Self { attempts: None, time: Some(other) }) => {
                Ok(Self { attempts: None, time: Some(one.max(other)) })
            }
            _ => Err("a policy ends a call at whichever limit comes first: it cannot wait for both (`&`)"
                .to_owned()),
        }
    }

    fn keys(self) -> String {
        let attempts =
            self.attempts.map_or_else(|| "\"unlimited\"".to_owned(), |attempts| attempts.to_string());
        let deadline = self.time.map_or_else(String::new, |time| format!("deadline = {}\n", quoted(time)));
        format!("max_attempts = {attempts}\n{deadline}")
    }
}

fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

/// How long it waits.
#[derive(Clone, Debug, PartialEq)]
struct Wait {
    schedule: Schedule,
    least: Duration,
    most: Option<Duration>,
    random: Random,
}

#[derive(Clone, Debug, PartialEq)]
enum Schedule {
    Fixed(Duration),
    Incrementing { start: Duration, increment: Duration },
    Exponential { initial: Duration, base: f64 },
    Chain(Vec<Duration>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Random {
    None,
    /// From nothing up to the scheduled wait.
    Full,
    /// Up to so much is added, before the maximum cuts.
    Within(Duration),
    /// Up to so much is added, after the maximum has cut.
    Beyond(Duration),
}

const WAITS: &[&str] = &[
    "wait_none",
    "wait_fixed",
    "wait_random",
    "wait_incrementing",
    "wait_exponential",
    "wait_random_exponential",
    "wait_full_jitter",
    "wait_exponential_jitter",
    "wait_chain",
    "wait_combine",
];

impl Wait {
    fn fixed(wait: Duration) -> Self {
        Self { schedule: Schedule::Fixed(wait), least: Duration::ZERO, most: None, random: Random::None }
    }

    fn of(expression: &Expression) -> Result<Self, String> {
        match expression {
            Expression::Both('+', one, other) => Self::of(one)?.plus(Self::of(other)?),
            Expression::Call(name, arguments) => Self::called(name, arguments),
            _ => Err("waits are put together with `+`".to_owned()),
        }
    }

    fn called(name: &str, arguments: &Arguments) -> Result<Self, String> {
        match name {
            "wait_none" => arguments.numbers(name, []).map(|[]| Self::fixed(Duration::ZERO)),
            "wait_fixed" => {
                let [wait] = arguments.numbers(name, [("wait", None)])?;
                seconds(wait).map(Self::fixed)
            }
            "wait_random" => {
                let [least, most] = arguments.numbers(name, [("min", Some(0.0)), ("max", Some(1.0))])?;
                let (least, most) = (seconds(least)?, seconds(most)?);
                let Some(reach) = most.checked_sub(least) else {
                    return Err("the `max` of wait_random lies below its `min`".to_owned());
                };
                Ok(Self::fixed(least).spread(reach, Random::Beyond))
            }
            "wait_incrementing" => {
                let [start, increment, most] = arguments.numbers(
                    name,
                    [("start", Some(0.0)), ("increment", Some(100.0)), ("max", Some(f64::INFINITY))],
                )?;
                let schedule =
                    Schedule::Incrementing { start: seconds(start)?, increment: seconds(increment)? };
                Ok(Self { schedule, most: most_of(most)?, ..Self::fixed(Duration::ZERO) })
            }
            "wait_exponential" | "wait_random_exponential" | "wait_full_jitter" => {
                let [multiplier, most, base, least] = arguments.numbers(
                    name,
                    [
                        ("multiplier", Some(1.0)),
                        ("max", Some(f64::INFINITY)),
                        ("exp_base", Some(2.0)),
                        ("min", Some(0.0)),
                    ],
                )?;
                let least = seconds(least)?;
                // The minimum wins there, too.
                let most = most_of(most)?.map(|most| most.max(least));
                let random = if name == "wait_exponential" { Random::None } else { Random::Full };
                Ok(Self { schedule: exponential(multiplier, base)?, least, most, random })
            }
            "wait_exponential_jitter" => {
                let [initial, most, base, jitter, least, multiplier] = arguments.numbers(
                    name,
                    [
                        ("initial", Some(1.0)),
                        ("max", Some(f64::INFINITY)),
                        ("exp_base", Some(2.0)),
                        ("jitter", Some(1.0)),
                        ("min", Some(0.0)),
                        ("multiplier", Some(1.0)),
                    ],
                )?;
                // The older name of the multiplier, which may not be given beside it.
                let ((first, 1.0) | (1.0, first)) = (initial, multiplier) else {
                    return Err(format!("{name} takes `initial` or `multiplier`, not both"));
                };
                if least > first {
                    return Err(format!("the `min` of {name} cuts draws, which a floor does not"));
                }
                let wait = Self { most: most_of(most)?, ..Self::fixed(Duration::ZERO) };
                Ok(Self { schedule: exponential(first, base)?, ..wait }
                    .spread(seconds(jitter)?, Random::Within))
            }
            "wait_chain" => {
                let waits = arguments.expressions(name)?.into_iter().map(Self::of);
                let fixed = waits.map(|wait| match wait? {
                    Self { schedule: Schedule::Fixed(wait), random: Random::None, .. } => Ok(wait),
                    _ => Err("a policy lists fixed waits only: wait_chain takes wait_fixed".to_owned()),
                });
                match fixed.collect::<Result<Vec<_>, String>>()? {
                    waits if waits.is_empty() => Err("wait_chain of nothing".to_owned()),
                    waits => Ok(Self { schedule: Schedule::Chain(waits), ..Self::fixed(Duration::ZERO) }),
                }
            }
            "wait_combine" => {
                let mut waits = arguments.expressions(name)?.into_iter().map(Self::of);
                let first = waits.next().unwrap_or(Ok(Self::fixed(Duration::ZERO)))?;
                waits.try_fold(first, |sum, wait| sum.plus(wait?))
            }
            _ => Err(unknown(name, WAITS)),
        }
    }

    /// What is drawn up to `reach` is added, if that is anything.
    fn spread(self, reach: Duration, how: fn(Duration) -> Random) -> Self {
        Self { random: if reach.is_zero() { Random::None } else { how(reach) }, ..self }
    }

    /// The sum of two waits: one of them is fixed, and perhaps random above that.
    fn plus(self, other: Self) -> Result<Self, String> {
        let (grown, base, reach) = match (&self.schedule, self.random, &other.schedule, other.random) {
            (_, _, Schedule::Fixed(base), Random::None) => (self.clone(), *base, Duration::ZERO),
            (_, _, Schedule::Fixed(base), Random::Beyond(reach)) => (self.clone(), *base, reach),
            (Schedule::Fixed(base), Random::None, ..) => (other, *base, Duration::ZERO),
            (Schedule::Fixed(base), Random::Beyond(reach), ..) => (other, *base, reach),
            _ => return Err("of two waits that are added, one is fixed or random".to_owned()),
        };
        let raised = grown.raised(base)?;
        match raised.random {
            _ if reach.is_zero() => Ok(raised),
            Random::None => Ok(raised.spread(reach, Random::Beyond)),
            _ => Err("two random waits cannot be added: their sum is not spread evenly".to_owned()),
        }
    }

    /// The same, longer by `base` each time.
    fn raised(self, base: Duration) -> Result<Self, String> {
        let schedule = match self.schedule {
            same if base.is_zero() => same,
            Schedule::Fixed(wait) if self.random != Random::Full => {
                Schedule::Fixed(wait.saturating_add(base))
            }
            Schedule::Chain(waits) => {
                Schedule::Chain(waits.into_iter().map(|wait| wait.saturating_add(base)).collect())
            }
            Schedule::Incrementing { start, increment } if self.most.is_none() => {
                Schedule::Incrementing { start: start.saturating_add(base), increment }
            }
            _ => return Err("a wait that grows or is cut off cannot be raised by a fixed one".to_owned()),
        };
        Ok(Self { schedule, ..self })
    }

    fn keys(&self) -> String {
        let schedule = match &self.schedule {
            Schedule::Fixed(wait) => format!("kind = \"constant\", initial = {}", quoted(*wait)),
            Schedule::Incrementing { start, increment } => {
                format!("kind = \"linear\", initial = {}, step = {}", quoted(*start), quoted(*increment))
            }
            Schedule::Exponential { initial, base } => {
                format!(
                    "kind = \"exponential\", initial = {}, multiplier = {}",
                    quoted(*initial),
                    float_text(*base)
                )
            }
            Schedule::Chain(waits) => {
                let waits: Vec<String> = waits.iter().map(|wait| quoted(*wait)).collect();
                format!("kind = \"list\", waits = [{}]", waits.join(", "))
            }
        };
        let cap = self.most.map_or_else(|| "\"none\"".to_owned(), quoted);
        let floor =
            if self.least.is_zero() { String::new() } else { format!(", floor = {}", quoted(self.least)) };
        let (bound, jitter) = match self.random {
            Random::None => ("range", "\"none\"".to_owned()),
            Random::Full => ("range", "\"full\"".to_owned()),
            Random::Within(reach) => ("sample", additive(reach)),
            Random::Beyond(reach) => ("loose", additive(reach)),
        };
        format!("backoff = {{ {schedule}, cap = {cap}{floor}, bound = \"{bound}\" }}\njitter = {jitter}\n")
    }
}

fn additive(reach: Duration) -> String {
    format!("{{ kind = \"additive\", max = {} }}", quoted(reach))
}

fn exponential(initial: f64, base: f64) -> Result<Schedule, String> {
    if base < 1.0 {
        return Err(format!("waits that grow by {} shrink", float_text(base)));
    }
    Ok(Schedule::Exponential { initial: seconds(initial)?, base })
}

fn most_of(most: f64) -> Result<Option<Duration>, String> {
    if most == f64::INFINITY { Ok(None) } else { seconds(most).map(Some) }
}

fn seconds(number: f64) -> Result<Duration, String> {
    if !(0.0..=LONGEST).contains(&number) {
        return Err(format!("{} is no wait in seconds", float_text(number)));
    }
    Duration::try_from_secs_f64(number).map_err(|_| format!("{} is no wait in seconds", float_text(number)))
}

fn unknown(name: &str, known: &[&str]) -> String {
    match names::nearest(name, known.iter().copied()) {
        Some(near) => format!("{} is not known: did you mean {near}?", shorten(name)),
        None => format!("{} is not known, or is more than a policy can say", shorten(name)),
    }
}

/// A Python expression of calls and operators.
#[derive(Clone, Debug, PartialEq)]
enum Expression {
    Number(f64),
    Call(String, Arguments),
    Both(char, Box<Self>, Box<Self>),
}

/// By position (without a name), then by name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Arguments(Vec<(Option<String>, Expression)>);

impl Arguments {
    /// The numbers of parameters with these names and defaults.
    fn numbers<const N: usize>(
        &self,
        of: &str,
        parameters: [(&str, Option<f64>); N],
    ) -> Result<[f64; N], String> {
        let known = |name: &Option<String>, index: usize| match name {
            Some(name) => parameters.iter().position(|(known, _)| known == name),
            None => (index < N).then_some(index),
        };
        let mut values = parameters.map(|(_, default)| default);
        for (index, (name, value)) in self.0.iter().enumerate() {
            let Some(slot) = known(name, index).and_then(|at| values.get_mut(at)) else {
                let which = name.as_deref().map_or_else(|| "so many arguments".to_owned(), shorten);
                return Err(format!("{of} does not take {which}"));
            };
            let Expression::Number(number) = value else {
                return Err(format!("{of} takes numbers of seconds or attempts"));
            };
            *slot = Some(*number);
        }
        let mut missing = None;
        let found = std::array::from_fn(|index| {
            let (name, value) =
                (parameters.get(index).map(|(name, _)| *name), values.get(index).copied().flatten());
            if value.is_none() {
                missing = name;
            }
            value.unwrap_or(0.0)
        });
        match missing {
            Some(name) => Err(format!("{of} needs its {name}")),
            None => Ok(found),
        }
    }

    fn expressions(&self, of: &str) -> Result<Vec<&Expression>, String> {
        let positional = |(name, value): &'_ (Option<String>, Expression)| {
            name.is_none() && !matches!(value, Expression::Number(_))
        };
        if self.0.iter().all(positional) {
            return Ok(self.0.iter().map(|(_, value)| value).collect());
        }
        Err(format!("{of} takes waits or stops"))
    }
}

/// How deep calls and brackets may nest.
const MAX_DEPTH: usize = 16;

/// The longest expression, in bytes: what is nested as deep as it can be is safe to walk over.
const MAX_EXPRESSION: usize = 1_000;

fn expression(text: &str) -> Result<Expression, String> {
    if text.len() > MAX_EXPRESSION {
        return Err(format!("an expression has at most {MAX_EXPRESSION} bytes"));
    }
    let mut parser = Parser { rest: text, depth: 0 };
    let expression = parser.sum()?;
    match parser.peek() {
        None => Ok(expression),
        Some(letter) => Err(format!("`{}` is not expected here", letter.escape_debug())),
    }
}

struct Parser<'t> {
    rest: &'t str,
    depth: usize,
}

impl Parser<'_> {
    /// `a | b & c + d`: `+` binds closest, then `&`, then `|`, as in Python.
    fn sum(&mut self) -> Result<Expression, String> {
        self.chain(&['|', '&', '+'])
    }

    fn chain(&mut self, operators: &[char]) -> Result<Expression, String> {
        let Some((operator, closer)) = operators.split_first() else { return self.term() };
        let mut expression = self.chain(closer)?;
        while self.take(*operator) {
            expression = Expression::Both(*operator, Box::new(expression), Box::new(self.chain(closer)?));
        }
        Ok(expression)
    }

    fn term(&mut self) -> Result<Expression, String> {
        if self.depth >= MAX_DEPTH {
            return Err("nested too deep".to_owned());
        }
        if self.take('(') {
            self.depth += 1;
            let expression = self.sum()?;
            self.depth -= 1;
            self.expect(')')?;
            return Ok(expression);
        }
        let word = self.word();
        if word.is_empty() {
            return Err(match self.peek() {
                Some(letter) => format!("`{}` is not expected here", letter.escape_debug()),
                None => "something is missing at the end".to_owned(),
            });
        }
        if word.starts_with(|letter: char| letter.is_ascii_digit() || letter == '.') {
            let number = word.replace('_', "").parse::<f64>();
            return number.map(Expression::Number).map_err(|_| format!("{} is no number", shorten(&word)));
        }
        // `tenacity.stop_never` is `stop_never`, which is the one that is not called.
        let name = word.rsplit('.').next().unwrap_or_default().to_owned();
        if !self.take('(') {
            return Ok(Expression::Call(name, Arguments::default()));
        }
        self.depth += 1;
        let mut arguments = Arguments::default();
        while !self.take(')') {
            let before = self.rest;
            let word = self.word();
            let name = if !word.is_empty() && self.take('=') {
                Some(word)
            } else {
                self.rest = before;
                None
            };
            arguments.0.push((name, self.sum()?));
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        self.depth -= 1;
        Ok(Expression::Call(name, arguments))
    }

    fn peek(&mut self) -> Option<char> {
        self.rest = self.rest.trim_start();
        self.rest.chars().next()
    }

    fn take(&mut self, letter: char) -> bool {
        let found = self.peek() == Some(letter);
        if found {
            self.rest = self.rest.get(letter.len_utf8()..).unwrap_or_default();
        }
        found
    }

    fn expect(&mut self, letter: char) -> Result<(), String> {
        if self.take(letter) { Ok(()) } else { Err(format!("`{letter}` is missing")) }
    }

    fn word(&mut self) -> String {
        self.peek();
        let end =
            self.rest.find(|letter: char| !(letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.')));
        let (word, rest) =
            self.rest.split_at_checked(end.unwrap_or(self.rest.len())).unwrap_or((self.rest, ""));
        self.rest = rest;
        word.to_owned()
    }
}
