//! Fallbacks: what stands in for a target that does not answer.

use std::fmt;
use std::future::{Future, ready};
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use relent_core::{Class, Event as Happened, Policy, Reason, Timestamp};

use crate::kept::Kept;
use crate::sync::Mutex;
use crate::with::{Async, Blocking, Judge, Notify, Options, Sharing};
use crate::{Attempt, Clock, Error, Event, Report, Timer, Tried, Typed, With, blocking};

/// A call that did not succeed, as its fallback is told: the outermost stage, when deadline and retries have had their say.
#[derive(Debug)]
#[non_exhaustive]
pub struct Failed<R, E, K = Typed> {
    /// What the call would return: an error, or an `Ok` that [`With::classify`] called a failure.
    pub result: Result<R, Error<E, K>>,
    /// Why it ended.
    pub reason: Reason,
    /// What the last attempt ended as; none where none was made.
    pub class: Option<Class>,
    /// How many attempts were made, as [`Error::attempts`] counts them.
    pub attempts: u32,
}

/// A call with a fallback, which ends in `retry` as a [`With`] does. Made by [`With::or`], [`With::or_else`] and
/// [`With::or_last_good`], after all other options.
///
/// The fallback answers for a target that does not: by default where the call ended for any reason but `cancelled`, and with
/// any class but `permanent` and `ignored`. Those *are* answers: a user who is not there should not be found in what was
/// kept. [`only_if`](Self::only_if) says otherwise.
///
/// Never silently: hooks get an event `fallback`, after `gave_up`, and a report says
/// [`fallback`](Report::fallback).
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `retry` is called"]
pub struct WithFallback<W, F, P = fn(Reason, Option<Class>) -> bool> {
    with: W,
    fallback: F,
    whether: P,
}

/// For a target that does not answer, and for no caller that went away.
fn by_default(reason: Reason, class: Option<Class>) -> bool {
    reason != Reason::Cancelled
        && !matches!(class, Some(Class::Permanent | Class::Ignored | Class::Cancelled))
}

impl<C, N, T, S> With<'_, C, N, T, S> {
    /// Where the call does not succeed, returns this value instead.
    ///
    /// ```
    /// # fn ask() -> Result<u32, std::io::Error> { Err(std::io::ErrorKind::ConnectionRefused.into()) }
    /// # let policy = relent::Policy::constant(std::time::Duration::ZERO).build()?;
    /// let stock = relent::blocking::with(&policy).or(0).retry(|_attempt| ask())?;
    /// assert_eq!(stock, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn or<R>(self, value: R) -> WithFallback<Self, Value<R>> {
        self.falls_back_on(Value(value))
    }

    /// Where the call does not succeed, asks `answer`, which gets what came of it and why. In an async call it returns a
    /// future. What it cannot answer it gives back as it got it, and that is what the call returns: a fallback has no error
    /// of its own, so that the one that matters is never hidden by it.
    ///
    /// ```
    /// # fn ask() -> Result<u32, std::io::Error> { Err(std::io::ErrorKind::ConnectionRefused.into()) }
    /// # fn replica() -> Result<u32, std::io::Error> { Ok(3) }
    /// # let policy = relent::Policy::constant(std::time::Duration::ZERO).build()?;
    /// let stock = relent::blocking::with(&policy)
    ///     .or_else(|failed| replica().map_err(|_| failed))
    ///     .retry(|_attempt| ask())?;
    /// assert_eq!(stock, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[expect(clippy::type_complexity, reason = "nobody writes it down")]
    pub fn or_else<R, E, K, A, F>(self, answer: F) -> WithFallback<Self, Else<F, Failed<R, E, K>, A>>
    where
        F: FnOnce(Failed<R, E, K>) -> A,
    {
        self.falls_back_on(Else(answer, PhantomData))
    }

    /// Where the call does not succeed, returns the last value with which such a call did, if that is not too old. Each
    /// success is kept there under `key`.
    pub fn or_last_good<K, R>(self, values: &LastGood<K, R>, key: K) -> WithFallback<Self, Recall<K, R>> {
        self.falls_back_on(Recall { values: values.clone(), key })
    }

    fn falls_back_on<F>(self, fallback: F) -> WithFallback<Self, F> {
        WithFallback { with: self, fallback, whether: by_default as fn(_, _) -> _ }
    }
}

