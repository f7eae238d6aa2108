//! For all policies: what is written reads back. For all texts: no panic, and every place lies in the text.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

mod checks;

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};
use relent_config::{Code, File, Reader, common_to_toml, to_toml};
use relent_core::{
    Backoff, Bound, BreakerMode, BreakerPolicy, BreakerWindow, BudgetPolicy, BulkheadPolicy, Class, Classes,
    CommonPolicy, ConcurrentBudget, Count, Deadline, First, HedgePolicy, HintMode, HintPolicy, Jitter,
    LimiterPolicy, MemoryPolicy, Multiplier, OnDeadline, OverMax, Policy, Quota, Rate, Ratio, Rule, Schedule,
    Stage, ThrottlePolicy, TokenBucket, WindowBudget,
};

fn duration() -> impl Strategy<Value = Duration> {
    (any::<u64>(), 0u32..64).prop_map(|(nanos, shift)| Duration::from_nanos(nanos >> shift))
}

fn multiplier() -> impl Strategy<Value = Multiplier> {
    prop_oneof![
        Just(Multiplier::TWO),
        Just(Multiplier::ONE),
        (1.0..100.0f64).prop_map(|value| Multiplier::new(value).unwrap()),
        (1u32..40).prop_map(|tenths| Multiplier::new(1.0 + f64::from(tenths) / 10.0).unwrap()),
        Just(Multiplier::new(f64::MAX).unwrap()),
    ]
}

fn stages() -> impl Strategy<Value = Schedule> {
    let stage = (1u64..1_000_000_000_000, duration(), multiplier());
    (vec(stage, 1..4), any::<bool>()).prop_map(|(stages, open)| {
        let mut end = 0;
        let mut stages: Vec<Stage> = stages
            .into_iter()
            .map(|(length, initial, multiplier)| {
                end += length;
                Stage { until: Some(Duration::from_nanos(end)), initial, multiplier }
            })
            .collect();
        if open {
            stages.last_mut().unwrap().until = None;
        }
        Schedule::Stages(stages.into())
    })
}

fn schedule() -> impl Strategy<Value = Schedule> {
    prop_oneof![
        4 => (duration(), multiplier()).prop_map(|(initial, multiplier)| Schedule::Exponential { initial, multiplier }),
        1 => duration().prop_map(|initial| Schedule::Constant { initial }),
        1 => (duration(), duration()).prop_map(|(initial, step)| Schedule::Linear { initial, step }),
        1 => duration().prop_map(|initial| Schedule::Fibonacci { initial }),
        1 => vec(duration(), 1..5).prop_map(|waits| Schedule::List(waits.into())),
        1 => stages(),
        1 => (duration(), 1u32..64).prop_map(|(slot, max_exponent)| Schedule::Csma { slot, max_exponent }),
    ]
}

fn jitter() -> impl Strategy<Value = Jitter> {
    prop_oneof![
        Just(Jitter::None),
        Just(Jitter::Full),
        Just(Jitter::Equal),
        (0.0..=1.0f64).prop_map(|factor| Jitter::Proportional { factor }),
        duration().prop_map(|max| Jitter::Additive { max }),
        Just(Jitter::Decorrelated),
        Just(Jitter::DecorrelatedV2),
    ]
}

fn backoff() -> impl Strategy<Value = Backoff> {
    let bounds = (option::of(duration()), option::of(duration()), any::<bool>());
    let more = (0u8..3, option::of(duration()), option::of(duration()));
    (schedule(), jitter(), bounds, more).prop_map(
        |(schedule, jitter, (cap, floor, at_once), (bound, spread, reset))| {
            let csma = matches!(schedule, Schedule::Csma { .. });
            // A multiplier beside these has no effect, and so cannot be written.
            let schedule = match (schedule, jitter) {
                (Schedule::Exponential { initial, .. }, Jitter::Decorrelated | Jitter::DecorrelatedV2) => {
                    Schedule::exponential(initial)
                }
                (schedule, _) => schedule,
            };
            let mut backoff = Backoff::new(schedule).jitter(if csma { Jitter::None } else { jitter });
            backoff = cap.map_or_else(|| backoff.clone().uncapped(), |cap| backoff.clone().cap(cap));
            if let Some(floor) = floor {
                backoff = backoff.floor(floor);
            }
            if at_once {
                backoff = backoff.first(First::Immediate);
            }
            backoff = backoff.bound([Bound::Range, Bound::Sample, Bound::Loose][usize::from(bound)]);
            backoff = backoff.initial_spread(spread.unwrap_or_default());
            reset.map_or(backoff.clone(), |reset| backoff.reset_after(reset))
        },
    )
}

