//! Rate limits, ours and governor's, on the same clocks.

use std::error::Error;
use std::hint::black_box;
use std::num::NonZeroU32;
use std::time::Duration;

use governor::clock::{Clock, FakeRelativeClock, MonotonicClock, QuantaClock, Reference as _};
use governor::{Quota, RateLimiter};
use relent::{Limiter, LimiterPolicy, Locked, PolicyError, Rate, Timestamp};

use crate::case::{Case, Table};
use crate::kept;

/// So many a second that none is ever refused, and so few that all but the first are.
const MANY: NonZeroU32 = match NonZeroU32::new(1_000_000_000) {
    Some(many) => many,
    None => NonZeroU32::MIN,
};
const FEW: NonZeroU32 = NonZeroU32::MIN;

pub(crate) fn cases() -> Result<Vec<Case>, Box<dyn Error>> {
    let mut cases = Vec::new();
    cases.extend(on::<FakeRelativeClock>("granted, a clock that stands still", MANY)?);
    cases.extend(on::<QuantaClock>("granted, quanta's clock", MANY)?);
    cases.extend(on::<MonotonicClock>("granted, std's clock", MANY)?);
    cases.extend(on::<FakeRelativeClock>("refused, a clock that stands still", FEW)?);
    Ok(cases)
}

fn on<C: Clock + Default + 'static>(
    variant: &'static str,
    rate: NonZeroU32,
) -> Result<[Case; 2], PolicyError> {
    let burst = if rate == FEW { FEW } else { NonZeroU32::MAX };
    let quota = Quota::per_second(rate).allow_burst(burst);
    let theirs = move || {
        let governor = kept(RateLimiter::direct_with_clock(quota, C::default()));
        || governor.check().is_ok()
    };
    let policy = LimiterPolicy::new(Rate::per_second(rate)).burst(burst.get()).max_wait(Duration::ZERO);
    let limiter = kept(Locked::new(Limiter::new(policy)?));
    let ours = move || {
        let clock = C::default();
        let start = clock.now();
        move || {
            let now = Timestamp::from_nanos(clock.now().duration_since(start).as_u64());
            limiter.try_acquire(1, now)
        }
    };
    Ok([case("relent", variant, ours), case("governor", variant, theirs)])
}

/// The limit is made when it is first asked: quanta's clock takes its time to find out how fast it runs, which would be
/// counted with every other case.
fn case<A: Fn() -> bool + 'static>(
    name: &'static str,
    variant: &'static str,
    make: impl Fn() -> A + 'static,
) -> Case {
    let mut made = None;
    let run = move |calls| {
        let ask = made.get_or_insert_with(&make);
        for _ in 0..calls {
            black_box(ask());
        }
    };
    Case::new(Table::TURNS, name, run).variant(variant)
}
