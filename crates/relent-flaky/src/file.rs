//! The table `[flaky]` of a TOML file.

use std::fmt::Display;
use std::str::FromStr;

use relent_config::{Checks, Code, Entry, Errors, Reader};

use crate::builder::Builder;
use crate::fate::Route;
use crate::parse;
use crate::script::{After, Script};

const KEYS: &[&str] = &[
    "script",
    "after",
    "paths",
    "per",
    "seed",
    "fail",
    "fail_with",
    "latency",
    "outages",
    "capacity",
    "overload",
    "keys",
];

impl Builder {
    /// Takes over what the table `[flaky]` of a TOML text says. `name` is the file's name, for messages.
    ///
    /// ```
    /// let text = r#"
    /// version = 1
    ///
    /// [flaky]
    /// script = "503*2,200"
    /// fail = 0.2
    /// latency = "lognormal(20ms,1.5)"
    /// outages = ["10s..20s/1m=refuse"]
    /// capacity = "50/s"
    /// overload = "429(retry-after=1)"
    ///
    /// [flaky.paths]
    /// "POST /orders" = "close(done),200"
    /// "/static/*" = "200"
    /// "#;
    /// let builder = relent_flaky::Flaky::builder().read(text, "flaky.toml")?;
    /// # Ok::<(), relent_config::Errors>(())
    /// ```
    ///
    /// Keys: `script`, `after` (`"last"`, `"loop"`, `"healthy"`), `paths`, `per`, `seed`, `fail`, `fail_with`, `latency`,
    /// `outages`, `capacity`, `overload`, `keys`. Each means what the setter of its name does.
    ///
    /// # Errors
    ///
    /// All that is wrong with the text, in order of place.
    pub fn read(mut self, text: &str, name: &str) -> Result<Self, Errors> {
        let file = Reader::new().table("flaky").table("scenarios").parse(text, name)?;
        let mut checks = file.checks();
        if let Some(table) = file.table("flaky") {
            checks.only_keys(&table, KEYS);
            self.take_over(&table, &mut checks);
        }
        checks.finish().map(|()| self)
    }

    fn take_over(&mut self, table: &Entry<'_>, checks: &mut Checks) {
        let plan = &mut self.plan;
        let after = table.get("after").and_then(|entry| match entry.string() {
            Some(word) => parsed::<After>(&entry, word, checks),
            None => wrong_type(&entry, "\"last\", \"loop\" or \"healthy\"", checks),
        });
        let after = after.unwrap_or_default();
        let script = |entry: &Entry<'_>, checks: &mut Checks| match entry.string() {
            Some(text) => told(entry, parse::script(text, after), checks),
            None => wrong_type(entry, "a script, such as \"503*2,200\"", checks),
        };
        if let Some(read) = table.get("script").and_then(|entry| script(&entry, checks)) {
            plan.script = read;
        }
        if let Some(paths) = table.get("paths") {
            if !paths.is_table() {
                checks.wrong_type(&paths, "a table of paths and scripts");
            }
            for (pattern, entry) in paths.entries() {
                let Some(script): Option<Script> = script(&entry, checks) else { continue };
                match Route::new(pattern, script) {
                    Some(route) => drop(plan.routes.insert(pattern.trim().to_owned(), route)),
                    None => checks.refuse(
                        Code::BadValue,
                        &entry,
                        &format!("\"{}\" is no path", parse::shown(pattern)),
                        Some("a path is /path, /prefix* or METHOD /path"),
                    ),
                }
            }
        }
        if let Some(entry) = table.get("seed") {
            match entry.integer().and_then(|seed| u64::try_from(seed).ok()) {
                Some(seed) => plan.seed = seed,
                None => checks.wrong_type(&entry, "a whole number of at least 0"),
            }
        }
        if let Some(entry) = table.get("fail") {
            match entry.number() {
                Some(share @ 0.0..=1.0) => plan.fail = share,
                _ => checks.wrong_type(&entry, "a number from 0 to 1"),
            }
        }
        set(table, "per", &mut plan.scope, checks);
        set(table, "fail_with", &mut plan.fail_with, checks);
        set(table, "latency", &mut plan.latency, checks);
        set(table, "overload", &mut plan.overload, checks);
        set(table, "keys", &mut plan.keys, checks);
        if let Some(entry) = table.get("capacity") {
            plan.capacity = text_of(&entry, checks).or(plan.capacity);
        }
        if let Some(entry) = table.get("outages") {
            if !entry.is_array() {
                checks.wrong_type(&entry, "an array such as [\"10s..20s\"]");
            }
            plan.outages.extend(entry.items().iter().filter_map(|item| text_of(item, checks)));
        }
    }
}

fn set<T: FromStr<Err: Display>>(table: &Entry<'_>, key: &str, place: &mut T, checks: &mut Checks) {
    if let Some(value) = table.get(key).and_then(|entry| text_of(&entry, checks)) {
        *place = value;
    }
}

fn text_of<T: FromStr<Err: Display>>(entry: &Entry<'_>, checks: &mut Checks) -> Option<T> {
    match entry.string() {
        Some(text) => parsed(entry, text, checks),
        None => wrong_type(entry, "a string", checks),
    }
}

fn parsed<T: FromStr<Err: Display>>(entry: &Entry<'_>, text: &str, checks: &mut Checks) -> Option<T> {
    told(entry, text.parse::<T>(), checks)
}

fn told<T, E: Display>(entry: &Entry<'_>, result: Result<T, E>, checks: &mut Checks) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            // The place in the file is shown already; the rest would show the same line once more.
            let told = error.to_string();
            let first = told.lines().next().unwrap_or_default();
            checks.refuse(Code::BadValue, entry, &format!("`{}`: {first}", entry.path()), None);
            None
        }
    }
}

fn wrong_type<T>(entry: &Entry<'_>, expected: &str, checks: &mut Checks) -> Option<T> {
    checks.wrong_type(entry, expected);
    None
}
