//! The text of a state file: JSON that people can read, with a version. Times are nanoseconds since 1970.

use std::collections::BTreeMap;

use relent_core::{
    BreakerSnapshot, BreakerStatistics, BreakerUnderWay, BudgetSnapshot, Timestamp, WindowSnapshot,
};
use serde::{Deserialize, Serialize};

/// By which rules files are written.
const VERSION: u64 = 1;

/// All that a state file holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Record {
    relent_state: u64,
    /// By what each part is: "KEY breaker", "[budgets.outbound]".
    pub(super) parts: BTreeMap<String, Part>,
}

/// A breaker or a budget.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Part {
    /// What it is, as a policy file has it: another one's state is of no use.
    pub(super) policy: String,
    /// When it changed last.
    pub(super) used: u64,
    pub(super) state: State,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum State {
    Breaker(Box<Breaker>),
    TokenBucket { thousandths: u64, fraction: u64, latest: u64 },
    Window { slots: Vec<(u64, [u64; 2])>, latest: u64 },
    Quota { balance: u32 },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Breaker {
    pub(super) state: String,
    mode: String,
    /// Until when it is open, or since when calls return.
    pub(super) at: u64,
    opens: u32,
    memory: u64,
    window: Window,
    latest: u64,
    probes_succeeded: u32,
    probes_failed: u32,
    /// Which probes run, and since when.
    probes_running: Vec<(u32, u64)>,
    owed: u64,
    generation: u64,
    statistics: Statistics,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Window {
    Consecutive { failures: u64 },
    Count { calls: Vec<u8> },
    Time { slots: Vec<(u64, [u64; 3])> },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Statistics {
    successes: u64,
    failures: u64,
    slow: u64,
    ignored: u64,
    late: u64,
    given_up: u64,
    refused: u64,
    opened: u64,
}

impl Default for Record {
    fn default() -> Self {
        Self { relent_state: VERSION, parts: BTreeMap::new() }
    }
}

impl Record {
    /// What a text says. An empty one is a file that is new.
    ///
    /// # Errors
    ///
    /// Why it cannot be gone on from.
    pub(super) fn parse(text: &[u8]) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let value: serde_json::Value = serde_json::from_slice(text)
            .map_err(|error| format!("it is damaged, or no state file: {error}"))?;
        match value.get("relent_state").map(serde_json::Value::as_u64) {
            Some(Some(VERSION)) => {}
            Some(Some(newer)) => {
                return Err(format!("its version is {newer}, and this relent knows {VERSION}"));
            }
            _ => return Err("it is no state file: `relent_state` is missing".to_owned()),
        }
        serde_json::from_value(value).map_err(|error| format!("it is damaged: {error}"))
    }

    /// Forgets the half of the parts that have not changed for the longest. False where there is but one.
    pub(super) fn forget_the_older_half(&mut self) -> bool {
        let mut ages: Vec<_> = self.parts.iter().map(|(name, part)| (part.used, name.clone())).collect();
        ages.sort_unstable();
        let half = ages.len() / 2;
        for (_, name) in ages.into_iter().take(half) {
            self.parts.remove(&name);
        }
        half > 0
    }

    pub(super) fn to_text(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap_or_default();
        text.push(b'\n');
        text
    }
}

impl Breaker {
    pub(super) fn of(snapshot: &BreakerSnapshot, under_way: &BreakerUnderWay) -> Self {
        let BreakerStatistics { successes, failures, slow, ignored, late, given_up, refused, opened } =
            snapshot.statistics;
        Self {
            state: snapshot.state.to_string(),
            mode: snapshot.mode.to_string(),
            at: snapshot.at.as_nanos(),
            opens: snapshot.opens,
            memory: snapshot.memory,
            window: Window::of(&snapshot.window),
            latest: snapshot.latest.as_nanos(),
            probes_succeeded: snapshot.probes.0,
            probes_failed: snapshot.probes.1,
            probes_running: under_way
                .probes
                .iter()
                .map(|(probe, since)| (*probe, since.as_nanos()))
                .collect(),
            owed: under_way.owed,
            generation: under_way.generation,
            statistics: Statistics { successes, failures, slow, ignored, late, given_up, refused, opened },
        }
    }

    /// None: a word that is not known.
    pub(super) fn restored(&self) -> Option<(BreakerSnapshot, BreakerUnderWay)> {
        let Statistics { successes, failures, slow, ignored, late, given_up, refused, opened } =
            self.statistics;
        let snapshot = BreakerSnapshot {
            mode: self.mode.parse().ok()?,
            state: self.state.parse().ok()?,
            at: Timestamp::from_nanos(self.at),
            opens: self.opens,
            probes: (self.probes_succeeded, self.probes_failed),
            window: self.window.restored(),
            latest: Timestamp::from_nanos(self.latest),
            statistics: BreakerStatistics {
                successes,
                failures,
                slow,
                ignored,
                late,
                given_up,
                refused,
                opened,
            },
            memory: self.memory,
        };
        let probes = self.probes_running.iter().map(|(probe, since)| (*probe, Timestamp::from_nanos(*since)));
        Some((
            snapshot,
            BreakerUnderWay { generation: self.generation, probes: probes.collect(), owed: self.owed },
        ))
    }
}

impl Window {
    fn of(window: &WindowSnapshot) -> Self {
        match window {
            WindowSnapshot::Count { calls } => Self::Count { calls: calls.clone() },
            WindowSnapshot::Time { slots } => Self::Time {
                slots: slots.iter().map(|(since, counts)| (since.as_nanos(), *counts)).collect(),
            },
            WindowSnapshot::Consecutive { failures } => Self::Consecutive { failures: *failures },
            _ => Self::Consecutive { failures: 0 },
        }
    }

    fn restored(&self) -> WindowSnapshot {
        match self {
            Self::Consecutive { failures } => WindowSnapshot::Consecutive { failures: *failures },
            Self::Count { calls } => WindowSnapshot::Count { calls: calls.clone() },
            Self::Time { slots } => {
                let slots = slots.iter().map(|(since, counts)| (Timestamp::from_nanos(*since), *counts));
                WindowSnapshot::Time { slots: slots.collect() }
            }
        }
    }
}

impl State {
    /// None: what it holds has no meaning for another process.
    pub(super) fn of_budget(snapshot: &BudgetSnapshot) -> Option<Self> {
        Some(match snapshot {
            BudgetSnapshot::TokenBucket { balance, fraction, latest } => {
                Self::TokenBucket { thousandths: *balance, fraction: *fraction, latest: latest.as_nanos() }
            }
            BudgetSnapshot::Window { slots, latest } => Self::Window {
                slots: slots.iter().map(|(since, counts)| (since.as_nanos(), *counts)).collect(),
                latest: latest.as_nanos(),
            },
            BudgetSnapshot::Quota { balance } => Self::Quota { balance: *balance },
            _ => return None,
        })
    }

    pub(super) fn restored_budget(&self) -> Option<BudgetSnapshot> {
        Some(match self {
            Self::Breaker(_) => return None,
            Self::TokenBucket { thousandths, fraction, latest } => BudgetSnapshot::TokenBucket {
                balance: *thousandths,
                fraction: *fraction,
                latest: Timestamp::from_nanos(*latest),
            },
            Self::Window { slots, latest } => BudgetSnapshot::Window {
                slots: slots.iter().map(|(since, counts)| (Timestamp::from_nanos(*since), *counts)).collect(),
                latest: Timestamp::from_nanos(*latest),
            },
            Self::Quota { balance } => BudgetSnapshot::Quota { balance: *balance },
        })
    }
}
