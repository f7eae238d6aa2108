//! Adaptive rate: the AWS SDKs' client rate limiter, which finds out how much the other side takes.

use core::time::Duration;

use crate::Timestamp;

/// A rate that rises by a cubic curve while nothing is throttled and falls to 0.7 of itself when something is
/// (CUBIC, as the AWS SDKs' adaptive mode has it: botocore 1.44.8 `retries/adaptive.py`, aws-smithy-runtime 1.16.2
/// `client_rate_limiter.rs`).
///
/// It limits nothing until the first throttled response; from then on it is never off again. It is told of *every*
/// response, and asked before every attempt. Times that step back count as the latest time seen.
#[derive(Clone, Debug)]
pub struct AdaptiveRate {
    /// Whether something was throttled.
    enabled: bool,
    /// The rate at which responses came, per second, smoothed.
    measured: f64,
    /// Responses since the start of the current half second, and that.
    count: u64,
    bucket: f64,
    /// The rate when something was throttled last, when that was, and when the curve is back there.
    last_max: f64,
    throttled_at: f64,
    /// Tokens: how many there are, at most, and how many come per second.
    capacity: f64,
    max_capacity: f64,
    fill_rate: f64,
    filled_at: Option<f64>,
    /// All times above are seconds since this one, in nanoseconds; and the latest time seen.
    began: Option<u64>,
    latest: u64,
}

/// What remains of the rate when something is throttled.
const BETA: f64 = 0.7;
/// How steep the curve is.
const SCALE: f64 = 0.4;
/// How much the newest half second counts.
const SMOOTH: f64 = 0.8;
/// The lowest rate, per second.
const MIN_FILL_RATE: f64 = 0.5;
/// The smallest bucket.
const MIN_CAPACITY: f64 = 1.0;

impl AdaptiveRate {
    /// One that has seen nothing, and measures from `now` on.
    pub const fn new(now: Timestamp) -> Self {
        Self { began: Some(now.as_nanos()), latest: now.as_nanos(), ..Self::unknown() }
    }

    const fn unknown() -> Self {
        Self {
            enabled: false,
            measured: 0.0,
            count: 0,
            bucket: 0.0,
            last_max: 0.0,
            throttled_at: 0.0,
            capacity: 0.0,
            max_capacity: MIN_CAPACITY,
            fill_rate: MIN_FILL_RATE,
            filled_at: None,
            began: None,
            latest: 0,
        }
    }

    /// Takes in a response.
    pub fn update(&mut self, throttled: bool, now: Timestamp) {
        let now = self.seconds(now);
        self.measure(now);
        let calculated = if throttled {
            let rate = if self.enabled { self.measured.min(self.fill_rate) } else { self.measured };
            self.last_max = rate;
            self.throttled_at = now;
            self.enabled = true;
            rate * BETA
        } else {
            Self::curve(self.last_max, now - self.throttled_at)
        };
        self.set_rate(calculated.min(2.0 * self.measured), now);
    }

    /// Takes tokens for an attempt (AWS since 2026: 1 for each), or says how long to wait before asking again.
    ///
    /// # Errors
    ///
    /// How long it takes until there is enough, if nobody else takes it. Nothing was taken.
    pub fn acquire(&mut self, tokens: u32, now: Timestamp) -> Result<(), Duration> {
        let now = self.seconds(now);
        if !self.enabled {
            return Ok(());
        }
        self.refill(now);
        let missing = f64::from(tokens) - self.capacity;
        let wait = if missing > 0.0 { missing / self.fill_rate * 1e9 } else { 0.0 };
        // A wait that rounds to nothing would be asked for again and again.
        if wait < 1.0 {
            self.capacity = (-missing).max(0.0);
            return Ok(());
        }
        Err(Duration::from_nanos(wait as u64))
    }

    /// The rate that the curve gives `seconds` after one of `last_max` per second was throttled.
    pub fn curve(last_max: f64, seconds: f64) -> f64 {
        let from_there = seconds - Self::recovers_after(last_max);
        SCALE * from_there * from_there * from_there + last_max
    }

    /// How many seconds the curve takes from there back to `last_max`.
    pub fn recovers_after(last_max: f64) -> f64 {
        libm::cbrt(last_max * (1.0 - BETA) / SCALE)
    }

    /// Whether it limits: something was throttled.
    pub const fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// How many attempts per second it allows.
    pub const fn fill_rate(&self) -> f64 {
        self.fill_rate
    }

    /// At what rate responses came, per second, smoothed.
    pub const fn measured_rate(&self) -> f64 {
        self.measured
    }

    /// How many tokens there are.
    pub const fn capacity(&self) -> f64 {
        self.capacity
    }

    fn seconds(&mut self, now: Timestamp) -> f64 {
        self.latest = self.latest.max(now.as_nanos());
        let began = *self.began.get_or_insert(self.latest);
        (self.latest - began) as f64 / 1e9
    }

    fn measure(&mut self, now: f64) {
        let bucket = libm::floor(now * 2.0) / 2.0;
        self.count = self.count.saturating_add(1);
        if bucket > self.bucket {
            let rate = self.count as f64 / (bucket - self.bucket);
            self.measured = rate * SMOOTH + self.measured * (1.0 - SMOOTH);
            self.count = 0;
            self.bucket = bucket;
        }
    }

    fn set_rate(&mut self, rate: f64, now: f64) {
        self.refill(now);
        self.fill_rate = rate.max(MIN_FILL_RATE);
        self.max_capacity = rate.max(MIN_CAPACITY);
        self.capacity = self.capacity.min(self.max_capacity);
    }

    fn refill(&mut self, now: f64) {
        // The first time only starts the clock.
        if let Some(filled_at) = self.filled_at.replace(now) {
            let come = (now - filled_at) * self.fill_rate;
            self.capacity = (self.capacity + come).min(self.max_capacity);
        }
    }
}

/// One that measures from the first thing on that it is asked or told.
impl Default for AdaptiveRate {
    fn default() -> Self {
        Self::unknown()
    }
}
