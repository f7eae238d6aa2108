//! Values as a policy file has them, and names as messages have them.

use std::time::Duration;

use relent_core::{Classes, Jitter, Multiplier, Rate, Ratio, Stage};

use crate::duration::{MAX_DURATION, format_duration};

pub(crate) fn jitter_text(jitter: Jitter) -> String {
    match jitter {
        Jitter::Proportional { factor } => {
            format!("{{ kind = \"proportional\", factor = {} }}", float_text(factor))
        }
        Jitter::Additive { max } => format!("{{ kind = \"additive\", max = {} }}", quoted(max)),
        other => toml_string(other.as_str()),
    }
}

pub(crate) fn stage_text(stage: &Stage) -> String {
    let until = stage.until.map_or(String::new(), |until| format!("until = {}, ", quoted(until)));
    let multiplier = match stage.multiplier {
        Multiplier::ONE => String::new(),
        multiplier => format!(", multiplier = {}", float_text(multiplier.as_f64())),
    };
    format!("{{ {until}initial = {}{multiplier} }}", quoted(stage.initial))
}

pub(crate) fn classes_text(classes: Classes) -> String {
    let words: Vec<String> = classes.iter().map(|class| format!("\"{class}\"")).collect();
    format!("[{}]", words.join(", "))
}

pub(crate) fn quoted(duration: Duration) -> String {
    format!("\"{}\"", format_duration(duration.min(MAX_DURATION)))
}

pub(crate) fn text_of(duration: Option<Duration>) -> String {
    duration.map_or_else(|| "\"none\"".to_owned(), quoted)
}

/// `10/s`, `5/100ms`.
pub(crate) fn rate_text(rate: Rate) -> String {
    let per = format_duration(rate.per());
    let unit = per.strip_prefix('1').filter(|unit| unit.bytes().all(|byte| byte.is_ascii_alphabetic()));
    format!("{}/{}", rate.count(), unit.unwrap_or(&per))
}

pub(crate) fn ratio_text(ratio: Ratio) -> String {
    float_text(ratio.as_f64())
}

/// The shortest TOML number that reads back as this one.
pub(crate) fn float_text(number: f64) -> String {
    let text = format!("{number:?}");
    text.strip_suffix(".0").map(str::to_owned).unwrap_or(text)
}

/// A TOML string that reads back as `text`.
pub(crate) fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            letter if letter.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(letter))),
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

pub(crate) fn one_of<S: AsRef<str>>(words: impl IntoIterator<Item = S>) -> String {
    let words: Vec<S> = words.into_iter().collect();
    match words.as_slice() {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [most @ .., last] => {
            let most: Vec<&str> = most.iter().map(AsRef::as_ref).collect();
            format!("{} or {}", most.join(", "), last.as_ref())
        }
    }
}

/// A name from the file, safe to show.
pub(crate) fn shorten(name: &str) -> String {
    let shown: String = name.chars().take(60).flat_map(char::escape_debug).collect();
    if name.chars().count() > 60 { shown + "…" } else { shown }
}
