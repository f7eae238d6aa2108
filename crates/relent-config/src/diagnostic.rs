//! What is wrong with a text, where, and what would be right.

use std::fmt;
use std::ops::Range;

use crate::source::{Location, Place, SourceKind, Sources, disturbs};

/// How many diagnostics are kept; the rest is counted.
const KEPT: usize = 100;

/// The kind of a [`Diagnostic`], with a stable word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Code {
    /// The text is no TOML.
    Syntax,
    /// A key is given twice.
    DuplicateKey,
    /// Too large, or nested too deep.
    Limit,
    /// `version` is missing or another one.
    Version,
    /// No such key.
    UnknownKey,
    /// Another system's name for something that relent has too.
    ForeignKey,
    /// A key of another table.
    MisplacedKey,
    /// A value of the wrong type.
    WrongType,
    /// No duration.
    BadDuration,
    /// A word that is not one of those known.
    UnknownWord,
    /// A value that cannot work.
    BadValue,
    /// Something that must be given is not.
    Missing,
    /// Something that can have no effect.
    NoEffect,
    /// Two values that contradict each other.
    Conflict,
    /// No such policy.
    UnknownPolicy,
    /// No such preset.
    UnknownPreset,
    /// No such budget or breaker.
    UnknownName,
    /// Policies that are each other's base.
    BaseCycle,
}

impl Code {
    /// The stable word: `"unknown-key"`, `"bad-duration"` …
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Syntax => "syntax",
            Self::DuplicateKey => "duplicate-key",
            Self::Limit => "limit",
            Self::Version => "version",
            Self::UnknownKey => "unknown-key",
            Self::ForeignKey => "foreign-key",
            Self::MisplacedKey => "misplaced-key",
            Self::WrongType => "wrong-type",
            Self::BadDuration => "bad-duration",
            Self::UnknownWord => "unknown-word",
            Self::BadValue => "bad-value",
            Self::Missing => "missing",
            Self::NoEffect => "no-effect",
            Self::Conflict => "conflict",
            Self::UnknownPolicy => "unknown-policy",
            Self::UnknownPreset => "unknown-preset",
            Self::UnknownName => "unknown-name",
            Self::BaseCycle => "base-cycle",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// How bad it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It cannot be read as it stands.
    #[default]
    Error,
    /// It can, but does hardly what was meant.
    Warning,
}

impl Severity {
    /// The stable word: `"error"`, `"warning"`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A problem before its place has been looked up in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) severity: Severity,
    pub(crate) place: Option<Place>,
    pub(crate) code: Code,
    pub(crate) message: String,
    pub(crate) label: String,
    pub(crate) help: Vec<String>,
}

impl Problem {
    pub(crate) fn new(code: Code, place: &Place, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            place: Some(place.clone()),
            code,
            message: message.into(),
            label: String::new(),
            help: Vec::new(),
        }
    }

    /// A problem of no place in any text.
    pub(crate) fn anywhere(code: Code, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Error,
            place: None,
            code,
            message: message.into(),
            label: String::new(),
            help: Vec::new(),
        }
    }

    /// The same, as something that is only told.
    pub(crate) fn warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// What stands beside the underline: what was expected.
    pub(crate) fn label(mut self, label: impl Into<String>) -> Self {
        self.label = label.into();
        self
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help.push(help.into());
        self
    }

    pub(crate) fn maybe_help(self, help: Option<String>) -> Self {
        match help {
            Some(help) => self.help(help),
            None => self,
        }
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    severity: Severity,
    code: Code,
    message: String,
    label: String,
    help: Vec<String>,
    location: Option<Location>,
}

impl Diagnostic {
    /// How bad it is.
    pub fn severity(&self) -> Severity {
        self.severity
    }

    /// What kind of thing is wrong.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What is wrong, in one sentence.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// What was expected at the place; may be empty.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What would be right.
    pub fn help(&self) -> &[String] {
        &self.help
    }

    /// The name of the file, as the caller gave it; or the command-line option.
    pub fn source(&self) -> Option<&str> {
        self.location.as_ref().map(|location| location.name.as_str())
    }

