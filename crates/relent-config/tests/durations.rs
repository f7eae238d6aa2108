//! Durations: what is read, what is refused and where, and that what is written reads back.

use std::time::Duration;

use proptest::prelude::*;
use relent_config::{MAX_DURATION, format_duration, parse_duration};

const NANOS_PER_DAY: u64 = 86_400_000_000_000;

#[test]
fn durations_mean_what_they_say() {
    let cases: &[(&str, u64)] = &[
        ("1m30s", 90_000_000_000), // F44: was 130 ms elsewhere
        ("250ms", 250_000_000),
        ("1.5s", 1_500_000_000),
        ("2h", 7_200_000_000_000),
        ("2h5m", 7_500_000_000_000),
        ("1d", NANOS_PER_DAY),
        ("1d2h3m4s5ms6us7ns", 93_784_005_006_007),
        ("51.2us", 51_200),
        ("51.2µs", 51_200),
        ("51.2μs", 51_200),
        ("7ns", 7),
        ("7.0ns", 7),
        ("0s", 0),
        ("000s", 0),
        ("0.000000001s", 1),
        ("1.000000000000000000000000s", 1_000_000_000),
        ("0.00000000000625d", 540),
        ("90s", 90_000_000_000),
        ("1m0.5s", 60_500_000_000),
        ("18446744073709551615ns", u64::MAX),
        ("213503d23h34m33.709551615s", u64::MAX),
    ];
    for (text, nanos) in cases {
        assert_eq!(parse_duration(text), Ok(Duration::from_nanos(*nanos)), "{text}");
    }
}

#[test]
fn nothing_is_guessed() {
    // The text, the part that is wrong, what is told, and what was probably meant.
    let cases: &[(&str, &str, &str, Option<&str>)] = &[
        ("", "", "an empty text", None),
        ("  ", "  ", "an empty text", None),
        ("90", "90", "a number without a unit", Some("90s")),
        ("2h5", "5", "a number without a unit", None),
        ("5 s", " ", "a space in it", Some("5s")),
        (" 5s", " ", "a space in it", Some("5s")),
        ("5s\n", "\n", "a space in it", Some("5s")),
        ("1m\u{a0}30s", "\u{a0}", "a space in it", Some("1m30s")),
        ("2 seconds", " ", "a space in it", Some("2s")),
        ("5 5", " ", "a space in it", None),
        ("-5s", "-", "it is negative", None),
        ("+5s", "+", "there is no number here", None),
        ("s", "s", "there is no number here", None),
        (".5s", ".", "there is no number here", Some("0.5s")),
        ("5.s", "5.", "there is no number here", None),
        ("1.2.3s", "1.2", "a number without a unit", None),
        ("5S", "S", "unknown unit; there are d, h, m, s, ms, us and ns", Some("5s")),
        ("5sec", "sec", "unknown unit; there are d, h, m, s, ms, us and ns", Some("5s")),
        ("5minutes", "minutes", "unknown unit; there are d, h, m, s, ms, us and ns", Some("5m")),
        ("2w", "w", "unknown unit; there are d, h, m, s, ms, us and ns", Some("14d")),
        ("1e3s", "e", "unknown unit; there are d, h, m, s, ms, us and ns", None),
        ("5秒", "秒", "unknown unit; there are d, h, m, s, ms, us and ns", None),
        ("PT1M30S", "PT", "there is no number here", Some("1m30s")),
        ("٥s", "٥s", "there is no number here", None),
        ("30s1m", "m", "units go from the longest to the shortest", None),
        ("1s1s", "s", "this unit is there twice", None),
        ("1.5m30s", "1.5", "only the last number may have a fraction", None),
        ("0.5ns", "0.5ns", "finer than a nanosecond", None),
        ("0.0000000001s", "0.0000000001s", "finer than a nanosecond", None),
        (
            "0.0000000000000000000000000000000000000000001s",
            "0.0000000000000000000000000000000000000000001s",
            "finer than a nanosecond",
            None,
        ),
        ("NaN", "NaN", "there is no number here", None),
        ("inf", "inf", "there is no number here", None),
    ];
    for (text, part, told, meant) in cases {
        let error = parse_duration(text).unwrap_err();
        assert_eq!(error.to_string(), *told, "{text:?}");
        assert_eq!(&text[error.span()], *part, "{text:?}");
        assert_eq!(error.suggestion(), *meant, "{text:?}");
    }
}

#[test]
fn too_long_names_the_maximum() {
    for text in
        ["18446744073709551616ns", "213504d", "1000000000000000000000000d", "213503d23h34m33.709551616s"]
    {
        let error = parse_duration(text).unwrap_err();
        assert_eq!(
            error.to_string(),
            "too long; the maximum is 213503d23h34m33.709551615s (584 years)",
            "{text}"
        );
    }
}

#[test]
fn durations_are_written_shortly() {
    let cases: &[(u64, &str)] = &[
        (0, "0s"),
        (1, "1ns"),
        (1_000, "1us"),
        (51_200, "51.2us"),
        (52_377_600, "52.3776ms"),
        (250_000_000, "250ms"),
        (1_500_000_000, "1.5s"),
        (60_000_000_000, "1m"),
        (60_000_000_001, "1m0.000000001s"),
        (NANOS_PER_DAY, "1d"),
        (u64::MAX, "213503d23h34m33.709551615s"),
    ];
    for (nanos, text) in cases {
        assert_eq!(format_duration(Duration::from_nanos(*nanos)), *text);
    }
    // Longer ones can be written, too.
    assert_eq!(format_duration(Duration::MAX), "213503982334601d7h15.999999999s");
}

proptest! {
    #[test]
    fn what_is_written_reads_back(nanos: u64, shift in 0u32..64) {
        let duration = Duration::from_nanos(nanos >> shift);
        prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
    }

    #[test]
    fn whatever_is_read_is_at_most_the_maximum(text in "([0-9]{1,22}(\\.[0-9]{0,30})?(d|h|m|s|ms|us|µs|ns|x)?){0,4}") {
        match parse_duration(&text) {
            Ok(duration) => {
                prop_assert!(duration <= MAX_DURATION);
                prop_assert_eq!(parse_duration(&format_duration(duration)), Ok(duration));
            }
            Err(error) => {
                prop_assert!(text.get(error.span()).is_some(), "the place lies in the text");
                if let Some(good) = error.suggestion() {
                    prop_assert!(parse_duration(good).is_ok(), "{}", good);
                }
            }
        }
    }

    #[test]
    fn no_text_panics(text: String) {
        if let Err(error) = parse_duration(&text) {
            prop_assert!(text.get(error.span()).is_some());
        }
    }
}
