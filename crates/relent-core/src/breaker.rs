//! Circuit breakers: a target that fails is left alone for a while, then tried with a few probes.

mod window;

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;

pub use window::{BreakerWindow, WindowSnapshot};
use window::{Counts, Seen, Window};

use crate::policy::refuse;
use crate::time::nanos;
use crate::{
    Backoff, Class, Jitter, Memory, Multiplier, Outcome, PolicyError, Ratio, Schedule, Timestamp, UnknownWord,
};

/// What a breaker is to be: over what it looks, at what it opens, for how long, and how it closes again.
///
/// | part | default | why |
/// |---|---|---|
/// | `min_calls` | 20 (for windows by count at most their size) | two failures of three calls say little |
/// | `failure_ratio` | 0.5 | |
/// | `slow_ratio` | none | only the caller knows what is slow |
/// | `open_for` | 5 s, doubling while it reopens, cap 2 min, ± 20 % | a fleet's breakers must not probe in step |
/// | `max_probes` | 1 | |
/// | `success_ratio` | 1 | of the probes |
/// | `max_probe_duration` | 60 s | a probe that hangs must not keep everybody out |
/// | `ramp` | none | |
/// | `mode` | automatic | |
///
/// Thresholds are met where they are reached: 5 of 10 meet 0.5. They are looked at when a call fails or is slow, and when
/// there are enough calls at last: a success does not open a breaker just because older ones have left its window.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct BreakerPolicy {
    /// Over what it looks.
    pub window: BreakerWindow,
    /// How many calls the window must hold before ratios say anything.
    pub min_calls: u32,
    /// How many failures open it, whatever the ratio.
    pub failures: Option<u32>,
    /// The ratio of failures that opens it.
    pub failure_ratio: Option<Ratio>,
    /// The ratio of slow calls that opens it.
    pub slow_ratio: Option<Ratio>,
    /// From when on a call is slow.
    pub slow_after: Duration,
    /// How long it stays open.
    pub open_for: Backoff,
    /// How many probes half-open admits.
    pub max_probes: u32,
    /// The ratio of the probes that must succeed.
    pub success_ratio: Ratio,
    /// When a probe that has not come back is given up.
    pub max_probe_duration: Duration,
    /// Over which time the calls come back after the probes.
    pub ramp: Duration,
    /// In which mode it begins.
    pub mode: BreakerMode,
}

/// Probes in one half-open state; each takes 16 bytes.
const MOST_PROBES: u32 = 1_000;

impl BreakerPolicy {
    /// Opens at this many failures in a row.
    pub fn consecutive(failures: u32) -> Self {
        Self { failures: Some(failures), failure_ratio: None, ..Self::new(BreakerWindow::Consecutive) }
    }

    /// Looks at the last `calls`, whenever they were.
    pub fn count(calls: u32) -> Self {
        let policy = Self::new(BreakerWindow::Count(calls));
        Self { min_calls: policy.min_calls.min(calls), ..policy }
    }

    /// Looks at the calls of the last `size`, which slides in steps of a tenth of it.
    pub fn time(size: Duration) -> Self {
        Self::new(BreakerWindow::Time(size))
    }

    fn new(window: BreakerWindow) -> Self {
        let initial = Duration::from_secs(5);
        let open_for = Backoff::new(Schedule::Exponential { initial, multiplier: Multiplier::TWO });
        Self {
            window,
            min_calls: 20,
            failures: None,
            failure_ratio: Some(Ratio::percent(50)),
            slow_ratio: None,
            slow_after: Duration::MAX,
            open_for: open_for.cap(Duration::from_secs(120)).jitter(Jitter::Proportional { factor: 0.2 }),
            max_probes: 1,
            success_ratio: Ratio::ONE,
            max_probe_duration: Duration::from_secs(60),
            ramp: Duration::ZERO,
            mode: BreakerMode::Automatic,
        }
    }

    /// Ratios say nothing before this many calls are in the window. Default: 20.
    #[must_use]
    pub fn min_calls(self, calls: u32) -> Self {
        Self { min_calls: calls, ..self }
    }

    /// Opens at this many failures in the window (or, without a window, in a row), however many calls there are.
    /// Default: none.
    #[must_use]
    pub fn failures(self, failures: u32) -> Self {
        Self { failures: Some(failures), ..self }
    }

    /// Opens where this ratio of the window's calls failed. Default: 0.5, except where failures in a row are counted.
    #[must_use]
    pub fn failure_ratio(self, ratio: Ratio) -> Self {
        Self { failure_ratio: Some(ratio), ..self }
    }

    /// No ratio of failures opens it.
    #[must_use]
    pub fn no_failure_ratio(self) -> Self {
        Self { failure_ratio: None, ..self }
    }

