//! Settings with a small language of their own: latencies, outages, capacities, what is counted apart.

use std::ops::Range;
use std::str::FromStr;
use std::time::Duration;

use relent_config::parse_duration;
use relent_core::Dice;

use crate::parse::{nearest, one_of, shown};
use crate::script::ScriptError;
use crate::step::Step;

/// How long answers take, besides what a script says.
///
/// ```
/// use std::time::Duration;
/// use relent_flaky::Latency;
///
/// assert_eq!("20ms".parse(), Ok(Latency::Fixed(Duration::from_millis(20))));
/// let common = Latency::Lognormal { median: Duration::from_millis(20), sigma: 1.5 };
/// assert_eq!("lognormal(20ms,1.5)".parse(), Ok(common));
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Latency {
    /// `20ms` or `fixed(20ms)`.
    Fixed(Duration),
    /// `uniform(5ms,50ms)`: evenly between two times.
    Uniform {
        /// The shortest.
        from: Duration,
        /// The longest.
        to: Duration,
    },
    /// `exponential(20ms)`: many short ones, a few long ones.
    Exponential {
        /// The mean.
        mean: Duration,
    },
    /// `lognormal(20ms,1.5)`, which latencies often follow: e^(ln median + sigma·Z).
    Lognormal {
        /// The median.
        median: Duration,
        /// The standard deviation of the logarithm, from 0 to 10.
        sigma: f64,
    },
}

const LAWS: &[&str] = &["exponential", "fixed", "lognormal", "uniform"];

impl Latency {
    /// No time at all.
    pub const NONE: Self = Self::Fixed(Duration::ZERO);

    pub(crate) fn draw(self, dice: &mut Dice) -> Duration {
        let nanos = |time: Duration| time.as_nanos() as f64;
        // What is out of range saturates.
        let whole = |nanos: f64| Duration::from_nanos(nanos as u64);
        match self {
            Self::Fixed(time) => time,
            Self::Uniform { from, to } => from + to.saturating_sub(from).mul_f64(unit(dice)),
            Self::Exponential { mean } => whole(nanos(mean) * -libm::log(1.0 - unit(dice))),
            Self::Lognormal { median, sigma } => whole(nanos(median) * libm::exp(sigma * normal(dice))),
        }
    }
}

/// A number in [0, 1).
pub(crate) fn unit(dice: &mut Dice) -> f64 {
    // 53 bits: what a float holds exactly.
    (dice.roll() >> 11) as f64 / (1u64 << 53) as f64
}

/// A normal number (Box, Muller, Ann. Math. Stat. 1958).
fn normal(dice: &mut Dice) -> f64 {
    let radius = libm::sqrt(-2.0 * libm::log(1.0 - unit(dice)));
    radius * libm::cos(std::f64::consts::TAU * unit(dice))
}

impl FromStr for Latency {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let Some(open) = text.find('(') else {
            return duration(text, 0..text.len()).map(Self::Fixed);
        };
        let law = text.get(..open).unwrap_or_default().trim();
        if !text.trim_end().ends_with(')') {
            return Err(wrong(text, open..open + 1, "this parenthesis is never closed"));
        }
        let mut at = open + 1;
        let mut parts = Vec::new();
        let inner = text.trim_end().get(open + 1..text.trim_end().len() - 1).unwrap_or_default();
        for part in inner.split(',') {
            let start = at + part.len() - part.trim_start().len();
            parts.push(start..(at + part.trim_end().len()).max(start));
            at += part.len() + 1;
        }
        match (law, parts.as_slice()) {
            ("fixed", [time]) => Ok(Self::Fixed(duration(text, time.clone())?)),
            ("exponential", [mean]) => Ok(Self::Exponential { mean: duration(text, mean.clone())? }),
            ("uniform", [from, to]) => {
                let (shortest, longest) = (duration(text, from.clone())?, duration(text, to.clone())?);
                if shortest > longest {
                    return Err(wrong(text, to.clone(), "the longest is shorter than the shortest"));
                }
                Ok(Self::Uniform { from: shortest, to: longest })
            }
            ("lognormal", [median, sigma]) => {
                let median = duration(text, median.clone())?;
                let given = text.get(sigma.clone()).unwrap_or_default();
                match given.parse::<f64>() {
                    Ok(sigma) if (0.0..=10.0).contains(&sigma) => Ok(Self::Lognormal { median, sigma }),
                    _ => Err(wrong(text, sigma.clone(), "expected the sigma, a number from 0 to 10")),
                }
            }
            ("fixed" | "exponential", _) => Err(wrong(text, open..text.len(), "expected one duration")),
            ("uniform", _) => Err(wrong(text, open..text.len(), "expected two durations: uniform(5ms,50ms)")),
            ("lognormal", _) => {
                Err(wrong(text, open..text.len(), "expected the median and the sigma: lognormal(20ms,1.5)"))
            }
            (other, _) => {
                let way_out = match nearest(other, LAWS) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => format!("expected a duration, {}", one_of(LAWS)),
                };
                let what = format!("unknown law \"{}\": {way_out}", shown(other));
                Err(wrong(text, 0..open, &what))
            }
        }
    }
}

