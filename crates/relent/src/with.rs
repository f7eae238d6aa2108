//! Options first, the verb last.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use relent_core::{Alone, HedgePolicy, Held, News, Outcome, Policy, Priority, Timestamp};

use crate::attempt::Key;
use crate::{Clock, Event, Failure, Member, Target, Targets, Token};

/// A call's options, begun by [`relent::with`](fn@crate::with) or [`blocking::with`](crate::blocking::with) and ended by
/// `retry`.
///
/// The type parameters say how outcomes are classified, who is notified, who sleeps, and what is shared with other
/// calls; they follow from the calls below and need not be written down.
#[derive(Clone, Debug)]
#[must_use = "nothing happens until `retry` is called"]
pub struct With<'a, C, N, T, S = Alone> {
    pub(crate) policy: &'a Policy,
    pub(crate) options: Options<'a>,
    pub(crate) classify: C,
    pub(crate) notify: N,
    pub(crate) timer: T,
    pub(crate) shares: S,
}

/// What a call may be told that is not part of its policy.
#[derive(Clone, Default)]
pub(crate) struct Options<'a> {
    pub(crate) name: Option<&'a str>,
    pub(crate) targets: Targets,
    pub(crate) priority: Option<u8>,
    pub(crate) context: Option<&'a (dyn Any + Send + Sync)>,
    pub(crate) cancel: Option<Token>,
    pub(crate) key: Option<Key>,
    pub(crate) idempotent: Option<bool>,
    pub(crate) hedge: Option<&'a HedgePolicy>,
}

impl Options<'_> {
    /// The priority as budgets know it.
    #[inline]
    pub(crate) fn rank(&self) -> Priority {
        if self.priority >= Some(1) { Priority::High } else { Priority::Normal }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("name", &self.name)
            .field("targets", &self.targets)
            .finish_non_exhaustive()
    }
}

impl<'a, C, N, T, S> With<'a, C, N, T, S> {
    /// Says which errors are worth another try: the closure returns true for those that are, or a
    /// [`Class`](crate::Class), or a whole [`Outcome`]. Every `Ok` is a success. No bounds on the error: one that is no
    /// `std::error::Error` itself but leads to one, such as an `anyhow::Error`, becomes the call's `source` by
    /// [`Error::into_kind`](crate::Error::into_kind).
    pub fn when<E, O, F>(self, again: F) -> With<'a, WhenError<F, E, O>, N, T, S>
    where
        F: FnMut(&E) -> O,
        O: Into<Outcome>,
    {
        self.judged_by(WhenError(again, PhantomData))
    }

    /// Classifies whole results: for an `Ok` that is a failure all the same, such as a response with status 503. A
    /// final `Ok` comes back as it is, whatever its class.
    pub fn classify<R, E, O, F>(self, class: F) -> With<'a, WhenResult<F, R, E, O>, N, T, S>
    where
        F: FnMut(&Result<R, E>) -> O,
        O: Into<Outcome>,
    {
        self.judged_by(WhenResult(class, PhantomData))
    }

    /// Calls `hook` with each event. Hooks see; they do not decide. With a hook, the clock is read for the events' times
    /// even where the policy needs none.
    pub fn notify<E, F>(self, hook: F) -> With<'a, C, Hook<F, E>, T, S>
    where
        F: FnMut(&Event<'_, E>),
    {
        let Self { policy, options, classify, timer, shares, .. } = self;
        With { policy, options, classify, notify: Hook(hook, PhantomData), timer, shares }
    }

    /// Ends the call when `token` is cancelled: in an attempt or in a wait, at once, and without another try.
    pub fn cancel_on(mut self, token: &Token) -> Self {
        self.options.cancel = Some(token.clone());
        self
    }

    /// The call's name, for events.
    pub fn name(mut self, name: &'a str) -> Self {
        self.options.name = Some(name);
        self
    }

    /// The endpoint that the call goes to, or several in order of preference: a `&'static str`, a `String`, or a list of
    /// either. See [`Targets`].
    pub fn target(mut self, targets: impl Into<Targets>) -> Self {
        self.options.targets = targets.into();
        self
    }

    /// Makes the call one of those that share `target`: its breaker, its budgets, its limits. The policy stays this one.
    /// What the call is told to be [to](Self::target) is for its events only.
    pub fn at(self, target: &'a Target) -> With<'a, C, N, T, &'a Target> {
        let Self { policy, options, classify, notify, timer, .. } = self;
        With { policy, options, classify, notify, timer, shares: target }
    }

    /// The call's priority, for events and shared state: from 1 on it may take what budgets keep for calls of high
    /// priority. What else the numbers mean is the caller's to say.
    pub fn priority(mut self, priority: u8) -> Self {
        self.options.priority = Some(priority);
        self
    }

    /// Anything that the hook should find in its events. See [`Event::context`].
    pub fn context(mut self, context: &'a (dyn Any + Send + Sync)) -> Self {
        self.options.context = Some(context);
        self
    }

    /// The call's idempotency key, where the caller has one of its own. The call then counts as idempotent. Default: a
    /// UUID, drawn when an attempt first reads it.
    pub fn idempotency_key(mut self, key: impl Into<Arc<str>>) -> Self {
        self.options.key = Some(Key::given(key.into()));
        self
    }

    /// Whether doing the thing twice does no harm. Where it may, only what was certainly not sent is tried again.
    /// Default: true, unless the policy requires idempotency; then a call counts as idempotent once an attempt has
    /// read its key.
    pub fn idempotent(mut self, idempotent: bool) -> Self {
        self.options.idempotent = Some(idempotent);
        self
    }

    /// Hedges the call: another attempt starts while one runs that is slow to answer. Without a [target](Self::at) no
    /// latencies are observed, so a quantile stays at its first value; a [`Retrier`](crate::Retrier) can hedge all of its
    /// calls. A blocking call is hedged by [`retry_hedged`](Self::retry_hedged) only. See
    /// [the guide](crate::guide::hedging).
    pub fn hedge(mut self, policy: &'a HedgePolicy) -> Self {
        self.options.hedge = Some(policy);
        self
    }

    /// Another timer: for another runtime, or for tests.
    pub fn timer<U>(self, timer: U) -> With<'a, C, N, <T as Colour>::Of<U>, S>
    where
        T: Colour,
    {
        let Self { policy, options, classify, notify, timer: old, shares } = self;
        With { policy, options, classify, notify, timer: old.replaced(timer), shares }
    }

    fn judged_by<D>(self, classify: D) -> With<'a, D, N, T, S> {
        let Self { policy, options, notify, timer, shares, .. } = self;
        With { policy, options, classify, notify, timer, shares }
    }
}