fn classes() -> impl Strategy<Value = Classes> {
    let repeatable = vec![
        Class::Transient,
        Class::Throttled,
        Class::Timeout,
        Class::NotSent,
        Class::Permanent,
        Class::Ignored,
    ];
    subsequence(repeatable, 0..=6).prop_map(|classes| classes.into_iter().collect())
}

fn hint() -> impl Strategy<Value = HintPolicy> {
    let mode = prop_oneof![
        Just(HintMode::Minimum),
        Just(HintMode::Exact),
        duration().prop_map(HintMode::Clamp),
        Just(HintMode::Ignore)
    ];
    (mode, duration(), 0usize..3, 0.0..=1.0f64).prop_map(|(mode, max, over, spread)| match mode {
        HintMode::Ignore => HintPolicy::DEFAULT.mode(mode),
        _ => {
            let hint = HintPolicy::DEFAULT
                .mode(mode)
                .max(max)
                .over_max([OverMax::Abort, OverMax::Clamp, OverMax::Ignore][over]);
            if matches!(mode, HintMode::Clamp(_)) { hint } else { hint.spread(spread) }
        }
    })
}

/// A class that the rule is for, its limit, and its backoff.
type Ruled = (Option<Index>, Option<u32>, Option<(Backoff, bool)>);

fn rules() -> impl Strategy<Value = Vec<Ruled>> {
    let own = option::of((backoff(), any::<bool>()));
    vec((option::of(any::<Index>()), option::of(1u32..=254), own), 0..=6)
}

fn built(rules: Vec<Ruled>, retry_on: Classes) -> Vec<Rule> {
    let mut left: Vec<Class> = retry_on.iter().collect();
    let mut rule_of = |(class, limit, own): Ruled| {
        let class = class.filter(|_| !left.is_empty()).map(|index| left.remove(index.index(left.len())));
        let mut rule = class.map_or_else(Rule::named, Rule::on);
        rule = limit.map_or(rule.clone(), |limit| rule.max_attempts(limit));
        let Some((backoff, all)) = own else { return rule };
        // Spread and reset are the policy's.
        let backoff = backoff.initial_spread(Duration::ZERO).reset_after(Duration::MAX);
        rule.backoff(backoff).count(if all { Count::All } else { Count::Own })
    };
    rules.into_iter().map(&mut rule_of).collect()
}

fn policy() -> impl Strategy<Value = Policy> {
    let limits = (option::of(1u32..), option::of((duration(), duration())), any::<bool>());
    let more = (option::of(duration()), any::<bool>(), option::of(any::<u64>()), option::of(backoff()));
    (limits, more, backoff(), hint(), classes(), rules()).prop_filter_map(
        "cannot work",
        |((attempts, deadline, fit), (timeout, idempotent, seed, high), backoff, hint, retry_on, rules)| {
            let mut builder = Policy::default().to_builder().backoff(backoff).hint(hint).retry_on(retry_on);
            builder = match attempts {
                Some(attempts) => builder.max_attempts(attempts),
                None => builder.unlimited_attempts(),
            };
            if let Some((total, reserve)) = deadline {
                builder = builder.deadline(Deadline { total, reserve });
                builder = builder.on_deadline(if fit { OnDeadline::Fit } else { OnDeadline::Stop });
            }
            if let Some(timeout) = timeout {
                builder = builder.attempt_timeout(timeout);
            }
            if let Some(seed) = seed {
                builder = builder.seed(seed);
            }
            if let Some(high) = high {
                let high = high.initial_spread(Duration::ZERO).reset_after(Duration::MAX);
                builder = builder.high_backoff(high);
            }
            for rule in built(rules, retry_on) {
                builder = builder.rule(rule);
            }
            builder.require_idempotency(idempotent).build().ok()
        },
    )
}

