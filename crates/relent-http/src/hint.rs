//! The waits that responses ask for.
//!
//! ```
//! use http::{HeaderMap, HeaderValue, StatusCode};
//! use relent_core::Hint;
//! use relent_http::hint;
//! use std::time::Duration;
//!
//! let mut headers = HeaderMap::new();
//! headers.insert("retry-after", HeaderValue::from_static("Tue, 03 Mar 2026 10:05:00 GMT"));
//! headers.insert("date", HeaderValue::from_static("Tue, 03 Mar 2026 10:03:00 GMT"));
//!
//! // Our own clock is an hour late; the server's is what counts.
//! let now = Duration::from_secs(1_772_532_180 - 3_600);
//! let asked = hint::read(StatusCode::SERVICE_UNAVAILABLE, &headers, "", now);
//! assert_eq!(asked, Some(Hint::After(Duration::from_secs(120))));
//! ```

mod date;
mod number;
mod retry_info;

use std::time::Duration;

use http::header::{AGE, DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use relent_core::Hint;

use crate::texts::texts;
use number::{decimal, whole};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A rate limit's headers: when its window ends, and how many calls it still admits. Of the draft
/// draft-ietf-httpapi-ratelimit-headers up to its version 7; of GitHub and many others; of Twitter and Okta.
const LIMITS: [(&str, &str); 3] = [
    ("ratelimit-reset", "ratelimit-remaining"),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("x-rate-limit-reset", "x-rate-limit-remaining"),
];

/// From here on a number of seconds is a point in time: September 2001, or else a wait of 31 years.
const EPOCH: Duration = Duration::from_secs(1_000_000_000);

/// From here on a point in time is in milliseconds: September 2001 again, or else the year 33658.
const EPOCH_IN_MILLISECONDS: Duration = Duration::from_secs(1_000_000_000_000);

/// What a failed response asks for. `headers` are those of the response, or a gRPC call's trailers; `body` may be empty
/// or cut off; `now` is the time of its arrival, since 1970 began.
///
/// | first of these that says something | asks for |
/// |---|---|
/// | `x-should-retry: false` (SDKs of OpenAI and Anthropic) | [`Hint::Stop`] |
/// | `grpc-retry-pushback-ms` (gRFC A6); twice is no retry, as in grpc-go | [`Hint::Pushback`] or [`Hint::Stop`] |
/// | the longest of `retry-after-ms`, `x-ms-retry-after-ms` (Azure), `x-amz-retry-after`, `Retry-After` and `RetryInfo` | [`Hint::After`] |
/// | the longest of `RateLimit-Reset`, `x-ratelimit-reset`, `x-rate-limit-reset` | [`Hint::After`] |
///
/// **Times.** `Retry-After` is a number of seconds or one of the three forms of dates (RFC 9110 §5.6.7, §10.2.3). A date
/// counts from the response's own `Date`, so that a wrong clock of ours does no harm; from `now` where there is none, or
/// where an `Age` says that the response comes from a cache and its `Date` is old. A date that is past asks for no wait.
/// A year of two digits is the latest that lies no more than 50 years ahead.
///
/// **Two units.** Where `Retry-After` is what a header in milliseconds says, rounded up to whole seconds, the latter counts.
///
/// **`RetryInfo`** (google.rpc) stands in `grpc-status-details-bin`, or in the `details` of a JSON body.
///
/// **Rate limits** send their headers with every response, with a 502 too. They ask for a wait where nothing `remaining`
/// is left, or, where that is not said, with status 429 or 503. From a thousand million on the number is a point in time
/// in seconds, from a million million on in milliseconds; below, a number of seconds from now. A window that has ended asks
/// for nothing.
///
/// What is malformed asks for nothing, fractions are rounded up to the nanosecond, and what is too long to be said is
/// [`Duration::MAX`]. What becomes of it is the policy's: see [`HintPolicy`](relent_core::HintPolicy).
pub fn read(status: StatusCode, headers: &HeaderMap, body: &str, now: Duration) -> Option<Hint> {
    if should_retry(headers) == Some(false) {
        return Some(Hint::Stop);
    }
    let now = servers_time(headers, now);
    pushback(headers).or_else(|| {
        let asked = asked(headers, body, now).or_else(|| limit_ends(status, headers, now));
        asked.map(Hint::After)
    })
}

/// What `x-should-retry` says. Where it says both, it says no.
pub fn should_retry(headers: &HeaderMap) -> Option<bool> {
    texts(headers, "x-should-retry")
        .filter_map(|text| text.to_ascii_lowercase().parse().ok())
        .reduce(|one: bool, other| one && other)
}

/// What `x-amz-retry-after` asks for, in milliseconds; what is no whole number of them asks for nothing.
pub(crate) fn amz_retry_after(headers: &HeaderMap) -> Option<Duration> {
    texts(headers, "x-amz-retry-after").filter_map(|text| whole(text, MILLISECOND)).max()
}

fn pushback(headers: &HeaderMap) -> Option<Hint> {
    let mut values = headers.get_all("grpc-retry-pushback-ms").iter();
    let first = values.next()?;
    match first.to_str() {
        Ok(text) if values.next().is_none() => Some(Hint::pushback_ms(text)),
        _ => Some(Hint::Stop),
    }
}

fn asked(headers: &HeaderMap, body: &str, now: Duration) -> Option<Duration> {
    let milliseconds = |name| texts(headers, name).filter_map(|text| decimal(text, MILLISECOND)).max();
    let fine = [
        milliseconds("retry-after-ms"),
        milliseconds("x-ms-retry-after-ms"),
        amz_retry_after(headers),
        retry_info::read(headers, body),
    ];
    let fine = fine.into_iter().flatten().max();
    let coarse = texts(headers, RETRY_AFTER).filter_map(|text| retry_after(text, now)).max();
    match fine {
        Some(fine) if coarse == Some(rounded_up(fine)) => Some(fine),
        _ => fine.max(coarse),
    }
}

fn retry_after(text: &str, now: Duration) -> Option<Duration> {
    decimal(text, SECOND).or_else(|| Some(date::parse(text, now)?.saturating_sub(now)))
}

fn rounded_up(wait: Duration) -> Duration {
    Duration::from_secs(wait.as_secs().saturating_add(u64::from(wait.subsec_nanos() > 0)))
}

fn limit_ends(status: StatusCode, headers: &HeaderMap, now: Duration) -> Option<Duration> {
    let refuses = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    let ends = |(reset, remaining): (&str, &str)| {
        let remaining = texts(headers, remaining).filter_map(|text| decimal(text, SECOND)).min();
        let struck = remaining.map_or(refuses, |remaining| remaining.is_zero());
        texts(headers, reset).filter(|_| struck).filter_map(|text| time_until(text, now)).max()
    };
    LIMITS.into_iter().filter_map(ends).max()
}

/// Never zero: that a window is over does not ask for a call at once.
fn time_until(text: &str, now: Duration) -> Option<Duration> {
    let number = decimal(text, SECOND)?;
    let wait = match number {
        _ if number < EPOCH => number,
        _ if number < EPOCH_IN_MILLISECONDS => number.saturating_sub(now),
        _ => (number / 1_000).saturating_sub(now),
    };
    (!wait.is_zero()).then_some(wait)
}

fn servers_time(headers: &HeaderMap, now: Duration) -> Duration {
    let cached = headers.contains_key(AGE);
    let date = texts(headers, DATE).find_map(|text| date::parse(text, now));
    date.filter(|_| !cached).unwrap_or(now)
}
