//! What may be sent again, and what can.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod checks;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method};
use http_body::SizeHint;
use proptest::prelude::*;
use relent_core::{Alone, Call, Class, Decision, Moment, Outcome, Policy, Reason, Repeat, Start};
use relent_http::class::Transport;
use relent_http::safety::{Kept, LIMIT, both, of_request};

#[test]
fn idempotent_methods_keys_and_what_the_caller_says() {
    let safe = |method: &str, headers: &str, stated: Option<bool>| {
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        of_request(&method, &checks::headers(headers), stated) == Repeat::Safe
    };
    for (method, idempotent) in [
        ("GET", true),
        ("HEAD", true),
        ("OPTIONS", true),
        ("TRACE", true),
        ("PUT", true),
        ("DELETE", true),
        ("QUERY", true),
        ("POST", false),
        ("PATCH", false),
        ("CONNECT", false),
        ("get", false),
        ("PURGE", false),
    ] {
        assert_eq!(safe(method, "", None), idempotent, "{method}");
        assert!(safe(method, "Idempotency-Key: k-1", None), "{method}");
        assert_eq!(safe(method, "Idempotency-Key: ", None), idempotent, "{method}");
        assert!(safe(method, "", Some(true)), "{method}");
        assert!(!safe(method, "Idempotency-Key: k-1", Some(false)), "{method}");
    }
    let mut headers = HeaderMap::new();
    headers.insert("idempotency-key", HeaderValue::from_bytes(b" \t").unwrap());
    assert_eq!(of_request(&Method::POST, &headers, None), Repeat::NotIdempotent);
}

fn kept(size: SizeHint, limit: u64, chunks: &[&'static str]) -> Kept {
    let mut kept = Kept::new(&size, limit);
    chunks.iter().for_each(|chunk| kept.data(&Bytes::from_static(chunk.as_bytes())));
    kept
}

fn at_least(lower: u64) -> SizeHint {
    let mut size = SizeHint::new();
    size.set_lower(lower);
    size
}

#[test]
fn a_body_is_kept_up_to_its_limit() {
    let unknown = SizeHint::default;
    for (size, limit, chunks, expected) in [
        (unknown(), LIMIT, &["hello=", "", "world"][..], Some("hello=world")),
        (SizeHint::with_exact(11), 11, &["hello=", "world"], Some("hello=world")),
        (unknown(), 10, &["hello=", "world"], None),
        // Once too much, too much for good.
        (unknown(), 10, &["hello=world", "x"], None),
        (unknown(), 10, &["hello=", "world", "x"], None),
        // Nothing is kept of what will be too much, and nothing is lost before it is read.
        (at_least(11), 10, &["h"], None),
        (at_least(11), 10, &[], Some("")),
        (SizeHint::with_exact(11), 10, &[""], Some("")),
        // What can be sent once.
        (unknown(), 0, &[], Some("")),
        (unknown(), 0, &["h"], None),
        (unknown(), u64::MAX, &["hello"], Some("hello")),
    ] {
        let kept = kept(size, limit, chunks);
        let again = kept.again().map(|chunks| String::from_utf8(chunks.concat()).unwrap());
        assert_eq!(again.as_deref(), expected, "{size:?} {limit} {chunks:?}");
        assert_eq!(kept.repeat() == Repeat::Safe, expected.is_some());
        // As often as one likes.
        assert_eq!(kept.again().map(<[Bytes]>::concat), again.map(String::into_bytes));
    }
}

#[test]
fn trailers_are_kept_with_their_body() {
    let trailers = checks::headers("checksum: 5");
    let mut whole = kept(SizeHint::default(), 5, &["hello"]);
    whole.trailers(&trailers);
    assert_eq!(whole.trailers_again(), Some(&trailers));
    whole.data(&Bytes::from_static(b"x"));
    assert_eq!(whole.trailers_again(), None);
    whole.trailers(&trailers);
    assert_eq!(whole.trailers_again(), None);
}

/// Both questions are answered before the first wait, with their reason.
#[test]
fn what_is_not_safe_ends_the_call_before_a_wait() {
    let policy = Policy::default();
    let decide = |method: &Method, outcome: Outcome, kept: &Kept| {
        let mut call = Call::new(None);
        assert_eq!(call.start(&policy, &mut Alone, Moment::timeless(1)), Start::Go);
        let repeat = both(of_request(method, &HeaderMap::new(), None), kept.repeat());
        match call.decide(&policy, &mut Alone, outcome.repeat(repeat), Moment::timeless(1)) {
            Decision::Retry { .. } => None,
            Decision::Stop { reason, .. } => Some(reason),
        }
    };
    let unread = kept(SizeHint::default(), 0, &[]);
    let small = kept(SizeHint::default(), LIMIT, &["hello=world"]);
    let large = kept(SizeHint::default(), 4, &["hello=world"]);
    let busy = Outcome::of(Class::Transient);
    let refused = Outcome::from(Transport::Refused);
    for (method, outcome, kept, expected) in [
        (Method::PUT, busy, &small, None),
        (Method::PUT, busy, &large, Some(Reason::BodyNotReplayable)),
        (Method::POST, busy, &small, Some(Reason::NotIdempotent)),
        (Method::POST, busy, &large, Some(Reason::BodyNotReplayable)),
        (Method::POST, refused, &small, None),
        (Method::POST, refused, &unread, None),
        (Method::POST, refused, &large, Some(Reason::BodyNotReplayable)),
        (Method::PUT, refused, &large, Some(Reason::BodyNotReplayable)),
    ] {
        assert_eq!(decide(&method, outcome, kept), expected, "{method} {outcome:?}");
    }
}

proptest! {
    /// What comes again is what was sent, to the byte, or nothing does; and that depends on its length alone.
    #[test]
    fn bytes_stay_the_same(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..8), limit in 0u64..100) {
        let all = chunks.concat();
        for size in [SizeHint::default(), SizeHint::with_exact(u64::try_from(all.len()).unwrap())] {
            let mut kept = Kept::new(&size, limit);
            chunks.iter().for_each(|chunk| kept.data(&Bytes::copy_from_slice(chunk)));
            let expected = (all.len() <= usize::try_from(limit).unwrap()).then(|| all.clone());
            prop_assert_eq!(kept.again().map(<[Bytes]>::concat), expected);
        }
    }
}
