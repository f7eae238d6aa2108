//! Attempts of one call beside each other.

use relent_core::{
    Class, Decision, HedgePolicy, HedgeStep, Held, Moment, Outcome, Priority, Share, Timestamp,
};

use crate::model::fleet::sharing::{Lane, Racing};
use crate::model::fleet::world::{Event, World};
use crate::model::herd::nanos;

impl World<'_> {
    /// The call's first attempt of a race has been admitted.
    pub(super) fn begin_race(&mut self, now: u64, place: u32, hedge: &HedgePolicy) {
        let time = Timestamp::from_nanos(now);
        let Some(state) = self.scratch.calls.get(place) else { return };
        let Some(policy) = self.links.get(state.link as usize).map(|link| link.policy) else { return };
        let Some((side, common)) = self.scratch.homes.side(place) else { return };
        let held = side.held.take_attempt();
        let delay = hedge.delay(common.latencies.as_mut(), time);
        let mut race = state.call.race(policy, hedge, delay, time);
        let number = race.started(time);
        let made = state.call.attempts();
        let Some((epoch, attempt)) = self.attempt(now, place, in_race(made, number)) else { return };
        let Some((side, _)) = self.scratch.homes.side(place) else { return };
        let lanes = vec![Lane { epoch, number, attempt, held }];
        side.race = Some(Racing { race, made, epoch, due: None, lanes, failed: None });
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
        let Some(state) = self.scratch.calls.get_mut(place) else { return false };
        let Some(policy) = self.links.get(state.link as usize).map(|link| link.policy) else { return false };
        let Some((side, common)) = self.scratch.homes.side(place) else { return false };
        let Some(racing) = &mut side.race else { return false };
        let mut held = Held::of_hedge(Priority::Normal);
        let number = racing.race.attempts();
        let outcome = racing.failed.unwrap_or(Outcome::of(Class::Transient));
        let luck = in_race(racing.made, number);
        let moment = Moment::at(time, self.luck.decision(state.id, luck));
        let mut share = Share { parts: common, held: &mut held };
        if state.call.hedge(policy, &mut share, &outcome, moment).is_err() {
            share.end(time);
            let mut share = Share { parts: common, held: &mut side.held };
            let decision = state.call.suppressed(policy, &mut racing.race, &mut share, outcome, moment);
            if let Some(decision) = decision {
                // None runs, and none may start: the last failure is the call's.
                side.race = None;
                self.decided(now, place, decision);
                return false;
            }
            return true;
        }
        racing.race.started(time);
        let Some((epoch, attempt)) = self.attempt(now, place, luck) else { return false };
        let Some((side, _)) = self.scratch.homes.side(place) else { return false };
        if let Some(racing) = &mut side.race {
            racing.lanes.push(Lane { epoch, number, attempt, held });
        }
        true
    }

    /// An attempt that ran beside others has ended.
    pub(super) fn lane_ended(&mut self, now: u64, place: u32, epoch: u32, outcome: Outcome) {
        let time = Timestamp::from_nanos(now);
        let Some(state) = self.scratch.calls.get_mut(place) else { return };
        let Some(policy) = self.links.get(state.link as usize).map(|link| link.policy) else { return };
        let Some((side, common)) = self.scratch.homes.side(place) else { return };
        let Some(racing) = &mut side.race else { return };
        let Some(at) = racing.lanes.iter().position(|lane| lane.epoch == epoch) else { return };
        let lane = racing.lanes.remove(at);
        let moment = Moment::at(time, self.luck.decision(state.id, state.call.attempts() + 1));
        let mut share = Share { parts: common, held: &mut side.held };
        // What the one that failed before still holds makes room for this one's.
        share.abandon(time);
        share.held.go_on(lane.held);
        let race = &mut racing.race;
        match state.call.decide_in(policy, race, lane.number, &mut share, outcome, moment) {
            None => {
                racing.failed = Some(outcome);
                self.wake(now, place);
                self.race_on(now, place);
            }
            Some(decision) => {
                let losers = std::mem::take(&mut racing.lanes);
                side.race = None;
                for loser in losers {
                    self.cancel(now, place, loser);
                }
                self.decided(now, place, decision);
            }
        }
    }

    /// An attempt is not waited for any more.
    fn cancel(&mut self, now: u64, place: u32, mut lane: Lane) {
        if let Some((_, common)) = self.scratch.homes.side(place) {
            Share { parts: common, held: &mut lane.held }.end(Timestamp::from_nanos(now));
        }
        self.give_up(now, lane.attempt, (place, lane.epoch));
    }

    /// The race is over, and this is what it came to.
    fn decided(&mut self, now: u64, place: u32, decision: Decision) {
        let Some(state) = self.scratch.calls.get(place) else { return };
        match decision {
            Decision::Retry { after, .. } => {
                self.recorder.wait(state.id, state.call.attempts(), nanos(after));
                self.wake(now, place);
                self.wait(now, place, nanos(after));
            }
            Decision::Stop { reason, after } => {
                self.end_call(now.saturating_add(after.map_or(0, nanos)), place, reason);
            }
        }
    }
}

/// The number of an attempt for its luck: the first of a race has that of an attempt without one.
pub(super) const fn in_race(attempts: u32, number: u32) -> u32 {
    (attempts + 1) ^ (number << 24)
}
