//! Texts and places in them.

use std::ops::Range;

use unicode_width::UnicodeWidthChar;

/// How many columns of a line are shown around a place.
const SHOWN: usize = 120;

/// A text that settings come from: a file, a preset, an environment variable, or one option of a command line.
#[derive(Debug)]
pub(crate) struct Source {
    /// The file's name, or the option as it was given.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) kind: SourceKind,
    line_starts: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceKind {
    File,
    Flag,
    /// An environment variable.
    Variable,
    /// A part of this crate: nobody can change it.
    Embedded,
}

/// A range of bytes in one of the [`Sources`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) source: usize,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

impl Place {
    pub(crate) fn new(source: usize, span: Range<usize>) -> Self {
        Self { source, start: span.start, end: span.end }
    }
}

/// A place with all that is needed to show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) name: String,
    pub(crate) kind: SourceKind,
    /// From 1.
    pub(crate) line: usize,
    /// In characters, from 1.
    pub(crate) column: usize,
    pub(crate) span: Range<usize>,
    /// The line, without tabs and control characters, cut to what a terminal shows.
    pub(crate) shown: String,
    /// Where the underline begins, in terminal columns from 0.
    pub(crate) indent: usize,
    /// How long it is, at least 1.
    pub(crate) width: usize,
}

impl Source {
    pub(crate) fn file(name: &str, text: &str) -> Self {
        // A byte order mark is no part of the text; columns count without it.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(breaks).collect();
        Self { name: name.to_owned(), text: text.to_owned(), kind: SourceKind::File, line_starts }
    }

    /// An environment variable and its value.
    pub(crate) fn variable(name: &str, value: &str) -> Self {
        let text = format!("{name}={value}");
        Self { name: name.to_owned(), text, kind: SourceKind::Variable, line_starts: vec![0] }
    }

    /// The text of a preset.
    pub(crate) fn embedded(name: &str, text: &str) -> Self {
        Self { kind: SourceKind::Embedded, ..Self::file(name, text) }
    }

    /// A command-line option and its value.
    pub(crate) fn flag(flag: &str, value: &str) -> Self {
        let text = format!("{flag} {value}");
        Self { name: flag.to_owned(), text, kind: SourceKind::Flag, line_starts: vec![0] }
    }

    pub(crate) fn line_of(&self, at: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= at).max(1)
    }

    pub(crate) fn locate(&self, place: &Place) -> Location {
        let start = floor_boundary(&self.text, place.start);
        let end = floor_boundary(&self.text, place.end.max(start));
        let line = self.line_of(start);
        let begin = self.line_starts.get(line - 1).copied().unwrap_or(0);
        let rest = self.text.get(begin..).unwrap_or_default();
        let content =
            if self.kind == SourceKind::File { rest.lines().next().unwrap_or_default() } else { rest };
        let (shown, indent, width) = excerpt(content, start - begin, end - begin);
        let column = 1 + self.text.get(begin..start).map_or(0, |before| before.chars().count());
        Location {
            name: self.name.clone(),
            kind: self.kind,
            line,
            column,
            span: start..end,
            shown,
            indent,
            width,
        }
    }
}

/// The nearest boundary between characters at or before `at`.
fn floor_boundary(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Whether a terminal would act on it instead of showing it: control characters, and those that turn the direction of
/// writing around.
pub(crate) fn disturbs(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The line as it is shown, and where in it `start..end` (in bytes, cut at the line's end) is underlined.
fn excerpt(line: &str, start: usize, end: usize) -> (String, usize, usize) {
    let mut cells: Vec<(char, usize, bool)> = Vec::new();
    let mut indent = 0;
    let mut width = 0;
    for (at, letter) in line.char_indices() {
        let (letter, cell) = match letter {
            '\t' => (' ', 4),
            letter if disturbs(letter) => ('\u{fffd}', 1),
            letter => (letter, letter.width().unwrap_or(0)),
        };
        if at < start {
            indent += cell;
        } else if at < end {
            width += cell;
        }
        cells.push((letter, cell, at >= start));
    }
    let width = width.max(1);
    let total: usize = cells.iter().map(|(_, cell, _)| cell).sum();
    let tab = |letter: char, cell: usize| if letter == ' ' { " ".repeat(cell) } else { letter.to_string() };
    if total <= SHOWN {
        return (cells.into_iter().map(|(letter, cell, _)| tab(letter, cell)).collect(), indent, width);
    }
    // A window that begins a little before the place.
    let from = indent.saturating_sub(SHOWN / 3);
    let mut shown = String::new();
    let mut at = 0;
    let mut skipped = 0;
    for (letter, cell, _) in cells {
        if at < from {
            skipped = at + cell;
        } else if at + cell <= from + SHOWN {
            shown.push_str(&tab(letter, cell));
        }
        at += cell;
    }
    let dots = if skipped > 0 { "…" } else { "" };
    let tail = if at > from + SHOWN { "…" } else { "" };
    let indent = indent - skipped + dots.chars().count();
    let width = width.min((SHOWN + 1).saturating_sub(indent)).max(1);
    (format!("{dots}{shown}{tail}"), indent, width)
}

/// All texts of one reading; the first is the file.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources(pub(crate) Vec<std::sync::Arc<Source>>);

impl Sources {
    pub(crate) fn locate(&self, place: &Place) -> Option<Location> {
        Some(self.0.get(place.source)?.locate(place))
    }

    /// Whether the place is in a part of this crate.
    pub(crate) fn is_embedded(&self, place: &Place) -> bool {
        self.0.get(place.source).is_some_and(|source| source.kind == SourceKind::Embedded)
    }

    pub(crate) fn text(&self, place: &Place) -> &str {
        self.0
            .get(place.source)
            .and_then(|source| source.text.get(place.start..place.end))
            .unwrap_or_default()
    }
}
