//! From a schedule to one wait: cap, jitter, floor.

use core::time::Duration;

use crate::entropy::Dice;
use crate::hint::{fraction_of, ratio};
use crate::jitter::{scale, unit};
use crate::schedule::slots;
use crate::time::nanos;
use crate::{Jitter, Schedule};

/// How long to wait before each retry: a [`Schedule`], bounded and jittered.
///
/// The cap bounds every scheduled wait, jitter included, and the spread never collapses there; it does not bound
/// [hints](crate::Hint).
#[derive(Clone, Debug, PartialEq)]
pub struct Backoff {
    pub(crate) schedule: Schedule,
    pub(crate) cap: u64,
    pub(crate) floor: u64,
    pub(crate) first: First,
    pub(crate) jitter: Jitter,
    pub(crate) bound: Bound,
    pub(crate) initial_spread: u64,
    pub(crate) reset_after: u64,
}

/// Where the schedule starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum First {
    /// The first retry waits `initial`.
    #[default]
    Initial,
    /// The first retry comes at once, the second waits `initial` (Kubernetes, urllib3).
    Immediate,
}

/// How cap and jitter meet. Everything but [`Bound::Range`] exists to match other systems exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Bound {
    /// The range is cut at the cap, then drawn from: never above the cap, and never collapsed onto it.
    #[default]
    Range,
    /// The draw is clamped to the cap (AWS's published decorrelated formula, Polly): much of a fleet waits exactly
    /// the cap.
    Sample,
    /// The schedule is capped, then jittered, so that a wait may pass the cap (gRPC: by 20 %).
    Loose,
}

/// What a series of waits has to remember: the last wait, in the form that the jitter needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory(pub(crate) u64);

/// The bounds of one wait, or the wait itself where both are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The lowest wait.
    pub lowest: Duration,
    /// What the wait never passes. It is met only by slots (`csma`), by clamped draws ([`Bound::Sample`]) and by
    /// rounding (`decorrelated_v2`); everything else stays below it.
    pub highest: Duration,
}

const UNBOUNDED: u64 = u64::MAX;

impl Backoff {
    /// `schedule` with full jitter (`csma` draws by itself and takes none). What grows without end (`exponential`,
    /// `linear`, `fibonacci`) is capped at 20 s; the others name their longest wait themselves.
    pub const fn new(schedule: Schedule) -> Self {
        let jitter = match schedule {
            Schedule::Csma { .. } => Jitter::None,
            _ => Jitter::Full,
        };
        let cap = match schedule {
            Schedule::Exponential { .. } | Schedule::Linear { .. } | Schedule::Fibonacci { .. } => {
                20_000_000_000
            }
            Schedule::Constant { .. } | Schedule::List(_) | Schedule::Stages(_) | Schedule::Csma { .. } => {
                UNBOUNDED
            }
        };
        Self {
            schedule,
            cap,
            floor: 0,
            first: First::Initial,
            jitter,
            bound: Bound::Range,
            initial_spread: 0,
            reset_after: UNBOUNDED,
        }
    }

    /// The jitter. Default: [`Jitter::Full`].
    #[must_use]
    pub fn jitter(self, jitter: Jitter) -> Self {
        Self { jitter, ..self }
    }

    /// The longest scheduled wait. Default: 20 s for what grows without end, else none; see [`Backoff::new`].
    #[must_use]
    pub fn cap(self, cap: Duration) -> Self {
        Self { cap: nanos(cap), ..self }
    }

    /// No longest wait. The schedule then grows until the deadline or the last attempt ends it.
    #[must_use]
    pub fn uncapped(self) -> Self {
        Self { cap: UNBOUNDED, ..self }
    }

    /// The shortest scheduled wait, jitter included; an immediate first retry stays immediate. Default: zero.
    #[must_use]
    pub fn floor(self, floor: Duration) -> Self {
        Self { floor: nanos(floor), ..self }
    }

    /// Where the schedule starts. Default: [`First::Initial`].
    #[must_use]
    pub fn first(self, first: First) -> Self {
        Self { first, ..self }
    }

    /// How cap and jitter meet. Default: [`Bound::Range`].
    #[must_use]
    pub fn bound(self, bound: Bound) -> Self {
        Self { bound, ..self }
    }

