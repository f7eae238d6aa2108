//! What an operation is told about the attempt that it is.

use std::cell::Cell;
use std::fmt;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use relent_core::{Class, Hint};

use crate::{AttemptToken, Clock, DefaultTimer, Targets};

/// One attempt of a call: what the operation may want to know. Owned, so that it can be moved into a task.
#[derive(Clone, Debug)]
pub struct Attempt<T = DefaultTimer> {
    pub(crate) number: u32,
    pub(crate) max: Option<u32>,
    pub(crate) last: Option<(Class, Option<Hint>)>,
    pub(crate) token: AttemptToken<T>,
    pub(crate) key: Key,
    pub(crate) targets: Targets,
}

impl<T> Attempt<T> {
    /// Its number, from 1. After a time of health (the backoff's `reset_after`) attempts are counted anew: a failure then
    /// was number 1.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// How many attempts there may be in all; none: unlimited.
    pub fn max(&self) -> Option<u32> {
        self.max
    }

    /// What the attempt before it ended as.
    pub fn last_class(&self) -> Option<Class> {
        self.last.map(|(class, _)| class)
    }

    /// What the server asked for in answer to the attempt before it.
    pub fn last_hint(&self) -> Option<Hint> {
        self.last.and_then(|(_, hint)| hint)
    }

    /// The call's idempotency key: the same in each attempt of a call, another one in the next call. Drawn when it is
    /// first read, unless the caller gave one.
    pub fn idempotency_key(&self) -> &Key {
        self.key.mark_read();
        &self.key
    }

    /// The endpoint that this attempt should go to, where the caller named some.
    pub fn target(&self) -> Option<&str> {
        self.targets.of_attempt(self.number)
    }

    /// The endpoints that have already failed in this call.
    pub fn failed_targets(&self) -> impl Iterator<Item = &str> {
        self.targets.failed_before(self.number)
    }

    /// What fires when this attempt should end, and says why.
    pub fn token(&self) -> &AttemptToken<T> {
        &self.token
    }
}

impl<T: Clock> Attempt<T> {
    /// What is left for this attempt: of the call's deadline or of the attempt's timeout, whichever is less. None
    /// where the policy has neither. A blocking operation that can take a timeout should take this one.
    pub fn remaining(&self) -> Option<Duration> {
        let (end, _) = self.token.end()?;
        Some(end.since(self.token.timer.now()))
    }

    /// Whether this attempt should end now. A blocking operation in steps should ask between them.
    pub fn is_cancelled(&self) -> bool {
        self.token.fired().is_some()
    }
}

/// An idempotency key: what the caller gave, or else a UUID of version 4.
///
/// Its text is the [`Display`](fmt::Display) form.
#[derive(Clone, Debug)]
pub struct Key {
    kept: Kept,
    /// Told when the key is read, where the policy makes retries depend on that.
    read: Option<Arc<AtomicBool>>,
}

#[derive(Clone, Debug)]
enum Kept {
    Given(Arc<str>),
    /// The number of the call in this process, of which the key is a keyed hash: so each attempt computes the same
    /// one, and a call that asks for none pays for none.
    Call(u64),
}

impl Key {
    pub(crate) fn given(key: Arc<str>) -> Self {
        Self { kept: Kept::Given(key), read: None }
    }

    pub(crate) fn of_new_call() -> Self {
        Self { kept: Kept::Call(next_call()), read: None }
    }

    pub(crate) fn watched(self) -> (Self, Arc<AtomicBool>) {
        let read = Arc::new(AtomicBool::new(false));
        (Self { read: Some(Arc::clone(&read)), ..self }, read)
    }

    fn mark_read(&self) {
        if let Some(read) = &self.read {
            read.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kept {
            Kept::Given(key) => f.pad(key),
            Kept::Call(number) => uuid(*number).hyphenated().fmt(f),
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.kept, &other.kept) {
            (Kept::Given(ours), Kept::Given(theirs)) => ours == theirs,
            (Kept::Call(ours), Kept::Call(theirs)) => ours == theirs,
            _ => false,
        }
    }
}

impl Eq for Key {}

/// A number that no other call of this process has. Threads take blocks of them, so that they do not meet.
fn next_call() -> u64 {
    const BLOCK: u64 = 1 << 16;
    static NEXT_BLOCK: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NEXT: Cell<u64> = const { Cell::new(0) };
    }
    NEXT.with(|next| {
        let mut number = next.get();
        if number.is_multiple_of(BLOCK) {
            number = NEXT_BLOCK.fetch_add(BLOCK, Ordering::Relaxed);
        }
        next.set(number + 1);
        number
    })
}

/// The UUID of a call: SipHash under two keys that the operating system drew for this process.
fn uuid(call: u64) -> uuid::Uuid {
    static KEYS: OnceLock<(RandomState, RandomState)> = OnceLock::new();
    let (high, low) = KEYS.get_or_init(|| (RandomState::new(), RandomState::new()));
    let half = |key: &RandomState| {
        let mut hasher = key.build_hasher();
        hasher.write_u64(call);
        // A forked process has its parent's keys and numbers, but not its id.
        hasher.write_u32(std::process::id());
        hasher.finish()
    };
    let random = u128::from(half(high)) << 64 | u128::from(half(low));
    uuid::Builder::from_random_bytes(random.to_be_bytes()).into_uuid()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_differ_between_calls_and_threads_and_stay_within_one() {
        let drawn = || (0..1000).map(|_| Key::of_new_call()).collect::<Vec<_>>();
        let mut keys = drawn();
        std::thread::scope(|scope| {
            let others: Vec<_> = (0..4).map(|_| scope.spawn(drawn)).collect();
            others.into_iter().for_each(|other| keys.extend(other.join().unwrap()));
        });
        let texts: HashSet<String> = keys.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 5000);
        assert!(keys.iter().all(|key| key.to_string() == key.clone().to_string()));
        let parsed = uuid::Uuid::parse_str(&keys[0].to_string()).unwrap();
        assert_eq!(parsed.get_version_num(), 4);
    }

    #[test]
    fn blocks_of_numbers_do_not_overlap() {
        let numbers: HashSet<u64> = (0..200_000).map(|_| next_call()).collect();
        assert_eq!(numbers.len(), 200_000);
    }
}
