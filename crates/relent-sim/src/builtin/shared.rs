//! Scenarios whose calls share something, or have attempts beside each other.

use std::time::Duration;

use relent_core::{
    BreakerPolicy, BudgetPolicy, CommonPolicy, HedgePolicy, Jitter, Policy, Quota, Rate, Ratio,
    ThrottlePolicy, TokenBucket,
};

use super::{Options, built, clients, describe, ms, network, poisson, s, strategies};
use crate::luck::Law;
use crate::model::{Arrivals, Clients, Edge, Fleet, RateLimit, Service, Trouble, TroubleKind};
use crate::scenario::{Scenario, ScenarioError};
use crate::strategy::{Scope, Strategies, Strategy};

type Made = Result<Scenario, ScenarioError>;

pub(super) fn budget(options: &mut Options<'_>) -> Made {
    let (count, rate) = (options.positive("clients")?, options.rate("rate")?);
    let call = Edge { delay: Law::Exponential { mean: ms(10) }, ..Edge::to("service") };
    let fleet = Fleet {
        clients: clients(count, poisson(rate), call),
        services: vec![Service { error_rate: options.number("failure")?, ..Service::new("service") }],
        horizon: s(50),
        grace: s(1000),
        ..Fleet::default()
    };
    let at_once = |attempts: Option<u32>| {
        let builder = Policy::constant(Duration::ZERO).jitter(Jitter::None);
        built(attempts.map_or(builder.clone().unlimited_attempts(), |most| builder.max_attempts(most)))
    };
    // A token for ten calls of a client, as time brings them.
    let per_token = Duration::try_from_secs_f64(10.0 * f64::from(count) / rate).ok();
    let refill = per_token.and_then(|time| Rate::new(1, time));
    let refill = refill.ok_or_else(|| ScenarioError::new("rate", "leaves no time between two calls"))?;
    let line_up = vec![
        ("no retry".to_owned(), at_once(Some(1))?),
        ("3 retries".to_owned(), at_once(Some(4))?),
        ("bucket, 10 %".to_owned(), at_once(None)?.sharing(budgets(TokenBucket::new(5).refill(refill)))),
        (
            "3 retries, gRPC's throttling".to_owned(),
            at_once(Some(4))?.sharing(budgets(TokenBucket::grpc(10, 100))),
        ),
    ];
    Ok(Scenario { replications: 4, line_up, ..describe("budget", fleet) })
}

fn budgets(budget: impl Into<BudgetPolicy>) -> CommonPolicy {
    CommonPolicy { budgets: vec![(budget.into(), Ratio::ZERO)], ..CommonPolicy::default() }
}

pub(super) fn breaker(options: &mut Options<'_>) -> Made {
    let (at, lasts) = (options.duration("at")?, options.duration("outage")?);
    let threshold = options.number("threshold")?;
    let ratio = Ratio::new(threshold).filter(|_| threshold > 0.0 && threshold <= 1.0);
    let ratio = ratio.ok_or_else(|| ScenarioError::new("threshold", "a share above 0, up to 1"))?;
    let numbers = Strategies { attempts: Some(options.positive("attempts")?), ..Strategies::default() };
    let fleet = Fleet {
        clients: clients(options.positive("clients")?, poisson(options.rate("rate")?), network("service")),
        services: vec![Service {
            shards: options.positive("shards")?,
            time: Law::Exponential { mean: ms(10) },
            ..Service::new("service")
        }],
        troubles: vec![Trouble {
            service: "service".into(),
            at,
            lasts,
            shard: Some(1),
            kind: TroubleKind::Errors(1.0),
        }],
        horizon: at.saturating_add(lasts).saturating_add(s(60)),
        grace: s(60),
        warm_up: s(2),
        watch: None,
    };
    let breaker = BreakerPolicy::time(s(10)).min_calls(5).failure_ratio(ratio);
    let shared = CommonPolicy { breaker: Some(breaker), ..CommonPolicy::default() };
    let mut line_up = strategies(&["full"], numbers)?;
    let full: Vec<Strategy> = line_up.iter().map(|(_, strategy)| strategy.clone()).collect();
    for alone in full {
        let behind = alone.sharing(shared.clone());
        line_up.push(("breaker for the service".into(), behind.clone()));
        line_up.push(("breaker for each shard".into(), behind.per_shard()));
    }
    Ok(Scenario { replications: 5, strategies: numbers, line_up, ..describe("breaker", fleet) })
}

