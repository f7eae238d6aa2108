//! What servers ask for, in all the ways they do.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod checks;

use std::time::Duration;

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_STANDARD_NO_PAD};
use http::StatusCode;
use proptest::prelude::*;
use relent_core::Hint;
use relent_http::hint;

/// 2026-03-03 10:03:00.
const NOW: u64 = 1_772_532_180;

fn read_at(now: u64, status: u16, headers: &str, body: &str) -> Option<Hint> {
    let status = StatusCode::from_u16(status).unwrap();
    hint::read(status, &checks::headers(headers), body, Duration::from_secs(now))
}

fn read(headers: &str) -> Option<Hint> {
    read_at(NOW, 503, headers, "")
}

fn after(wait: Duration) -> Option<Hint> {
    Some(Hint::After(wait))
}

fn secs(seconds: u64) -> Option<Hint> {
    after(Duration::from_secs(seconds))
}

fn millis(milliseconds: u64) -> Option<Hint> {
    after(Duration::from_millis(milliseconds))
}

#[test]
fn seconds_and_what_is_none() {
    for (text, expected) in [
        ("120", secs(120)),
        (" 120 ", secs(120)),
        ("007", secs(7)),
        ("0", secs(0)),
        ("0.42", millis(420)),
        ("0.0000000001", after(Duration::from_nanos(1))),
        ("0.00000000000000000000000000000000000000000000000000001", after(Duration::from_nanos(1))),
        ("1.9999999999", secs(2)),
        ("1.0000000000", secs(1)),
        ("2m0s", None),
        ("soon", None),
        ("", None),
        ("-1", None),
        ("+1", None),
        ("1e3", None),
        ("0x10", None),
        ("1 2", None),
        ("5, 60", None),
        (".5", None),
        ("5.", None),
        ("1.2.3", None),
        ("NaN", None),
        ("inf", None),
        ("\u{661}", None),
    ] {
        assert_eq!(read(&format!("retry-after: {text}")), expected, "{text}");
    }
}

#[test]
fn huge_waits_saturate() {
    assert_eq!(read("retry-after: 3000000"), secs(3_000_000));
    assert_eq!(read("retry-after: 9223372037"), secs(9_223_372_037));
    assert_eq!(read("retry-after: 18446744073709551615"), secs(u64::MAX));
    for text in
        ["18446744073709551616", &"9".repeat(400), &format!("{}.{}", "9".repeat(400), "9".repeat(400))]
    {
        for name in ["retry-after", "retry-after-ms", "x-ms-retry-after-ms"] {
            let hint = read(&format!("{name}: {text}"));
            assert!(
                matches!(hint, Some(Hint::After(wait)) if wait.as_secs() >= u64::MAX / 1_000),
                "{name} {text}"
            );
        }
        let hint = read(&format!("x-ratelimit-reset: {text}"));
        assert!(matches!(hint, Some(Hint::After(wait)) if wait.as_secs() > 1 << 43), "{text} {hint:?}");
    }
}

#[test]
fn the_three_forms_of_dates() {
    for (text, expected) in [
        ("Tue, 03 Mar 2026 10:05:00 GMT", secs(120)),
        ("Tuesday, 03-Mar-26 10:05:00 GMT", secs(120)),
        ("Tue Mar  3 10:05:00 2026", secs(120)),
        // What is past asks for no wait.
        ("Tue, 03 Mar 2026 10:03:00 GMT", secs(0)),
        ("Tue, 03 Mar 2026 10:02:59 GMT", secs(0)),
        ("Wed, 21 Oct 2015 07:28:00 GMT", secs(0)),
        ("Fri, 31 Dec 9999 23:59:59 GMT", secs(253_402_300_799 - NOW)),
        // What is no date.
        ("Mon, 03 Mar 2026 10:05:00 GMT", None),
        ("Monday, 03-Mar-26 10:05:00 GMT", None),
        ("Tue, 03 Mar 2026 10:05:00 EST", None),
        ("Tue, 03 Mar 2026 10:05:00", None),
        ("Tue, 03 Mar 26 10:05:00 GMT", None),
        ("Mon, 30 Feb 2026 10:05:00 GMT", None),
        ("Tue, 03 Mar 2026 24:05:00 GMT", None),
        ("2026-03-03T10:05:00Z", None),
        ("Tuesday, 03-Mar-\u{661}\u{661} 10:05:00 GMT", None),
        ("Tuesday, -- GMT", None),
    ] {
        assert_eq!(read(&format!("retry-after: {text}")), expected, "{text}");
    }
}