/// A time in which all requests fail, by the clock.
///
/// ```
/// use relent_flaky::Outage;
///
/// // From the 10th to the 20th second after the start; then the same in each minute, as a closed port.
/// let once: Outage = "10s..20s".parse()?;
/// let again: Outage = "10s..20s/1m=refuse".parse()?;
/// # Ok::<(), relent_flaky::ScriptError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outage {
    from: Duration,
    to: Duration,
    every: Option<Duration>,
    trouble: Trouble,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Trouble {
    /// The port is closed.
    Refuse,
    Step(Step),
}

impl Outage {
    /// An outage from one time after the start to another: 503 to all. One that ends before it begins never happens.
    pub fn new(range: Range<Duration>) -> Self {
        let trouble = Trouble::Step(Step::status(503));
        Self { from: range.start, to: range.end, every: None, trouble }
    }

    /// The same again in each of these periods.
    #[must_use]
    pub fn every(mut self, period: Duration) -> Self {
        self.every = Some(period);
        self
    }

    /// What happens to requests instead of 503.
    #[must_use]
    pub fn with(mut self, step: Step) -> Self {
        self.trouble = Trouble::Step(step);
        self
    }

    /// Connections are refused.
    #[must_use]
    pub fn refusing(mut self) -> Self {
        self.trouble = Trouble::Refuse;
        self
    }

    /// What happens to a request at `now`.
    pub(crate) fn step(&self, now: Duration) -> Option<Step> {
        let end = self.end(now)?;
        Some(match &self.trouble {
            // Who still has a connection must not get through.
            Trouble::Refuse => Step::refuse(end - now),
            Trouble::Step(step) => step.clone(),
        })
    }

    /// Until when connections are refused at `now`.
    pub(crate) fn refused_until(&self, now: Duration) -> Option<Duration> {
        self.end(now).filter(|_| self.trouble == Trouble::Refuse)
    }

    /// When the port closes next, after `now`.
    pub(crate) fn next_refusal(&self, now: Duration) -> Option<Duration> {
        if self.trouble != Trouble::Refuse || self.from >= self.to {
            return None;
        }
        match self.period() {
            None => Some(self.from).filter(|from| *from > now),
            Some(period) => {
                let begun = nanos(now).checked_sub(nanos(self.from));
                let passed = begun.map_or(0, |since| since / nanos(period) + 1);
                Some(Duration::from_nanos(
                    nanos(self.from).saturating_add(passed.saturating_mul(nanos(period))),
                ))
            }
        }
    }

    /// When the outage that is on at `now` is over.
    fn end(&self, now: Duration) -> Option<Duration> {
        let since = now.checked_sub(self.from)?;
        let length = self.to.checked_sub(self.from)?;
        let into = match self.period() {
            None => since,
            Some(period) => Duration::from_nanos(nanos(since) % nanos(period)),
        };
        (into < length).then(|| now + (length - into))
    }

