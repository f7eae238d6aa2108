//! The pages about presets: what they show of a preset is what it is, and their policy files are read.
//!
//! `UPDATE=1 cargo test -p relent-config --test preset_pages` writes the parts between the marks anew.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on fails"
)]

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use relent_config::{Origin, Preset, Reader, Setting, Surroundings};

/// The pages that show presets.
fn pages() -> Vec<(PathBuf, String)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/presets"));
    let mut pages: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.sort();
    pages.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

/// What a page shows of a preset.
fn shown(preset: &'static Preset) -> String {
    let resolved = preset.with(&[], None).unwrap_or_else(|errors| panic!("{errors}"));
    let mut text = format!("## `{}`\n\n{}.\n\n", preset.name(), preset.description());
    // Also what it has in common with the defaults: whoever compares wants to see it.
    let said = |setting: &&Setting| !matches!(setting.origin, Origin::BuiltIn(_)) && setting.path != "preset";
    let keys: String = resolved
        .settings()
        .iter()
        .filter(said)
        .map(|setting| format!("{} = {}\n", setting.path, setting.value))
        .collect();
    text += &format!("```toml\n{keys}```\n\n");
    let sources: Vec<String> = preset.sources().iter().map(|source| format!("<{source}>")).collect();
    text += &format!(
        "Follows {}, {}; looked up on {}: {}\n\n",
        preset.system(),
        preset.version(),
        preset.checked(),
        sources.join(", ")
    );
    if !preset.differs().is_empty() {
        text += "Where it differs, and why:\n\n";
        for difference in preset.differs() {
            text += &format!("- {difference}\n");
        }
        text.push('\n');
    }
    text
}

/// The page with the parts between `<!-- preset NAME -->` and `<!-- end -->` anew, and which they are.
fn anew(page: &str) -> (String, Vec<&'static str>) {
    let (mut text, mut names) = (String::new(), vec![]);
    let mut rest = page;
    while let Some((before, after)) = rest.split_once("<!-- preset ") {
        let (name, after) = after.split_once(" -->\n").unwrap();
        let (_, after) = after.split_once("<!-- end -->").unwrap_or_else(|| panic!("{name} does not end"));
        let preset = Preset::named(name).unwrap_or_else(|| panic!("there is no preset {name}"));
        names.push(preset.name());
        text += &format!("{before}<!-- preset {name} -->\n{}<!-- end -->", shown(preset));
        rest = after;
    }
    (text + rest, names)
}

#[test]
fn the_pages_show_what_the_presets_are() {
    let mut all = vec![];
    for (path, page) in pages() {
        let (text, names) = anew(&page);
        all.extend(names);
        if text != page {
            assert!(std::env::var_os("UPDATE").is_some(), "{} is out of step: UPDATE=1", path.display());
            fs::write(path, text).unwrap();
        }
    }
    // The families that have a page of their own kind, or need more than their name.
    let elsewhere = |name: &str| name.starts_with("aws-") || name == "step-functions";
    for preset in Preset::all().filter(|preset| !elsewhere(preset.name())) {
        assert!(all.contains(&preset.name()), "no page shows {}", preset.name());
    }
}

/// The blocks of a page in a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        if line == format!("```{language}") {
            blocks.push(lines.by_ref().take_while(|line| *line != "```").collect::<Vec<_>>().join("\n"));
        }
    }
    blocks
}

/// The file that a page shows stands for every path.
#[derive(Debug)]
struct Beside(Vec<String>);

impl Surroundings for Beside {
    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn file(&self, _: &str) -> Result<Option<String>, String> {
        Ok(self.0.first().cloned())
    }
}

#[test]
fn the_policies_of_the_pages_are_policies() {
    let mut count = 0;
    for (path, page) in pages() {
        for block in blocks(&page, "toml") {
            let header = if block.contains("[policies.") { "" } else { "[policies.p]" };
            let version = if block.contains("version =") { "" } else { "version = 1" };
            let reader = Reader::new().surroundings(Arc::new(Beside(blocks(&page, "json"))));
            let read = reader.parse(&format!("{version}\n{header}\n{block}\n"), "page.toml");
            read.unwrap_or_else(|errors| panic!("{}:\n{errors}", path.display()));
            count += 1;
        }
    }
    assert!(count >= 35, "{count}");
}
