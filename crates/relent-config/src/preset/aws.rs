//! The AWS SDKs.

mod env;
mod file;

use super::{Keys, Preset};

const CHECKED: &str = "2026-12-01";

const ANNOUNCED: &str =
    "https://aws.amazon.com/blogs/developer/announcing-updated-retry-behavior-for-aws-sdks-and-tools/";
const GUIDE: &str = "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html";
const STANDARD_PY: &str = "https://github.com/boto/botocore/blob/1.44.8/botocore/retries/standard.py";
const STANDARD_PY_BEFORE: &str =
    "https://github.com/boto/botocore/blob/1.43.127/botocore/retries/standard.py";
const ADAPTIVE_PY: &str = "https://github.com/boto/botocore/blob/1.44.8/botocore/retries/adaptive.py";
const LEGACY_PY: &str = "https://github.com/boto/botocore/blob/1.44.8/botocore/data/_retry.json";
const STANDARD_RS: &str = "https://github.com/smithy-lang/smithy-rs/blob/main/rust-runtime/aws-smithy-runtime/src/client/retries/strategy/standard.rs";
const RETRY_GO: &str = "https://github.com/aws/aws-sdk-go-v2/tree/main/aws/retry";
const RETRY_JS: &str =
    "https://github.com/smithy-lang/smithy-typescript/tree/main/packages/core/src/submodules/retry";
const LEGACY_JAVA: &str = "https://github.com/aws/aws-sdk-java-v2/blob/master/core/sdk-core/src/main/java/software/amazon/awssdk/core/internal/retry/SdkDefaultRetrySetting.java";

const VERSION_2026: &str = "retry behaviour 2.1 (2026): botocore 1.44.8, aws-smithy-runtime 1.16.2, @smithy/core 3.41.1, aws-sdk-go-v2 1.48.0";
const SOURCES_2026: &[&str] = &[ANNOUNCED, GUIDE, STANDARD_PY, STANDARD_RS, RETRY_GO, RETRY_JS];
const SOURCES_ADAPTIVE: &[&str] = &[ANNOUNCED, GUIDE, STANDARD_PY, ADAPTIVE_PY, STANDARD_RS, RETRY_GO];

const DIFFERS_2026: &[&str] = &[
    "Waits are drawn to the nanosecond; JavaScript and Java draw whole milliseconds.",
    "`x-amz-retry-after` alone is a hint; JavaScript obeys `Retry-After` in the same way.",
    "The cost of a retry is held by its call; Rust's strategy (1.16) holds it for all calls of a client, so that one may be given back another's.",
    "A response of 429 with an unknown code is throttling, as in Python; Rust (1.16) does not repeat it, JavaScript always does.",
    "What passes and what is throttling is for the classifier to say: `relent_http::aws::Errors`.",
];
const DIFFERS_DYNAMODB: &[&str] = &[
    "`max_attempts` in the policy is obeyed; Rust (aws-sdk-dynamodb 1.136) puts 4 in its place unless it was set in code.",
    "The check sum of a body (`x-amz-crc32`), a mismatch of which Python repeats, is not looked at.",
];
const DIFFERS_POLLING: &[&str] = &[
    "Which operations poll is for the caller to say: `relent_http::aws::polls`.",
    "The wait is that of the retry that was refused, as in Python, Rust and JavaScript; Go's always begins at 50 ms.",
];
const DIFFERS_ADAPTIVE: &[&str] = &[
    "An attempt takes its token after the backoff; Rust before 2026 took 1, 5 or 10, and waited for them instead of the backoff.",
    "Rates are kept as they are; JavaScript rounds them to eight decimals.",
];
const DIFFERS_LEGACY: &[&str] = &[
    "Python's legacy mode has lists of statuses and codes for each service; here the classes decide.",
    "It has no quota, no cap and no hint; the first wait is drawn from 0 to 1 s.",
];
const DIFFERS_LEGACY_DYNAMODB: &[&str] =
    &["Ten clients that fail together try again together, as there: without jitter a herd stays a herd."];