    /// Opens where this ratio of the window's calls took at least `after`. A call that is dropped after that time
    /// counts too: the worst target must not look best. Default: none.
    #[must_use]
    pub fn slow_calls(self, ratio: Ratio, after: Duration) -> Self {
        Self { slow_ratio: Some(ratio), slow_after: after, ..self }
    }

    /// How long it stays open; its schedule grows while the breaker reopens.
    #[must_use]
    pub fn open_for(self, backoff: Backoff) -> Self {
        Self { open_for: backoff, ..self }
    }

    /// How many calls are let through to find out whether the target is back, from 1 to 1000. Default: 1.
    #[must_use]
    pub fn max_probes(self, probes: u32) -> Self {
        Self { max_probes: probes, ..self }
    }

    /// The ratio of the probes that must succeed. Default: 1.
    #[must_use]
    pub fn success_ratio(self, ratio: Ratio) -> Self {
        Self { success_ratio: ratio, ..self }
    }

    /// How long a probe may take before it counts as failed. Default: 60 s.
    #[must_use]
    pub fn max_probe_duration(self, duration: Duration) -> Self {
        Self { max_probe_duration: duration, ..self }
    }

    /// After the probes the calls come back gradually: a tenth of them at once, all of them after this time.
    /// Default: zero, which is all of them at once.
    #[must_use]
    pub fn ramp(self, ramp: Duration) -> Self {
        Self { ramp, ..self }
    }

    /// The mode that it begins in, until it is [set by hand](Breaker::set_mode). Default: [`BreakerMode::Automatic`].
    #[must_use]
    pub fn mode(self, mode: BreakerMode) -> Self {
        Self { mode, ..self }
    }

    /// Over what it looks.
    pub const fn window(&self) -> BreakerWindow {
        self.window
    }

    /// Whether the time at a call's end matters, and not only at its beginning.
    pub const fn times_calls(&self) -> bool {
        self.slow_ratio.is_some()
    }

    /// Looks whether it can work.
    ///
    /// # Errors
    ///
    /// What cannot, by the key of a policy file.
    pub fn check(&self) -> Result<(), PolicyError> {
        let ratios = [
            ("failure_ratio", self.failure_ratio),
            ("slow_ratio", self.slow_ratio),
            ("success_ratio", Some(self.success_ratio)),
        ];
        for (key, ratio) in ratios {
            if ratio.is_some_and(|ratio| !ratio.is_share()) {
                return Err(refuse(key, "must be above 0 and at most 1"));
            }
        }
        if self.failures == Some(0) {
            return Err(refuse("failures", "opens before anything failed"));
        }
        self.window.check(self.min_calls, self.failures)?;
        if self.min_calls == 0 {
            return Err(refuse("min_calls", "must be at least 1"));
        }
        if !(1..=MOST_PROBES).contains(&self.max_probes) {
            return Err(refuse("max_probes", "must be from 1 to 1000"));
        }
        if self.max_probe_duration.is_zero() {
            return Err(refuse("max_probe_duration", "gives up each probe at once"));
        }
        match self.window {
            BreakerWindow::Consecutive if self.failures.is_none() => {
                Err(refuse("failures", "is needed where failures in a row are counted"))
            }
            BreakerWindow::Consecutive if self.failure_ratio.is_some() || self.slow_ratio.is_some() => {
                Err(refuse("failure_ratio", "needs a window: failures in a row have no ratio"))
            }
            _ if self.failures.or(self.failure_ratio.map(|_| 0)).or(self.slow_ratio.map(|_| 0)).is_none() => {
                Err(refuse("failure_ratio", "nothing ever opens it"))
            }
            _ => crate::policy::check_backoff(&self.open_for),
        }
    }
}

/// What holds whatever the target does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerMode {
    /// It opens and closes by what it sees.
    #[default]
    Automatic,
    /// Nothing is admitted.
    ForcedOpen,
    /// All is admitted, and nothing counted but the statistics.
    Disabled,
    /// All is admitted, and counted, so that one can see what it would do.
    MetricsOnly,
}

impl BreakerMode {
    /// All modes.
    pub const ALL: [Self; 4] = [Self::Automatic, Self::ForcedOpen, Self::Disabled, Self::MetricsOnly];

    /// The mode's stable word: `"automatic"`, `"forced_open"` …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Automatic => "automatic",
            Self::ForcedOpen => "forced_open",
            Self::Disabled => "disabled",
            Self::MetricsOnly => "metrics_only",
        }
    }
}

impl FromStr for BreakerMode {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|known| known.as_str() == word).ok_or(UnknownWord)
    }
}

