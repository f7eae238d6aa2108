//! Attempts of one call beside each other.

use relent_core::{
    Class, Decision, HedgePolicy, HedgeStep, Held, Moment, Outcome, Priority, Race, RaceEnd, Reason, Repeat,
    Share, Shared, Start, Timestamp,
};

use crate::model::fleet::sharing::{Lane, Racing};
use crate::model::fleet::world::{Event, World};
use crate::model::herd::nanos;

impl World<'_> {
    /// The call's first attempt of a race has been admitted.
    pub(super) fn begin_race(&mut self, now: u64, place: u32, hedge: &HedgePolicy) {
        let time = Timestamp::from_nanos(now);
        let Some((side, common)) = self.scratch.homes.side(place) else { return };
        let held = side.held.take_attempt();
        let delay = hedge.delay(common.latencies.as_mut(), time);
        let mut race = Race::new(hedge, delay, Repeat::Safe, time);
        let number = race.started(time);
        let Some((epoch, attempt)) = self.attempt(now, place, number) else { return };
        let Some((side, _)) = self.scratch.homes.side(place) else { return };
        let lanes = vec![Lane { epoch, number, attempt, held }];
        side.race = Some(Racing { race, epoch, due: None, lanes, failed: None });
        self.race_on(now, place);
    }

    /// Starts what is due, and looks when the next is.
    pub(super) fn race_on(&mut self, now: u64, place: u32) {
        let time = Timestamp::from_nanos(now);
        loop {
            let Some((side, _)) = self.scratch.homes.side(place) else { return };
            let Some(racing) = &mut side.race else { return };
            match racing.race.next(time) {
                HedgeStep::Start => {
                    if !self.hedge(now, place) {
                        return;
                    }
                }
                HedgeStep::WaitUntil(due) => {
                    if racing.due != Some(due) {
                        racing.due = Some(due);
                        let event = Event::Hedge { call: place, epoch: racing.epoch };
                        self.scratch.queue.push(due.as_nanos(), event);
                    }
                    return;
                }
                HedgeStep::Wait | HedgeStep::Over => return,
            }
        }
    }

    /// Whether the race goes on, with another attempt or without.
    fn hedge(&mut self, now: u64, place: u32) -> bool {
        let time = Timestamp::from_nanos(now);
        let Some(state) = self.scratch.calls.get(place) else { return false };
        let (id, attempts) = (state.id, state.call.attempts());
        let Some((side, common)) = self.scratch.homes.side(place) else { return false };
        let Some(racing) = &mut side.race else { return false };
        let mut held = Held::of_hedge(Priority::Normal);
        let number = racing.race.attempts();
        let outcome = racing.failed.as_ref().map_or(Outcome::of(Class::Transient), |(_, outcome)| *outcome);
        let moment = Moment::at(time, self.luck.decision(id, in_race(attempts, number)));
        let mut share = Share { parts: common, held: &mut held };
        if share.hedge(&outcome, moment).is_err() {
            share.end(time);
            if !racing.race.suppressed(time) {
                return true;
            }
            // None runs, and none may start: the last failure is the call's.
            let failed = racing.failed.take();
            side.race = None;
            if let Some((held, outcome)) = failed {
                self.decide_after(now, place, held, outcome, true);
            }
            return false;
        }
        racing.race.started(time);
        let Some((epoch, attempt)) = self.attempt(now, place, number) else { return false };
        let Some((side, _)) = self.scratch.homes.side(place) else { return false };
        if let Some(racing) = &mut side.race {
            racing.lanes.push(Lane { epoch, number, attempt, held });
        }
        true
    }

    /// An attempt that ran beside others has ended.
    pub(super) fn lane_ended(&mut self, now: u64, place: u32, epoch: u32, outcome: Outcome) {
        let time = Timestamp::from_nanos(now);
        let Some((side, common)) = self.scratch.homes.side(place) else { return };
        let Some(racing) = &mut side.race else { return };
        let Some(at) = racing.lanes.iter().position(|lane| lane.epoch == epoch) else { return };
        let mut lane = racing.lanes.remove(at);
        match racing.race.ended(lane.number, outcome.class, time) {
            RaceEnd::GoesOn => {
                Share { parts: common, held: &mut lane.held }.settle(&outcome, Some(time));
                if let Some((mut before, _)) = racing.failed.replace((lane.held, outcome)) {
                    Share { parts: common, held: &mut before }.end(time);
                }
                self.wake(now, place);
                self.race_on(now, place);
            }
            RaceEnd::Decided => {
                let losers = std::mem::take(&mut racing.lanes);
                if let Some((mut before, _)) = racing.failed.take() {
                    Share { parts: common, held: &mut before }.end(time);
                }
                side.race = None;
                for loser in losers {
                    self.cancel(now, place, loser);
                }
                self.decide_after(now, place, lane.held, outcome, false);
            }
            RaceEnd::Late => {}
        }
    }

    /// An attempt is not waited for any more.
    fn cancel(&mut self, now: u64, place: u32, mut lane: Lane) {
        if let Some((_, common)) = self.scratch.homes.side(place) {
            Share { parts: common, held: &mut lane.held }.end(Timestamp::from_nanos(now));
        }
        self.give_up(now, lane.attempt, (place, lane.epoch));
    }

    /// The race is over, and this is what it came to. What has been settled is not settled again.
    fn decide_after(&mut self, now: u64, place: u32, mut held: Held, outcome: Outcome, settled: bool) {
        let time = Timestamp::from_nanos(now);
        let Some(state) = self.scratch.calls.get_mut(place) else { return };
        let Some(policy) = self.links.get(state.link as usize).map(|link| link.policy) else { return };
        let Some((side, common)) = self.scratch.homes.side(place) else { return };
        let number = state.call.attempts() + 1;
        let moment = Moment::at(time, self.luck.decision(state.id, number));
        let mut share = Share { parts: common, held: &mut held };
        let decision = if settled {
            state.call.decide(policy, &mut Settled(&mut share), outcome, moment)
        } else {
            state.call.decide(policy, &mut share, outcome, moment)
        };
        match decision {
            Decision::Retry { after, .. } => {
                side.held.go_on(held);
                self.recorder.wait(state.id, number, nanos(after));
                self.wake(now, place);
                self.wait(now, place, nanos(after));
            }
            Decision::Stop { reason, after } => {
                share.end(time);
                self.end_call(now.saturating_add(after.map_or(0, nanos)), place, reason);
            }
        }
    }
}

/// The number of an attempt for its luck: the first of a race has that of an attempt without one.
pub(super) const fn in_race(attempts: u32, number: u32) -> u32 {
    (attempts + 1) ^ (number << 24)
}

/// What has taken the outcome in already.
struct Settled<'s, S>(&'s mut S);

impl<S: Shared> Shared for Settled<'_, S> {
    fn priority(&self) -> Priority {
        self.0.priority()
    }

    fn admit(&mut self, moment: Moment) -> Start {
        self.0.admit(moment)
    }

    fn ready_at(&mut self, now: Option<Timestamp>) -> Option<Timestamp> {
        self.0.ready_at(now)
    }

    fn withdraw(&mut self, outcome: &Outcome, now: Option<Timestamp>) -> Result<(), Reason> {
        self.0.withdraw(outcome, now)
    }
}