#[test]
fn years_of_two_digits() {
    for (now, text, expected) in [
        (NOW, "Sunday, 06-Nov-94 08:49:37 GMT", secs(0)),
        (NOW, "Saturday, 06-Nov-76 08:49:37 GMT", secs(0)),
        (NOW, "Friday, 06-Nov-48 08:49:37 GMT", secs(2_488_265_377 - NOW)),
        // 49 years and eight months ahead; in 1975 it was a Thursday.
        (NOW, "Wednesday, 06-Nov-75 08:49:37 GMT", secs(3_340_255_777 - NOW)),
        (NOW, "Thursday, 06-Nov-75 08:49:37 GMT", None),
        // Fifty years, and a second more: 1976, when it was a Wednesday.
        (NOW, "Tuesday, 03-Mar-76 10:03:00 GMT", secs(18_263 * 86_400)),
        (NOW, "Tuesday, 03-Mar-76 10:03:01 GMT", None),
        (NOW, "Wednesday, 03-Mar-76 10:03:01 GMT", secs(0)),
        // Around the turn of a century: 2099-12-31 23:59:00.
        (4_102_444_740, "Friday, 01-Jan-00 00:00:00 GMT", secs(60)),
        (4_102_444_740, "Saturday, 01-Jan-00 00:00:00 GMT", None),
        // The century's last year has no 29 February, the one before it had.
        (4_102_444_740, "Tuesday, 29-Feb-00 00:00:00 GMT", secs(0)),
    ] {
        assert_eq!(read_at(now, 503, &format!("retry-after: {text}"), ""), expected, "{text}");
    }
}

#[test]
fn a_date_counts_from_the_servers_own() {
    let headers = "retry-after: Tue, 03 Mar 2026 10:05:00 GMT\n";
    let dated = format!("{headers}date: Tue, 03 Mar 2026 10:03:00 GMT\n");
    let cached = format!("{dated}age: 0\n");
    for (ours, without, with) in [
        (NOW, secs(120), secs(120)),
        (NOW + 3_600, secs(0), secs(120)),
        (NOW - 3_600, secs(3_720), secs(120)),
        (0, secs(NOW + 120), secs(120)),
    ] {
        assert_eq!(read_at(ours, 503, headers, ""), without, "{ours}");
        assert_eq!(read_at(ours, 503, &dated, ""), with, "{ours}");
        assert_eq!(read_at(ours, 503, &cached, ""), without, "{ours}");
        assert_eq!(read_at(ours, 503, &format!("{headers}date: today\n"), ""), without, "{ours}");
    }
    // The years of two digits, too, are the server's.
    let short = "retry-after: Tuesday, 03-Mar-26 10:05:00 GMT\ndate: Tue Mar  3 10:03:00 2026\n";
    assert_eq!(read_at(0, 503, short, ""), secs(120));
}

#[test]
fn milliseconds() {
    for name in ["retry-after-ms", "x-ms-retry-after-ms"] {
        assert_eq!(read(&format!("{name}: 1500")), millis(1_500));
        assert_eq!(read(&format!("{name}: 0.5")), after(Duration::from_micros(500)));
        assert_eq!(read(&format!("{name}: -5")), None);
        assert_eq!(read(&format!("{name}: Tue, 03 Mar 2026 10:05:00 GMT")), None);
    }
    assert_eq!(read("x-amz-retry-after: 1500"), millis(1_500));
    assert_eq!(read("x-amz-retry-after: 1.5"), None);
}

#[test]
fn the_longest_of_several_counts() {
    for (headers, expected) in [
        ("retry-after: 5\nretry-after: 60\nretry-after: soon", secs(60)),
        ("retry-after: soon\nretry-after-ms: 200", millis(200)),
        ("retry-after: 60\nretry-after-ms: 200", secs(60)),
        ("retry-after: 60\nretry-after-ms: 0", secs(60)),
        ("retry-after: 0.5\nretry-after-ms: 0", millis(500)),
        ("retry-after: 1\nretry-after-ms: 90000", secs(90)),
        ("x-ms-retry-after-ms: 300\nretry-after-ms: 200\nx-amz-retry-after: 250", millis(300)),
        // The same, rounded to whole seconds.
        ("retry-after: 7\nretry-after-ms: 6200", millis(6_200)),
        ("retry-after: 7\nretry-after-ms: 6000", secs(7)),
        ("retry-after: 7\nretry-after-ms: 7000", secs(7)),
        ("retry-after: 8\nretry-after-ms: 6200", secs(8)),
        ("retry-after: Tue, 03 Mar 2026 10:03:07 GMT\nretry-after-ms: 6200", millis(6_200)),
        // A wait that is asked for comes before the end of a window.
        ("retry-after: 5\nratelimit-reset: 600", secs(5)),
        ("ratelimit-reset: 600\nx-ratelimit-reset: 5", secs(600)),
        // No is no, and pushback is exact.
        ("retry-after: 5\nx-should-retry: false", Some(Hint::Stop)),
        ("x-should-retry: true\nx-should-retry: FALSE", Some(Hint::Stop)),
        ("retry-after: 5\nx-should-retry: true", secs(5)),
        ("retry-after: 5\nx-should-retry: no", secs(5)),
        ("retry-after: 5\ngrpc-retry-pushback-ms: 250", Some(Hint::Pushback(Duration::from_millis(250)))),
        ("grpc-retry-pushback-ms: 250\nx-should-retry: false", Some(Hint::Stop)),
        ("grpc-retry-pushback-ms: -1\nretry-after: 5", Some(Hint::Stop)),
        ("grpc-retry-pushback-ms: soon", Some(Hint::Stop)),
        ("grpc-retry-pushback-ms: \u{e9}", Some(Hint::Stop)),
        ("grpc-retry-pushback-ms: 1\ngrpc-retry-pushback-ms: 1", Some(Hint::Stop)),
    ] {
        assert_eq!(read(headers), expected, "{headers}");
    }
}

