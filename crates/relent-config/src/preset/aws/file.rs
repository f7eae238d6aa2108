//! The AWS SDKs' shared config file, as far as retries need it.
//!
//! The syntax is that of aws-runtime's `env_config/parse.rs` and of the AWS SDKs and Tools reference guide, "Shared
//! config and credentials files".

use std::collections::BTreeMap;

use crate::diagnostic::{Code, Problem};
use crate::source::{Place, Source};
use crate::text::shorten;

/// The value of a property, and where it is.
pub(super) struct Property {
    pub(super) place: Place,
    pub(super) value: String,
}

/// The properties of a profile by their names in small letters; none if there is no such profile.
///
/// `[default]` and `[profile NAME]` are profiles, other sections are not; of `[profile default]` and `[default]` the
/// first is meant. What is given twice is what it was given last. Properties nested below another, as those of `s3`, are
/// its value.
pub(super) fn profile(
    source: &Source,
    index: usize,
    name: &str,
) -> Result<Option<BTreeMap<String, Property>>, Problem> {
    let mut reader = Reader { index, name, section: Section::None, plain: None, marked: None };
    let mut start = 0;
    for line in source.text.split_inclusive('\n') {
        reader.line(start, line.trim_end_matches(['\n', '\r']))?;
        start += line.len();
    }
    Ok(reader.marked.or(reader.plain))
}

struct Reader<'a> {
    index: usize,
    name: &'a str,
    section: Section,
    /// `[default]`, where the default is asked for.
    plain: Option<BTreeMap<String, Property>>,
    /// `[profile NAME]`.
    marked: Option<BTreeMap<String, Property>>,
}

enum Section {
    None,
    Other { in_property: bool },
    Plain(Option<String>),
    Marked(Option<String>),
}

const BLANK: [char; 2] = [' ', '\t'];
const COMMENT: [char; 2] = ['#', ';'];

impl Reader<'_> {
    fn line(&mut self, start: usize, line: &str) -> Result<(), Problem> {
        let whole = line.trim_matches(BLANK);
        if whole.is_empty() || line.starts_with(COMMENT) {
            return Ok(());
        }
        if line.starts_with(BLANK) {
            return self.continuation(start, line);
        }
        if whole.starts_with('[') {
            return self.section(start, whole);
        }
        self.property(start, whole)
    }

    fn section(&mut self, start: usize, line: &str) -> Result<(), Problem> {
        let name = line.split(COMMENT).next().unwrap_or_default().trim_end_matches(BLANK);
        let Some(name) = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')) else {
            return Err(self.problem(
                start,
                line,
                "a section has no closing bracket",
                "write `[profile NAME]`",
            ));
        };
        let name = name.trim_matches(BLANK);
        let marked = name.strip_prefix("profile").filter(|rest| rest.starts_with(BLANK));
        self.section = match marked.map(|name| name.trim_matches(BLANK)) {
            Some(marked) if marked == self.name => {
                self.marked.get_or_insert_default();
                Section::Marked(None)
            }
            None if name == "default" && self.name == "default" => {
                self.plain.get_or_insert_default();
                Section::Plain(None)
            }
            _ => Section::Other { in_property: false },
        };
        Ok(())
    }

    fn property(&mut self, start: usize, line: &str) -> Result<(), Problem> {
        let said = without_comment(line);
        let Some((key, value)) = said.split_once('=') else {
            return Err(self.problem(start, said, "a property has no `=`", "write `NAME = VALUE`"));
        };
        let name = key.trim_matches(BLANK).to_ascii_lowercase();
        if name.is_empty() {
            return Err(self.problem(start, said, "a property has no name", "write `NAME = VALUE`"));
        }
        let at = start + key.len() + 1 + (value.len() - value.trim_start_matches(BLANK).len());
        let value = value.trim_matches(BLANK);
        let place = Place::new(self.index, at..at + value.len());
        let properties = match &mut self.section {
            Section::None => {
                let help = "begin the file with `[default]` or `[profile NAME]`";
                return Err(self.problem(start, said, "a property stands before any section", help));
            }
            Section::Other { in_property } => {
                *in_property = true;
                return Ok(());
            }
            Section::Plain(last) => {
                *last = Some(name.clone());
                &mut self.plain
            }
            Section::Marked(last) => {
                *last = Some(name.clone());
                &mut self.marked
            }
        };
        properties.get_or_insert_default().insert(name, Property { place, value: value.to_owned() });
        Ok(())
    }

    /// A line that begins with a blank goes on with the property above it.
    fn continuation(&mut self, start: usize, line: &str) -> Result<(), Problem> {
        let (properties, last) = match &self.section {
            Section::Other { in_property: true } => return Ok(()),
            Section::Plain(Some(last)) => (&mut self.plain, last),
            Section::Marked(Some(last)) => (&mut self.marked, last),
            _ => {
                let help = "a property begins its line; only what goes on with one is indented";
                return Err(self.problem(start, line, "this line goes on with no property", help));
            }
        };
        if let Some(property) = properties.as_mut().and_then(|properties| properties.get_mut(last)) {
            property.value.push('\n');
            property.value.push_str(line.trim_matches(BLANK));
        }
        Ok(())
    }

    fn problem(&self, start: usize, line: &str, what: &str, help: &str) -> Problem {
        let place = Place::new(self.index, start..start + line.len());
        let message = format!("this is no AWS config file: {what}: `{}`", shorten(line.trim_matches(BLANK)));
        Problem::new(Code::Syntax, &place, message).help(help)
    }
}

/// A comment within a line begins after a blank.
fn without_comment(line: &str) -> &str {
    let comment = line.match_indices(COMMENT).map(|(at, _)| at);
    let mut after_blank = comment.filter(|at| line.get(..*at).is_some_and(|before| before.ends_with(BLANK)));
    after_blank.next().and_then(|at| line.get(..at)).unwrap_or(line).trim_end_matches(BLANK)
}
