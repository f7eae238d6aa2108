//! Durations as people read them.

use std::time::Duration;

/// `duration` to about three digits: `0`, `250ms`, `1.5s`, `2m40s`, `5h`, `4d12h`. Not for reading back.
pub(crate) fn short(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    let seconds = duration.as_secs_f64();
    // The borders lie where rounding would otherwise give "1000ms" or "60.0s".
    match nanos {
        0 => "0".to_owned(),
        1..1_000 => format!("{nanos}ns"),
        1_000..999_500 => unit(seconds * 1e6, "us"),
        999_500..999_500_000 => unit(seconds * 1e3, "ms"),
        999_500_000..59_950_000_000 => unit(seconds, "s"),
        _ => long(seconds),
    }
}

/// The same in a column of numbers: at least `width` wide, to the right.
pub(crate) fn column(duration: Duration, width: usize) -> String {
    format!("{:>width$}", short(duration))
}

/// A duration as the policy file has it.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    relent_config::parse_duration(text).map_err(|error| error.to_string())
}

fn unit(value: f64, unit: &str) -> String {
    let decimals = match value {
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    let number = format!("{value:.decimals$}");
    let number = if decimals == 0 { &number } else { number.trim_end_matches('0').trim_end_matches('.') };
    format!("{number}{unit}")
}

/// Two units are enough, and from a hundred days on one: nobody plans by the seconds of a day, or the hours of a year.
fn long(seconds: f64) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let seconds = seconds.round() as u64;
    let mut units = UNITS.into_iter().skip_while(|(_, size)| seconds < *size);
    let Some((name, size)) = units.next() else { return "0".to_owned() };
    let Some((smaller, small_size)) = units.next() else { return format!("{seconds}{name}") };
    let rest = if seconds < 100 * 86_400 { seconds % size / small_size } else { 0 };
    match rest {
        0 => format!("{}{name}", seconds / size),
        _ => format!("{}{name}{rest}{smaller}", seconds / size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The columns of a table are eight wide.
    #[test]
    fn all_leave_a_space_in_a_column() {
        for shift in 0..64 {
            for nanos in
                [1u64 << shift, (1 << shift) - 1, 1_234_567_891_234_567_891 >> shift, u64::MAX >> shift]
            {
                let text = short(Duration::from_nanos(nanos));
                assert!(text.len() < 8, "{nanos} ns: {text}");
            }
        }
    }

    #[test]
    fn three_digits_and_two_units() {
        let cases = [
            (0, "0"),
            (7, "7ns"),
            (51_200, "51.2us"),
            (999_499, "999us"),
            (999_999, "1ms"),
            (1_500_000, "1.5ms"),
            (250_000_000, "250ms"),
            (999_999_999, "1s"),
            (1_234_000_000, "1.23s"),
            (59_949_000_000, "59.9s"),
            (59_999_000_000, "1m"),
            (160_000_000_000, "2m40s"),
            (18_000_000_000_000, "5h"),
            (388_800_000_000_000, "4d12h"),
            (8_639_999_000_000_000, "99d23h"),
            (8_726_400_000_000_000, "101d"),
            (u64::MAX, "213503d"),
        ];
        for (nanos, text) in cases {
            assert_eq!(short(Duration::from_nanos(nanos)), text, "{nanos} ns");
        }
    }
}
