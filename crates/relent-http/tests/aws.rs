//! Error responses of AWS services, as their protocols write them.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use proptest::prelude::*;
use relent_core::{Class, Hint};
use relent_http::aws::{
    Errors, Modelled, Reading, SKEW_CODES, Skew, THROTTLING_CODES, TRANSIENT_CODES, Times, code,
};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let pair = |(name, value): &(&str, &str)| {
        (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value.as_bytes()).unwrap())
    };
    pairs.iter().map(pair).collect()
}

fn read(status: u16, pairs: &[(&str, &str)], body: &str) -> Reading {
    Errors::new().read(StatusCode::from_u16(status).unwrap(), &headers(pairs), body, None)
}

/// Where the code is, by protocol: awsJson 1.0 and 1.1, restJson 1, restXml, awsQuery, ec2Query, and services that changed
/// from query to JSON.
#[test]
fn the_code_is_found_in_every_protocol() {
    for (pairs, body, expected) in [
        (&[][..], r#"{"__type":"ThrottlingException","message":"x"}"#, Some("ThrottlingException")),
        (&[], r#"{"message":"x","__type":"com.amazonaws.dynamodb.v20120810#SlowDown"}"#, Some("SlowDown")),
        (
            &[],
            "\u{feff} \n{\"code\":\"RequestTimeout:http://internal.amazon.com/coral/\"}",
            Some("RequestTimeout"),
        ),
        (&[], r#"{"Code":"AuthFailure"}"#, Some("AuthFailure")),
        (&[], r#"{"code":"Outer","__type":"Inner"}"#, Some("Inner")),
        (&[], r#"{"message":{"code":"Nested"},"list":[{"__type":"Nested"}]}"#, None),
        (&[], r#"{"code":429}"#, None),
        (&[], r#"{"__type":"SlowDown","message":"broken o"#, Some("SlowDown")),
        (&[], r#"{"__type":""}"#, None),
        (&[("x-amzn-errortype", "FooError:http://internal.amazon.com/")], "", Some("FooError")),
        (
            &[("x-amzn-errortype", "aws.protocols#FooError:http://x#y")],
            "{\"code\":\"Bar\"}",
            Some("FooError"),
        ),
        (&[("x-amzn-errortype", "")], "{\"code\":\"Bar\"}", Some("Bar")),
        (&[("x-amzn-errortype", "\u{e9}")], "{\"code\":\"Bar\"}", Some("Bar")),
        (
            &[("x-amzn-query-error", "RequestThrottled;Sender"), ("x-amzn-errortype", "QueueThrottled")],
            r#"{"__type":"com.amazonaws.sqs#QueueThrottled"}"#,
            Some("RequestThrottled"),
        ),
        (
            &[],
            "<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Reduce &amp; wait</Message></Error>",
            Some("SlowDown"),
        ),
        (
            &[],
            "<ErrorResponse xmlns=\"https://iam.amazonaws.com/\"><Error><Type>Sender</Type><Code> Throttling </Code></Error></ErrorResponse>",
            Some("Throttling"),
        ),
        (
            &[],
            "<Response><Errors><Error><Code>RequestLimitExceeded</Code></Error></Errors></Response>",
            Some("RequestLimitExceeded"),
        ),
        (&[], "<a:Error><a:Code>SlowDown</a:Code>", Some("SlowDown")),
        (&[], "<Fault><Code>SlowDown</Code></Fault>", None),
        (&[], "<Error><Detail><Code>SlowDown</Code></Detail></Error>", None),
        (&[], "<Error><Code>Slow", None),
        (&[], "<html><body>Bad gateway</body></html>", None),
        (&[], "Service Unavailable", None),
        (&[], "", None),
    ] {
        assert_eq!(code(&headers(pairs), body).as_deref(), expected, "{pairs:?} {body}");
    }
}

#[test]
fn the_code_comes_before_the_status() {
    for status in [400, 404, 429, 500, 501, 503] {
        for code in THROTTLING_CODES {
            assert_eq!(
                read(status, &[("x-amzn-errortype", code)], "").class,
                Class::Throttled,
                "{status} {code}"
            );
        }
        for code in TRANSIENT_CODES {
            assert_eq!(
                read(status, &[("x-amzn-errortype", code)], "").class,
                Class::Transient,
                "{status} {code}"
            );
        }
    }
    for (status, class) in [
        (200, Class::Success),
        (204, Class::Success),
        (301, Class::Permanent),
        (400, Class::Permanent),
        (408, Class::Permanent),
        (429, Class::Throttled),
        (500, Class::Transient),
        (501, Class::Permanent),
        (502, Class::Transient),
        (503, Class::Transient),
        (504, Class::Transient),
        (505, Class::Permanent),
        (509, Class::Permanent),
    ] {
        assert_eq!(read(status, &[], "").class, class, "{status}");
        let unknown = read(status, &[], r#"{"__type":"SomethingElse"}"#);
        assert_eq!(unknown.class, class, "{status}");
    }
    assert_eq!(read(200, &[("x-amzn-errortype", "SlowDown"), ("x-amz-retry-after", "5")], "").hint, None);
}

#[test]
fn a_service_has_errors_of_its_own() {
    let errors = Errors::new()
        .modelled("ModelNotReadyException", Modelled::Throttling)
        .modelled("InternalServerException", Modelled::Retryable)
        .modelled("ConflictException", Modelled::Plain)
        .modelled("ThrottlingException", Modelled::Plain);
    let class =
        |status: u16, code: &str| errors.class(StatusCode::from_u16(status).unwrap(), Some(code), None);
    assert_eq!(class(400, "ModelNotReadyException"), Class::Throttled);
    assert_eq!(class(400, "InternalServerException"), Class::Transient);
    assert_eq!(class(409, "ConflictException"), Class::Permanent);
    assert_eq!(class(429, "ConflictException"), Class::Permanent);
    assert_eq!(class(503, "ConflictException"), Class::Transient);
    assert_eq!(class(429, "NoSuchError"), Class::Throttled);
    assert_eq!(class(400, "ThrottlingException"), Class::Throttled);
}

#[test]
fn waits_are_whole_milliseconds() {
    for (text, expected) in [
        ("0", Some(Duration::ZERO)),
        (" 1500 ", Some(Duration::from_millis(1_500))),
        ("007", Some(Duration::from_millis(7))),
        ("18446744073709551615", Some(Duration::from_millis(u64::MAX))),
        ("18446744073709551616", Some(Duration::new(18_446_744_073_709_551, 616_000_000))),
        ("99999999999999999999999999", Some(Duration::MAX)),
        ("-1", None),
        ("+1", None),
        ("1.5", None),
        ("1e3", None),
        ("invalid", None),
        ("", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", None),
    ] {
        let reading = read(503, &[("x-amz-retry-after", text)], "");
        assert_eq!(reading.hint, expected.map(Hint::After), "{text}");
        assert_eq!(reading.outcome().hint, reading.hint);
        assert_eq!(reading.outcome().class, Class::Transient);
    }
    assert_eq!(read(503, &[("retry-after", "5")], "").hint, None);
}

/// 2015-10-21 07:28:00, in seconds since 1970 began.
const DATE: u64 = 1_445_412_480;

#[test]
fn a_clock_that_is_wrong_is_worth_another_try() {
    let date = ("date", "Wed, 21 Oct 2015 07:28:00 GMT");
    let at = |sent: u64, received: u64| Times {
        sent: Duration::from_secs(sent),
        received: Duration::from_secs(received),
    };
    let ahead = |seconds| Some(Skew { ahead: true, by: Duration::from_secs(seconds) });
    let behind = |seconds| Some(Skew { ahead: false, by: Duration::from_secs(seconds) });
    for (pairs, times, expected) in [
        (&[date][..], at(DATE - 240, DATE - 240), None),
        (&[date], at(DATE - 241, DATE - 241), ahead(241)),
        (&[date], at(DATE + 241, DATE + 241), behind(241)),
        // The middle of the round trip is what counts.
        (&[date], at(DATE - 340, DATE - 140), None),
        (&[date], at(DATE - 440, DATE - 140), ahead(290)),
        (&[date], at(DATE - 3_600, DATE - 2_700), ahead(3_150)),
        // What no clock can be set by: a slow answer, a cached one, one without a date, a clock that was set meanwhile.
        (&[date], at(DATE - 3_601, DATE - 2_700), None),
        (&[date, ("age", "0")], at(DATE - 3_600, DATE - 3_600), None),
        (&[], at(DATE - 3_600, DATE - 3_600), None),
        (&[("date", "yesterday")], at(DATE - 3_600, DATE - 3_600), None),
        (&[date], at(DATE - 3_600, DATE - 3_601), None),
    ] {
        let headers = headers(pairs);
        assert_eq!(Skew::measured(&headers, times), expected, "{pairs:?} {times:?}");
        for code in SKEW_CODES {
            let body = format!("<Error><Code>{code}</Code></Error>");
            let reading = Errors::new().read(StatusCode::FORBIDDEN, &headers, &body, Some(times));
            assert_eq!(reading.skew, expected);
            assert_eq!(reading.class == Class::Transient, expected.is_some(), "{code} {pairs:?}");
            // Without the times nothing is known.
            assert_eq!(read(403, pairs, &body).class, Class::Permanent);
        }
        // Another error says nothing of clocks.
        let reading = Errors::new().read(StatusCode::FORBIDDEN, &headers, "", Some(times));
        assert_eq!((reading.class, reading.skew), (Class::Permanent, None));
    }
}

proptest! {
    /// Whatever comes over the wire is read, and a class of an error is one of three.
    #[test]
    fn any_response_is_read(
        status in 100u16..1000,
        pairs in prop::collection::vec(
            (prop::sample::select(&["x-amzn-errortype", "x-amzn-query-error", "x-amz-retry-after", "date"][..]), "[ -~]{0,40}"),
            0..4,
        ),
        body in prop_oneof![
            "\\PC{0,200}",
            "[{}\\[\\]\":,_a-z]{0,60}",
            "[<>/&;!A-Za-z -]{0,60}",
            Just("[".repeat(100_000)),
            Just(format!("{{\"a\":{}", "[".repeat(100_000))),
            Just("<Error>".repeat(10_000)),
        ],
        sent in 0u64..1 << 40,
        took in 0u64..2_000,
    ) {
        let times = Times { sent: Duration::from_secs(sent), received: Duration::from_secs(sent + took) };
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let status = StatusCode::from_u16(status).unwrap();
        let reading = Errors::new().read(status, &headers(&pairs), &body, Some(times));
        prop_assert_eq!(reading.class == Class::Success, status.is_success());
        let known = [Class::Success, Class::Transient, Class::Throttled, Class::Permanent];
        prop_assert!(known.contains(&reading.class));
        prop_assert!(reading.code.is_none_or(|code| !code.is_empty() && !code.contains(['#', ':', ';'])));
    }
}