impl fmt::Display for BreakerMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Where a breaker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum BreakerState {
    /// Calls pass.
    Closed,
    /// Calls pass, more of them as time goes by.
    Returning,
    /// No call passes.
    Open,
    /// Probes pass.
    HalfOpen,
}

impl BreakerState {
    /// All states.
    pub const ALL: [Self; 4] = [Self::Closed, Self::Returning, Self::Open, Self::HalfOpen];

    /// The state's stable word: `"closed"`, `"half_open"` …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Returning => "returning",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

impl FromStr for BreakerState {
    type Err = UnknownWord;

    fn from_str(word: &str) -> Result<Self, UnknownWord> {
        Self::ALL.into_iter().find(|known| known.as_str() == word).ok_or(UnknownWord)
    }
}

impl fmt::Display for BreakerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// What a breaker has seen since it was made, late results included, as far as it was told: see [`Standing`] for the
/// successes of which it need not be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BreakerStatistics {
    /// Attempts that the target answered (`success`, `permanent`).
    pub successes: u64,
    /// Attempts that failed.
    pub failures: u64,
    /// Attempts of either kind, or dropped, that were slow.
    pub slow: u64,
    /// Attempts that say nothing (`ignored`, `cancelled`, dropped).
    pub ignored: u64,
    /// Results that came after the state had changed, and changed nothing.
    pub late: u64,
    /// Probes that were given up.
    pub given_up: u64,
    /// Attempts that were not admitted.
    pub refused: u64,
    /// How often it opened.
    pub opened: u64,
}

/// A circuit breaker's state. Times that step back count as the latest time seen.
///
/// Each admission is a [`Permit`] that must be given back: with its outcome to [`settle`](Self::settle), without one to
/// [`abandon`](Self::abandon), or before its attempt has started to [`release`](Self::release). A permit knows the state that it was admitted in, so that a result which comes after
/// that state has ended changes nothing but the statistics.
///
/// Half-open admits exactly `max_probes`, in any order of events. A probe that is abandoned makes room for another, one
/// that never comes back counts as failed after `max_probe_duration`. The state ends as soon as the ratio of
/// successes is certain.
///
/// ```
/// use core::time::Duration;
/// use relent_core::{Breaker, BreakerPolicy, BreakerState, Class, Outcome, Timestamp};
///
/// let mut breaker = Breaker::new(BreakerPolicy::consecutive(3), 7)?;
/// let now = Timestamp::ZERO;
/// for _ in 0..3 {
///     let permit = breaker.admit(now).unwrap();
///     breaker.settle(permit, &Outcome::of(Class::Transient), now);
/// }
/// assert_eq!(breaker.state(now), BreakerState::Open);
/// let ready = breaker.admit(now).unwrap_err().ready_at.unwrap();
///
/// let probe = breaker.admit(ready).unwrap();
/// assert!(breaker.admit(ready).is_err());
/// breaker.settle(probe, &Outcome::of(Class::Success), ready);
/// assert_eq!(breaker.state(ready), BreakerState::Closed);
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Breaker {
    policy: BreakerPolicy,
    seed: u64,
    mode: BreakerMode,
    phase: Phase,
    window: Window,
    probes: Vec<Probe>,
    /// Changes with each state.
    generation: u64,
    /// How often it has opened since it was last closed for good.
    opens: u32,
    /// What the open time's schedule remembers.
    memory: Memory,
    latest: u64,
    statistics: BreakerStatistics,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Closed,
    /// Since when, and what share of a call is still owed, in millionths.
    Returning {
        since: u64,
        owed: u64,
    },
    Open {
        until: u64,
    },
    HalfOpen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Probe {
    Free,
    Running { since: u64 },
    Succeeded,
    Failed,
}

/// That an attempt was admitted. Plain data, but there is only one of each.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a permit that is not given back is a probe that hangs"]
pub struct Permit {
    generation: u64,
    since: u64,
    /// Which of the probes it is.
    probe: Option<u32>,
}

impl Permit {
    /// Whether it is a probe's.
    pub const fn is_probe(&self) -> bool {
        self.probe.is_some()
    }
}

/// How a breaker stands, in one word: what can be known of it without asking, so that in health threads need not meet.
///
/// While it [admits all](Self::admits_all), an attempt may begin without [`Breaker::admit`] and ask for its permit when
/// it has ended. While it is [at rest](Self::is_at_rest) as well, an attempt that succeeds need not be settled: the
/// success would change nothing that anybody could tell from the breaker, but for the statistics, which do not count it.
/// Both are true of the moment that the word is from.
///
/// ```
/// use relent_core::{Breaker, BreakerPolicy, Class, Outcome, Timestamp};
///
/// let mut breaker = Breaker::new(BreakerPolicy::consecutive(3), 7)?;
/// let standing = breaker.standing();
/// assert!(standing.admits_all() && standing.is_at_rest());
/// // An attempt that began without asking has failed.
/// let permit = standing.permit(Timestamp::ZERO);
/// breaker.settle(permit, &Outcome::of(Class::Transient), Timestamp::ZERO);
/// assert!(breaker.standing().admits_all() && !breaker.standing().is_at_rest());
/// # Ok::<(), relent_core::PolicyError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing(u64);

impl Standing {
    const ADMITS_ALL: u64 = 1;
    const AT_REST: u64 = 2;
    /// One success more that can be counted in the word, of at most so many.
    const ROOM: u64 = 4;
    const MOST_ROOM: u64 = 255;
    /// Where the generation begins.
    const SHIFT: u32 = 10;

    /// Whether an attempt is admitted whenever it comes, and its admission changes nothing.
    #[inline]
    pub const fn admits_all(self) -> bool {
        self.0 & Self::ADMITS_ALL != 0
    }

    /// Whether a success of an attempt that was admitted in this state changes nothing either.
    #[inline]
    pub const fn is_at_rest(self) -> bool {
        self.0 & Self::AT_REST != 0
    }

    /// The permit of an attempt that began in this state, while it admitted all.
    #[inline]
    pub const fn permit(self, since: Timestamp) -> Permit {
        Permit { generation: self.0 >> Self::SHIFT, since: since.as_nanos(), probe: None }
    }

    /// Counts the success of an attempt that began in this state in the word: how it stands then. The breaker is told by
    /// [`Breaker::resume`]. None where there is no room, or the attempt began in another state: then the breaker is to be
    /// told itself.
    #[inline]
    #[must_use]
    pub const fn take_success(self, began: Self) -> Option<Self> {
        let same = self.0 >> Self::SHIFT == began.0 >> Self::SHIFT;
        if same && self.room() > 0 { Some(Self(self.0 - Self::ROOM)) } else { None }
    }

    /// Without room for successes: they wait until the breaker can be told.
    #[inline]
    #[must_use]
    pub const fn without_room(self) -> Self {
        Self(self.0 & !(Self::MOST_ROOM * Self::ROOM))
    }

    /// How many successes more can be counted in the word.
    #[inline]
    pub const fn room(self) -> u64 {
        (self.0 / Self::ROOM) & Self::MOST_ROOM
    }

    /// The word.
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// How a breaker stood whose word this is.
    #[inline]
    pub const fn from_bits(word: u64) -> Self {
        Self(word)
    }
}

/// Generations leave room for the rest of the word, and come round after ten million times the states that a breaker
/// can go through in a year.
const GENERATIONS: u64 = u64::MAX >> Standing::SHIFT;

/// That an attempt was not admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused {
    /// When the breaker will admit attempts again; none where that depends on attempts under way, or on chance.
    pub ready_at: Option<Timestamp>,
}