pub(super) fn hedging(options: &mut Options<'_>) -> Made {
    let (at, lasts) = (options.duration("at")?, options.duration("slow")?);
    let time = Law::Lognormal { median: options.duration("median")?, sigma: options.number("sigma")? };
    let trouble = Trouble {
        service: "service".into(),
        at,
        lasts,
        shard: None,
        kind: TroubleKind::Slow(options.rate("factor")?),
    };
    let fleet = Fleet {
        clients: clients(options.positive("clients")?, poisson(options.rate("rate")?), Edge::to("service")),
        services: vec![Service { time, ..Service::new("service") }],
        troubles: if lasts.is_zero() { Vec::new() } else { vec![trouble] },
        horizon: at.saturating_add(lasts).saturating_add(s(60)),
        grace: s(3600),
        warm_up: s(2),
        watch: None,
    };
    let one = || Policy::constant(Duration::ZERO).max_attempts(1);
    let hedged = |hedge| {
        let shared = CommonPolicy { hedge: Some(hedge), ..CommonPolicy::default() };
        // Hedges are attempts: the policy bounds them too.
        Ok::<_, ScenarioError>(built(one().max_attempts(2))?.sharing(shared))
    };
    let line_up = vec![
        ("no hedge".to_owned(), built(one())?),
        ("after 150 ms".to_owned(), hedged(HedgePolicy::after(ms(150)))?),
        ("after 200 ms".to_owned(), hedged(HedgePolicy::after(ms(200)))?),
        ("after the p95".to_owned(), hedged(HedgePolicy::quantile(Ratio::percent(95)))?),
    ];
    Ok(Scenario { replications: 5, line_up, ..describe("hedging", fleet) })
}

pub(super) fn overload(options: &mut Options<'_>) -> Made {
    let capacity = options.rate("capacity")?;
    let limit = RateLimit { per_second: capacity, burst: capacity.max(1.0) as u32, retry_after: None };
    let fleet = Fleet {
        clients: clients(options.positive("clients")?, poisson(options.rate("rate")?), network("service")),
        services: vec![Service { rate_limit: Some(limit), ..Service::new("service") }],
        horizon: s(600),
        grace: s(60),
        ..Fleet::default()
    };
    let throttled = |k| {
        let shared = CommonPolicy { throttle: Some(ThrottlePolicy::sre(k)), ..CommonPolicy::default() };
        Ok::<_, ScenarioError>(built(Policy::constant(Duration::ZERO).max_attempts(1))?.sharing(shared))
    };
    let line_up = vec![
        ("no throttle".to_owned(), built(Policy::constant(Duration::ZERO).max_attempts(1))?),
        ("K = 2".to_owned(), throttled(2.0)?),
        ("K = 1.1".to_owned(), throttled(1.1)?),
    ];
    Ok(Scenario { replications: 5, line_up, ..describe("overload", fleet) })
}

pub(super) fn adaptive(options: &mut Options<'_>) -> Made {
    let per_second = options.rate("rate")?;
    let limit = RateLimit { per_second, burst: per_second.max(1.0) as u32, retry_after: None };
    let answers = Law::Exponential { mean: ms(10) };
    let kind = |name: &str, count: u32, to: &str| Clients {
        name: name.into(),
        count,
        arrivals: Arrivals::Closed { think: Law::Exponential { mean: ms(20) } },
        call: network(to),
    };
    let threads = options.positive("threads")?;
    let mut fleet = Fleet {
        clients: vec![kind("hammering", threads, "throttled")],
        services: vec![Service { rate_limit: Some(limit), time: answers, ..Service::new("throttled") }],
        horizon: s(60),
        grace: s(60),
        ..Fleet::default()
    };
    let others: u32 = options.whole("others")?;
    if others > 0 {
        fleet.clients.push(kind("others", others, "idle"));
        fleet.services.push(Service { time: answers, ..Service::new("idle") });
        fleet.watch = Some("idle".into());
    }
    // The SDKs' standard mode of 2026 in short: three attempts, from 50 ms, and its quota of retries.
    let standard = built(Policy::exponential(ms(50)).max_attempts(3))?;
    let shared = |adaptive| CommonPolicy { adaptive, ..budgets(Quota::aws_2026()) };
    let (off, on) =
        (standard.clone().sharing(shared(false)).scope(Scope::Service), standard.sharing(shared(true)));
    let line_up = if others > 0 {
        vec![
            ("standard".to_owned(), off),
            ("adaptive, one client for both tables".to_owned(), on.clone().scope(Scope::All)),
            ("adaptive, a client for each table".to_owned(), on.scope(Scope::Service)),
        ]
    } else {
        vec![("standard".to_owned(), off), ("adaptive".to_owned(), on.scope(Scope::Service))]
    };
    Ok(Scenario { bin: ms(500), replications: 5, line_up, ..describe("adaptive", fleet) })
}