#[test]
fn the_ends_of_windows() {
    for (reset, remaining) in [
        ("ratelimit-reset", "ratelimit-remaining"),
        ("x-ratelimit-reset", "x-ratelimit-remaining"),
        ("x-rate-limit-reset", "x-rate-limit-remaining"),
    ] {
        for (value, expected) in [
            ("30".to_owned(), secs(30)),
            ("0.5".to_owned(), millis(500)),
            ("999999999".to_owned(), secs(999_999_999)),
            (format!("{}", NOW + 30), secs(30)),
            (format!("{}.5", NOW + 30), millis(30_500)),
            (format!("{}", (NOW + 30) * 1_000 + 250), millis(30_250)),
            // A window that is over, or ends now, asks for nothing, and not for a call at once.
            ("0".to_owned(), None),
            (format!("{NOW}"), None),
            (format!("{}", NOW - 1), None),
            (format!("{}", (NOW - 1) * 1_000), None),
            ("-5".to_owned(), None),
            ("Tue, 03 Mar 2026 10:05:00 GMT".to_owned(), None),
        ] {
            let alone = format!("{reset}: {value}\n");
            assert_eq!(read_at(NOW, 429, &alone, ""), expected, "{alone}");
            assert_eq!(read_at(NOW, 503, &alone, ""), expected, "{alone}");
            // With a 502 it is but a remark, unless nothing is left.
            assert_eq!(read_at(NOW, 502, &alone, ""), None, "{alone}");
            let spent = format!("{alone}{remaining}: 0\n");
            assert_eq!(read_at(NOW, 502, &spent, ""), expected, "{spent}");
            assert_eq!(read_at(NOW, 429, &format!("{alone}{remaining}: 4999\n"), ""), None, "{alone}");
            assert_eq!(read_at(NOW, 429, &format!("{alone}{remaining}: few\n"), ""), expected, "{alone}");
        }
        let dated = format!("{reset}: {}\ndate: Tue, 03 Mar 2026 10:03:00 GMT\n", NOW + 30);
        assert_eq!(read_at(NOW + 3_600, 429, &dated, ""), secs(30), "the server's clock");
        assert_eq!(read_at(NOW + 3_600, 429, &format!("{dated}age: 9\n"), ""), None, "from a cache");
    }
}

/// `google.rpc.Status` with one detail.
fn status(address: &str, value: &[u8]) -> Vec<u8> {
    let field = |number: u8, bytes: &[u8]| {
        [&[number << 3 | 2, u8::try_from(bytes.len()).unwrap()][..], bytes].concat()
    };
    let any = [field(1, address.as_bytes()), field(2, value)].concat();
    [&[8, 14, 18, 4][..], b"busy", &field(3, &any)].concat()
}

