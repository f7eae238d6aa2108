//! Waits that the server asks for: `Retry-After`, gRPC pushback and their kin.

use core::time::Duration;

use crate::jitter::scale;
use crate::time::nanos;

/// What a server asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Come back after this time (`Retry-After`, `x-ratelimit-reset`, …). What the policy makes of it is its
    /// [`HintPolicy`].
    After(Duration),
    /// Come back after exactly this time, and start the backoff afresh (gRPC's pushback, gRFC A6). It takes neither
    /// jitter nor spread. Of the policy, `max` holds and [`HintMode::Ignore`]; the other modes make no difference.
    Pushback(Duration),
    /// Do not come back (gRPC's negative pushback, `x-should-retry: false`).
    Stop,
}

impl Hint {
    /// What gRPC's header `grpc-retry-pushback-ms` asks for (gRFC A6): a wait in milliseconds as a signed 32-bit
    /// number; where it is negative, or no such number, no retry.
    ///
    /// ```
    /// use core::time::Duration;
    /// use relent_core::Hint;
    ///
    /// assert_eq!(Hint::pushback_ms("250"), Hint::Pushback(Duration::from_millis(250)));
    /// assert_eq!(Hint::pushback_ms("-1"), Hint::Stop);
    /// assert_eq!(Hint::pushback_ms("soon"), Hint::Stop);
    /// ```
    pub fn pushback_ms(header: &str) -> Self {
        let digits = header.bytes().all(|byte| byte.is_ascii_digit());
        match header.parse::<i32>().ok().and_then(|wait| u64::try_from(wait).ok()) {
            // The parser of numbers lets a plus sign pass.
            Some(wait) if digits => Self::Pushback(Duration::from_millis(wait)),
            _ => Self::Stop,
        }
    }
}

/// What a policy makes of hints.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HintPolicy {
    pub(crate) mode: HintMode,
    pub(crate) max: u64,
    pub(crate) over_max: OverMax,
    /// The spread in units of 2⁻⁶³.
    pub(crate) spread: u64,
}

/// How a hint and the schedule make one wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HintMode {
    /// Never earlier than the server asked: the larger of schedule and hint.
    Minimum,
    /// The hint replaces the schedule.
    Exact,
    /// The hint, but between the scheduled wait `t` and `t` + this (AWS SDKs, 2026: 5 s). Takes no spread. Where the
    /// scheduled wait is the longer one, it is the wait's source.
    Clamp(Duration),
    /// Hints are not looked at. [`Hint::Stop`] still stops.
    Ignore,
}

/// What happens with a hint above the policy's maximum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OverMax {
    /// The call ends at once with [`Reason::HintOverMax`](crate::Reason::HintOverMax): coming back earlier than
    /// asked is of no use.
    Abort,
    /// The hint counts as the maximum (which is then spread, as any hint is).
    Clamp,
    /// The scheduled wait is taken as if there were no hint.
    Ignore,
}

impl HintPolicy {
    /// Hints as a minimum, up to 60 s, longer ones end the call, spread over 10 % more than asked.
    pub const DEFAULT: Self =
        Self { mode: HintMode::Minimum, max: 60_000_000_000, over_max: OverMax::Abort, spread: ratio(0.1) };

    /// The same in another mode. Default: [`HintMode::Minimum`].
    #[must_use]
    pub const fn mode(self, mode: HintMode) -> Self {
        Self { mode, ..self }
    }

    /// The longest hint that is obeyed. Default: 60 s.
    #[must_use]
    pub const fn max(self, max: Duration) -> Self {
        Self { max: nanos(max), ..self }
    }

    /// What happens with longer ones. Default: [`OverMax::Abort`].
    #[must_use]
    pub const fn over_max(self, over_max: OverMax) -> Self {
        Self { over_max, ..self }
    }

    /// How much later than asked a client may come back, as a fraction of the hint from 0 to 1, drawn anew each
    /// time; never earlier. Default: 0.1. A thousand clients told "60 s" must not return together. What is below 0 or
    /// not a number is 0, what is above 1 is 1; the policy file refuses both.
    #[must_use]
    pub const fn spread(self, fraction: f64) -> Self {
        Self { spread: ratio(fraction), ..self }
    }

    /// The mode.
    pub const fn mode_used(&self) -> HintMode {
        self.mode
    }

    /// The longest hint that is obeyed.
    pub const fn max_wait(&self) -> Duration {
        Duration::from_nanos(self.max)
    }

    /// What happens with longer ones.
    pub const fn over_max_used(&self) -> OverMax {
        self.over_max
    }

    /// The spread as a fraction.
    pub const fn spread_fraction(&self) -> f64 {
        self.spread as f64 / (1u64 << 63) as f64
    }

    /// `asked`, spread one-sidedly.
    pub(crate) fn spread_out(&self, asked: u64, entropy: u64) -> u64 {
        asked.saturating_add(scale(fraction_of(asked, self.spread), entropy))
    }
}

impl Default for HintPolicy {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// A fraction from 0 to 1 in units of 2⁻⁶³: every float from 2⁻¹¹ up is held exactly. NaN is 0.
pub(crate) const fn ratio(fraction: f64) -> u64 {
    let units = fraction * (1u64 << 63) as f64;
    let whole = units as u64; // saturating, NaN is 0
    if whole > 1 << 63 { 1 << 63 } else { whole }
}

/// `ratio × nanos`, to the nearest nanosecond; at most `nanos`.
pub(crate) const fn fraction_of(nanos: u64, ratio: u64) -> u64 {
    ((nanos as u128 * ratio as u128 + (1 << 62)) >> 63) as u64
}
