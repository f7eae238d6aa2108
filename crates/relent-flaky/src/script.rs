//! What happens to one request after another.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::LazyLock;

use unicode_width::UnicodeWidthStr;

use crate::parse;
use crate::step::Step;

/// What happens to the first request, the second, and so on.
///
/// ```
/// use relent_flaky::{Script, Step};
///
/// let read: Script = "503*2, 429(retry-after=1), reset, slow(2s), 200".parse()?;
/// let built = Script::new(Step::status(503)).repeat(2)
///     .then(Step::status(429).header("retry-after", "1"))
///     .then(Step::reset())
///     .then(Step::status(200).delay(std::time::Duration::from_secs(2)))
///     .then(Step::status(200));
/// assert_eq!(read, built);
/// assert_eq!(built.step(1), &Step::status(503));
/// // The last one repeats.
/// assert_eq!(built.step(1_000), &Step::status(200));
///
/// let error = "503*2,rset,200".parse::<Script>().unwrap_err();
/// assert_eq!(error.to_string(), "column 7: unknown step \"rset\": did you mean \"reset\"?
///   503*2,rset,200
///         ^^^^");
/// # Ok::<(), relent_flaky::ScriptError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    first: Run,
    rest: Vec<Run>,
    pub(crate) after: After,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    step: Step,
    count: u64,
}

/// What happens after the end of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum After {
    /// The last step repeats.
    #[default]
    Last,
    /// The script begins anew.
    Loop,
    /// All is well: 200.
    Healthy,
}

impl FromStr for After {
    type Err = ScriptError;

    /// `last`, `loop` or `healthy`.
    fn from_str(text: &str) -> Result<Self, ScriptError> {
        match text {
            "last" => Ok(Self::Last),
            "loop" => Ok(Self::Loop),
            "healthy" => Ok(Self::Healthy),
            _ => Err(ScriptError {
                message: "expected last, loop or healthy".to_owned(),
                span: 0..text.len(),
                text: text.to_owned(),
            }),
        }
    }
}

static HEALTHY: LazyLock<Step> = LazyLock::new(|| Step::status(200));

impl Script {
    /// A script of one step.
    pub fn new(step: Step) -> Self {
        Self { first: Run { step, count: 1 }, rest: Vec::new(), after: After::Last }
    }

    /// Reads the script language. `after` is what follows the end of a script that does not say it.
    ///
    /// # Errors
    ///
    /// A [`ScriptError`] that names the place and what is known.
    pub fn parse_with(text: &str, after: After) -> Result<Self, ScriptError> {
        parse::script(text, after)
    }

    /// Adds a step.
    #[must_use]
    pub fn then(mut self, step: Step) -> Self {
        self.rest.push(Run { step, count: 1 });
        self
    }

    /// How often the step that was added last happens. 0 is taken for 1.
    #[must_use]
    pub fn repeat(mut self, count: u64) -> Self {
        self.rest.last_mut().unwrap_or(&mut self.first).count = count.max(1);
        self
    }

    /// What happens after the end. Default: the last step repeats.
    #[must_use]
    pub fn after(mut self, after: After) -> Self {
        self.after = after;
        self
    }

    /// What happens to request number `n`, from 1.
    pub fn step(&self, n: u64) -> &Step {
        let mut left = n.max(1) - 1;
        let length = self.len();
        if left >= length {
            match self.after {
                After::Loop => left %= length,
                After::Last => return &self.rest.last().unwrap_or(&self.first).step,
                After::Healthy => return &HEALTHY,
            }
        }
        for run in self.runs() {
            match left.checked_sub(run.count) {
                Some(after) => left = after,
                None => return &run.step,
            }
        }
        &self.rest.last().unwrap_or(&self.first).step
    }

    /// How many requests it speaks of.
    pub(crate) fn len(&self) -> u64 {
        self.runs().fold(0, |sum, run| run.count.saturating_add(sum))
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(&self.first).chain(&self.rest)
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    /// Reads the script language; the table is in the crate's documentation. After the end the last step repeats.
    fn from_str(text: &str) -> Result<Self, ScriptError> {
        parse::script(text, After::Last)
    }
}

impl FromStr for Step {
    type Err = ScriptError;

