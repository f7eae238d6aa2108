//! A call on its way: what every driver does around the decision, except waiting.

use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use relent_core::{
    Call, Class, Decision, Event as Happened, Moment, News, Outcome, Policy, Reason, Repeat, Start, Timestamp,
};

use crate::attempt::Key;
use crate::chance;
use crate::with::{Judge, Membership, Notify, Options};
use crate::{Attempt, AttemptToken, Cause, Clock, Error, Event, Report, Token, Tried};

/// How an attempt ended.
pub(crate) enum Ended<R, E> {
    /// The operation returned.
    Returned(Result<R, E>),
    /// It was cut off.
    CutOff(Cause),
}

impl<R, E> Ended<R, E> {
    pub(super) fn error(&self) -> Option<&E> {
        match self {
            Self::Returned(Err(error)) => Some(error),
            _ => None,
        }
    }
}

/// How far a call is that a loop takes over.
pub(crate) enum At<R, E> {
    /// Before an attempt.
    Start(Start),
    /// After one.
    End(Ended<R, E>),
}

/// A call on its way.
pub(crate) struct Course<'a, R, E, C, N, T, Via, M> {
    pub(super) policy: &'a Policy,
    pub(super) options: Options<'a>,
    judge: C,
    notify: N,
    pub(crate) timer: T,
    pub(super) call: Call,
    /// What the call shares with others.
    pub(super) member: M,
    /// When the attempt that runs, or ran last, began.
    pub(super) attempt_began: Option<Timestamp>,
    /// What the last attempt ended as.
    outcome: Option<Outcome>,
    /// The last error that an attempt returned. Kept through the wait: an attempt that is refused or cancelled must
    /// still return it.
    last: Option<E>,
    key: Option<Key>,
    /// Whether an attempt has read the key, where that decides about retries.
    key_read: Option<Arc<AtomicBool>>,
    history: Option<Vec<Tried>>,
    result: PhantomData<fn(R, Via)>,
}