    fn period(&self) -> Option<Duration> {
        self.every.filter(|period| !period.is_zero())
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl FromStr for Outage {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let (times, trouble) = text.split_once('=').map_or((text, None), |(a, b)| (a, Some(b)));
        let (range, every) = times.split_once('/').map_or((times, None), |(a, b)| (a, Some(b)));
        let Some((from, _)) = range.split_once("..") else {
            return Err(wrong(text, 0..range.len(), "expected two times after the start, such as 10s..20s"));
        };
        let to_span = from.len() + 2..range.len();
        let mut outage = Self::new(duration(text, 0..from.len())?..duration(text, to_span.clone())?);
        if outage.from >= outage.to {
            return Err(wrong(text, to_span, "the outage ends before it begins"));
        }
        if every.is_some() {
            let span = range.len() + 1..times.len();
            let period = duration(text, span.clone())?;
            if period <= outage.to - outage.from {
                return Err(wrong(text, span, "the period is not longer than the outage"));
            }
            outage = outage.every(period);
        }
        match trouble.map(str::trim) {
            None => Ok(outage),
            Some("refuse") => Ok(outage.refusing()),
            Some(step) => {
                let start = text.len() - trouble.map_or(0, str::len);
                let start = start + text.get(start..).map_or(0, |rest| rest.len() - rest.trim_start().len());
                let step = step.parse::<Step>().map_err(|error| {
                    let span = error.span();
                    wrong(text, start + span.start..start + span.end, error.message())
                })?;
                Ok(outage.with(step))
            }
        }
    }
}

/// How much the server can do before it is overloaded.
///
/// ```
/// use std::time::Duration;
/// use relent_flaky::Capacity;
///
/// assert_eq!("50/s".parse(), Ok(Capacity::Rate { requests: 50, per: Duration::from_secs(1) }));
/// assert_eq!("8".parse(), Ok(Capacity::AtOnce(8)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Capacity {
    /// `50/s`: so many requests in such a time, as a token bucket of that size that is full at the start.
    Rate {
        /// How many.
        requests: u32,
        /// In this time.
        per: Duration,
    },
    /// `8`: so many at the same time.
    AtOnce(u32),
}

impl FromStr for Capacity {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let (number, unit) = text.split_once('/').map_or((text, None), |(a, b)| (a, Some(b)));
        let Ok(count @ 1..) = number.trim().parse::<u32>() else {
            let what = "expected requests per time such as 50/s, or how many at once such as 8";
            return Err(wrong(text, 0..number.len(), what));
        };
        let Some(unit) = unit else { return Ok(Self::AtOnce(count)) };
        let span = number.len() + 1..text.len();
        let per = match unit.trim() {
            unit @ ("ms" | "s" | "m" | "h" | "d") => parse_duration(&format!("1{unit}")).unwrap_or_default(),
            _ => duration(text, span.clone())?,
        };
        if per.is_zero() {
            return Err(wrong(text, span, "no time at all"));
        }
        Ok(Self::Rate { requests: count, per })
    }
}

/// Whose requests are counted together on their way through a script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Scope {
    /// `path`: those to one path.
    #[default]
    Path,
    /// `all`: all that a script is for.
    All,
    /// `client`: those of one address to one path.
    Client,
    /// `key`: those with one `Idempotency-Key` to one path.
    Key,
    /// `header:NAME`: those with one value of this header to one path.
    Header(String),
}

impl FromStr for Scope {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        match text {
            "path" => Ok(Self::Path),
            "all" => Ok(Self::All),
            "client" => Ok(Self::Client),
            "key" => Ok(Self::Key),
            _ => match text.strip_prefix("header:") {
                Some(name) if !name.trim().is_empty() => Ok(Self::Header(name.trim().to_ascii_lowercase())),
                _ => Err(wrong(text, 0..text.len(), "expected path, all, client, key or header:NAME")),
            },
        }
    }
}

/// What happens to requests whose `Idempotency-Key` is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keys {
    /// `honour`: the first answer is repeated, and nothing is done again.
    #[default]
    Honour,
    /// `ignore`: they are carried out again and counted as duplicates.
    Ignore,
}

impl FromStr for Keys {
    type Err = ScriptError;

    fn from_str(text: &str) -> Result<Self, ScriptError> {
        match text {
            "honour" | "honor" => Ok(Self::Honour),
            "ignore" => Ok(Self::Ignore),
            _ => Err(wrong(text, 0..text.len(), "expected honour or ignore")),
        }
    }
}

fn duration(text: &str, span: Range<usize>) -> Result<Duration, ScriptError> {
    let part = text.get(span.clone()).unwrap_or_default();
    let start = span.start + part.len() - part.trim_start().len();
    parse_duration(part.trim())
        .map_err(|error| wrong(text, start..start + part.trim().len(), &error.to_string()))
}