impl Breaker {
    /// A closed breaker that has seen nothing. The seed is for the jitter of its open times: another one for each.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy, by the key of a policy file.
    pub fn new(policy: BreakerPolicy, seed: u64) -> Result<Self, PolicyError> {
        policy.check()?;
        let probes = (0..policy.max_probes).map(|_| Probe::Free).collect();
        Ok(Self {
            seed,
            mode: policy.mode,
            phase: Phase::Closed,
            window: Window::new(policy.window),
            probes,
            generation: 0,
            opens: 0,
            memory: Memory::default(),
            latest: 0,
            statistics: BreakerStatistics::default(),
            policy,
        })
    }

    /// Admits an attempt, or says when to come back.
    ///
    /// # Errors
    ///
    /// The attempt is not to be made.
    #[inline]
    pub fn admit(&mut self, now: Timestamp) -> Result<Permit, Refused> {
        let now = self.advance(now);
        let admitted = match self.mode {
            BreakerMode::Automatic => self.admit_by_phase(now),
            BreakerMode::ForcedOpen => Err(Refused { ready_at: Some(Timestamp::MAX) }),
            BreakerMode::Disabled | BreakerMode::MetricsOnly => Ok(self.permit(now, None)),
        };
        if admitted.is_err() {
            count(&mut self.statistics.refused);
        }
        admitted
    }

    /// Takes in how an admitted attempt ended.
    #[inline]
    pub fn settle(&mut self, permit: Permit, outcome: &Outcome, now: Timestamp) {
        match outcome.class {
            Class::Ignored | Class::Cancelled => self.abandon(permit, now),
            class => {
                let now = self.advance(now);
                let failed = class.is_failure();
                let seen = Seen { failed, slow: self.is_slow(&permit, now) };
                count(if failed { &mut self.statistics.failures } else { &mut self.statistics.successes });
                self.take_in(&permit, seen, now);
            }
        }
    }

