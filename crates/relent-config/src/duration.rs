//! Durations as people write them: `"1m30s"`, `"250ms"`, `"1.5s"`.

use std::fmt;
use std::ops::Range;
use std::time::Duration;

/// The longest duration: 2⁶⁴ − 1 ns, some 584 years, which is the longest wait that the core knows.
pub const MAX_DURATION: Duration = Duration::from_nanos(u64::MAX);

/// The units, the longest first, in nanoseconds.
const UNITS: [(&str, u64); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Reads a duration: numbers with units, from the longest unit to the shortest, without spaces.
///
/// | unit | is |
/// |---|---|
/// | `ns`, `us` (or `µs`), `ms`, `s` | nano-, micro-, milliseconds, seconds |
/// | `m`, `h`, `d` | minutes, hours, days of 24 hours |
///
/// The last number may have a decimal fraction, down to whole nanoseconds. Nothing is guessed.
///
/// ```
/// use std::time::Duration;
/// use relent_config::parse_duration;
///
/// assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
/// assert_eq!(parse_duration("1.5s"), Ok(Duration::from_millis(1500)));
/// assert!(parse_duration("90").is_err());
/// ```
///
/// # Errors
///
/// A [`DurationError`] that names the place in the text: no number, no unit, an unknown unit, a unit twice or out of
/// order, spaces, a sign, a fraction of a nanosecond, or more than [`MAX_DURATION`].
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    read(text).map(Duration::from_nanos).map_err(|(wrong, span)| {
        let good = if text.len() <= 64 { wrong.suggest(text) } else { None };
        // A text that is still wrong helps nobody.
        DurationError { wrong, span, good: good.filter(|good| read(good).is_ok()) }
    })
}

/// What is wrong, and the bytes that are.
type Found = (Wrong, Range<usize>);

/// In nanoseconds.
fn read(text: &str) -> Result<u64, Found> {
    if text.trim().is_empty() {
        return Err((Wrong::Empty, 0..text.len()));
    }
    if let Some((at, space)) = text.char_indices().find(|(_, letter)| letter.is_whitespace()) {
        return Err((Wrong::Space, at..at + space.len_utf8()));
    }
    if text.starts_with('-') {
        return Err((Wrong::Negative, 0..1));
    }
    let mut total = 0u128;
    let mut before: Option<usize> = None;
    let mut at = 0;
    while at < text.len() {
        let part = Part::read(text, at)?;
        let unit = part.unit(text, before)?;
        total = total.saturating_add(part.nanos(text, unit)?);
        before = Some(unit);
        at = part.unit.end;
        if part.fraction.is_some() && at < text.len() {
            return Err((Wrong::FractionInside, part.number));
        }
    }
    u64::try_from(total).map_err(|_| (Wrong::TooLong, 0..text.len()))
}

/// Writes a duration so that [`parse_duration`] reads the same one (up to [`MAX_DURATION`]).
///
/// ```
/// use std::time::Duration;
/// use relent_config::format_duration;
///
/// assert_eq!(format_duration(Duration::from_secs(90)), "1m30s");
/// assert_eq!(format_duration(Duration::from_micros(1_500_500)), "1.5005s");
/// assert_eq!(format_duration(Duration::from_micros(250)), "250us");
/// ```
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.subsec_nanos();
    let seconds = duration.as_secs();
    let mut text = String::new();
    let mut left = seconds;
    for (unit, size) in [("d", 86_400), ("h", 3_600), ("m", 60)] {
        if left >= size {
            text.push_str(&format!("{}{unit}", left / size));
            left %= size;
        }
    }
    let rest = if seconds > 0 {
        if left == 0 && nanos == 0 {
            return text;
        }
        decimal(left, nanos, 9, "s")
    } else {
        match nanos {
            0 => "0s".to_owned(),
            1_000_000.. => decimal(u64::from(nanos / 1_000_000), nanos % 1_000_000, 6, "ms"),
            1_000.. => decimal(u64::from(nanos / 1_000), nanos % 1_000, 3, "us"),
            _ => format!("{nanos}ns"),
        }
    };
    text + &rest
}

/// `whole.fraction`, where the fraction has `digits` digits, without trailing zeros.
fn decimal(whole: u64, fraction: u32, digits: usize, unit: &str) -> String {
    if fraction == 0 {
        return format!("{whole}{unit}");
    }
    let fraction = format!("{fraction:0digits$}");
    format!("{whole}.{}{unit}", fraction.trim_end_matches('0'))
}

/// One number with its unit, as places in the text.
struct Part {
    number: Range<usize>,
    whole: Range<usize>,
    fraction: Option<Range<usize>>,
    unit: Range<usize>,
}

impl Part {
    fn read(text: &str, start: usize) -> Result<Self, Found> {
        let run = |from: usize, holds: fn(char) -> bool| {
            let rest = text.get(from..).unwrap_or_default();
            from..from + rest.find(|letter| !holds(letter)).unwrap_or(rest.len())
        };
        let whole = run(start, |letter| letter.is_ascii_digit());
        if whole.is_empty() {
            // Up to where a number begins again.
            let stray = run(start, |letter| !letter.is_ascii_digit());
            return Err((Wrong::NoNumber, stray));
        }
        let mut number = whole.clone();
        let mut fraction = None;
        if text.get(whole.end..).is_some_and(|rest| rest.starts_with('.')) {
            let digits = run(whole.end + 1, |letter| letter.is_ascii_digit());
            number.end = digits.end;
            if digits.is_empty() {
                return Err((Wrong::NoNumber, number));
            }
            fraction = Some(digits);
        }
        let unit = run(number.end, |letter| !letter.is_ascii_digit() && letter != '.');
        Ok(Self { number, whole, fraction, unit })
    }

