//! The page in the documentation that shows the tables.

use std::error::Error;
use std::fs;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/benchmarks.md");
const BEGIN: &str = "<!-- figures: `cargo bench -p relent-bench -- --write` writes from here -->\n";
const END: &str = "<!-- to here -->\n";

/// Puts the figures between the page's two markers.
pub(crate) fn write(figures: &str) -> Result<(), Box<dyn Error>> {
    let page = fs::read_to_string(PAGE)?;
    let (before, rest) = page.split_once(BEGIN).ok_or("the page has lost its first marker")?;
    let (_, after) = rest.split_once(END).ok_or("the page has lost its second marker")?;
    fs::write(PAGE, format!("{before}{BEGIN}\n{figures}\n{END}{after}"))?;
    Ok(())
}