    /// Takes back a permit whose attempt came to no result: it says nothing, unless it had been slow already.
    pub fn abandon(&mut self, permit: Permit, now: Timestamp) {
        let now = self.advance(now);
        count(&mut self.statistics.ignored);
        if self.is_slow(&permit, now) {
            self.take_in(&permit, Seen { failed: false, slow: true }, now);
        } else {
            self.release(permit);
        }
    }

    /// Takes back a permit whose attempt never started.
    pub fn release(&mut self, permit: Permit) {
        if let Some(probe @ Probe::Running { .. }) = self.probe(&permit) {
            *probe = Probe::Free;
        }
    }

    /// Where it is. The mode stands beside it.
    pub fn state(&mut self, now: Timestamp) -> BreakerState {
        self.advance(now);
        self.latest_state()
    }

    /// Where it was when it was asked last: time may have passed since.
    pub const fn latest_state(&self) -> BreakerState {
        match self.phase {
            Phase::Closed => BreakerState::Closed,
            Phase::Returning { .. } => BreakerState::Returning,
            Phase::Open { .. } => BreakerState::Open,
            Phase::HalfOpen => BreakerState::HalfOpen,
        }
    }

    /// The number of the state that it is in: results of an attempt that was admitted under another one come too late.
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// When attempts will be admitted again, if none is now and only time is missing.
    #[inline]
    pub fn ready_at(&mut self, now: Timestamp) -> Option<Timestamp> {
        self.advance(now);
        match (self.mode, self.phase) {
            (BreakerMode::Automatic, Phase::Open { until }) => Some(Timestamp::from_nanos(until)),
            (BreakerMode::ForcedOpen, _) => Some(Timestamp::MAX),
            _ => None,
        }
    }

    /// What holds whatever the target does.
    pub const fn mode(&self) -> BreakerMode {
        self.mode
    }

    /// Sets what holds whatever the target does. In a new mode the breaker begins closed, and has seen nothing.
    pub fn set_mode(&mut self, mode: BreakerMode, now: Timestamp) {
        if mode != self.mode {
            self.reset(now);
            self.mode = mode;
        }
    }

    /// Closes it, and forgets what it has seen but for the statistics.
    pub fn reset(&mut self, now: Timestamp) {
        self.advance(now);
        self.opens = 0;
        self.memory = Memory::default();
        self.enter(Phase::Closed);
    }

    /// Opens it as if it had seen too many failures.
    pub fn trip(&mut self, now: Timestamp) {
        let now = self.advance(now);
        self.open(now);
    }

    /// The ratio of failures in the window; none before `min_calls`.
    pub fn failure_ratio(&mut self, now: Timestamp) -> Option<f64> {
        self.advance(now);
        let Counts { calls, failures, .. } = self.window.counts();
        (calls >= u64::from(self.policy.min_calls)).then(|| failures as f64 / calls as f64)
    }

    /// The ratio of slow calls in the window; none before `min_calls`.
    pub fn slow_ratio(&mut self, now: Timestamp) -> Option<f64> {
        self.advance(now);
        let Counts { calls, slow, .. } = self.window.counts();
        (calls >= u64::from(self.policy.min_calls)).then(|| slow as f64 / calls as f64)
    }

    /// How it stands.
    #[inline]
    pub fn standing(&self) -> Standing {
        let (admits, counts) = match self.mode {
            BreakerMode::Automatic => (self.phase == Phase::Closed, true),
            BreakerMode::MetricsOnly => (true, true),
            BreakerMode::Disabled => (true, false),
            BreakerMode::ForcedOpen => (false, true),
        };
        // A call that is slow changes something even where it succeeds, or is dropped.
        let admits = admits && !self.policy.times_calls();
        let rests = admits && (!counts || self.window.is_full_of_successes());
        let flags = (u64::from(admits) * Standing::ADMITS_ALL) | (u64::from(rests) * Standing::AT_REST);
        let room = if admits && !rests { self.room() } else { 0 };
        Standing((self.generation << Standing::SHIFT) | (room * Standing::ROOM) | flags)
    }

    /// How many successes can be told later, since nothing hangs on when they are.
    #[inline]
    fn room(&self) -> u64 {
        match self.mode {
            BreakerMode::Automatic => self.window.room(self.policy.min_calls).min(Standing::MOST_ROOM),
            _ => 0,
        }
    }

