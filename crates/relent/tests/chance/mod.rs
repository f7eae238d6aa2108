//! How properties are tried.

use proptest::test_runner::{Config, FileFailurePersistence, RngSeed};

/// This many cases, the same each time. `RELENT_TEST_SEED` draws others; one that fails is kept in `regressions.txt`.
pub(crate) fn config(cases: u32) -> Config {
    let seed =
        std::env::var("RELENT_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(20_260_303);
    Config {
        cases,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/regressions.txt"))),
        ..Config::default()
    }
}
