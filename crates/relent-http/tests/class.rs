//! What statuses and broken connections mean.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod checks;

use std::time::Duration;

use http::StatusCode;
use relent_core::{Alone, Call, Class, Decision, Hint, Moment, Outcome, Policy, Reason, Repeat, Start};
use relent_http::class::{Table, Transport};

fn status(status: u16) -> StatusCode {
    StatusCode::from_u16(status).unwrap()
}

fn response(table: &Table, code: u16, headers: &str) -> Outcome {
    table.response(status(code), &checks::headers(headers), "", Duration::ZERO)
}

#[test]
fn every_status_has_a_class() {
    let table = Table::new();
    for code in 100..1000 {
        let expected = match code {
            0..400 => Class::Success,
            429 => Class::Throttled,
            408 | 500 | 502 | 503 | 504 => Class::Transient,
            _ => Class::Permanent,
        };
        assert_eq!(table.status(status(code)), expected, "{code}");
    }
}

#[test]
fn the_table_can_be_changed() {
    let table = Table::new()
        .with(Class::Transient, [409, 425].map(status))
        .with(Class::Permanent, [500].map(status))
        .with(Class::Success, [404].map(status))
        .with(Class::Transient, [202].map(status));
    for (code, class) in [
        (202, Class::Transient),
        (404, Class::Success),
        (409, Class::Transient),
        (425, Class::Transient),
        (429, Class::Throttled),
        (500, Class::Permanent),
        (503, Class::Transient),
    ] {
        assert_eq!(table.status(status(code)), class, "{code}");
    }
    assert_eq!(table.clone().with(Class::Ignored, [status(409)]).status(status(409)), Class::Ignored);
}

#[test]
fn responses_have_hints_unless_they_are_successes() {
    let table = Table::new().with(Class::Success, [status(404)]);
    let asked = Some(Hint::After(Duration::from_secs(5)));
    for (code, headers, class, hint) in [
        (503, "retry-after: 5", Class::Transient, asked),
        (429, "retry-after: 5", Class::Throttled, asked),
        (429, "ratelimit-reset: 5", Class::Throttled, asked),
        (500, "ratelimit-reset: 5", Class::Transient, None),
        (413, "retry-after: 5", Class::Permanent, asked),
        (200, "retry-after: 5", Class::Success, None),
        (301, "retry-after: 5", Class::Success, None),
        (404, "retry-after: 5", Class::Success, None),
        (200, "x-should-retry: true", Class::Success, None),
        (409, "x-should-retry: true", Class::Transient, None),
        (409, "x-should-retry: true\nx-should-retry: false", Class::Permanent, Some(Hint::Stop)),
        (409, "x-should-retry: false", Class::Permanent, Some(Hint::Stop)),
        (429, "x-should-retry: true", Class::Throttled, None),
        (503, "x-should-retry: false\nretry-after: 5", Class::Transient, Some(Hint::Stop)),
    ] {
        let outcome = response(&table, code, headers);
        assert_eq!((outcome.class, outcome.hint), (class, hint), "{code} {headers}");
        assert_eq!(outcome.repeat, Repeat::Safe);
    }
}

#[test]
fn broken_connections() {
    for transport in Transport::ALL {
        let class = match transport {
            Transport::Dns
            | Transport::Refused
            | Transport::NotConnected
            | Transport::ConnectTimeout
            | Transport::Handshake
            | Transport::NotProcessed => Class::NotSent,
            Transport::Reset | Transport::Closed => Class::Transient,
            Transport::Calm => Class::Throttled,
            Transport::Timeout => Class::Timeout,
            Transport::Cancelled => Class::Cancelled,
            _ => Class::Permanent,
        };
        assert_eq!(Outcome::from(transport), Outcome::of(class), "{transport:?}");
    }
}