    /// Takes in the successes that were counted in the word of how it [stood](Self::standing), which has become this, before
    /// anything else is done with it.
    #[inline]
    pub fn resume(&mut self, standing: Standing) {
        let successes = self.standing().room().saturating_sub(standing.room());
        self.window.take_successes(successes);
        self.statistics.successes = self.statistics.successes.saturating_add(successes);
    }

    /// Takes in the success of an attempt that began without asking, if nothing hangs on when it ended: what
    /// [`settle`](Self::settle) would do in the plainest case, for those who count nanoseconds. False where it is to be
    /// settled; then nothing was done.
    #[inline]
    #[must_use]
    pub fn take_success(&mut self, began: Standing) -> bool {
        let is_plain = self.mode == BreakerMode::Automatic
            && self.phase == Phase::Closed
            && began.0 >> Standing::SHIFT == self.generation;
        if !is_plain || !self.window.take_success(self.policy.min_calls) {
            return false;
        }
        count(&mut self.statistics.successes);
        true
    }

    /// Whether the time at which a success with this permit is settled matters: it may close the breaker or open it, or
    /// show that the attempt was slow. If not, the time at which the attempt began does as well, so that the clock need
    /// not be read again.
    #[inline]
    pub fn times_success(&self, permit: &Permit) -> bool {
        let Counts { calls, .. } = self.window.counts();
        // One more success opens it only where it is the one that makes the calls enough.
        let completes = calls + 1 == u64::from(self.policy.min_calls);
        self.policy.times_calls()
            || (permit.generation == self.generation && (self.phase != Phase::Closed || completes))
    }

    /// What it has seen since it was made.
    pub const fn statistics(&self) -> BreakerStatistics {
        self.statistics
    }

    /// What it is to be.
    pub const fn policy(&self) -> &BreakerPolicy {
        &self.policy
    }

    /// Lets time pass, and returns it: never less than before.
    #[inline]
    fn advance(&mut self, now: Timestamp) -> u64 {
        self.latest = self.latest.max(now.as_nanos());
        self.window.advance(self.latest);
        if self.phase != Phase::Closed {
            self.advance_phase(self.latest);
        }
        self.latest
    }

    fn advance_phase(&mut self, now: u64) {
        match self.phase {
            Phase::Closed => {}
            Phase::Returning { since, .. } => {
                if now.saturating_sub(since) >= nanos(self.policy.ramp) {
                    // The same state as far as results are concerned: what was admitted meanwhile still counts.
                    self.phase = Phase::Closed;
                    self.opens = 0;
                    self.memory = Memory::default();
                }
            }
            Phase::Open { until } => {
                if now >= until {
                    self.enter(Phase::HalfOpen);
                }
            }
            Phase::HalfOpen => self.give_up_probes(now),
        }
    }

    fn give_up_probes(&mut self, now: u64) {
        let longest = nanos(self.policy.max_probe_duration);
        let mut gives_up = false;
        for probe in &mut self.probes {
            if let Probe::Running { since } = *probe
                && now.saturating_sub(since) >= longest
            {
                *probe = Probe::Failed;
                count(&mut self.statistics.given_up);
                gives_up = true;
            }
        }
        if gives_up {
            self.judge_probes(now);
        }
    }

    #[inline]
    fn admit_by_phase(&mut self, now: u64) -> Result<Permit, Refused> {
        match self.phase {
            Phase::Closed => Ok(self.permit(now, None)),
            Phase::Returning { since, owed } => {
                let owed = owed + self.share_returned(now.saturating_sub(since));
                let admits = owed >= WHOLE_CALL;
                self.phase = Phase::Returning { since, owed: owed % WHOLE_CALL };
                if admits { Ok(self.permit(now, None)) } else { Err(Refused { ready_at: None }) }
            }
            Phase::Open { until } => Err(Refused { ready_at: Some(Timestamp::from_nanos(until)) }),
            Phase::HalfOpen => {
                let free = self.probes.iter_mut().enumerate().find(|(_, probe)| **probe == Probe::Free);
                let Some((index, probe)) = free else { return Err(Refused { ready_at: None }) };
                *probe = Probe::Running { since: now };
                Ok(self.permit(now, Some(index as u32)))
            }
        }
    }

    /// In millionths: a tenth at first, growing to all.
    fn share_returned(&self, passed: u64) -> u64 {
        let share = u128::from(WHOLE_CALL) * u128::from(passed) / u128::from(nanos(self.policy.ramp).max(1));
        u64::try_from(share).map_or(WHOLE_CALL, |share| share.clamp(WHOLE_CALL / 10, WHOLE_CALL))
    }

    fn permit(&self, now: u64, probe: Option<u32>) -> Permit {
        Permit { generation: self.generation, since: now, probe }
    }

