//! One seed, one result: on every platform, in debug and in release, on one thread and on two. A change of these hashes
//! is a change of what the simulator says, and belongs in the changelog.

#![allow(clippy::unwrap_used)] // the helpers of a test may fail like the test

use relent_sim::{Simulation, built_in};

type Golden = (&'static str, &'static [(&'static str, &'static str)], u64);

/// Scenario, options, hash of all figures and series.
const GOLDEN: [Golden; 12] = [
    ("herd", &[("clients", "2000"), ("horizon", "60s"), ("outage", "3s")], 0xb6f1_d549_33cc_9401),
    ("occ", &[("clients", "30"), ("replications", "5")], 0x424f_c816_9b55_2640),
    ("outage", &[("replications", "2")], 0x7a4c_cf6b_1515_f240),
    ("metastable", &[("replications", "2"), ("horizon", "150s")], 0xe8d8_b042_cb31_0c6e),
    ("collapse", &[("replications", "3")], 0x4f44_933e_c9db_6e9e),
    ("layers", &[("replications", "2"), ("horizon", "20s")], 0x500c_126e_3213_d2c4),
    ("throttle", &[("replications", "2")], 0x5de0_a273_2737_458a),
    ("ethernet", &[("slots", "50000"), ("replications", "2")], 0x43d5_a190_d5dd_21fd),
    ("cron", &[("clients", "1000"), ("capacity", "50"), ("replications", "2")], 0x6df5_c25e_6dfd_0517),
    ("reconnect", &[("clients", "1000"), ("capacity", "50")], 0xc135_a498_39b8_545e),
    ("batch", &[("repeats", "halves")], 0xeaff_de9e_4bed_4805),
    ("statemachine", &[("replications", "2")], 0x8331_a37d_0f53_901e),
];

#[test]
fn one_seed_gives_one_result() {
    let mut wrong = Vec::new();
    for (name, options, expected) in GOLDEN {
        let run = |threads| {
            let simulation = Simulation::new(built_in(name, options).unwrap()).line_up();
            let comparison = simulation.threads(threads).run().unwrap();
            fnv(&(comparison.json() + &comparison.csv() + &comparison.series_csv()))
        };
        let (one, two) = (run(1), run(2));
        assert_eq!(one, two, "{name} depends on the number of threads");
        if one != expected {
            wrong.push(format!("{name}: {one:#018x}"));
        }
    }
    assert!(wrong.is_empty(), "other results than before:\n{}", wrong.join("\n"));
}

/// FNV-1a, 64 bits.
fn fnv(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
