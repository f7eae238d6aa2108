//! Durations and numbers as text.

use std::time::Duration;

/// A duration such as `250ms`, `1.5s`, `1m30s`; `0` needs a unit too.
///
/// # Errors
///
/// What is wrong, as a sentence.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("\"{text}\" is no duration; write \"250ms\", \"1.5s\" or \"1m30s\"");
    let (mut rest, mut total) = (text.trim(), 0.0f64);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .ok_or_else(|| format!("\"{text}\" has no unit; write \"{text}s\" or \"{text}ms\""))?;
        let (number, tail) = rest.split_at(digits);
        let number: f64 = number.parse().map_err(|_| wrong())?;
        let letters = tail.find(|c: char| c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(letters);
        let nanos = match unit.trim() {
            "ns" => 1.0,
            "us" | "µs" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" | "min" => 60e9,
            "h" => 3600e9,
            "d" => 86_400e9,
            _ => return Err(wrong()),
        };
        total += number * nanos;
        rest = tail;
    }
    if total > u64::MAX as f64 {
        return Err(format!("\"{text}\" is too long: at most 584 years"));
    }
    Ok(Duration::from_nanos(libm::round(total) as u64))
}

/// Seconds in a unit that suits them, to three digits: `68.1 s`, `12.4 ms`.
pub(crate) fn seconds(seconds: f64) -> String {
    let magnitude = libm::fabs(seconds);
    match magnitude {
        0.0 => "0 s".into(),
        m if m < 1e-3 => format!("{} µs", number(seconds * 1e6)),
        m if m < 1.0 => format!("{} ms", number(seconds * 1e3)),
        m if m < 600.0 => format!("{} s", number(seconds)),
        m if m < 36_000.0 => format!("{} min", number(seconds / 60.0)),
        m if m < 864_000.0 => format!("{} h", number(seconds / 3600.0)),
        _ => format!("{} d", number(seconds / 86_400.0)),
    }
}

/// A number to three digits, whole from a thousand on, with thin groups: `2.33`, `812`, `9 064 312`.
pub(crate) fn number(number: f64) -> String {
    let magnitude = libm::fabs(number);
    let text = match magnitude {
        0.0 => return "0".into(),
        m if m >= 999.5 => return grouped(number),
        m if m >= 99.95 => format!("{number:.0}"),
        m if m >= 9.995 => format!("{number:.1}"),
        m if m >= 0.01 => format!("{number:.2}"),
        _ => return format!("{number:.1e}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", libm::fabs(number));
    let mut text = String::from(if number < 0.0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("51.2us"), Ok(Duration::from_nanos(51_200)));
        assert_eq!(duration("0s"), Ok(Duration::ZERO));
        for wrong in ["", "5", "s", "-1s", "1x", "1.2.3s", "1e9d"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert!(duration("5").unwrap_err().contains("no unit"));
        assert!(duration("9999999d").unwrap_err().contains("too long"));
    }

    #[test]
    fn numbers_have_three_digits() {
        assert_eq!(number(2.333), "2.33");
        assert_eq!(number(2.5), "2.5");
        assert_eq!(number(12.0), "12");
        assert_eq!(number(812.25), "812");
        assert_eq!(number(9_064_312.4), "9 064 312");
        assert_eq!(number(0.000_12), "1.2e-4");
        assert_eq!(seconds(0.0124), "12.4 ms");
        assert_eq!(seconds(68.14), "68.1 s");
    }
}
