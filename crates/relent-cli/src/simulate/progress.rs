//! What a long simulation says while it runs, and Ctrl-C.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use relent_sim::{Forecast, Progress};
use signal_hook::consts::SIGINT;

use crate::exit::Error;

/// From here on what a simulation will take is said before it: about a second, or what a small machine may not have.
const MANY_EVENTS: u64 = 10_000_000;
const MUCH_MEMORY: u64 = 200_000_000;

/// Nobody reads faster, and a simulation that is over by then needs no line.
const EVERY_MS: u64 = 200;

/// Watches a simulation.
pub(super) struct Watch {
    cancelled: Arc<AtomicBool>,
    began: Instant,
    on_terminal: bool,
    /// When the next line is due, in milliseconds since it began.
    due: AtomicU64,
    /// Whether a line stands there.
    shown: Mutex<bool>,
}

impl Watch {
    /// From now on Ctrl-C asks for what there is; a second one ends the program at once.
    pub(super) fn begin() -> Result<Self, Error> {
        let cancelled = Arc::new(AtomicBool::new(false));
        let failed = |source| Error::Failure { what: "catching Ctrl-C".to_owned(), source };
        // In this order: the first one finds the flag not yet set.
        signal_hook::flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&cancelled))
            .map_err(failed)?;
        signal_hook::flag::register(SIGINT, Arc::clone(&cancelled)).map_err(failed)?;
        Ok(Self {
            cancelled,
            began: Instant::now(),
            on_terminal: io::stderr().is_terminal(),
            due: AtomicU64::new(EVERY_MS),
            shown: Mutex::new(false),
        })
    }

    pub(super) fn cancelled(&self) -> &AtomicBool {
        &self.cancelled
    }

    /// Shows how far it is, on a terminal, now and then.
    pub(super) fn report(&self, progress: Progress) {
        if !self.on_terminal {
            return;
        }
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = self.due.load(Ordering::Relaxed);
        let next = now.saturating_add(EVERY_MS);
        if now < due || self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let mut shown = self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let Progress { events, done, of } = progress;
        let seconds = now / 1000;
        let millions = events as f64 / 1e6;
        let _ = write!(
            io::stderr(),
            "\r\x1b[K{done} of {of} runs, {millions:.1} M events, {seconds} s (Ctrl-C shows what there is)"
        );
        *shown = true;
    }

    /// Clears the line; whether Ctrl-C was pressed.
    pub(super) fn end(&self) -> bool {
        if *self.shown.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
        self.cancelled.load(Ordering::Relaxed)
    }
}

/// Says what a simulation will take, if that is much.
pub(super) fn announce(forecast: Forecast) {
    if forecast.events >= MANY_EVENTS || forecast.bytes >= MUCH_MEMORY {
        // A forecast that nobody can read is no reason not to simulate.
        let _ = writeln!(io::stderr(), "simulating {forecast}");
    }
}