fn ratio(least: u32) -> impl Strategy<Value = Ratio> {
    (least..=1_000_000).prop_map(Ratio::per_million)
}

fn rate() -> impl Strategy<Value = Rate> {
    let per = prop_oneof![Just(Duration::from_secs(1)), Just(Duration::from_secs(60)), duration()];
    (1u32.., per).prop_filter_map("no rate", |(count, per)| Rate::new(count, per))
}

fn budget() -> impl Strategy<Value = BudgetPolicy> {
    let tokens = (any::<u32>(), any::<u32>(), any::<u32>(), any::<bool>());
    let costs = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    prop_oneof![
        (1u32.., option::of(rate()), tokens).prop_map(
            |(capacity, refill, (success, failure, retry, half))| {
                let bucket = TokenBucket::new(capacity).per_success(success).per_failure(failure);
                let bucket = bucket.per_retry(retry).half_full(half);
                refill.map_or(bucket, |rate| bucket.refill(rate)).into()
            }
        ),
        (ratio(0), duration(), any::<u32>())
            .prop_map(|(ratio, ttl, floor)| WindowBudget::new(ratio).ttl(ttl).floor(floor).into()),
        (ratio(0), any::<u32>()).prop_map(|(ratio, floor)| ConcurrentBudget::new(ratio).floor(floor).into()),
        (any::<u32>(), costs, any::<u32>()).prop_map(|(capacity, (a, b, c, d), first)| {
            let quota = Quota::new(capacity, a % 100).first_success(first);
            quota.throttled(b % 3).timeout(c % 3).not_sent(d).into()
        }),
    ]
}

fn breaker() -> impl Strategy<Value = BreakerPolicy> {
    let window = prop_oneof![
        (1u32..).prop_map(BreakerPolicy::consecutive),
        (1u32..=1_000_000).prop_map(BreakerPolicy::count),
        duration().prop_map(BreakerPolicy::time),
    ];
    let opens = (option::of(1u32..), option::of(ratio(1)), option::of((ratio(1), duration())), 1u32..100);
    let probes = (1u32..=1_000, ratio(1), duration(), option::of(duration()));
    let modes = proptest::sample::select(&BreakerMode::ALL[..]);
    let open_for = option::of(backoff().prop_filter("by time", |backoff| !backoff.needs_clock()));
    (window, opens, probes, open_for, modes).prop_map(|(plain, opens, probes, open_for, mode)| {
        let mut policy = plain.mode(mode);
        if policy.window() != BreakerWindow::Consecutive {
            let (failures, ratio, slow, min_calls) = opens;
            policy = failures.map_or(policy.clone(), |failures| policy.failures(failures));
            policy = ratio.map_or(policy.clone().no_failure_ratio(), |ratio| policy.failure_ratio(ratio));
            policy = slow.map_or(policy.clone(), |(ratio, after)| policy.slow_calls(ratio, after));
            if ratio.is_some() || slow.is_some() {
                policy = policy.min_calls(min_calls);
            }
        }
        if let Some(backoff) = open_for {
            policy = policy.open_for(backoff.initial_spread(Duration::ZERO).reset_after(Duration::MAX));
        }
        let (most, ratio, give_up, ramp) = probes;
        policy = policy.max_probes(most).max_probe_duration(give_up).ramp(ramp.unwrap_or_default());
        if most > 1 { policy.success_ratio(ratio) } else { policy }
    })
}

