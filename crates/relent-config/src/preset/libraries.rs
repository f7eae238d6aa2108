//! Other libraries and proxies, as they are when nothing is set.

use super::{Keys, Preset};

const CHECKED: &str = "2026-12-01";

/// What most of them retry and relent does not: a failure that is known to last.
const PERMANENT: &str =
    "what is classed as permanent is not retried; there, every exception is unless it is listed";

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "resilience4j",
        description: "Resilience4j's Retry: three attempts, 500 ms apart, without jitter",
        system: "Resilience4j, Retry",
        version: "af9e7c97, after 2.2",
        sources: &[
            "https://github.com/resilience4j/resilience4j/blob/master/resilience4j-retry/src/main/java/io/github/resilience4j/retry/RetryConfig.java",
            "https://resilience4j.readme.io/docs/retry",
        ],
        checked: CHECKED,
        differs: &[
            PERMANENT,
            "growing waits are exact: there each one is cut to whole milliseconds (500, 750, 1125, 1687)",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 3
backoff = { kind = "constant", initial = "500ms" }
jitter = "none"
hint = { mode = "ignore" }
"#,
        ),
    },
    Preset {
        name: "polly",
        description: "Polly v8, exponential with jitter: three retries around 2, 4 and 8 s",
        system: "Polly, RetryStrategyOptions with BackoffType Exponential and UseJitter",
        version: "v8",
        sources: &[
            "https://www.pollydocs.org/strategies/retry",
            "https://github.com/App-vNext/Polly/blob/main/src/Polly.Core/Retry/RetryHelper.cs",
        ],
        checked: CHECKED,
        differs: &[
            "Polly's bare defaults are a constant 2 s without jitter: `backoff.kind = \"constant\"` and `jitter = \"none\"`",
            PERMANENT,
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 4
backoff = { kind = "exponential", initial = "2s", cap = "none", bound = "sample" }
jitter = "decorrelated_v2"
hint = { mode = "ignore" }
"#,
        ),
    },
    Preset {
        name: "polly-http",
        description: "The standard HTTP handler of .NET: polly, 10 s an attempt, 30 s in all, Retry-After",
        system: "Microsoft.Extensions.Http.Resilience, AddStandardResilienceHandler",
        version: "documentation of 2025",
        sources: &["https://learn.microsoft.com/dotnet/core/resilience/http-resilience"],
        checked: CHECKED,
        differs: &[
            "a wait that the 30 s leave no room for ends the call at once; there it is cut off when they are over",
            "what is known not to be idempotent is not repeated; there POST is, unless it is switched off",
            "its breaker and rate limiter are set beside it, where they are wanted",
        ],
        over: Some("polly"),
        keys: Keys::Text(
            r#"
deadline = "30s"
attempt_timeout = "10s"
hint = { mode = "exact", max = "none", spread = 0 }
"#,
        ),
    },
    Preset {
        name: "axios-retry",
        description: "axios-retry: three retries at once, of what is idempotent, Retry-After kept",
        system: "axios-retry",
        version: "4.5.0",
        sources: &["https://github.com/softonic/axios-retry#options"],
        checked: CHECKED,
        differs: &[
            "a connection that breaks while a POST is under way is not repeated: it may have been done",
            "a Retry-After beyond 24.8 days is waited for or ends the call; there the timer overflows and fires at once",
            "the timeout of axios, which covers all attempts, is `deadline`, and is not set here",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 4
backoff = { kind = "constant", initial = "0s" }
jitter = "none"
hint = { mode = "minimum", max = "none", spread = 0 }
retry_on = ["transient", "throttled", "not_sent"]
idempotency = { require = true }
"#,
        ),
    },
    Preset {
        name: "axios-retry-exponential",
        description: "The same with exponentialDelay: 200, 400, 800 ms and up to a fifth more",
        system: "axios-retry, exponentialDelay",
        version: "4.5.0",
        sources: &["https://github.com/softonic/axios-retry#options"],
        checked: CHECKED,
        differs: &[],
        over: Some("axios-retry"),
        // From 200 to 240 ms is 220 ms, an eleventh of it either way.
        keys: Keys::Text(
            r#"
backoff = { kind = "exponential", initial = "220ms", multiplier = 2, cap = "none" }
jitter = { kind = "proportional", factor = 0.09090909090909091 }
hint = { mode = "minimum", max = "none", spread = 0.2 }
"#,
        ),
    },
    Preset {
        name: "envoy",
        description: "Envoy's route: one retry within 25 ms, three at a time, 15 s in all",
        system: "Envoy, RetryPolicy and the cluster's circuit breaker",
        version: "data-plane-api 84e84367",
        sources: &[
            "https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/route/v3/route_components.proto#config-route-v3-retrypolicy",
            "https://www.envoyproxy.io/docs/envoy/latest/configuration/http/http_filters/router_filter",
            "https://www.envoyproxy.io/docs/envoy/latest/api-v3/config/cluster/v3/circuit_breaker.proto",
        ],
        checked: CHECKED,
        differs: &[
            "Envoy retries nothing until retry_on says what",
            "waits are drawn up to 25, 50, 100, 200, 250 ms, as the code does; the document's formula gives 25, 75, 175, 250",
            "what is known not to be idempotent is not repeated; there the method does not count",
            "no other host is chosen for a retry: that is the balancer's matter",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 2
deadline = "15s"
backoff = { kind = "exponential", initial = "25ms", multiplier = 2, cap = "250ms" }
jitter = "full"
hint = { mode = "ignore" }
budget = { kind = "concurrent", ratio = 0, floor = 3 }
"#,
        ),
    },
    Preset {
        name: "finagle",
        description: "Finagle's requeues: what was not done goes again at once, within a fifth of the calls",
        system: "Finagle, Retries and RetryBudget",
        version: "Retries.scala at a1cb3571, RetryBudget.scala at 65f76679",
        sources: &[
            "https://github.com/twitter/finagle/blob/develop/finagle-core/src/main/scala/com/twitter/finagle/service/Retries.scala",
            "https://github.com/twitter/finagle/blob/develop/finagle-core/src/main/scala/com/twitter/finagle/service/RetryBudget.scala",
            "https://twitter.github.io/finagle/guide/Clients.html#retries",
        ],
        checked: CHECKED,
        differs: &[
            "a call is requeued twenty times at most: there a fifth of what the budget holds, which is twenty when it is full",
            "a nack is classed as throttled; application failures have a policy of their own there, which is to retry none",
            "failure accrual and the admission of nacks are set beside it, as `breaker` and `throttle`",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 21
backoff = { kind = "constant", initial = "0s" }
jitter = "none"
hint = { mode = "ignore" }
retry_on = ["throttled", "not_sent"]
budget = { kind = "window", ratio = 0.2, ttl = "10s", floor = 10 }
"#,
        ),
    },
    Preset {
        name: "google-cloud",
        description: "Google Cloud's Python libraries: 1 s doubling to 60 s, full jitter, two minutes",
        system: "google-api-core, Retry",
        version: "2.44.0",
        sources: &[
            "https://github.com/googleapis/python-api-core/blob/main/google/api_core/retry/retry_base.py",
            "https://cloud.google.com/storage/docs/retry-strategy",
        ],
        checked: CHECKED,
        differs: &[
            "the two minutes end a running attempt, too; there only the next one",
            "the generated clients set other numbers for each method: take those of yours",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = "unlimited"
deadline = "120s"
backoff = { kind = "exponential", initial = "1s", multiplier = 2, cap = "60s" }
jitter = "full"
hint = { mode = "ignore" }
retry_on = ["transient", "throttled", "not_sent"]
"#,
        ),
    },
];
