//! Outcomes by script.

use std::collections::VecDeque;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

/// An operation that returns what a script says, one entry an attempt, and counts. Clones share one script.
#[derive(Clone, Debug)]
pub struct Script<T>(Arc<Mutex<State<T>>>);

#[derive(Debug)]
struct State<T> {
    outcomes: VecDeque<T>,
    attempts: u32,
}

impl<T> Script<T> {
    /// A script of `outcomes`.
    pub fn new(outcomes: impl IntoIterator<Item = T>) -> Self {
        Self(Arc::new(Mutex::new(State { outcomes: outcomes.into_iter().collect(), attempts: 0 })))
    }

    /// The next outcome.
    ///
    /// # Panics
    ///
    /// When the script is over: the operation was attempted more often than the test expects.
    #[allow(clippy::should_implement_trait, clippy::panic)]
    pub fn next(&self) -> T {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.attempts += 1;
        let Some(outcome) = state.outcomes.pop_front() else {
            panic!("attempt {} was made, which the script does not have", state.attempts)
        };
        outcome
    }

    /// The next outcome, as a future that is ready at once.
    pub fn attempt(&self) -> impl Future<Output = T> + use<T> {
        std::future::ready(self.next())
    }

    /// How many attempts were made.
    pub fn attempts(&self) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).attempts
    }
}