fn throttle() -> impl Strategy<Value = ThrottlePolicy> {
    let of = prop_oneof![
        (1.0..1e6f64, 1e-3..1e3f64).prop_map(|(k, steep)| ThrottlePolicy::sre(k).aggression(steep)),
        (0.01..=1.0f64, 1e-3..1e3f64).prop_map(|(ok, steep)| ThrottlePolicy::envoy(ok).aggression(steep)),
        (0.01..=1.0f64).prop_map(ThrottlePolicy::finagle),
    ];
    (of, option::of((duration(), 0.01..=1.0f64, any::<u32>(), classes()))).prop_map(|(policy, more)| {
        match more {
            None => policy,
            Some((window, most, fewest, classes)) => {
                policy.window(window).max_rejection(most).min_requests(fewest).rejected(classes)
            }
        }
    })
}

fn hedge() -> impl Strategy<Value = HedgePolicy> {
    let of = prop_oneof![
        duration().prop_filter("at once", |delay| !delay.is_zero()).prop_map(HedgePolicy::after),
        Just(HedgePolicy::at_once()),
        Just(HedgePolicy::on_failure()),
        (ratio(1), duration(), option::of(duration()), duration(), any::<u32>()).prop_map(
            |(share, floor, ceiling, initial, samples)| {
                HedgePolicy::quantile(share)
                    .between(floor, ceiling.unwrap_or(Duration::MAX))
                    .until_known(initial, samples)
            }
        ),
    ];
    (of, 2u32..=64).prop_map(|(policy, attempts)| policy.max_attempts(attempts))
}

fn common() -> impl Strategy<Value = CommonPolicy> {
    let limiter = (rate(), option::of(1u32..), option::of(duration())).prop_map(|(rate, burst, wait)| {
        let policy = LimiterPolicy::new(rate);
        let policy = policy.burst(burst.unwrap_or(policy.burst));
        policy.max_wait(wait.unwrap_or(Duration::MAX))
    });
    let bulkhead = (1u32.., any::<u32>(), option::of(duration()), ratio(1)).prop_map(
        |(capacity, queue, wait, share)| {
            let policy = BulkheadPolicy::new(capacity).queue(queue).retry_share(share);
            if queue > 0 { policy.max_wait(wait.unwrap_or(Duration::MAX)) } else { policy }
        },
    );
    let reserve = prop_oneof![Just(Ratio::ZERO), ratio(0)];
    let budgets = vec((budget(), reserve), 0..=4);
    let limits = (option::of(limiter), any::<bool>(), option::of(throttle()), option::of(bulkhead));
    let memory = (duration(), 1u32..=64).prop_map(|(half, steps)| MemoryPolicy::new(half).steps(steps));
    (option::of(breaker()), budgets, limits, option::of(memory), option::of(hedge())).prop_filter_map(
        "cannot work",
        |(breaker, budgets, (limiter, adaptive, throttle, bulkhead), memory, hedge)| {
            let common =
                CommonPolicy { breaker, budgets, limiter, adaptive, throttle, bulkhead, memory, hedge };
            common.check().is_ok().then_some(common)
        },
    )
}

/// A file with much of what there is.
/// What looks like an expression of tenacity: mostly one of these functions with numbers, put together somehow.
fn tenacity(functions: &'static str) -> impl Strategy<Value = String> {
    let number =
        "0|1|2|2[.]5|60|0[.]001|1e9|3e9|1e300|max=10|min=4|multiplier=0|exp_base=1[.]5|exp_base=0|jitter=0";
    let call =
        (functions, vec(number, 0..4)).prop_map(|(name, numbers)| format!("{name}({})", numbers.join(", ")));
    let nested = call.prop_recursive(3, 12, 3, move |inner| {
        let both = (inner.clone(), "[|&+]", inner.clone())
            .prop_map(|(one, how, other)| format!("({one}) {how} {other}"));
        let of =
            (functions, vec(inner, 1..4)).prop_map(|(name, calls)| format!("{name}({})", calls.join(", ")));
        prop_oneof![both, of]
    });
    prop_oneof![8 => nested, 1 => "[a-z_0-9(),.|&+= ]{0,30}"]
}

const VALID: &str = include_str!("valid.toml");

const FOREIGN: [&str; 2] =
    [include_str!("../fuzz/corpus/foreign/asl-array"), include_str!("../fuzz/corpus/foreign/grpc-full")];

