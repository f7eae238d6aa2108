//! What a replication writes down: counts, time series in fixed bins, histograms.

use hdrhistogram::Histogram;
use relent_core::Reason;

use crate::measure::{Measure, Value, Values};
use crate::spread::{Spread, histogram};

/// Counts per bin of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Calls begun.
    pub calls: Vec<u64>,
    /// Attempts made.
    pub attempts: Vec<u64>,
    /// Calls that succeeded.
    pub succeeded: Vec<u64>,
    /// Calls that failed.
    pub failed: Vec<u64>,
    /// The most calls open at one time.
    pub open: Vec<u64>,
}

impl Series {
    fn columns(&mut self) -> [&mut Vec<u64>; 5] {
        [&mut self.calls, &mut self.attempts, &mut self.succeeded, &mut self.failed, &mut self.open]
    }

    /// How many bins there are.
    pub fn len(&self) -> usize {
        self.attempts.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.attempts.is_empty()
    }

    fn add(&mut self, other: &mut Self) {
        for (mine, theirs) in self.columns().into_iter().zip(other.columns()) {
            if mine.len() < theirs.len() {
                mine.resize(theirs.len(), 0);
            }
            mine.iter_mut().zip(theirs.iter()).for_each(|(mine, theirs)| *mine += theirs);
        }
    }
}

/// What a scenario says about measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Frame {
    /// The width of a bin.
    pub(crate) bin: u64,
    /// When the simulation ends.
    pub(crate) horizon: u64,
    /// When the incident begins and ends.
    pub(crate) incident: Option<(u64, u64)>,
    /// Whether each client makes a single call, so that fairness is one of times.
    pub(crate) one_call_each: bool,
    /// What an attempt costs, and a second of work.
    pub(crate) cost: (f64, f64),
    /// What time the figures of goodput before the incident leave out at the start.
    pub(crate) warm_up: u64,
}

/// No more bins than this: at most 10 MB of series per policy.
pub(crate) const MAX_BINS: u32 = 200_000;

/// The counts of one replication.
#[derive(Debug)]
pub(crate) struct Recorder {
    frame: Frame,
    series: Series,
    latency: Spread,
    knows: Spread,
    tally: Tally,
    /// The bin of the last event and its end: time only goes forward, so most events need no division.
    bin: usize,
    bin_ends: u64,
    /// Successes of each client, where they make several calls.
    per_client: Vec<u32>,
}

/// Plain counts of one replication.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// Calls begun.
    pub calls: u64,
    /// Attempts made, first ones included.
    pub attempts: u64,
    /// Attempts that were the first of their call.
    pub first_attempts: u64,
    /// Calls that succeeded.
    pub succeeded: u64,
    /// Calls that ended otherwise.
    pub failed: u64,
    /// Calls still open when the time was over.
    pub unfinished: u64,
    /// Events handled.
    pub events: u64,
    /// A sum of hashes of (client, attempt, wait) over all retries: the same whatever the order, and equal to what
    /// [`Call::decide`](relent_core::Call::decide) gives for the same outcomes.
    pub waits: u64,
    /// Nanoseconds of work done by servers, and of that the part for nothing.
    pub(crate) work: f64,
    pub(crate) wasted: f64,
    open: u64,
    peak_open: u64,
    last_end: u64,
    slowest: u64,
    knows_sum: f64,
    /// Of calls begun before the end of the incident: how many are open, and when the last one ended.
    cohort_open: u64,
    cohort_end: u64,
    latency_sum: f64,
    latency_squares: f64,
    /// How calls ended, by reason.
    pub(crate) reasons: [u64; 16],
}

impl Tally {
    /// How many calls ended for `reason`.
    pub fn ended(&self, reason: Reason) -> u64 {
        self.reasons.get(reason_index(reason)).copied().unwrap_or_default()
    }

    fn add(&mut self, other: &Self) {
        self.calls += other.calls;
        self.attempts += other.attempts;
        self.first_attempts += other.first_attempts;
        self.succeeded += other.succeeded;
        self.failed += other.failed;
        self.unfinished += other.unfinished;
        self.events += other.events;
        self.waits = self.waits.wrapping_add(other.waits);
        self.reasons.iter_mut().zip(other.reasons).for_each(|(mine, theirs)| *mine += theirs);
    }
}