    /// A wait before the *first* attempt, drawn from zero up to this or to the deadline if that is nearer, so that a
    /// fleet that starts together (cron, a deployment) does not call together. Default: zero.
    #[must_use]
    pub fn initial_spread(self, spread: Duration) -> Self {
        Self { initial_spread: nanos(spread), ..self }
    }

    /// A failure after at least this long in health begins a new series: attempts, waits, rules' counters and the
    /// deadline count from that failure. Default: never. For connections and processes that are meant to stay up; see
    /// [`Outcome::healthy_for`](crate::Outcome::healthy_for).
    #[must_use]
    pub fn reset_after(self, healthy: Duration) -> Self {
        Self { reset_after: nanos(healthy), ..self }
    }

    /// The schedule.
    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// The jitter in use.
    pub fn jitter_used(&self) -> Jitter {
        self.jitter
    }

    /// The longest scheduled wait, if there is one.
    pub fn longest(&self) -> Option<Duration> {
        (self.cap != UNBOUNDED).then_some(Duration::from_nanos(self.cap))
    }

    /// The shortest scheduled wait.
    pub fn shortest(&self) -> Duration {
        Duration::from_nanos(self.floor)
    }

    /// Where the schedule starts.
    pub fn first_used(&self) -> First {
        self.first
    }

    /// How cap and jitter meet.
    pub fn bound_used(&self) -> Bound {
        self.bound
    }

    /// The spread of the first attempt.
    pub fn spread_of_first(&self) -> Duration {
        Duration::from_nanos(self.initial_spread)
    }

    /// After how long in health a new series begins, if ever.
    pub fn resets_after(&self) -> Option<Duration> {
        (self.reset_after != UNBOUNDED).then_some(Duration::from_nanos(self.reset_after))
    }

    /// Whether the waits depend on the time since the call began.
    pub fn needs_clock(&self) -> bool {
        matches!(self.schedule, Schedule::Stages(_))
    }

    /// Wait number `n` (from 1), drawn with `entropy`. `elapsed` is the time since the call began (only `stages`
    /// look at it), `memory` that of the series.
    #[inline]
    pub fn wait(&self, n: u32, elapsed: Duration, memory: &mut Memory, entropy: u64) -> Duration {
        Duration::from_nanos(self.wait_nanos(n, nanos(elapsed), memory, entropy))
    }

    /// The bounds of wait number `n` after what `memory` holds.
    pub fn range(&self, n: u32, elapsed: Duration, memory: Memory) -> Range {
        let (lowest, highest) = match (&self.schedule, self.jitter) {
            _ if self.immediate(n) => (0, 0),
            (_, Jitter::DecorrelatedV2) => {
                let at = |entropy| self.decorrelated_v2(self.steps(n), memory, entropy);
                (at(0), at(u64::MAX))
            }
            (Schedule::Csma { slot, max_exponent }, _) => {
                let (fewest, most) = self.slots(self.steps(n), nanos(*slot), *max_exponent);
                self.bounded(nanos(*slot).saturating_mul(fewest), nanos(*slot).saturating_mul(most))
            }
            _ => {
                let (lowest, highest) = self.bounds(self.steps(n), nanos(elapsed), memory);
                (self.clamped(lowest), self.clamped(highest))
            }
        };
        Range { lowest: Duration::from_nanos(lowest), highest: Duration::from_nanos(highest) }
    }

