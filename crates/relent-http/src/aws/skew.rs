//! How far two clocks are apart.

use std::time::{Duration, UNIX_EPOCH};

use http::HeaderMap;
use http::header::{AGE, DATE};

/// A difference from which on a clock is wrong (aws-runtime 1.10.2 `service_clock_skew.rs`, aws-sdk-go-v2
/// `aws/retry/middleware.go`: four minutes).
const TOLERATED: Duration = Duration::from_secs(240);

/// The longest round trip that can be measured with (same sources: a quarter of an hour).
const LONGEST: Duration = Duration::from_secs(900);

/// When a request was sent and its response came, by our clock, since 1970 began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// When the request was sent.
    pub sent: Duration,
    /// When the response came.
    pub received: Duration,
}

/// How far the server's clock is from ours: by more than four minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// Whether the server's is later.
    pub ahead: bool,
    /// By how much they differ.
    pub by: Duration,
}

impl Skew {
    /// The skew that a response shows: its `Date` less the middle of the round trip. None up to four minutes; where the
    /// response has no `Date`, or one that is no date; where it has an `Age`, and so comes from a cache; where the round
    /// trip took more than a quarter of an hour, or less than nothing.
    pub fn measured(headers: &HeaderMap, times: Times) -> Option<Self> {
        let trip = times.received.checked_sub(times.sent)?;
        if headers.contains_key(AGE) || trip > LONGEST {
            return None;
        }
        let date = httpdate::parse_http_date(headers.get(DATE)?.to_str().ok()?).ok()?;
        let date = date.duration_since(UNIX_EPOCH).ok()?;
        let ours = times.sent + trip / 2;
        let skew = Self { ahead: date > ours, by: date.abs_diff(ours) };
        (skew.by > TOLERATED).then_some(skew)
    }
}
