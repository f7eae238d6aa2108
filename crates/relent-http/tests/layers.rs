//! What layers tell each other.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod checks;

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use proptest::prelude::*;
use relent_core::{Alone, Call, Decision, Hint, Moment, Outcome, Policy, Reason, Start};
use relent_http::class::Table;
use relent_http::layers::{Above, Peer};

#[test]
fn attempts_and_what_is_left() {
    let millis = |milliseconds| Some(Duration::from_millis(milliseconds));
    for (headers, attempt, remaining) in [
        ("", 1, None),
        ("relent-attempt: 2\nrelent-remaining-ms: 1500", 2, millis(1_500)),
        ("relent-attempt: 0", 1, None),
        ("relent-attempt: 99999999999999999999", u32::MAX, None),
        ("relent-attempt: -2\nrelent-remaining-ms: soon", 1, None),
        ("relent-attempt: +2\nrelent-remaining-ms: 1.5", 1, None),
        ("relent-remaining-ms: 0", 1, millis(0)),
        ("relent-remaining-ms: 99999999999999999999", 1, millis(u64::MAX)),
        ("x-envoy-attempt-count: 3", 3, None),
        ("x-envoy-attempt-count: 3\nrelent-attempt: 2\ngrpc-previous-rpc-attempts: 1", 3, None),
        ("grpc-previous-rpc-attempts: 3", 4, None),
        ("grpc-previous-rpc-attempts: 0", 1, None),
        ("grpc-previous-rpc-attempts: 4294967295", u32::MAX, None),
        ("x-envoy-expected-rq-timeout-ms: 250\nrelent-remaining-ms: 300", 1, millis(250)),
        ("grpc-timeout: 200m\nrelent-remaining-ms: 300", 1, millis(200)),
        ("grpc-timeout: 1H", 1, millis(3_600_000)),
        ("grpc-timeout: 2M", 1, millis(120_000)),
        ("grpc-timeout: 3S", 1, millis(3_000)),
        ("grpc-timeout: 4000u", 1, millis(4)),
        ("grpc-timeout: 5000000n", 1, millis(5)),
        ("grpc-timeout: 99999999H", 1, millis(99_999_999 * 3_600_000)),
        ("grpc-timeout: 100000000S", 1, None),
        ("grpc-timeout: 5", 1, None),
        ("grpc-timeout: S", 1, None),
        ("grpc-timeout: 5s", 1, None),
        ("grpc-timeout: -5S", 1, None),
    ] {
        let headers = checks::headers(headers);
        assert_eq!(Peer::Ours.received(&headers), Above { attempt, remaining }, "{headers:?}");
        assert_eq!(Peer::Stranger.received(&headers), Above { attempt: 1, remaining: None });
    }
    assert_eq!(Peer::default(), Peer::Stranger);
}

#[test]
fn strangers_are_told_nothing() {
    let mut headers = checks::headers("relent-attempt: 7\nrelent-remaining-ms: 9\naccept: text/plain");
    Peer::Ours.send(&mut headers, 2, None);
    assert_eq!(headers, checks::headers("relent-attempt: 2\naccept: text/plain"));
    Peer::Ours.send(&mut headers, 3, Some(Duration::from_micros(1_999)));
    assert_eq!(headers, checks::headers("relent-attempt: 3\nrelent-remaining-ms: 1\naccept: text/plain"));
    Peer::Stranger.send(&mut headers, 4, Some(Duration::from_secs(1)));
    assert_eq!(headers, checks::headers("accept: text/plain"));

    let mut headers = checks::headers("relent-gave-up: circuit_open\nvary: *");
    Peer::Stranger.give_up(&mut headers, Reason::AttemptsExhausted);
    assert_eq!(headers, checks::headers("vary: *"));
}

#[test]
fn only_what_ends_all_attempts_is_told() {
    for reason in Reason::ALL {
        let told = !matches!(
            reason,
            Reason::Succeeded
                | Reason::NotRetryable
                | Reason::NotIdempotent
                | Reason::BodyNotReplayable
                | Reason::Cancelled
        );
        let mut headers = HeaderMap::new();
        Peer::Ours.give_up(&mut headers, reason);
        assert_eq!(Peer::Ours.gave_up(&headers), told.then_some(reason), "{reason}");
        assert_eq!(Peer::Ours.hint(&headers), told.then_some(Hint::Stop), "{reason}");
        assert_eq!(headers.is_empty(), !told, "{reason}");
        // Whoever writes it himself is believed no more.
        let written = checks::headers(&format!("relent-gave-up: {reason}"));
        assert_eq!(Peer::Ours.hint(&written), told.then_some(Hint::Stop), "{reason}");
        assert_eq!(Peer::Stranger.hint(&written), None);
    }
    // A layer that has nothing to say lets what one below said pass.
    let mut headers = checks::headers("relent-gave-up: circuit_open");
    Peer::Ours.give_up(&mut headers, Reason::PushbackStop);
    assert_eq!(Peer::Ours.gave_up(&headers), Some(Reason::PushbackStop));
    Peer::Ours.give_up(&mut headers, Reason::NotIdempotent);
    assert_eq!(Peer::Ours.gave_up(&headers), Some(Reason::PushbackStop));
    assert_eq!(Peer::Ours.gave_up(&checks::headers("relent-gave-up: weary")), None);
}

/// A layer with three attempts over the layers below; at the bottom a server that is down. Returns its response, and
/// counts the calls that reach the server.
fn call(depth: u32, peer: Peer, calls: &mut u32) -> (StatusCode, HeaderMap) {
    if depth == 0 {
        *calls += 1;
        return (StatusCode::SERVICE_UNAVAILABLE, HeaderMap::new());
    }
    let policy = Policy::default().to_builder().max_attempts(3).build().unwrap();
    let mut own = Call::new(None);
    assert_eq!(own.start(&policy, &mut Alone, Moment::timeless(1)), Start::Go);
    loop {
        let (status, mut headers) = call(depth - 1, peer, calls);
        let outcome = Table::new().response(status, &headers, "", Duration::ZERO);
        let outcome = Outcome { hint: peer.hint(&headers).or(outcome.hint), ..outcome };
        if let Decision::Stop { reason, .. } = own.decide(&policy, &mut Alone, outcome, Moment::timeless(1)) {
            peer.give_up(&mut headers, reason);
            return (status, headers);
        }
    }
}

#[test]
fn three_layers_of_three_attempts() {
    for (depth, peer, expected) in
        [(1, Peer::Ours, 3), (3, Peer::Ours, 3), (3, Peer::Stranger, 27), (2, Peer::Stranger, 9)]
    {
        let mut calls = 0;
        let (status, headers) = call(depth, peer, &mut calls);
        assert_eq!(calls, expected, "{depth} {peer:?}");
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(peer.gave_up(&headers).is_some(), peer == Peer::Ours);
    }
}

proptest! {
    #[test]
    fn any_headers_are_read(
        pairs in prop::collection::vec(
            (
                prop::sample::select(&[
                    "relent-attempt", "relent-remaining-ms", "relent-gave-up", "x-envoy-attempt-count",
                    "x-envoy-expected-rq-timeout-ms", "grpc-previous-rpc-attempts", "grpc-timeout",
                ][..]),
                prop_oneof!["[0-9]{1,22}", "[0-9]{0,9}[HMSmunx€]", "[-+._a-z0-9]{0,20}", "circuit_open|cancelled"],
            ),
            0..6,
        ),
    ) {
        let text: String = pairs.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        checks::layers(&text);
    }
}
