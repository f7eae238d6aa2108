//! Attempts of one call that run beside each other: what both hedged drivers do around the race, except waiting.

use relent_core::{
    Class, Decision, Event as Happened, Hedge, HedgePolicy, HedgeStep, Moment, Outcome, Race, Timestamp,
};

use super::{Course, Ended};
use crate::with::{Judge, Membership, Notify};
use crate::{Attempt, AttemptToken, Clock, Token};

/// The attempts that run, as a driver sees them.
pub(crate) struct Heat {
    race: Race,
    /// The failure that the next one starts for, if it is for one.
    failed: Option<Failed>,
}

#[derive(Clone, Copy)]
struct Failed {
    number: u32,
    outcome: Outcome,
    /// Whether others ran, so that it has lost, whatever comes.
    lost: bool,
}

/// An attempt that runs.
pub(crate) struct Lane<T, M> {
    /// Its number in the race.
    pub(super) lane: u32,
    /// Its number in the call.
    number: u32,
    /// What ends it.
    pub(super) token: AttemptToken<T>,
    /// Fires when it has lost; never for one that has won.
    pub(super) lost: Token,
    /// What it holds of what calls share.
    member: M,
}

impl<T, M> Lane<T, M> {
    /// What it holds, apart from it.
    pub(super) fn apart(self) -> (Lane<T, ()>, M) {
        let Self { lane, number, token, lost, member } = self;
        (Lane { lane, number, token, lost, member: () }, member)
    }
}

impl<T> Lane<T, ()> {
    /// With what it holds.
    pub(super) fn with<M>(self, member: M) -> Lane<T, M> {
        let Self { lane, number, token, lost, member: () } = self;
        Lane { lane, number, token, lost, member }
    }
}

/// What to do now.
pub(crate) enum Next<T, M> {
    /// Start another attempt.
    Start(Attempt<T>, Lane<T, M>),
    /// Wait for an answer, until then if that is said.
    Wait(Option<Timestamp>),
    /// Nothing runs and nothing may start: this is what to do after the last failure.
    Decided(Decision),
}

