//! Rate limits and bulkheads: reported faults, and properties over any history. The names in brackets are the reports.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "what a test does not expect fails it"
)]

mod strategies;

use std::collections::VecDeque;
use std::time::Duration;

use proptest::prelude::*;
use relent_core::{
    Bulkhead, BulkheadPolicy, Entry, Limiter, LimiterPolicy, Place, Rate, Ratio, Ticket, Timestamp, Turn,
};

fn ms(ms: u64) -> Timestamp {
    Timestamp::from_duration(Duration::from_millis(ms))
}

fn after(ms: u64) -> Turn {
    Turn::After(Duration::from_millis(ms))
}

fn limiter(count: u32, per: Duration, burst: u32) -> Limiter {
    Limiter::new(LimiterPolicy::new(Rate::new(count, per).unwrap()).burst(burst)).unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

/// F33 [svix/diom#115]: a check that forgets the fraction grants nothing ever again.
#[test]
fn asking_does_not_put_the_turn_off() {
    let mut limiter = limiter(1, SECOND, 1);
    assert!(limiter.try_acquire(1, ms(0)));
    for at in (100..1_000).step_by(100) {
        assert!(!limiter.try_acquire(1, ms(at)), "{at}");
        assert_eq!(limiter.ready_at(1, ms(at)), Some(ms(1_000)));
    }
    assert!(limiter.try_acquire(1, ms(1_000)));
}

/// F34 [golang/go#56287, #56263]: time that steps back minted turns.
#[test]
fn time_that_steps_back_grants_nothing() {
    let mut limiter = limiter(1, SECOND, 2);
    let granted = (0..20).filter(|i| limiter.try_acquire(1, ms(10_000 - i % 2 * 1_000)));
    assert_eq!(granted.count(), 2);
}

#[test]
fn turns_are_given_one_after_another() {
    let mut limiter = limiter(10, SECOND, 2);
    let turns: Vec<_> = (0..5).map(|_| limiter.reserve(1, ms(0)).turn()).collect();
    assert_eq!(turns, [Turn::Now, Turn::Now, after(100), after(200), after(300)]);
    // A quiet time saves up a burst, and no more.
    let turns: Vec<_> = (0..4).map(|_| limiter.reserve(1, ms(60_000)).turn()).collect();
    assert_eq!(turns, [Turn::Now, Turn::Now, after(100), after(200)]);
    assert_eq!(limiter.reserve(2, ms(60_200)).turn(), after(200));
    assert_eq!(limiter.reserve(3, ms(600_000)).turn(), Turn::Refused);
    assert_eq!(limiter.ready_at(3, ms(600_000)), None);
}

#[test]
fn whoever_would_wait_too_long_takes_nothing() {
    let policy = LimiterPolicy::new(Rate::new(1, SECOND).unwrap()).max_wait(Duration::from_millis(1_500));
    let mut limiter = Limiter::new(policy).unwrap();
    assert_eq!(limiter.reserve(1, ms(0)).turn(), Turn::Now);
    assert_eq!(limiter.reserve(1, ms(0)).turn(), after(1_000));
    for _ in 0..100 {
        assert_eq!(limiter.reserve(1, ms(499)).turn(), Turn::Refused);
    }
    assert_eq!(limiter.reserve(1, ms(500)).turn(), after(1_500));
}

#[test]
fn the_last_turn_can_be_given_back_and_no_other() {
    let mut limiter = limiter(1, SECOND, 1);
    assert!(limiter.try_acquire(1, ms(0)));
    let (first, second) = (limiter.reserve(1, ms(0)), limiter.reserve(1, ms(0)));
    assert_eq!((first.turn(), second.turn()), (after(1_000), after(2_000)));
    limiter.cancel(second);
    let second = limiter.reserve(1, ms(0));
    assert_eq!(second.turn(), after(2_000));
    // Behind it stands another already, which would then share its second with a third.
    limiter.cancel(first);
    assert_eq!(limiter.ready_at(1, ms(0)), Some(ms(3_000)));
}

#[test]
fn a_drained_limiter_starts_from_nothing() {
    let mut limiter = limiter(10, SECOND, 10);
    limiter.drain(ms(5_000));
    assert_eq!(limiter.ready_at(1, ms(5_000)), Some(ms(5_100)));
    assert_eq!(limiter.ready_at(10, ms(5_000)), Some(ms(6_000)));
}

#[test]
fn nothing_happens_at_the_ends_of_the_types() {
    let longest = Rate::new(1, Duration::MAX).unwrap();
    let mut slow = Limiter::new(LimiterPolicy::new(longest)).unwrap();
    assert!(slow.try_acquire(1, Timestamp::ZERO));
    assert_eq!(slow.ready_at(1, Timestamp::ZERO), Some(Timestamp::MAX));
    assert_eq!(slow.ready_at(1, ms(1)), Some(Timestamp::MAX));
    slow.drain(Timestamp::MAX);
    assert_eq!(slow.ready_at(1, Timestamp::MAX), None);
    let mut fast = limiter(u32::MAX, Duration::from_nanos(1), u32::MAX);
    assert_eq!(fast.reserve(u32::MAX, Timestamp::MAX).turn(), Turn::Now);
    assert_eq!(fast.reserve(1, Timestamp::MAX).turn(), Turn::Refused);
    assert!(Limiter::new(LimiterPolicy::new(longest).burst(0)).is_err());
    assert_eq!(Rate::new(0, SECOND), None);
    assert_eq!(Rate::new(1, Duration::ZERO), None);
}

proptest! {
    #![proptest_config(strategies::config(200))]

    #[test]
    fn no_window_holds_more_than_its_rate_and_a_burst(
        (count, per) in prop_oneof![(1..20u32, 1..100u64), (1..1_000u32, 1..2_000_000_000u64)],
        burst in 1..20u32,
        asks in prop::collection::vec((0..200u64, 1..4u32, 0..6u8), 1..80),
    ) {
        let mut limiter = limiter(count, Duration::from_nanos(per), burst);
        // When each granted turn comes.
        let mut granted: Vec<u64> = vec![];
        let mut now = 0;
        for (pause, permits, how) in asks {
            now += pause * per / 100;
            let at = Timestamp::from_nanos(now);
            let ready = limiter.ready_at(permits, at).map(Timestamp::as_nanos);
            match how {
                0 => {
                    let free = limiter.try_acquire(permits, at);
                    prop_assert_eq!(free, ready == Some(now));
                    granted.extend((0..permits).filter(|_| free).map(|_| now));
                }
                1 => {
                    // Taken, and given back at once: as if it had never been.
                    let reservation = limiter.reserve(permits, at);
                    limiter.cancel(reservation);
                    prop_assert_eq!(limiter.ready_at(permits, at).map(Timestamp::as_nanos), ready);
                }
                2 => match limiter.pace().zip(limiter.paid_at()) {
                    // Without asking it: the same.
                    Some((pace, word)) => {
                        let taken = pace.grant(word, permits, at);
                        prop_assert_eq!(taken.is_some(), ready == Some(now));
                        if let Some(taken) = taken {
                            let mut asked = limiter.clone();
                            let reservation = asked.reserve(permits, at);
                            prop_assert_eq!(&reservation, &pace.reservation(taken, permits, at));
                            limiter.resume(taken);
                            prop_assert_eq!(limiter.paid_at(), asked.paid_at());
                            granted.extend((0..permits).map(|_| now));
                        }
                    }
                    None => prop_assert_ne!(per % u64::from(count), 0),
                },
                _ => {
                    // The turn comes when it was said that it would.
                    let wait = match limiter.reserve(permits, at).turn() {
                        Turn::Now => Some(0),
                        Turn::After(wait) => Some(wait.as_nanos() as u64),
                        Turn::Refused => None,
                    };
                    prop_assert_eq!(wait.map(|wait| now + wait), ready);
                    granted.extend(wait.into_iter().flat_map(|wait| {
                        std::iter::repeat_n(now + wait, permits as usize)
                    }));
                }
            }
        }
        prop_assert!(granted.is_sorted());
        for (i, first) in granted.iter().enumerate() {
            for (j, last) in granted.iter().enumerate().skip(i) {
                // Both ends included. A turn that comes within a nanosecond is granted at its end.
                let span = u128::from(last - first) * u128::from(count) + u128::from(count - 1);
                let most = span / u128::from(per) + u128::from(burst);
                prop_assert!((j - i + 1) as u128 <= most, "{} in {}", j - i + 1, last - first);
            }
        }
    }

    #[test]
    fn a_turn_comes_no_later_than_it_must(
        count in 1..1_000u32,
        per in 1..2_000_000_000u64,
        burst in 1..5u32,
        asks in prop::collection::vec(0..300u64, 1..60),
    ) {
        let mut limiter = limiter(count, Duration::from_nanos(per), burst);
        // A bucket that holds turns × `per`, filled by `count` in each nanosecond: exact.
        let full = u128::from(burst) * u128::from(per);
        let (mut held, mut now) = (full, 0u64);
        for pause in asks {
            let pause = pause * per / 100 / u64::from(count);
            now += pause;
            held = (held + u128::from(pause) * u128::from(count)).min(full);
            let missing = u128::from(per).saturating_sub(held);
            let wait = missing.div_ceil(u128::from(count)) as u64;
            prop_assert_eq!(limiter.ready_at(1, Timestamp::from_nanos(now)).unwrap().as_nanos(), now + wait);
            if limiter.try_acquire(1, Timestamp::from_nanos(now)) {
                held -= u128::from(per);
            }
        }
    }
}

fn bulkhead(policy: BulkheadPolicy) -> Bulkhead {
    Bulkhead::new(policy).unwrap()
}

fn place(entry: Entry) -> Place {
    match entry {
        Entry::In(place) => place,
        other => panic!("{other:?}"),
    }
}

fn queued(entry: Entry) -> Ticket {
    match entry {
        Entry::Queued(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

/// F35 [failsafe#393]: places were handed to those who had stopped waiting.
#[test]
fn a_place_is_not_lost_with_one_who_stopped_waiting() {
    let mut bulkhead = bulkhead(BulkheadPolicy::new(2).queue(3).max_wait(Duration::from_millis(10)));
    let held = [place(bulkhead.enter(false, ms(0))), place(bulkhead.enter(false, ms(0)))];
    let tickets: Vec<_> = (0..3).map(|_| queued(bulkhead.enter(false, ms(0)))).collect();
    assert_eq!(bulkhead.enter(false, ms(9)), Entry::Full);
    assert_eq!(bulkhead.waiting(ms(10)), 0);
    held.into_iter().for_each(|place| bulkhead.leave(place));
    let now = [place(bulkhead.enter(false, ms(10))), place(bulkhead.enter(true, ms(10)))];
    for ticket in tickets {
        assert_eq!(bulkhead.claim(ticket, ms(11)), Entry::Full);
    }
    now.into_iter().for_each(|place| bulkhead.leave(place));
    assert_eq!(bulkhead.running(), 0);
}

#[test]
fn nobody_overtakes() {
    let mut bulkhead = bulkhead(BulkheadPolicy::new(1).queue(2));
    let held = place(bulkhead.enter(false, ms(0)));
    let first = queued(bulkhead.enter(false, ms(1)));
    let second = queued(bulkhead.enter(false, ms(2)));
    let first = queued(bulkhead.claim(first, ms(3)));
    bulkhead.leave(held);
    // The place is free, and the first one's.
    let second = queued(bulkhead.claim(second, ms(4)));
    assert_eq!(bulkhead.enter(false, ms(4)), Entry::Full);
    bulkhead.give_up(first);
    let held = place(bulkhead.claim(second, ms(5)));
    assert_eq!(bulkhead.running(), 1);
    bulkhead.leave(held);
}

#[test]
fn retries_leave_room_for_first_attempts() {
    let mut bulkhead = bulkhead(BulkheadPolicy::new(10).queue(1).retry_share(Ratio::percent(20)));
    let retries: Vec<_> = (0..2).map(|_| place(bulkhead.enter(true, ms(0)))).collect();
    let waiting = queued(bulkhead.enter(true, ms(0)));
    // A first attempt passes by a retry that could not go in.
    let first: Vec<_> = (0..8).map(|_| place(bulkhead.enter(false, ms(0)))).collect();
    assert_eq!(bulkhead.enter(false, ms(0)), Entry::Full);
    first.into_iter().for_each(|place| bulkhead.leave(place));
    let waiting = queued(bulkhead.claim(waiting, ms(1)));
    retries.into_iter().for_each(|place| bulkhead.leave(place));
    let last = place(bulkhead.claim(waiting, ms(2)));
    bulkhead.leave(last);
    // Of one place a retry may hold one: else it could never go in.
    let mut narrow = self::bulkhead(BulkheadPolicy::new(1).retry_share(Ratio::percent(1)));
    let only = place(narrow.enter(true, ms(0)));
    narrow.leave(only);
}

#[test]
fn what_cannot_work_is_refused() {
    for (policy, key) in [
        (BulkheadPolicy::new(0), "capacity"),
        (BulkheadPolicy::new(1).max_wait(SECOND), "max_wait"),
        (BulkheadPolicy::new(1).queue(1).max_wait(Duration::ZERO), "queue"),
        (BulkheadPolicy::new(1).retry_share(Ratio::ZERO), "retry_share"),
        (BulkheadPolicy::new(1).retry_share(Ratio::percent(101)), "retry_share"),
    ] {
        assert_eq!(Bulkhead::new(policy).unwrap_err().key(), key);
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Enter(bool),
    Claim(usize),
    Leave(usize),
    GiveUp(usize),
    Forget(usize),
}

proptest! {
    #![proptest_config(strategies::config(300))]

    #[test]
    fn no_place_is_lost_and_none_made(
        capacity in 1..5u32,
        queue in 0..5u32,
        share in 1..=100u32,
        steps in prop::collection::vec((0..20u64, prop_oneof![
            4 => any::<bool>().prop_map(Step::Enter),
            3 => any::<usize>().prop_map(Step::Claim),
            3 => any::<usize>().prop_map(Step::Leave),
            1 => any::<usize>().prop_map(Step::GiveUp),
            1 => any::<usize>().prop_map(Step::Forget),
        ]), 0..200),
    ) {
        let longest = Duration::from_millis(50);
        let policy = BulkheadPolicy::new(capacity).retry_share(Ratio::percent(share));
        let policy = if queue > 0 { policy.queue(queue).max_wait(longest) } else { policy };
        let mut bulkhead = bulkhead(policy);
        let mut places: VecDeque<Place> = VecDeque::new();
        let mut tickets: VecDeque<Ticket> = VecDeque::new();
        let mut now = 0;
        for (pause, step) in steps {
            now += pause;
            let pick = |which: usize, among: usize| (among > 0).then(|| which % among.max(1));
            let entry = match step {
                Step::Enter(retry) => Some(bulkhead.enter(retry, ms(now))),
                Step::Claim(which) => pick(which, tickets.len())
                    .and_then(|at| tickets.remove(at))
                    .map(|ticket| bulkhead.claim(ticket, ms(now))),
                Step::Leave(which) => {
                    pick(which, places.len()).and_then(|at| places.remove(at)).into_iter().for_each(|place| {
                        bulkhead.leave(place);
                    });
                    None
                }
                Step::GiveUp(which) => {
                    pick(which, tickets.len()).and_then(|at| tickets.remove(at)).into_iter().for_each(|ticket| {
                        bulkhead.give_up(ticket);
                    });
                    None
                }
                // One who stops waiting without a word.
                Step::Forget(which) => {
                    pick(which, tickets.len()).and_then(|at| tickets.remove(at));
                    None
                }
            };
            match entry {
                Some(Entry::In(place)) => places.push_back(place),
                Some(Entry::Queued(ticket)) => {
                    prop_assert!(ticket.until() > ms(now));
                    tickets.push_back(ticket);
                }
                Some(Entry::Full) | None => {}
            }
            prop_assert_eq!(bulkhead.running() as usize, places.len());
            prop_assert!(bulkhead.running() <= capacity);
            prop_assert!(bulkhead.waiting(ms(now)) <= queue);
        }
        // When all have left, and all who waited are out of time, all places are there.
        places.into_iter().for_each(|place| bulkhead.leave(place));
        let later = ms(now).plus(longest);
        let mut held = vec![];
        for _ in 0..capacity {
            held.push(place(bulkhead.enter(false, later)));
        }
        prop_assert!(!matches!(bulkhead.enter(false, later), Entry::In(_)));
    }
}