/// POSTs on streams 5 and 7: only what the server surely did not process is sent again.
#[test]
fn http2_says_what_was_not_processed() {
    let policy = Policy::default();
    let retried = |transport: Transport| {
        let mut call = Call::new(None);
        assert_eq!(call.start(&policy, &mut Alone, Moment::timeless(1)), Start::Go);
        let outcome = Outcome::from(transport).repeat(Repeat::NotIdempotent);
        match call.decide(&policy, &mut Alone, outcome, Moment::timeless(1)) {
            Decision::Retry { .. } => true,
            Decision::Stop { reason, .. } => {
                assert!(matches!(reason, Reason::NotIdempotent | Reason::NotRetryable), "{reason}");
                false
            }
        }
    };
    for code in 0..=0x10 {
        assert!(retried(Transport::of_goaway(7, 5, code)), "{code}");
        assert!(!retried(Transport::of_goaway(5, 5, code)), "{code}");
        assert!(!retried(Transport::of_goaway(3, 5, code)), "{code}");
        assert_eq!(retried(Transport::of_reset(code)), code == 7, "{code}");
    }
    assert_eq!(Transport::of_reset(2), Transport::Reset);
    assert_eq!(Transport::of_reset(0xb), Transport::Calm);
    assert_eq!(Transport::of_reset(0xd), Transport::Protocol);
    assert_eq!(Transport::of_goaway(5, 5, 0xb), Transport::Calm);
    assert_eq!(Transport::of_goaway(5, 5, 0x7), Transport::Reset);
    assert!(!retried(Transport::Reset) && !retried(Transport::Closed) && retried(Transport::Refused));
}

#[cfg(feature = "config")]
mod in_files {
    use relent_config::{Code, Reader};
    use relent_http::class::TABLE;

    use super::*;

    fn read(http: &str) -> Result<Table, Vec<(Code, Option<usize>, String)>> {
        let text = format!(
            "version = 1\n[policies.base]\nhttp.transient = [409, 425]\n[policies.p]\nbase = \"base\"\n{http}\n"
        );
        let file = Reader::new().policy_table(TABLE).parse(&text, "relent.toml").unwrap();
        let mut checks = file.checks();
        let table = Table::of_policy(file.resolved("p").unwrap(), &mut checks);
        let told =
            |error: &relent_config::Diagnostic| (error.code(), error.line(), error.message().to_owned());
        checks.finish().map(|()| table).map_err(|errors| errors.iter().map(told).collect())
    }

    #[test]
    fn a_policy_has_a_table() {
        let table = read("").unwrap();
        assert_eq!(table, Table::new().with(Class::Transient, [409, 425].map(status)));
        let table =
            read("http = { transient = [423], ignored = [404], not_sent = [421], permanent = [] }").unwrap();
        let expected = Table::new()
            .with(Class::Transient, [status(423)])
            .with(Class::Ignored, [status(404)])
            .with(Class::NotSent, [status(421)]);
        assert_eq!(table, expected);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_place() {
        for (http, code, message) in [
            ("http.transientt = [409]", Code::UnknownKey, "unknown key `transientt` in `http`"),
            ("http.cancelled = [409]", Code::UnknownKey, "unknown key `cancelled` in `http`"),
            ("http.transient = 409", Code::WrongType, "http.transient"),
            ("http.transient = [99]", Code::WrongType, "http.transient"),
            ("http.transient = [600]", Code::WrongType, "http.transient"),
            ("http.transient = [65945]", Code::WrongType, "http.transient"),
            ("http.transient = [-1]", Code::WrongType, "http.transient"),
            ("http.transient = [\"5xx\"]", Code::WrongType, "http.transient"),
            ("http.transient = [409, 409]", Code::NoEffect, "status 409 stands twice in `http.transient`"),
            (
                "http.permanent = [425]",
                Code::Conflict,
                "status 425 is in `http.transient` and in `http.permanent`",
            ),
        ] {
            let told = read(http).unwrap_err();
            assert_eq!(told.len(), 1, "{told:?}");
            assert_eq!((told[0].0, told[0].1), (code, Some(6)), "{told:?}");
            assert!(told[0].2.contains(message), "{told:?}");
        }
        assert_eq!(read("http = { transient = [1, 2], x = 3 }").unwrap_err().len(), 3);
    }
}
