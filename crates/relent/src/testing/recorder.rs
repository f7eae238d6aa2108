//! Keeps what a hook is told.

use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use relent_core::{Decision, Event as Happened};

use crate::{Event, Record};

/// Keeps what a hook is told. Clones share one record.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Vec<(Happened, Record)>>>);

impl Recorder {
    /// A recorder that has heard nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// The hook to give to [`With::notify`](crate::With::notify).
    pub fn hook<E: Display>(&self) -> impl FnMut(&Event<'_, E>) + Clone + Send + use<E> {
        let events = Arc::clone(&self.0);
        move |event| {
            // The error prints itself unlocked: who knows what it does.
            let record = event.record();
            events.lock().unwrap_or_else(PoisonError::into_inner).push((event.happened, record));
        }
    }

    /// All events, in order.
    pub fn events(&self) -> Vec<Record> {
        self.read(|(_, record)| Some(record.clone()))
    }

    /// The decisions, in order.
    pub fn decisions(&self) -> Vec<Decision> {
        self.read(|(happened, _)| match happened {
            Happened::Decision { decision, .. } => Some(*decision),
            _ => None,
        })
    }

    /// The waits that were decided upon, in order.
    pub fn waits(&self) -> Vec<Duration> {
        self.read(|(happened, _)| match happened {
            Happened::Decision { decision: Decision::Retry { after, .. }, .. } => Some(*after),
            _ => None,
        })
    }

    fn read<T>(&self, pick: impl Fn(&(Happened, Record)) -> Option<T>) -> Vec<T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).iter().filter_map(pick).collect()
    }
}

/// A line an event, for snapshots.
impl Display for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for record in self.events() {
            if let Some(elapsed) = record.elapsed_ms {
                write!(f, "{elapsed:>8} ms ")?;
            }
            write!(f, "{} {}", record.event, record.attempt)?;
            for word in [record.class, record.reason].into_iter().flatten() {
                write!(f, " {word}")?;
            }
            if let (Some(wait), Some(source)) = (record.wait_ms, record.source) {
                write!(f, " wait {wait} ms ({source})")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