    /// The line, from 1; none for what is in no file.
    pub fn line(&self) -> Option<usize> {
        self.in_file().map(|location| location.line)
    }

    /// The column in characters, from 1; none for what is in no file.
    pub fn column(&self) -> Option<usize> {
        self.in_file().map(|location| location.column)
    }

    /// The bytes of the file's text (without a byte order mark); none for what is in no file.
    pub fn span(&self) -> Option<Range<usize>> {
        self.in_file().map(|location| location.span.clone())
    }

    /// The line as it is shown, and the terminal columns (from 0) that are underlined in it.
    pub fn excerpt(&self) -> Option<(&str, Range<usize>)> {
        let location = self.location.as_ref()?;
        Some((&location.shown, location.indent..location.indent + location.width))
    }

    fn in_file(&self) -> Option<&Location> {
        self.location.as_ref().filter(|location| location.kind == SourceKind::File)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}[{}]: {}", self.severity, self.code, self.message)?;
        let gutter = match &self.location {
            None => 0,
            Some(location) => {
                let number = self.in_file().map_or(String::new(), |location| location.line.to_string());
                let gutter = number.len();
                if let Some(Location { name, line, column, .. }) = self.in_file() {
                    writeln!(f, "{:gutter$}--> {name}:{line}:{column}", "")?;
                }
                let bar = format!("{:gutter$} |", "");
                writeln!(f, "{bar}")?;
                writeln!(f, "{}", format!("{number} | {}", location.shown).trim_end())?;
                let marks = "^".repeat(location.width);
                let marked = format!("{bar} {:indent$}{marks} {}", "", self.label, indent = location.indent);
                writeln!(f, "{}", marked.trim_end())?;
                gutter
            }
        };
        for help in &self.help {
            writeln!(f, "{:gutter$} = help: {help}", "")?;
        }
        Ok(())
    }
}

/// A text with parts of the file in it, safe for a terminal.
fn harmless(text: String) -> String {
    if !text.contains(disturbs) {
        return text;
    }
    let escape = |letter: char| {
        if disturbs(letter) { letter.escape_unicode().collect() } else { String::from(letter) }
    };
    text.chars().map(escape).collect()
}

/// All that is wrong, in order of place. Never empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    diagnostics: Vec<Diagnostic>,
    more: usize,
}

impl Errors {
    /// Looks the problems up in their texts, sorted by place; what several policies inherit is told once.
    pub(crate) fn locate(mut problems: Vec<Problem>, sources: &Sources) -> Self {
        let order = |problem: &Problem| (problem.place.clone(), problem.code, problem.message.clone());
        problems.sort_by_cached_key(order);
        problems.dedup_by(|one, other| one.place.is_some() && order(one) == order(other));
        let more = problems.len().saturating_sub(KEPT);
        problems.truncate(KEPT);
        let located = |problem: Problem| {
            let location = problem.place.and_then(|place| sources.locate(&place));
            let help = problem.help.into_iter().map(harmless).collect();
            let (message, label) = (harmless(problem.message), harmless(problem.label));
            Diagnostic { severity: problem.severity, code: problem.code, message, label, help, location }
        };
        Self { diagnostics: problems.into_iter().map(located).collect(), more }
    }

    /// Each of them, in order of place. At most 100 are kept.
    pub fn iter(&self) -> std::slice::Iter<'_, Diagnostic> {
        self.diagnostics.iter()
    }

    /// How many there were beyond those that are kept.
    pub fn more(&self) -> usize {
        self.more
    }
}

impl<'a> IntoIterator for &'a Errors {
    type Item = &'a Diagnostic;
    type IntoIter = std::slice::Iter<'a, Diagnostic>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Errors {
    /// Plain text, ready for a terminal; the parts are there for whoever wants colours.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, diagnostic) in self.diagnostics.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{diagnostic}")?;
        }
        if self.more > 0 {
            writeln!(f, "\n… and {} more", self.more)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}
