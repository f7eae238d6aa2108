//! What must hold for every input, whoever makes it up: properties, the fuzzer, its corpus.

#![allow(dead_code, reason = "each user needs some of it")]

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use relent_core::Hint;
use relent_http::hint;
use relent_http::layers::{Above, Peer};

/// Headers as they come over the wire, one a line; what is none is left out.
pub(crate) fn headers(text: &str) -> HeaderMap {
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        Some((HeaderName::try_from(name.trim()).ok()?, HeaderValue::try_from(value.trim()).ok()?))
    };
    let mut headers = HeaderMap::new();
    for (name, value) in text.lines().filter_map(header) {
        headers.append(name, value);
    }
    headers
}

/// A response: the status and our own time, headers, an empty line, a body.
pub(crate) fn response(text: &str) {
    let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
    let (first, rest) = head.split_once('\n').unwrap_or((head, ""));
    let (status, now) = first.split_once(' ').unwrap_or((first, ""));
    let status = StatusCode::from_bytes(status.as_bytes()).unwrap_or(StatusCode::SERVICE_UNAVAILABLE);
    let now = Duration::from_secs(now.trim().parse().unwrap_or(1_772_532_180));
    quiet(status, &headers(rest), body, now);
}

/// Whatever a response says: where it asks for quiet, in plain digits, nobody comes back at once.
pub(crate) fn quiet(status: StatusCode, headers: &HeaderMap, body: &str, now: Duration) {
    let asked = hint::read(status, headers, body, now);
    let digits = |name: &str| {
        let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
        let plain = |text: &&str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        values.filter(plain).map(|text| text.parse().unwrap_or(u64::MAX)).max().unwrap_or(0)
    };
    let Some(Hint::After(wait)) = asked else {
        let waits = ["retry-after", "retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"];
        assert!(asked.is_some() || waits.iter().all(|name| digits(name) == 0), "{headers:?}");
        return;
    };
    for name in ["retry-after-ms", "x-ms-retry-after-ms", "x-amz-retry-after"] {
        assert!(wait >= Duration::from_millis(digits(name)), "{name} {wait:?} {headers:?}");
    }
    let seconds = digits("retry-after");
    assert!(wait > Duration::from_secs(seconds.saturating_sub(1)) || seconds == 0, "{wait:?} {headers:?}");
    // More said is never less asked, but for a header in milliseconds that says the same more exactly.
    let mut more = headers.clone();
    more.append(
        "retry-after",
        HeaderValue::from_static("99999999999999999999999999999999999999999999999999"),
    );
    assert_eq!(hint::read(status, &more, body, now), Some(Hint::After(Duration::MAX)));
}

/// Whatever a request or a response says of other layers: strangers are not believed, and what is passed on says the same.
pub(crate) fn layers(text: &str) {
    let headers = headers(text);
    assert_eq!(Peer::Stranger.received(&headers), Above { attempt: 1, remaining: None });
    assert_eq!(Peer::Stranger.gave_up(&headers), None);

    let above = Peer::Ours.received(&headers);
    assert!(above.attempt >= 1);
    let mut passed_on = HeaderMap::new();
    Peer::Ours.send(&mut passed_on, above.attempt, above.remaining);
    let again = Peer::Ours.received(&passed_on);
    let whole = |time: Duration| time.as_millis();
    assert_eq!((again.attempt, again.remaining.map(whole)), (above.attempt, above.remaining.map(whole)));

    if let Some(reason) = Peer::Ours.gave_up(&headers) {
        let mut passed_on = HeaderMap::new();
        Peer::Ours.give_up(&mut passed_on, reason);
        assert_eq!(Peer::Ours.gave_up(&passed_on), Some(reason));
    }
}