    /// The unit's place in [`UNITS`], which must lie after `before`.
    fn unit(&self, text: &str, before: Option<usize>) -> Result<usize, Found> {
        let word = text.get(self.unit.clone()).unwrap_or_default();
        if word.is_empty() {
            return Err((Wrong::NoUnit, self.number.clone()));
        }
        // U+00B5 and U+03BC look the same.
        let plain = if matches!(word, "µs" | "μs") { "us" } else { word };
        let Some(unit) = UNITS.iter().position(|(name, _)| *name == plain) else {
            return Err((Wrong::UnknownUnit, self.unit.clone()));
        };
        match before {
            Some(before) if before == unit => Err((Wrong::UnitTwice, self.unit.clone())),
            Some(before) if before > unit => Err((Wrong::Order, self.unit.clone())),
            _ => Ok(unit),
        }
    }

    fn nanos(&self, text: &str, unit: usize) -> Result<u128, Found> {
        let size = UNITS.get(unit).map_or(1, |(_, size)| u128::from(*size));
        let whole = text.get(self.whole.clone()).unwrap_or_default();
        // More digits than 64 bits hold are too long in any unit.
        let whole = whole.parse::<u64>().map_err(|_| (Wrong::TooLong, self.whole.start..self.unit.end))?;
        let mut nanos = u128::from(whole) * size;
        if let Some(fraction) = &self.fraction {
            let too_fine = || (Wrong::TooFine, self.number.start..self.unit.end);
            let digits = text.get(fraction.clone()).unwrap_or_default().trim_end_matches('0');
            // A day has 10^9 × 86 400 ns, which 14 decimal places divide: more digits can never come out whole.
            let scale =
                10u128.checked_pow(u32::try_from(digits.len()).unwrap_or(u32::MAX)).ok_or_else(too_fine)?;
            let parts = if digits.is_empty() { 0 } else { digits.parse::<u64>().map_err(|_| too_fine())? };
            let product = u128::from(parts) * size;
            if !product.is_multiple_of(scale) {
                return Err(too_fine());
            }
            nanos += product / scale;
        }
        Ok(nanos)
    }
}

/// What was probably meant, if it is plain: other names of the units, capitals, ISO 8601's `PT1M30S`, a missing zero.
fn plainly(text: &str) -> Option<String> {
    let lower = text.to_lowercase();
    let body = lower.strip_prefix("pt").or(lower.strip_prefix('p')).unwrap_or(&lower);
    let mut good = String::new();
    let mut rest = body;
    while !rest.is_empty() {
        let number =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (digits, tail) = rest.split_at_checked(number)?;
        let word = tail.find(|letter: char| letter.is_ascii_digit() || letter == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at_checked(word)?;
        if digits.starts_with('.') {
            good.push('0');
        }
        good.push_str(digits);
        let unit = match unit {
            "nsec" | "nanos" | "nanosecond" | "nanoseconds" => "ns",
            "usec" | "micros" | "microsecond" | "microseconds" => "us",
            "msec" | "msecs" | "millis" | "millisecond" | "milliseconds" => "ms",
            "sec" | "secs" | "second" | "seconds" => "s",
            "min" | "mins" | "minute" | "minutes" => "m",
            "hr" | "hrs" | "hour" | "hours" => "h",
            "day" | "days" => "d",
            "w" | "week" | "weeks" if good.parse::<u32>().is_ok() => {
                good = (good.parse::<u64>().ok()? * 7).to_string();
                "d"
            }
            other => other,
        };
        good.push_str(unit);
        rest = tail;
    }
    Some(good)
}

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DurationError {
    wrong: Wrong,
    span: Range<usize>,
    good: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Empty,
    Space,
    Negative,
    NoNumber,
    NoUnit,
    UnknownUnit,
    UnitTwice,
    Order,
    FractionInside,
    TooFine,
    TooLong,
}

impl Wrong {
    fn suggest(self, text: &str) -> Option<String> {
        match self {
            // Of several numbers nobody knows which unit was meant.
            Self::NoUnit if text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
                Some(format!("{text}s"))
            }
            Self::Space => {
                let joined: String = text.split_whitespace().collect();
                if read(&joined).is_ok() { Some(joined) } else { plainly(&joined) }
            }
            Self::UnknownUnit | Self::NoNumber => plainly(text),
            _ => None,
        }
    }
}

impl DurationError {
    /// The bytes of the text that are wrong.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// What was probably meant, where that is plain: `"5s"` for `5 s`.
    pub fn suggestion(&self) -> Option<&str> {
        self.good.as_deref()
    }

    /// Whether only the unit is missing.
    pub(crate) fn is_bare_number(&self) -> bool {
        self.wrong == Wrong::NoUnit && self.span.start == 0
    }
}

impl fmt::Display for DurationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.wrong {
            Wrong::Empty => f.write_str("an empty text"),
            Wrong::Space => f.write_str("a space in it"),
            Wrong::Negative => f.write_str("it is negative"),
            Wrong::NoNumber => f.write_str("there is no number here"),
            Wrong::NoUnit => f.write_str("a number without a unit"),
            Wrong::UnknownUnit => f.write_str("unknown unit; there are d, h, m, s, ms, us and ns"),
            Wrong::UnitTwice => f.write_str("this unit is there twice"),
            Wrong::Order => f.write_str("units go from the longest to the shortest"),
            Wrong::FractionInside => f.write_str("only the last number may have a fraction"),
            Wrong::TooFine => f.write_str("finer than a nanosecond"),
            Wrong::TooLong => {
                write!(f, "too long; the maximum is {} (584 years)", format_duration(MAX_DURATION))
            }
        }
    }
}

impl std::error::Error for DurationError {}