    fn is_slow(&self, permit: &Permit, now: u64) -> bool {
        self.policy.slow_ratio.is_some() && now.saturating_sub(permit.since) >= nanos(self.policy.slow_after)
    }

    /// The probe that a permit stands for, if it is one of this state.
    fn probe(&mut self, permit: &Permit) -> Option<&mut Probe> {
        if permit.generation != self.generation {
            return None;
        }
        self.probes.get_mut(permit.probe? as usize)
    }

    /// Counts a result, if it is one of this state.
    #[inline]
    fn take_in(&mut self, permit: &Permit, seen: Seen, now: u64) {
        if seen.slow {
            count(&mut self.statistics.slow);
        }
        if permit.generation != self.generation {
            count(&mut self.statistics.late);
            return;
        }
        if self.mode == BreakerMode::Disabled {
            return;
        }
        if permit.probe.is_none() {
            self.window.add(seen);
            if self.mode == BreakerMode::Automatic && self.window_trips(seen) {
                self.open(now);
            }
            return;
        }
        match self.probe(permit) {
            // One that was given up has failed already.
            Some(probe @ Probe::Running { .. }) => {
                *probe = if seen.failed || seen.slow { Probe::Failed } else { Probe::Succeeded };
                self.judge_probes(now);
            }
            _ => count(&mut self.statistics.late),
        }
    }

    /// Whether the window, which has just taken this in, is too bad. A success makes it so only where it is the call that
    /// makes them enough.
    #[inline]
    fn window_trips(&self, seen: Seen) -> bool {
        let Counts { calls, failures, slow } = self.window.counts();
        if !(seen.failed || seen.slow || calls == u64::from(self.policy.min_calls)) {
            return false;
        }
        if self.policy.failures.is_some_and(|most| failures >= u64::from(most)) {
            return true;
        }
        let met = |ratio: Option<Ratio>, part| ratio.is_some_and(|ratio| ratio.is_met_by(part, calls));
        calls >= u64::from(self.policy.min_calls)
            && (met(self.policy.failure_ratio, failures) || met(self.policy.slow_ratio, slow))
    }

    /// Ends half-open as soon as it is certain which way.
    fn judge_probes(&mut self, now: u64) {
        let (all, succeeded) = (u64::from(self.policy.max_probes), self.probes_that(Probe::Succeeded));
        let enough = |successes| self.policy.success_ratio.is_met_by(successes, all);
        if enough(succeeded) {
            self.close(now);
        } else if !enough(all - self.probes_that(Probe::Failed)) {
            self.open(now);
        }
    }

    fn probes_that(&self, ended: Probe) -> u64 {
        self.probes.iter().filter(|probe| **probe == ended).count() as u64
    }

    fn close(&mut self, now: u64) {
        if self.policy.ramp.is_zero() {
            self.opens = 0;
            self.memory = Memory::default();
            self.enter(Phase::Closed);
        } else {
            // The first call passes.
            self.enter(Phase::Returning { since: now, owed: WHOLE_CALL - 1 });
        }
    }

    #[cold]
    fn open(&mut self, now: u64) {
        self.opens = self.opens.saturating_add(1);
        count(&mut self.statistics.opened);
        // A number that no other state of this breaker, nor another breaker, draws.
        let entropy = crate::entropy(self.seed, self.statistics.opened, self.opens);
        let stays = self.policy.open_for.wait_nanos(self.opens, 0, &mut self.memory, entropy);
        self.enter(Phase::Open { until: now.saturating_add(stays) });
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.generation = self.generation.wrapping_add(1) & GENERATIONS;
        self.window.clear();
        self.probes.fill(Probe::Free);
    }
}

/// A counter that stays where it is at its end.
fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}

/// A call, in the millionths that the returning phase counts in.
const WHOLE_CALL: u64 = crate::ratio::WHOLE;

/// A breaker as plain data, to be stored and shown. Calls under way are not part of it: their results count as late.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerSnapshot {
    /// What holds whatever the target does.
    pub mode: BreakerMode,
    /// Where it is.
    pub state: BreakerState,
    /// Until when it is open, or since when it is returning; else zero.
    pub at: Timestamp,
    /// How often it has opened since it was last closed for good.
    pub opens: u32,
    /// How many probes have succeeded and failed in half-open.
    pub probes: (u32, u32),
    /// What the window holds.
    pub window: WindowSnapshot,
    /// The latest time seen.
    pub latest: Timestamp,
    /// What it has seen since it was made.
    pub statistics: BreakerStatistics,
    /// What the open time's schedule remembers.
    pub memory: u64,
}