    /// The waits one after another, drawn from `seed`: for whatever takes an iterator of durations. Never ends.
    pub fn waits(&self, seed: u64) -> Waits<'_> {
        Waits { backoff: self, dice: Dice::new(seed), n: 0, elapsed: 0, memory: Memory::default() }
    }

    /// What a deadline does not cut a wait below: the floor, and a tenth of the first wait.
    pub(crate) fn least_cut(&self) -> u64 {
        self.floor.max(nanos(self.schedule.initial()) / 10)
    }

    #[inline]
    pub(crate) fn wait_nanos(&self, n: u32, elapsed: u64, memory: &mut Memory, entropy: u64) -> u64 {
        // What nearly every policy asks for needs none of the general case's branches, and takes half of its time.
        if let Schedule::Exponential { initial, multiplier } = self.schedule
            && let (Jitter::Full, Bound::Range, First::Initial) = (self.jitter, self.bound, self.first)
        {
            let centre = multiplier.grow(nanos(initial), n.saturating_sub(1)).min(self.cap);
            return self.floor + scale(centre.saturating_sub(self.floor), entropy);
        }
        self.wait_in_general(n, elapsed, memory, entropy)
    }

    /// [`Backoff::wait_nanos`] for every schedule and jitter.
    #[inline(never)]
    fn wait_in_general(&self, n: u32, elapsed: u64, memory: &mut Memory, entropy: u64) -> u64 {
        if self.immediate(n) {
            return 0;
        }
        let n = self.steps(n);
        if let Jitter::DecorrelatedV2 = self.jitter {
            let wait = self.decorrelated_v2(n, *memory, entropy);
            *memory = Memory(entropy);
            return wait;
        }
        if let Schedule::Csma { slot, max_exponent } = self.schedule {
            let (fewest, most) = self.slots(n, nanos(slot), max_exponent);
            let drawn = fewest + scale((most - fewest).saturating_add(1), entropy);
            return self.bounded(nanos(slot).saturating_mul(drawn), 0).0;
        }
        let (lowest, highest) = self.bounds(n, elapsed, *memory);
        let drawn = lowest + scale(highest - lowest, entropy);
        let wait = self.clamped(drawn);
        self.remember(memory, elapsed, wait);
        wait
    }

    /// Whether wait `n` is the one that is left out.
    fn immediate(&self, n: u32) -> bool {
        self.first == First::Immediate && n <= 1
    }

    /// Wait `n`'s place in the schedule.
    fn steps(&self, n: u32) -> u32 {
        match self.first {
            First::Initial => n,
            First::Immediate => n.saturating_sub(1),
        }
    }

    /// The range of wait `n`, lowest ≤ highest, cut at cap and floor.
    #[inline]
    fn bounds(&self, n: u32, elapsed: u64, memory: Memory) -> (u64, u64) {
        let centre = self.schedule.raw(n, elapsed, memory.0).min(self.cap);
        let (lowest, highest) = match self.jitter {
            Jitter::None => (centre, centre),
            Jitter::Full => (0, centre),
            Jitter::Equal => (centre / 2, centre),
            Jitter::Proportional { factor } => proportional(centre, factor),
            Jitter::Additive { max } => self.additive(centre, nanos(max)),
            Jitter::Decorrelated => self.decorrelated(memory),
            // Drawn by its own formula, before this is asked.
            Jitter::DecorrelatedV2 => (centre, centre),
        };
        match self.bound {
            Bound::Range => self.bounded(lowest, highest),
            Bound::Sample | Bound::Loose => (lowest.max(self.floor), highest.max(self.floor)),
        }
    }

    /// A draw, clamped to the cap where that is asked for.
    fn clamped(&self, drawn: u64) -> u64 {
        match self.bound {
            Bound::Sample => drawn.min(self.cap),
            Bound::Range | Bound::Loose => drawn,
        }
    }

    fn bounded(&self, lowest: u64, highest: u64) -> (u64, u64) {
        // The floor is at most the cap: a policy with another one cannot be built.
        let cut = |wait: u64| wait.min(self.cap).max(self.floor);
        (cut(lowest), cut(highest).max(cut(lowest)))
    }

    /// The fewest and the most slots that wait `n` may take: those between floor and cap, unless the draw is to be
    /// clamped.
    fn slots(&self, n: u32, slot: u64, max_exponent: u32) -> (u64, u64) {
        let most = slots(n, max_exponent) - 1;
        match (self.bound, self.cap.checked_div(slot)) {
            (Bound::Sample, _) | (_, None) => (0, most),
            (Bound::Range | Bound::Loose, Some(within_cap)) => {
                let most = most.min(within_cap);
                (self.floor.div_ceil(slot).min(most), most)
            }
        }
    }

    fn additive(&self, centre: u64, max: u64) -> (u64, u64) {
        let slid = match self.bound {
            Bound::Range => centre.min(self.cap.saturating_sub(max)),
            Bound::Sample | Bound::Loose => centre,
        };
        (slid, slid.saturating_add(max))
    }

    fn decorrelated(&self, memory: Memory) -> (u64, u64) {
        let initial = nanos(self.schedule.initial());
        let previous = memory.0.max(initial);
        (initial, previous.saturating_mul(3))
    }

    /// Polly's formula; see [`Jitter::DecorrelatedV2`].
    fn decorrelated_v2(&self, n: u32, memory: Memory, entropy: u64) -> u64 {
        let initial = nanos(self.schedule.initial()) as f64;
        let level = n.saturating_sub(1);
        // The range's top at a level, as a multiple of `initial`.
        let top = |level: u32| (v2_curve(level, 1.0) - v2_before(level, 0.0)) / 1.4;
        let (level, shrink) = match self.bound {
            // Past the level whose range first reaches the cap, that range is kept, scaled down to end at the cap.
            Bound::Range => {
                let reaches = |level: &u32| initial * top(*level) >= self.cap as f64;
                let level = (0..=level.min(64)).find(reaches).unwrap_or(level);
                let highest = initial * top(level);
                (level, if highest > self.cap as f64 { self.cap as f64 / highest } else { 1.0 })
            }
            Bound::Sample | Bound::Loose => (level, 1.0),
        };
        let drawn =
            (v2_curve(level, unit(entropy)) - v2_before(level, unit(memory.0))) / 1.4 * initial * shrink;
        // Past 2^1024 the curve is infinite, and infinity less infinity is no number: both mean "very long".
        let wait = if drawn.is_nan() && initial > 0.0 { u64::MAX } else { drawn as u64 };
        match self.bound {
            Bound::Range | Bound::Sample => wait.min(self.cap).max(self.floor),
            Bound::Loose => wait.max(self.floor),
        }
    }

    #[inline]
    fn remember(&self, memory: &mut Memory, elapsed: u64, wait: u64) {
        if self.jitter.remembers() {
            *memory = Memory(wait);
        } else if let Schedule::Stages(_) = self.schedule {
            // The schedule's own wait, so that jitter does not compound.
            *memory = Memory(self.schedule.raw(1, elapsed, memory.0).min(self.cap));
        }
    }
}

