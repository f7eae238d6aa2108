//! What a fleet cannot be.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::luck::Law;
use crate::model::fleet::{Arrivals, Clients, Edge, Fleet, Profile, Service, Trouble, TroubleKind};
use crate::scenario::{ScenarioError, check_clients};

/// The most calls that clients may begin in one replication.
const MAX_CALLS: f64 = 1e9;
/// The most services, and kinds of clients.
const MAX_PARTS: usize = 1000;

type Checked = Result<(), ScenarioError>;

impl Fleet {
    /// Whether it can be simulated.
    ///
    /// # Errors
    ///
    /// The first thing that cannot work, by its key.
    pub fn check(&self) -> Checked {
        if self.clients.is_empty() {
            return wrong("clients", "nobody calls");
        }
        if self.services.len() > MAX_PARTS || self.clients.len() > MAX_PARTS {
            return wrong("services", format!("at most {MAX_PARTS} services and kinds of clients"));
        }
        let mut places = BTreeMap::new();
        for (place, service) in self.services.iter().enumerate() {
            if places.insert(service.name.as_str(), place).is_some() {
                return wrong(format!("services.{}", service.name), "there are two of that name");
            }
        }
        for service in &self.services {
            check_service(service, &places)?;
        }
        self.check_cycles(&places)?;
        for clients in &self.clients {
            check_kind(clients, &places)?;
        }
        check_clients("clients", self.client_count())?;
        let calls = self.expected_calls();
        if calls > MAX_CALLS {
            return wrong("clients", format!("would begin about {calls:.0e} calls; at most {MAX_CALLS:.0e}"));
        }
        for (index, trouble) in self.troubles.iter().enumerate() {
            let key = format!("trouble[{index}]");
            let service = known(&key, &trouble.service, &places)?;
            self.check_trouble(&key, trouble, self.services.get(service))?;
        }
        if let Some(watch) = &self.watch {
            known("watch", watch, &places)?;
        }
        Ok(())
    }

    /// Services that call each other in a circle would call for ever.
    fn check_cycles(&self, places: &BTreeMap<&str, usize>) -> Checked {
        let calls = |place: usize| {
            let edges = self.services.get(place).map_or(&[][..], |service| &service.calls);
            edges.iter().filter_map(|edge| places.get(edge.to.as_str()).copied())
        };
        // Services whose callers are all known to be outside of circles, one after another (Kahn, CACM 1962).
        let mut callers = vec![0usize; self.services.len()];
        for called in (0..self.services.len()).flat_map(calls) {
            if let Some(count) = callers.get_mut(called) {
                *count += 1;
            }
        }
        let mut free: Vec<usize> =
            callers.iter().enumerate().filter(|(_, n)| **n == 0).map(|(at, _)| at).collect();
        let mut seen = 0;
        while let Some(place) = free.pop() {
            seen += 1;
            for called in calls(place) {
                if let Some(count) = callers.get_mut(called) {
                    *count -= 1;
                    if *count == 0 {
                        free.push(called);
                    }
                }
            }
        }
        if seen == self.services.len() {
            return Ok(());
        }
        let in_circle = self.services.iter().zip(&callers).filter(|(_, count)| **count > 0);
        let names: Vec<&str> = in_circle.map(|(service, _)| service.name.as_str()).collect();
        wrong(
            format!("services.{}.calls", names.first().unwrap_or(&"")),
            format!("services call each other in a circle: {}", names.join(", ")),
        )
    }

    fn check_trouble(&self, key: &str, trouble: &Trouble, service: Option<&Service>) -> Checked {
        let shards = service.map_or(1, |service| service.shards);
        if trouble.shard.is_some_and(|shard| !(1..=shards).contains(&shard)) {
            return wrong(
                format!("{key}.shard"),
                format!("{} has the shards 1 to {shards}", trouble.service),
            );
        }
        if trouble.lasts.is_zero() {
            return wrong(format!("{key}.for"), "lasts no time");
        }
        if trouble.at >= self.horizon {
            return wrong(format!("{key}.at"), "lies after the horizon");
        }
        match trouble.kind {
            TroubleKind::Capacity(factor) => {
                share(format!("{key}.factor"), factor)?;
                if service.is_some_and(|service| service.workers.is_none()) {
                    return wrong(
                        format!("{key}.kind"),
                        "cuts workers, but the service has any number of them",
                    );
                }
                Ok(())
            }
            TroubleKind::Errors(rate) => share(format!("{key}.rate"), rate),
            TroubleKind::Slow(factor) if !(factor.is_finite() && factor > 0.0) => {
                wrong(format!("{key}.factor"), "must be a number above 0")
            }
            TroubleKind::Slow(_) | TroubleKind::Refuse | TroubleKind::Hang => Ok(()),
        }
    }
}

