//! Errors that cross a process or network boundary with their class.

use std::error::Error as StdError;
use std::fmt;
use std::str::FromStr;

use relent_core::Class;

use super::outcome_of;

/// An error's class and texts, without its types: what can be sent to another process and still be classified there.
///
/// Its [`Display`](fmt::Display) form is the message; [`Portable::to_text`] is a text that [`FromStr`] reads back:
///
/// ```
/// use relent::{Class, Marked, Portable};
///
/// let error = Marked::transient("the pool is empty");
/// let text = Portable::of(&error).to_text();
/// assert_eq!(text, "relent/1 transient\nthe pool is empty");
///
/// let arrived: Portable = text.parse()?;
/// assert_eq!(relent::outcome_of(&arrived).class, Class::Transient);
/// # Ok::<(), relent::UnreadablePortable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Portable {
    #[cfg_attr(feature = "serde", serde(with = "class_code"))]
    class: Class,
    message: String,
    causes: Vec<String>,
}

impl Portable {
    /// The class and texts of `error` and its causes.
    pub fn of(error: &(dyn StdError + 'static)) -> Self {
        // A chain that leads in a circle must end here, too.
        let causes = std::iter::successors(error.source(), |cause| (*cause).source()).take(128);
        Self {
            class: outcome_of(error).class,
            message: error.to_string(),
            // A mark prints as what it marks: once is enough.
            causes: dedup(causes.map(ToString::to_string), &error.to_string()),
        }
    }

    /// The class.
    pub fn class(&self) -> Class {
        self.class
    }

    /// The texts of the causes, outermost first.
    pub fn causes(&self) -> &[String] {
        &self.causes
    }

    /// One line for the class, one for the message and one for each cause; line breaks within become `\n`.
    pub fn to_text(&self) -> String {
        let mut text = format!("{HEAD}{}", self.class);
        for part in std::iter::once(&self.message).chain(&self.causes) {
            text.push('\n');
            text.push_str(&part.replace('\\', "\\\\").replace('\n', "\\n"));
        }
        text
    }
}

const HEAD: &str = "relent/1 ";

impl FromStr for Portable {
    type Err = UnreadablePortable;

    fn from_str(text: &str) -> Result<Self, UnreadablePortable> {
        let mut lines = text.split('\n');
        let class = lines.next().and_then(|line| line.strip_prefix(HEAD)).ok_or(UnreadablePortable)?;
        let class = class.parse().map_err(|_| UnreadablePortable)?;
        let mut lines = lines.map(unescape);
        let message = lines.next().ok_or(UnreadablePortable)?;
        Ok(Self { class, message, causes: lines.collect() })
    }
}

fn unescape(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (char, char == '\\') {
            (_, true) => match chars.next() {
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => text.push('\\'),
            },
            (char, false) => text.push(char),
        }
    }
    text
}

fn dedup(texts: impl Iterator<Item = String>, first: &str) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for text in texts {
        if kept.last().map_or(first, String::as_str) != text {
            kept.push(text);
        }
    }
    kept
}

impl fmt::Display for Portable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.causes.iter().try_for_each(|cause| write!(f, ": {cause}"))
    }
}

impl StdError for Portable {}

/// A text that is not what [`Portable::to_text`] makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnreadablePortable;

impl fmt::Display for UnreadablePortable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a portable error: its first line must be \"{HEAD}CLASS\", its second the message")
    }
}

impl StdError for UnreadablePortable {}

#[cfg(feature = "serde")]
mod class_code {
    use relent_core::Class;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(class: &Class, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(class.as_str())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Class, D::Error> {
        let code = String::deserialize(deserializer)?;
        code.parse().map_err(D::Error::custom)
    }
}
