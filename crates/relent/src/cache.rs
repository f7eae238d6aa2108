//! A small cache of results, in which those who ask at once share one attempt.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::hash::Hash;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::kept::Kept;
use crate::sync::{Condvar, Mutex, MutexGuard};
use crate::{Clock, DefaultTimer};

/// A small cache of results, in which those who ask for the same key at once share one attempt. Cheap to clone; clones
/// share everything. It goes around the whole call:
///
/// ```
/// # async fn fetch(id: u32) -> Result<String, std::io::Error> { Ok(id.to_string()) }
/// # let rt = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// # rt.block_on(async {
/// use relent::{Cache, Policy};
/// use std::time::Duration;
///
/// let policy = Policy::default();
/// let cache = Cache::new(Duration::from_secs(60));
/// let user = cache.get(7, || relent::retry(&policy, || fetch(7))).await?;
/// # assert_eq!(user, "7");
/// # Ok::<(), std::sync::Arc<relent::Error<std::io::Error>>>(())
/// # }).unwrap();
/// ```
///
/// - Only successes are kept. An error goes to all who shared the attempt, hence the `Arc`, and the next who asks tries
///   anew.
/// - Where nothing is kept, or no longer, the first who asks makes the attempt and the others wait for it: at expiry
///   comes one attempt, not a herd.
/// - Whose attempt ends without a result (its future was dropped, it panicked) passes it on to one of those who wait,
///   who makes its own. Nobody waits for one that is gone. Who waits for one that goes on waits as long as that: give the
///   call a deadline.
/// - An operation must not ask the cache for its own key: it would wait for itself.
pub struct Cache<K, V, E, T = DefaultTimer> {
    inner: Arc<Mutex<Inner<K, V, E>>>,
    clock: T,
}

struct Inner<K, V, E> {
    kept: Kept<K, V>,
    /// The attempts that are under way.
    flights: HashMap<K, Arc<Flight<V, E>>>,
}

impl<K: Eq + Hash + Clone, V: Clone, E> Cache<K, V, E> {
    /// An empty cache that keeps each value for `ttl` from when it came; with zero it keeps none, and those who ask at once
    /// still share an attempt. On the default timer's clock; at most 1000 values.
    pub fn new(ttl: Duration) -> Self {
        let inner = Inner { kept: Kept::new(ttl), flights: HashMap::new() };
        Self { inner: Arc::new(Mutex::new(inner)), clock: Default::default() }
    }
}

impl<K: Eq + Hash + Clone, V: Clone, E, T> Cache<K, V, E, T> {
    /// The same cache on another clock: for another runtime, or for tests.
    pub fn clock<U>(self, clock: U) -> Cache<K, V, E, U> {
        Cache { inner: self.inner, clock }
    }

    /// How many values are kept at most, in all clones. Where there are more, those that are too old go, or else the eighth
    /// of them that was not asked for the longest. Default: 1000.
    #[must_use]
    pub fn capacity(self, most: usize) -> Self {
        self.lock().kept.capacity = most;
        self
    }

    /// Forgets the value of a key. An attempt under way is not kept either: what it brings may be older than what made
    /// this necessary. Who waits for it already still gets it.
    pub fn forget(&self, key: &K) {
        let mut inner = self.lock();
        let gone = (inner.kept.remove(key), inner.flights.remove(key));
        // A value's own `drop` runs where nothing is locked; here and below.
        drop(inner);
        drop(gone);
    }

    /// How many values are kept, those that are too old and not yet gone included.
    pub fn len(&self) -> usize {
        self.lock().kept.len()
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V, E>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash + Clone, V: Clone, E, T: Clock> Cache<K, V, E, T> {
    /// The value that is kept, or that of an attempt that is under way, or else that of `operation`.
    ///
    /// # Errors
    ///
    /// That of the attempt, shared by all who waited for it.
    pub async fn get<F>(&self, key: K, operation: impl FnOnce() -> F) -> Result<V, Arc<E>>
    where
        F: Future<Output = Result<V, E>>,
    {
        let lead = loop {
            match self.ask(&key) {
                Asked::Kept(value) => return Ok(V::clone(&value)),
                Asked::Under(flight) => {
                    if let Some(result) = (Landing { flight, number: None }).await {
                        return result.map(|value| V::clone(&value));
                    }
                }
                Asked::Nothing(lead) => break lead,
            }
        };
        lead.land(operation().await)
    }

    /// The same on a thread that waits.
    ///
    /// # Errors
    ///
    /// That of the attempt, shared by all who waited for it.
    pub fn get_blocking(&self, key: K, operation: impl FnOnce() -> Result<V, E>) -> Result<V, Arc<E>> {
        let lead = loop {
            match self.ask(&key) {
                Asked::Kept(value) => return Ok(V::clone(&value)),
                Asked::Under(flight) => {
                    if let Some(result) = flight.wait() {
                        return result.map(|value| V::clone(&value));
                    }
                }
                Asked::Nothing(lead) => break lead,
            }
        };
        lead.land(operation())
    }

    fn ask(&self, key: &K) -> Asked<'_, K, V, E, T> {
        let now = self.clock.now();
        let mut inner = self.lock();
        if let Some(value) = inner.kept.get(key, now) {
            return Asked::Kept(value);
        }
        if let Some(flight) = inner.flights.get(key) {
            return Asked::Under(Arc::clone(flight));
        }
        let flight = Arc::new(Flight::new());
        inner.flights.insert(key.clone(), Arc::clone(&flight));
        Asked::Nothing(Lead { cache: self, key: key.clone(), flight })
    }
}

impl<K, V, E, T: Clone> Clone for Cache<K, V, E, T> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), clock: self.clock.clone() }
    }
}