fn reason_index(reason: Reason) -> usize {
    REASONS.iter().position(|known| *known == reason).unwrap_or(REASONS.len())
}

const REASONS: [Reason; 14] = [
    Reason::Succeeded,
    Reason::NotRetryable,
    Reason::AttemptsExhausted,
    Reason::DeadlineWouldPass,
    Reason::DeadlinePassed,
    Reason::BudgetExhausted,
    Reason::CircuitOpen,
    Reason::RateLimited,
    Reason::BulkheadFull,
    Reason::HintOverMax,
    Reason::PushbackStop,
    Reason::NotIdempotent,
    Reason::BodyNotReplayable,
    Reason::Cancelled,
];

impl Recorder {
    pub(crate) fn new(frame: Frame, clients: usize) -> Self {
        Self {
            frame,
            series: Series::default(),
            latency: Spread::default(),
            knows: Spread::default(),
            tally: Tally::default(),
            bin: 0,
            bin_ends: frame.bin,
            per_client: if frame.one_call_each { Vec::new() } else { vec![0; clients] },
        }
    }

    /// Ready for the next replication.
    fn reset(&mut self) {
        self.series.columns().into_iter().for_each(Vec::clear);
        self.tally = Tally::default();
        (self.bin, self.bin_ends) = (0, self.frame.bin);
        self.per_client.fill(0);
    }

    /// A call begins.
    #[inline]
    pub(crate) fn begin(&mut self, now: u64) {
        let open = self.tally.open + 1;
        self.tally.open = open;
        self.tally.calls += 1;
        self.tally.peak_open = self.tally.peak_open.max(open);
        if self.in_cohort(now) {
            self.tally.cohort_open += 1;
        }
        let bin = self.bin_at(now);
        count(&mut self.series.calls, bin);
        if let Some(most) = slot(&mut self.series.open, bin) {
            *most = (*most).max(open);
        }
    }

    /// An attempt is made; `first` of its call or a retry.
    #[inline]
    pub(crate) fn attempt(&mut self, now: u64, first: bool) {
        self.tally.attempts += 1;
        self.tally.first_attempts += u64::from(first);
        let bin = self.bin_at(now);
        count(&mut self.series.attempts, bin);
    }

    /// A retry was decided upon.
    #[inline]
    pub(crate) fn wait(&mut self, client: u64, attempt: u32, nanos: u64) {
        self.tally.waits = self.tally.waits.wrapping_add(checksum(client, attempt, nanos));
    }

    /// A call ends at `now`, which may lie ahead of the events. `client` is only looked at where each makes several.
    #[inline]
    pub(crate) fn end(&mut self, now: u64, began: u64, client: usize, reason: Reason) {
        let took = now.saturating_sub(began);
        self.tally.open -= 1;
        self.tally.last_end = self.tally.last_end.max(now);
        if self.in_cohort(began) {
            self.tally.cohort_open -= 1;
            self.tally.cohort_end = self.tally.cohort_end.max(now);
        }
        if let Some(ended) = self.tally.reasons.get_mut(reason_index(reason)) {
            *ended += 1;
        }
        let bin = if now < self.bin_ends { self.bin } else { self.bin_of(now) };
        if reason == Reason::Succeeded {
            self.tally.succeeded += 1;
            self.tally.slowest = self.tally.slowest.max(took);
            self.latency.record(took);
            count(&mut self.series.succeeded, bin);
            if self.frame.one_call_each {
                self.tally.latency_sum += took as f64;
                self.tally.latency_squares += took as f64 * took as f64;
            } else if let Some(served) = self.per_client.get_mut(client) {
                *served += 1;
            }
        } else {
            self.tally.failed += 1;
            self.tally.knows_sum += took as f64;
            self.knows.record(took);
            count(&mut self.series.failed, bin);
        }
    }