proptest! {
    #[test]
    fn a_policy_that_is_written_reads_back(policy in policy()) {
        let text = to_toml(&policy);
        let file = File::parse(&format!("version = 1\n[policies.p]\n{text}"), "p.toml");
        let file = file.map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        prop_assert_eq!(file.policy("p").unwrap(), &policy, "{}", text);
        prop_assert_eq!(file.resolved("p").unwrap().to_toml(), text);
    }

    #[test]
    fn what_is_shared_reads_back_as_it_is_written(common in common()) {
        let text = common_to_toml(&common);
        let file = File::parse(&format!("version = 1\n[policies.p]\n{text}"), "p.toml");
        let file = file.map_err(|errors| TestCaseError::fail(format!("{errors}\n{text}")))?;
        prop_assert_eq!(file.resolved("p").unwrap().common(), &common, "{}", text);
        prop_assert_eq!(file.resolved("p").unwrap().to_toml(), text);
    }

    #[test]
    fn no_text_panics(text: String) {
        checks::policy(&text);
        checks::policy(&format!("version = 1\n[policies.p]\n{text}"));
    }

    #[test]
    fn no_damage_panics(cuts in vec((any::<Index>(), 0usize..12, "[a-z0-9\"'={}\\[\\],. \n\t\u{e9}\u{91cd}_-]{0,8}"), 1..6)) {
        let mut letters: Vec<char> = VALID.chars().collect();
        for (at, length, text) in cuts {
            let at = at.index(letters.len());
            let end = (at + length).min(letters.len());
            letters.splice(at..end, text.chars());
        }
        checks::policy(&letters.into_iter().collect::<String>());
    }

    #[test]
    fn no_damage_to_a_foreign_text_panics(
        which in 0usize..2,
        cuts in vec((any::<Index>(), 0usize..12, "[a-z0-9\"{}\\[\\],.: \\\\\n\u{e9}\u{91cd}e+-]{0,8}"), 1..6),
    ) {
        let mut letters: Vec<char> = FOREIGN[which].chars().collect();
        for (at, length, text) in cuts {
            let at = at.index(letters.len());
            let end = (at + length).min(letters.len());
            letters.splice(at..end, text.chars());
        }
        checks::foreign(&letters.into_iter().collect::<String>());
    }

    #[test]
    fn no_swapped_lines_panic(order in vec(any::<Index>(), 0..60)) {
        let lines: Vec<&str> = VALID.lines().collect();
        let text: String = order.iter().map(|index| format!("{}\n", index.get(&lines))).collect();
        checks::policy(&format!("version = 1\n{text}"));
    }

    #[test]
    fn no_flag_panics(flags in vec(("[a-z_.]{0,20}|max_attempts|backoff.cap|jitter|deadline.total|retry_on|on.timeout.jitter|hint.mode", any::<String>()), 0..4)) {
        let flags: Vec<(&str, &str)> = flags.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
        checks::flags(&flags);
    }
}

proptest! {
    // To make them up takes longer than to read them.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn an_expression_of_tenacity_makes_a_policy_or_is_refused(
        stop in tenacity("stop_never|stop_after_attempt|stop_after_delay|stop_before_delay|stop_any|stop_all"),
        wait in tenacity("wait_none|wait_fixed|wait_random|wait_incrementing|wait_exponential|wait_full_jitter|wait_exponential_jitter|wait_chain|wait_combine"),
    ) {
        let text = format!("version = 1\n[policies.p]\npreset = {{ name = \"tenacity\", stop = \"{stop}\", wait = \"{wait}\" }}\n");
        checks::policy(&text);
        if let Err(errors) = File::parse(&text, "p.toml") {
            prop_assert!(errors.iter().all(|error| error.code() == Code::BadValue), "{}", errors);
        }
    }
}

#[test]
fn the_valid_file_is_valid() {
    checks::policy(VALID);
    Reader::new()
        .policy_table("http")
        .parse(VALID, "relent.toml")
        .unwrap_or_else(|errors| panic!("{errors}"));
}
