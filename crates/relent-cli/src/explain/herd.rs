//! What the policy does to a fleet in an outage, in one line.

use std::time::Duration;

use relent_core::Policy;
use serde_json::{Value, json};

use crate::durations::short;
use crate::fleet::{Met, Outage};

/// In bins of a second, and with a limit that keeps the answer within the blink of an eye.
pub(super) const OUTAGE: Outage =
    Outage { bin: Duration::from_secs(1), max_events: 700_000, ..Outage::USUAL };

/// What the usual outage and this policy make of each other.
pub(super) fn of(policy: &Policy) -> Option<Met> {
    // Only a fleet that cannot be is refused, and this one can.
    let [met] = OUTAGE.meet([policy.clone()]).ok()?;
    Some(met)
}

/// The same as a sentence.
pub(super) fn line(met: &Met) -> String {
    let (clients, outage, capacity) = (OUTAGE.clients, short(OUTAGE.lasts), OUTAGE.capacity);
    let (calls, peak, drained) = (met.calls, met.peak, short(met.drained));
    let after = format!("{clients} clients after a {outage} outage");
    if met.broken_off {
        return format!("{after}: more than {calls} calls; not followed to the end.");
    }
    match (met.served, u64::from(clients).saturating_sub(met.served)) {
        (0, _) if met.over < OUTAGE.lasts => {
            format!(
                "{clients} clients in a {outage} outage: all have given up after {}, with {calls} calls.",
                short(met.over)
            )
        }
        (_, 0) => format!(
            "{after}: peak {peak} calls/s on a service for {capacity}/s, drained after {drained}; {calls} calls in all."
        ),
        (served, lost) => format!(
            "{after}: peak {peak} calls/s on a service for {capacity}/s; after {drained} {served} are served and \
             {lost} have given up."
        ),
    }
}

pub(super) fn json(met: &Met) -> Value {
    json!({
        "clients": OUTAGE.clients,
        "outage_ms": OUTAGE.lasts.as_secs_f64() * 1e3,
        "capacity_per_s": OUTAGE.capacity,
        "seed": OUTAGE.seed,
        "calls": met.calls,
        "peak_per_s_after": met.peak,
        "served": met.served,
        "drained_after_ms": (met.drained.as_secs_f64() * 1e6).round() / 1e3,
        "over_after_ms": (met.over.as_secs_f64() * 1e6).round() / 1e3,
        "broken_off": met.broken_off,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use relent_core::Jitter;

    #[test]
    fn each_fate_has_its_sentence() {
        let patient = || Policy::exponential(Duration::from_millis(100)).unlimited_attempts();
        let short_of_it = patient().deadline(Duration::from_secs(35));
        let cases = [
            (Policy::default().to_builder(), "all have given up after"),
            (patient(), "drained after"),
            (short_of_it, "have given up."),
            (
                Policy::constant(Duration::ZERO).jitter(Jitter::None).unlimited_attempts(),
                "not followed to the end",
            ),
        ];
        for (policy, part) in cases {
            let line = line(&of(&policy.build().unwrap()).unwrap());
            assert!(line.contains(part), "{line}");
        }
    }
}