#[test]
fn retry_info_of_grpc() {
    let address = "type.googleapis.com/google.rpc.RetryInfo";
    let minus_one = [0xff; 9];
    for (address, value, expected) in [
        // 3 s and 500 000 000 ns.
        (address, &[10, 8, 8, 3, 16, 0x80, 0xca, 0xb5, 0xee, 1][..], millis(3_500)),
        (address, &[10, 2, 8, 3], secs(3)),
        (address, &[10, 0], secs(0)),
        ("google.rpc.RetryInfo", &[10, 2, 8, 3], secs(3)),
        ("type.googleapis.com/google.rpc.ErrorInfo", &[10, 2, 8, 3], None),
        (address, &[], None),
        (address, &[10, 9, 8, 3], None),
        // A thousand million nanoseconds, which would be a second.
        (address, &[10, 6, 16, 0x80, 0x94, 0xeb, 0xdc, 3], None),
        (address, &[&[10, 11, 8][..], &minus_one, &[1]].concat(), None),
        (address, &[&[10, 11, 16][..], &minus_one, &[1]].concat(), None),
        // A field that nobody knows, of each kind.
        (
            address,
            &[&[24, 1, 33, 0, 0, 0, 0, 0, 0, 0, 0, 45, 0, 0, 0, 0, 50, 1, 0][..], &[10, 2, 8, 3]].concat(),
            secs(3),
        ),
    ] {
        let status = status(address, value);
        for text in [BASE64_STANDARD.encode(&status), BASE64_STANDARD_NO_PAD.encode(&status)] {
            let headers = format!("grpc-status-details-bin: {text}\n");
            assert_eq!(read_at(NOW, 200, &headers, ""), expected, "{address} {value:?}");
        }
    }
    assert_eq!(read("grpc-status-details-bin: ***"), None);
}

#[test]
fn retry_info_in_json() {
    let detail = |delay: &str| {
        format!(
            r#"[{{"@type":"a/google.rpc.Help"}},{{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":{delay}}}]"#
        )
    };
    for (delay, expected) in [
        (r#""3.5s""#, millis(3_500)),
        (r#""0s""#, secs(0)),
        (r#""3""#, None),
        (r#""-3s""#, None),
        ("3", None),
        ("null", None),
    ] {
        let details = detail(delay);
        for body in [
            format!(r#"{{"error":{{"code":429,"details":{details}}}}}"#),
            format!(r#"{{"code":8,"details":{details}}}"#),
            format!(r#"[{{"error":{{"details":{details}}}}}]"#),
        ] {
            assert_eq!(read_at(NOW, 429, "", &body), expected, "{body}");
        }
    }
    let body = format!(r#"{{"error":{{"details":{}}}}}"#, detail(r#""3.5s""#));
    assert_eq!(read_at(NOW, 429, "retry-after: 9", &body), secs(9));
    assert_eq!(read_at(NOW, 429, "retry-after: 1", &body), millis(3_500));
    let other = body.replace("rpc.RetryInfo", "rpc.RetryInfoOld");
    assert_eq!(read_at(NOW, 429, "", &other), None);
    assert_eq!(read_at(NOW, 429, "", &body[..body.len() - 1]), None);
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[0-9]{1,25}",
        "[0-9]{1,5}\\.[0-9]{1,12}",
        "[-+.0-9A-Za-z:, ]{0,32}",
        "(Sun|Tues|Fri)day, [0-3][0-9]-(Mar|Feb)-[0-9]{2} [0-2][0-9]:[0-5][0-9]:00 GMT",
        Just("Tue, 03 Mar 2026 10:05:00 GMT".to_owned()),
        "[A-Za-z0-9+/]{0,60}={0,2}",
        "true|false",
    ]
}

proptest! {
    #[test]
    fn quiet_is_kept(
        status in 100u16..1000,
        pairs in prop::collection::vec(
            (
                prop::sample::select(&[
                    "retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after", "date", "age",
                    "ratelimit-reset", "x-ratelimit-reset", "x-ratelimit-remaining", "x-rate-limit-reset",
                    "x-should-retry", "grpc-retry-pushback-ms", "grpc-status-details-bin",
                ][..]),
                value(),
            ),
            0..5,
        ),
        now in prop_oneof![Just(NOW), 0u64..1 << 34, any::<u64>()],
    ) {
        let text: String = pairs.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        let status = StatusCode::from_u16(status).unwrap();
        checks::quiet(status, &checks::headers(&text), "", Duration::from_secs(now));
    }

    /// What all three forms say is one time, and its wait is the difference.
    #[test]
    fn dates_say_one_time(ahead in 0u64..49 * 31_556_952, now in NOW - 31_556_952 * 6..NOW * 2) {
        let then = now + ahead;
        let date = httpdate::fmt_http_date(std::time::UNIX_EPOCH + Duration::from_secs(then));
        let (weekday, rest) = date.split_once(", ").unwrap();
        let [day, month, year, clock, _] = rest.split(' ').collect::<Vec<_>>()[..] else { panic!("{date}") };
        let long = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
        let long = long.iter().find(|long| long.starts_with(weekday)).unwrap();
        let day_padded = day.strip_prefix('0').map_or(day.to_owned(), |day| format!(" {day}"));
        for text in [
            date.clone(),
            format!("{long}, {day}-{month}-{} {clock} GMT", &year[2..]),
            format!("{weekday} {month} {day_padded} {clock} {year}"),
        ] {
            prop_assert_eq!(read_at(now, 503, &format!("retry-after: {text}"), ""), secs(ahead), "{}", text);
        }
    }
}