impl<W, F, P> WithFallback<W, F, P> {
    /// Where the fallback before cannot answer, this value.
    pub fn or<R>(self, value: R) -> WithFallback<W, (F, Value<R>), P> {
        self.then(Value(value))
    }

    /// Where the fallback before cannot answer, this one. See [`With::or_else`].
    #[expect(clippy::type_complexity, reason = "nobody writes it down")]
    pub fn or_else<R, E, K, A, G>(self, answer: G) -> WithFallback<W, (F, Else<G, Failed<R, E, K>, A>), P>
    where
        G: FnOnce(Failed<R, E, K>) -> A,
    {
        self.then(Else(answer, PhantomData))
    }

    /// When the fallback is asked, by the reason why the call ended and the class of its last attempt, if one was made;
    /// instead of the default. `|_, _| true` asks it for calls that were cancelled too.
    pub fn only_if<Q>(self, whether: Q) -> WithFallback<W, F, Q>
    where
        Q: FnOnce(Reason, Option<Class>) -> bool,
    {
        WithFallback { with: self.with, fallback: self.fallback, whether }
    }

    fn then<G>(self, next: G) -> WithFallback<W, (F, G), P> {
        WithFallback { with: self.with, fallback: (self.fallback, next), whether: self.whether }
    }
}

impl<C, N, T, S, G, P> WithFallback<With<'_, C, N, Async<T>, S>, G, P>
where
    P: FnOnce(Reason, Option<Class>) -> bool,
{
    /// [`With::retry`], and the fallback where that does not succeed.
    ///
    /// # Errors
    ///
    /// The call's own, where the fallback is not asked or cannot answer.
    pub async fn retry<R, E, Via, O, F>(self, operation: O) -> Result<R, Error<E, C::Kind>>
    where
        T: Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        G: AsyncFallback<R, E, C::Kind>,
        O: FnMut(Attempt<T>) -> F,
        F: Future<Output = Result<R, E>>,
    {
        if !C::OK_IS_SUCCESS {
            return self.retry_report(operation).await.result;
        }
        let Self { with, fallback, whether } = self;
        let With { policy, options, classify, mut notify, timer, shares } = with;
        let told = Told::new::<N, E>(policy, &options, &timer.0);
        let with = With { policy, options, classify, notify: &mut notify, timer, shares };
        match with.retry(operation).await {
            Ok(value) => {
                fallback.keep(&value, &told.clock);
                Ok(value)
            }
            Err(error) => {
                let failed = Failed::by(error);
                if !whether(failed.reason, failed.class) {
                    return failed.result;
                }
                let (reason, attempts) = (failed.reason, failed.attempts);
                let answer = fallback.answer(failed, told.clock.now()).await;
                told.tell(&mut notify, reason, attempts, &answer);
                answer.or_else(|failed| failed.result)
            }
        }
    }

    /// [`With::retry_report`], and the fallback where that does not succeed.
    pub async fn retry_report<R, E, Via, O, F>(self, operation: O) -> Report<R, E, C::Kind>
    where
        T: Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        G: AsyncFallback<R, E, C::Kind>,
        O: FnMut(Attempt<T>) -> F,
        F: Future<Output = Result<R, E>>,
    {
        let Self { with, fallback, whether } = self;
        let With { policy, options, classify, mut notify, timer, shares } = with;
        let told = Told::new::<N, E>(policy, &options, &timer.0);
        let with = With { policy, options, classify, notify: &mut notify, timer, shares };
        let report = with.retry_report(operation).await;
        if let (Ok(value), Reason::Succeeded) = (&report.result, report.reason) {
            fallback.keep(value, &told.clock);
            return report;
        }
        let (failed, rest) = Failed::of(report);
        if !whether(failed.reason, failed.class) {
            return rest.with(failed.result, false);
        }
        let answer = fallback.answer(failed, told.clock.now()).await;
        told.tell(&mut notify, rest.reason, rest.attempts, &answer);
        let answered = answer.is_ok();
        rest.with(answer.or_else(|failed| failed.result), answered)
    }
}

