//! What is made of hints.

use std::time::Duration;

use relent_core::{HintMode, HintPolicy, OverMax, Policy};

use super::Reader;
use super::value::unknown_keys;
use crate::names::Section;
use crate::text::{float_text, quoted, text_of, toml_string};
use crate::tree::{Node, Table};

impl Reader<'_> {
    pub(super) fn hint(&mut self, table: &Table) -> HintPolicy {
        let before = self.problems.len();
        let mut hint = HintPolicy::DEFAULT;
        let empty = Table::new();
        let parts =
            self.table(table, "hint", "hint = { mode = \"minimum\", max = \"60s\" }").unwrap_or(&empty);
        self.problems.extend(unknown_keys(Section::Hint, &[], "hint", parts));
        match parts.get("mode") {
            Some(node) => {
                if let Some(mode) = self.hint_mode(node) {
                    hint = hint.mode(mode);
                }
            }
            None => self.built_in("hint.mode", "\"minimum\"".into(), "never earlier than the server asked"),
        }
        let ignored = hint.mode_used() == HintMode::Ignore;
        match parts.get("max") {
            Some(node) if ignored => self.no_effect(node, "`max` has no effect: hints are ignored", None),
            Some(node) => {
                if let Some(max) = self.duration_or_none(node, "hint.max") {
                    self.given("hint.max", text_of(max), node);
                    hint = hint.max(max.unwrap_or(Duration::MAX));
                }
            }
            None if ignored => {}
            None => self.built_in("hint.max", "\"1m\"".into(), "few callers can wait longer"),
        }
        match parts.get("over_max") {
            Some(node) if ignored => {
                self.no_effect(node, "`over_max` has no effect: hints are ignored", None)
            }
            Some(node) => {
                if let Some(word) = self.word(node, "hint.over_max", &["abort", "clamp", "ignore"]) {
                    self.given("hint.over_max", toml_string(word), node);
                    hint = hint.over_max(match word {
                        "clamp" => OverMax::Clamp,
                        "ignore" => OverMax::Ignore,
                        _ => OverMax::Abort,
                    });
                }
            }
            None if ignored => {}
            None => self.built_in(
                "hint.over_max",
                "\"abort\"".into(),
                "coming back earlier than asked is of no use",
            ),
        }
        let clamps = matches!(hint.mode_used(), HintMode::Clamp(_));
        match parts.get("spread") {
            Some(node) if ignored => self.no_effect(node, "`spread` has no effect: hints are ignored", None),
            Some(node) if clamps => {
                self.no_effect(node, "`spread` has no effect: a clamped hint is not spread", None)
            }
            Some(node) => {
                if let Some(spread) = self.ratio(node, "hint.spread", true) {
                    self.given("hint.spread", float_text(spread), node);
                    hint = hint.spread(spread);
                }
            }
            None if ignored || clamps => {}
            None => self.built_in(
                "hint.spread",
                "0.1".into(),
                "clients told the same time must not return together",
            ),
        }
        self.check(Policy::default().to_builder().hint(hint), before, &[table], "");
        hint
    }

    pub(super) fn hint_mode(&mut self, node: &Node) -> Option<HintMode> {
        let Some(table) = node.table() else {
            let word = self.word(node, "hint.mode", &["minimum", "exact", "ignore"])?;
            self.given("hint.mode", toml_string(word), node);
            return Some(match word {
                "exact" => HintMode::Exact,
                "ignore" => HintMode::Ignore,
                _ => HintMode::Minimum,
            });
        };
        self.problems.extend(unknown_keys(Section::HintMode, &[], "hint.mode", table));
        let Some(over) = table.get("clamp") else {
            self.missing(node, "a table for `mode` needs `clamp`", "write `mode = { clamp = \"5s\" }`");
            return None;
        };
        let longest = self.duration(over, "hint.mode.clamp")?;
        self.given("hint.mode", format!("{{ clamp = {} }}", quoted(longest)), over);
        Some(HintMode::Clamp(longest))
    }
}
