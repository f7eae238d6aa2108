//! What a command is told in its environment, and what an outer `relent run` told us.

use std::env;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use relent::{Attempt, Clock};

use crate::exit::Error;

/// The `relent run` around us.
#[derive(Debug)]
pub(super) struct Layer {
    attempt: Option<String>,
    max_attempts: Option<String>,
    /// When it must have ended, in milliseconds since 1970.
    deadline: Option<u64>,
}

/// How `RELENT_MAX_ATTEMPTS` says that there is no end.
const UNLIMITED: &str = "unlimited";

/// What is around us, if something is.
///
/// # Errors
///
/// A `RELENT_DEADLINE` that is no time.
pub(super) fn outer() -> Result<Option<Layer>, Error> {
    // What is no number is not ours, and is not worth more than to be passed over: it only serves a remark.
    let number = |name| env::var(name).ok().filter(|text: &String| text.parse::<u32>().is_ok());
    let attempt = number("RELENT_ATTEMPT");
    let max_attempts = number("RELENT_MAX_ATTEMPTS")
        .or_else(|| env::var("RELENT_MAX_ATTEMPTS").ok().filter(|text| text == UNLIMITED));
    // An empty one is how a shell says that there is none.
    let deadline = env::var_os("RELENT_DEADLINE").filter(|text| !text.is_empty());
    let deadline = deadline.map(|text| {
        text.to_str().and_then(|text| text.parse().ok()).ok_or_else(|| {
            let text = text.display();
            Error::usage(format!("RELENT_DEADLINE={text}: not a time in milliseconds since 1970"))
        })
    });
    let deadline = deadline.transpose()?;
    let any = attempt.is_some() || deadline.is_some();
    Ok(any.then_some(Layer { attempt, max_attempts, deadline }))
}

impl Layer {
    /// What is left until its deadline at a time since 1970; nothing past it, none without one.
    pub(super) fn left(&self, now: Duration) -> Option<Duration> {
        Some(Duration::from_millis(self.deadline?).saturating_sub(now))
    }

    /// What has to be said about layers, if our own policy makes up to `ours` attempts and the outer one more than one.
    pub(super) fn warning(&self, ours: Option<u32>) -> Option<String> {
        let attempt = self.attempt.as_ref()?;
        let theirs = self.max_attempts.as_deref().filter(|theirs| *theirs != "1")?;
        let product =
            theirs.parse::<u64>().ok().zip(ours).map(|(theirs, ours)| theirs.saturating_mul(ours.into()));
        let (of, total) = match product {
            Some(product) => (format!("{attempt} of {theirs}"), format!("up to {product} in all")),
            None => (attempt.clone(), "without limit".to_owned()),
        };
        Some(format!("this is attempt {of} of another relent run; the attempts of both multiply: {total}"))
    }
}

/// The variables of an attempt; none: not set.
pub(super) fn of_attempt<T: Clock>(
    attempt: &Attempt<T>,
    ends: Option<u64>,
    last_code: Option<u8>,
) -> [(&'static str, Option<String>); 6] {
    let max = attempt.max().map_or_else(|| UNLIMITED.to_owned(), |max| max.to_string());
    [
        ("RELENT_ATTEMPT", Some(attempt.number().to_string())),
        ("RELENT_MAX_ATTEMPTS", Some(max)),
        ("RELENT_LAST_CODE", last_code.map(|code| code.to_string())),
        ("RELENT_LAST_CLASS", attempt.last_class().map(|class| class.to_string())),
        ("RELENT_DEADLINE", ends.map(|ends| ends.to_string())),
        ("RELENT_IDEMPOTENCY_KEY", Some(attempt.idempotency_key().to_string())),
    ]
}

pub(super) fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
