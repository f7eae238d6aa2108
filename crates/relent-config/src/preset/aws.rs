//! The AWS SDKs.

use super::{Keys, Preset};

const CHECKED: &str = "2026-12-01";

pub(super) const PRESETS: &[Preset] = &[
    Preset {
        name: "aws-legacy",
        description: "AWS SDKs, legacy mode as in Python: five attempts, no quota, no cap",
        system: "AWS SDK for Python, legacy mode",
        version: "botocore 1.44.8",
        sources: &[
            "https://github.com/boto/botocore/blob/1.44.8/botocore/data/_retry.json",
            "https://github.com/boto/botocore/blob/1.44.8/botocore/retryhandler.py",
            "https://docs.aws.amazon.com/sdkref/latest/guide/feature-retry-behavior.html",
        ],
        checked: CHECKED,
        differs: &[],
        over: None,
        keys: Keys::Text(
            r#"
max_attempts = 5
backoff = { kind = "exponential", initial = "1s", multiplier = 2, cap = "none" }
jitter = "full"
hint = { mode = "ignore" }
"#,
        ),
    },
    Preset {
        name: "aws-legacy-dynamodb",
        description: "The same for DynamoDB: ten attempts, from 50 ms, without jitter",
        system: "AWS SDK for Python, legacy mode",
        version: "botocore 1.44.8",
        sources: &["https://github.com/boto/botocore/blob/1.44.8/botocore/data/_retry.json"],
        checked: CHECKED,
        differs: &[],
        over: Some("aws-legacy"),
        keys: Keys::Text(
            r#"
max_attempts = 10
backoff.initial = "50ms"
jitter = "none"
"#,
        ),
    },
];