    /// A server has worked; `useful` if somebody took the result.
    pub(crate) fn work(&mut self, nanos: u64, useful: bool) {
        self.tally.work += nanos as f64;
        if !useful {
            self.tally.wasted += nanos as f64;
        }
    }

    /// The figures of this replication, which then joins the pool.
    pub(crate) fn finish(&mut self, events: u64, efficiency: Option<f64>, pool: &mut Pool) -> Values {
        self.tally.events = events;
        self.tally.unfinished = self.tally.open;
        let bins = self.series.columns().into_iter().map(|column| column.len()).max().unwrap_or(0);
        self.series.columns().into_iter().for_each(|column| column.resize(bins, 0));
        let mut values = self.values();
        if let Some(efficiency) = efficiency {
            values.number(Measure::Efficiency, efficiency);
        }
        pool.add(self);
        self.reset();
        values
    }

    fn values(&mut self) -> Values {
        let latencies = self.latency.quantiles([0.5, 0.99, 0.999]);
        let (tally, frame) = (&self.tally, &self.frame);
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let mut values = Values::default();
        values.number(Measure::Calls, tally.calls as f64);
        values.number(Measure::Attempts, tally.attempts as f64);
        if tally.calls > 0 {
            values.number(Measure::Amplification, tally.attempts as f64 / tally.calls as f64);
        }
        let peak = self.series.attempts.iter().max().copied().unwrap_or(0);
        values.number(Measure::Peak, peak as f64 / seconds(frame.bin));
        let cohort_from = frame.incident.map_or(0, |(_, end)| end);
        values.set(
            Measure::Drain,
            if tally.cohort_open > 0 {
                Value::Never
            } else {
                Value::Number(seconds(tally.cohort_end.saturating_sub(cohort_from)))
            },
        );
        let ended = tally.succeeded + tally.failed;
        if ended > 0 {
            values.number(Measure::Success, tally.succeeded as f64 / ended as f64);
        }
        if let Some([p50, p99, p999]) = latencies {
            values.number(Measure::P50, p50);
            values.number(Measure::P99, p99);
            values.number(Measure::P999, p999);
            values.number(Measure::Slowest, seconds(tally.slowest));
        }
        self.goodput(&mut values);
        if tally.work > 0.0 {
            values.number(Measure::Wasted, tally.wasted / tally.work);
        }
        if let Some(index) = self.jain() {
            values.number(Measure::Fairness, index);
        }
        values.number(Measure::PeakOpen, tally.peak_open as f64);
        if tally.failed > 0 {
            values.number(Measure::Knows, tally.knows_sum / tally.failed as f64 / 1e9);
        }
        let (per_attempt, per_second) = frame.cost;
        values.number(Measure::Cost, per_attempt * tally.attempts as f64 + per_second * tally.work / 1e9);
        values.set(
            Measure::Completion,
            if tally.open > 0 { Value::Never } else { Value::Number(seconds(tally.last_end)) },
        );
        values
    }

    fn goodput(&self, values: &mut Values) {
        let Some((start, end)) = self.frame.incident else { return };
        let bin = self.frame.bin;
        // Only whole bins within the time that was simulated.
        let bins = usize::try_from(self.frame.horizon / bin).unwrap_or(usize::MAX).min(MAX_BINS as usize);
        let index = |time: u64| usize::try_from(time / bin).unwrap_or(usize::MAX).min(bins);
        let (warm, start, end) =
            (index(self.frame.warm_up), index(start), index(end.saturating_add(bin - 1)));
        let rate = |from: usize, to: usize| {
            let good: u64 =
                self.series.succeeded.iter().skip(from).take(to.saturating_sub(from)).copied().sum();
            (to > from).then(|| good as f64 / ((to - from) as f64 * bin as f64 / 1e9))
        };
        let before = rate(warm, start);
        let parts = [
            (Measure::GoodputBefore, before),
            (Measure::GoodputDuring, rate(start, end)),
            (Measure::GoodputAfter, rate(end, bins)),
            (Measure::GoodputAtEnd, rate(end.max(bins - bins / 10), bins)),
        ];
        for (measure, rate) in parts {
            if let Some(rate) = rate {
                values.number(measure, rate);
            }
        }
        let Some(wanted) = before.filter(|before| *before > 0.0).map(|before| RECOVERED * before) else {
            return;
        };
        // A window of five bins, so that one lucky bin is no recovery; and the rest must hold it.
        let holds = |from: &usize| {
            let window = rate(*from, (from + WINDOW).min(bins));
            window.is_some_and(|rate| rate >= wanted) && rate(*from, bins).is_some_and(|rate| rate >= wanted)
        };
        let recovered = (end..bins.saturating_sub(WINDOW)).find(holds);
        values.set(
            Measure::Recovery,
            recovered.map_or(Value::Never, |at| Value::Number((at - end) as f64 * bin as f64 / 1e9)),
        );
    }

