//! Schedules of the world: restarts, mail, Ethernet.

use super::{Keys, Preset};

const CHECKED: &str = "2026-12-01";

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "kubernetes-crashloop",
        description: "CrashLoopBackOff: a restart at once, then 10 s doubling to 5 min, for ever",
        system: "Kubernetes, CrashLoopBackOff",
        version: "1.35",
        sources: &[
            "https://github.com/kubernetes/enhancements/blob/master/keps/sig-node/4603-tune-crashloopbackoff/README.md",
            "https://github.com/kubernetes/enhancements/blob/master/keps/sig-node/5593-configure-the-max-crashloopbackoff-delay/README.md",
            "https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy",
        ],
        checked: CHECKED,
        differs: &[
            "a container that ends well is not started again: only failures are retried (restartPolicy: OnFailure)",
            "ten minutes of health begin a new series with the failure that ends them; the kubelet looks when it restarts",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = "unlimited"
backoff = { kind = "exponential", initial = "10s", multiplier = 2, cap = "300s", first = "immediate", reset_after = "10m" }
jitter = "none"
hint = { mode = "ignore" }
retry_on = ["transient", "throttled", "timeout", "not_sent", "permanent"]
"#,
        ),
    },
    Preset {
        name: "smtp",
        description: "Mail: after 1, 5, 15 and 30 min, then hourly, then every 4 h, for five days",
        system: "SMTP queues in general",
        version: "RFC 5321, section 4.5.4.1",
        sources: &["https://www.rfc-editor.org/rfc/rfc5321#section-4.5.4.1"],
        checked: CHECKED,
        differs: &[
            "the RFC asks for at least 30 min between tries; the first hour has more of them, for greylisting's sake",
            "every wait is spread by a tenth either way, so that what failed together does not come back together",
            "no memory of hosts that cannot be reached: each message waits by itself",
        ],
        over: None,
        // Each stage begins halfway through the wait before it: a tenth of jitter cannot miss it.
        keys: Keys::Text(
            r#"
max_attempts = "unlimited"
deadline = "5d"
jitter = { kind = "proportional", factor = 0.1 }
hint = { mode = "ignore" }

[backoff]
kind = "stages"
stages = [
    { until = "30s", initial = "1m" },
    { until = "3m", initial = "5m" },
    { until = "13m", initial = "15m" },
    { until = "36m", initial = "30m" },
    { until = "6h", initial = "1h" },
    { initial = "4h" },
]
"#,
        ),
    },
    Preset {
        name: "exim",
        description: "Exim as Debian sets it: 15 min for 2 h, then growing by half, then every 6 h, 4 days",
        system: "Exim, Debian's default configuration",
        version: "exim4-config 4.96-15+deb12u9, retry/30_exim4-config: F,2h,15m; G,16h,1h,1.5; F,4d,6h",
        sources: &["https://www.exim.org/exim-html-current/doc/html/spec_html/ch-retry_configuration.html"],
        checked: CHECKED,
        differs: &[
            "the failure is given back after the last try that fits into the four days, at 94.78 h; Exim bounces when the \
             next one is due, at 100.78 h",
            "no memory of hosts: Exim's times are those of a host, which messages share",
            "waits are not rounded up to the next run of the queue",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = "unlimited"
deadline = "4d"
jitter = "none"
hint = { mode = "ignore" }

[backoff]
kind = "stages"
stages = [
    { until = "2h", initial = "15m" },
    { until = "16h", initial = "1h", multiplier = 1.5 },
    { until = "4d", initial = "6h" },
]
"#,
        ),
    },
    Preset {
        name: "postfix",
        description: "Postfix: 300 s doubling to 4000 s, for five days",
        system: "Postfix, queue manager",
        version: "3.7.11",
        sources: &["https://www.postfix.org/postconf.5.html#minimal_backoff_time"],
        checked: CHECKED,
        differs: &["waits are not rounded up to the next scan of the queue (queue_run_delay, 300 s)"],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = "unlimited"
deadline = "5d"
backoff = { kind = "exponential", initial = "300s", multiplier = 2, cap = "4000s" }
jitter = "none"
hint = { mode = "ignore" }
"#,
        ),
    },
    Preset {
        name: "ethernet",
        description: "CSMA/CD at 10 Mb/s: a random number of slots, up to 1023, sixteen attempts",
        system: "Ethernet, truncated binary exponential backoff",
        version: "IEEE 802.3, clause 4",
        sources: &["https://standards.ieee.org/ieee/802.3/10422/"],
        checked: CHECKED,
        differs: &["the slot is that of 10 Mb/s; `backoff.slot` is 5.12us at 100 Mb/s and 4.096us at 1 Gb/s"],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 16
backoff = { kind = "csma", slot = "51.2us", max_exponent = 10 }
hint = { mode = "ignore" }
"#,
        ),
    },
];