impl<R, E, C, N, T, Via, M> Course<'_, R, E, C, N, T, Via, M>
where
    C: Judge<R, E, Via>,
    N: Notify<E>,
    T: Clock,
    M: Membership,
{
    /// How the call is hedged, if it is.
    pub(crate) fn hedge_policy(&self) -> Option<HedgePolicy> {
        self.options.hedge.copied().or_else(|| self.member.hedge_policy())
    }

    /// The first of several attempts, which has been admitted.
    pub(crate) fn begin_race(&mut self, policy: &HedgePolicy) -> (Heat, Attempt<T>, Lane<T, M>) {
        let now = self.attempt_began.unwrap_or(Timestamp::ZERO);
        let delay = self.member.hedge_delay(policy, now);
        let mut race = self.call.race(self.policy, policy, delay, now);
        let member = self.member.take_attempt();
        let (attempt, lane) = self.enter(&mut race, member, now);
        (Heat { race, failed: None }, attempt, lane)
    }

    /// What to do while attempts run. A hedge that is due is admitted, or the core says what follows from that. `ended`
    /// is the last attempt's end, if nothing runs.
    pub(crate) fn next(&mut self, heat: &mut Heat, ended: Option<&Ended<R, E>>) -> Next<T, M> {
        loop {
            let now = self.timer.now();
            match heat.race.next(now) {
                HedgeStep::Start => {}
                HedgeStep::WaitUntil(due) => return Next::Wait(Some(due)),
                HedgeStep::Wait | HedgeStep::Over => return Next::Wait(None),
            }
            let mut member = self.member.of_hedge();
            let number = self.number(&heat.race);
            // Where nothing has failed yet it is as if the attempt that is slow had.
            let slow = Outcome::of(Class::Transient).repeat(self.repeat());
            let outcome = heat.failed.map_or(slow, |failed| failed.outcome);
            let moment = Moment::at(now, self.entropy_to_admit(number.saturating_sub(1)));
            match self.call.hedge(self.policy, &mut member, &outcome, moment) {
                Ok(()) => {
                    if let Some(failed) = heat.failed.take().filter(|failed| !failed.lost) {
                        self.tell_lost(failed.number, failed.outcome.class, ended, now);
                    }
                    self.attempt_began = Some(now);
                    self.tell_hedge(number, Hedge::Started, now);
                    let (attempt, lane) = self.enter(&mut heat.race, member, now);
                    return Next::Start(attempt, lane);
                }
                Err(reason) => {
                    // Nothing but which budget refused it.
                    self.member.go_on(member);
                    self.tell_news(number, Some(now));
                    self.tell_hedge(number, Hedge::Suppressed { reason }, now);
                    let failed = heat.failed.map_or(number, |failed| failed.number);
                    let moment = Moment::at(now, self.entropy_after(failed, &outcome));
                    let (call, policy) = (&mut self.call, self.policy);
                    let decision = call.suppressed(policy, &mut heat.race, &mut self.member, outcome, moment);
                    if let Some(decision) = decision {
                        self.decided(failed, &outcome, decision, ended.and_then(Ended::error), Some(now));
                        return Next::Decided(decision);
                    }
                }
            }
        }
    }

    /// Takes in how an attempt ended, and says what to do if that decides the race: then the others have lost.
    pub(crate) fn came_in(
        &mut self,
        heat: &mut Heat,
        lane: Lane<T, M>,
        ended: &Ended<R, E>,
    ) -> Option<Decision> {
        let outcome = self.judge(ended);
        let now = self.timer.now();
        let Lane { lane, number, member, .. } = lane;
        self.member.go_on(member);
        let moment = Moment::at(now, self.entropy_after(number, &outcome));
        let (call, policy) = (&mut self.call, self.policy);
        let decision = call.decide_in(policy, &mut heat.race, lane, &mut self.member, outcome, moment);
        match decision {
            Some(decision) => {
                if heat.race.attempts() > 1 && outcome.class == Class::Success {
                    self.tell_hedge(number, Hedge::Won, now);
                }
                self.decided(number, &outcome, decision, ended.error(), Some(now));
            }
            None => {
                self.tell_news(number, Some(now));
                let lost = heat.race.running() > 0;
                if lost {
                    self.tell_lost(number, outcome.class, Some(ended), now);
                }
                heat.failed = Some(Failed { number, outcome, lost });
            }
        }
        decision
    }

    /// An attempt that runs has lost. What it holds is given back when the lane is dropped.
    pub(crate) fn loses<H>(&mut self, lane: &Lane<T, H>) {
        lane.lost.cancel();
        self.tell_lost(lane.number, Class::Cancelled, None, self.timer.now());
    }

    fn tell_lost(&mut self, number: u32, class: Class, ended: Option<&Ended<R, E>>, now: Timestamp) {
        self.remember(number, class, None, Some(now));
        let happened = Happened::Hedge { attempt: number, hedge: Hedge::Lost { class } };
        self.tell(happened, ended.and_then(Ended::error), Some(now));
    }

    fn tell_hedge(&mut self, attempt: u32, hedge: Hedge, now: Timestamp) {
        self.tell(Happened::Hedge { attempt, hedge }, None, Some(now));
    }

    fn enter(&mut self, race: &mut Race, member: M, now: Timestamp) -> (Attempt<T>, Lane<T, M>) {
        let number = self.number(race);
        let lost = Token::new();
        let token = AttemptToken { lost: Some(lost.clone()), ..self.attempt_token() };
        let attempt = self.attempt_as(number, token.clone());
        let lane = race.started(now);
        (attempt, Lane { lane, number, token, lost, member })
    }

    /// The number of the attempt that would start now.
    fn number(&self, race: &Race) -> u32 {
        self.call.attempts().saturating_add(race.running()).saturating_add(1)
    }
}
