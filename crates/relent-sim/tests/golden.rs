//! One seed, one result: on every platform, in debug and in release, on one thread and on two. A change of these hashes
//! is a change of what the simulator says, and belongs in the changelog.

#![allow(clippy::unwrap_used)] // the helpers of a test may fail like the test

use relent_sim::{Simulation, built_in};

type Golden = (&'static str, &'static [(&'static str, &'static str)], u64);

/// Scenario, options, hash of all figures and series.
const GOLDEN: [Golden; 17] = [
    ("herd", &[("clients", "2000"), ("horizon", "60s"), ("outage", "3s")], 0x3332_3dd3_4221_7b56),
    ("occ", &[("clients", "30"), ("replications", "5")], 0x4f68_d171_c10c_6def),
    ("outage", &[("replications", "2")], 0xbbde_bd43_4fa3_c5d7),
    ("metastable", &[("replications", "2"), ("horizon", "150s")], 0x7685_b667_08bd_c3af),
    ("collapse", &[("replications", "3")], 0xd871_3c2a_88cd_4a71),
    ("layers", &[("replications", "2"), ("horizon", "20s")], 0x968c_ba30_fb4a_4aa0),
    ("throttle", &[("replications", "2")], 0x83d6_85ba_34e3_4f04),
    ("ethernet", &[("slots", "50000"), ("replications", "2")], 0x04da_4042_b593_1185),
    ("cron", &[("clients", "1000"), ("capacity", "50"), ("replications", "2")], 0xec38_7699_9152_7058),
    ("reconnect", &[("clients", "1000"), ("capacity", "50")], 0x4742_cb53_c513_11df),
    ("batch", &[("repeats", "halves")], 0xb60a_7759_d6b2_5784),
    ("statemachine", &[("replications", "2")], 0x4cbd_b01d_84d8_2df3),
    ("budget", &[("horizon", "20s"), ("replications", "2")], 0x61b9_41a3_a4ec_44db),
    ("breaker", &[("rate", "200"), ("replications", "2")], 0xed3f_d211_e25a_5802),
    ("hedging", &[("rate", "200"), ("replications", "2")], 0x1bb1_df23_dbab_193e),
    ("overload", &[("horizon", "200s"), ("replications", "2")], 0xee51_99fb_4711_8793),
    ("adaptive", &[("others", "5"), ("horizon", "20s"), ("replications", "2")], 0x33f0_9788_7aa7_73a2),
];

#[test]
fn one_seed_gives_one_result() {
    let mut wrong = Vec::new();
    for (name, options, expected) in GOLDEN {
        let run = |threads| {
            let simulation = Simulation::new(built_in(name, options).unwrap()).line_up();
            let comparison = simulation.threads(threads).run().unwrap();
            let waits: String =
                comparison.reports.iter().map(|report| format!("{:016x}", report.tally.waits)).collect();
            fnv(&(waits + &comparison.csv() + &comparison.series_csv()))
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