impl<C, N, T, S, G, P> WithFallback<With<'_, C, N, Blocking<T>, S>, G, P>
where
    P: FnOnce(Reason, Option<Class>) -> bool,
{
    /// `retry`, and the fallback where that does not succeed.
    ///
    /// # Errors
    ///
    /// The call's own, where the fallback is not asked or cannot answer.
    pub fn retry<R, E, Via>(
        self,
        operation: impl FnMut(Attempt<T>) -> Result<R, E>,
    ) -> Result<R, Error<E, C::Kind>>
    where
        T: blocking::Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        G: Fallback<R, E, C::Kind>,
    {
        if !C::OK_IS_SUCCESS {
            return self.retry_report(operation).result;
        }
        let Self { with, fallback, whether } = self;
        let With { policy, options, classify, mut notify, timer, shares } = with;
        let told = Told::new::<N, E>(policy, &options, &timer.0);
        let with = With { policy, options, classify, notify: &mut notify, timer, shares };
        match with.retry(operation) {
            Ok(value) => {
                fallback.keep(&value, &told.clock);
                Ok(value)
            }
            Err(error) => {
                let failed = Failed::by(error);
                if !whether(failed.reason, failed.class) {
                    return failed.result;
                }
                let (reason, attempts) = (failed.reason, failed.attempts);
                let answer = fallback.answer(failed, told.clock.now());
                told.tell(&mut notify, reason, attempts, &answer);
                answer.or_else(|failed| failed.result)
            }
        }
    }

    /// `retry_report`, and the fallback where that does not succeed.
    pub fn retry_report<R, E, Via>(
        self,
        operation: impl FnMut(Attempt<T>) -> Result<R, E>,
    ) -> Report<R, E, C::Kind>
    where
        T: blocking::Timer,
        S: Sharing<T>,
        C: Judge<R, E, Via>,
        N: Notify<E>,
        G: Fallback<R, E, C::Kind>,
    {
        let Self { with, fallback, whether } = self;
        let With { policy, options, classify, mut notify, timer, shares } = with;
        let told = Told::new::<N, E>(policy, &options, &timer.0);
        let with = With { policy, options, classify, notify: &mut notify, timer, shares };
        let report = with.retry_report(operation);
        if let (Ok(value), Reason::Succeeded) = (&report.result, report.reason) {
            fallback.keep(value, &told.clock);
            return report;
        }
        let (failed, rest) = Failed::of(report);
        if !whether(failed.reason, failed.class) {
            return rest.with(failed.result, false);
        }
        let answer = fallback.answer(failed, told.clock.now());
        told.tell(&mut notify, rest.reason, rest.attempts, &answer);
        let answered = answer.is_ok();
        rest.with(answer.or_else(|failed| failed.result), answered)
    }
}

impl<R, E, K> Failed<R, E, K> {
    fn by(error: Error<E, K>) -> Self {
        let (reason, class, attempts) = (error.reason(), error.class(), error.attempts());
        Self { result: Err(error), reason, class, attempts }
    }

    /// The same of a report, and what is left of that.
    fn of(report: Report<R, E, K>) -> (Self, Rest) {
        let Report { result, reason, attempts, history, elapsed, .. } = report;
        let class = history.last().map(|tried| tried.class);
        (Self { result, reason, class, attempts }, Rest { reason, attempts, history, elapsed })
    }
}

/// A report without its result.
struct Rest {
    reason: Reason,
    attempts: u32,
    history: Vec<Tried>,
    elapsed: Option<Duration>,
}

impl Rest {
    fn with<R, E, K>(self, result: Result<R, Error<E, K>>, fallback: bool) -> Report<R, E, K> {
        let Self { reason, attempts, history, elapsed } = self;
        Report { result, reason, attempts, history, elapsed, fallback }
    }
}

/// What an event of the fallback has to say beside what happened.
struct Told<'a, T> {
    policy: &'a Policy,
    /// None where nobody listens.
    options: Option<Options<'a>>,
    began: Option<Timestamp>,
    clock: T,
}

impl<'a, T: Clock> Told<'a, T> {
    fn new<N: Notify<E>, E>(policy: &'a Policy, options: &Options<'a>, clock: &T) -> Self {
        let options = N::LISTENS.then(|| options.clone());
        Self { policy, options, began: N::LISTENS.then(|| clock.now()), clock: clock.clone() }
    }