    /// Jain, Chiu, Hawe (DEC TR-301, 1984): (Σx)² / (n·Σx²).
    fn jain(&self) -> Option<f64> {
        let (n, sum, squares) = if self.frame.one_call_each {
            (self.tally.succeeded as f64, self.tally.latency_sum, self.tally.latency_squares)
        } else {
            self.per_client.iter().fold((0.0, 0.0, 0.0), |(n, sum, squares), served| {
                let served = f64::from(*served);
                (n + 1.0, sum + served, squares + served * served)
            })
        };
        (n > 0.0 && squares > 0.0).then(|| sum * sum / (n * squares))
    }

    fn in_cohort(&self, began: u64) -> bool {
        self.frame.incident.is_none_or(|(_, end)| began < end)
    }

    #[inline]
    fn bin_at(&mut self, now: u64) -> usize {
        if now >= self.bin_ends {
            self.bin = self.bin_of(now);
            self.bin_ends = (self.bin as u64 + 1).saturating_mul(self.frame.bin);
        }
        self.bin
    }

    fn bin_of(&self, now: u64) -> usize {
        (now / self.frame.bin).min(u64::from(MAX_BINS)) as usize
    }
}

/// How much of the former goodput is a recovery, and for how many bins.
const RECOVERED: f64 = 0.9;
const WINDOW: usize = 5;

/// A hash of one wait; the sum over a run does not depend on the order of its events.
pub fn checksum(client: u64, attempt: u32, nanos: u64) -> u64 {
    let mixed = (nanos ^ client.rotate_left(40) ^ u64::from(attempt)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ (mixed >> 32)).wrapping_mul(0xd605_1d53_0e5b_0f11)
}

#[inline]
fn count(column: &mut Vec<u64>, bin: usize) {
    if let Some(count) = slot(column, bin) {
        *count += 1;
    }
}

#[inline]
fn slot(column: &mut Vec<u64>, bin: usize) -> Option<&mut u64> {
    if bin >= column.len() {
        column.resize(bin + 1, 0);
    }
    column.get_mut(bin)
}

/// What the replications of one policy add up to. All of it is sums of integers, so that the order does not matter.
#[derive(Clone, Debug)]
pub(crate) struct Pool {
    pub(crate) series: Series,
    pub(crate) latency: Histogram<u64>,
    pub(crate) knows: Histogram<u64>,
    pub(crate) tally: Tally,
    pub(crate) replications: u32,
}

impl Pool {
    pub(crate) fn new() -> Self {
        Self {
            series: Series::default(),
            latency: histogram(),
            knows: histogram(),
            tally: Tally::default(),
            replications: 0,
        }
    }

    fn add(&mut self, recorder: &mut Recorder) {
        self.series.add(&mut recorder.series);
        recorder.latency.pour_into(&mut self.latency);
        recorder.knows.pour_into(&mut self.knows);
        self.tally.add(&recorder.tally);
        self.replications += 1;
    }

    pub(crate) fn merge(&mut self, mut other: Self) {
        self.series.add(&mut other.series);
        // Of the same bounds: adding them cannot fail.
        let _ = self.latency.add(&other.latency);
        let _ = self.knows.add(&other.knows);
        self.tally.add(&other.tally);
        self.replications += other.replications;
    }
}