impl<K, V, E, T> fmt::Debug for Cache<K, V, E, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cache").finish_non_exhaustive()
    }
}

/// What one who asks is to do.
enum Asked<'a, K: Eq + Hash + Clone, V: Clone, E, T> {
    /// Nothing: here it is.
    Kept(Arc<V>),
    /// Wait for this.
    Under(Arc<Flight<V, E>>),
    /// Make the attempt.
    Nothing(Lead<'a, K, V, E, T>),
}

/// The one who makes the attempt. Dropped before it landed, it passes on to those who wait.
struct Lead<'a, K: Eq + Hash + Clone, V: Clone, E, T> {
    cache: &'a Cache<K, V, E, T>,
    key: K,
    flight: Arc<Flight<V, E>>,
}

impl<K: Eq + Hash + Clone, V: Clone, E, T: Clock> Lead<'_, K, V, E, T> {
    fn land(self, result: Result<V, E>) -> Result<V, Arc<E>> {
        let result = result.map(Arc::new).map_err(Arc::new);
        let now = self.cache.clock.now();
        let mut inner = self.cache.lock();
        // It may have been forgotten meanwhile, and followed by another.
        let ours = inner.flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight));
        let gone = match &result {
            Ok(value) if ours => inner.kept.put(self.key.clone(), Arc::clone(value), now),
            _ => Vec::new(),
        };
        if ours {
            inner.flights.remove(&self.key);
        }
        drop(inner);
        drop(gone);
        self.flight.end(Progress::Landed(result.clone()));
        result.map(|value| V::clone(&value))
    }
}

impl<K: Eq + Hash + Clone, V: Clone, E, T> Drop for Lead<'_, K, V, E, T> {
    fn drop(&mut self) {
        if !self.flight.is_under_way() {
            return;
        }
        let mut inner = self.cache.lock();
        if inner.flights.get(&self.key).is_some_and(|flight| Arc::ptr_eq(flight, &self.flight)) {
            inner.flights.remove(&self.key);
        }
        drop(inner);
        self.flight.end(Progress::Abandoned);
    }
}

/// An attempt that several wait for.
struct Flight<V, E> {
    progress: Mutex<Progress<V, E>>,
    /// Wakes the threads that wait.
    threads: Condvar,
}

enum Progress<V, E> {
    /// It goes on, and these tasks wait, each under a number of its own.
    UnderWay { last: u64, tasks: BTreeMap<u64, Waker> },
    /// It brought this.
    Landed(Result<Arc<V>, Arc<E>>),
    /// Who made it is gone.
    Abandoned,
}

impl<V, E> Flight<V, E> {
    fn new() -> Self {
        let progress = Progress::UnderWay { last: 0, tasks: BTreeMap::new() };
        Self { progress: Mutex::new(progress), threads: Condvar::new() }
    }

    fn is_under_way(&self) -> bool {
        matches!(*self.lock(), Progress::UnderWay { .. })
    }

    fn end(&self, how: Progress<V, E>) {
        let before = std::mem::replace(&mut *self.lock(), how);
        self.threads.notify_all();
        if let Progress::UnderWay { tasks, .. } = before {
            tasks.into_values().for_each(Waker::wake);
        }
    }

    /// What came of it; none where whoever made it is gone.
    fn wait(&self) -> Option<Result<Arc<V>, Arc<E>>> {
        let mut progress = self.lock();
        loop {
            match &*progress {
                Progress::UnderWay { .. } => {
                    progress = self.threads.wait(progress).unwrap_or_else(PoisonError::into_inner);
                }
                Progress::Landed(result) => return Some(result.clone()),
                Progress::Abandoned => return None,
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Progress<V, E>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A task's wait for a [`Flight`].
struct Landing<V, E> {
    flight: Arc<Flight<V, E>>,
    /// Our number among those that wait, once we do.
    number: Option<u64>,
}

impl<V, E> Future for Landing<V, E> {
    type Output = Option<Result<Arc<V>, Arc<E>>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let flight = Arc::clone(&self.flight);
        let waker = context.waker().clone();
        let mut progress = flight.lock();
        let old = match &mut *progress {
            Progress::Landed(result) => return Poll::Ready(Some(result.clone())),
            Progress::Abandoned => return Poll::Ready(None),
            Progress::UnderWay { last, tasks } => {
                let ours = self.number.unwrap_or_else(|| {
                    *last += 1;
                    *last
                });
                self.number = Some(ours);
                tasks.insert(ours, waker)
            }
        };
        // A waker may be all that holds a task, and the task another wait: it is dropped unlocked.
        drop(progress);
        drop(old);
        Poll::Pending
    }
}

impl<V, E> Drop for Landing<V, E> {
    fn drop(&mut self) {
        let Some(ours) = self.number else { return };
        let gone = match &mut *self.flight.lock() {
            Progress::UnderWay { tasks, .. } => tasks.remove(&ours),
            _ => None,
        };
        drop(gone);
    }
}