    /// The one place that sends the fallback's event: the call, and with it its own place, has ended.
    fn tell<R, E, K>(
        &self,
        notify: &mut impl Notify<E>,
        reason: Reason,
        attempts: u32,
        answer: &Result<R, Failed<R, E, K>>,
    ) {
        let Some(options) = &self.options else { return };
        let failed = answer.as_ref().err();
        let event = Event {
            happened: Happened::Fallback { attempts, reason, answered: failed.is_none() },
            name: options.name,
            target: options.targets.of_attempt(attempts.max(1)),
            priority: options.priority,
            max_attempts: self.policy.max_attempts(),
            error: failed.and_then(|failed| failed.result.as_ref().err()?.last()),
            elapsed: self.began.map(|began| self.clock.now().since(began)),
            remaining: None,
            budget: None,
            context: options.context,
        };
        notify.notify(&event);
    }
}

/// Is told of successes.
pub trait Keeps<R> {
    /// A call succeeded with this.
    fn keep(&self, _value: &R, _clock: &impl Clock) {}
}

/// Answers for a blocking call that did not succeed, or gives back what it got.
pub trait Fallback<R, E, K>: Keeps<R> {
    /// Answers.
    ///
    /// # Errors
    ///
    /// What it got, where it cannot.
    fn answer(self, failed: Failed<R, E, K>, now: Timestamp) -> Result<R, Failed<R, E, K>>;
}

/// The same for an async call.
pub trait AsyncFallback<R, E, K>: Keeps<R> {
    /// Answers, or fails with what it got.
    fn answer(
        self,
        failed: Failed<R, E, K>,
        now: Timestamp,
    ) -> impl Future<Output = Result<R, Failed<R, E, K>>>;
}

/// A value.
#[derive(Clone, Debug)]
pub struct Value<R>(R);

impl<R> Keeps<R> for Value<R> {}

impl<R, E, K> Fallback<R, E, K> for Value<R> {
    fn answer(self, _failed: Failed<R, E, K>, _now: Timestamp) -> Result<R, Failed<R, E, K>> {
        Ok(self.0)
    }
}

impl<R, E, K> AsyncFallback<R, E, K> for Value<R> {
    fn answer(
        self,
        _failed: Failed<R, E, K>,
        _now: Timestamp,
    ) -> impl Future<Output = Result<R, Failed<R, E, K>>> {
        ready(Ok(self.0))
    }
}

/// A function.
pub struct Else<F, I, A>(F, PhantomData<fn(I) -> A>);

impl<F, I, A> fmt::Debug for Else<F, I, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Else").finish_non_exhaustive()
    }
}

impl<F: Clone, I, A> Clone for Else<F, I, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<R, F, I, A> Keeps<R> for Else<F, I, A> {}

impl<F, R, E, K> Fallback<R, E, K> for Else<F, Failed<R, E, K>, Result<R, Failed<R, E, K>>>
where
    F: FnOnce(Failed<R, E, K>) -> Result<R, Failed<R, E, K>>,
{
    fn answer(self, failed: Failed<R, E, K>, _now: Timestamp) -> Result<R, Failed<R, E, K>> {
        (self.0)(failed)
    }
}

impl<F, R, E, K, A> AsyncFallback<R, E, K> for Else<F, Failed<R, E, K>, A>
where
    F: FnOnce(Failed<R, E, K>) -> A,
    A: Future<Output = Result<R, Failed<R, E, K>>>,
{
    fn answer(
        self,
        failed: Failed<R, E, K>,
        _now: Timestamp,
    ) -> impl Future<Output = Result<R, Failed<R, E, K>>> {
        (self.0)(failed)
    }
}

/// One, and where that cannot answer the other.
impl<R, F: Keeps<R>, G: Keeps<R>> Keeps<R> for (F, G) {
    fn keep(&self, value: &R, clock: &impl Clock) {
        self.0.keep(value, clock);
        self.1.keep(value, clock);
    }
}

impl<R, E, K, F: Fallback<R, E, K>, G: Fallback<R, E, K>> Fallback<R, E, K> for (F, G) {
    fn answer(self, failed: Failed<R, E, K>, now: Timestamp) -> Result<R, Failed<R, E, K>> {
        self.0.answer(failed, now).or_else(|failed| self.1.answer(failed, now))
    }
}

