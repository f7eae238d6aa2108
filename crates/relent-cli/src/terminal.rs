//! What the output may use: how wide it is, whether it can show block characters, and the colours.
//!
//! Whether colours are shown at all is decided by the stream ([`anstream`]): only on a terminal, and never with
//! `NO_COLOR`.

use std::env;

/// Where output goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Terminal {
    /// Columns.
    pub(crate) width: usize,
    /// Whether more than ASCII can be shown.
    pub(crate) unicode: bool,
}

/// What is used where no terminal says how wide it is: a file, a pipe, a log of a CI run.
const WIDTH_UNKNOWN: usize = 80;
/// Below this nothing can be drawn; the terminal may wrap as it likes.
const NARROWEST: usize = 24;
/// Longer lines are harder to read than they are informative.
const WIDEST: usize = 120;

impl Terminal {
    /// Standard output, by what the environment says.
    pub(crate) fn of_stdout() -> Self {
        let columns = || env::var("COLUMNS").ok()?.parse().ok();
        let width = terminal_size::terminal_size().map(|(width, _)| usize::from(width.0)).or_else(columns);
        Self { width: width.unwrap_or(WIDTH_UNKNOWN).clamp(NARROWEST, WIDEST), unicode: locale_is_utf8() }
    }
}

/// By the first of the variables that POSIX asks in this order. Other systems than Unix set none and show UTF-8.
fn locale_is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(|name| env::var(name).ok())
        .find(|value| !value.is_empty());
    match locale {
        Some(locale) => {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        }
        None => cfg!(not(unix)) || cfg!(target_os = "macos"),
    }
}

/// The few styles that are used, by meaning.
pub(crate) mod style {
    use anstyle::{AnsiColor, Style};

    pub(crate) const HEADING: Style = Style::new().bold();
    pub(crate) const FAINT: Style = Style::new().dimmed();
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
    pub(crate) const BAD: Style = AnsiColor::Red.on_default();
    pub(crate) const ACCENT: Style = AnsiColor::Cyan.on_default();
}
