//! Hedged calls whose first attempt succeeds at once, so that nothing is hedged: what watching over it costs.

use std::error::Error;
use std::time::Duration;

use relent::{Policy, PolicyError, Ratio, Retrier, Target};
use relent_core::HedgePolicy;
use tokio::runtime::Runtime;
use tower::hedge::Hedge;
use tower::{BoxError, service_fn};

use crate::case::{Case, Table};
use crate::kept;
use crate::looped::Looped;
use crate::operation::{Kind, Small};

pub(crate) fn cases(runtime: &'static Runtime) -> Result<Vec<Case>, Box<dyn Error>> {
    let looped = Looped { table: Table::HEDGES, runtime };
    let quantile = target(HedgePolicy::quantile(Ratio::percent(95)))?;
    let after = target(HedgePolicy::after(Duration::from_millis(200)))?;
    let service = service_fn(|()| async { Small::succeed().map_err(|_| BoxError::from("refused")) });
    let hedged = Hedge::new(service, Always, 10, 0.95, Duration::from_secs(10));
    Ok(vec![
        looped.case("bare", || async { Small::succeed() }),
        looped
            .case("relent", || quantile.retry(|| async { Small::succeed() }))
            .variant("at the 95th percentile")
            .over("bare"),
        looped
            .case("relent", || after.retry(|| async { Small::succeed() }))
            .variant("after 200 ms")
            .over("bare"),
        Case::new(Table::HEDGES, "tower", looped.run_service(hedged))
            .variant("at the 95th percentile")
            .over("bare"),
    ])
}

fn target(hedge: HedgePolicy) -> Result<&'static Target, PolicyError> {
    Ok(kept(Retrier::new(Policy::default()).hedge(hedge).build()?.at("host")))
}

/// The policy that tower leaves to its users.
#[derive(Clone)]
struct Always;

impl tower::hedge::Policy<()> for Always {
    fn clone_request(&self, _: &()) -> Option<()> {
        Some(())
    }

    fn can_retry(&self, _: &()) -> bool {
        true
    }
}