impl<R, E, K, F: AsyncFallback<R, E, K>, G: AsyncFallback<R, E, K>> AsyncFallback<R, E, K> for (F, G) {
    async fn answer(self, failed: Failed<R, E, K>, now: Timestamp) -> Result<R, Failed<R, E, K>> {
        match self.0.answer(failed, now).await {
            Ok(value) => Ok(value),
            Err(failed) => self.1.answer(failed, now).await,
        }
    }
}

/// The last values with which calls succeeded, by key: for [`With::or_last_good`]. Cheap to clone; clones share everything.
///
/// The key is whatever tells answers apart: the target, the user, the question; `()` where there is one value only. Ages
/// are those of the calls' clock.
///
/// ```
/// use relent::testing::Clock;
/// use relent::{Class, LastGood, Policy};
/// use std::time::Duration;
///
/// let policy = Policy::default();
/// let good = LastGood::new(Duration::from_secs(600));
/// let clock = Clock::new();
/// let rate = |answer: Result<f64, &'static str>| {
///     let call = relent::blocking::with(&policy).when(|_: &&str| Class::Transient).timer(clock.clone());
///     call.or_last_good(&good, "EUR/USD").retry(|_attempt| answer)
/// };
/// assert_eq!(rate(Ok(1.08)).unwrap(), 1.08);
/// assert_eq!(rate(Err("down")).unwrap(), 1.08);
/// // After ten minutes no rate is better than an old one.
/// clock.advance(Duration::from_secs(600));
/// assert!(rate(Err("down")).is_err());
/// ```
pub struct LastGood<K, R> {
    kept: Arc<Mutex<Kept<K, R>>>,
}

impl<K: Eq + Hash, R> LastGood<K, R> {
    /// None yet. A value stands in until it is as old as `max_age`; with zero none does. At most 1000 values.
    pub fn new(max_age: Duration) -> Self {
        Self { kept: Arc::new(Mutex::new(Kept::new(max_age))) }
    }

    /// How many values are kept at most, in all clones. Where there are more, those that are too old go, or else the eighth
    /// of them that was not asked for the longest. Default: 1000.
    #[must_use]
    pub fn capacity(self, most: usize) -> Self {
        self.with(|kept| kept.capacity = most);
        self
    }

    /// Forgets the value of a key.
    pub fn forget(&self, key: &K) {
        // Its own `drop` runs where nothing is locked.
        drop(self.with(|kept| kept.remove(key)));
    }

    fn with<A>(&self, look: impl FnOnce(&mut Kept<K, R>) -> A) -> A {
        look(&mut self.kept.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K, R> Clone for LastGood<K, R> {
    fn clone(&self) -> Self {
        Self { kept: Arc::clone(&self.kept) }
    }
}

impl<K, R> fmt::Debug for LastGood<K, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LastGood").finish_non_exhaustive()
    }
}

/// The last good value of a key.
#[derive(Clone, Debug)]
pub struct Recall<K, R> {
    values: LastGood<K, R>,
    key: K,
}

impl<K: Eq + Hash + Clone, R: Clone> Recall<K, R> {
    fn value(&self, now: Timestamp) -> Option<R> {
        let value = self.values.with(|kept| kept.get(&self.key, now))?;
        Some(R::clone(&value))
    }
}

impl<K: Eq + Hash + Clone, R: Clone> Keeps<R> for Recall<K, R> {
    fn keep(&self, value: &R, clock: &impl Clock) {
        let (key, value, now) = (self.key.clone(), Arc::new(value.clone()), clock.now());
        drop(self.values.with(|kept| kept.put(key, value, now)));
    }
}

impl<K: Eq + Hash + Clone, R: Clone, E, L> Fallback<R, E, L> for Recall<K, R> {
    fn answer(self, failed: Failed<R, E, L>, now: Timestamp) -> Result<R, Failed<R, E, L>> {
        self.value(now).ok_or(failed)
    }
}

impl<K: Eq + Hash + Clone, R: Clone, E, L> AsyncFallback<R, E, L> for Recall<K, R> {
    fn answer(
        self,
        failed: Failed<R, E, L>,
        now: Timestamp,
    ) -> impl Future<Output = Result<R, Failed<R, E, L>>> {
        ready(self.value(now).ok_or(failed))
    }
}
