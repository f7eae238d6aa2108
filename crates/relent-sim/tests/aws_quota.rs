//! Where the AWS SDKs' quota tips over, from whole calls of the real presets.
//!
//! A call that fails independently at each attempt with probability p changes the quota by +1 (first try), 0 (second), −c
//! (third) or −(n − 1)·c (all fail): it drifts up or down according to whether p is below the root of
//! 1 − p = c·(p² + … + pⁿ), which is 21.5 % for c = 14 and 32.1 % for c = 5 at n = 3. AWS speaks of "about 22 %" and
//! "about 32 %". Where a share f of calls fails at every attempt, it is 1/((n − 1)·c + 1): 3.4 % and 9.1 %.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use relent_config::{Preset, Resolved};
use relent_core::{
    Budget, BudgetSnapshot, Call, Class, Common, Decision, Dice, Held, Moment, Outcome, Share, Start,
    Timestamp,
};

/// Short runs that start half full: none of them meets the bottom or the top.
const RUNS: u32 = 120_000;
const CALLS: u32 = 8;
const HALF: u32 = 250;

/// The mean change of the quota per call, and its standard error. `fails` is told the number of the attempt.
fn drift(
    resolved: &Resolved,
    class: Class,
    dice: &mut Dice,
    mut fails: impl FnMut(u32, &mut Dice) -> bool,
) -> (f64, f64) {
    let policy = resolved.policy();
    let now = Timestamp::ZERO;
    let full: Budget = resolved.common().build(1).unwrap().budgets.pop().unwrap();
    let (mut sum, mut squares) = (0.0, 0.0);
    for _ in 0..RUNS {
        let budget = full.clone().restored(&BudgetSnapshot::Quota { balance: HALF }, now);
        let mut common = Common { budgets: vec![budget], ..Common::default() };
        for _ in 0..CALLS {
            let mut held = Held::default();
            let mut share = Share { parts: &mut common, held: &mut held };
            let mut call = Call::new(None);
            for attempt in 1.. {
                assert_eq!(call.admit(policy, &mut share, Moment::timeless(0)), Start::Go);
                let class = if fails(attempt, dice) { class } else { Class::Success };
                let decision =
                    call.decide(policy, &mut share, Outcome::of(class), Moment::timeless(dice.roll()));
                if let Decision::Stop { .. } = decision {
                    break;
                }
            }
            share.end(now);
        }
        let balance = common.budgets[0].balance(now) as f64 / 1_000.0;
        assert!((1.0..500.0).contains(&balance), "{balance}: a run met a bound");
        let change = (balance - f64::from(HALF)) / f64::from(CALLS);
        sum += change;
        squares += change * change;
    }
    let mean = sum / f64::from(RUNS);
    (mean, ((squares / f64::from(RUNS) - mean * mean) / f64::from(RUNS)).sqrt())
}

fn share(dice: &mut Dice) -> f64 {
    (dice.roll() >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn the_quota_drains_from_about_22_percent_of_failures_and_32_of_throttling() {
    let resolved = Preset::named("aws-standard").unwrap().with(&[], None).unwrap();
    let mut dice = Dice::new(2026);
    for (class, below, above, root) in
        [(Class::Transient, 0.209, 0.221, 0.21486), (Class::Throttled, 0.314, 0.327, 0.32072)]
    {
        let mut at = |p: f64| drift(&resolved, class, &mut dice, |_, dice| share(dice) < p);
        let (gain, gain_error) = at(below);
        let (loss, loss_error) = at(above);
        println!("{class}: {gain:+.4} ± {gain_error:.4} at {below}, {loss:+.4} ± {loss_error:.4} at {above}");
        assert!(gain > 5.0 * gain_error, "{class}: {gain} ± {gain_error}");
        assert!(loss < -5.0 * loss_error, "{class}: {loss} ± {loss_error}");
        let (balance, error) = at(root);
        assert!(balance.abs() < 4.0 * error, "{class}: {balance} ± {error} at the root");
    }
}

#[test]
fn where_whole_calls_fail_it_drains_from_3_and_9_percent() {
    let resolved = Preset::named("aws-standard").unwrap().with(&[], None).unwrap();
    let mut dice = Dice::new(1066);
    for (class, root) in [(Class::Transient, 1.0 / 29.0), (Class::Throttled, 1.0 / 11.0)] {
        let mut at = |f: f64| {
            let mut failing = false;
            drift(&resolved, class, &mut dice, |attempt, dice| {
                if attempt == 1 {
                    failing = share(dice) < f;
                }
                failing
            })
        };
        let (gain, gain_error) = at(root * 0.97);
        let (loss, loss_error) = at(root * 1.03);
        println!("{class}: {gain:+.4} ± {gain_error:.4} below {root:.4}, {loss:+.4} ± {loss_error:.4} above");
        assert!(gain > 5.0 * gain_error, "{class}: {gain} ± {gain_error}");
        assert!(loss < -5.0 * loss_error, "{class}: {loss} ± {loss_error}");
        let (balance, error) = at(root);
        assert!(balance.abs() < 4.0 * error, "{class}: {balance} ± {error} at the root");
    }
}