/// What a call shares with others: nothing ([`Alone`]), or a [`Target`]. A question for the compiler, so that a call that
/// shares nothing carries nothing.
pub trait Sharing<T> {
    /// What the call is asked through, and holds.
    type Member: Membership;

    /// The call begins to share.
    fn joined(self, clock: &T, priority: Priority) -> Self::Member;
}

/// A call's part in what is shared.
pub trait Membership: relent_core::Shared {
    /// Whether anything is shared at all.
    const SHARES: bool;

    /// Whether any of it needs to know the time.
    fn needs_clock(&self) -> bool;

    /// Which budget refused the last retry, by its index.
    fn refused_by(&self) -> Option<usize>;

    /// What there is to tell of it, once.
    fn news(&mut self) -> News;

    /// What ends a wait for its turn.
    fn turn(&self) -> Option<Token>;

    /// How calls are hedged, where what is shared says so.
    fn hedge_policy(&self) -> Option<HedgePolicy>;

    /// How long a call waits before it hedges.
    fn hedge_delay(&self, policy: &HedgePolicy, now: Timestamp) -> Option<Duration>;

    /// Takes out what the attempt holds that was admitted last, so that others can run beside it.
    fn take_attempt(&mut self) -> Self;

    /// What a hedge holds.
    fn of_hedge(&self) -> Self;

    /// Goes on from an attempt that ran beside others.
    fn go_on(&mut self, from: Self);
}

impl<T> Sharing<T> for Alone {
    type Member = Self;

    #[inline]
    fn joined(self, _clock: &T, _priority: Priority) -> Self {
        self
    }
}

impl Membership for Alone {
    const SHARES: bool = false;

    #[inline]
    fn needs_clock(&self) -> bool {
        false
    }

    fn refused_by(&self) -> Option<usize> {
        None
    }

    #[inline]
    fn news(&mut self) -> News {
        News::default()
    }

    #[inline]
    fn turn(&self) -> Option<Token> {
        None
    }

    fn hedge_policy(&self) -> Option<HedgePolicy> {
        None
    }

    fn hedge_delay(&self, policy: &HedgePolicy, now: Timestamp) -> Option<Duration> {
        policy.delay(None, now)
    }

    fn take_attempt(&mut self) -> Self {
        Self
    }

    fn of_hedge(&self) -> Self {
        Self
    }

    fn go_on(&mut self, _from: Self) {}
}

impl<T: Clock> Sharing<T> for &Target {
    type Member = Member<T>;

    #[inline]
    fn joined(self, clock: &T, priority: Priority) -> Member<T> {
        self.join(clock.clone()).priority(priority)
    }
}

impl<T: Clock> Membership for Member<T> {
    const SHARES: bool = true;

    #[inline]
    fn needs_clock(&self) -> bool {
        Self::needs_clock(self)
    }

    fn refused_by(&self) -> Option<usize> {
        Self::refused_by(self)
    }

    fn news(&mut self) -> News {
        Self::news(self)
    }

    fn turn(&self) -> Option<Token> {
        Self::turn(self)
    }