impl<'a, R, E, C, N, T, Via, M> Course<'a, R, E, C, N, T, Via, M>
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Clock,
    M: Membership,
{
    /// A call that has not begun: the future of an async one is this and nothing beside it.
    #[inline]
    pub(crate) fn new(
        policy: &'a Policy,
        options: Options<'a>,
        judge: C,
        notify: N,
        timer: T,
        member: M,
    ) -> Self {
        Self {
            policy,
            options,
            judge,
            notify,
            timer,
            call: Call::new(None),
            member,
            attempt_began: None,
            outcome: None,
            last: None,
            key: None,
            key_read: None,
            history: None,
            result: PhantomData,
        }
    }

    /// Begins the call at a time that was read already, where one was needed.
    #[inline]
    pub(crate) fn begin(&mut self, now: Option<Timestamp>) {
        (self.call, self.attempt_began) = (Call::new(now), now);
    }

    /// The same, keeping a history for a report.
    pub(crate) fn remembering(self) -> Self {
        Self { history: Some(Vec::new()), ..self }
    }

    /// What ends a wait for a turn, if it is one.
    pub(crate) fn turn(&self) -> Option<Token> {
        self.member.turn()
    }

    /// What ends the waits.
    pub(crate) fn cancel(&self) -> Option<&Token> {
        self.options.cancel.as_ref()
    }

    /// Begins the call, and says whether its first attempt may begin.
    #[inline]
    pub(crate) fn start(&mut self) -> Start {
        let now = self.now();
        self.begin(now);
        if self.is_cancelled() {
            return Start::Stop { reason: Reason::Cancelled };
        }
        let spread = self.policy.backoff().spread_of_first() > Duration::ZERO;
        let entropy =
            if spread { chance::draw(self.policy, 0) } else { self.entropy_to_admit(self.call.attempts()) };
        let start =
            self.call.start(self.policy, &mut self.member, Moment { now: self.attempt_began, entropy });
        self.tell_news(1, self.attempt_began);
        start
    }

    /// Whether the attempt after a wait may begin.
    pub(crate) fn admit(&mut self) -> Start {
        if self.is_cancelled() {
            return Start::Stop { reason: Reason::Cancelled };
        }
        self.attempt_began = self.now();
        let entropy = self.entropy_to_admit(self.call.attempts());
        let start =
            self.call.admit(self.policy, &mut self.member, Moment { now: self.attempt_began, entropy });
        self.tell_news(self.call.attempts().saturating_add(1), self.attempt_began);
        start
    }

    /// The attempt that begins now.
    pub(crate) fn attempt(&mut self) -> Attempt<T> {
        let number = self.call.attempts().saturating_add(1);
        let token = self.attempt_token();
        self.attempt_as(number, token)
    }

    pub(super) fn attempt_as(&mut self, number: u32, token: AttemptToken<T>) -> Attempt<T> {
        self.tell(Happened::AttemptStarted { attempt: number }, None, self.attempt_began);
        Attempt {
            number,
            max: self.policy.max_attempts(),
            last: self.outcome.map(|outcome| (outcome.class, outcome.hint)),
            token,
            key: self.key(),
            targets: self.options.targets.clone(),
        }
    }

    /// What ends the attempt that runs.
    pub(crate) fn attempt_token(&self) -> AttemptToken<T> {
        let timeout = self.policy.attempt_timeout().zip(self.attempt_began);
        AttemptToken {
            caller: self.options.cancel.clone(),
            lost: None,
            deadline: self.call.ends(self.policy),
            timeout: timeout.map(|(timeout, began)| began.plus(timeout)),
            timer: self.timer.clone(),
        }
    }

    /// Settles a success that nobody listens for, whose value may be returned as it is; all else comes back.
    #[inline]
    pub(crate) fn settle_quietly(&mut self, ended: Ended<R, E>) -> Result<R, Ended<R, E>> {
        match ended {
            Ended::Returned(Ok(value)) if C::OK_IS_SUCCESS && self.is_quiet() => {
                self.succeed();
                Ok(value)
            }
            ended => Err(ended),
        }
    }

    /// Asks the core what to do after an attempt.
    pub(crate) fn decide(&mut self, ended: &Ended<R, E>) -> Decision {
        let outcome = self.judge(ended);
        if outcome.class == Class::Success && self.is_quiet() {
            self.succeed();
            return Decision::Stop { reason: Reason::Succeeded, after: None };
        }
        let now = self.now();
        let attempt = self.call.attempts().saturating_add(1);
        let entropy = self.entropy_after(attempt, &outcome);
        let decision = self.call.decide(self.policy, &mut self.member, outcome, Moment { now, entropy });
        self.decided(attempt, &outcome, decision, ended.error(), now);
        decision
    }

    pub(super) fn judge(&mut self, ended: &Ended<R, E>) -> Outcome {
        let judged = match ended {
            // The caller's cancellation is no failure of the attempt that it ended, whatever that made of it.
            Ended::Returned(Err(_)) if self.is_cancelled() => Outcome::of(Class::Cancelled),
            Ended::Returned(result) => self.judge.judge(result),
            Ended::CutOff(Cause::Cancelled | Cause::Lost) => Outcome::of(Class::Cancelled),
            Ended::CutOff(Cause::Deadline | Cause::AttemptTimeout) => Outcome::of(Class::Timeout),
        };
        let outcome = Outcome { repeat: judged.repeat.max(self.repeat()), ..judged };
        self.outcome = Some(outcome);
        outcome
    }

    pub(super) fn entropy_after(&self, attempt: u32, outcome: &Outcome) -> u64 {
        if outcome.class == Class::Success { 0 } else { chance::draw(self.policy, attempt) }
    }

    pub(super) fn decided(
        &mut self,
        attempt: u32,
        outcome: &Outcome,
        decision: Decision,
        error: Option<&E>,
        now: Option<Timestamp>,
    ) {
        self.tell_news(attempt, now);
        self.remember(attempt, outcome.class, Some(decision), now);
        let rule = self.policy.rule_for(outcome).filter(|_| outcome.class.is_failure());
        self.tell(Happened::Decision { attempt, class: outcome.class, rule, decision }, error, now);
    }

    /// Keeps the error of an attempt that will be followed by another. A retryable `Ok` is dropped now, before the
    /// wait: it may hold a connection.
    pub(crate) fn keep(&mut self, ended: Ended<R, E>) {
        if let Ended::Returned(Err(error)) = ended {
            self.last = Some(error);
        }
    }

    /// The end of a call whose last attempt ended like this.
    pub(crate) fn finish(mut self, ended: Ended<R, E>, reason: Reason) -> Report<R, E, C::Kind> {
        match ended {
            Ended::Returned(Ok(value)) => {
                if reason != Reason::Succeeded {
                    self.tell_gave_up(reason);
                }
                self.report(reason, Ok(value))
            }
            Ended::Returned(Err(error)) => {
                self.last = Some(error);
                self.give_up(reason)
            }
            Ended::CutOff(_) => self.give_up(reason),
        }
    }

    /// The end of a call that waited, or was refused.
    pub(crate) fn give_up(mut self, reason: Reason) -> Report<R, E, C::Kind> {
        self.tell_gave_up(reason);
        let class = self.outcome.map(|outcome| outcome.class);
        let error = Error::new(reason, self.call.attempts(), class, self.last.take());
        self.report(reason, Err(error))
    }

    fn report(self, reason: Reason, result: Result<R, Error<E, C::Kind>>) -> Report<R, E, C::Kind> {
        Report {
            result,
            reason,
            attempts: self.call.attempts(),
            elapsed: self.history.as_ref().and_then(|_| self.since_start(self.now())),
            history: self.history.unwrap_or_default(),
            fallback: false,
        }
    }

    /// Takes in a success, for which the clock is read only where its end matters.
    #[inline]
    fn succeed(&mut self) {
        let timer = &self.timer;
        self.call.succeed(&mut self.member, &|| Some(timer.now()));
    }

    /// Whether nobody is told when an attempt ends.
    #[inline]
    fn is_quiet(&self) -> bool {
        !N::LISTENS && self.history.is_none()
    }

    fn is_cancelled(&self) -> bool {
        self.cancel().is_some_and(Token::is_cancelled)
    }

    /// The time, where the policy needs it or somebody is told.
    fn now(&self) -> Option<Timestamp> {
        let timed = N::LISTENS || self.policy.needs_clock() || self.member.needs_clock();
        let timed = timed || self.options.hedge.is_some();
        timed.then(|| self.timer.now())
    }

    /// A throttle lets calls pass by chance: by other numbers than those that the waits are drawn from.
    pub(super) fn entropy_to_admit(&self, made: u32) -> u64 {
        if M::SHARES { chance::draw(self.policy, u32::MAX - made) } else { 0 }
    }

    fn since_start(&self, now: Option<Timestamp>) -> Option<Duration> {
        Some(now?.since(self.call.began()?))
    }

    /// What is known about repeating the call.
    pub(super) fn repeat(&self) -> Repeat {
        let key_read = || self.key_read.as_ref().is_some_and(|read| read.load(Ordering::Relaxed));
        let idempotent = self.options.idempotent.unwrap_or_else(|| {
            !self.policy.requires_idempotency() || self.options.key.is_some() || key_read()
        });
        if idempotent { Repeat::Safe } else { Repeat::NotIdempotent }
    }

    fn key(&mut self) -> Key {
        if let Some(key) = self.key.as_ref().or(self.options.key.as_ref()) {
            return key.clone();
        }
        let mut key = Key::of_new_call();
        if self.policy.requires_idempotency() {
            let read;
            (key, read) = key.watched();
            self.key_read = Some(read);
        }
        self.key = Some(key.clone());
        key
    }

    pub(super) fn remember(
        &mut self,
        attempt: u32,
        class: Class,
        decision: Option<Decision>,
        now: Option<Timestamp>,
    ) {
        let ended = self.since_start(now);
        let wait = match decision {
            Some(Decision::Retry { after, source }) => Some((after, source)),
            Some(Decision::Stop { .. }) | None => None,
        };
        if let Some(history) = &mut self.history {
            history.push(Tried { attempt, class, wait, ended });
        }
    }

    fn tell_gave_up(&mut self, reason: Reason) {
        if N::LISTENS {
            let now = self.now();
            self.tell(Happened::GaveUp { attempts: self.call.attempts(), reason }, None, now);
        }
    }

    /// What has changed in what is shared.
    pub(super) fn tell_news(&mut self, attempt: u32, now: Option<Timestamp>) {
        if !N::LISTENS || !M::SHARES {
            return;
        }
        let News { breaker, budget } = self.member.news();
        if let Some(change) = breaker {
            self.tell(Happened::BreakerState { attempt, change }, None, now);
        }
        if let Some(refusal) = budget {
            self.tell(Happened::Budget { attempt, refusal }, None, now);
        }
    }

    /// The one place that sends events.
    pub(super) fn tell(&mut self, happened: Happened, error: Option<&E>, now: Option<Timestamp>) {
        if !N::LISTENS {
            return;
        }
        let attempt = match happened {
            Happened::AttemptStarted { attempt }
            | Happened::Decision { attempt, .. }
            | Happened::Hedge { attempt, .. }
            | Happened::BreakerState { attempt, .. }
            | Happened::Budget { attempt, .. } => attempt,
            _ => self.call.attempts().max(1),
        };
        let event = Event {
            happened,
            name: self.options.name,
            target: self.options.targets.of_attempt(attempt),
            priority: self.options.priority,
            max_attempts: self.policy.max_attempts(),
            // A decision is about the attempt that ended, which has failed with an error of its own or with none.
            error: match happened {
                Happened::Decision { .. } | Happened::Hedge { .. } => error,
                _ => self.last.as_ref(),
            },
            elapsed: self.since_start(now),
            remaining: now.and_then(|now| self.call.remaining(self.policy, now)),
            budget: self.member.refused_by(),
            context: self.options.context,
        };
        self.notify.notify(&event);
    }
}