const DIFFERS_JAVA: &[&str] =
    &["Java draws whole milliseconds.", "What passes is for the classifier to say."];

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "aws-standard",
        description: "AWS SDKs, standard mode since 2026: three attempts, 50 ms, a quota of 500",
        system: "AWS SDKs, standard mode",
        version: VERSION_2026,
        sources: SOURCES_2026,
        checked: CHECKED,
        differs: DIFFERS_2026,
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 3
backoff = { kind = "exponential", initial = "50ms", multiplier = 2, cap = "20s" }
jitter = "full"
hint = { mode = { clamp = "5s" }, max = "none" }
retry_on = ["transient", "throttled", "timeout", "not_sent"]
on.throttled = { backoff = { initial = "1s" }, count = "all" }
budget = { kind = "quota", capacity = 500, cost = { transient = 14, throttled = 5 }, first_success = 1 }
"#,
        ),
    },
    Preset {
        name: "aws-standard-dynamodb",
        description: "The same for DynamoDB and its streams: four attempts, from 25 ms",
        system: "AWS SDKs, standard mode",
        version: VERSION_2026,
        sources: SOURCES_2026,
        checked: CHECKED,
        differs: DIFFERS_DYNAMODB,
        over: Some("aws-standard"),
        keys: Keys::Text(
            r#"
max_attempts = 4
backoff.initial = "25ms"
"#,
        ),
    },
    Preset {
        name: "aws-standard-long-polling",
        description: "The same for operations that poll: an empty quota makes them wait, not hammer",
        system: "AWS SDKs, standard mode",
        version: VERSION_2026,
        sources: SOURCES_2026,
        checked: CHECKED,
        differs: DIFFERS_POLLING,
        over: Some("aws-standard"),
        keys: Keys::Text(
            r#"
on_budget = "wait"
"#,
        ),
    },
    Preset {
        name: "aws-standard-classic",
        description: "AWS SDKs, standard mode before 2026: three attempts, from 1 s",
        system: "AWS SDKs, standard mode",
        version: "retry behaviour 2.0: botocore 1.43.127, aws-smithy-runtime 1.16.2 without the 2026 behaviour",
        sources: &[GUIDE, STANDARD_PY_BEFORE, STANDARD_RS],
        checked: CHECKED,
        differs: &[
            "JavaScript waited from 100 ms and its retries cost 10, or 5 after throttling; Java waited from 100 ms.",
            "In Go the exponent began at 1: the first wait was up to 2 s, and beyond the cap it was exactly the cap.",
            "A hint is obeyed up to 20 s, as in Rust; Python knew none.",
        ],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 3
backoff = { kind = "exponential", initial = "1s", multiplier = 2, cap = "20s" }
jitter = "full"
hint = { mode = "exact", max = "20s", over_max = "clamp", spread = 0 }
retry_on = ["transient", "throttled", "timeout", "not_sent"]
budget = { kind = "quota", capacity = 500, cost = { transient = 5, timeout = 10 }, first_success = 1 }
"#,
        ),
    },
    Preset {
        name: "aws-standard-classic-java",
        description: "AWS SDK for Java, standard mode unless it is asked for that of 2026",
        system: "AWS SDK for Java 2, standard mode",
        version: "2.44.0 without AWS_NEW_RETRIES_2026",
        sources: &[LEGACY_JAVA],
        checked: CHECKED,
        differs: DIFFERS_JAVA,
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 3
backoff = { kind = "exponential", initial = "100ms", multiplier = 2, cap = "20s" }
jitter = "full"
hint = { mode = "minimum", max = "none", spread = 0 }
retry_on = ["transient", "throttled", "timeout", "not_sent"]
on.throttled = { backoff = { initial = "1s" }, count = "all" }
budget = { kind = "quota", capacity = 500, cost = 5, first_success = 1 }
"#,
        ),
    },
    Preset {
        name: "aws-adaptive",
        description: "AWS SDKs, adaptive mode: standard, and a rate that finds out what is taken",
        system: "AWS SDKs, adaptive mode",
        version: VERSION_2026,
        sources: SOURCES_ADAPTIVE,
        checked: CHECKED,
        differs: DIFFERS_ADAPTIVE,
        over: Some("aws-standard"),
        keys: Keys::Text(
            r#"
adaptive_rate = true
"#,
        ),
    },
    Preset {
        name: "aws-adaptive-dynamodb",
        description: "The same for DynamoDB and its streams: four attempts, from 25 ms",
        system: "AWS SDKs, adaptive mode",
        version: VERSION_2026,
        sources: SOURCES_ADAPTIVE,
        checked: CHECKED,
        differs: DIFFERS_DYNAMODB,
        over: Some("aws-standard-dynamodb"),
        keys: Keys::Text(
            r#"
adaptive_rate = true
"#,
        ),
    },
    Preset {
        name: "aws-adaptive-long-polling",
        description: "The same for operations that poll: an empty quota makes them wait, not hammer",
        system: "AWS SDKs, adaptive mode",
        version: VERSION_2026,
        sources: SOURCES_ADAPTIVE,
        checked: CHECKED,
        differs: DIFFERS_POLLING,
        over: Some("aws-standard-long-polling"),
        keys: Keys::Text(
            r#"
adaptive_rate = true
"#,
        ),
    },
    Preset {
        name: "aws-legacy",
        description: "AWS SDKs, legacy mode as in Python: five attempts, no quota, no cap",
        system: "AWS SDK for Python, legacy mode",
        version: "botocore 1.44.8",
        sources: &[LEGACY_PY, GUIDE],
        checked: CHECKED,
        differs: DIFFERS_LEGACY,
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 5
backoff = { kind = "exponential", initial = "1s", multiplier = 2, cap = "none" }
jitter = "full"
hint = { mode = "ignore" }
retry_on = ["transient", "throttled", "timeout", "not_sent"]
"#,
        ),
    },
    Preset {
        name: "aws-legacy-dynamodb",
        description: "The same for DynamoDB: ten attempts, from 50 ms, without jitter",
        system: "AWS SDK for Python, legacy mode",
        version: "botocore 1.44.8",
        sources: &[LEGACY_PY],
        checked: CHECKED,
        differs: DIFFERS_LEGACY_DYNAMODB,
        over: Some("aws-legacy"),
        keys: Keys::Text(
            r#"
max_attempts = 10
backoff.initial = "50ms"
jitter = "none"
"#,
        ),
    },
    Preset {
        name: "aws-legacy-java",
        description: "AWS SDK for Java, legacy mode: four attempts, throttling costs no quota",
        system: "AWS SDK for Java 2, legacy mode",
        version: "2.44.0",
        sources: &[LEGACY_JAVA],
        checked: CHECKED,
        differs: DIFFERS_JAVA,
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 4
backoff = { kind = "exponential", initial = "100ms", multiplier = 2, cap = "20s" }
jitter = "full"
hint = { mode = "minimum", max = "none", spread = 0 }
retry_on = ["transient", "throttled", "timeout", "not_sent"]
on.throttled = { backoff = { initial = "500ms" }, jitter = "equal", count = "all" }
budget = { kind = "quota", capacity = 500, cost = { transient = 5, throttled = 0 }, first_success = 1 }
"#,
        ),
    },
    Preset {
        name: "aws-legacy-java-dynamodb",
        description: "The same for DynamoDB: nine attempts, from 25 ms",
        system: "AWS SDK for Java 2, legacy mode",
        version: "2.44.0",
        sources: &[LEGACY_JAVA],
        checked: CHECKED,
        differs: DIFFERS_JAVA,
        over: Some("aws-legacy-java"),
        keys: Keys::Text(
            r#"
max_attempts = 9
backoff.initial = "25ms"
"#,
        ),
    },
    Preset {
        name: "aws-env",
        description: "AWS SDKs, as the environment and the shared config file say",
        system: "AWS SDKs",
        version: "aws-config 1.13.2 (Rust); botocore 1.44.8, @smithy/core 3.41.1, aws-sdk-go-v2 1.48.0, Java 2.44.0",
        sources: &[
            GUIDE,
            "https://docs.aws.amazon.com/sdkref/latest/guide/file-format.html",
            "https://github.com/smithy-lang/smithy-rs/blob/main/aws/rust-runtime/aws-runtime/src/env_config/parse.rs",
            "https://github.com/boto/botocore/blob/1.44.8/botocore/args.py",
            "https://github.com/aws/aws-sdk-go-v2/blob/main/config/env_config.go",
            "https://github.com/aws/aws-sdk-java-v2/blob/master/core/sdk-core/src/main/java/software/amazon/awssdk/core/retry/RetryMode.java",
            LEGACY_JAVA,
        ],
        checked: CHECKED,
        differs: &[
            "The file is read as Rust reads it, in every dialect; the credentials file is not read at all.",
            "A profile that the file does not have is no error, since it may be in the credentials file; Python and Go refuse one that is in neither.",
            "A variable or a key that says how many attempts are made holds for DynamoDB, too; Rust (aws-sdk-dynamodb 1.136) makes 4 whatever they say.",
        ],
        over: None,
        keys: Keys::Made {
            parameters: env::PARAMETERS,
            example: r#"preset = { name = "aws-env", dialect = "python" }"#,
            make: env::make,
        },
    },
];