    fn hedge_policy(&self) -> Option<HedgePolicy> {
        self.state.hedge
    }

    fn hedge_delay(&self, policy: &HedgePolicy, now: Timestamp) -> Option<Duration> {
        match &self.state.latencies {
            Some(latencies) => latencies.with(|latencies| policy.delay(Some(latencies), now)),
            None => policy.delay(None, now),
        }
    }

    fn take_attempt(&mut self) -> Self {
        let held = self.held.take_attempt();
        self.beside(held)
    }

    fn of_hedge(&self) -> Self {
        self.beside(Held::of_hedge(self.held.priority()))
    }

    fn go_on(&mut self, mut from: Self) {
        self.held.go_on(std::mem::take(&mut from.held));
    }
}

/// Blocking or async: the same options lead to either, but one call is only one of them.
pub trait Colour {
    /// The same colour around another timer.
    type Of<U>;

    /// Puts another timer in.
    fn replaced<U>(self, timer: U) -> Self::Of<U>;
}

/// The options of an async call.
#[derive(Clone, Copy, Debug)]
pub struct Async<T>(pub(crate) T);

/// The options of a blocking call.
#[derive(Clone, Copy, Debug)]
pub struct Blocking<T>(pub(crate) T);

impl<T> Colour for Async<T> {
    type Of<U> = Async<U>;

    fn replaced<U>(self, timer: U) -> Async<U> {
        Async(timer)
    }
}

impl<T> Colour for Blocking<T> {
    type Of<U> = Blocking<U>;

    fn replaced<U>(self, timer: U) -> Blocking<U> {
        Blocking(timer)
    }
}

/// Judges the result of an attempt. `Via` is that of [`Failure`] where the error judges itself.
pub trait Judge<R, E, Via> {
    /// How relent's own error holds the call's.
    type Kind;

    /// Whether an `Ok` is always a success, so that the driver need not ask.
    const OK_IS_SUCCESS: bool;

    /// The result's outcome.
    fn judge(&mut self, result: &Result<R, E>) -> Outcome;
}

/// Errors judge themselves: the default.
#[derive(Clone, Copy, Debug)]
pub struct ByFailure;

impl<R, E: Failure<Via>, Via> Judge<R, E, Via> for ByFailure {
    type Kind = E::Kind;
    const OK_IS_SUCCESS: bool = true;

    fn judge(&mut self, result: &Result<R, E>) -> Outcome {
        match result {
            Ok(_) => relent_core::Class::Success.into(),
            Err(error) => error.outcome(),
        }
    }
}

/// Errors are judged by a closure.
#[derive(Debug)]
pub struct WhenError<F, E, O>(F, PhantomData<fn(&E) -> O>);

impl<F: Clone, E, O> Clone for WhenError<F, E, O> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<R, E, O: Into<Outcome>, F: FnMut(&E) -> O> Judge<R, E, ()> for WhenError<F, E, O> {
    type Kind = crate::Typed;
    const OK_IS_SUCCESS: bool = true;

    fn judge(&mut self, result: &Result<R, E>) -> Outcome {
        match result {
            Ok(_) => relent_core::Class::Success.into(),
            Err(error) => (self.0)(error).into(),
        }
    }
}

/// Whole results are judged by a closure.
#[derive(Debug)]
pub struct WhenResult<F, R, E, O>(F, PhantomData<fn(R, E) -> O>);

impl<F: Clone, R, E, O> Clone for WhenResult<F, R, E, O> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<R, E, O: Into<Outcome>, F: FnMut(&Result<R, E>) -> O> Judge<R, E, ()> for WhenResult<F, R, E, O> {
    type Kind = crate::Typed;
    const OK_IS_SUCCESS: bool = false;

    fn judge(&mut self, result: &Result<R, E>) -> Outcome {
        (self.0)(result).into()
    }
}

/// Is told of events.
pub trait Notify<E> {
    /// Whether anybody listens at all.
    const LISTENS: bool;

    /// Takes an event.
    fn notify(&mut self, event: &Event<'_, E>);
}

impl<E, N: Notify<E>> Notify<E> for &mut N {
    const LISTENS: bool = N::LISTENS;

    fn notify(&mut self, event: &Event<'_, E>) {
        N::notify(self, event);
    }
}

/// Nobody is told: the default.
#[derive(Clone, Copy, Debug)]
pub struct Quiet;

impl<E> Notify<E> for Quiet {
    const LISTENS: bool = false;

    fn notify(&mut self, _event: &Event<'_, E>) {}
}

/// A closure is told.
#[derive(Debug)]
pub struct Hook<F, E>(F, PhantomData<fn(&E)>);

impl<F: Clone, E> Clone for Hook<F, E> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<E, F: FnMut(&Event<'_, E>)> Notify<E> for Hook<F, E> {
    const LISTENS: bool = true;

    fn notify(&mut self, event: &Event<'_, E>) {
        (self.0)(event);
    }
}