fn check_service(service: &Service, places: &BTreeMap<&str, usize>) -> Checked {
    let key = format!("services.{}", service.name);
    if !(1..=MAX_PARTS as u32).contains(&service.shards) {
        return wrong(format!("{key}.shards"), format!("from 1 to {MAX_PARTS}"));
    }
    if service.workers == Some(0) {
        return wrong(format!("{key}.workers"), "a service without workers never answers");
    }
    if service.workers.is_none() && (service.queue.is_some() || service.drop_expired) {
        return wrong(format!("{key}.queue"), "has no effect: with any number of workers nothing waits");
    }
    share(format!("{key}.error_rate"), service.error_rate)?;
    check_law(&format!("{key}.time"), &service.time)?;
    if let Some(limit) = service.rate_limit {
        if !(limit.per_second.is_finite() && limit.per_second > 0.0) {
            return wrong(format!("{key}.rate_limit.per_second"), "must be a number above 0");
        }
        if limit.burst == 0 {
            return wrong(format!("{key}.rate_limit.burst"), "at least 1");
        }
    }
    if service.overload.is_some_and(|overload| overload.above == 0) {
        return wrong(format!("{key}.overload.above"), "at least 1");
    }
    service
        .calls
        .iter()
        .enumerate()
        .try_for_each(|(index, edge)| check_edge(&format!("{key}.calls[{index}]"), edge, places))
}

fn check_kind(clients: &Clients, places: &BTreeMap<&str, usize>) -> Checked {
    let key = format!("clients.{}", clients.name);
    check_clients(&format!("{key}.count"), u64::from(clients.count))?;
    check_edge(&key, &clients.call, places)?;
    let rate = |rate: f64| {
        if rate.is_finite() && rate >= 0.0 {
            Ok(())
        } else {
            wrong(format!("{key}.arrivals.rate"), format!("{rate} is no rate: 0 or more per second"))
        }
    };
    match &clients.arrivals {
        Arrivals::Closed { think } => check_law(&format!("{key}.arrivals.think"), think),
        Arrivals::Paced { rate: per_client } => {
            rate(*per_client)?;
            if *per_client > 0.0 {
                Ok(())
            } else {
                wrong(format!("{key}.arrivals.rate"), "nobody ever calls")
            }
        }
        Arrivals::Open { rate: Profile(points), .. } => {
            if points.is_empty() {
                return wrong(format!("{key}.arrivals.rate"), "has no point");
            }
            if !points.is_sorted_by_key(|(time, _)| *time) {
                return wrong(format!("{key}.arrivals.rate"), "its points must be in order of time");
            }
            points.iter().try_for_each(|(_, per_second)| rate(*per_second))
        }
        Arrivals::Burst { .. } => Ok(()),
        Arrivals::Cron { every, within } if every.is_zero() || within > every => {
            wrong(format!("{key}.arrivals.every"), "must be longer than nothing and than `within`")
        }
        Arrivals::Cron { .. } => Ok(()),
        Arrivals::Listen { lifetime, notice } => {
            if let Some(law) = lifetime {
                check_law(&format!("{key}.arrivals.lifetime"), law)?;
                if law.mean() <= 0.0 {
                    return wrong(format!("{key}.arrivals.lifetime"), "a connection must last some time");
                }
            }
            check_law(&format!("{key}.arrivals.notice"), notice)
        }
    }
}

fn check_edge(key: &str, edge: &Edge, places: &BTreeMap<&str, usize>) -> Checked {
    known(&format!("{key}.to"), &edge.to, places)?;
    if edge.timeout.is_some_and(|timeout| timeout.is_zero()) {
        return wrong(format!("{key}.timeout"), "leaves no time at all");
    }
    check_law(&format!("{key}.delay"), &edge.delay)
}

fn check_law(key: &str, law: &Law) -> Checked {
    const LONGEST: Duration = Duration::from_secs(366 * 86_400);
    match *law {
        Law::Uniform { from, to } if to < from => return wrong(key, "`to` lies below `from`"),
        Law::Lognormal { sigma, .. } if !(0.0..=10.0).contains(&sigma) => {
            return wrong(format!("{key}.sigma"), "0 to 10");
        }
        _ => {}
    }
    let longest = match *law {
        Law::Fixed(time) | Law::Exponential { mean: time } | Law::Lognormal { median: time, .. } => time,
        Law::Uniform { to, .. } => to,
        Law::Normal { mean, deviation } => mean.max(deviation),
    };
    if longest > LONGEST { wrong(key, "at most a year") } else { Ok(()) }
}

fn share(key: String, share: f64) -> Checked {
    if (0.0..=1.0).contains(&share) { Ok(()) } else { wrong(key, format!("{share} is no share: 0 to 1")) }
}

fn known(key: &str, name: &str, places: &BTreeMap<&str, usize>) -> Result<usize, ScenarioError> {
    places.get(name).copied().ok_or_else(|| {
        let there: Vec<&str> = places.keys().copied().collect();
        ScenarioError::new(key, crate::nearest::unknown("service", name, &there))
    })
}

fn wrong<T>(key: impl Into<String>, why: impl Into<String>) -> Result<T, ScenarioError> {
    Err(ScenarioError::new(key, why))
}