    /// Reads a single step of the script language.
    fn from_str(text: &str) -> Result<Self, ScriptError> {
        parse::step(text)
    }
}

/// What is wrong with a script, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptError {
    pub(crate) message: String,
    pub(crate) span: Range<usize>,
    pub(crate) text: String,
}

impl ScriptError {
    /// What is wrong, without the place.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The bytes of the script that are.
    pub fn span(&self) -> Range<usize> {
        self.span.clone()
    }

    /// The line of the script, from 1, and in it the column, from 1, in characters.
    pub fn place(&self) -> (usize, usize) {
        let before = self.text.get(..self.span.start).unwrap_or(&self.text);
        let line = before.rsplit('\n').next().unwrap_or_default();
        (before.matches('\n').count() + 1, line.chars().count() + 1)
    }
}

impl fmt::Display for ScriptError {
    /// The message, the line and a caret below the place.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// How much of a long line is shown on each side.
        const SHOWN: usize = 40;
        let (line, column) = self.place();
        if self.text.contains('\n') {
            write!(f, "line {line}, ")?;
        }
        writeln!(f, "column {column}: {}", self.message)?;
        let before = self.text.get(..self.span.start).unwrap_or(&self.text);
        let before = before.rsplit('\n').next().unwrap_or_default();
        let marked =
            self.text.get(self.span.clone()).unwrap_or_default().split('\n').next().unwrap_or_default();
        let behind = self.text.get(self.span.start + marked.len()..).unwrap_or_default();
        let behind = behind.split('\n').next().unwrap_or_default();
        let left_out = before.chars().count().saturating_sub(SHOWN);
        let before: String = before.chars().skip(left_out).map(visible).collect();
        let marked: String = marked.chars().take(SHOWN).map(visible).collect();
        let behind: String = behind.chars().take(SHOWN).map(visible).collect();
        let dots = if left_out > 0 { "…" } else { "" };
        writeln!(f, "  {dots}{before}{marked}{behind}")?;
        let indent = dots.width() + before.width();
        write!(f, "  {:indent$}{}", "", "^".repeat(marked.width().max(1)))
    }
}

impl std::error::Error for ScriptError {}

/// What could move the caret or the cursor is shown as something else.
fn visible(letter: char) -> char {
    if letter.is_control() { ' ' } else { letter }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn statuses(script: &str, after: After, count: u64) -> Vec<String> {
        let script = parse::script(script, after).unwrap();
        (1..=count).map(|n| script.step(n).label()).collect()
    }

    #[test]
    fn the_last_step_repeats_unless_something_else_is_said() {
        assert_eq!(statuses("503*2,200", After::Last, 4), ["503", "503", "200", "200"]);
        assert_eq!(statuses("503*2", After::Last, 3), ["503", "503", "503"]);
        assert_eq!(statuses("503*2", After::Healthy, 4), ["503", "503", "200", "200"]);
        assert_eq!(statuses("503*2,200", After::Loop, 5), ["503", "503", "200", "503", "503"]);
        assert_eq!(statuses("503*2,200,loop", After::Healthy, 4), ["503", "503", "200", "503"]);
        assert_eq!(statuses("503,reset*", After::Healthy, 3), ["503", "reset", "reset"]);
    }

    #[test]
    fn counts_of_any_size_neither_wrap_nor_take_long() {
        let huge = Script::new(Step::status(503)).repeat(u64::MAX).then(Step::reset()).repeat(u64::MAX);
        for after in [After::Last, After::Loop, After::Healthy] {
            let script = huge.clone().after(after);
            assert_eq!(script.step(u64::MAX - 1).label(), "503");
        }
        assert_eq!(Script::new(Step::reset()).step(0).label(), "reset");
    }

    #[test]
    fn errors_of_long_scripts_show_the_place_alone() {
        let text = format!("{}oops,{}", "200,".repeat(500), "200,".repeat(500));
        let told = text.parse::<Script>().unwrap_err().to_string();
        assert!(told.starts_with("column 2001: unknown step \"oops\""), "{told}");
        let lines: Vec<&str> = told.lines().collect();
        assert!(lines[1].chars().count() < 100);
        assert_eq!(lines[1].chars().nth(lines[2].find('^').unwrap()), Some('o'), "{told}");
    }
}