/// What a [snapshot](BreakerSnapshot) leaves out: what is under way. With both a breaker goes on elsewhere as if it were
/// the same one, and the permits that it gave stay good: so do several processes share one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BreakerUnderWay {
    /// Which state its permits are of.
    pub generation: u64,
    /// The probes that run: which each is, and since when.
    pub probes: Vec<(u32, Timestamp)>,
    /// What share of a call is still owed to those who return, in millionths.
    pub owed: u64,
}

impl Breaker {
    /// What is under way.
    pub fn under_way(&self) -> BreakerUnderWay {
        let probes = self.probes.iter().enumerate().filter_map(|(index, probe)| match probe {
            Probe::Running { since } => Some((index as u32, Timestamp::from_nanos(*since))),
            _ => None,
        });
        let owed = match self.phase {
            Phase::Returning { owed, .. } => owed,
            _ => 0,
        };
        BreakerUnderWay { generation: self.generation, probes: probes.collect(), owed }
    }

    /// The same, [restored](Self::restore) before, with what was under way then.
    #[must_use]
    pub fn with_under_way(mut self, from: &BreakerUnderWay) -> Self {
        self.generation = from.generation;
        match &mut self.phase {
            Phase::Returning { owed, .. } => *owed = from.owed % WHOLE_CALL,
            Phase::HalfOpen => self.set_running(&from.probes),
            Phase::Closed | Phase::Open { .. } => {}
        }
        self
    }

    /// Those that run keep their numbers, for their permits; those that have ended take any others.
    fn set_running(&mut self, running: &[(u32, Timestamp)]) {
        let ended: Vec<Probe> = self.probes.iter().copied().filter(|probe| *probe != Probe::Free).collect();
        self.probes.fill(Probe::Free);
        for (index, since) in running {
            if let Some(probe) = self.probes.get_mut(*index as usize) {
                *probe = Probe::Running { since: since.as_nanos().min(self.latest) };
            }
        }
        let free = self.probes.iter_mut().filter(|probe| **probe == Probe::Free);
        free.zip(ended).for_each(|(probe, ended)| *probe = ended);
    }

    /// The breaker as plain data.
    pub fn snapshot(&self) -> BreakerSnapshot {
        let (state, at) = match self.phase {
            Phase::Closed => (BreakerState::Closed, 0),
            Phase::Returning { since, .. } => (BreakerState::Returning, since),
            Phase::Open { until } => (BreakerState::Open, until),
            Phase::HalfOpen => (BreakerState::HalfOpen, 0),
        };
        let probes = (self.probes_that(Probe::Succeeded) as u32, self.probes_that(Probe::Failed) as u32);
        BreakerSnapshot {
            mode: self.mode,
            state,
            at: Timestamp::from_nanos(at),
            opens: self.opens,
            probes,
            window: self.window.snapshot(),
            latest: Timestamp::from_nanos(self.latest),
            statistics: self.statistics,
            memory: self.memory.0,
        }
    }

    /// A breaker that goes on from a snapshot, even if that was taken under another policy. Where the clock was set back
    /// since, the snapshot's times are too: what was open for another second still is.
    ///
    /// # Errors
    ///
    /// What cannot work about the policy; any snapshot can be gone on from.
    pub fn restore(
        policy: BreakerPolicy,
        seed: u64,
        from: &BreakerSnapshot,
        now: Timestamp,
    ) -> Result<Self, PolicyError> {
        let mut breaker = Self::new(policy, seed)?;
        breaker.mode = from.mode;
        breaker.opens = from.opens;
        breaker.memory = Memory(from.memory);
        let back = from.latest.as_nanos().saturating_sub(now.as_nanos());
        let at = from.at.as_nanos().saturating_sub(back);
        breaker.latest = from.latest.as_nanos() - back;
        breaker.statistics = from.statistics;
        // A permit from before the snapshot belongs to no state of this breaker.
        breaker.generation = crate::entropy(seed, from.latest.as_nanos(), from.opens) & GENERATIONS;
        breaker.phase = match from.state {
            BreakerState::Closed => Phase::Closed,
            BreakerState::Returning => Phase::Returning { since: at, owed: 0 },
            BreakerState::Open => Phase::Open { until: at },
            BreakerState::HalfOpen => Phase::HalfOpen,
        };
        breaker.window.restore(&from.window, back, breaker.latest);
        let ended = core::iter::repeat_n(Probe::Succeeded, from.probes.0 as usize)
            .chain(core::iter::repeat_n(Probe::Failed, from.probes.1 as usize));
        for (probe, ended) in breaker.probes.iter_mut().zip(ended) {
            *probe = ended;
        }
        if breaker.phase == Phase::HalfOpen {
            breaker.judge_probes(breaker.latest);
        }
        Ok(breaker)
    }
}