/// g(level + u) = 2^(level + u) · tanh(√(4·(level + u))).
fn v2_curve(level: u32, u: f64) -> f64 {
    let t = f64::from(level) + u;
    libm::exp2(t) * libm::tanh(libm::sqrt(4.0 * t))
}

/// g at the level before, 0 before the first.
fn v2_before(level: u32, u: f64) -> f64 {
    level.checked_sub(1).map_or(0.0, |before| v2_curve(before, u))
}

fn proportional(centre: u64, factor: f64) -> (u64, u64) {
    let reach = fraction_of(centre, ratio(factor));
    (centre.saturating_sub(reach), centre.saturating_add(reach))
}

/// The waits of a [`Backoff`], one after another. See [`Backoff::waits`].
#[derive(Clone, Debug)]
pub struct Waits<'a> {
    backoff: &'a Backoff,
    dice: Dice,
    n: u32,
    elapsed: u64,
    memory: Memory,
}

impl Iterator for Waits<'_> {
    type Item = Duration;

    #[inline]
    fn next(&mut self) -> Option<Duration> {
        self.n = self.n.saturating_add(1);
        let entropy = self.dice.roll();
        let wait = self.backoff.wait_nanos(self.n, self.elapsed, &mut self.memory, entropy);
        self.elapsed = self.elapsed.saturating_add(wait);
        Some(Duration::from_nanos(wait))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Multiplier;

    proptest! {
        #[test]
        fn the_short_way_gives_the_waits_of_the_general_one(
            initial in prop_oneof![Just(0), 1..1_000_000_000u64, any::<u64>()],
            multiplier in prop_oneof![Just(1.0), Just(2.0), Just(8.0), 1.0..20.0],
            limits in (prop_oneof![Just(0), any::<u64>()], any::<u64>(), any::<bool>()),
            n in prop_oneof![0..70u32, any::<u32>()],
            entropy: u64,
        ) {
            let initial = Duration::from_nanos(initial);
            let multiplier = Multiplier::new(multiplier).unwrap();
            let (floor, cap, capped) = (limits.0.min(limits.1), limits.0.max(limits.1), limits.2);
            let backoff = Backoff::new(Schedule::Exponential { initial, multiplier });
            let backoff = backoff.floor(Duration::from_nanos(floor));
            let backoff =
                if capped { backoff.cap(Duration::from_nanos(cap)) } else { backoff.uncapped() };
            let memory = &mut Memory::default();
            prop_assert_eq!(
                backoff.wait_nanos(n, 0, memory, entropy),
                backoff.wait_in_general(n, 0, memory, entropy)
            );
        }
    }
}