fn wrong(text: &str, span: Range<usize>, message: &str) -> ScriptError {
    ScriptError { message: message.to_owned(), span, text: text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_outage_begins_and_ends_and_comes_again() {
        let once: Outage = "10s..20s".parse().unwrap();
        let on = |outage: &Outage, at| outage.step(at).map(|step| step.label());
        assert_eq!(on(&once, secs(10) - Duration::from_nanos(1)), None);
        assert_eq!(on(&once, secs(10)).as_deref(), Some("503"));
        assert_eq!(on(&once, secs(20) - Duration::from_nanos(1)).as_deref(), Some("503"));
        assert_eq!(on(&once, secs(20)), None);
        assert_eq!((once.refused_until(secs(15)), once.next_refusal(secs(0))), (None, None));

        let again: Outage = "10s..20s/60s = refuse".parse().unwrap();
        assert_eq!(again.step(secs(75)), Some(Step::refuse(secs(5))));
        assert_eq!(again.refused_until(secs(75)), Some(secs(80)));
        assert_eq!(again.refused_until(secs(80)), None);
        for (now, next) in [(0, 10), (9, 10), (10, 70), (69, 70), (75, 130)] {
            assert_eq!(again.next_refusal(secs(now)), Some(secs(next)), "{now}");
        }
        let reset: Outage = "1s..2s=reset".parse().unwrap();
        assert_eq!(on(&reset, secs(1)).as_deref(), Some("reset"));
    }

    #[test]
    fn outages_that_cannot_be_never_happen() {
        let outage = Outage::new(secs(5)..secs(3)).every(Duration::ZERO).refusing();
        for now in [0, 3, 4, 5, 6] {
            assert_eq!(outage.step(secs(now)), None);
            assert_eq!(outage.next_refusal(secs(now)), None);
        }
    }

    #[test]
    fn latencies_follow_their_laws() {
        let mean = |law: &str| {
            let law: Latency = law.parse().unwrap();
            let mut dice = Dice::new(7);
            let draws: Vec<f64> = (0..20_000).map(|_| law.draw(&mut dice).as_secs_f64() * 1e3).collect();
            let mut sorted = draws.clone();
            sorted.sort_by(f64::total_cmp);
            (draws.iter().sum::<f64>() / 20_000.0, sorted[10_000], sorted[0], sorted[19_999])
        };
        assert_eq!(mean("20ms"), (20.0, 20.0, 20.0, 20.0));
        let (average, _, shortest, longest) = mean("uniform(5ms, 15ms)");
        assert!((9.9..10.1).contains(&average) && shortest >= 5.0 && longest < 15.0, "{average}");
        let (average, median, ..) = mean("exponential(20ms)");
        assert!((19.5..20.5).contains(&average) && (13.3..14.4).contains(&median), "{average} {median}");
        // The mean is that of the median times e^(sigma²/2).
        let (average, median, ..) = mean("lognormal(20ms,0.5)");
        assert!((22.2..23.1).contains(&average) && (19.5..20.5).contains(&median), "{average} {median}");
    }

    #[test]
    fn errors_point_at_the_place() {
        let latency = |text: &str| text.parse::<Latency>().unwrap_err();
        let outage = |text: &str| text.parse::<Outage>().unwrap_err();
        let capacity = |text: &str| text.parse::<Capacity>().unwrap_err();
        let cases = [
            (latency("20"), 1, "without a unit"),
            (latency("uniform(5ms,)"), 13, "empty"),
            (latency("uniform(5ms,1ms)"), 13, "shorter than the shortest"),
            (latency("lognormal(20ms,NaN)"), 16, "from 0 to 10"),
            (latency("lognormal(20ms)"), 10, "the median and the sigma"),
            (latency("normal(20ms)"), 1, "unknown law"),
            (latency("lognorml(20ms,1)"), 1, "did you mean \"lognormal\""),
            (latency("fixed(20ms"), 6, "never closed"),
            (outage("10s"), 1, "10s..20s"),
            (outage("10s..x"), 6, ""),
            (outage("20s..10s"), 6, "before it begins"),
            (outage("10s..20s/5s"), 10, "not longer than the outage"),
            (outage("10s..20s= rset"), 11, "did you mean \"reset\""),
            (capacity("x"), 1, "50/s"),
            (capacity("0/s"), 1, "50/s"),
            (capacity("5/0s"), 3, "no time"),
            (capacity("5/y"), 3, ""),
        ];
        for (error, column, message) in cases {
            assert_eq!(error.place(), (1, column), "{error}");
            assert!(error.message().contains(message), "{error}");
        }
        for bad in ["", "header:", "paths"] {
            assert!(bad.parse::<Scope>().is_err());
        }
        assert_eq!("header:X-Client".parse(), Ok(Scope::Header("x-client".to_owned())));
    }
}
